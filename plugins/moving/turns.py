"""The conversion of another program's messages to complete turns; pure functions. No message is
lost.

A turn here is a question, tool calls with their results, and one reply. Elsewhere, a person may
write twice before an answer, a model may write first or in several parts, and results may lack
their calls. Missing parts of a turn are replaced by placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from channels.message import clean_text
from memory.messages import PICTURE, Message, ToolCall
from plugins.moving.source import ForeignMessage

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
