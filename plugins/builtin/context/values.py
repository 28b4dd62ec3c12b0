"""Values in replies: their fields are inserted into sentences, and returned as data to programs;
the next request as a list of blocks, for lists, figures and questions about the context; and the
state of each turn: in context, and in which form; or removed, and by what.

A field with a tuple of numbers refers to turns: a sentence formats them ("t1 to t3"), data has
their names. A field with `tokens` in its name is an amount.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from channels.language import _
from memory.context import forms
from memory.context.view import View
from memory.text.receipt import Receipt
from memory.turns import Turn
from plugins.turn_names import ids
from plugins.wording import amount, amounts, format_turns

_PLACE = re.compile(r"\{(\w+)")
_SIZES = ("tokens_before", "tokens_after")


def as_data(value: Any) -> Any:
    """Return a value as JSON."""
    if isinstance(value, Receipt):
        return pick(value, "kept", "missing", "taken", "findings", of=value.total)
    if isinstance(value, Struct):
        return as_data(asdict(value))
    if isinstance(value, Mapping):
        return {name: as_data(one) for name, one in value.items()}
    if isinstance(value, tuple) and value and isinstance(value[0], int):
        return ids(value)
    if isinstance(value, list | tuple):
        return [as_data(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value


def pick(value: Struct, *names: str, **more: Any) -> dict[str, Any]:
    """Return these fields of a value as JSON, together with further entries."""
    data: dict[str, Any] = as_data({name: getattr(value, name) for name in names} | more)
    return data


def phrase(value: Struct, one: str, many: str = "", **more: Any) -> str:
    """Return a sentence filled with fields of a value; `many` is used if its first turns field has
    several turns."""
    names = [name for name in _PLACE.findall(one) if name not in more]
    fields = {name: getattr(value, name) for name in names}
    turns = next((field for field in fields.values() if isinstance(field, tuple)), ())
    values = {name: _say(name, field) for name, field in fields.items()}
    if set(_SIZES) <= values.keys():
        values |= zip(_SIZES, amounts(*(fields[name] for name in _SIZES)), strict=True)
    return _(many if many and len(turns) != 1 else one, **values, **more)


def _say(name: str, field: Any) -> Any:
    if isinstance(field, tuple):
        return format_turns(field)
    return amount(field) if "tokens" in name else field


def sentence_about(numbers: Sequence[int], one: str, many: str, **values: Any) -> str:
    """Return a sentence about these turns: `sentence_about((3,), "{turns} is pinned.", "{turns} are
    pinned.")`. The sentence for one turn may use {turn} if both sentences are identical in
    English."""
    named = format_turns(numbers)
    return _(one if len(numbers) == 1 else many, turns=named, turn=named, **values)


SUMMARY, LOG, RANGE = "summary", "activity log", "summaries of turns"
TURN, RUNNING = "turns", "running turn"


class RequestBlock(Struct, frozen=True):
    """A named part of the request: its raw tokens, its text, and the `turns` that it contains or
    represents; `turn` is set if it is a single turn."""

    part: str
    raw: int
    text: str
    turns: tuple[int, ...]
    turn: Turn | None = None


def list_blocks(view: View) -> Iterator[RequestBlock]:
    """Yield the blocks in the order of the request: a range summary comes where it is sent, after
    the turns that it represents and the turns before these."""
    front = view.preface
    if front:
        yield RequestBlock(SUMMARY, front.tokens, front.text, view.layout.turns("summary"))
    if log := view.log:
        raw = view.front_tokens - (front.tokens if front else 0)
        yield RequestBlock(LOG, raw, "\n".join(line.text for line in log), view.logged)
    waiting = [one for one in view.layout.ranges if one.summary in view.summaries]
    for turn in (*view.turns, None):
        while waiting and (turn is None or waiting[0].turns[-1] < turn.number):
            one = waiting.pop(0)
            summary = view.summaries[one.summary]
            yield RequestBlock(RANGE, summary.tokens, summary.text, one.turns)
        if turn is not None:
            part = TURN if turn.is_complete else RUNNING
            yield RequestBlock(part, turn.tokens, turn.question.text, (turn.number,), turn)


def name_run(turns: Sequence[int]) -> str:
    """Return neighbouring turns as commands accept them: "t3", "t3-t5"."""
    return f"t{turns[0]}" if turns[0] == turns[-1] else f"t{turns[0]}-t{turns[-1]}"


IN_PLAY, IN_PROGRESS, PINNED = "in context", "running", "pinned"
SQUEEZED, CLIPPED, STUBBED = "shortened", "clipped", "tool results shortened"
LOGGED, SUMMARISED, CLEARED = "in the log", "summarised", "cleared"
DROPPED, GONE = "dropped", "gone"
STATES = (
    IN_PROGRESS,
    PINNED,
    IN_PLAY,
    SQUEEZED,
    CLIPPED,
    STUBBED,
    LOGGED,
    SUMMARISED,
    CLEARED,
    DROPPED,
    GONE,
)


class TurnStates(Struct, frozen=True):
    """The states of all turns of a conversation. `in_context` has the whole turns in context by
    their numbers."""

    view: View
    in_context: Mapping[int, Turn]

    def of(self, number: int) -> tuple[str, ...]:
        """Return a turn's states, the most important first."""
        if number in self.in_context:
            return self._find_labels(self.in_context[number])
        form = self.view.layout.form(number)
        return (_GONE_BY[form.of] if form.kind == "gone" else _STATES.get(form.kind, GONE),)

    def all_states(self, newest: int) -> list[tuple[str, ...]]:
        """Return the states of all turns up to this one, t1 first."""
        return [self.of(number) for number in range(1, newest + 1)]

    def _find_labels(self, whole: Turn) -> tuple[str, ...]:
        layout = self.view.layout
        is_squeezed = layout.form(whole.number).kind == "squeezed"
        signs = {
            IN_PROGRESS: whole.number == self.view.current,
            PINNED: whole.number in layout.pinned,
            SQUEEZED: is_squeezed and whole.squeezed != whole.entries,
            CLIPPED: any(entry.seq in layout.clipped for entry in whole.entries),
            STUBBED: any(entry.seq in layout.stubbed for entry in whole.entries),
        }
        return tuple(sign for sign, holds in signs.items() if holds) or (IN_PLAY,)


_STATES: Mapping[str, str] = {"line": LOGGED, "summary": SUMMARISED, "range": SUMMARISED}
_GONE_BY = {
    forms.ASIDE: GONE,
    forms.DROPPED: DROPPED,
    forms.CLEARED: CLEARED,
    forms.ROLLED: SUMMARISED,
}


def states(view: View) -> TurnStates:
    """Return the states of the turns of a view."""
    return TurnStates(view, {turn.number: turn for turn in view.whole})


def refuse_removed(numbers: Sequence[int]) -> str:
    """Return the refusal of a change to turns that are not in context."""
    return sentence_about(
        numbers,
        "{turns} is not in context (see /context turns); nothing was changed.",
        "{turns} are not in context (see /context turns); nothing was changed.",
    )


def name_states(states: Iterable[str]) -> str:
    """Return a turn's states on one line."""
    return ", ".join(map(_, states))
