"""The layout: the form of each turn, and how messages are shown."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property

from msgspec import Struct, field

from memory.context.change import Change, Clip, Rolled
from memory.context.forms import (
    CLEARED,
    DROPPED,
    OWN,
    RANGE,
    SHOWN,
    SUMMARY,
    WHOLE,
    FormKind,
    Forms,
    FormSpan,
    TurnForm,
    overlay,
    turns_of,
)


class RangeSummary(Struct, frozen=True):
    """A summary that is sent in the place of its `turns`, in ascending order. `event` is the one
    that removed them, `summary` the id of their summary, 0 while that is written."""

    turns: tuple[int, ...]
    event: int
    summary: int = 0


class TakenAway(Struct, frozen=True, dict=True):
    """The turns that a person removed (`/context clear`, `/undo`, `/retry`, `/context drop`). They
    are out of the model's reach everywhere, and in no summary, until the person brings them back,
    who goes on finding them."""

    spans: tuple[tuple[int, int], ...] = ()

    def has(self, turn: int) -> bool:
        place = bisect_right(self._firsts, turn) - 1
        return place >= 0 and turn <= self.spans[place][1]

    @cached_property
    def _firsts(self) -> list[int]:
        return [first for first, _ in self.spans]


NOTHING_AWAY = TakenAway()


class Layout(Struct, frozen=True, dict=True):
    """The form of each turn, and how messages are shown: the sum of changes. `texts` are the
    summaries that are shown, and `after` the events that they continue, by the event that removed
    their turns; `edited` are the events whose summary a person has replaced."""

    forms: Forms = ()
    clipped: Mapping[int, Clip] = field(default_factory=dict)
    stubbed: Mapping[int, int] = field(default_factory=dict)
    pinned: frozenset[int] = frozenset()
    texts: Mapping[int, int] = field(default_factory=dict)
    after: Mapping[int, int] = field(default_factory=dict)
    edited: frozenset[int] = frozenset()
    reference: str = ""
    folded: int = 0
    rolled: Rolled = Rolled()

    def apply(self, change: Change, event: int = OWN, *, is_edit: bool = False) -> Layout:
        """Return this layout after one more change, of the event with this id."""
        forms = change.forms
        if event:
            forms = tuple(FormSpan(s.first, s.last, _of(s.form, event)) for s in forms)
        texts, after, edited = self.texts, self.after, self.edited
        if change.texts:
            shown = {slot or event: text for slot, text in change.texts.items()}
            texts = {**texts, **shown}
            edited = edited | shown.keys() if is_edit else edited
        if change.makes("summary") or change.makes("range"):
            after = {**after, event: change.after}
        there = overlay(self.forms, forms)
        if change.forms or change.texts:
            needed = _find_summaries(there, texts, after)
            texts = {slot: text for slot, text in texts.items() if slot in needed}
            after = {slot: before for slot, before in after.items() if slot in needed}
            edited &= needed
        return Layout(
            there,
            {**self.clipped, **change.clip} if change.clip else self.clipped,
            {**self.stubbed, **change.stub} if change.stub else self.stubbed,
            (self.pinned - change.unpin) | change.pin,
            texts,
            after,
            edited,
            self.reference if change.reference is None else change.reference,
            self.folded if change.folded is None else change.folded,
            change.rolled or self.rolled,
        )

    def form(self, turn: int) -> TurnForm:
        """Return the form of a turn."""
        place = bisect_right(self._firsts, turn) - 1
        is_given = place >= 0 and turn <= self.forms[place].last
        return self.forms[place].form if is_given else WHOLE

    @cached_property
    def _firsts(self) -> list[int]:
        return [span.first for span in self.forms]

    def shows(self, turn: int) -> bool:
        """Return whether a turn is in context, or a part of it."""
        return self.form(turn).kind in SHOWN

    def spans(self, *kinds: FormKind) -> Iterator[tuple[int, int | None]]:
        """Yield the first and last turns that are in context, or have a form of these kinds, and
        are side by side; the last of all is open (None)."""
        first = 1
        for span in self.forms:
            if span.form.kind not in (*SHOWN, *kinds):
                if first < span.first:
                    yield first, span.first - 1
                first = span.last + 1
        yield first, None

    def turns(self, *kinds: FormKind) -> tuple[int, ...]:
        """Return the turns that have a form of these kinds, in order."""
        return turns_of(self.forms, *kinds)

    def turns_gone(self, by: int) -> frozenset[int]:
        """Return the turns that are gone by this."""
        return frozenset(turns_of(self.forms, "gone", of=by))

    @cached_property
    def front(self) -> int | None:
        """The event whose summary is the one in front; None where no turn is in one."""
        found = {*map(_front_of, (span.form for span in self.forms))} - {None}
        return OWN if OWN in found else max(filter(None, found), default=None)

    @cached_property
    def preface(self) -> int:
        """The id of the summary in front: of one that is still to be written, the one that it
        continues; 0 where there is none."""
        slot = self.front
        while slot is not None and slot not in self.texts:
            slot = self.after.get(slot) or None
        return 0 if slot is None else self.texts[slot]

    @cached_property
    def ranges(self) -> tuple[RangeSummary, ...]:
        """The range summaries, in the order in which they are sent."""
        found: dict[int, list[int]] = {}
        for first, last, form in self.forms:
            if form.kind == "range":
                found.setdefault(form.of, []).extend(range(first, last + 1))
        made = (RangeSummary(tuple(t), slot, self.texts.get(slot, 0)) for slot, t in found.items())
        return tuple(sorted(made, key=lambda one: one.turns[-1]))

    @cached_property
    def taken_away(self) -> TakenAway:
        spans = (
            (first, last)
            for first, last, form in self.forms
            if form.kind == "gone" and form.of in (DROPPED, CLEARED)
        )
        return TakenAway(tuple(spans))


def _find_summaries(
    forms: Forms, texts: Mapping[int, int], after: Mapping[int, int]
) -> frozenset[int]:
    """Return the events whose summaries are needed to show these forms."""
    found: set[int] = set()
    for span in forms:
        slot = span.form.of if span.form.kind == "range" else _front_of(span.form)
        while slot is not None and slot not in found:
            found.add(slot)
            slot = None if slot in texts else after.get(slot) or None
    return frozenset(found)


def _of(form: TurnForm, event: int) -> TurnForm:
    """Return a form with the id of its event, which was not known before."""
    if form in (SUMMARY, RANGE):
        return TurnForm(form.kind, event)
    return TurnForm(form.kind, form.of, event) if form.by == OWN else form


def _front_of(form: TurnForm) -> int | None:
    """Return the event whose summary in front represents a turn of this form, or its beginning."""
    return form.of if form.kind == "summary" else form.by
