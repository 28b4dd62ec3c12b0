"""The recall benchmark, over a small conversation of our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import dialogues, recall
from benchmarks.dialogues import Dialogue
from memory.context.strategies import STRATEGIES

DATA = [
    {
        "sample_id": "small",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bob",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Bob", "dia_id": "D1:1", "text": "Hi Ann, what's new?"},
                {"speaker": "Ann", "dia_id": "D1:2", "text": "I adopted a dog yesterday!"},
                {"speaker": "Bob", "dia_id": "D1:3", "text": "What is it called?"},
                {"speaker": "Ann", "dia_id": "D1:4", "text": "Pepper."},
            ],
            "session_2_date_time": "9:05 am on 20 June, 2023",
            "session_2": [
                {"speaker": "Ann", "dia_id": "D2:1", "text": "I run a marathon in autumn."},
                {"speaker": "Bob", "dia_id": "D2:2", "text": "I'd rather bake bread."},
            ],
        },
        "qa": [
            {"question": "When did Ann adopt a dog?", "evidence": ["D1:2"]},
            {"question": "What does Bob bake?", "evidence": ["D2:2"]},
            {"question": "What is Ann's dog called?", "evidence": ["D1:2; D1:4"]},
            {"question": "Is there no evidence?", "evidence": []},
        ],
    }
]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(DATA))
    return path


@pytest.fixture
def other(small: Path) -> Path:
    path = small.with_name("other.json")
    path.write_text(small.read_text())
    return path


def test_the_data_is_read_as_turns_with_questions_that_have_evidence(small: Path) -> None:
    (dialogue,) = dialogues.dialogues(small)
    ids = [[line.id for line in turn] for turn in dialogue.turns]
    assert ids == [["D1:1"], ["D1:2", "D1:3"], ["D1:4", "D2:1", "D2:2"]]
    assert [sorted(q.evidence) for q in dialogue.questions] == [
        ["D1:2"],
        ["D2:2"],
        ["D1:2", "D1:4"],
    ]


def test_conversations_are_joined_up_to_a_size(small: Path) -> None:
    data = dialogues.dialogues(small)
    joined = dialogues.join([*data, *data], size=lambda line: 1, most=9)
    assert [line.id for line in joined.lines] == [f"D1:{n}" for n in (1, 2, 3, 4)] + [
        "D2:1", "D2:2", "D1:1", "D1:2", "D1:3",
    ]  # fmt: skip
    assert len(joined.questions) == 6


async def test_all_of_a_short_talk_is_found_again_and_under_every_strategy(small: Path) -> None:
    data: list[Dialogue] = dialogues.dialogues(small)
    found = await recall.search(data)
    assert found.recall[5] == found.beside == found.in_parts == [1, 1, 1]
    lines = recall.search_table({"one": found, "two": found}).splitlines()
    assert [line.partition(" | ")[0] for line in lines[2:]] == ["| one", "| two", "| mean"]
    assert all("| 3 | 100.0 | 100.0 | 100.0 | 100.0 | 100.0 |" in line for line in lines[2:])
    held = [await recall.hold(name, data, found, price=0.1) for name in sorted(STRATEGIES)]
    assert all(share == 1 for one in held for share in one.in_reach)
    assert recall.strategy_table(held).count("\n") == len(STRATEGIES) + 1


async def test_long_searches_are_measured_by_file_and_in_all(small: Path, other: Path) -> None:
    """Measure a short conversation, which is said again until it is long enough; turns are not
    cut."""
    (line,) = (await recall.measure_joined([small], lambda line: 1, 20)).splitlines()[2:]
    name, messages, _, questions, middle, high, indexing = line.strip("| ").split(" | ")
    assert (name, messages, questions) == ("small", "19", "3")
    assert 0 < float(middle) <= float(high)
    assert float(indexing) > 0
    table = await recall.measure_joined([small, other], recall.count_tokens, 10)
    names = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    assert names == ["| small", "| other", "| together"]


async def test_weights_are_tried_on_a_set(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await recall.try_weights([small], tried=3)
    told = capsys.readouterr().out
    assert "| as they are | 100.0 | 100.0 |" in told
    assert "| the best of 4 on all | 100.0 | 100.0 |" in told
