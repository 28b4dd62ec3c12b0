"""Start here: parse arguments, load settings, assemble the bot, run it.

python main.py                 talk in the terminal
python main.py --jsonl         JSON lines in, JSON lines out (plain text without it, if piped)
python main.py doctor          check the installation, and say what to do
python main.py backup FILE     save all that is kept
python main.py restore FILE    bring it back
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from bot.app import VERSION, App, assemble
from bot.logs import set_up_logs
from bot.settings import Layers, SettingError, load_layers
from channels.base import Channel
from channels.pipe import PipeClosed, standard
from channels.terminal import Terminal
from memory.record.store import StoreError


class Refusal(Exception):
    """The bot can't start, or can't do what was asked; the text says why and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code (2: it has to be corrected)."""
    options = _parser().parse_args(arguments)
    try:
        layers = load_layers(options.config, os.environ)
        return int(options.run(options, layers))
    except SettingError as error:
        return _complain(str(error), 2)
    except (Refusal, StoreError, PipeClosed) as error:
        return _complain(str(error), 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("main.py", description=__doc__.partition("\n")[0])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (__doc__ or "").strip()
    parser.add_argument("--config", type=Path, default=Path("config.json"), metavar="FILE")
    parser.add_argument("--data", type=Path, default=Path("data"), metavar="DIR")
    parser.add_argument("--jsonl", action="store_true", help="read and write JSON lines")
    parser.add_argument("--version", action="version", version=f"Parley {VERSION}")
    parser.set_defaults(run=_talk)
    return parser


def _complain(sentence: str, code: int) -> int:
    sys.stderr.write(f"{sentence}\n")
    return code


def _talk(options: argparse.Namespace, layers: Layers) -> int:
    """Run the bot until its channel ends."""
    streams = (sys.stdin, sys.stdout)  # None where they are closed
    is_terminal = not options.jsonl and all(stream and stream.isatty() for stream in streams)
    with _alone(options.data):
        _set_up_logs(options.data / "logs", layers, is_quiet=is_terminal)
        channel: Channel = (
            Terminal(options.data / "terminal_history", f"Parley {VERSION}")
            if is_terminal
            else standard(options.jsonl)
        )
        asyncio.run(_live(layers, options.data, channel))
    return 0


def _set_up_logs(folder: Path, layers: Layers, is_quiet: bool) -> None:
    try:
        set_up_logs(folder, layers, is_quiet)
    except OSError as error:
        raise Refusal(
            f"No logs can be written to {folder} ({error.strerror}); correct its rights, or "
            "choose another data folder with --data DIR."
        ) from None


async def _live(layers: Layers, data: Path, channel: Channel) -> None:
    app: App = await assemble(layers, data, [channel])
    await app.run()


def _alone(data: Path) -> FileLock:
    """The lock on a data folder: two bots on one would answer everything twice."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = FileLock(data / "lock", timeout=0)
        lock.acquire()
    except Timeout:
        raise Refusal(
            f"Another Parley runs on the data folder {data}; stop it, or choose another one "
            "with --data DIR."
        ) from None
    except OSError as error:
        raise Refusal(
            f"The data folder {data} can't be written ({error.strerror}); correct its rights, or "
            "choose another one with --data DIR."
        ) from None
    return lock


if __name__ == "__main__":
    sys.exit(main())
