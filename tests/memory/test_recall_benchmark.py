"""The recall benchmark, over a small conversation of our own."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import recall
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


def dialogues(tmp_path: Path) -> list[recall.Dialogue]:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(DATA))
    return recall.dialogues(path)


def test_the_data_is_read_as_turns_with_questions_that_have_evidence(tmp_path: Path) -> None:
    (dialogue,) = dialogues(tmp_path)
    ids = [[line.id for line in turn] for turn in dialogue.turns]
    assert ids == [["D1:1"], ["D1:2", "D1:3"], ["D1:4", "D2:1", "D2:2"]]
    assert [sorted(q.evidence) for q in dialogue.questions] == [
        ["D1:2"],
        ["D2:2"],
        ["D1:2", "D1:4"],
    ]


async def test_all_of_a_short_talk_is_found_again_and_under_every_strategy(tmp_path: Path) -> None:
    data = dialogues(tmp_path)
    found = await recall.searched(data)
    assert found.recall[5] == [1, 1, 1]
    assert "| 3 | 100.0 | 100.0 | 100.0 | 100.0 |" in recall.search_table(found)
    held = [await recall.held(name, data, found, price=0.1) for name in sorted(STRATEGIES)]
    assert all(share == 1 for one in held for share in one.in_reach)
    assert recall.strategy_table(held).count("\n") == len(STRATEGIES) + 1
