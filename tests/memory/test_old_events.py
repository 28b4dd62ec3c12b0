"""Tests of conversations that Parley 0.3.0 wrote before events gave forms to turns.

The 80 histories are random: every command, strategy, branch, emergency and restart. Each has its
rows, digests of all requests that would have been sent, and the results of two undos and two redos.
They are a sample of 5,000 that were compared when the events were converted
(`docs/decisions/0029`).
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from memory.context.view import View
from memory.keys import ConversationKey
from memory.record.engines.sqlite import connect
from memory.record.migrations import migrate
from tests.memory.harness import FRAME, MemoryHarness

SCHEMA = 47  # the last one before that


def histories() -> Iterator[Any]:
    with gzip.open(Path(__file__).parent / "old_histories.jsonl.gz") as file:
        for line in file:
            history = orjson.loads(line)
            yield pytest.param(history, id=str(history["seed"]))


def write(path: Path, rows: dict[str, Any]) -> None:
    """Write a database as the old version left it."""
    with closing(connect(path)) as database:
        migrate(database, SCHEMA)
        for table, (columns, *found) in rows.items():
            names = ", ".join(f'"{name}"' for name in columns)
            marks = ", ".join("?" * len(columns))
            for row in found:
                database.execute_sql(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', row)


def digest(view: View) -> str:
    return hashlib.sha256(orjson.dumps(view.to_wire(FRAME))).hexdigest()[:16]


@pytest.mark.parametrize("history", [*histories()])
async def test_what_was_sent_before_the_upgrade_is_sent_after_it(
    history: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path / "parley.db", history["rows"])
    harness = MemoryHarness(tmp_path)
    harness.limit(**history["limits"])
    await harness.open()
    try:
        keys = {name: ConversationKey(name, audience) for name, audience in history["keys"]}
        for name, expected in history["final"].items():
            state = (await harness.conversation(keys[name])).context
            assert digest(state.view()) == expected
        for name, strategy, event, seq, expected in history["renderings"]:
            state = (await harness.conversation(keys[name])).context
            past = await state.under(strategy, event, seq)
            assert digest(past.view(FRAME)) == expected
        for name, move, event, expected in history["moves"]:
            conversation = await harness.conversation(keys[name])
            moved = await getattr(conversation.editor, move)()
            assert (moved.id if moved else 0) == event
            assert digest(conversation.context.view()) == expected
    finally:
        await harness.close()


DAMAGES = [
    ("change", damage)
    for damage in (
        *("", "{", "5", "null", "[]", '{"cut":"x"}', '{"cut":3,"keep":1}', '{"stand_in":[1]}'),
        *('{"folded":[]}', '{"rolled":["a"]}', '{"drop":5}', '{"clip":{"x":[1]}}', '{"back":3}'),
    )
] + [("leaving", damage) for damage in ("", "{}", "null", '["x"]', "7")]


@pytest.mark.parametrize(("column", "damage"), DAMAGES)
async def test_a_damaged_event_costs_no_other_one_and_the_bot_starts(
    column: str, damage: str, tmp_path: Path
) -> None:
    (history,) = next(histories()).values
    columns, *events = history["rows"]["view_event"]
    for event in events[::2]:
        event[columns.index(column)] = damage
    write(tmp_path / "parley.db", history["rows"])
    harness = MemoryHarness(tmp_path)
    harness.limit(**history["limits"])
    await harness.open()
    try:
        for name, audience in history["keys"]:
            state = (await harness.conversation(ConversationKey(name, audience))).context
            assert state.view().to_wire(FRAME)
            known = {event.id for event in await state.history()}
            whole = {event[columns.index("id")] for event in events[1::2]}
            mine = columns.index("conversation")
            own = {e[columns.index("id")] for e in events if e[mine] == state.row}
            assert whole & own <= known
    finally:
        await harness.close()
