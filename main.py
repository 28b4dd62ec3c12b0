"""Parley, a chat bot that lets you see and steer what the model sees.

python main.py                 talk in the terminal
python main.py init            set up a model: three questions and a try
python main.py ask "QUESTION"  ask one question, and print the answer; for scripts
python main.py --web           serve the web page and the HTTP API
python main.py --jsonl         JSON lines in, JSON lines out (piped without it: plain text)
python main.py pair CODE       let the stranger in who was given this code
python main.py --serve         serve all channels of the configuration, without a terminal
python main.py --telegram      Telegram alone; with a token in .env the terminal has it beside it
python main.py key add NAME    make a key to OpenAI's protocol; key list, key revoke NAME
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from bot.early import add_terminal_options, has_person, history_in, open_input, share_one_heap
from bot.own_python import go_on_with_packages

if __name__ == "__main__":
    go_on_with_packages(Path(__file__).parent)
    EARLY = open_input(sys.argv[1:])  # before what takes long to load

from agent.models import embedded
from agent.models.selection import AUTO, Models
from bot import ask, event_loop, first_steps, key_commands
from bot.access import Access, Rules
from bot.app import VERSION, App
from bot.assembly import assemble, credentials
from bot.command_line import CommandParser, CommandRefused, Commands, say, with_places
from bot.data_folder import (
    FolderError,
    begin_anew,
    check_moved,
    check_not_emptied,
    find_database,
    has_bot,
    lock_data_folder,
    plugins_folder,
)
from bot.logs import set_up_logs
from bot.monitoring import Monitoring, monitor
from bot.notify import announced
from bot.ports import choice_of
from bot.settings import Layers, SettingError, Settings, SettingsStore, load_layers
from channels.base import Channel, ChannelError, WithWebhook
from channels.message import clean_text
from channels.pipe import standard
from memory.record.engines import engine_for
from memory.record.people import Pending, Role
from memory.record.store import Store, StoreError
from plugins.api import CommandError
from plugins.features import find_modules

if TYPE_CHECKING:
    from channels.terminal.early import EarlyInput
    from channels.web import Web

TOKEN = "TELEGRAM_BOT_TOKEN"
SMALL = (
    f"{embedded.SHOWN}, answers: it is small and often wrong. `python main.py init` sets up a "
    "better model."
)


def main(arguments: Sequence[str] | None = None, early: EarlyInput | None = None) -> int:
    """Do what the command line asks for; returns the exit code (2: it has to be corrected). `early`
    is where somebody is typing already."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # not every locale has all letters
    options = make_parser().parse_args(arguments, argparse.Namespace(early=early))
    try:
        return _run(options)
    except SettingError as error:
        return _complain(str(error), options, 2)
    except (CommandRefused, CommandError, FolderError, StoreError, ChannelError) as error:
        return _complain(str(error), options, 1)
    except OSError as error:
        if error.filename is None:
            raise
        place = os.fsdecode(error.filename)
        text = f"{place} can't be used ({error.strerror}); correct its permissions, or name another"
        return _complain(f"{text} one.", options, 1)


def _run(options: argparse.Namespace) -> int:
    try:
        return int(options.run(options))
    finally:
        if options.early:
            options.early.restore()  # what is said now is said where the input line was


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        "main.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
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
        "--new", action="store_true", help="start afresh in a folder whose database is lost"
    )
    parser.add_argument(
        "--role",
        action="append",
        choices=("gateway", "worker", "all"),
        help="what this process does where several are one bot (the setting broker): a gateway "
        "has the channels, a worker the conversations",
    )
    parser.add_argument("--version", action="version", version=f"Parley {VERSION}")
    parser.set_defaults(run=_talk)
    commands: Commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", parser_class=CommandParser
    )
    pair = commands.add_parser("pair", help="let a stranger in by the code they were given")
    pair.add_argument("code")
    pair.add_argument("--owner", action="store_true", help="as an owner, not as a user")
    pair.set_defaults(run=_pair)
    first_steps.add_command(commands)
    ask.add_command(commands)
    key_commands.add_commands(commands)
    for module in find_modules("command_line"):
        module.add_commands(commands)
    return parser


def _talk(options: argparse.Namespace) -> int:
    """Run the bot until its channel ends."""
    layers = load_layers(options.config, os.environ)
    is_headless = options.telegram or options.web or options.serve
    is_terminal = has_person() and not (options.jsonl or is_headless)
    os.umask(os.umask(0) | 0o077)  # whatever is kept is for one person
    share_one_heap()
    place = find_database(layers, options.data)
    if is_terminal and _is_first_start(layers, place) and _set_up(options):
        layers = load_layers(options.config, os.environ)
    if SettingsStore(layers).effective().broker:
        if not options.new:
            check_moved(place, options.data)
        _take_part(options, layers, is_terminal)
        return 0
    if options.role:
        raise CommandRefused(
            "--role is for a bot of several processes; set broker in the configuration."
        )
    watch = monitor(layers)
    with lock_data_folder(options.data):
        if isinstance(place, Path):
            (begin_anew if options.new else check_not_emptied)(options.data)
        elif not options.new:
            check_moved(place, options.data)
        close_logs = _logs(options.data / "logs", layers, is_terminal, watch)
        try:
            event_loop.run(_live(options, layers, is_terminal, watch))
        finally:
            close_logs()
    return 0


def _set_up(options: argparse.Namespace) -> bool:
    if options.early:
        options.early.restore()  # there are questions to answer first
    return first_steps.offer(options.config)


def _is_first_start(layers: Layers, place: Path | str) -> bool:
    """Return whether somebody tries Parley out for the first time, and has no model of their own
    yet."""
    choice = choice_of(SettingsStore(layers).effective())
    is_small = choice.model == AUTO and Models(credentials(layers)).uses_embedded(choice)
    return is_small and not has_bot(place)


def _take_part(options: argparse.Namespace, layers: Layers, is_terminal: bool) -> None:
    """Be one of several processes that are one bot, on a data folder that they share."""
    settings = SettingsStore(layers).effective()
    if not settings.database:
        raise CommandRefused(
            "The setting broker is for several processes, which can't share an SQLite file; set "
            "database, too."
        )
    try:
        from bot.cluster import run  # noqa: PLC0415 - only for this, and its client is an extra
    except ModuleNotFoundError as error:
        raise CommandRefused(
            f"The setting broker needs a package that is not installed ({error.name}); install it "
            "with `.venv/bin/python -m pip install -r bot/cluster/requirements.txt`."
        ) from None
    roles = set(options.role or ("all",))
    is_gateway = bool(roles & {"gateway", "all"})
    standing = _standing(options, layers, is_terminal) if is_gateway else None
    watch = monitor(layers)
    plan = run.ProcessTask(
        layers,
        options.data,
        settings.broker,
        is_gateway,
        bool(roles & {"worker", "all"}),
        faces=lambda settings: _faces(options, layers, settings),
        channels=lambda settings: _channels(options, layers, standing, settings, watch),
        until=standing.name if standing else "",
        recent=watch.recent,
    )
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = f"{'-'.join(sorted(roles))}-{socket.gethostname()}-{os.getpid()}"
    close_logs = _logs(options.data / "logs" / folder, layers, is_terminal, watch)
    try:
        event_loop.run(_watched(run.live(plan), watch, is_gateway and _has_page(options, layers)))
    finally:
        close_logs()


async def _watched(living: Coroutine[None, None, None], watch: Monitoring, has_page: bool) -> None:
    async with watch.serving(has_page=has_page), announced(os.environ):
        await living


def _faces(
    options: argparse.Namespace, layers: Layers, settings: Callable[[], Settings]
) -> list[Channel]:
    """The channels as a worker knows them: what it must know to answer over them."""
    from bot.cluster.face import Face  # noqa: PLC0415 - only for a worker

    page = Face("web", has_fields=True, sound="mp3")
    faces: list[Channel] = [Face("pipe"), Face("terminal"), page, *_messengers(options, layers)]
    return [*faces, _telegram(layers, settings)] if layers.secrets.get(TOKEN) else faces


def _logs(folder: Path, layers: Layers, is_quiet: bool, watch: Monitoring) -> Callable[[], None]:
    """Set the logs up; returns what closes them."""
    try:
        return set_up_logs(folder, layers, is_quiet, watch.recent.failures)
    except OSError as error:
        raise CommandRefused(
            f"Logs can't be written to {folder} ({error.strerror}); correct its permissions, or "
            "choose another data folder with --data DIR."
        ) from None


async def _live(
    options: argparse.Namespace, layers: Layers, is_terminal: bool, watch: Monitoring
) -> None:
    standing = _standing(options, layers, is_terminal)
    async with watch.serving(has_page=_has_page(options, layers)):
        channels = _channels(options, layers, standing, lambda: app.config.book.effective(), watch)
        app: App = await assemble(layers, options.data, channels, recent=watch.recent)
        # What is there now stays until the end: a search for garbage that looks through all of it,
        # too, holds everybody up for a good part of a second.
        gc.freeze()
        if sys.stdout.isatty() and standing is None and not _has_page(options, layers):
            names = ", ".join(channel.name for channel in channels)
            say(f"Parley {VERSION} serves {names} (Ctrl-C stops it).")
        async with announced(os.environ):
            await app.run(until=standing.name if standing else "")


def _standing(options: argparse.Namespace, layers: Layers, is_terminal: bool) -> Channel | None:
    """The channel with whose end the bot ends, if there is one."""
    return _terminal(options, layers) if is_terminal else _pipe(options)


def _channels(
    options: argparse.Namespace,
    layers: Layers,
    standing: Channel | None,
    settings: Callable[[], Settings],
    watch: Monitoring,
) -> list[Channel]:
    """All channels that run here."""
    is_terminal = standing is not None and standing.name == "terminal"
    is_beside = options.web or options.serve or is_terminal
    channels = [standing] if standing else []
    if options.telegram or (is_beside and layers.secrets.get(TOKEN)):
        channels.append(_telegram(layers, settings))
    if is_beside:
        channels += _messengers(options, layers)
    if _has_page(options, layers):
        page = _web(layers, watch, is_quiet=standing is not None)
        page.webhooks = {one.name: one for one in channels if isinstance(one, WithWebhook)}
        channels.insert(1 if standing else 0, page)
    if not channels:
        raise CommandRefused(
            "No channel is set up: name one in the configuration under channels (docs/channels.md)."
        )
    return channels


def _has_page(options: argparse.Namespace, layers: Layers) -> bool:
    return options.web or SettingsStore(layers).effective().channels.web


def _messengers(options: argparse.Namespace, layers: Layers) -> Sequence[Channel]:
    """The messengers that the configuration names."""
    settings = SettingsStore(layers).effective()
    if not settings.channels.messengers:
        return ()
    from bot.messengers import make_messengers  # noqa: PLC0415 - nothing for most

    folder = plugins_folder(settings, options.data)
    return make_messengers(settings, layers.secrets, folder, has_server=_has_page(options, layers))


def _pipe(options: argparse.Namespace) -> Channel | None:
    """The channel over standard input and output; None where others are asked for alone."""
    is_headless = options.web or options.telegram or options.serve
    return standard(options.jsonl) if options.jsonl or not is_headless else None


def _web(layers: Layers, watch: Monitoring, is_quiet: bool) -> Web:
    """The web channel, bound to its port."""
    from channels.web import CannotListen, Web, WebConfig  # noqa: PLC0415 - slow, and nothing for others

    web = SettingsStore(layers).effective().web
    token = layers.secrets.get("PARLEY_WEB_TOKEN", "")
    try:
        channel = Web(
            WebConfig(
                web.host,
                web.port,
                token,
                web.upload_limit * 1_000_000,
                VERSION,
                web.trusted_proxies,
                web.connections_per_address,
                pages=watch.pages,
            )
        )
    except CannotListen as error:
        raise CommandRefused(str(error)) from None
    if not is_quiet:
        say(f"Parley {VERSION} is at {channel.url} (Ctrl-C stops it).")
    return channel


def _terminal(options: argparse.Namespace, layers: Layers) -> Channel:
    from channels.terminal import conversations  # noqa: PLC0415 - slow, and nothing for a pipe
    from channels.terminal.terminal import Terminal  # noqa: PLC0415

    name = conversations.clean_name(options.chat or "") or conversations.MAIN
    chat = None if options.resume else name
    return Terminal(history_in(options.data), _greet(layers), chat, options.early)


def _telegram(layers: Layers, settings: Callable[[], Settings]) -> Channel:
    """The channel; what can be set of it is asked for when the bot is assembled."""
    token = layers.secrets.get(TOKEN, "")
    if not token:
        raise CommandRefused(
            f"Telegram needs a token: ask @BotFather for one, and write {TOKEN}=… into .env."
        )
    from channels.telegram import telegram_channel  # noqa: PLC0415 - slow, nothing for the terminal

    return telegram_channel(token, lambda: settings().telegram)


def _greet(layers: Layers) -> str:
    choice = choice_of(SettingsStore(layers).effective())
    is_small = Models(credentials(layers)).uses_embedded(choice)
    hello = f"Parley {VERSION}. Just write; /help lists the commands, Ctrl-D quits."
    return f"{hello}\n{SMALL}" if is_small else hello


def _pair(options: argparse.Namespace) -> int:
    """Let a stranger in; the bot may be running."""
    place = find_database(load_layers(options.config, os.environ), options.data)
    if not has_bot(place):
        raise CommandRefused(f"There is no bot in {options.data}; name its folder with --data DIR.")
    stranger = asyncio.run(_let_in(options, place))
    say(f"{stranger.person} is let in and can write now.")
    return 0


async def _let_in(options: argparse.Namespace, place: Path | str) -> Pending:
    store = await Store.open(engine_for(place))
    try:
        role: Role = "owner" if options.owner else "user"
        return await Access(store, Rules).approve(options.code, role, "main.py")
    except CommandError as error:
        raise CommandRefused(str(error)) from None
    finally:
        await store.close()


def _complain(text: str, options: argparse.Namespace, code: int) -> int:
    sys.stderr.write(f"{clean_text(with_places(text, options))}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(early=EARLY))
