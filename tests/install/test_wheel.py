"""Tests of the wheel: built, installed into a separate environment, used, and uninstalled."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import venv
from importlib.metadata import Distribution, distributions
from pathlib import Path

import aiohttp
import pytest
from packaging.requirements import Requirement

from bot.app import VERSION
from channels.program import EXTRAS, ROOT
from memory.record.rehearsal import NEWEST
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.upgrades.record import list_recorded
from tests.upgrades.test_upgrades import bring_back, query
from tests.waiting import PATIENCE
from tests.web.test_process import ANYWHERE, url_of
from tests.whole.process import talking

pytestmark = pytest.mark.usefixtures("processes")

LAYERS = ("agent", "bot", "channels", "memory", "plugins", "main")
_OF_EACH = {path.name.partition("-")[0]: path for path in list_recorded()}
RELEASES = (list_recorded()[0], *_OF_EACH.values())
"""The oldest recorded data, and that of each release."""


class Installed:
    """An environment with the wheel, which also finds the packages of the tests' environment."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.create(folder, symlinks=True)
        self.python, self.parley = folder / "bin/python", folder / "bin/parley"
        (self.packages,) = (folder / "lib").glob("python*/site-packages")
        (self.packages / "tests.pth").write_text("\n".join(site.getsitepackages()))
        self.before = self.list_files()
        self.pip("install", "--no-deps", "--no-index", str(wheel))

    def pip(self, *arguments: str) -> None:
        command = (sys.executable, "-m", "pip", "--quiet", "--python", str(self.python))
        subprocess.run([*command, *arguments], check=True, timeout=PATIENCE)

    def list_files(self) -> set[str]:
        folders = (self.packages, self.parley.parent)
        return {str(path) for folder in folders for path in folder.rglob("*") if path.is_file()}

    def run(self, *command: str, home: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, cwd=home, env=at_home(home)
        )


def at_home(home: Path) -> dict[str, str]:
    """Return environment variables with this home folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return kept | {"HOME": str(home)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the source archive, which is built from this checkout."""
    target = tmp_path_factory.mktemp("dist")
    command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT))
    subprocess.run(command, check=True, capture_output=True, timeout=2 * PATIENCE)
    assert [*target.glob("parley_bot-*.tar.gz")]
    (made,) = target.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed") / "venv", wheel)


def test_it_has_one_package_and_the_layers_are_found_by_nobody_else(
    installed: Installed, tmp_path: Path
) -> None:
    tops = {path.name for path in installed.packages.iterdir()}
    assert tops == {"parley_bot", f"parley_bot-{VERSION}.dist-info", "tests.pth"}
    look = f"from importlib.util import find_spec; print([find_spec(n) for n in {LAYERS}])"
    found = installed.run(str(installed.python), "-c", look, home=tmp_path)
    assert found.stdout.strip() == str([None] * len(LAYERS))


def test_all_files_of_the_program_are_in_it(installed: Installed) -> None:
    app = installed.packages / "parley_bot/_app"
    listed = subprocess.run(
        ["git", "ls-files", *LAYERS[:-1]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    expected = {*listed.stdout.split("\n"), "main.py", "config.json", "requirements.txt"} - {""}
    there = {path.relative_to(app).as_posix() for path in app.rglob("*") if path.is_file()}
    assert {path for path in there if "__pycache__" not in path} == expected


def test_it_needs_what_the_checkout_needs_and_names_its_extras(installed: Installed) -> None:
    (wheel,) = distributions(name="parley-bot", path=[str(installed.packages)])
    assert wheel.version == VERSION
    assert set(wheel.metadata.get_all("Provides-Extra") or ()) == {*EXTRAS}
    needed = [Requirement(text) for text in wheel.requires or ()]
    base = [one for one in needed if one.marker is None or "extra" not in str(one.marker)]
    pins = (ROOT / "requirements.txt").read_text("utf-8")
    assert [f"{one.name}{one.specifier}" in pins for one in base] == [True] * len(base)
    assert len(base) == sum("==" in line for line in pins.splitlines())
    for one in base:
        if one.marker is None or one.marker.evaluate():
            assert Distribution.from_name(one.name).version in one.specifier


async def test_it_talks_and_keeps_everything_in_the_persons_own_folders(
    installed: Installed, tmp_path: Path
) -> None:
    (tmp_path / ".config/parley").mkdir(parents=True)
    (tmp_path / ".config/parley/.env").write_text("PARLEY_MODEL=gpt-4o-mini\n")
    script = [
        Say(calls=(Call("write_file", '{"path": "tea.txt", "content": "green\\nblack"}'),)),
        Say(calls=(Call("grep", '{"pattern": "gr.+n"}'),)),
        Say("Green it is."),
    ]
    async with (
        OpenAIServer(script) as server,
        talking(
            tmp_path,
            server,
            shell=f'shift 6; cd /; exec {installed.parley} "$@"',
            environ=at_home(tmp_path),
        ) as bot,
    ):
        assert (await bot.says("Which tea?"))["text"] == "Green it is."
        found = server.requests[-1].body["messages"][-1]
        assert "green" in str(found), "the process that searches files runs, too"
        assert "gpt-4o-mini" in (await bot.says("/config model"))["text"]
        assert await bot.ended() == 0, bot.errors
    data = tmp_path / ".local/share/parley/data"
    assert (data / "audiences/pipe-main/files/tea.txt").read_text() == "green\nblack"
    assert (data / "parley.db").is_file()
    there = {*os.listdir(tmp_path)}
    assert there == {".config", ".local", "config.json"}, "the last is of the test itself"


async def test_it_serves_the_page(installed: Installed, tmp_path: Path) -> None:
    async with (
        talking(
            tmp_path,
            None,
            ANYWHERE,
            arguments=("--web",),
            shell=f'shift 2; exec {installed.parley} "$@"',
        ) as bot,
        aiohttp.ClientSession() as http,
        http.get(await url_of(bot)) as response,
    ):
        assert response.status == 200
        assert "<title>" in await response.text()


def test_its_commands_are_called_as_they_are_installed(
    installed: Installed, tmp_path: Path
) -> None:
    parley = str(installed.parley)
    for call in ((parley,), (str(installed.python), "-m", "parley_bot")):
        assert installed.run(*call, "--version", home=tmp_path).stdout == f"Parley {VERSION}\n"
    shown = installed.run(parley, "--help", home=tmp_path).stdout
    assert "usage: parley " in shown
    assert "main.py" not in shown
    refused = installed.run(parley, "backup", "saved.tar.gz", home=tmp_path)
    assert refused.returncode == 1
    assert "main.py" not in refused.stderr
    told = installed.run(parley, "doctor", home=tmp_path).stdout
    assert "ok   packages" in told
    assert "run `parley audit`" in told


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
async def test_the_data_of_an_earlier_release_is_upgraded(
    installed: Installed, tmp_path: Path, release: Path
) -> None:
    bring_back(release, tmp_path)
    places = ("--config", str(tmp_path / "config.json"), "--data", str(tmp_path / "data"))
    done = installed.run(str(installed.parley), *places, "upgrade", home=tmp_path)
    assert "Upgraded. Start the bot" in done.stdout, done.stdout + done.stderr
    assert query(tmp_path, "PRAGMA user_version") == [(NEWEST,)]
    async with (
        OpenAIServer(lambda request: Say("It is answered.")) as server,
        talking(tmp_path, server, shell=f'shift 2; exec {installed.parley} "$@"') as bot,
    ):
        assert (await bot.says("And now?"))["text"] == "It is answered."
        assert await bot.ended() == 0


COMPLETED = (
    ("", {"init", "doctor"}),
    ("do", {"doctor"}),
    ("--ver", {"--version"}),
    ("key ", {"add", "list", "revoke"}),
    ("key re", {"revoke"}),
    ("--config x completion ", {"bash", "fish", "zsh"}),
    ("add dis", {"discord"}),
)
"""The beginning of a line, and its possible next words."""
SHELLS = {
    "bash": 'COMP_WORDS=(parley $2 ${3:-}); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); [[ "$3" ]] || '
    '{ COMP_WORDS+=(""); COMP_CWORD=$((COMP_CWORD + 1)); }; _parley; printf "%s\\n" '
    '"${COMPREPLY[@]}"',
    "zsh": 'words=(parley ${=2} "$3"); CURRENT=${#words}; _parley',
    "fish": 'complete -C "parley $argv[2] $argv[3]" | string replace -r "\\t.*" ""',
}
BEFORE = {
    "zsh": "compdef() { }; _files() { }; compadd() { shift; print -l -- ${(M)@:#$words[-1]*}; }; "
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_its_commands(installed: Installed, tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"install {shell}")
    script = tmp_path / "completion"
    made = installed.run(str(installed.parley), "completion", shell, home=tmp_path)
    script.write_text(made.stdout)
    load = 'source "$argv[1]"; ' if shell == "fish" else 'source "$1"; '
    code = BEFORE.get(shell, "") + load + SHELLS[shell]
    name = () if shell == "fish" else ("shell",)
    for line, expected in COMPLETED:
        before, _, word = line.rpartition(" ")
        words = (shell, "-c", code, *name, str(script), before, word)
        done = installed.run(*words, home=tmp_path)
        found = {*done.stdout.split()}
        assert expected <= found, (line, done.stdout, done.stderr)
        if word:
            assert all(one.startswith(word) for one in found), line


def test_nothing_is_left_when_it_is_taken_away(wheel: Path, tmp_path: Path) -> None:
    installed = Installed(tmp_path / "venv", wheel)
    assert installed.run(str(installed.parley), "doctor", home=tmp_path).stdout
    installed.pip("uninstall", "--yes", "parley-bot")
    assert installed.list_files() == installed.before
    assert not (installed.packages / "parley_bot").exists()
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())) == '["venv"]'
