"""The Python with Parley's packages. This module needs none of them, so any Python can import
it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from bot.paragraphs import columns_of, wrap_words

_NEEDED = "peewee"
"""A package that everything requires."""
_MISSING = (
    "Parley's packages are not installed: run `make run`, or `pip install -r requirements.txt`."
)


def restart_with_packages(root: Path) -> None:
    """Restart with the Python in .venv, for which `make run` has installed the packages, if this
    one lacks them. If that one lacks them too, print what to do and exit."""
    if find_spec(_NEEDED) is not None:
        return
    venv = root.resolve() / ".venv"
    python = venv / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists() or Path(sys.prefix).resolve() == venv.resolve():
        sys.exit(wrap_words(_MISSING, columns_of(sys.stderr)))
    os.execv(python, [str(python), *sys.argv])
