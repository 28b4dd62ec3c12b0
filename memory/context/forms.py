"""Forms of turns: events give them, and the layout is, for each turn, the form that it has now.

Nothing here edits the transcript. A turn has one form: the newest that an event gave it which holds
(`replay.py`), `WHOLE` where none did. So undoing is leaving an event out. Turns are kept as spans
of neighbours with the same form: an event over all turns of a long conversation is as small as one
over two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, NamedTuple

from msgspec import Struct, field

from memory.context.snapshot import Snapshot

FormKind = Literal["whole", "tail", "squeezed", "line", "summary", "range", "gone"]


class TurnForm(NamedTuple):
    """The form of a turn. `of` says which: of a `summary` in front or of a `range` summary the
    event that made it (0: the event that gives the form), of a `tail` or a `squeezed` turn the seq
    from which on it is there, of a `line` the `full_turns` that it was folded by, of a turn that is
    `gone` by what. `by` is the event whose summary represents the beginning of a turn of which only
    the rest is there (None: its beginning is there, or nothing represents it)."""

    kind: FormKind
    of: int = 0
    by: int | None = None


ASIDE, DROPPED, CLEARED, ROLLED = range(4)
"""The reasons why a turn is gone: set aside by `/new`, and told of by the daily memory; dropped or
cleared by a person; rolled off the activity log."""
WHOLE, SUMMARY, RANGE = TurnForm("whole"), TurnForm("summary"), TurnForm("range")
OWN = 0
"""The summary of the event itself, which has no id before it is stored."""
_SHOWN = ("whole", "tail", "squeezed")


class FormSpan(NamedTuple):
    """Neighbouring turns with the same form."""

    first: int
    last: int
    form: TurnForm


Forms = tuple[FormSpan, ...]
"""Spans in ascending order that do not overlap."""


def give(turns: Iterable[int], form: TurnForm) -> Forms:
    """Return the spans by which these turns have a form."""
    spans: list[FormSpan] = []
    for number in sorted(turns):
        if spans and number == spans[-1].last + 1:
            spans[-1] = FormSpan(spans[-1].first, number, form)
        else:
            spans.append(FormSpan(number, number, form))
    return tuple(spans)


def overlay(below: Forms, above: Forms) -> Forms:
    """Return the forms of both, those `above` where a turn has two."""
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
    """Return the turns that have a form of these kinds (none named: any), in order."""
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
    rest = (
        span
        for first, last, form in forms
        for span in give((n for n in range(first, last + 1) if n not in turns), form)
    )
    return tuple(rest)


class Clip(Struct, frozen=True):
    """The form of a long text: `chars` of it, which count `tokens`: its beginning and end where it
    `is_snipped`, else its beginning alone."""

    chars: int
    tokens: int
    is_snipped: bool = True

    def to_json(self) -> list[int]:
        return [self.chars, self.tokens, *([] if self.is_snipped else [0])]


class Rolled(Struct, frozen=True):
    """The setting by which `slim` shortened its log, `max_terse_entries`; turns below `told` went
    to the daily memory when their lines were removed."""

    lines: int = 0
    told: int = 0


class Change(Struct, frozen=True):
    """The change of the context by one event. Every field is optional; the default changes nothing.

    `forms` are given to turns; `clip` and `stub` to messages, by seq: a stub is the one line that
    is left of a tool result, given with its raw tokens. `pin`, `unpin`: turn numbers. `texts` are
    the summaries that are shown from now on, each by the event that removed its turns (0: this
    one); `after` is the event whose summary this one's continues. `reference` is the place that
    keeps the removed turns, which is named beside the summary in front ("": none from now on; None:
    as before). `folded` and `rolled` belong to `slim`: `folded` is the newest turn that was over
    when turns became lines, where several do at a time (0: one by one): the log tells the time once
    an hour then, and replies before that turn are sent without their lines. `target` is the event
    that an undo or a redo is of.
    """

    forms: Forms = ()
    clip: Mapping[int, Clip] = field(default_factory=dict)
    stub: Mapping[int, int] = field(default_factory=dict)
    pin: frozenset[int] = frozenset()
    unpin: frozenset[int] = frozenset()
    texts: Mapping[int, int] = field(default_factory=dict)
    after: int = 0
    reference: str | None = None
    folded: int | None = None
    rolled: Rolled | None = None
    target: int = 0

    @property
    def is_empty(self) -> bool:
        return self == Change()

    def turns(self, *kinds: FormKind, of: int | None = None) -> tuple[int, ...]:
        """Return the turns to which it gives a form of these kinds."""
        return turns_of(self.forms, *kinds, of=of)

    def makes(self, kind: FormKind) -> bool:
        """Return whether it removes turns for which a summary of its own is shown: a `summary` in
        front or a `range` summary."""
        is_half = kind == "summary"
        forms = (span.form for span in self.forms)
        return any(form == TurnForm(kind) or (is_half and form.by == OWN) for form in forms)

    def combine(self, other: Change) -> Change:
        """Both changes as one, `other` coming after this one."""
        return Change(
            forms=overlay(self.forms, other.forms),
            clip={**self.clip, **other.clip},
            stub={**self.stub, **other.stub},
            pin=(self.pin - other.unpin) | other.pin,
            unpin=(self.unpin - other.pin) | other.unpin,
            texts={**self.texts, **other.texts},
            after=self.after or other.after,
            reference=self.reference if other.reference is None else other.reference,
            folded=self.folded if other.folded is None else other.folded,
            rolled=other.rolled or self.rolled,
            target=other.target or self.target,
        )

    def to_json(self) -> dict[str, Any]:
        """Only what is set, in a stable order."""
        found: dict[str, Any] = {}
        if self.forms:
            found["forms"] = [[first, last, *_dump(form)] for first, last, form in self.forms]
        if self.clip:
            found["clip"] = {str(seq): clip.to_json() for seq, clip in sorted(self.clip.items())}
        if self.stub:
            found["stub"] = {str(seq): tokens for seq, tokens in sorted(self.stub.items())}
        found |= {name: sorted(value) for name in _SETS if (value := getattr(self, name))}
        if self.texts:
            found["texts"] = {str(slot): text for slot, text in sorted(self.texts.items())}
        found |= {name: value for name in _NUMBERS if (value := getattr(self, name))}
        if self.reference is not None:
            found["reference"] = self.reference
        if self.folded is not None:
            found["folded"] = self.folded
        if self.rolled:
            found["rolled"] = [self.rolled.lines, self.rolled.told]
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Change:
        sets: dict[str, Any] = {name: frozenset(data.get(name, ())) for name in _SETS}
        numbers: dict[str, Any] = {name: data.get(name, 0) for name in _NUMBERS}
        return cls(
            forms=tuple(
                FormSpan(first, last, TurnForm(kind, *of))
                for first, last, kind, *of in data.get("forms", ())
            ),
            clip={int(seq): Clip(*sizes) for seq, sizes in data.get("clip", {}).items()},
            stub={int(seq): tokens for seq, tokens in data.get("stub", {}).items()},
            texts={int(slot): text for slot, text in data.get("texts", {}).items()},
            reference=data.get("reference"),
            folded=data.get("folded"),
            rolled=Rolled(*data["rolled"]) if "rolled" in data else None,
            **sets,
            **numbers,
        )


_SETS = ("pin", "unpin")
_NUMBERS = ("after", "target")


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
        return self.form(turn).kind in _SHOWN

    def shown_spans(self) -> Iterator[tuple[int, int | None]]:
        """Yield the first and last turns that are in context and side by side; the last of all is
        open (None)."""
        first = 1
        for span in self.forms:
            if span.form.kind not in _SHOWN:
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

    @property
    def log_begin(self) -> int:
        """The first turn that is in context, or of which a line is in the activity log."""
        kinds = (*_SHOWN, "line")
        begin = 1
        for span in self.forms:
            if span.first > begin or span.form.kind in kinds:
                break
            begin = span.last + 1
        return begin

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


def _dump(form: TurnForm) -> tuple[Any, ...]:
    """Return a form as JSON has it, without what is not set."""
    if form.by is not None:
        return tuple(form)
    return (form.kind, form.of) if form.of else (form.kind,)


Kind = Literal["view", "text", "edit", "undo", "redo", "hold", "setting", "prompt"]
"""The kind of an event: it gives forms to turns or messages, shows a summary that came late or one
that a person has edited, takes another event back or brings it back, says no to a compaction, or
follows from a changed setting or prompt."""
Name = Literal[
    "compact",
    "squeeze",
    "clip",
    "stub",
    "fold",
    "unfold",
    "clear",
    "new",
    "drop",
    "pin",
    "unpin",
    "expand",
    "restart",
    "inject",
    "edit",
    "undo",
    "redo",
    "hold",
    "rebase",
    "reframe",
]
"""The name by which people and programs know an event."""
Actor = Literal["strategy", "rule", "person", "emergency", "restart"]
_NAMES: Mapping[str, Name] = {
    **{"text": "inject", "edit": "edit", "undo": "undo", "redo": "redo"},
    **{"hold": "hold", "prompt": "reframe"},
}
_GONE: Mapping[int, Name] = {ASIDE: "new", DROPPED: "drop", CLEARED: "clear", ROLLED: "fold"}


class ViewEvent(Struct, frozen=True):
    """A durable event that changed the context.

    `strategy` is the one that made it: the one in force, or the one that a rule names. `turn` is
    the number of the newest turn at that moment, `leaving` names the turns that it removed; tokens
    are the meter's, `broken` those that the provider had cached and that were no use any more (-1:
    not counted, since nothing was known of a cache), `anew` what stood in their place. `snapshot`
    is what the model had at hand when turns were removed. `id` is 0 until it is stored.
    """

    at: datetime
    kind: Kind
    actor: Actor
    reason: str
    change: Change
    strategy: str = ""
    turn: int = 0
    leaving: tuple[int, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    snapshot: Snapshot | None = None
    broken: int = -1
    anew: int = 0
    id: int = 0

    @property
    def name(self) -> Name:
        """The name by which people and programs know it."""
        if self.kind == "setting":
            return "rebase" if self.change.is_empty else "unfold"
        return _NAMES.get(self.kind) or name_of(self.change, self.actor)


def name_of(change: Change, actor: Actor = "strategy") -> Name:
    """Return the name of a change that gives forms."""
    kinds = {span.form.kind for span in change.forms}
    if actor == "restart":
        return "restart"
    if change.makes("summary") or change.makes("range"):
        return "compact"
    gone = {span.form.of for span in change.forms if span.form.kind == "gone"}
    if "whole" in kinds and gone.isdisjoint((DROPPED, CLEARED)):
        return "expand"
    if gone:
        return _GONE[max(gone)]
    if change.folded is not None or change.rolled:
        return "fold"
    shorter: tuple[tuple[Any, Name], ...] = (
        ("summary" in kinds or "tail" in kinds, "compact"),
        ("squeezed" in kinds, "squeeze"),
        (change.clip, "clip"),
        (change.stub, "stub"),
        (change.pin, "pin"),
        (change.unpin, "unpin"),
    )
    return next((name for is_so, name in shorter if is_so), "drop")
