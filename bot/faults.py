"""The place of what nobody foresaw: the log, and not the terminal of whoever sits there."""

from __future__ import annotations

import os
import tempfile
import traceback
from functools import partial
from pathlib import Path

NAME = "fault.log"


def keep_fault(data: Path, error: BaseException) -> Path:
    """Write where an error came from to the end of `fault.log`, beside the other logs of the data
    folder or, where that is not possible, in the system's folder for temporary files; return its
    path."""
    told = "".join(traceback.format_exception(error)) + "\n"
    try:
        return _append(data / "logs" / NAME, told)
    except OSError:
        return _append(Path(tempfile.mkdtemp(prefix="parley-")) / NAME, told)


def _append(path: Path, text: str) -> Path:
    path.parent.mkdir(mode=0o700, exist_ok=True)  # for one person, as all that a bot writes
    with open(path, "a", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
        file.write(text)
    return path
