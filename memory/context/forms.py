"""The parts of an event: forms of turns, and the tools and memory of the model when turns were
removed, which are stored with it and shown again. The layout is, for each turn, the form that it
has now.

Nothing here edits the transcript. A turn has one form: the newest that an event gave it which holds
(`layout.py`), `WHOLE` where none did. So undoing is leaving an event out. Turns are kept as spans
of neighbours with the same form: an event over all turns of a long conversation is as small as one
over two.

Digitorn: a resumed session continues with the tools, the memory and realistic examples of tool
calls from before the compaction.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from memory.turns import Turn, runs

FormKind = Literal["whole", "tail", "squeezed", "line", "summary", "range", "gone"]


class TurnForm(NamedTuple):
    """The form of a turn. `of` specifies it. For a `summary` in front or a `range` summary, it is
    the event that made it (0: the event that gives the form). For a `tail` or a `squeezed` turn, it
    is the seq from which on the turn is shown; for a `line`, the `full_turns` in force when it was
    folded; for a turn that is `gone`, the reason. `by` is the event whose summary represents the
    removed beginning of a turn (None: the beginning is there, or no summary represents it)."""

    kind: FormKind
    of: int = 0
    by: int | None = None


ASIDE, DROPPED, CLEARED, ROLLED = range(4)
"""The reasons why a turn is gone: set aside by `/new`, and described by the daily memory; dropped
or cleared by a person; rolled off the activity log."""
WHOLE, SUMMARY, RANGE = TurnForm("whole"), TurnForm("summary"), TurnForm("range")
OWN = 0
"""The summary of the event itself, which has no id before it is stored."""
SHOWN: tuple[FormKind, ...] = ("whole", "tail", "squeezed")


class FormSpan(NamedTuple):
    """Neighbouring turns with the same form."""

    first: int
    last: int
    form: TurnForm


Forms = tuple[FormSpan, ...]
"""Spans in ascending order, without overlaps."""


def assign_form(turns: Iterable[int], form: TurnForm) -> Forms:
    """Return the spans that give these turns a form."""
    return tuple(FormSpan(first, last, form) for first, last in runs(turns))


def overlay(below: Forms, above: Forms) -> Forms:
    """Return the merged forms; those `above` replace those `below`."""
    if not above or not below:
        return above or below
    parts = list(above)
    places = [span.first for span in above]
    for span in below:
        first = span.first
        for place in range(max(0, bisect_right(places, first) - 1), len(above)):
            over = above[place]
            if over.first > span.last:
                break
            if over.last < first:
                continue
            if over.first > first:
                parts.append(FormSpan(first, over.first - 1, span.form))
            first = over.last + 1
        if first <= span.last:
            parts.append(FormSpan(first, span.last, span.form))
    return _join(sorted(parts))


def _join(spans: Iterable[FormSpan]) -> Forms:
    joined: list[FormSpan] = []
    for span in spans:
        if joined and joined[-1].form == span.form and joined[-1].last + 1 == span.first:
            joined[-1] = FormSpan(joined[-1].first, span.last, span.form)
        else:
            joined.append(span)
    return tuple(joined)


def turns_of(forms: Iterable[FormSpan], *kinds: FormKind, of: int | None = None) -> tuple[int, ...]:
    """Return the turns that have a form of these kinds (default: any), in order."""
    return tuple(
        number
        for first, last, form in forms
        if (not kinds or form.kind in kinds) and (of is None or form.of == of)
        for number in range(first, last + 1)
    )


def up_to(forms: Forms, last: int) -> Forms:
    """Return the forms of the turns up to this one."""
    return tuple(FormSpan(s.first, min(s.last, last), s.form) for s in forms if s.first <= last)


def without_turns(forms: Forms, turns: Collection[int]) -> Forms:
    """Return the forms of all but these turns."""
    removed = TurnForm("gone", -1)
    return tuple(
        span for span in overlay(forms, assign_form(turns, removed)) if span.form != removed
    )


EXAMPLES = 5
"""The number of recent tool calls kept as examples."""
_ARGUMENTS = 200  # characters of a call's arguments in an example


class Snapshot(Struct, frozen=True):
    """A snapshot. `tools` by name; `injection` is the way in which the model gets them; `summary`
    is the id of the one in front (0: none); `examples` are tool calls as (name, arguments), the
    newest last. `days` is the number of files of the daily memory, and `newest` the day of the last
    ("": none)."""

    tools: tuple[str, ...]
    injection: str
    summary: int
    examples: tuple[tuple[str, str], ...]
    days: int = 0
    newest: str = ""


def take_snapshot(
    tools: Sequence[Mapping[str, Any]], turns: Sequence[Turn], summary: int, days: Sequence[date]
) -> Snapshot:
    """Return the snapshot of this moment: `tools` as they are sent, `turns` as they are in context,
    `days` as in the daily memory. Calls made while text from outside was in context are not used as
    examples: the summary beside them may be approved for the memory, and nobody has reviewed the
    calls."""
    names = tuple(tool["function"]["name"] for tool in tools)
    messages = (e.message for turn in turns for e in turn.entries if not e.message.has_outside)
    calls = [call for message in messages for call in message.tool_calls]
    examples = tuple((call.name, call.arguments[:_ARGUMENTS]) for call in calls[-EXAMPLES:])
    injection = "native" if names else "none"
    newest = days[-1].isoformat() if days else ""
    return Snapshot(names, injection, summary, examples, len(days), newest)


def note(snapshot: Snapshot) -> str:
    """Return the note for the model besides the summary; "" if there is nothing to report."""
    if not snapshot.tools:
        return ""
    lines = [f"Tools at hand ({snapshot.injection} tool calls): {', '.join(snapshot.tools)}."]
    if snapshot.days:
        lines.append(f"Daily memory: {snapshot.days} days, the newest {snapshot.newest}.")
    else:
        lines.append("Daily memory: empty so far.")
    if snapshot.examples:
        lines.append("The last calls were:")
        lines += [f"- {name}({arguments})" for name, arguments in snapshot.examples]
    return "\n".join(lines)
