"""Forms of turns: events give them, and the layout is, for each turn, the form that it has now.

Nothing here edits the transcript. A turn has one form: the newest that an event gave it which holds
(`layout.py`), `WHOLE` where none did. So undoing is leaving an event out. Turns are kept as spans
of neighbours with the same form: an event over all turns of a long conversation is as small as one
over two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from memory.turns import runs

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
