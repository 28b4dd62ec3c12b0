"""The first steps of a start, before most of the bot is loaded, which takes most of a second."""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bot.own_python import end_silently, interrupt_again
from channels.program import as_place, usual_config, usual_data

if TYPE_CHECKING:
    from channels.terminal.early import EarlyInput

_ARENA_MAX = -8  # M_ARENA_MAX of <malloc.h>


def begin_loading() -> None:
    """Prepare the process for loading the program. Garbage collection is off meanwhile: it would
    find no garbage, and take a tenth of that time."""
    gc.disable()
    end_silently()


def end_loading() -> None:
    """Undo `begin_loading` once the program is loaded; do nothing without it."""
    if gc.isenabled():
        return
    gc.freeze()
    gc.enable()
    interrupt_again()


def open_input(arguments: Sequence[str]) -> EarlyInput | None:
    """Return the terminal's open input line, if a person at a terminal is about to continue with an
    existing bot. None if another command was given, a question may have to be asked first, or the
    arguments are wrong."""
    if not has_person():
        return None
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    add_terminal_options(parser)
    try:
        options, others = parser.parse_known_args(arguments)
    except argparse.ArgumentError:
        return None
    history = history_in(options.data)
    if others or not os.access(history, os.R_OK | os.W_OK):
        return None
    from prompt_toolkit.utils import is_dumb_terminal  # noqa: PLC0415 - not needed for a pipe

    if is_dumb_terminal():
        return None  # no line can be drawn there
    share_one_heap()
    from channels.terminal.early import EarlyInput  # noqa: PLC0415 - as above

    early = EarlyInput(history)
    early.open()
    return early


def history_in(data: Path) -> Path:
    """Return the file in the data folder that stores the lines typed in a terminal."""
    return data / "terminal_history"


def has_person() -> bool:
    """Return whether a person uses this terminal."""
    streams = (sys.stdin, sys.stdout)  # None where they are closed
    return all(stream and stream.isatty() for stream in streams)


def add_terminal_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a start in a terminal."""
    config, data = usual_config(), usual_data()
    parser.add_argument(
        "--config",
        type=as_place,
        default=config,
        metavar="FILE",
        help=f"the settings ({config})",
    )
    parser.add_argument(
        "--data",
        type=as_place,
        default=data,
        metavar="DIR",
        help=f"the folder where everything is kept ({data})",
    )
    parser.add_argument(
        "--chat", metavar="NAME", dest="chat", help="the terminal's conversation of this name"
    )
    parser.add_argument(
        "--continue",
        action="store_true",
        dest="resume",
        help="the terminal's conversation with the latest message",
    )


def share_one_heap() -> None:
    """Limit glibc to one heap. By default each thread has its own and keeps its peak size: 3 MB in
    all. One is enough, since Python's threads run one at a time. Other C libraries have no such
    option."""
    with suppress(OSError, AttributeError, TypeError):  # Windows: no library without name
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
