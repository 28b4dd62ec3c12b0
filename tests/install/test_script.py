"""Tests of `deploy/install.sh` with a local file server: it installs, upgrades, refuses,
uninstalls."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

SCRIPT = Path(__file__).parents[2] / "deploy" / "install.sh"
SHELLS = ("dash" if shutil.which("dash") else "sh", "bash")
pytestmark = pytest.mark.usefixtures("processes")


class Quiet(SimpleHTTPRequestHandler):
    """A file server without logs. It sends half of a file `x.part`, and disconnects."""

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        file = Path(self.translate_path(self.path))
        if not file.with_name(f"{file.name}.part").exists():
            return super().do_GET()
        content = file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        return None


class Person:
    """A person with a home folder, and an address for downloading Parley."""

    def __init__(self, home: Path, url: str) -> None:
        self.home, self.url = home, url
        self.bin = home / ".local/bin"

    def run(
        self, *arguments: str, shell: str = "sh", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        # The wheels of these tests have no dependencies, so no index is needed.
        told = {"HOME": str(self.home), "PARLEY_URL": self.url, "PIP_NO_INDEX": "1"}
        return subprocess.run(
            [shutil.which(shell) or shell, str(SCRIPT), *arguments],
            env=kept | told | {"TMPDIR": str(self.home.parent), "PARLEY_WITH": "venv"} | environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def refused(self, **environ: str) -> str:
        done = self.run(**environ)
        assert done.returncode == 1, done.stdout + done.stderr
        assert not [*self.home.parent.glob("tmp.*")], "what was downloaded is left"
        return done.stderr.strip().splitlines()[-1]


@pytest.fixture
def served(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    return folder


@pytest.fixture
def person(tmp_path: Path, served: Path) -> Iterator[Person]:
    home = tmp_path / "a home's folder"
    home.mkdir()
    handler = functools.partial(Quiet, directory=str(served))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Person(home, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def publish(folder: Path, version: str) -> Path:
    """Write a wheel with a command that only prints its version."""
    info = f"parley_bot-{version}.dist-info"
    files = {
        "parley_bot.py": f"def main():\n    print('Parley {version}')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: parley-bot\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nparley = parley_bot:main\n",
    }
    records = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    wheel = folder / f"parley_bot-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in (*files.items(), (f"{info}/RECORD", records)):
            archive.writestr(name, text)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lines = f"{'0' * 64}  install.sh\n{digest}  {wheel.name}\n"
    (folder / "SHA256SUMS").write_text(lines, newline="\r\n" if version == "1.0.0" else "\n")
    return wheel


def test_it_installs_upgrades_and_takes_away(person: Person, served: Path) -> None:
    program = person.home / ".local/share/parley-program/bin"
    program.mkdir(parents=True)
    (program / "python").symlink_to(person.home / "gone")  # of a Python that was removed
    for version, shell in zip(("1.0.0", "1.1.0"), SHELLS, strict=True):
        publish(served, version)
        done = person.run(shell=shell)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"Parley {version} is in {person.bin}." in done.stdout
        assert f"Run: {person.bin}/parley (or put" in done.stdout
    (person.home / ".config/parley").mkdir(parents=True)
    assert person.run("--uninstall", shell=shell).returncode == 0
    assert not [*person.home.rglob("parley*/*"), *person.bin.iterdir()]
    assert (person.home / ".config/parley").is_dir()
    again = person.run("--uninstall", shell=shell)
    assert (again.returncode, again.stderr) == (1, "Parley was not installed by this script.\n")


@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_uv_and_pipx_are_asked_where_they_are(person: Person, served: Path, tool: str) -> None:
    """A fake program replaces the tool; the tool's own work on a wheel is not tested."""
    publish(served, "1.0.0")
    tools = person.home / "tools"
    tools.mkdir()
    (tools / tool).write_text(
        f'#!/bin/sh\necho "$@" >> "{tools}/said"\n'
        f'case "$*" in *dir*|*BIN_DIR) echo "{tools}";; esac\n'
    )
    real = person.home / "parley-bot/bin/parley"
    real.parent.mkdir(parents=True)
    real.write_text("#!/bin/sh\necho Parley 1.0.0\n")
    (tools / "parley").symlink_to(real)
    for script in (tools / tool, real):
        script.chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    done = person.run(PATH=path, PARLEY_WITH="" if tool == "uv" else tool)
    assert done.returncode == 0, done.stderr
    said = (tools / "said").read_text().splitlines()[1]
    assert said.startswith("tool install --force" if tool == "uv" else "install --force")
    assert said.endswith("/parley_bot-1.0.0-py3-none-any.whl")
    assert done.stdout.endswith(f"Parley 1.0.0 is in {tools}.\nRun: parley\n")
    assert person.run("--uninstall", PATH=path).returncode == 0
    assert "uninstall parley-bot" in (tools / "said").read_text().splitlines()[-1]


def test_another_program_of_the_name_stays(person: Person, served: Path) -> None:
    publish(served, "1.0.0")
    person.bin.mkdir(parents=True)
    other = person.bin / "parley"
    other.write_text("#!/bin/sh\n")
    assert f"{other} is another program" in person.refused()
    (person.home / ".local/share/parley-program").mkdir(parents=True)
    assert person.run("--uninstall").returncode == 0
    assert other.read_text() == "#!/bin/sh\n"


def test_it_refuses_with_a_sentence_and_installs_nothing(person: Person, served: Path) -> None:
    wheel = publish(served, "1.0.0")
    half = wheel.with_name(f"{wheel.name}.part")
    half.touch()
    assert "could not be downloaded. Check the network" in person.refused()
    half.unlink()
    sound = wheel.read_bytes()
    for spoilt in (sound + b"x", sound[:100], b""):
        wheel.write_bytes(spoilt)
        assert "is not the file that was published" in person.refused()
    wheel.write_bytes(sound)
    old = person.home / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    path = only(
        person.home / "few", {"tr", "tail", "cut", "grep", "cat", "mktemp", "rm", "sha256sum"}
    )
    environ = {"PATH": path, "PYTHON": str(old)}
    assert person.refused(**environ).startswith("Parley needs Python 3.11 or newer")
    environ["PYTHON"] = sys.executable
    assert person.refused(**environ).startswith("Neither curl nor wget is here")
    assert "names no wheel of Parley" in person.refused(**nothing_published(person, served))
    assert "could not be downloaded" in person.refused(PARLEY_URL=f"{person.url}/none")
    assert "could not be downloaded" in person.refused(PARLEY_URL="http://127.0.0.1:9")
    assert "Name the folder that Parley is downloaded from" in person.refused(PARLEY_URL="x")
    assert "PARLEY_WITH=vnev can't be used here" in person.refused(PARLEY_WITH="vnev")
    publish(served, "1.0.0")
    (person.home / ".local").write_text("a file is in the way\n")
    assert "can't be written" in person.refused()
    assert person.run("--help").stderr.startswith("--help is unknown.")


def only(folder: Path, names: set[str]) -> str:
    """Return a PATH with only these programs."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or name)
    return str(folder)


def nothing_published(person: Person, served: Path) -> Mapping[str, str]:
    (served / "empty").mkdir()
    (served / "empty" / "SHA256SUMS").write_text("<html>Sign in</html>\n")
    return {"PARLEY_URL": f"{person.url}/empty"}


def test_without_a_home_it_says_so() -> None:
    said = subprocess.run(
        ["sh", str(SCRIPT)], env={"PATH": os.defpath}, capture_output=True, text=True
    )
    assert said.returncode != 0
    assert said.stderr.strip().endswith("HOME: names no folder; set it to yours")


def test_it_is_short_and_a_linter_finds_nothing() -> None:
    assert len(SCRIPT.read_text().splitlines()) < 100
    linter = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([linter, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
