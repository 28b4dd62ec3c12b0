"""The file for unforeseen errors, which keeps their tracebacks off the terminal."""

from __future__ import annotations

import os
import tempfile
import traceback
from functools import partial
from pathlib import Path

NAME = "fault.log"


def keep_fault(data: Path, error: BaseException) -> Path:
    """Append an error's traceback to `fault.log`, beside the other logs of the data folder. If that
    is impossible, use the system's folder for temporary files. Return the file's path."""
    told = "".join(traceback.format_exception(error)) + "\n"
    try:
        return _append(data / "logs" / NAME, told)
    except OSError:
        return _append(Path(tempfile.mkdtemp(prefix="parley-")) / NAME, told)


def _append(path: Path, text: str) -> Path:
    path.parent.mkdir(mode=0o700, exist_ok=True)  # for one person, like all files of the bot
    with open(path, "a", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
        file.write(text)
    return path
