"""Large messages of a server, read in layers: of each no more is built than is ever used, so that
what the SDK gets is small, whatever was sent.

The SDK would build each value of a message while everybody waits: 2 s for 4 MB of brackets.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from agent.mcp.rate import MOST_ITEMS

LARGE = 100_000
"""Bytes up to which a message is built as it is."""
_ROOM = 900_000  # bytes of a message that the SDK gets; its own bound for an event is 1 MiB
_KINDS = frozenset(("text", "image", "audio", "resource_link", "resource"))
"""The kinds of pieces that the result of a tool may have."""

MessageId = int | str


class UnreadableAnswerError(ValueError):
    """An answer that can't be read; `id` is the call's that it answers, if that much is known. The
    text goes on after "its answer can't be read: "."""

    def __init__(self, why: str, id: MessageId | None = None) -> None:
        super().__init__(why)
        self.id = id


class _Envelope(Struct):
    id: Raw = Raw(b"null")
    method: str = ""
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


class _Fault(Struct):
    code: int = 0
    message: str = ""


class _Resource(Struct, rename="camel"):
    uri: str = ""
    mime_type: str | None = None
    text: str | None = None


class _Piece(Struct, rename="camel"):
    """A piece of a result; what is not text (a picture) is not even looked at."""

    type: str = ""
    text: str = ""
    uri: str = ""
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    resource: _Resource | None = None


class _Name(Struct):
    name: str = ""


class _Result(Struct, rename="camel"):
    """The parts of a result that are ever used."""

    content: list[Raw] | None = None
    contents: list[Raw] | None = None
    resources: list[Raw] | None = None
    tools: list[Raw] | None = None
    structured_content: Raw = Raw(b"")
    is_error: bool = False
    next_cursor: str | None = None
    result_type: str | None = None


def read_large(data: bytes) -> dict[str, Any]:
    """A message of which no more is built than is used."""
    text = data.decode("utf-8", "replace").lstrip("\ufeff").encode()
    envelope = msgspec.json.decode(text, type=_Envelope)
    id = msgspec.json.decode(envelope.id)
    read: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
    if envelope.method:  # what it asks for is refused, and what it tells is not that long
        return {**read, "method": envelope.method} if id is not None else {}
    if bytes(envelope.error) not in (b"", b"null"):
        fault = msgspec.json.decode(envelope.error, type=_Fault)
        return {**read, "error": {"code": fault.code, "message": fault.message[:LARGE]}}
    try:
        return {**read, "result": _shrink(msgspec.json.decode(envelope.result, type=_Result))}
    except ValueError:
        raise UnreadableAnswerError("it is not of the protocol", id) from None


def _shrink(result: _Result) -> dict[str, Any]:
    small: dict[str, Any] = {"isError": result.is_error} if result.is_error else {}
    if result.next_cursor is not None:
        small["nextCursor"] = result.next_cursor[:LARGE]
    if result.result_type is not None:
        small["resultType"] = result.result_type[:100]
    room = _Room()
    if result.content is not None:
        small["content"] = [
            room.fill(msgspec.json.decode(one, type=_Piece)) for one in result.content[:MOST_ITEMS]
        ]
    if not small.get("content") and bytes(result.structured_content) not in (b"", b"null"):
        text = bytes(result.structured_content).decode("utf-8", "replace")
        small["content"] = [{"type": "text", "text": room.cut(text)}]
    if result.contents is not None:
        parts = [msgspec.json.decode(one, type=_Resource) for one in result.contents[:MOST_ITEMS]]
        small["contents"] = [room.fill_resource(one) for one in parts]
    if result.resources is not None:
        listed = [msgspec.json.decode(one, type=_Piece) for one in result.resources[:MOST_ITEMS]]
        small["resources"] = [room.fill_link(one) for one in listed]
    if result.tools is not None:
        small["tools"] = [room.fill_tool(one) for one in result.tools[:MOST_ITEMS]]
    return small


class _Room:
    """The bytes that the SDK gets of a message, which the first pieces take."""

    def __init__(self) -> None:
        self._left = _ROOM

    def cut(self, text: str) -> str:
        whole, size = text, len(msgspec.json.encode(text))
        while size > max(self._left, 1_000):
            text = text[: int(len(text) * max(self._left, 1_000) / size * 0.9)]
            size = len(msgspec.json.encode(text))
        self._left -= size
        if text == whole:
            return text
        return f"{text}\n[The rest is left out: {len(whole):,} characters are too long.]"

    def fill(self, piece: _Piece) -> dict[str, Any]:
        match piece.type:
            case "text":
                return {"type": "text", "text": self.cut(piece.text)}
            case "resource_link":
                return {"type": "resource_link", **self.fill_link(piece)}
            case "resource" if piece.resource is not None and piece.resource.text is not None:
                return {"type": "text", "text": self.cut(piece.resource.text)}
            case "resource" if piece.resource is not None:
                return {"type": "text", "text": left_out(piece.resource.mime_type)}
            case "image" | "audio":
                return {"type": "text", "text": left_out(piece.mime_type)}
        return {"type": "text", "text": _describe_unknown(piece.type)}

    def fill_link(self, piece: _Piece) -> dict[str, Any]:
        said = self.cut(piece.description or piece.title or "")
        return {"uri": self.cut(piece.uri), "name": self.cut(piece.name), "description": said}

    def fill_resource(self, part: _Resource) -> dict[str, Any]:
        kind = {} if part.mime_type is None else {"mimeType": part.mime_type[:200]}
        if part.text is not None:
            return {"uri": self.cut(part.uri), "text": self.cut(part.text), **kind}
        return {"uri": self.cut(part.uri), "blob": "", **kind}

    def fill_tool(self, tool: Raw) -> Any:
        """A tool as it is while there is room, and its name alone after that."""
        size = len(bytes(tool))
        if size > min(self._left, LARGE):
            name = msgspec.json.decode(tool, type=_Name).name
            return {"name": self.cut(name[:2_000]), "inputSchema": {"type": "object"}}
        self._left -= size
        return msgspec.json.decode(tool)


def left_out(media_type: str | None) -> str:
    """The note in the place of what is no text."""
    return f"[{(media_type or 'data')[:200]} is left out: it is no text]"


def tidy(result: dict[str, Any]) -> dict[str, Any]:
    """The same, without what a list in it has beyond what is ever used. A piece that this version
    of the protocol does not have becomes a note: for the SDK it would break the whole answer."""
    for name, value in result.items():
        if isinstance(value, list) and len(value) > MOST_ITEMS:
            result[name] = value[:MOST_ITEMS]
    if isinstance(content := result.get("content"), list):
        result["content"] = [_as_known(block) for block in content]
    return result


def _as_known(block: Any) -> Any:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str) or kind in _KINDS:
        return block
    return {"type": "text", "text": _describe_unknown(kind)}


def _describe_unknown(kind: str) -> str:
    return f"[a part of the kind {kind[:40]!r} is left out]"
