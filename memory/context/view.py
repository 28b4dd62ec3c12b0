"""What the model sees of a conversation: a pure value, made from the transcript and boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory.context.change import Boundaries
from memory.context.meter import Frame, FrameTokens
from memory.messages import Message
from memory.turns import Entry, Turn


@dataclass(frozen=True, slots=True)
class Scale:
    """From raw counts to the provider's tokens: `offset + ratio * raw`.

    The ratio belongs to the model, the offset to the last request that was reported, so that the
    figure for that very request is exactly what the provider counted.
    """

    ratio: float = 1.0
    offset: float = 0.0
    is_measured: bool = False

    def tokens(self, raw: int) -> int:
        return max(0, round(self.offset + self.ratio * raw))

    def part(self, raw: int) -> int:
        """What a part of the whole weighs: the ratio alone."""
        return round(self.ratio * raw)


@dataclass(frozen=True, slots=True)
class View:
    """Turns in play, oldest first, shown as the boundaries say; `current` is the running turn's
    number or 0. `tokens` is the size of the next request by the one meter."""

    turns: tuple[Turn, ...]
    frame: FrameTokens
    boundaries: Boundaries = field(default_factory=Boundaries)
    scale: Scale = field(default_factory=Scale)
    current: int = 0

    @property
    def raw_tokens(self) -> int:
        turns = sum(turn.tokens for turn in self.turns)
        return self.frame.system + self.frame.tools + turns

    @property
    def tokens(self) -> int:
        return self.scale.tokens(self.raw_tokens)

    @property
    def complete(self) -> tuple[Turn, ...]:
        """The complete turns: all but the running one."""
        return tuple(turn for turn in self.turns if turn.number != self.current)

    @property
    def messages(self) -> list[Message]:
        return [entry.message for turn in self.turns for entry in turn.entries]

    def to_wire(self, frame: Frame) -> list[dict[str, Any]]:
        """The messages of the next request, the system prompt first."""
        system = [{"role": "system", "content": frame.system}] if frame.system else []
        return system + [message.to_wire() for message in self.messages]


def shown(turns: Sequence[Turn], boundaries: Boundaries) -> tuple[Turn, ...]:
    """The turns in play: those that the boundaries leave out are gone, squeezed ones are shortened
    to their first user text and last reply."""
    kept = []
    for turn in turns:
        entries = tuple(e for e in turn.entries if boundaries.shows(e.seq, turn.number))
        if turn.number in boundaries.squeezed and turn.is_complete and entries:
            entries = squeezed(entries)
        if entries:
            kept.append(Turn(turn.number, entries))
    return tuple(kept)


def squeezed(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """First and last of a complete turn's entries: the question and the final reply."""
    return entries if len(entries) <= 2 else (entries[0], entries[-1])


def with_boundaries(view: View, boundaries: Boundaries) -> View:
    """The view as it would be behind other (narrower) boundaries."""
    return replace(view, turns=shown(view.turns, boundaries), boundaries=boundaries)
