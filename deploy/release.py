"""The checklist of a release: `python deploy/release.py`. It checks what a program can check,
builds the site and the wheel, writes install.sh and the files of app stores for them, and prints
the steps that are left. Nothing is published, tagged or changed. Exit code 1: something is to be
done first."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ("deploy/install.sh", "deploy/stores")
"""Files, and folders of them, that name the version, the address, and the image of a release."""
PICTURES = {
    "icon.svg": "channels/web/page/icon.svg",
    "stores/home-assistant/icon.png": "channels/web/page/icon-192.png",
}
"""The icons that stores show, by their places in a release: those of the page."""
SEMANTIC = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")
HEADING = re.compile(r"^## (\S+)(.*)$", re.MULTILINE)
LEFT = """Left to do by hand:
  1. .ci/run on a clean checkout
  2. make bench on a quiet machine, and its figures into docs/performance.md
  3. git tag -s v{version} && git push origin v{version}
  4. publish {built} at {url}, and the image ({image}:{version})
  5. the changelog's part as the text of the release
  6. install it from where it was published, and talk to it"""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the list; `remedy` says what to do where it is not met."""

    name: str
    is_met: bool
    remedy: str


def run(*command: str, root: Path = ROOT) -> tuple[int, str]:
    """Return the exit code of a command, and what it printed."""
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def checks(root: Path, version: str) -> Iterator[Check]:
    """Check all that can be checked without building anything."""
    yield Check(
        f"the version {version} is a semantic one",
        bool(SEMANTIC.fullmatch(version)),
        "give it three numbers: MAJOR.MINOR.PATCH",
    )
    newest = HEADING.search((root / "CHANGELOG.md").read_text("utf-8"))
    name, rest = newest.groups() if newest else ("", "")
    yield Check(
        "the changelog begins with this version",
        name == version,
        f"it begins with {name or 'none'}; correct it, or the version",
    )
    yield Check(
        "the changelog calls it released",
        "not released" not in rest,
        f"take “{rest.strip()}” out of its heading",
    )
    _, changed = run("git", "status", "--porcelain", root=root)
    yield Check("nothing is left to commit", not changed, f"commit or remove:\n{changed}")
    _, tags = run("git", "tag", "--list", f"v{version}", root=root)
    yield Check(f"there is no tag v{version} yet", not tags, "this version is out; take the next")
    yield tests_passed(root)


def tests_passed(root: Path) -> Check:
    """Look at what pytest noted of its last run."""
    cache = root / ".pytest_cache" / "v" / "cache"
    has_run = (cache / "nodeids").exists()
    failed = cache / "lastfailed"
    names = [*json.loads(failed.read_text("utf-8"))] if failed.exists() else []
    remedy = "run make test-all" if not names else f"they failed: {', '.join(names[:5])}"
    return Check("the last run of the tests found nothing", has_run and not names, remedy)


def build(root: Path, folder: Path) -> Iterator[Check]:
    """Build the site, and the wheel where there is one."""
    code, said = run(sys.executable, "-m", "tests.docs.site", str(folder / "docs"), root=root)
    yield Check("the site builds, with all links", code == 0, said[-2_000:])
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    if "build-system" in project:
        command = (sys.executable, "-m", "build", "--outdir", str(folder), str(root))
        code, said = run(*command, root=root)
        yield Check("the wheel builds", code == 0, said[-2_000:])


@dataclass(frozen=True, slots=True)
class Published:
    """All that the files of a release say of where it is."""

    version: str
    url: str
    image: str

    def fill(self, text: str) -> str:
        """Write this into a template."""
        for name in ("version", "url", "image"):
            text = text.replace(f"{{{{{name}}}}}", getattr(self, name))
        return text


def write_templates(root: Path, folder: Path, published: Published) -> None:
    """Write install.sh and the files of app stores with their icons, and SHA256SUMS of what is
    downloaded."""
    for name in TEMPLATES:
        origin = root / name
        for file in (one for one in (origin, *origin.rglob("*")) if one.is_file()):
            target = folder / file.relative_to(root / "deploy")
            target.parent.mkdir(parents=True, exist_ok=True)
            text = published.fill(file.read_text("utf-8"))
            target.write_text(text, encoding="utf-8", newline="\n")
            target.chmod(file.stat().st_mode)
    for place, picture in PICTURES.items():
        (folder / place).write_bytes((root / picture).read_bytes())
    wheels = sorted(folder.glob("*.whl"), key=lambda one: one.stat().st_mtime)
    there = (*wheels[-1:], folder / "install.sh")  # no wheel of a release before
    sums = (f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in there)
    (folder / "SHA256SUMS").write_text("".join(sums), encoding="utf-8", newline="\n")


def main() -> int:
    """Print the list; returns the exit code."""
    parser = argparse.ArgumentParser(description="Check a release, and say what is left to do.")
    parser.add_argument("--output", type=Path, help="the folder for what is built")
    parser.add_argument("--no-build", action="store_true", help="check only")
    parser.add_argument("--url", default="", help="where the release is published")
    parser.add_argument("--image", default="parley", help="the image's name, with its registry")
    options = parser.parse_args()
    _, said = run(sys.executable, "main.py", "--version")
    version = said.removeprefix("Parley ").strip()
    folder = options.output or Path(tempfile.mkdtemp(prefix="parley-release-"))
    found = list(checks(ROOT, version))
    if not options.no_build:
        found += build(ROOT, folder.resolve())
        write_templates(ROOT, folder.resolve(), Published(version, options.url, options.image))
    lines = []
    for check in found:
        lines.append(f"{'ok  ' if check.is_met else 'TODO'} {check.name}")
        if not check.is_met:
            lines.append("       " + check.remedy.replace("\n", "\n       "))
    place = options.url or "an address (--url)"
    left = LEFT.format(version=version, built=folder, url=place, image=options.image)
    sys.stdout.write("\n".join([*lines, left, ""]))
    return 0 if all(check.is_met for check in found) else 1


if __name__ == "__main__":
    sys.exit(main())
