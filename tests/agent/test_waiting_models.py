"""Nothing that no turn waits for is held by a model that waits: a Retry-After of two hours is told
and not slept, and silence has an end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent.models import patience
from agent.models.base import ModelUnreachable
from agent.models.served import EndpointModel
from agent.models.wire import LONGEST_WAIT
from agent.summarizer import ModelSummarizer
from memory.context.summary import SummaryRequest
from memory.keys import ConversationKey
from tests.agent.endpoints import CHAT, ask
from tests.fakes.openai_server import Answer, Fail, Hang

LATER = Fail(429, {"message": "slow down"}, {"Retry-After": "7200"})
KEY = ConversationKey("pipe/main", "pipe-main")
SUMMARY = SummaryRequest("Sum up.", ("They talked.",), 100, KEY)


@asynccontextmanager
async def asked_for(answer: Answer) -> AsyncIterator[tuple[Any, EndpointModel]]:
    """A server that answers so to whatever it is asked, and a model in front of it that tries twice
    again."""
    async with CHAT.server(lambda request: answer) as server:
        model = CHAT.at(server.base_url, max_retries=2)
        yield server, model
        await model.close()


def summarizer(model: EndpointModel) -> ModelSummarizer:
    return ModelSummarizer(lambda key: model, lambda key: 8_000, lambda text, name: len(text))


async def test_a_wait_of_hours_is_not_slept_by_what_no_turn_waits_for() -> None:
    async with asked_for(LATER) as (server, model):
        assert (await summarizer(model).summarize(SUMMARY)).text == ""
        with pytest.raises(ModelUnreachable) as told:
            await ask(model)
        assert (told.value.retry_after, len(server.requests)) == (7_200, 2)


async def test_silence_ends_what_no_turn_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LONGEST_WORK", 0.05)
    async with asked_for(Hang()) as (_, model):
        assert (await summarizer(model).summarize(SUMMARY)).text == ""


def test_a_request_waits_for_less_than_twenty_seconds_by_itself() -> None:
    assert 2 * LONGEST_WAIT <= 20
