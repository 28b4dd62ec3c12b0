"""`python -m bot.installing [--new FOLDER] ARGUMENTS…`: install packages, and show the progress.

`--new FOLDER` makes a virtual environment first. uv is used if it is installed, since it takes a
fifth of pip's time. pip is used if uv is missing or failed: pip may know an index that uv does not.
pip reports which package it fetches next and the size of a file; the downloaded size and the number
of installed packages are read from the disk. uv reports the size of each large file, and when it is
there. Only standard library modules are imported.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import IO

from bot.progress import BYTES, ProgressLine

_PIP = (
    *(sys.executable, "-m", "pip", "install", "--progress-bar", "off"),
    *("--disable-pip-version-check", "--no-input"),
)
_UV = "uv>=0.5"
_FETCHED = re.compile(r"Collecting |Requirement already satisfied: ")
_FILE = re.compile(r"\s*Downloading (\S+) \(([\d.]+) ([kMG]B)\)")
_UV_FILE = re.compile(r"Downloading (\S+) \(([\d.]+) ?([KMG]iB)\)")
_UV_FETCHED = re.compile(r"\s*(?:Downloaded|Prepared|Built) (\S+)")
_UNITS = {"kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_UNITS |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_LARGE = 20_000_000  # bytes of a file that has a line of its own
_PAUSE = 0.2  # seconds between two updates


class PackageInstallation:
    """The state of an installation of this many packages, from pip's output, and its progress
    line."""

    def __init__(self, packages: int, work: Path, installed: Path) -> None:
        self._packages, self._work, self._installed = packages, work, installed
        self._before = self._count_installed()
        self._fetched = self._size = 0
        self._shown = ProgressLine("Fetching", "packages")
        self._tell = self._show_fetched

    def read_line(self, line: str) -> None:
        """Process a line of pip's output."""
        if found := _FILE.match(line):
            self._size = round(float(found[2]) * _UNITS[found[3]])
            if self._size >= _LARGE:
                self._set_stage(ProgressLine(f"Downloading {found[1].split('/')[-1]}", BYTES))
                self._tell = self._show_file
        elif _FETCHED.match(line):
            self._fetched += 1
            if self._tell == self._show_file:
                self._set_stage(ProgressLine("Fetching", "packages"))
            self._tell = self._show_fetched
        elif line.startswith("Installing collected packages: "):
            self._packages = line.count(",") + 1
            self._set_stage(ProgressLine("Installing", "packages"))
            self._tell = self._show_installed

    def show(self) -> None:
        """Show the progress."""
        self._tell()

    def close(self) -> None:
        self._shown.close()

    def _set_stage(self, shown: ProgressLine) -> None:
        self._shown.close()
        self._shown = shown

    def _show_fetched(self) -> None:
        self._shown.show_progress(
            max(0, self._fetched - 1), self._packages
        )  # the last one is being fetched

    def _show_file(self) -> None:
        files = [path for path in self._work.rglob("*") if path.is_file()]
        self._shown.show_progress(max((_size(path) for path in files), default=0), self._size)

    def _show_installed(self) -> None:
        self._shown.show_progress(self._count_installed() - self._before, self._packages)

    def _count_installed(self) -> int:
        return len([*self._installed.glob("*.dist-info")])


class UvInstallation:
    """The state of an installation, from uv's output, and its progress line: the bytes of the large
    files, which uv names as soon as it knows all packages. `messages` is the rest of the output."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self._sizes: dict[str, int] = {}
        self._left: dict[str, int] = {}
        self._shown = ProgressLine("Downloading", BYTES)

    def read_line(self, line: str) -> None:
        """Process a line of uv's output."""
        if found := _UV_FILE.match(line):
            size = round(float(found[2]) * _UNITS[found[3]])
            self._sizes[found[1]] = self._left[found[1]] = size
        elif found := _UV_FETCHED.match(line):
            self._left.pop(found[1], 0)
        else:
            self.messages.append(line)

    @property
    def downloaded(self) -> tuple[int, int]:
        """The bytes that are there, and those of all large files."""
        total = sum(self._sizes.values())
        return total - sum(self._left.values()), total

    def show(self) -> None:
        """Show the progress."""
        if self._sizes:
            self._shown.show_progress(*self.downloaded)

    def close(self) -> None:
        self._shown.close()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _count_in(file: Path) -> int:
    try:
        return count_requirements(file.read_text("utf-8").splitlines())
    except OSError:
        return 0  # pip reports it


def count_requirements(lines: Iterable[str]) -> int:
    """Return the number of packages in a requirements file."""
    return sum(bool(re.match(r"\s*[A-Za-z0-9]", line)) for line in lines)


def install(arguments: Sequence[str], errors: IO[bytes]) -> int:
    """Run `pip install`; return its exit code. Its error messages go to `errors`."""
    pairs = itertools.pairwise(arguments)
    packages = sum(_count_in(Path(name)) for flag, name in pairs if flag == "-r")
    with tempfile.TemporaryDirectory() as work:
        process = subprocess.Popen(
            [*_PIP, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "TMPDIR": work},
            text=True,
            errors="replace",
        )
        state = PackageInstallation(packages, Path(work), Path(sysconfig.get_path("purelib")))
        return _follow(process, process.stdout, state)


def _follow(
    process: subprocess.Popen[str],
    output: IO[str] | None,
    state: PackageInstallation | UvInstallation,
) -> int:
    """Show the progress of a process until it ends; return its exit code."""
    reading = Thread(target=_read, args=(output, state), daemon=True)
    reading.start()
    try:
        while reading.is_alive():
            state.show()
            reading.join(_PAUSE)
        return process.wait()
    finally:
        state.close()
        process.kill()
        process.wait()  # it may write into a folder that is deleted next


def _read(output: IO[str] | None, state: PackageInstallation | UvInstallation) -> None:
    assert output is not None
    with output:
        for line in output:
            state.read_line(line)


def find_uv(python: Path) -> str | None:
    """Return the uv beside this Python, or else the one on the PATH."""
    return shutil.which("uv", path=str(python.parent)) or shutil.which("uv")


def make_environment(folder: Path) -> int:
    """Make a virtual environment with pip, and with uv if it is available; return the exit code.
    pip is installed by uv: Python's own way takes ten times as long."""
    venv.create(folder, clear=True, symlinks=os.name != "nt")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not find_uv(python):
        _is_done(sys.executable, "-m", "pip", "--python", str(python), "install", _UV)
    uv = find_uv(python)
    if uv and _is_done(uv, "pip", "install", "--quiet", "--python", str(python), "pip"):
        return 0
    return subprocess.run([str(python), "-m", "ensurepip"], check=False).returncode


def _is_done(*command: str) -> bool:
    return not subprocess.run(command, check=False, capture_output=True).returncode


def main(arguments: Sequence[str]) -> int:
    """Install into this Python, or make the environment behind `--new`; return the exit code. The
    error messages of uv and pip go to stderr."""
    if arguments[:1] == ["--new"]:
        return make_environment(Path(arguments[1]))
    python = Path(sys.executable)
    if (uv := find_uv(python)) and not _try_uv(uv, python, arguments):
        return 0
    if find_spec("pip") is None:
        return 1
    with tempfile.TemporaryFile() as file:
        code = install(arguments, file)
        if code:
            file.seek(0)
            sys.stderr.write(file.read().decode("utf-8", "replace"))
        return code


def _try_uv(uv: str, python: Path, arguments: Sequence[str]) -> int:
    """Install with uv; return its exit code. Its messages go to stderr if it failed."""
    command = [uv, "pip", "install", "--python", str(python), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    state = UvInstallation()
    if code := _follow(process, process.stderr, state):
        sys.stderr.writelines(state.messages)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
