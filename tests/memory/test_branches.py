"""Branches: what they share, what is their own, and what each of them sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.conversation import Conversation
from memory.keys import ConversationKey
from tests.memory.rooms import KEY, Lodge, texts


@pytest.fixture
async def lodge(tmp_path: Path):  # type: ignore[no-untyped-def]
    lodge = Lodge(tmp_path)
    await lodge.open()
    yield lodge
    await lodge.close()


def sends(conversation: Conversation) -> list[str]:
    return texts(conversation.context.view())


async def forked(lodge: Lodge, turn: int = 0, key: ConversationKey = KEY) -> Conversation:
    return await lodge.conversation(await lodge.conversations.fork(key, turn))


async def test_a_branch_sends_what_was_said_up_to_where_it_begins_and_then_its_own(
    lodge: Lodge,
) -> None:
    for number in range(1, 4):
        await lodge.says(f"question {number}")
    branch = await forked(lodge, 2)
    await lodge.says("elsewhere", key=branch.key)
    parent = await lodge.conversation()
    assert sends(branch) == ["question 1", "Yes.", "question 2", "Yes.", "elsewhere", "Yes."]
    assert sends(parent)[-2:] == ["question 3", "Yes."]
    assert [turn.number for turn in branch.context.view().turns] == [1, 2, 3]
