"""The view of a conversation that the model sees: a pure value, computed from the transcript and
the layout."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from memory.context.change import Change, Clip
from memory.context.forms import SHOWN
from memory.context.layout import Layout, RangeSummary
from memory.context.meter import PrefixTokens, PromptPrefix
from memory.messages import (
    NOTHING_BESIDE,
    SEARCHES,
    USE_TOOL,
    Message,
    RequestExtras,
    ToolCall,
    mark_text,
)
from memory.turns import Entry, Turn


class Scale(Struct, frozen=True):
    """The conversion of raw counts to the provider's tokens: `offset + ratio * raw`.

    The ratio belongs to the model, the offset to the last reported request, so that the result for
    that request, of `anchor` raw tokens, is exactly the provider's count. For a smaller request the
    offset is reduced in proportion, except `extra`, which the endpoint adds to all: its cause (a
    picture) may be out of context.
    """

    ratio: float = 1.0
    offset: float = 0.0
    is_measured: bool = False
    anchor: int = 0
    extra: int = 0

    def tokens(self, raw: int) -> int:
        share = raw / self.anchor if raw < self.anchor else 1.0
        offset = self.extra + (self.offset - self.extra) * share
        return max(0, round(offset + self.ratio * raw))

    def part(self, raw: int) -> int:
        """Return the tokens of a part of the whole: by the ratio alone."""
        return round(self.ratio * raw)


UNSCALED = Scale()


class Preface(Struct, frozen=True):
    """The summary of the removed turns, with its raw tokens as rendered, and whether its source has
    text from outside."""

    text: str
    tokens: int
    is_untrusted: bool = False


class LogLine(Struct, frozen=True):
    """A line of the activity log as sent, with its raw tokens, and whether its turn has text from
    outside (`Turn.has_outside`). `brief` is the same without the time, for a line after one of the
    same `hour`."""

    turn: int
    text: str
    tokens: int
    is_untrusted: bool = False
    hour: str = ""
    brief: str = ""
    brief_tokens: int = 0


Rendering = Literal["block", "exchange", "system"]
"""The form in which the summary of the removed turns is sent: in front of the first user message,
as a user message with an acknowledgement, or as a system message."""

LOG = "[Context -- Activity Log]"
ACKNOWLEDGED = "Understood. I go on from there."
_IN_LOG = (*SHOWN, "line", "range")  # forms of turns that may become a line once more turns fold
_STUB_ARGUMENTS = 80  # characters of a call's arguments in a stub
_AROUND_LOG = 24  # raw tokens of the exchange besides its lines


class View(Struct, frozen=True, dict=True):
    """The content of the next request, besides the prompt prefix.

    `whole` are the turns in context, oldest first, as in the transcript; `turns` are the same as
    the layout shows them; `lines` are those of all turns that may be in the activity log, oldest
    first; `current` is the running turn's number or 0, `newest` that of the last turn, in or out of
    context; `summaries` are those that replace ranges of turns, by id.
    """

    whole: tuple[Turn, ...]
    turns: tuple[Turn, ...]
    prefix: PrefixTokens
    layout: Layout = field(default_factory=Layout)
    scale: Scale = UNSCALED
    preface: Preface | None = None
    lines: tuple[LogLine, ...] = ()
    rendering: Rendering = "block"
    merges_system: bool = False
    current: int = 0
    newest: int = 0
    summaries: Mapping[int, Preface] = field(default_factory=dict)

    @cached_property
    def raw_tokens(self) -> int:
        turns = sum(turn.tokens for turn in self.turns) + self.range_tokens
        calls = self.prefix.per_call and self.prefix.per_call * self._count_calls()
        return self.prefix.system + self.prefix.tools + self.front_tokens + turns + calls

    def _count_calls(self) -> int:
        direct = self.prefix.direct
        return sum(call.name not in direct for one in self.messages for call in one.tool_calls)

    @property
    def loose(self) -> tuple[RangeSummary, ...]:
        """The range summaries that a strategy may remove: those without a pinned turn."""
        pinned = self.layout.pinned
        return tuple(one for one in self.layout.ranges if pinned.isdisjoint(one.turns))

    @property
    def range_tokens(self) -> int:
        """The raw tokens of the range summaries."""
        return self.count_ranges() if self.layout.ranges else 0

    def count_ranges(self, before: int | None = None) -> int:
        """Count the raw tokens of the range summaries sent before this turn (None: of all)."""
        ahead = (s for s in self._written if before is None or s.turns[-1] < before)
        return sum(self.summaries[one.summary].tokens for one in ahead)

    @cached_property
    def _written(self) -> list[RangeSummary]:
        """The range summaries that are sent; the others are not written yet."""
        return [one for one in self.layout.ranges if one.summary in self.summaries]

    @property
    def front_tokens(self) -> int:
        """The raw tokens of the text in front for the removed turns."""
        if not (self.lines or self.preface):
            return 0
        log = self.log
        preface = self.preface.tokens if self.preface else 0
        around = _AROUND_LOG if self.rendering == "exchange" and (log or preface) else 0
        return preface + around + sum(line.tokens for line in log)

    @cached_property
    def log(self) -> tuple[LogLine, ...]:
        """The activity log: the lines of the turns with this form."""
        if not self.lines:
            return ()
        form = self.layout.form
        log = tuple(line for line in self.lines if form(line.turn).kind == "line")
        return _dedupe_hours(log) if self.layout.folded else log

    @property
    def logged(self) -> tuple[int, ...]:
        """The turns with a line in the activity log, in order."""
        return tuple(sorted({line.turn for line in self.log}))

    @cached_property
    def has_outside(self) -> bool:
        """Return whether the view has text from outside, or text made from it: the rest of its
        turn, a summary, a line of the activity log. Everything written with it in context is
        tainted, so this ends only when all of that is removed."""
        is_summed = self.preface is not None and self.preface.is_untrusted
        is_summed |= any(self.summaries[s.summary].is_untrusted for s in self._written)
        is_logged = any(line.is_untrusted for line in self.log)
        return is_summed or is_logged or any(turn.has_outside for turn in self.whole)

    @cached_property
    def tokens(self) -> int:
        """The size of the next request, by the one meter."""
        return self.scale.tokens(self.raw_tokens)

    @cached_property
    def complete(self) -> tuple[Turn, ...]:
        """The complete turns: all but the running one, or one that a crash has interrupted and that
        is about to be resumed."""
        return tuple(turn for turn in self.turns if turn.is_complete)

    @cached_property
    def movable(self) -> tuple[Turn, ...]:
        """The turns that a strategy may remove: complete, and not pinned."""
        return tuple(t for t in self.complete if t.number not in self.layout.pinned)

    @cached_property
    def entries(self) -> list[Entry]:
        """All entries of the turns, in order."""
        return [entry for turn in self.turns for entry in turn.entries]

    @property
    def messages(self) -> list[Message]:
        return [entry.message for entry in self.entries]

    @property
    def beside(self) -> RequestExtras:
        """The parts of the messages that have no place in their wire form."""
        messages = [entry.message for entry in self._sent]
        calling = [message for message in messages if message.tool_calls]
        thoughts = {m.tool_calls[0].id: m.thoughts for m in calling if m.thoughts}
        reasoning = {m.tool_calls[0].id: m.reasoning for m in calling if m.reasoning}
        errors = frozenset(m.call_id for m in messages if m.is_error)
        is_empty = not (thoughts or errors or reasoning)
        return NOTHING_BESIDE if is_empty else RequestExtras(thoughts, errors, reasoning)

    def with_scale(self, scale: Scale) -> View:
        """Return the view scaled to the provider's count."""
        if scale == self.scale:
            return self
        view = replace(self, scale=scale)
        view.__dict__.update(self.__dict__)  # keep the cached sums
        view.__dict__.pop("tokens", None)
        return view

    def apply(self, change: Change) -> View:
        """Return the view after a change that makes it smaller. The preface is unchanged, since its
        new text is not known yet."""
        layout = self.layout.apply(change)
        return replace(self, turns=apply_layout(self.whole, layout), layout=layout)

    def with_layout(self, turns: Iterable[Turn], lines: Iterable[LogLine], layout: Layout) -> View:
        """Return the view with these turns and lines of the log, as a layout shows them."""
        whole = tuple(turn for turn in turns if layout.shows(turn.number))
        shown = apply_layout(whole, layout)
        logged = tuple(line for line in lines if layout.form(line.turn).kind in _IN_LOG)
        shown = whole if shown == whole else shown
        return replace(self, whole=whole, turns=shown, layout=layout, lines=logged)

    @property
    def front(self) -> str:
        """The text in front of the messages for the removed turns: their summary, and the activity
        log."""
        if not (self.lines or self.preface):
            return ""
        log = self.log
        summary = [wrap_summary(self.preface.text)] if self.preface else []
        lines = ["\n".join((LOG, *(line.text for line in log)))] if log else []
        return "\n\n".join(summary + lines)

    def to_wire(self, prefix: PromptPrefix) -> list[dict[str, Any]]:
        """Return the messages of the next request, the system prompt first."""
        system = [{"role": "system", "content": prefix.system}] if prefix.system else []
        messages = self._conversation_on_wire()
        if (direct := prefix.wrapped) is not None:
            messages = [
                _wrap_calls(one, direct) if "tool_calls" in one else one for one in messages
            ]
        front = self.front
        if not front:
            return system + messages
        if self.rendering == "exchange":
            return system + _exchange(front) + messages
        if self.rendering == "system":
            return _with_system(system, front, self.merges_system) + messages
        return system + _in_front(front, messages)

    def _conversation_on_wire(self) -> list[dict[str, Any]]:
        """Return the messages of the turns. A range summary is sent in front of the next question,
        but is not part of its row in the transcript."""
        waiting = self._written
        if not waiting and self.rendering != "exchange" and self._has_own_ids:
            return [message for turn in self.turns for message in turn.wire]
        wire = []
        for entry in self._sent:
            wire.append(self._message_on_wire(entry))
            if entry.message.role == "user":
                due = [s for s in waiting if s.turns[-1] < entry.turn]
                waiting = waiting[len(due) :]
                wire[-1:] = _in_front(self._as_sent(due), wire[-1:])
        if waiting:  # a request is only made after a question
            wire.append({"role": "user", "content": self._as_sent(waiting)})
        return wire

    @cached_property
    def _sent(self) -> list[Entry]:
        """The entries that are sent, each call with a unique id."""
        return self.entries if self._has_own_ids else _with_unique_ids(self.entries)

    @cached_property
    def _has_own_ids(self) -> bool:
        ids = [call.id for entry in self.entries for call in entry.message.tool_calls]
        return len({*ids}) == len(ids)

    def _message_on_wire(self, entry: Entry) -> dict[str, Any]:
        """Return a message on the wire. Under `slim`, the newest replies include the model's own
        line, so that the model keeps writing it."""
        has_line = self.rendering == "exchange" and entry.turn >= self.layout.folded
        return _with_line(entry.message) if has_line else entry.message.to_wire()

    def _as_sent(self, ranges: Sequence[RangeSummary]) -> str:
        return "\n\n".join(wrap_summary(self.summaries[s.summary].text) for s in ranges)


def _with_unique_ids(entries: list[Entry]) -> list[Entry]:
    """Return the entries with unique ids of calls. Some models restart their numbering of calls in
    each turn (Kimi, MiMo: oh-my-pi#2055), and data stored beside a call is found by its id."""
    taken: set[str] = set()
    renamed: dict[str, str] = {}
    made = []
    for entry in entries:
        message = entry.message
        if message.tool_calls:
            calls = []
            for call in message.tool_calls:
                own = call.id if call.id not in taken else f"{call.id}_t{entry.turn}_{entry.seq}"
                taken.add(own)
                renamed[call.id] = own
                calls.append(call if own == call.id else replace(call, id=own))
            message = replace(message, tool_calls=tuple(calls))
        elif renamed.get(message.call_id, message.call_id) != message.call_id:
            message = replace(message, call_id=renamed[message.call_id])
        made.append(entry if message is entry.message else replace(entry, message=message))
    return made


def _dedupe_hours(log: tuple[LogLine, ...]) -> tuple[LogLine, ...]:
    """Return the lines; only the first of each hour has the time."""
    return log[:1] + tuple(
        replace(line, text=line.brief, tokens=line.brief_tokens)
        if line.hour == before.hour
        else line
        for before, line in pairwise(log)
    )


def _wrap_calls(message: dict[str, Any], direct: Collection[str]) -> dict[str, Any]:
    """Return a message with its calls in the form that a model writes if only the names of other
    tools are given."""
    return {**message, "tool_calls": [_wrap_call(call, direct) for call in message["tool_calls"]]}


def _wrap_call(call: dict[str, Any], direct: Collection[str]) -> dict[str, Any]:
    function = call["function"]
    if function["name"] in direct:
        return call
    name = json.dumps(function["name"])
    arguments = f'{{"name": {name}, "arguments": {function["arguments"]}}}'
    return {**call, "function": {**function, "name": USE_TOOL, "arguments": arguments}}


def _with_line(message: Message) -> dict[str, Any]:
    wire = message.to_wire()
    if message.terse and message.role == "assistant":
        wire["content"] = f"{message.text}\n<terse>{message.terse}</terse>"
    return wire


def _exchange(front: str) -> list[dict[str, Any]]:
    acknowledgement = {"role": "assistant", "content": ACKNOWLEDGED}
    return [{"role": "user", "content": front}, acknowledgement]


def _with_system(system: list[dict[str, Any]], front: str, is_merged: bool) -> list[dict[str, Any]]:
    """Add the front as a system message of its own, or to the end of the first for models that
    allow only one."""
    if not (system and is_merged):
        return [*system, {"role": "system", "content": front}]
    return [{"role": "system", "content": f"{system[0]['content']}\n\n{front}"}]


def _in_front(front: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Insert the front before the first user message; it is not part of its row in the
    transcript."""
    if not front:
        return messages
    for number, message in enumerate(messages):
        if message["role"] == "user":
            asked = {**message, "content": f"{front}\n\n{message['content']}"}
            return [*messages[:number], asked, *messages[number + 1 :]]
    return messages


def wrap_summary(summary: str) -> str:
    """Return a summary as the model sees it: marked, so that it is not mistaken for the person's
    words."""
    return mark_text(summary, "summary-of-earlier-turns")


def apply_layout(turns: Sequence[Turn], layout: Layout) -> tuple[Turn, ...]:
    """Return the turns in context as the layout shows them: some are left out, squeezed ones have
    only the person's message and the last reply, long results are clipped, old ones may be
    stubs."""
    kept = []
    is_shorter = bool(layout.clipped or layout.stubbed)
    for turn in turns:
        kind, first, _ = layout.form(turn.number)
        if kind == "whole" and not is_shorter:
            kept.append(turn)  # the usual case
            continue
        if kind not in ("whole", "tail", "squeezed"):
            continue
        entries = tuple(e for e in turn.entries if kind == "whole" or e.seq >= first)
        if kind == "squeezed" and turn.is_complete and entries:
            entries = Turn(turn.number, entries).squeezed
        if is_shorter:
            entries = tuple(_shorten_entry(entry, turn, layout) for entry in entries)
        if entries == turn.entries:
            kept.append(turn)
        elif entries:
            kept.append(Turn(turn.number, entries))
    return tuple(kept)


def _shorten_entry(entry: Entry, turn: Turn, layout: Layout) -> Entry:
    if (tokens := layout.stubbed.get(entry.seq)) is not None:
        return replace(entry, message=make_stub(entry, turn), tokens=tokens)
    clip = layout.clipped.get(entry.seq)
    if clip is None:
        return entry
    return replace(entry, message=clip_message(entry.message, clip), tokens=clip.tokens)


def make_stub(entry: Entry, turn: Turn) -> Message:
    """Return the stub of a tool result, one line of the bot: the call, the size, and the way to
    read the result again. The result of a search is only available by searching again (it may have
    been removed since)."""
    message = entry.message
    calls = (call for other in turn.entries for call in other.message.tool_calls)
    call = next((call for call in calls if call.id == message.call_id), None)
    arguments = " ".join(call.arguments.split()) if call else ""
    if len(arguments) > _STUB_ARGUMENTS:
        arguments = f"{arguments[:_STUB_ARGUMENTS]}…"
    size = f"{len(message.kept_text):,} characters"
    again = (
        "call it again for what it found"
        if message.tool in SEARCHES
        else f'context_search(mode="turn", turnId="t{entry.turn}.{entry.seq}") shows it again'
    )
    whole = f"; the whole of it is in {message.offloaded}" if message.offloaded else ""
    text = f"[put away: the result of {message.tool}({arguments}), {size}; {again}{whole}]"
    is_tainted = message.has_outside  # for callers that check the turn for text from outside
    return replace(message, text=text, kept=0, is_untrusted=False, is_tainted=is_tainted)


def clip_message(message: Message, clip: Clip) -> Message:
    """Return a message with its text and each call's arguments clipped. The marker of a result that
    was truncated on arrival stays."""
    text = _clip_text(message.kept_text, clip)
    calls = tuple(_clip_call(call, clip) for call in message.tool_calls)
    return replace(message, text=text, kept=len(text) if message.kept else 0, tool_calls=calls)


def _clip_call(call: ToolCall, clip: Clip) -> ToolCall:
    """Return a call with its arguments clipped; endpoints require an object."""
    if len(call.arguments) <= clip.chars:
        return call
    left = {"shortened": _clip_text(call.arguments, clip)}
    return replace(call, arguments=json.dumps(left, ensure_ascii=False))


def _clip_text(text: str, clip: Clip) -> str:
    """Return a text clipped, with a note of the number of characters left out: between its
    beginning and end (CowAgent), or behind its beginning."""
    if len(text) <= clip.chars:
        return text
    tail = clip.chars // 2 if clip.is_snipped else 0
    head, omitted = clip.chars - tail, len(text) - clip.chars
    end = f"\n{text[len(text) - tail :]}" if tail else ""
    return f"{text[:head]}\n[… {omitted:,} characters left out here …]{end}"
