"""Standard input and output: JSON lines for scripts and tests, or plain lines.

With `--jsonl` each input line is `{"text": …, "chat": …, "user": …, "id": …}`, all but `text`
optional. A message that is on disk is confirmed by `{"accepted": id}`; a reply is
`{"reply_to": id, "chat": …, "turn": "t3" or null, "text": …, "data": …}`. Plain: a line in, a
reply out.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import uuid
from collections.abc import Mapping
from typing import Any, BinaryIO

import orjson

from channels.base import Bot, Capabilities
from channels.message import Address, Inbound, Outbound

CHAT = "main"
AHEAD = 1_000  # lines that are read before they can be taken in


class BadLine(Exception):
    """An input line that is no message; the text says why."""


class Pipe:
    """A channel over two binary streams."""

    name = "pipe"
    capabilities = Capabilities()

    def __init__(self, source: BinaryIO, target: BinaryIO, is_jsonl: bool) -> None:
        self._source, self._target, self._is_jsonl = source, target, is_jsonl

    async def listen(self, bot: Bot) -> None:
        """Submit every line until the input ends."""
        lines = _Lines(self._source, asyncio.get_running_loop())
        while line := await lines.next():
            try:
                inbound = self._parse(line)
            except BadLine as error:
                self._write({"error": str(error)}, str(error))
                continue
            if inbound is not None:
                accepted = await bot.submit(inbound)
                if accepted is not None and self._is_jsonl:
                    self._write({"accepted": orjson.loads(accepted.id)}, "")

    async def send(self, outbound: Outbound) -> None:
        """Write one reply as one line (plain: as it is, then a line break)."""
        line: dict[str, Any] = {
            "reply_to": orjson.loads(outbound.reply_to),
            "chat": outbound.address.chat,
            "turn": outbound.turn,
            "text": outbound.reply.text,
            "data": outbound.reply.data,
        }
        if outbound.is_resent:
            line["resent"] = True
        self._write(line, outbound.reply.text)

    def _parse(self, line: bytes) -> Inbound | None:
        text = line.decode("utf-8", "replace").strip("\r\n")
        if not text.strip():
            return None
        return inbound_of(text) if self._is_jsonl else _inbound({"text": text})

    def _write(self, line: Mapping[str, Any], plain: str) -> None:
        text = orjson.dumps(line, default=str) if self._is_jsonl else plain.encode()
        self._target.write(text + b"\n")
        self._target.flush()


class _Lines:
    """Lines of a stream, read in a thread that does not keep the process from ending."""

    def __init__(self, source: BinaryIO, loop: asyncio.AbstractEventLoop) -> None:
        self._source, self._loop = source, loop
        self._read: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(AHEAD)
        threading.Thread(target=self._read_all, name="pipe-reader", daemon=True).start()

    def _read_all(self) -> None:
        line = b"-"
        while line:
            line = self._source.readline()
            self._room.acquire()
            try:
                self._loop.call_soon_threadsafe(self._read.put_nowait, line)
            except RuntimeError:
                return  # the loop is closed: nobody listens any more

    async def next(self) -> bytes:
        """The next line; b"" at the end."""
        line = await self._read.get()
        self._room.release()
        return line


def inbound_of(line: str) -> Inbound:
    """The message in a JSON line; raises BadLine with a sentence."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadLine(f"This line is not JSON ({error}); the next one is read.") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("text"), str):
        raise BadLine('This line has no "text"; write {"text": "…"}. The next one is read.')
    for name in ("chat", "user", "id"):
        value = fields.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
            raise BadLine(f'The field "{name}" wants text; the next line is read.')
    return _inbound(fields)


def _inbound(fields: Mapping[str, Any]) -> Inbound:
    """Ids are kept as JSON, so that they come back as they came: 7 as 7, "7" as "7"."""
    chat, user, own_id = fields.get("chat"), fields.get("user"), fields.get("id")
    address = Address(
        "pipe", CHAT if chat is None else str(chat), user="" if user is None else str(user)
    )
    name = uuid.uuid4().hex if own_id is None else own_id
    return Inbound(orjson.dumps(name).decode(), address, fields["text"], address.user)


def standard(is_jsonl: bool) -> Pipe:
    """The pipe over this process's own standard streams."""
    return Pipe(sys.stdin.buffer, sys.stdout.buffer, is_jsonl)
