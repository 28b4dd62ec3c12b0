"""The model's last word and the answer that people get are on disk together, or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory.record import mailbox
from memory.record.database import Database, StoreError
from memory.record.mailbox import OutboxRow
from tests.fakes.openai_server import Say
from tests.whole.testbot import run_bot


def carry_out(folder: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "data" / "parley.db")) as database, database:
        return database.execute(statement).fetchall()


def refuse(database: Database, inbox: int, parts: Sequence[OutboxRow]) -> list[int]:
    raise StoreError("The disk is full; free some space.")


async def test_a_last_word_whose_answer_cannot_be_stored_is_not_stored_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_bot(tmp_path, [Say("The last word."), Say("Once more.")]) as bot:
        with monkeypatch.context() as broken:
            broken.setattr(mailbox, "answer", refuse)
            told = (await bot.says("Hello")).text
        assert told.startswith("The last word.")
        assert "The disk is full; free some space." in told
        (extra,) = carry_out(tmp_path, "SELECT extra FROM message WHERE role = 'assistant'")
        assert '"mark":"failed"' in extra[0], "what had streamed is kept as what it is"
        assert (await bot.says("Again?")).text == "Once more."
        cost = (await bot.says("/context")).data or {}
        assert cost["calls"] == 2, "what was paid is on the bill"
    stored = carry_out(tmp_path, "SELECT turn, role, text FROM message ORDER BY id")
    assert [(turn, role) for turn, role, _ in stored] == [
        *((1, "user"), (1, "assistant")),
        *((2, "user"), (2, "assistant")),
    ]


async def test_what_stands_beside_the_last_word_is_in_the_persons_language(tmp_path: Path) -> None:
    settings = {"model": "gpt-4", "language": "de", "spend_limit_chat": 0.01}
    async with run_bot(tmp_path, lambda _: Say("Ja."), settings) as bot:
        said = (await bot.says("Wie viel?")).text
    assert "Bei 100 % höre ich auf." in said
