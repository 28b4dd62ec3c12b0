"""The conversion of another program's messages to complete turns, and of content in blocks, as in
Anthropic's API and other programs: texts, reasoning, tool calls and their results. Pure functions;
no message is lost.

A turn here is a question, tool calls with their results, and one reply. Elsewhere, a person may
write twice before an answer, a model may write first or in several parts, and results may lack
their calls. Missing parts of a turn are replaced by placeholders.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from agent.models.shapes import as_list, as_mapping
from channels.message import clean_text
from memory.messages import PICTURE, Message, ToolCall
from plugins.moving.reading import MOST_PICTURE
from plugins.moving.source import ForeignMessage, SkippedItems, as_text

NO_QUESTION = "(There was no question.)"
"""The placeholder for a person's message if the model wrote first."""
NO_RESULT = "(The result was not kept.)"
_NAME = re.compile(r"[^A-Za-z0-9_-]+")  # characters that providers reject in names of tools
_LONGEST_NAME = 64


class ImportedMessage(Struct, frozen=True):
    """A message with its time, and the names of its pictures."""

    message: Message
    at: datetime
    pictures: tuple[str, ...] = ()


def as_turns(
    messages: Sequence[ForeignMessage], now: datetime, *, is_own: bool, begun: datetime | None
) -> list[list[ImportedMessage]]:
    """Return the messages as turns, in order. A message without a time gets that of the previous
    one, or of the conversation's beginning (`begun`); none is later than `now`. If `is_own`, only
    tool results count as text from outside, and messages after them are tainted."""
    turns: list[_Turn] = []
    at, ids = min(begun or _first_time(messages) or now, now), _CallIds()
    for message in messages:
        at = min(message.at or at, now)
        if message.role == "user":
            if _is_empty(message):
                continue
            turns.append(_Turn(_question(message, at), at, ids))
        elif message.text.strip() or message.calls or message.role == "tool" or message.reasoning:
            if not turns:
                turns.append(_Turn(ImportedMessage(Message("user", NO_QUESTION), at), at, ids))
            turns[-1].add(message, at)
    return _mark([turn.end() for turn in turns], is_own=is_own)


def _first_time(messages: Iterable[ForeignMessage]) -> datetime | None:
    return next((message.at for message in messages if message.at), None)


def _is_empty(message: ForeignMessage) -> bool:
    return not (clean_text(message.text).strip() or message.pictures)


def _question(message: ForeignMessage, at: datetime) -> ImportedMessage:
    text = clean_text(message.text)
    return ImportedMessage(Message("user", text if text.strip() else PICTURE), at, message.pictures)


def _mark(
    turns: Iterable[Sequence[ImportedMessage]], *, is_own: bool
) -> list[list[ImportedMessage]]:
    """Return the turns, with text from outside marked."""
    marked, is_tainted = [], not is_own
    for turn in turns:
        outcome = []
        for one in turn:
            is_result = one.message.role == "tool"
            is_stained = is_tainted and not (is_own and one.message.role == "user")
            message = replace(one.message, is_untrusted=is_result, is_tainted=is_stained)
            outcome.append(replace(one, message=message))
            is_tainted |= is_result
        marked.append(outcome)
    return marked


class _CallIds:
    """Ids of calls, which are unique within a conversation."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def take(self, wanted: str) -> str:
        name = wanted if 0 < len(wanted) <= 200 and wanted.isprintable() else "call"
        number, found = 1, name
        while found in self._known:
            number += 1
            found = f"{name}_{number}"
        self._known.add(found)
        return found


class _Turn(Struct):
    """A turn under construction; the text since the last call is in `_words`."""

    question: ImportedMessage
    at: datetime
    ids: _CallIds
    _done: list[ImportedMessage] = field(default_factory=list)
    _words: list[str] = field(default_factory=list)
    _thoughts: list[str] = field(default_factory=list)
    _open: list[tuple[str, ToolCall]] = field(default_factory=list)
    """Calls without a result so far, each with its original id, which may be missing or
    repeated."""

    def add(self, message: ForeignMessage, at: datetime) -> None:
        """Add a message of the model or of a tool."""
        self.at = at
        if message.role == "tool":
            self._add_result(message)
            return
        self._close()
        self._words += [text for text in [clean_text(message.text)] if text.strip()]
        self._thoughts += [text for text in [clean_text(message.reasoning)] if text.strip()]
        if message.calls:
            self._call(message.calls)

    def end(self) -> list[ImportedMessage]:
        """Return the complete turn."""
        self._close()
        text = self._spoken()
        last = Message("assistant", text, reasoning=self._thought(), mark="" if text else "stopped")
        return [self.question, *self._done, ImportedMessage(last, self.at)]

    def _spoken(self) -> str:
        text, self._words = "\n\n".join(self._words), []
        return text

    def _thought(self) -> str:
        text, self._thoughts = "\n\n".join(self._thoughts), []
        return text

    def _call(self, calls: Iterable[ToolCall]) -> None:
        self._open = [(call.id, _clean_call(call, self.ids.take(call.id))) for call in calls]
        mine = tuple(call for _, call in self._open)
        message = Message("assistant", self._spoken(), mine, reasoning=self._thought())
        self._done.append(ImportedMessage(message, self.at))

    def _add_result(self, message: ForeignMessage) -> None:
        """Add a result after its call; a result without a call gets one."""
        open_ids = [name for name, _ in self._open]
        wanted = message.call_id
        if self._open and (wanted in open_ids or not wanted):
            _, call = self._open.pop(open_ids.index(wanted) if wanted in open_ids else 0)
        else:
            self._close()
            self._call([ToolCall(wanted, message.tool, "{}")])
            _, call = self._open.pop()
        self._answer(call, clean_text(message.text), is_error=message.is_error)

    def _close(self) -> None:
        """Add an error as the result of each open call."""
        for _, call in self._open:
            self._answer(call, NO_RESULT, is_error=True)
        self._open = []

    def _answer(self, call: ToolCall, text: str, *, is_error: bool) -> None:
        result = Message("tool", text, call_id=call.id, tool=call.name, is_error=is_error)
        self._done.append(ImportedMessage(result, self.at))


def _clean_call(call: ToolCall, identity: str) -> ToolCall:
    name = _NAME.sub("_", call.name)[:_LONGEST_NAME] or "tool"
    return ToolCall(identity, name, clean_text(call.arguments) or "{}")


_KINDS = {"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image"}
_DATA = re.compile(r"data:image/[\w.+-]+;base64,")


def read_blocks(
    role: str, content: object, at: datetime | None, skipped: SkippedItems
) -> list[ForeignMessage]:
    """Return the messages in such content: tool results first, since they answer earlier calls.
    Unreadable parts are counted."""
    blocks = [as_mapping(one) for one in as_list(content)]
    text = as_text(content) or join_texts(blocks)
    for kind in (as_text(one.get("type")) for one in blocks):
        if kind not in _KINDS:
            skipped.add_unread("content", kind)
    if role == "user":
        results = [
            _read_result(one, at, skipped) for one in blocks if one.get("type") == "tool_result"
        ]
        pictures = tuple(find_pictures(blocks))
        if text.strip() or pictures:
            return [*results, ForeignMessage("user", text, at, pictures=pictures)]
        return results
    if role != "assistant":
        skipped.add_unread("message", role)
        return []
    return [read_reply(text, blocks, at)]


def read_reply(
    text: str,
    blocks: Sequence[Mapping[str, Any]],
    at: datetime | None,
    call: str = "tool_use",
    arguments: str = "input",
) -> ForeignMessage:
    """Return what a model says in this text, with the thoughts and calls in blocks; `call` is the
    type of those there, and `arguments` their field of that."""
    thoughts = (as_text(one.get("thinking")) for one in blocks if one.get("type") == "thinking")
    calls = (
        ToolCall(
            as_text(one.get("id")),
            as_text(one.get("name")),
            json.dumps(as_mapping(one.get(arguments)), ensure_ascii=False),
        )
        for one in blocks
        if one.get("type") == call
    )
    reasoning = "\n\n".join(filter(None, thoughts))
    return ForeignMessage("assistant", text, at, reasoning=reasoning, calls=tuple(calls))


def join_texts(blocks: Iterable[Mapping[str, Any]]) -> str:
    """Return the text blocks as one text."""
    texts = (as_text(one.get("text")) for one in blocks if one.get("type") == "text")
    return "\n\n".join(filter(None, texts))


def find_pictures(blocks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the pictures contained in blocks, in the form that `decode_picture` reads."""
    found = []
    for one in (one for one in blocks if one.get("type") == "image"):
        source = as_mapping(one.get("source")) or one
        kind = as_text(source.get("media_type")) or as_text(source.get("mimeType"))
        found.append(f"data:{kind};base64,{as_text(source.get('data'))}")
    return found


def decode_picture(name: str) -> bytes | None:
    """Return the bytes of a picture in a data URL; None if it is not one, or too large."""
    if not (found := _DATA.match(name)):
        return None
    try:
        content = base64.b64decode(name[found.end() :], validate=False)
    except ValueError:
        return None
    return content if len(content) <= MOST_PICTURE else None


def count_returned_pictures(blocks: Iterable[Mapping[str, Any]], skipped: SkippedItems) -> None:
    """Count the pictures in a tool's result, which are not imported."""
    number = sum(one.get("type") == "image" for one in blocks)
    skipped.add(number, "picture that a tool returned", "pictures that tools returned")


def _read_result(
    block: Mapping[str, Any], at: datetime | None, skipped: SkippedItems
) -> ForeignMessage:
    content = block.get("content")
    parts = [as_mapping(one) for one in as_list(content)]
    count_returned_pictures(parts, skipped)
    return ForeignMessage(
        "tool",
        join_texts(parts) or as_text(content),
        at,
        call_id=as_text(block.get("tool_use_id")),
        tool="tool",
        is_error=block.get("is_error") is True,
    )
