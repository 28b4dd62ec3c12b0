"""The Python with Parley's packages, and Ctrl-C while they are loaded. It imports only fast modules
of Python itself, so any Python can import it."""

from __future__ import annotations

import os
import signal
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


def end_silently() -> None:
    """Have Ctrl-C end the process without a traceback: nothing needs to be stopped yet, and no code
    would catch a KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt_again() -> None:
    """Undo `end_silently`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
