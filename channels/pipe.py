"""Standard input and output: JSON lines for scripts and tests, or plain lines.

With `--jsonl` each input line is `{"text": …, "chat": …, "user": …, "id": …}`, all but `text`
optional; `"attachments": [{"path": …, "name": …, "media_type": …}]` names files of this machine, of
which all but `path` is optional. A stored message is confirmed by `{"accepted": id}`. A reply is
`{"reply_to": id, "chat": …, "turn": "t3" or null, "text": …, "data": …}`, with the paths of its
pictures in `images` if it has any, its `form` if it asks for text, and a `problem` if there is no
answer. Plain: a line in, a reply out.

Messages for a conversation with a full queue are held, in order, while other conversations and
commands continue; reading stops only if very many are held.
"""

from __future__ import annotations

import asyncio
import io
import sys
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from msgspec.structs import asdict

from channels.base import Bot, ChannelError
from channels.line_streams import LONGEST, LineWriter, read_lines
from channels.message import Address, Attachment, Inbound, LocalFileError, Outbound, read_attachment

CHAT = "main"
HELD, HELD_BYTES = 10_000, 32_000_000
"""The maximum number of messages, and bytes of their texts and files, that are held for full
conversations; beyond it, reading stops until one has been accepted."""
PROMPT = 1.0
"""Seconds for which the next line waits until a message is accepted."""
GONE = (
    "The output can no longer be written, so the bot has stopped; what it could not write comes "
    "at the next start."
)


class BadLine(Exception):
    """Raised for an invalid input line; the text says why."""


class PipeClosed(ChannelError):
    """Raised for a missing stream, or a closed output; the text says so."""


class Pipe:
    """A channel over two binary streams; `has_failed`: it wrote a reply that says why there is no
    answer."""

    name = "pipe"

    def __init__(self, source: BinaryIO, target: BinaryIO, is_jsonl: bool) -> None:
        self._lines, self._writer = read_lines(source), LineWriter(target)
        self._is_jsonl = is_jsonl
        self.has_failed = False

    async def listen(self, bot: Bot) -> None:
        """Submit every line until the input ends. Raises PipeClosed if the output has ended."""
        held = _QueuedMessages(lambda inbound: self._submit(bot, inbound), self._lines.stop)
        try:
            await self._read(bot, held)
            await held.drain()
        finally:
            await held.close()
            self._lines.close()
        if held.error is not None:
            raise held.error
        if self._lines.was_stopped:
            raise PipeClosed(GONE)

    async def _read(self, bot: Bot, held: _QueuedMessages) -> None:
        """Submit or hold every line until the input ends."""
        self._lines.start()
        while line := await self._lines.next():
            try:
                inbound = self._parse(line)
            except BadLine as error:
                await self._write({"error": str(error)}, str(error))
                continue
            if inbound is None:
                continue
            if held.has(inbound) or bot.must_wait(inbound):
                await held.put(inbound)
            else:
                # The conversation's owner may not respond, which must not delay the others.
                await asyncio.wait((await held.put(inbound),), timeout=PROMPT)

    async def _submit(self, bot: Bot, inbound: Inbound) -> None:
        """Submit a message, and confirm it once it is on disk."""
        accepted = await bot.submit(inbound)
        if accepted is not None and self._is_jsonl:
            await self._write({"accepted": orjson.loads(accepted.id)}, "")

    async def send(self, outbound: Outbound) -> None:
        """Write one reply as one line (plain: unchanged, then a line break)."""
        line: dict[str, Any] = {
            "reply_to": _own_id(outbound.reply_to),
            "chat": outbound.address.chat,
            "turn": outbound.turn,
            "text": outbound.reply.text,
            "data": outbound.reply.data,
        }
        if outbound.is_resent:
            line["resent"] = True
        if outbound.reply.images:
            line["images"] = outbound.reply.images
        if outbound.reply.problem:
            line["problem"] = outbound.reply.problem
            self.has_failed = True
        if outbound.reply.form:
            line["form"] = asdict(outbound.reply.form)
        await self._write(line, "\n".join((outbound.reply.text, *outbound.reply.images)))

    def _parse(self, line: bytes) -> Inbound | None:
        if len(line) > LONGEST:
            raise BadLine(f"This line is longer than {LONGEST // 1_000_000} MB, so it was skipped.")
        text = line.decode("utf-8", "replace").strip("\r\n")
        if not text.strip():
            return None
        return inbound_of(text) if self._is_jsonl else _inbound({"text": text})

    async def _write(self, line: Mapping[str, Any], plain: str) -> None:
        text = orjson.dumps(line, default=str) if self._is_jsonl else plain.encode()
        try:
            await self._writer.write(text + b"\n")
        except OSError as error:
            self._lines.stop()  # further input is useless without an output
            raise PipeClosed(GONE) from error


_Line = tuple[str, bool]
"""A chat, and whether it is the queue of its commands, which don't wait behind its messages."""


def _line_of(inbound: Inbound) -> _Line:
    return inbound.address.chat, inbound.text.lstrip().startswith("/")


class _QueuedMessages:
    """Messages that wait for their conversation, in order within a chat. `fail` is called if one
    could not be submitted: the pipe must end, with `error` if there is one."""

    def __init__(
        self, submit: Callable[[Inbound], Awaitable[None]], fail: Callable[[], None]
    ) -> None:
        self._submit, self._fail = submit, fail
        self.error: BaseException | None = None
        self._lines: dict[_Line, deque[Inbound]] = {}
        self._tasks: dict[_Line, asyncio.Task[None]] = {}
        self._count = self._bytes = 0
        self._taken = asyncio.Event()

    def has(self, inbound: Inbound) -> bool:
        """Return whether earlier messages of its chat wait."""
        line = _line_of(inbound)
        return line in self._lines and not line[1]

    async def put(self, inbound: Inbound) -> asyncio.Task[None]:
        """Hold one more message once there is room; return the task that submits those of its
        chat."""
        size = _size(inbound)
        while self._count >= HELD or (self._count and self._bytes + size > HELD_BYTES):
            self._taken.clear()
            await self._taken.wait()
        self._count += 1
        self._bytes += size
        line = _line_of(inbound)
        if line in self._lines:
            self._lines[line].append(inbound)
            return self._tasks[line]
        self._lines[line] = deque([inbound])
        task = asyncio.create_task(self._submit_in_order(line), name=f"pipe {line[0]}")
        self._tasks[line] = task
        task.add_done_callback(partial(self._over, line))
        return task

    def _over(self, line: _Line, task: asyncio.Task[None]) -> None:
        if self._tasks[line] is task:
            del self._tasks[line]
        if not task.cancelled():
            self.error = self.error or task.exception()

    async def _submit_in_order(self, line: _Line) -> None:
        """Submit the waiting messages of a chat, one after the other."""
        waiting = self._lines[line]
        try:
            while waiting:
                await self._submit(waiting[0])
                self._release(waiting.popleft())
        except PipeClosed:
            self._fail()
        except Exception:
            self._fail()
            raise
        finally:
            del self._lines[line]
            for inbound in waiting:
                self._release(inbound)

    def _release(self, inbound: Inbound) -> None:
        self._count -= 1
        self._bytes -= _size(inbound)
        self._taken.set()

    async def drain(self) -> None:
        """Wait until nothing is held."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks.values()))

    async def close(self) -> None:
        """Drop the held messages, which were not confirmed."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _size(inbound: Inbound) -> int:
    """Return the approximate bytes of a message."""
    return len(inbound.text) + sum(len(file.data) for file in inbound.attachments)


def inbound_of(line: str) -> Inbound:
    """Return the message in a JSON line. Raises BadLine with a sentence."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadLine(f"This line is not JSON ({error}), so it was skipped.") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("text"), str):
        raise BadLine('This line has no "text" (write {"text": "…"}), so it was skipped.')
    for name in ("chat", "user", "id"):
        value = fields.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
            raise BadLine(f'The field "{name}" must be text; this line was skipped.')
    if fields.get("attachments") is not None and not _are_files(fields["attachments"]):
        raise BadLine(
            '"attachments" must be a list like [{"path": "a.png"}]; this line was skipped.'
        )
    return _inbound(fields)


def _inbound(fields: Mapping[str, Any]) -> Inbound:
    """Return the message of these fields. Ids are kept as JSON, so that they are returned
    unchanged: 7 as 7, "7" as "7"."""
    chat, user, own_id = fields.get("chat"), fields.get("user"), fields.get("id")
    address = Address(
        "pipe", CHAT if chat is None else str(chat), user="" if user is None else str(user)
    )
    name = uuid.uuid4().hex if own_id is None else own_id
    files = tuple(map(_attachment, fields.get("attachments") or ()))
    return Inbound(orjson.dumps(name).decode(), address, fields["text"], address.user, files)


def _attachment(fields: Mapping[str, Any]) -> Attachment:
    try:
        return read_attachment(
            Path(fields["path"]), fields.get("name") or "", fields.get("media_type") or ""
        )
    except LocalFileError as error:
        raise BadLine(f"{error}; this line was skipped.") from None


def _are_files(value: object) -> bool:
    """Return whether this is a list of objects with a path, and with only text values."""
    return isinstance(value, list) and all(
        isinstance(item, dict)
        and "path" in item
        and all(isinstance(text, str) and "\0" not in text for text in item.values())
        for item in value
    )


def _own_id(reply_to: str) -> Any:
    """Return the original id; an id made by the bot is not JSON."""
    try:
        return orjson.loads(reply_to)
    except orjson.JSONDecodeError:
        return reply_to


def standard(is_jsonl: bool) -> Pipe:
    """Return the pipe over this process's own standard streams. Raises PipeClosed if one is
    missing.

    They are reopened, since Python waits at its exit for a pending read of `sys.stdin`. A plugin's
    prints go to stderr, not between the replies.
    """
    if sys.stdin is None or sys.stdout is None:
        raise PipeClosed("Standard input and output must be open; redirect them to /dev/null.")
    source = io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    target = io.BufferedWriter(io.FileIO(sys.stdout.fileno(), "w", closefd=False))
    sys.stdout = sys.stderr
    return Pipe(source, target, is_jsonl)
