"""Boundaries of the view: what a change moves, and what all changes come to.

Nothing here edits the transcript. The view is the transcript seen through `Boundaries`, and these
are the sum of all view events that hold (`replay.py`), so that undoing is leaving one out of the
sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from memory.context.snapshot import Snapshot

Kind = Literal[
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
    "inject",
    "expand",
    "edit",
    "hold",
    "rebase",
    "reframe",
    "restart",
    "undo",
    "redo",
]
Actor = Literal["strategy", "rule", "person", "emergency", "restart"]


class Clip(Struct, frozen=True):
    """The form of a long text: `chars` of it, which count `tokens`: its beginning and end where it
    `is_snipped`, else its beginning alone."""

    chars: int
    tokens: int
    is_snipped: bool = True

    def to_json(self) -> list[int]:
        return [self.chars, self.tokens, *([] if self.is_snipped else [0])]


class Folded(Struct, frozen=True):
    """The place at which the turns in full begin under `slim`: entries with a lower seq than `cut`
    stand in the log, except those of the turns in `keep`. `full` is the `full_turns` that it was
    folded by. `newest` is the newest turn that was over then, where several fold at a time (0: one
    by one): the log tells the time once an hour, and replies before that turn stand without their
    lines."""

    cut: int = 0
    keep: frozenset[int] = frozenset()
    full: int = 0
    newest: int = 0

    def to_json(self) -> list[Any]:
        return [self.cut, sorted(self.keep), self.full, *([self.newest] if self.newest else [])]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Folded:
        cut, keep, full, *newest = data
        return cls(cut, frozenset(keep), full, *newest)


class Rolled(Struct, frozen=True):
    """The place at which the log begins under `slim`: at the turn `first`. `lines` is the
    `max_terse_entries` that it was shortened by; turns below `told` went to the daily memory when
    they were removed from it."""

    first: int = 0
    lines: int = 0
    told: int = 0


class StandIn(Struct, frozen=True):
    """A summary that stands where the turns `turns`, in ascending order, stood: before the first
    message in context behind the entry `seq`. `event` is the one that removed them (0 until that is
    stored), `summary` the id of their summary, 0 while that is written."""

    turns: tuple[int, ...]
    seq: int = 0
    summary: int = 0
    event: int = 0

    def to_json(self) -> list[Any]:
        return [list(self.turns), self.seq, self.summary, self.event]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> StandIn:
        turns, *numbers = data
        return cls(tuple(turns), *numbers)


class Change(Struct, frozen=True):
    """The change of the view by one event. Every field is optional; the default changes nothing.

    `cut`: entries with a lower seq are removed, except those of the turns in `keep`. `drop`,
    `squeeze`, `pin`, `unpin`: turn numbers. `roll`: turns with a lower number are removed from the
    log. `folded` and `rolled` do the same for `slim`, and replace what it did before, so that its
    settings can bring turns and lines back; `fold` names the turns that become lines. `clip`: by
    seq. `stub`: the tool results, by seq, of which a line is left, with the raw tokens of that
    line. `preface`: the id of the summary in front of the turns from now on (0: it stays; -1:
    none), and `reference` the place that keeps the removed turns, which is named beside it.
    `stand_in`: turns are removed, and their summary takes their place; one without turns says what
    the summary of its event is from now on. `back`: turns that come back into the context in spite
    of a cut or of such a summary. `target`: the event that an undo, a redo, an injection or the
    edit of a summary speaks of; of an expansion, the one whose summary the next one continues.
    """

    cut: int = 0
    keep: frozenset[int] = frozenset()
    drop: frozenset[int] = frozenset()
    squeeze: frozenset[int] = frozenset()
    clip: Mapping[int, Clip] = field(default_factory=dict)
    stub: Mapping[int, int] = field(default_factory=dict)
    pin: frozenset[int] = frozenset()
    unpin: frozenset[int] = frozenset()
    fold: frozenset[int] = frozenset()
    roll: int = 0
    folded: Folded | None = None
    rolled: Rolled | None = None
    preface: int = 0
    reference: str = ""
    target: int = 0
    stand_in: StandIn | None = None
    back: frozenset[int] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self == Change()

    def combine(self, other: Change) -> Change:
        """Both changes as one, `other` coming after this one."""
        return Change(
            cut=max(self.cut, other.cut),
            keep=other.keep if other.cut and other.cut >= self.cut else self.keep,
            drop=self.drop | other.drop,
            squeeze=self.squeeze | other.squeeze,
            clip={**self.clip, **other.clip},
            stub={**self.stub, **other.stub},
            pin=(self.pin - other.unpin) | other.pin,
            unpin=(self.unpin - other.pin) | other.unpin,
            fold=self.fold | other.fold,
            roll=max(self.roll, other.roll),
            folded=other.folded or self.folded,
            rolled=other.rolled or self.rolled,
            preface=other.preface or self.preface,
            reference=other.reference or self.reference,
            target=other.target or self.target,
            stand_in=other.stand_in or self.stand_in,
            back=self.back | other.back,
        )

    def to_json(self) -> dict[str, Any]:
        """Only what is set, in a stable order."""
        sets = {name: sorted(getattr(self, name)) for name in _SETS if getattr(self, name)}
        numbers = {name: getattr(self, name) for name in _NUMBERS if getattr(self, name)}
        by_seq: dict[str, Any] = {}
        if self.clip:
            by_seq["clip"] = {str(seq): clip.to_json() for seq, clip in sorted(self.clip.items())}
        if self.stub:
            by_seq["stub"] = {str(seq): tokens for seq, tokens in sorted(self.stub.items())}
        slim: dict[str, Any] = {}
        if self.folded:
            slim["folded"] = self.folded.to_json()
        if self.rolled:
            slim["rolled"] = [self.rolled.first, self.rolled.lines, self.rolled.told]
        others: dict[str, Any] = {"reference": self.reference} if self.reference else {}
        if self.stand_in:
            others["stand_in"] = self.stand_in.to_json()
        return {**numbers, **sets, **slim, **by_seq, **others}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Change:
        sets: dict[str, Any] = {name: frozenset(data[name]) for name in _SETS if name in data}
        numbers: dict[str, Any] = {name: data.get(name, 0) for name in _NUMBERS}
        clip = {int(seq): Clip(*sizes) for seq, sizes in data.get("clip", {}).items()}
        folded = Folded.from_json(data["folded"]) if "folded" in data else None
        rolled = Rolled(*data["rolled"]) if "rolled" in data else None
        stand_in = StandIn.from_json(data["stand_in"]) if "stand_in" in data else None
        return cls(
            clip=clip,
            stub={int(seq): tokens for seq, tokens in data.get("stub", {}).items()},
            folded=folded,
            rolled=rolled,
            reference=data.get("reference", ""),
            stand_in=stand_in,
            **numbers,
            **sets,
        )


_SETS = ("keep", "drop", "squeeze", "pin", "unpin", "fold", "back")
_NUMBERS = ("cut", "roll", "preface", "target")


class ViewEvent(Struct, frozen=True):
    """A durable event that changed the view.

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


class Boundaries(Struct, frozen=True, dict=True):
    """The sum of changes: what of the transcript is in context, and how it is shown.
    `all_stand_ins` are in the order of their places; `stand_ins` are those that hold."""

    cut: int = 0
    keep: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()
    squeezed: frozenset[int] = frozenset()
    clipped: Mapping[int, Clip] = field(default_factory=dict)
    stubbed: Mapping[int, int] = field(default_factory=dict)
    pinned: frozenset[int] = frozenset()
    roll: int = 0
    folded: Folded = Folded()
    rolled: Rolled = Rolled()
    preface: int = 0
    reference: str = ""
    all_stand_ins: tuple[StandIn, ...] = ()

    @cached_property
    def stand_ins(self) -> tuple[StandIn, ...]:
        """The summaries that stand where their turns stood. One that tells of a turn which a person
        dropped does not: its other turns are back in context."""
        return tuple(s for s in self.all_stand_ins if self._is_in_place(s))

    def _is_in_place(self, stand_in: StandIn) -> bool:
        turns = stand_in.turns
        is_here = stand_in.seq >= self.cut or not self.keep.isdisjoint(turns)
        is_full = stand_in.seq >= self.folded.cut or not self.folded.keep.isdisjoint(turns)
        return is_here and is_full and self.dropped.isdisjoint(turns)

    @cached_property
    def covered(self) -> frozenset[int]:
        """The turns for which a summary stands, or stood before it was cut or folded away."""
        whole = (s for s in self.all_stand_ins if self.dropped.isdisjoint(s.turns))
        return frozenset(turn for stand_in in whole for turn in stand_in.turns)

    @property
    def begin(self) -> int:
        """The seq from which on turns are in context; some before it may be kept."""
        return max(self.cut, self.folded.cut)

    @property
    def kept(self) -> frozenset[int]:
        """The turns that may be in context before that."""
        return (self.keep | self.folded.keep) - self.covered

    @property
    def log_begin(self) -> int:
        """The turn from which on lines may stand in the log."""
        return max(self.roll, self.rolled.first)

    def apply(self, change: Change) -> Boundaries:
        """Return these boundaries after one more change. A cut never moves back; one at the same
        place lets turns leave that were kept."""
        cuts = 0 < change.cut >= self.cut
        cut, keep = (change.cut, change.keep) if cuts else (self.cut, self.keep)
        folded, rolled, roll = self._slim_after(change)
        return Boundaries(
            cut=cut,
            keep=keep | change.back,
            dropped=self.dropped | change.drop,
            squeezed=self.squeezed | change.squeeze,
            clipped={**self.clipped, **change.clip} if change.clip else self.clipped,
            stubbed={**self.stubbed, **change.stub} if change.stub else self.stubbed,
            pinned=(self.pinned - change.unpin) | change.pin,
            roll=roll,
            folded=folded,
            rolled=rolled,
            preface=max(0, change.preface) if change.preface else self.preface,
            reference="" if change.preface < 0 else change.reference or self.reference,
            all_stand_ins=self._stand_ins_after(change, cut if cuts else 0, keep),
        )

    def _slim_after(self, change: Change) -> tuple[Folded, Rolled, int]:
        """Return the places at which turns and lines begin under `slim`, and at which lines begin
        in any case. Turns whose summary was opened may stand in the log again."""
        folded, rolled = change.folded or self.folded, change.rolled or self.rolled
        roll = max(self.roll, change.roll)
        if change.back:
            folded = replace(folded, keep=folded.keep | change.back)
        if change.back and change.preface:
            first = min(change.back)
            told = min(rolled.told, first)
            rolled = replace(rolled, first=min(rolled.first, first), told=told)
            roll = min(roll, first)
        return folded, rolled, roll

    def _stand_ins_after(
        self, change: Change, cut: int, keep: frozenset[int]
    ) -> tuple[StandIn, ...]:
        """Return the stand-ins after a change. A new one takes the place of those whose turns it
        covers, too; a cut takes along those that stand before it."""
        found, new = self.all_stand_ins, change.stand_in
        if new is not None and new.turns:
            rest = (s for s in found if set(new.turns).isdisjoint(s.turns))
            found = tuple(sorted((*rest, new), key=lambda s: s.seq))
        elif new is not None:
            found = tuple(
                replace(s, summary=new.summary) if s.event == new.event else s for s in found
            )
        if found and change.back:
            left = (
                replace(s, turns=tuple(t for t in s.turns if t not in change.back)) for s in found
            )
            found = tuple(s for s in left if s.turns)
        if found and cut:
            found = tuple(s for s in found if s.seq >= cut or not keep.isdisjoint(s.turns))
        return found

    def shows(self, seq: int, turn: int) -> bool:
        """Return whether an entry is in context."""
        is_here = seq >= self.cut or turn in self.keep
        is_full = seq >= self.folded.cut or turn in self.folded.keep
        is_away = turn in self.dropped or turn in self.covered
        return is_here and is_full and not is_away
