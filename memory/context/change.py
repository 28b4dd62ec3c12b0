"""Events, and their changes: the forms of turns, clips and stubs of messages, pins, and the texts
of summaries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from math import inf
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from memory.context.forms import (
    ASIDE,
    CLEARED,
    DROPPED,
    OWN,
    RANGE,
    ROLLED,
    SUMMARY,
    FormKind,
    Forms,
    FormSpan,
    Snapshot,
    TurnForm,
    overlay,
    turns_of,
    up_to,
    without_turns,
)


class Clip(Struct, frozen=True):
    """The form of a long text: `chars` characters of it, which count `tokens`. If `is_snipped`, its
    beginning and end are shown, else its beginning alone."""

    chars: int
    tokens: int
    is_snipped: bool = True

    def to_json(self) -> list[int]:
        return [self.chars, self.tokens, *([] if self.is_snipped else [0])]


class ShortenedLog(Struct, frozen=True):
    """The setting by which `slim` shortened its log, `max_terse_entries`. Turns below `told` were
    written to the daily memory when their lines were removed."""

    lines: int = 0
    told: int = 0


class Change(Struct, frozen=True):
    """The change of the context by one event. Every field is optional; the default changes nothing.

    `forms` are given to turns; `clip` and `stub` to messages, by seq: a stub is the one line that
    is left of a tool result, given with its raw tokens. `pin`, `unpin`: turn numbers. `texts` are
    the summaries that are shown from now on, each by the event that removed its turns (0: this
    one). `after` is the event whose summary this one's continues, or that a late reference is
    about. `reference` is the place that keeps the removed turns, and is named beside the summary in
    front ("": none from now on; None: unchanged). `folded` and `rolled` belong to `slim`: `folded`
    is the newest complete turn when several turns became lines at once (0: one by one): the log
    then gives the time once an hour, and replies before that turn are sent without their lines.
    `target` is the event that an undo or a redo is of.
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
    rolled: ShortenedLog | None = None
    target: int = 0

    @classmethod
    def clipping(cls, clips: Mapping[int, Clip]) -> Change:
        """Clip messages, given by seq."""
        return cls(clip=clips)

    @classmethod
    def stubbing(cls, results: Iterable[int], tokens: int) -> Change:
        """Replace tool results, given by seq, by stubs; each counts this many raw tokens at
        first."""
        return cls(stub=dict.fromkeys(results, tokens))

    @classmethod
    def pinning(cls, turns: Collection[int]) -> Change:
        return cls(pin=frozenset(turns))

    @classmethod
    def unpinning(cls, turns: Collection[int]) -> Change:
        return cls(unpin=frozenset(turns))

    @classmethod
    def clearing(cls, forms: Forms) -> Change:
        """Give turns these forms, and name no place that keeps removed turns."""
        return cls(forms, reference="")

    @classmethod
    def moving(cls, event: int) -> Change:
        """Undo or redo an event."""
        return cls(target=event)

    @classmethod
    def showing(
        cls, summaries: Mapping[int, int], after: int = 0, reference: str | None = None
    ) -> Change:
        """Show summaries, each for the event that removed its turns."""
        return cls(texts=summaries, after=after, reference=reference)

    @property
    def is_empty(self) -> bool:
        return self == _NONE

    @property
    def folds(self) -> bool:
        """Return whether it folds turns into lines of the log, or rolls lines up."""
        return self.folded is not None or self.rolled is not None

    @property
    def restores_turns(self) -> bool:
        """Return whether it brings turns back into the context whole."""
        return any(span.form.kind == "whole" for span in self.forms)

    @property
    def rewrites_front(self) -> bool:
        """Return whether it may change the text in front of the messages, or a summary between
        them."""
        return bool(self.forms or self.texts) or self.folds or self.reference is not None

    @property
    def shortened(self) -> tuple[int, int]:
        """The number of messages that it clips, and of tool results that it replaces by stubs."""
        return len(self.clip), len(self.stub)

    @property
    def summaries(self) -> Collection[int]:
        """The ids of the summaries that it shows."""
        return self.texts.values()

    def touches(self, turn: int, seq: int) -> bool:
        """Return whether it may change how a message of a turn is sent."""
        is_line_shown = self.folded is not None and turn <= self.folded
        has_form = any(span.first <= turn <= span.last for span in self.forms)
        return has_form or is_line_shown or seq in self.clip or seq in self.stub

    def turns(self, *kinds: FormKind, of: int | None = None) -> tuple[int, ...]:
        """Return the turns to which it gives a form of these kinds."""
        return turns_of(self.forms, *kinds, of=of)

    def makes(self, kind: FormKind) -> bool:
        """Return whether it removes turns for which a summary of its own is shown: a `summary` in
        front or a `range` summary."""
        is_half = kind == "summary"
        forms = (span.form for span in self.forms)
        return any(form == TurnForm(kind) or (is_half and form.by == OWN) for form in forms)

    def freed_tokens(self, seq: int, tokens: int) -> int:
        """Return the raw tokens that it frees by replacing this message by a stub."""
        return tokens - self.stub[seq] if seq in self.stub else 0

    def clips(self, seq: int) -> bool:
        """Return whether it clips this message."""
        return seq in self.clip

    def with_forms(self, forms: Forms) -> Change:
        """Return the change with these forms added; they replace the forms of the same turns."""
        return replace(self, forms=overlay(self.forms, forms))

    def with_own_summaries(self, turns: Collection[int]) -> Change:
        """Return the change with its own summary for the removed parts of the turns that it
        squeezes, among these turns."""
        spans = (
            span._replace(form=span.form._replace(by=OWN))
            if span.form.kind == "squeezed" and span.first in turns
            else span
            for span in self.forms
        )
        return replace(self, forms=tuple(spans))

    def with_summary(self, summary: int, event: int = OWN) -> Change:
        """Return the change that also shows a summary of the turns that this event removed."""
        return replace(self, texts={**self.texts, event: summary})

    def up_to(self, turn: int, seq: int | None = None) -> Change:
        """Return the change without its effect on later turns or messages."""
        last = inf if seq is None else seq
        return replace(
            self,
            forms=up_to(self.forms, turn),
            pin=frozenset(number for number in self.pin if number <= turn),
            unpin=frozenset(number for number in self.unpin if number <= turn),
            clip={place: clip for place, clip in self.clip.items() if place <= last},
            stub={place: size for place, size in self.stub.items() if place <= last},
        )

    def without(
        self,
        turns: Collection[int],
        seqs: Collection[int],
        summaries: Collection[int],
        unmade: Mapping[int, int],
    ) -> Change:
        """Return the change without these turns, messages and summaries. `unmade` are the events
        that no longer have a summary, each with the event whose summary its own continued."""
        return replace(
            self,
            forms=without_turns(self.forms, turns),
            clip={seq: clip for seq, clip in self.clip.items() if seq not in seqs},
            stub={seq: tokens for seq, tokens in self.stub.items() if seq not in seqs},
            pin=self.pin.difference(turns),
            unpin=self.unpin.difference(turns),
            texts={
                slot: text
                for slot, text in self.texts.items()
                if text not in summaries and slot not in unmade
            },
            after=unmade.get(self.after, self.after),
        )

    def without_own_summary(self) -> Change:
        """Return the change without the summary that it makes: turns that would go into that
        summary keep their previous form."""
        kept = (span for span in self.forms if span.form not in (SUMMARY, RANGE))
        spans = (span._replace(form=span.form._replace(by=None)) for span in kept)
        return replace(self, forms=tuple(spans))

    @property
    def has_no_effect(self) -> bool:
        """Return whether it has no effect on turns, messages and summaries."""
        left = replace(self, target=0, after=0, folded=None, rolled=None)
        return left in (_NONE, Change(reference=""))

    def combine(self, other: Change) -> Change:
        """Merge both changes; `other` comes after this one."""
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
        """Return only the fields that are set, in a stable order."""
        values = ((name, getattr(self, name), dump) for name, (dump, _) in _JSON.items())
        return {name: dump(value) for name, value, dump in values if value != getattr(_NONE, name)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Change:
        return cls(**{name: load(data[name]) for name, (_, load) in _JSON.items() if name in data})


_NONE = Change()


def _by_number(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(number): value for number, value in sorted(values.items())}


def _load_numbers(data: Mapping[str, int]) -> dict[int, int]:
    return {int(number): value for number, value in data.items()}


def _as_it_is(value: Any) -> Any:
    return value


def _dump_form(form: TurnForm) -> tuple[Any, ...]:
    """Return a form as JSON has it, without unset fields."""
    if form.by is not None:
        return tuple(form)
    return (form.kind, form.of) if form.of else (form.kind,)


_JSON: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "forms": (
        lambda spans: [[first, last, *_dump_form(form)] for first, last, form in spans],
        lambda rows: tuple(FormSpan(first, last, TurnForm(*form)) for first, last, *form in rows),
    ),
    "clip": (
        lambda clips: {seq: clips[int(seq)].to_json() for seq in _by_number(clips)},
        lambda data: {int(seq): Clip(*sizes) for seq, sizes in data.items()},
    ),
    "stub": (_by_number, _load_numbers),
    "pin": (sorted, frozenset),
    "unpin": (sorted, frozenset),
    "texts": (_by_number, _load_numbers),
    "after": (_as_it_is, _as_it_is),
    "target": (_as_it_is, _as_it_is),
    "reference": (_as_it_is, _as_it_is),
    "folded": (_as_it_is, _as_it_is),
    "rolled": (lambda rolled: [rolled.lines, rolled.told], lambda data: ShortenedLog(*data)),
}
"""The functions that convert each field of a change to JSON and back."""

Kind = Literal["view", "text", "edit", "undo", "redo", "hold", "setting", "prompt"]
"""The kind of an event: it gives forms to turns or messages, shows a late or edited summary, undoes
or redoes another event, refuses a compaction, or follows from a changed setting or prompt."""
_OfTurns = Literal["compact", "fold", "unfold", "clear", "new", "drop", "expand", "restart"]
_OfMessages = Literal["squeeze", "clip", "stub", "pin", "unpin", "range", "edit"]
Name = Literal[_OfTurns, _OfMessages, "undo", "redo", "hold", "strategy", "prompt"]
"""The name of an event, for people and programs."""
Actor = Literal["strategy", "rule", "person", "emergency", "restart"]
_NAMES: Mapping[str, Name] = {
    **{"text": "range", "edit": "edit", "undo": "undo", "redo": "redo"},
    **{"hold": "hold", "prompt": "prompt"},
}
_GONE: Mapping[int, Name] = {ASIDE: "new", DROPPED: "drop", CLEARED: "clear", ROLLED: "fold"}


class ViewEvent(Struct, frozen=True):
    """A durable event that changed the context.

    `strategy` is the strategy that made it: the one in force, or the one that a rule names. `turn`
    is the number of the newest turn at that moment, `leaving` are the turns that it removed. Token
    counts are the meter's: `broken` are the cached tokens of the provider that it invalidated (-1:
    not counted, since no cache was known), `anew` the tokens sent in their place. `snapshot` has
    the tools and memory of the model when turns were removed. `id` is 0 until it is stored.
    """

    at: datetime
    kind: Kind
    actor: Actor
    reason: str
    change: Change
    strategy: str
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
        """The name of the event, for people and programs."""
        if self.kind == "setting":
            return "strategy" if self.change.is_empty else "unfold"
        return _NAMES.get(self.kind) or name_of(self.change, self.actor)

    @property
    def target(self) -> int:
        """The event that it undoes or redoes; 0: none."""
        return self.change.target

    @property
    def continued(self) -> int:
        """The event whose summary its own continues; 0: none."""
        return self.change.after

    @property
    def named(self) -> frozenset[int]:
        """The events that it refers to: the one that it undoes or redoes, and those whose summaries
        it shows or continues."""
        change = self.change
        return frozenset({change.target, change.after, *change.texts} - {OWN})

    @property
    def touched(self) -> tuple[int, ...]:
        """The turns that it refers to: those that it removed, or else those that it changed."""
        change = self.change
        if dropped := change.turns("gone", of=DROPPED):
            return dropped
        left = {*self.leaving, *change.turns("line", "whole")}
        return tuple(sorted(left or change.pin or change.unpin or change.turns("squeezed")))


def name_of(change: Change, actor: Actor = "strategy") -> Name:
    """Return the name of a change that gives forms."""
    kinds = {span.form.kind for span in change.forms}
    if actor == "restart":
        return "restart"
    if change.makes("summary") or change.makes("range"):
        return "compact"
    removed = {span.form.of for span in change.forms if span.form.kind == "gone"}
    if change.restores_turns and removed.isdisjoint((DROPPED, CLEARED)):
        return "expand"
    if removed:
        return _GONE[max(removed)]
    if change.folds:
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
