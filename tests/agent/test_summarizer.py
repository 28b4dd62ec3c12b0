"""Summaries by the model: in pieces, by a schema, and in words for a model without schemas."""

from __future__ import annotations

import asyncio
import json
from typing import get_args

import pytest
from msgspec.structs import replace

from agent.models.base import ContextOverflow, Finish, ModelRefused, ModelReply, ModelRequest, Usage
from agent.summarizer import ModelSummarizer
from memory.context.continued import RequestBeginning
from memory.context.summary import SummaryRequest, behind
from memory.context.summary_fields import SCHEMA
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.messages import NOTHING_BESIDE, ToolCall
from tests.fakes.scripted_model import ScriptedModel
from tests.fakes.work_models import OneModel

KEY = ConversationKey("pipe/main", "pipe-main")


def summarizer(
    model: ScriptedModel, window: int = 8_000, *, answers: bool = False
) -> ModelSummarizer:
    """A summariser for which each word is one token."""
    work = OneModel(model, window, answers)
    return ModelSummarizer(work, work, lambda text, name: len(text.split()))


async def test_a_schema_reaches_the_model() -> None:
    model = ScriptedModel(['{"task_overview": "x"}'])
    request = SummaryRequest("Compress.", ("They talked.",), 100, KEY, SCHEMA)
    result = await summarizer(model).summarize(request)
    assert result.text == '{"task_overview": "x"}'
    assert model.requests[0].schema == SCHEMA
    assert model.requests[0].max_tokens == 100


async def test_a_model_that_refuses_schemas_is_asked_in_words_from_then_on() -> None:
    model = ScriptedModel([ModelRefused("no response_format here"), "{}", "{}"])
    asked = summarizer(model)
    request = SummaryRequest("Compress.", ("They talked.",), 100, KEY, SCHEMA)
    assert (await asked.summarize(request)).text == "{}"
    assert (await asked.summarize(request)).text == "{}"
    assert [sent.schema is None for sent in model.requests] == [False, True, True]
    assert json.dumps(SCHEMA) in str(model.requests[1].messages[0]["content"])


async def test_a_model_that_refuses_everything_gives_no_summary_and_is_tried_again() -> None:
    model = ScriptedModel([ModelRefused("no"), ModelRefused("no"), '{"a": "b"}'])
    asked = summarizer(model)
    request = SummaryRequest("Compress.", ("They talked.",), 100, KEY, SCHEMA)
    assert (await asked.summarize(request)).text == ""
    assert (await asked.summarize(request)).text == '{"a": "b"}'
    assert model.requests[-1].schema == SCHEMA


UNFINISHED = [finish for finish in get_args(Finish) if finish != "complete"]


def unfinished(finish: Finish) -> ModelReply:
    return ModelReply("They talked about", (), finish, "scripted", Usage(2_000, 10, cached=1_900))


@pytest.mark.parametrize("finish", UNFINISHED)
async def test_how_an_answer_ended_is_handed_over(finish: Finish) -> None:
    model = ScriptedModel(lambda _request: unfinished(finish))
    request = SummaryRequest("Sum up.", ("They talked.",), 100, KEY)
    assert (await summarizer(model).summarize(request)).finish == finish


async def test_a_model_that_is_known_to_be_too_small_is_not_asked() -> None:
    model = ScriptedModel([], name="SmolLM2-135M-Instruct")
    request = SummaryRequest("Sum up.", ("They talked.",), 100, KEY, least_parameters=1.0)
    assert (await summarizer(model).summarize(request)).finish == "small"
    assert not model.requests


async def test_text_beyond_the_window_is_taken_in_pieces() -> None:
    def answer(request: ModelRequest) -> str:
        return f"part {len(model.requests)}"

    model = ScriptedModel(answer)
    spent: list[Spent] = []
    result = await summarizer(model, window=1_000).summarize(
        SummaryRequest("Sum up.", ("line\n" * 3_000,), 100, KEY, on_spent=spent.append)
    )
    assert len(model.requests) > 3
    assert result.text == f"part {len(model.requests)}"
    assert "part 1" in str(model.requests[1].messages[1]["content"])
    assert len(spent) == len(model.requests)


async def test_what_is_new_is_what_every_piece_says_of_itself() -> None:
    def answer(request: ModelRequest) -> str:
        number = len(model.requests)
        return f"All until {number}.\n\n**=== Diary ===**\nNew in {number}."

    model = ScriptedModel(answer)
    request = SummaryRequest("Sum up.", ("line\n" * 1_500,), 100, KEY, prior="All until 0.")
    result = await summarizer(model, window=1_000).summarize(request)
    pieces = len(model.requests)
    assert pieces > 1
    assert result.text == f"All until {pieces}."
    assert result.diary == "\n\n".join(f"New in {number}." for number in range(1, pieces + 1))
    assert "Diary" not in str(model.requests[1].messages[1]["content"])


async def test_where_one_piece_does_not_say_it_nothing_is_said_of_any() -> None:
    model = ScriptedModel(["One.\n=== Diary ===\nNew.", "Two."])
    request = SummaryRequest("Sum up.", ("line\n" * 1_500,), 100, KEY, prior="All until 0.")
    result = await summarizer(model, window=1_000).summarize(request)
    assert (result.text, result.diary) == ("Two.", "")


async def test_a_first_summary_is_as_the_model_wrote_it() -> None:
    text = "They chose a name:\n=== Diary ===\nand kept it."
    model = ScriptedModel([text])
    request = SummaryRequest("Sum up.", ("They talked.",), 100, KEY)
    assert (await summarizer(model).summarize(request)).text == text


def turns(count: int) -> tuple[str, ...]:
    """Parts of a hundred tokens each."""
    return tuple(f"turn{number} " + "word " * 99 for number in range(count))


def refusing(window: int, named: int = 0) -> ScriptedModel:
    """A model that accepts at most this many words, and names a window when it refuses more."""

    def answer(request: ModelRequest) -> str | ContextOverflow:
        words = len(str(request.messages[1]["content"]).split())
        return ContextOverflow("too long", named) if words > window else "Summed up."

    return ScriptedModel(answer)


def asked(model: ScriptedModel) -> list[str]:
    return [str(request.messages[1]["content"]) for request in model.requests]


async def test_what_the_window_holds_is_one_call() -> None:
    model = ScriptedModel(["Summed up."])
    await summarizer(model, window=8_000).summarize(SummaryRequest("Sum up.", turns(70), 100, KEY))
    assert "turn0" in asked(model)[0]
    assert "turn69" in asked(model)[0]


async def test_pieces_are_whole_turns() -> None:
    model = ScriptedModel(lambda request: "Summed up.")
    await summarizer(model, window=1_000).summarize(
        SummaryRequest("Sum up.", turns(20), 100, KEY, prior="Before.")
    )
    assert "Before." in asked(model)[0]
    assert sum(text.count("turn") for text in asked(model)) == 20
    assert all(text.count(" ") < 900 for text in asked(model))
    assert all(text.count("word") % 99 == 0 for text in asked(model))


async def test_a_smaller_window_that_the_model_names_makes_smaller_pieces() -> None:
    model = refusing(1_000, named=1_000)
    result = await summarizer(model).summarize(SummaryRequest("Sum up.", turns(30), 100, KEY))
    assert result.text == "Summed up."
    assert not result.left_out
    assert "turn0 " in asked(model)[1]
    assert "turn29 " in asked(model)[-1]


async def test_where_no_smaller_window_is_named_the_oldest_is_left_out() -> None:
    model = refusing(2_700)
    result = await summarizer(model).summarize(SummaryRequest("Sum up.", turns(30), 100, KEY))
    assert result.text == "Summed up."
    assert result.left_out == {0, 1, 2, 3}
    assert [text.split()[0] for text in asked(model)] == ["turn0", "turn1", "turn2", "turn4"]


async def test_a_model_that_takes_nothing_is_not_asked_for_ever() -> None:
    model = refusing(1)
    spent: list[Spent] = []
    request = SummaryRequest("Sum up.", turns(60), 100, KEY, on_spent=spent.append)
    assert (await summarizer(model).summarize(request)).text == ""
    assert not spent
    assert len(model.requests) == 7


# --- in the conversation ---

SAID = ({"role": "system", "content": "You are a bot."}, {"role": "user", "content": "Hi"})
BEGINNING = RequestBeginning(SAID, (), NOTHING_BESIDE, "", 2_000)
NAMED = "gpt-4.1-mini"
"""A model whose cached tokens cost a quarter."""
LONG = SummaryRequest("Sum up.", turns(30), 100, KEY, beginning=BEGINNING)


class Keeper(ScriptedModel):
    """A model whose provider may have cached what it has read."""

    @property
    def caches_by_itself(self) -> bool:
        return True


def in_conversation(model: ScriptedModel) -> ModelSummarizer:
    return summarizer(model, answers=True)


def behind_it(model: ScriptedModel) -> list[bool]:
    return [request.messages[0] == SAID[0] for request in model.requests]


async def test_two_that_miss_at_once_are_two_misses() -> None:
    both = asyncio.Barrier(2)

    async def answer(request: ModelRequest) -> str:
        if len(model.requests) in (3, 4):
            await both.wait()
        return "Summed up."

    model = Keeper(answer, name=NAMED)
    asked = in_conversation(model)
    await asked.summarize(LONG)
    await asked.summarize(LONG)
    await asyncio.gather(asked.summarize(LONG), asked.summarize(LONG))
    await asked.summarize(LONG)
    assert behind_it(model) == [True, True, True, True, False]


@pytest.mark.parametrize("vain", [(ToolCall("c1", "look", "{}"),), ModelRefused("no")])
async def test_one_that_never_gives_a_summary_there_is_asked_apart_from_then_on(
    vain: tuple[ToolCall, ...] | ModelRefused,
) -> None:
    def answer(request: ModelRequest) -> str | tuple[ToolCall, ...] | ModelRefused:
        return vain if request.messages[0] == SAID[0] else "Summed up."

    model = Keeper(answer, name=NAMED, usage=lambda request, text: Usage(2_000, 10, cached=1_900))
    asked = in_conversation(model)
    for _ in range(4):
        assert (await asked.summarize(LONG)).text == "Summed up."
    assert behind_it(model) == [True, False, True, False, True, False, False]


@pytest.mark.parametrize("finish", UNFINISHED)
async def test_where_an_answer_there_did_not_end_by_itself_it_is_asked_for_apart(
    finish: Finish,
) -> None:
    model = Keeper([unfinished(finish), "Summed up."], name=NAMED)
    assert (await in_conversation(model).summarize(LONG)).text == "Summed up."
    assert behind_it(model) == [True, False]


async def test_where_nothing_is_reported_the_beginning_is_booked_whole() -> None:
    model = Keeper(["Summed up."], name=NAMED, usage=lambda request, text: None)
    spent: list[Spent] = []
    await in_conversation(model).summarize(replace(LONG, on_spent=spent.append))
    task = len(behind("Sum up.").split())
    assert [(one.prompt, one.is_reported) for one in spent] == [(2_000 + task, False)]
