"""The place of what nobody foresaw: the log, and not the terminal of whoever sits there."""

from __future__ import annotations

import tempfile
import traceback
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
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
    return path
