"""Large messages of a server, parsed in layers. Only the used parts are built, so that the SDK
always gets small data.

The SDK would build each value of a message and block the event loop: 2 s for 4 MB of brackets.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from plugins.mcp.health import MOST_ITEMS

LARGE = 100_000
"""The size in bytes up to which a message is built completely."""
_ROOM = 900_000  # maximum bytes of a message for the SDK, whose own limit for an event is 1 MiB
_LONGEST_VALUE, _MOST_VALUES = 20_000, 300_000  # bytes of schemas built: one, and all
_KINDS = frozenset(("text", "image", "audio", "resource_link", "resource"))
"""The kinds of parts that a tool's result may have."""

_TASK_SUPPORT = ("forbidden", "optional", "required")

MessageId = int | str


class UnreadableAnswerError(ValueError):
    """An answer that can't be read; `id` is the id of its call, if known. The text continues the
    sentence "its answer can't be read: "."""

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
    uri: str
    mime_type: str | None = None
    text: str | None = None


class _Piece(Struct, rename="camel"):
    """A part of a result; data other than text (a picture) is not parsed."""

    type: str
    text: str = ""
    uri: str = ""
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    resource: _Resource | None = None


class _Listed(Struct, rename="camel"):
    """A resource in a list."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None


class _Tool(Struct, rename="camel"):
    """A tool in a list."""

    name: str
    description: str | None = None
    input_schema: Raw = Raw(b"")
    execution: Raw = Raw(b"")


class _Result(Struct, rename="camel"):
    """The parts of a result that are used. Required fields have no default, so that parsing a
    million of empty items fails at the first."""

    content: list[_Piece] | None = None
    contents: list[_Resource] | None = None
    resources: list[_Listed] | None = None
    tools: list[_Tool] | None = None
    structured_content: Raw = Raw(b"")
    is_error: bool = False
    next_cursor: str | None = None
    result_type: str | None = None


def read_large(data: bytes) -> dict[str, Any]:
    """Return a message with only the parts that are used."""
    text = data.decode("utf-8", "replace").lstrip("\ufeff").encode()
    envelope = msgspec.json.decode(text, type=_Envelope)
    id = msgspec.json.decode(envelope.id)
    read: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
    if envelope.method:  # its requests are refused, and its notifications are short
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
    room = _MessageBuffer()
    if result.content is not None:
        small["content"] = [room.fill(one) for one in result.content[:MOST_ITEMS]]
    if not small.get("content") and bytes(result.structured_content) not in (b"", b"null"):
        text = bytes(result.structured_content).decode("utf-8", "replace")
        small["content"] = [{"type": "text", "text": room.cut(text)}]
    if result.contents is not None:
        small["contents"] = [room.fill_resource(one) for one in result.contents[:MOST_ITEMS]]
    if result.resources is not None:
        small["resources"] = [room.fill_link(one) for one in result.resources[:MOST_ITEMS]]
    if result.tools is not None:
        small["tools"] = [room.fill_tool(one) for one in result.tools[:MOST_ITEMS]]
    return small


class _MessageBuffer:
    """The remaining bytes of a message for the SDK; the first parts use them up."""

    def __init__(self) -> None:
        self._left, self._values = _ROOM, _MOST_VALUES

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

    def fill_link(self, piece: _Piece | _Listed) -> dict[str, Any]:
        text = self.cut(piece.description or piece.title or "")
        return {"uri": self.cut(piece.uri), "name": self.cut(piece.name), "description": text}

    def fill_resource(self, part: _Resource) -> dict[str, Any]:
        kind = {} if part.mime_type is None else {"mimeType": part.mime_type[:200]}
        if part.text is not None:
            return {"uri": self.cut(part.uri), "text": self.cut(part.text), **kind}
        return {"uri": self.cut(part.uri), "blob": "", **kind}

    def fill_tool(self, tool: _Tool) -> dict[str, Any]:
        """Return a tool, with its schema if there is room."""
        filled: dict[str, Any] = {"name": self.cut(tool.name[:2_000])}
        filled["description"] = self.cut((tool.description or "")[:10_000])
        filled["inputSchema"] = self._build(tool.input_schema, {"type": "object"})
        if execution := self._build(tool.execution, {}):
            filled["execution"] = execution
        return filled

    def _build(self, value: Raw, otherwise: dict[str, Any]) -> Any:
        size = len(bytes(value))
        if not 0 < size <= min(_LONGEST_VALUE, self._values):
            return otherwise
        self._values -= size
        return msgspec.json.decode(value)


def left_out(media_type: str | None) -> str:
    """Return the note that replaces data other than text."""
    return f"[{(media_type or 'data')[:200]} is left out: it is no text]"


def truncate_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with lists truncated to the maximum number of items. A part of an unknown
    kind becomes a note, since the SDK would reject the whole answer."""
    for name, value in result.items():
        if isinstance(value, list) and len(value) > MOST_ITEMS:
            result[name] = value[:MOST_ITEMS]
    if isinstance(content := result.get("content"), list):
        result["content"] = [_as_known(block) for block in content]
    if isinstance(tools := result.get("tools"), list):
        result["tools"] = [_as_tool(tool) for tool in tools if _is_named(tool)]
    return result


def _is_named(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)


def _as_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the used parts of a tool in the form that the SDK requires. A single invalid schema
    would make it reject the whole list."""
    read: dict[str, Any] = {"name": tool["name"], "inputSchema": {"type": "object"}}
    if isinstance(about := tool.get("description"), str):
        read["description"] = about
    execution, schema = tool.get("execution"), tool.get("inputSchema")
    if isinstance(execution, dict) and execution.get("taskSupport") in _TASK_SUPPORT:
        read["execution"] = {"taskSupport": execution["taskSupport"]}
    if isinstance(schema, dict) and _has_properties(schema):
        rest = {name: value for name, value in schema.items() if name != "$schema"}
        read["inputSchema"] = {**rest, "type": "object"}
    return read


def _has_properties(schema: dict[str, Any]) -> bool:
    """Return whether a schema's properties, if it has any, are schemas by name."""
    known, required = schema.get("properties", {}), schema.get("required", [])
    return (
        isinstance(known, dict)
        and all(isinstance(one, dict | bool) for one in known.values())
        and isinstance(required, list)
        and all(isinstance(one, str) for one in required)
    )


def _as_known(block: Any) -> Any:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str) or kind in _KINDS:
        return block
    return {"type": "text", "text": _describe_unknown(kind)}


def _describe_unknown(kind: str) -> str:
    return f"[a part of the kind {kind[:40]!r} is left out]"
