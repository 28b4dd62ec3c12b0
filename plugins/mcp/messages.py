"""Messages of a server, read from their bytes: what the SDK gets is small, whatever was sent.

The SDK would build each value of a message while everybody waits (2 s for 4 MB of brackets). A
message above `LARGE` is therefore looked at in layers, of which only what is used is ever built.
An answer that can't be read becomes an error for whoever waits for it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from mcp_types import ErrorData
from mcp_types.jsonrpc import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from plugins.mcp.health import LONGEST
from plugins.mcp.layers import LARGE, MessageId, UnreadableAnswerError, read_large, tidy

log = logging.getLogger(__name__)

UNREADABLE, SESSION_OVER, REFUSED = -32990, -32991, -32992
"""Codes of errors that are made here: for an answer that can't be read, for a call that was not
looked at, since the server does not know the session, and for a status of HTTP without more."""
_CANCELLED = "notifications/cancelled"
_EDGE = 1_000  # bytes at both ends of a message in which its id is looked for
_MOST_DROPPED = 64_000_000  # bytes of a message that is too long which are read over
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,200}")\s*'
_RPC = rb'"jsonrpc"\s*:\s*"2.0"\s*'
_ID_FIRST = re.compile(rb"\s*\{\s*(?:" + _RPC + rb",\s*)?" + _ID + rb"[,}]")
_ID_LAST = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _RPC + rb")?\}\s*$")
_ANSWER = re.compile(
    rb'[\s\xef\xbb\xbf]*(?:\[?\s*\{\s*"(?:jsonrpc|result|error|id)"|"jsonrpc")\s*:'
)
"""The beginning of a line that was meant as a message; a line of a log may quote one further on."""
TOO_LONG = f"it is longer than {LONGEST // 1_000_000} MB"


def read_messages(data: bytes) -> list[JSONRPCMessage]:
    """Return the messages in a line, a body or an event; none in what is no message, as some
    servers write their log there. Raises UnreadableAnswerError."""
    try:
        values = [read_large(data)] if len(data) > LARGE else _read_small(data)
    except (ValueError, RecursionError) as error:
        if not _ANSWER.match(data[:_EDGE]):
            return []
        log.debug("an MCP server sends what can't be read: %s", error)
        deep = isinstance(error, RecursionError)
        why = "it is nested too deeply" if deep else "it is no valid JSON"
        raise UnreadableAnswerError(why, find_id(data)) from None
    found = [
        _to_message(one) for value in values for one in (value if _is_list(value) else [value])
    ]
    return [one for one in found if one is not None]


def find_id(data: bytes) -> MessageId | None:
    """Return the id of a message that can't be read, where it stands at the message's begin or
    end."""
    found = _ID_FIRST.match(data[:_EDGE]) or _ID_LAST.search(data[-_EDGE:])
    return json.loads(found[1].decode("utf-8", "replace")) if found else None


def make_error(id: MessageId, code: int, text: str, more: Any = None) -> JSONRPCError:
    """Return the error that a call ends with."""
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=text, data=more))


class ServerAnswers:
    """Reads what a server sends, and knows which calls wait for an answer."""

    def __init__(self) -> None:
        self._waiting: dict[MessageId, None] = {}

    def sent(self, message: JSONRPCMessage) -> None:
        """Note what the server was asked."""
        if isinstance(message, JSONRPCRequest):
            self._waiting[message.id] = None
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._settle((message.params or {}).get("requestId", ""))

    def read(self, data: bytes, call: MessageId | None = None) -> list[JSONRPCMessage]:
        """Return the messages in it. For an answer that can't be read, an error for the call that
        it answers, which is `call`, or says so itself; else for all that wait: none of them would
        hear of it otherwise."""
        try:
            found = read_messages(data)
        except UnreadableAnswerError as error:
            return self.fail(str(error), error.id if call is None else call)
        for one in found:
            if isinstance(one, JSONRPCResponse | JSONRPCError) and one.id is not None:
                self._settle(one.id)
        return found

    def read_begin(self, begin: bytes) -> list[JSONRPCMessage]:
        """Return the errors for a message that is too long, of which this is the begin."""
        return self.fail(TOO_LONG, find_id(begin)) if _ANSWER.match(begin) else []

    def fail(self, why: str, call: MessageId | None = None) -> list[JSONRPCMessage]:
        """Return the errors for an answer that can't be read."""
        calls = [call] if call is not None else list(self._waiting)
        for one in calls:
            self._settle(one)
        return [make_error(one, UNREADABLE, f"its answer can't be read: {why}") for one in calls]

    def _settle(self, id: MessageId) -> None:
        for one in (id, str(id), int(id) if isinstance(id, str) and id.isdecimal() else id):
            self._waiting.pop(one, None)


class TooMuchError(ValueError):
    """A message that never ends."""


class StreamLines:
    """Lines in pieces of a stream. Of one that is longer than a message may be the begin is given
    as soon as that is known, and the rest is read over."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest, self._held, self._looked, self._dropped = longest, bytearray(), 0, 0

    def feed(self, piece: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield the lines that end in this piece, without their end, and whether each is whole.
        Raises TooMuchError."""
        self._held += piece
        while (end := self._held.find(b"\n", self._looked)) >= 0:
            line = bytes(self._held[:end]).removesuffix(b"\r")
            del self._held[: end + 1]
            self._looked = 0
            if self._dropped:
                self._dropped = 0
            elif len(line) > self._longest:
                yield line[:_EDGE], False
            else:
                yield line, True
        self._looked = len(self._held)
        if self._dropped or self._looked > self._longest:
            begin, is_new = bytes(self._held[:_EDGE]), not self._dropped
            self._dropped += self._looked
            self._held.clear()
            self._looked = 0
            if is_new:
                yield begin, False
            if self._dropped > _MOST_DROPPED:
                raise TooMuchError

    def rest(self) -> bytes:
        """Return what stands behind the last line's end."""
        held, self._looked = bytes(self._held), 0
        self._held.clear()
        return b"" if self._dropped else held


# --- values ---------------------------------------------------------------------------------------

_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"\s*")


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _read_small(data: bytes) -> list[Any]:
    """Return the values that stand in it, one behind the other, read as leniently as can be."""
    text = data.decode("utf-8", "replace").strip("\ufeff \t\r\n")
    found: list[Any] = []
    at = 0
    while at < len(text):
        try:
            value, at = _DECODER.raw_decode(text, at)
        except ValueError:
            if not found:
                raise
            break
        if not isinstance(value, dict | list):  # a word or a number at the begin of a line
            if not found:
                raise ValueError("no message")
            break
        found.append(value)
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    if "\\ud" in text.lower():  # halves of a character, which can't be written again
        found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    return found


# --- one message ----------------------------------------------------------------------------------


def _to_message(value: Any) -> JSONRPCMessage | None:
    """Return what a value means; None for none. Raises UnreadableAnswerError."""
    if not isinstance(value, Mapping):
        return None
    id = value.get("id")
    call = id if isinstance(id, int | str) and not isinstance(id, bool) else None
    if isinstance(method := value.get("method"), str):
        params = value.get("params")
        kept = dict(params) if isinstance(params, Mapping) else None
        if call is None:
            return JSONRPCNotification(jsonrpc="2.0", method=method, params=kept)
        return JSONRPCRequest(jsonrpc="2.0", id=call, method=method, params=kept)
    if value.keys() & {"result", "error"} and value.keys() & {"id", "jsonrpc"}:
        return _to_answer(value, call)
    if call is not None and "jsonrpc" in value:
        raise UnreadableAnswerError("it has neither a result nor an error", call)
    return None


def _to_answer(value: Mapping[str, Any], call: MessageId | None) -> JSONRPCMessage:
    fault, result = value.get("error"), value.get("result")
    code, text, more = (0, "", None) if fault is None else _read_fault(fault)
    if call is None:
        if not text:
            raise UnreadableAnswerError("it does not say which call it answers")
        said = text[:200]
        raise UnreadableAnswerError(f"it does not say which call it answers ({said})")
    if fault is not None:
        return make_error(call, code, text, more)
    if result is not None and not isinstance(result, Mapping):
        raise UnreadableAnswerError("its result is not of the protocol", call)
    return JSONRPCResponse(jsonrpc="2.0", id=call, result=tidy(dict(result or {})))


def _read_fault(fault: Any) -> tuple[int, str, Any]:
    """Return the code and the text of an error, whatever its shape, and what else it says."""
    if not isinstance(fault, Mapping):
        return 0, fault if isinstance(fault, str) else json.dumps(fault)[:2_000], None
    code, text = fault.get("code"), fault.get("message")
    known = code if isinstance(code, int) and not isinstance(code, bool) else 0
    told = text if isinstance(text, str) else json.dumps(dict(fault))[:2_000]
    return known, told, fault.get("data")


def encode(messages: Sequence[JSONRPCMessage]) -> list[bytes]:
    """Return the same messages as they are sent."""
    return [msgspec.json.encode(_to_sent(one)) for one in messages]


def _to_sent(message: JSONRPCMessage) -> dict[str, Any]:
    if isinstance(message, JSONRPCResponse):
        return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
    if isinstance(message, JSONRPCError):
        error = {"code": message.error.code, "message": message.error.message}
        error |= {} if message.error.data is None else {"data": message.error.data}
        return {"jsonrpc": "2.0", "id": message.id, "error": error}
    id = {"id": message.id} if isinstance(message, JSONRPCRequest) else {}
    params = {} if message.params is None else {"params": message.params}
    return {"jsonrpc": "2.0", **id, "method": message.method, **params}
