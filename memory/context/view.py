"""What the model sees of a conversation: a pure value, made from the transcript and boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory.context.change import Boundaries, Change
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
class Preface:
    """What stands for the turns that left: a summary, with its raw tokens as it is rendered."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class View:
    """What the next request holds, besides the frame.

    `whole` are the turns in play, oldest first, as they are in the transcript; `turns` are the
    same as the boundaries show them; `current` is the running turn's number or 0, `newest` that of
    the last turn there was, in play or not.
    """

    whole: tuple[Turn, ...]
    turns: tuple[Turn, ...]
    frame: FrameTokens
    boundaries: Boundaries = field(default_factory=Boundaries)
    scale: Scale = field(default_factory=Scale)
    preface: Preface | None = None
    current: int = 0
    newest: int = 0

    @property
    def raw_tokens(self) -> int:
        preface = self.preface.tokens if self.preface else 0
        turns = sum(turn.tokens for turn in self.turns)
        return self.frame.system + self.frame.tools + preface + turns

    @property
    def tokens(self) -> int:
        """The size of the next request, by the one meter."""
        return self.scale.tokens(self.raw_tokens)

    @property
    def complete(self) -> tuple[Turn, ...]:
        """The complete turns: all but the running one, or one that a crash has cut short and that
        is about to go on."""
        return tuple(turn for turn in self.turns if turn.is_complete)

    @property
    def movable(self) -> tuple[Turn, ...]:
        """The turns that a strategy may let go: complete, and not pinned."""
        return tuple(t for t in self.complete if t.number not in self.boundaries.pinned)

    @property
    def messages(self) -> list[Message]:
        return [entry.message for turn in self.turns for entry in turn.entries]

    def moved_by(self, change: Change) -> View:
        """The view after a change that makes it smaller. The preface is left as it is: what will
        stand there is not known yet."""
        boundaries = self.boundaries.moved_by(change)
        return replace(self, turns=shown(self.whole, boundaries), boundaries=boundaries)

    def to_wire(self, frame: Frame) -> list[dict[str, Any]]:
        """The messages of the next request, the system prompt first; the preface stands in front
        of the first user message, and is no part of it in the transcript."""
        system = [{"role": "system", "content": frame.system}] if frame.system else []
        messages = [message.to_wire() for message in self.messages]
        asked = [message for message in messages if message["role"] == "user"]
        if self.preface is not None and asked:
            asked[0]["content"] = f"{marked(self.preface.text)}\n\n{asked[0]['content']}"
        return system + messages


def marked(summary: str) -> str:
    """A summary as the model sees it: marked, so that it is not taken for the person's words."""
    return f"<summary-of-earlier-turns>\n{summary}\n</summary-of-earlier-turns>"


def shown(turns: Sequence[Turn], boundaries: Boundaries) -> tuple[Turn, ...]:
    """The turns in play as the boundaries show them: those left out are gone, squeezed ones are
    shortened to their first user text and last reply, long results are clipped."""
    kept = []
    for turn in turns:
        entries = tuple(e for e in turn.entries if boundaries.shows(e.seq, turn.number))
        if turn.number in boundaries.squeezed and turn.is_complete and len(entries) > 2:
            entries = (entries[0], entries[-1])
        if boundaries.clipped:
            entries = tuple(_clipped(entry, boundaries) for entry in entries)
        if entries == turn.entries:
            kept.append(turn)
        elif entries:
            kept.append(Turn(turn.number, entries))
    return tuple(kept)


def in_play(turns: Sequence[Turn], boundaries: Boundaries) -> tuple[Turn, ...]:
    """The turns that the boundaries leave in play, whole."""
    return tuple(
        turn
        for turn in turns
        if any(boundaries.shows(entry.seq, turn.number) for entry in turn.entries)
    )


def _clipped(entry: Entry, boundaries: Boundaries) -> Entry:
    clip = boundaries.clipped.get(entry.seq)
    if clip is None:
        return entry
    message = replace(entry.message, text=clipped(entry.message.shown_text, clip.chars), kept=0)
    return replace(entry, message=message, tokens=clip.tokens)


def clipped(text: str, chars: int) -> str:
    """Beginning and end of a text, `chars` in all, and how much is gone between (CowAgent)."""
    if len(text) <= chars:
        return text
    tail = chars // 2
    head, gone = chars - tail, len(text) - chars
    return f"{text[:head]}\n[… {gone:,} characters left out here …]\n{text[len(text) - tail :]}"
