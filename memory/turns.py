"""Entries and turns: messages with their place in the transcript."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from memory.context.reconcile import count_odd
from memory.messages import Message


class Entry(Struct, frozen=True):
    """A message in its place: `seq` counts up within its conversation, `turn` is the turn's number,
    `tokens` the meter's raw estimate at insertion, `at` the time in UTC."""

    seq: int
    turn: int
    message: Message
    tokens: int
    at: datetime

    @property
    def id(self) -> str:
        """The id by which the model's tools find it: t3.12."""
        return f"t{self.turn}.{self.seq}"

    @property
    def role(self) -> str:
        return self.message.role

    @property
    def name(self) -> str:
        """Return the speaker: a person's name, the tool's, or the role."""
        return self.message.speaker or self.message.tool or self.message.role

    @property
    def content(self) -> str:
        """The text, except the part that is in a file of its own."""
        return self.message.shown_text if self.message.offloaded else self.message.text

    def get_text_content(self) -> str:
        """Return the content; the method of AgentScope's `Msg`."""
        return self.content

    def model_dump(self) -> dict[str, Any]:
        """Return the fields of a line of `context.jsonl`, as plain values."""
        message = self.message
        fields = {
            "turn": f"t{self.turn}",
            "seq": self.seq,
            "at": self.at.isoformat(timespec="seconds"),
            "role": message.role,
            "speaker": message.speaker,
            "content": self.content,
            "images": [image.file for image in message.images],
            "files": list(message.files),
            "tool": message.tool,
            "tool_call_id": message.call_id,
            "untrusted": message.has_outside,
            "tool_calls": [[call.id, call.name, call.arguments] for call in message.tool_calls],
        }
        return {name: value for name, value in fields.items() if value or name == "content"}

    def model_dump_json(self) -> str:
        """Return the fields as one line of JSON; the method of AgentScope's `Msg`."""
        return orjson.dumps(self.model_dump()).decode()


class Turn(Struct, frozen=True, dict=True):
    """A user's message and all entries up to the final reply; at least one. Results of parallel
    calls are on disk in order of arrival, so that a crash loses none; in a turn they are in the
    order of their calls."""

    number: int
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        pairs = pairwise(self.entries)
        if any(one.message.role == other.message.role == "tool" for one, other in pairs):
            force_setattr(self, "entries", in_order_of_calls(self.entries))

    @property
    def id(self) -> str:
        return f"t{self.number}"

    @cached_property
    def is_complete(self) -> bool:
        return self.entries[-1].message.is_final

    @cached_property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.entries)

    @cached_property
    def wire(self) -> tuple[dict[str, Any], ...]:
        """Its messages in the format of OpenAI's chat protocol; callers copy one before changing
        it."""
        return tuple(entry.message.to_wire() for entry in self.entries)

    @cached_property
    def characters(self) -> tuple[int, int, int]:
        """The number of characters sent for it, how many of them are `odd`, and the number of its
        pictures."""
        texts, images = [], 0
        for entry in self.entries:
            message = entry.message
            images += len(message.images)
            calls = [call.arguments for call in message.tool_calls]
            texts += [message.sent_text, message.reasoning if message.thoughts else "", *calls]
        return sum(map(len, texts)), count_odd("".join(texts)), images

    @cached_property
    def question(self) -> Message:
        """All messages of the person in it, as one: more than the first if messages were joined
        (`when_busy`)."""
        first, *joined = self.asked
        if not joined:
            return first.message
        return replace(
            first.message,
            text="\n\n".join(entry.message.text for entry in self.asked),
            images=tuple(image for entry in self.asked for image in entry.message.images),
            files=tuple(file for entry in self.asked for file in entry.message.files),
        )

    @property
    def asked(self) -> tuple[Entry, ...]:
        """The person's messages; at least the first entry."""
        return self.entries[:1] + tuple(e for e in self.entries[1:] if e.message.role == "user")

    @property
    def squeezed(self) -> tuple[Entry, ...]:
        """Return a complete turn without its intermediate steps: the person's messages that are in
        context, and the final reply."""
        asked = (entry for entry in self.entries[:-1] if entry.message.role == "user")
        return (*asked, self.entries[-1])

    @property
    def reply(self) -> Message | None:
        """The final reply; None while the turn runs."""
        return self.entries[-1].message if self.is_complete else None

    @cached_property
    def has_outside(self) -> bool:
        """Return whether a result in it came from outside, or it was written with such text in
        view."""
        return any(entry.message.has_outside for entry in self.entries)

    def plus(self, *entries: Entry) -> Turn:
        """Return the turn with entries added. Add all at once, since each call sorts the whole
        turn."""
        return Turn(self.number, (*self.entries, *entries))


def in_order_of_calls(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries, with the results of each reply's calls in the order of the calls."""
    placed: list[tuple[int, int, Entry]] = []
    reply, calls = 0, dict[str, int]()
    for entry in entries:
        message = entry.message
        if message.role != "tool":
            reply += 1
            calls = {call.id: place for place, call in enumerate(message.tool_calls, 1)}
        placed.append((reply, calls.get(message.call_id, 0), entry))
    return tuple(entry for *_, entry in sorted(placed, key=lambda one: one[:2]))


def format_turns(numbers: Sequence[int]) -> str:
    """Return turns in words: "t1 to t10", "t2, t5 to t7"."""
    return ", ".join(
        f"t{first}" if first == last else f"t{first} to t{last}" for first, last in runs(numbers)
    )


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of neighbours among these numbers, in order."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def turn_number(turn_id: str) -> int:
    """Parse a turn's id: "t7" -> 7. Raises ValueError with a sentence for other texts."""
    digits = turn_id.strip().lower().removeprefix("t")
    if not digits.isascii() or not digits.isdigit() or int(digits) < 1:
        raise ValueError(f"{turn_id!r} is not a turn; turns are named t1, t2 and so on")
    return int(digits)
