"""`main.py ask`: one question, its answer, and an exit code; for scripts.

The channel takes one message, gets one reply, and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import orjson
from msgspec.structs import asdict

from bot.assembly import assemble
from bot.command_line import Commands
from bot.data_folder import FolderError, check_moved, check_not_emptied, find_database
from bot.data_folder import lock_data_folder as lock
from bot.logs import set_up_logs
from bot.paragraphs import write_paragraph
from bot.settings import SettingError, SettingsStore, load_layers
from channels.base import Activity, Bot, Done, TurnUsage
from channels.message import (
    MOST_ATTACHMENTS,
    Address,
    Attachment,
    Inbound,
    LocalFileError,
    Outbound,
    read_attachment,
)
from channels.program import as_called, as_place

NAME = "ask"
_PATIENCE = 2.0  # seconds to wait for a turn's usage after its reply


class OneQuestion:
    """A channel of one message. `answer` is the reply, once there is one; `usage` is the usage of
    its calls to models, `cost` their price in US dollars (None: unknown). `refused` lists the
    permissions that its tools did not get; `is_cut_short` says that it was stopped before its
    answer."""

    name = NAME

    def __init__(self, inbound: Inbound) -> None:
        self.inbound = inbound
        self.answer: Outbound | None = None
        self.usage = TurnUsage()
        self.cost: float | None = None
        self.refused: list[str] = []
        self.is_cut_short = False
        self._is_answered = asyncio.Event()
        self._bot: Bot | None = None

    async def listen(self, bot: Bot) -> None:
        """Send the question, and return once it is answered. A cancelled question is stopped, since
        its caller no longer waits."""
        self._bot = bot
        before = await self._spent(bot)
        try:
            with bot.watch(self.inbound.address) as activities:
                await bot.submit(self.inbound)
                await self._is_answered.wait()
                if self.answer and self.answer.turn:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_PATIENCE):
                            await self._find_usage(activities)
        except asyncio.CancelledError:
            self.is_cut_short = True
            await bot.command(self.inbound.address, "/stop")
            raise
        after = await self._spent(bot)
        self.cost = None if before is None or after is None else after - before

    async def send(self, outbound: Outbound) -> None:
        """Take the answer. A tool's request for permission is denied, since nobody can approve it.
        Replies to an earlier script are dropped."""
        if outbound.reply_to == self.inbound.id:
            self.answer = outbound
            self._is_answered.set()
            return
        refusal = next((a for a in outbound.reply.actions if a.command.startswith("/deny ")), None)
        if refusal and self._bot and outbound.address == self.inbound.address:
            self.refused.append(outbound.reply.text.partition("\n\n")[0])
            await self._bot.command(outbound.address, refusal.command)

    async def _find_usage(self, activities: AsyncIterator[Activity]) -> None:
        async for activity in activities:
            if isinstance(activity, Done) and activity.reply_to == self.inbound.id:
                self.usage = activity.usage
                return

    async def _spent(self, bot: Bot) -> float | None:
        """Return the cost of the conversation if all prices are known."""
        data = (await bot.command(self.inbound.address, "/context")).data or {}
        cost = data.get("cost")
        is_known = isinstance(cost, float | int) and not data.get("calls_of_unknown_price")
        return float(cost) if is_known and cost is not None else None


LONGEST = 16_000_000
"""The maximum number of bytes read from standard input."""
ANSWERED, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: answered; no answer; wrong arguments; Ctrl-C."""


class InvalidCall(Exception):
    """An invalid call of the command; the text says why, and what to do."""


def add_command(commands: Commands) -> None:
    """Add `ask` to the command line."""
    parser = commands.add_parser(
        "ask",
        help="ask one question and print the answer; standard input is read, too",
        description="Ask one question, print the answer, and exit with 0 (answered), 1 (no answer: "
        "why is on stderr) or 2 (wrong arguments). Piped input follows the "
        "question. Tools that need approval are denied.",
    )
    parser.add_argument("question", nargs="*", help="the question, or a /command")
    parser.add_argument(
        "-f",
        "--file",
        type=as_place,
        action="append",
        default=[],
        metavar="FILE",
        help=f"a file to go with it (up to {MOST_ATTACHMENTS})",
    )
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON object")
    parser.add_argument(
        "--chat",
        default="",
        metavar="NAME",
        help="go on in a conversation of this name; else each question is answered by itself",
    )
    parser.set_defaults(run=_ask)


def _ask(options: argparse.Namespace) -> int:
    try:
        inbound = compose(" ".join(options.question), _read_input(), options.file, options.chat)
    except InvalidCall as error:
        _report_error(str(error))
        return WRONG
    except LocalFileError as error:
        _report_error(f"{error}.")
        return WRONG
    channel = OneQuestion(inbound)
    _run(options, channel)
    if channel.answer is None or channel.is_cut_short:
        _report_error("It was stopped before it was answered.")
        return INTERRUPTED
    for wanted in channel.refused:
        _report_error(f"Not allowed, since nobody could be asked: {wanted}")
    return _print(channel, is_json=options.json)


def compose(words: str, piped: bytes, files: Sequence[Path], chat: str) -> Inbound:
    """Return the message of a call. Raises InvalidCall and LocalFileError."""
    attachments = [read_attachment(file) for file in files]
    text = _as_text(piped)
    if text is None:
        attachments.append(Attachment("stdin", "application/octet-stream", piped))
    whole = "\n\n".join(part for part in (words.strip(), (text or "").strip()) if part)
    if not whole and not attachments:
        raise InvalidCall('There is no question; write one: python main.py ask "What is new?"')
    place = Address(NAME, chat) if chat else Address(NAME, "main", thread=uuid4().hex)
    return Inbound(f"ask-{uuid4().hex}", place, whole, attachments=tuple(attachments))


def _as_text(piped: bytes) -> str | None:
    """Return the piped input as text; None if it is a binary file."""
    try:
        return None if b"\0" in piped else piped.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _read_input() -> bytes:
    """Return the piped input; b"" if standard input is a keyboard or closed."""
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    with io.FileIO(sys.stdin.fileno(), closefd=False) as source:
        pieces, size = [], 0
        while piece := source.read(65_536):
            pieces.append(piece)
            size += len(piece)
            if size > LONGEST:
                raise InvalidCall(
                    f"More than {LONGEST // 1_000_000} MB were piped in; attach a file with -f."
                )
    return b"".join(pieces)


def _run(options: argparse.Namespace, channel: OneQuestion) -> None:
    layers = load_layers(options.config, os.environ)
    settings = SettingsStore(layers).effective()
    if settings.broker:
        raise FolderError("`ask` is for a bot of one process; this one is a cluster (broker).")
    os.umask(os.umask(0) | 0o077)  # kept files are for one person
    place = find_database(layers, options.data)
    with lock(options.data):
        if isinstance(place, Path):
            check_not_emptied(options.data)
        else:
            check_moved(place, options.data)
        try:
            close_logs = set_up_logs(options.data / "logs", layers, is_quiet=True)
        except OSError as error:
            raise SettingError(f"Logs can't be written ({error.strerror}).") from None

        async def live() -> None:
            app = await assemble(layers, options.data, [channel])
            await app.run(until=channel.name)

        try:
            asyncio.run(live())
        finally:
            close_logs()


def _print(channel: OneQuestion, is_json: bool) -> int:
    """Print the answer, or the error on stderr. Return the exit code."""
    assert channel.answer is not None, "it was answered"
    outbound = channel.answer
    reply, is_failed = outbound.reply, bool(outbound.reply.problem)
    if is_json:
        answer = {
            "text": reply.text,
            "problem": reply.problem,
            "chat": outbound.address.chat if not outbound.address.thread else "",
            "turn": outbound.turn,
            "data": reply.data,
            "images": reply.images,
            "usage": asdict(channel.usage),
            "cost": channel.cost,
        }
        _write(orjson.dumps(answer, default=str).decode())
    elif is_failed:
        _report_error(reply.text.removeprefix("(").removesuffix(")"))
    else:
        _write("\n".join((reply.text, *reply.images)))
    return FAILED if is_failed else ANSWERED


def _write(text: str) -> None:
    """Write to standard output, as UTF-8 in any locale. Raises BrokenPipeError."""
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.flush()


def _report_error(text: str) -> None:
    write_paragraph(as_called(text), sys.stderr)
