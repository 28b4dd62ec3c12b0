"""The parsing of a server's messages from bytes, so that the SDK always gets small data.

The SDK would build each value of a message and block the event loop (2 s for 4 MB of brackets). So
a message above `LARGE` is parsed in layers, and only the used parts are built. An answer that can't
be read becomes an error for its caller.
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
from plugins.mcp.layers import LARGE, MessageId, UnreadableAnswerError, read_large, truncate_result

log = logging.getLogger(__name__)

UNREADABLE, SESSION_OVER, REFUSED = -32990, -32991, -32992
"""Our own error codes: for an answer that can't be read, for a call that was not executed, since
the server does not know the session, and for an HTTP status without details."""
_CANCELLED = "notifications/cancelled"
_EDGE = 1_000  # bytes at both ends of a message that are searched for its id
_MOST_DROPPED = 64_000_000  # maximum bytes of a message that is too long which are skipped
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,200}")\s*'
_RPC = rb'"jsonrpc"\s*:\s*"2.0"\s*'
_ID_FIRST = re.compile(rb"\s*\{\s*(?:" + _RPC + rb",\s*)?" + _ID + rb"[,}]")
_ID_LAST = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _RPC + rb")?\}\s*$")
_ANSWER = re.compile(
    rb'[\s\xef\xbb\xbf]*(?:\[?\s*\{\s*"(?:jsonrpc|result|error|id)"|"jsonrpc")\s*:'
)
"""The beginning of a line that is meant as a message; a log line may quote one further on."""
TOO_LONG = f"it is longer than {LONGEST // 1_000_000} MB"


def read_messages(data: bytes) -> list[JSONRPCMessage]:
    """Return the messages in a line, a body or an event; none for other text, since some servers
    write their log there. Raises UnreadableAnswerError."""
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
    """Return the id of a message that can't be read, if it is at the beginning or end."""
    found = _ID_FIRST.match(data[:_EDGE]) or _ID_LAST.search(data[-_EDGE:])
    return json.loads(found[1].decode("utf-8", "replace")) if found else None


def make_error(id: MessageId, code: int, text: str, more: Any = None) -> JSONRPCError:
    """Return the error with which a call ends."""
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=text, data=more))


class ServerAnswers:
    """The parser of a server's messages, with the calls that wait for an answer."""

    def __init__(self) -> None:
        self._waiting: dict[MessageId, None] = {}

    def sent(self, message: JSONRPCMessage) -> None:
        """Register a message to the server."""
        if isinstance(message, JSONRPCRequest):
            self._waiting[message.id] = None
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._forget((message.params or {}).get("requestId", ""))

    def read(self, data: bytes, call: MessageId | None = None) -> list[JSONRPCMessage]:
        """Return the messages in the data. For an answer that can't be read, return an error for
        its call: `call`, or the id in the answer, or else all waiting calls, which would otherwise
        never end."""
        try:
            found = read_messages(data)
        except UnreadableAnswerError as error:
            return self.fail(str(error), error.id if call is None else call)
        for one in found:
            if isinstance(one, JSONRPCResponse | JSONRPCError) and one.id is not None:
                self._forget(one.id)
        return found

    def read_begin(self, begin: bytes) -> list[JSONRPCMessage]:
        """Return the errors for a message that is too long, given its beginning."""
        return self.fail(TOO_LONG, find_id(begin)) if _ANSWER.match(begin) else []

    def fail(self, why: str, call: MessageId | None = None) -> list[JSONRPCMessage]:
        """Return the errors for an answer that can't be read."""
        calls = [call] if call is not None else list(self._waiting)
        for one in calls:
            self._forget(one)
        return [make_error(one, UNREADABLE, f"its answer can't be read: {why}") for one in calls]

    def _forget(self, id: MessageId) -> None:
        for one in (id, str(id), int(id) if isinstance(id, str) and id.isdecimal() else id):
            self._waiting.pop(one, None)


class TooMuchError(ValueError):
    """A message without an end."""


class StreamLines:
    """The lines of a stream that is read in pieces. Of a line that exceeds the maximum length, the
    beginning is returned at once, and the rest is skipped."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest, self._held, self._looked, self._dropped = longest, bytearray(), 0, 0

    def feed(self, piece: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield the lines that end in this piece, without the line end, and whether each is
        complete. Raises TooMuchError."""
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
        """Return the text after the last line end."""
        held, self._looked = bytes(self._held), 0
        self._held.clear()
        return b"" if self._dropped else held


# --- values ---------------------------------------------------------------------------------------

_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"\s*")


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _read_small(data: bytes) -> list[Any]:
    """Return the JSON values in the data, one after the other, parsed leniently."""
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
        if not isinstance(value, dict | list):  # a word or a number at the beginning of a line
            if not found:
                raise ValueError("no message")
            break
        found.append(value)
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    if "\\ud" in text.lower():  # lone surrogates, which can't be encoded again
        found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    return found


# --- one message ----------------------------------------------------------------------------------


def _to_message(value: Any) -> JSONRPCMessage | None:
    """Return the message of a value; None if it is not one. Raises UnreadableAnswerError."""
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
        excerpt = text[:200]
        raise UnreadableAnswerError(f"it does not say which call it answers ({excerpt})")
    if fault is not None:
        return make_error(call, code, text, more)
    if result is not None and not isinstance(result, Mapping):
        raise UnreadableAnswerError("its result is not of the protocol", call)
    return JSONRPCResponse(jsonrpc="2.0", id=call, result=truncate_result(dict(result or {})))


def _read_fault(fault: Any) -> tuple[int, str, Any]:
    """Return the code, the text and the data of an error, whatever its shape."""
    if not isinstance(fault, Mapping):
        return 0, fault if isinstance(fault, str) else json.dumps(fault)[:2_000], None
    code, text = fault.get("code"), fault.get("message")
    known = code if isinstance(code, int) and not isinstance(code, bool) else 0
    reason = text if isinstance(text, str) else json.dumps(dict(fault))[:2_000]
    return known, reason, fault.get("data")


def encode(messages: Sequence[JSONRPCMessage]) -> list[bytes]:
    """Return the messages in encoded form."""
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
