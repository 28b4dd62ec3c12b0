"""`python -m bot.installing [--errors FILE] ARGUMENTS…`: `pip install` with a line of progress.

pip says which package it fetches next and how large a file is; how much of it is there, and how
many packages are installed, is seen on the disk. Only modules of Python itself are imported.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Thread
from typing import IO

from bot.progress import BYTES, ProgressLine

_PIP = (
    *(sys.executable, "-m", "pip", "install", "--progress-bar", "off"),
    *("--disable-pip-version-check", "--no-input"),
)
_FETCHED = re.compile(r"Collecting |Requirement already satisfied: ")
_FILE = re.compile(r"\s*Downloading (\S+) \(([\d.]+) ([kMG]B)\)")
_UNITS = {"kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_LARGE = 20_000_000  # bytes of a file that has a line of its own
_PAUSE = 0.2  # seconds between two looks


class PackageInstallation:
    """The state of an installation of so many packages, as pip tells it, and the line for it."""

    def __init__(self, packages: int, work: Path, installed: Path) -> None:
        self._packages, self._work, self._installed = packages, work, installed
        self._before = self._count_installed()
        self._fetched = self._size = 0
        self._shown = ProgressLine("Fetching", "packages")
        self._tell = self._tell_fetched

    def hear(self, line: str) -> None:
        """Take in a line of pip's."""
        if found := _FILE.match(line):
            self._size = round(float(found[2]) * _UNITS[found[3]])
            if self._size >= _LARGE:
                self._turn_to(ProgressLine(f"Downloading {found[1].split('/')[-1]}", BYTES))
                self._tell = self._tell_file
        elif _FETCHED.match(line):
            self._fetched += 1
            if self._tell == self._tell_file:
                self._turn_to(ProgressLine("Fetching", "packages"))
            self._tell = self._tell_fetched
        elif line.startswith("Installing collected packages: "):
            self._packages = line.count(",") + 1
            self._turn_to(ProgressLine("Installing", "packages"))
            self._tell = self._tell_installed

    def show(self) -> None:
        """Show how far it is."""
        self._tell()

    def close(self) -> None:
        self._shown.close()

    def _turn_to(self, shown: ProgressLine) -> None:
        self._shown.close()
        self._shown = shown

    def _tell_fetched(self) -> None:
        self._shown.tell(max(0, self._fetched - 1), self._packages)  # the last is on its way

    def _tell_file(self) -> None:
        files = [path for path in self._work.rglob("*") if path.is_file()]
        self._shown.tell(max((_size(path) for path in files), default=0), self._size)

    def _tell_installed(self) -> None:
        self._shown.tell(self._count_installed() - self._before, self._packages)

    def _count_installed(self) -> int:
        return len([*self._installed.glob("*.dist-info")])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _count_in(file: Path) -> int:
    try:
        return count_requirements(file.read_text("utf-8").splitlines())
    except OSError:
        return 0  # pip says so


def count_requirements(lines: Iterable[str]) -> int:
    """Return how many packages a file of requirements names."""
    return sum(bool(re.match(r"\s*[A-Za-z0-9]", line)) for line in lines)


def install(arguments: Sequence[str], errors: IO[bytes]) -> int:
    """Carry out `pip install`; return its exit code. What it complains of goes to `errors`."""
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
        reading = Thread(target=_read, args=(process, state), daemon=True)
        reading.start()
        try:
            while reading.is_alive():
                state.show()
                reading.join(_PAUSE)
            return process.wait()
        finally:
            state.close()
            process.kill()
            process.wait()  # it writes into the folder that is deleted now


def _read(process: subprocess.Popen[str], state: PackageInstallation) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        state.hear(line)


def main(arguments: Sequence[str]) -> int:
    """Install; what pip complains of goes to the file behind `--errors`, else to stderr."""
    if arguments[:1] == ["--errors"]:
        with Path(arguments[1]).open("wb") as file:
            return install(arguments[2:], file)
    with tempfile.TemporaryFile() as file:
        code = install(arguments, file)
        if code:
            file.seek(0)
            sys.stderr.write(file.read().decode("utf-8", "replace"))
        return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
