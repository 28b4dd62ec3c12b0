"""Boundaries of the view: what a change moves, and how the changes add up.

Nothing here edits the transcript. The view is the transcript seen through `Boundaries`, and these
are the sum of all view events that hold, so that undoing is leaving one out of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

Kind = Literal["compact", "clear", "new", "drop", "pin", "unpin", "undo", "redo", "restart"]
Actor = Literal["strategy", "person", "emergency", "restart"]


@dataclass(frozen=True, slots=True)
class Change:
    """What one event does to the view. Every field is optional; the default changes nothing.

    `cut`: entries with a lower seq leave, except those of the turns in `keep`. `drop`, `squeeze`,
    `pin`, `unpin`: turn numbers. `clip`: seq -> characters to keep of a tool result. `target`: the
    event that an undo or redo speaks of.
    """

    cut: int = 0
    keep: frozenset[int] = frozenset()
    drop: frozenset[int] = frozenset()
    squeeze: frozenset[int] = frozenset()
    clip: Mapping[int, int] = field(default_factory=dict)
    pin: frozenset[int] = frozenset()
    unpin: frozenset[int] = frozenset()
    target: int = 0

    def to_json(self) -> dict[str, Any]:
        """Only what is set, in a stable order."""
        sets = {
            name: sorted(getattr(self, name))
            for name in ("keep", "drop", "squeeze", "pin", "unpin")
            if getattr(self, name)
        }
        numbers = {name: getattr(self, name) for name in ("cut", "target") if getattr(self, name)}
        clip = {str(seq): chars for seq, chars in sorted(self.clip.items())}
        return {**numbers, **sets, **({"clip": clip} if clip else {})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Change:
        sets = {
            name: frozenset(data.get(name, ()))
            for name in ("keep", "drop", "squeeze", "pin", "unpin")
        }
        clip = {int(seq): chars for seq, chars in data.get("clip", {}).items()}
        return cls(cut=data.get("cut", 0), target=data.get("target", 0), clip=clip, **sets)


@dataclass(frozen=True, slots=True)
class ViewEvent:
    """A durable event that changed the view. `id` is 0 until it is stored; tokens by the meter."""

    at: datetime
    kind: Kind
    actor: Actor
    reason: str
    change: Change
    strategy: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    id: int = 0


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The sum of changes: what of the transcript is in play, and how it is shown."""

    cut: int = 0
    keep: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()
    squeezed: frozenset[int] = frozenset()
    clipped: Mapping[int, int] = field(default_factory=dict)
    pinned: frozenset[int] = frozenset()

    def moved_by(self, change: Change) -> Boundaries:
        """These boundaries after one more change. A cut never moves back."""
        cuts = change.cut > self.cut
        return Boundaries(
            cut=change.cut if cuts else self.cut,
            keep=change.keep if cuts else self.keep,
            dropped=self.dropped | change.drop,
            squeezed=self.squeezed | change.squeeze,
            clipped={**self.clipped, **change.clip} if change.clip else self.clipped,
            pinned=(self.pinned | change.pin) - change.unpin,
        )

    def shows(self, seq: int, turn: int) -> bool:
        """Whether an entry is in play."""
        return (seq >= self.cut or turn in self.keep) and turn not in self.dropped


def standing(events: Iterable[ViewEvent]) -> list[ViewEvent]:
    """The events that hold: those that change the view and were not undone."""
    undone: set[int] = set()
    changes: list[ViewEvent] = []
    for event in events:
        if event.kind == "undo":
            undone.add(event.change.target)
        elif event.kind == "redo":
            undone.discard(event.change.target)
        else:
            changes.append(event)
    return [event for event in changes if event.id not in undone]


def summed(events: Iterable[ViewEvent], strategy: str) -> Boundaries:
    """The boundaries that these events leave while `strategy` is active.

    What a person or an emergency did always holds; what a strategy did holds only while that
    strategy is active (DESIGN.md, section 5).
    """
    boundaries = Boundaries()
    for event in standing(events):
        if event.actor != "strategy" or event.strategy == strategy:
            boundaries = boundaries.moved_by(event.change)
    return boundaries


def numbered(event: ViewEvent, event_id: int) -> ViewEvent:
    """The event with the id that the store gave it."""
    return replace(event, id=event_id)
