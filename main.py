"""Parley, a chat bot that lets you see and steer what the model sees.

python main.py                 talk in the terminal
python main.py init            set up a model: three questions and a try
python main.py ask "QUESTION"  ask one question, and print the answer; for scripts
python main.py --web           serve the web page and the HTTP API
python main.py --jsonl         JSON lines in, JSON lines out (piped without it: plain text)
python main.py pair CODE       give the stranger with this code access
python main.py --serve         serve all channels of the configuration, without a terminal
python main.py --telegram      Telegram alone; with a token in .env, the terminal serves it, too
python main.py key add NAME    make a key to OpenAI's protocol; key list, key revoke NAME
"""

from __future__ import annotations

from bot.own_python import end_silently

if __name__ == "__main__":
    end_silently()  # what follows takes long enough to be interrupted

import argparse
import asyncio
import gc
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from bot.early import (
    add_terminal_options,
    begin_loading,
    end_loading,
    has_person,
    open_input,
    share_one_heap,
)
from bot.own_python import restart_with_packages

if __name__ == "__main__":
    begin_loading()
    restart_with_packages(Path(__file__).parent)
    EARLY = open_input(sys.argv[1:])  # before what takes long to load

from agent.models.selection import AUTO, Models
from bot import ask, first_steps, packages, process, shell_completion
from bot.access import Access
from bot.app import VERSION
from bot.assembly import assemble
from bot.checks import NO_CLUSTER
from bot.choices import choice_of
from bot.command_line import (
    CommandParser,
    CommandRefused,
    Commands,
    LineParser,
    with_places,
    write_line,
)
from bot.data_folder import (
    FolderError,
    check_moved,
    check_not_emptied,
    find_database,
    has_bot,
    lock_data_folder,
    start_fresh,
)
from bot.paragraphs import write_paragraph
from bot.process import announced, keep_fault
from bot.recent import monitor
from bot.settings import Layers, SettingError, Settings, SettingsStore, load_layers
from bot.stages import credentials
from bot.start import BotStart
from channels.base import ChannelError
from channels.message import clean_text
from channels.pipe import Pipe
from channels.program import CALL, as_called
from memory.record.engines import engine_for
from memory.record.people import PendingPerson, Role
from memory.record.store import Store, StoreError
from plugins.api import CommandError
from plugins.features import find_modules

if TYPE_CHECKING:
    from channels.terminal.early import EarlyInput


def main(arguments: Sequence[str] | None = None, early: EarlyInput | None = None) -> int:
    """Execute the command line; return the exit code (2: invalid). `early` is the input line that a
    person is already typing in."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # not every locale has all letters
    options = make_parser().parse_args(arguments, argparse.Namespace(early=early))
    end_loading()
    try:
        return _run(options)
    except KeyboardInterrupt:
        return _report_error("Stopped.", options, 130)
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes at its end
        return 0
    except SettingError as error:
        return _report_error(str(error), options, 2)
    except (CommandRefused, CommandError, FolderError, StoreError, ChannelError) as error:
        return _report_error(str(error), options, 1)
    except OSError as error:
        if error.filename is None:
            raise
        place = os.fsdecode(error.filename)
        text = f"{place} can't be used ({error.strerror}); correct its permissions, or name another"
        return _report_error(f"{text} one.", options, 1)
    except Exception as error:  # noqa: BLE001 - shown as a sentence; the log has the rest
        place = str(keep_fault(options.data, error))
        text = f"This failed because of a fault in Parley ({type(error).__name__}); the details are"
        return _report_error(f"{text} in {place}.", options, 1)


def _run(options: argparse.Namespace) -> int:
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    finally:
        if options.early:
            options.early.restore()  # further output starts where the input line was


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = LineParser(
        CALL[-1],
        description=as_called(__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_terminal_options(parser)
    parser.add_argument("--jsonl", action="store_true", help="read and write JSON lines")
    parser.add_argument(
        "--telegram", action="store_true", help="serve Telegram, without a terminal"
    )
    parser.add_argument(
        "--serve",
        action="store_true",
        help="serve all channels of the configuration, without a terminal",
    )
    parser.add_argument("--web", action="store_true", help="serve the web page and the HTTP API")
    parser.add_argument(
        "--new", action="store_true", help="start afresh after the database was lost"
    )
    parser.add_argument("--version", action="version", version=f"Parley {VERSION}")
    parser.set_defaults(run=_talk)
    for module in find_modules("process"):
        module.add_options(parser)
    commands: Commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", parser_class=CommandParser
    )
    pair = commands.add_parser("pair", help="give a stranger access by their code")
    pair.add_argument("code")
    pair.add_argument("--owner", action="store_true", help="as an owner, not as a user")
    pair.set_defaults(run=_pair)
    first_steps.add_command(commands)
    packages.add_command(commands)
    shell_completion.add_command(commands, parser)
    ask.add_command(commands)
    for module in find_modules("command_line"):
        module.add_commands(commands)
    return parser


def _talk(options: argparse.Namespace) -> int:
    """Run the bot until its channel ends."""
    layers = load_layers(options.config, os.environ)
    is_headless = options.telegram or options.web or options.serve
    is_terminal = has_person() and not (options.jsonl or is_headless)
    os.umask(os.umask(0) | 0o077)  # kept files are for one person
    share_one_heap()
    place = find_database(layers, options.data)
    if is_terminal and _is_first_start(layers, place) and _set_up(options):
        layers = load_layers(options.config, os.environ)
    start = BotStart(options, layers, is_terminal, monitor(layers))
    if any(module.run_bot(start) for module in find_modules("process")):
        return 0
    if start.settings.broker:
        raise CommandRefused(NO_CLUSTER)
    with lock_data_folder(options.data):
        if isinstance(place, Path):
            (start_fresh if options.new else check_not_emptied)(options.data)
        elif not options.new:
            check_moved(place, options.data)
        close_logs = start.set_up_logs(options.data / "logs")
        try:
            return process.run(_live(start))
        finally:
            close_logs()


def _set_up(options: argparse.Namespace) -> bool:
    if options.early:
        options.early.restore()  # there are questions to answer first
    return first_steps.offer(options.config)


def _is_first_start(layers: Layers, place: Path | str) -> bool:
    """Return whether this is a first start, without a model of the person's own."""
    choice = choice_of(SettingsStore(layers).effective())
    is_small = choice.model == AUTO and Models(credentials(layers)).uses_embedded(choice)
    return is_small and not has_bot(place)


async def _live(start: BotStart) -> int:
    """Run the bot; return the exit code: 1 if a piped plain line got no answer."""
    book = SettingsStore(start.layers)
    standing = start.make_main_channel(book)
    async with start.watch.serving(has_page=start.has_page):
        channels = start.make_channels(standing, book)
        recent = start.watch.recent
        app = await assemble(start.layers, start.options.data, channels, recent=recent, book=book)
        # The objects of now live until the end: a garbage collection over all of them would block
        # the loop for a good part of a second.
        gc.freeze()
        if sys.stdout.isatty() and standing is None and not start.has_page:
            names = ", ".join(channel.name for channel in channels)
            write_line(f"Parley {VERSION} serves {names} (Ctrl-C stops it).")
        async with announced(os.environ):
            await app.run(until=standing.name if standing else "")
    return int(isinstance(standing, Pipe) and standing.has_failed and not start.options.jsonl)


def _pair(options: argparse.Namespace) -> int:
    """Give a stranger access; the bot may be running."""
    place = find_database(load_layers(options.config, os.environ), options.data)
    if not has_bot(place):
        raise CommandRefused(f"There is no bot in {options.data}; name its folder with --data DIR.")
    stranger = asyncio.run(_approve_code(options, place))
    write_line(f"{stranger.person} has access now.")
    return 0


async def _approve_code(options: argparse.Namespace, place: Path | str) -> PendingPerson:
    store = await Store.open(engine_for(place))
    try:
        role: Role = "owner" if options.owner else "user"
        return await Access(store, Settings).approve(options.code, role, "main.py")
    except CommandError as error:
        raise CommandRefused(str(error)) from None
    finally:
        await store.close()


def _report_error(text: str, options: argparse.Namespace, code: int) -> int:
    write_paragraph(clean_text(with_places(text, options)), sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(early=EARLY))
