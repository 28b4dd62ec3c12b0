"""Conversations for measuring a memory: the messages, and questions with the messages that hold the
evidence; in files in the format of LoCoMo (Maharana et al., 2024)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory.keys import ConversationKey
from memory.messages import Message


@dataclass(frozen=True, slots=True)
class Line:
    """A message of the data. One of the two speakers is the person (`is_user`), the other
    answers."""

    id: str
    speaker: str
    text: str
    at: datetime
    is_user: bool

    @property
    def message(self) -> Message:
        return Message("user" if self.is_user else "assistant", self.text, speaker=self.speaker)


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation in turns, and the questions about it."""

    key: ConversationKey
    turns: tuple[tuple[Line, ...], ...]
    questions: tuple[Question, ...]

    @property
    def lines(self) -> list[Line]:
        return [line for turn in self.turns for line in turn]


def dialogues(path: Path) -> list[Dialogue]:
    """Return the dialogues in a file in LoCoMo's format."""
    return [_dialogue(item) for item in json.loads(path.read_text("utf-8"))]


def _dialogue(item: Mapping[str, Any]) -> Dialogue:
    said = item["conversation"]
    questions = (Question(q["question"], _evidence(q["evidence"])) for q in item["qa"])
    return Dialogue(
        ConversationKey(item["sample_id"], item["sample_id"]),
        tuple(_turns(_lines(said))),
        tuple(question for question in questions if question.evidence),
    )


def _evidence(ids: Iterable[str]) -> frozenset[str]:
    return frozenset(re.findall(r"D\d+:\d+", " ".join(ids)))


def _lines(said: Mapping[str, Any]) -> Iterator[Line]:
    numbers = sorted(int(name[8:]) for name in said if re.fullmatch(r"session_\d+", name))
    for number in numbers:
        begin = datetime.strptime(said[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
        for minute, line in enumerate(said[f"session_{number}"]):
            at = begin.replace(tzinfo=UTC) + timedelta(minutes=minute)
            is_user = line["speaker"] == said["speaker_a"]
            yield Line(line["dia_id"], line["speaker"], line["text"], at, is_user)


def _turns(lines: Iterable[Line]) -> Iterator[tuple[Line, ...]]:
    """Yield the lines of each turn: messages of the first speaker, then the other's answers."""
    turn: list[Line] = []
    for line in lines:
        if turn and line.is_user and not turn[-1].is_user:
            yield tuple(turn)
            turn = []
        turn.append(line)
    yield tuple(turn)


def join(data: Sequence[Dialogue], size: Callable[[Line], int], most: int) -> Dialogue:
    """Return the first turns of all dialogues, up to `most` by `size`, as one conversation."""
    turns, total = [], 0
    for turn in (turn for dialogue in data for turn in dialogue.turns):
        total += sum(map(size, turn))
        if total > most:
            break
        turns.append(turn)
    questions = tuple(question for dialogue in data for question in dialogue.questions)
    key = ConversationKey("together", "together")
    return Dialogue(key, tuple(turns), questions)
