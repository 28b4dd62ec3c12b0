"""Summaries by the model: in pieces, in a schema, and in words where a model knows no schemas."""

from __future__ import annotations

import json

from agent.models.base import ContextOverflow, ModelRefused, ModelRequest
from agent.summarizer import ModelSummarizer
from memory.context.summary import SummaryRequest
from memory.context.summary_fields import SCHEMA
from memory.keys import ConversationKey
from memory.record.ledger import Spent
from tests.fakes.scripted_model import ScriptedModel

KEY = ConversationKey("pipe/main", "pipe-main")


def summarizer(model: ScriptedModel, window: int = 8_000) -> ModelSummarizer:
    """A summariser for which a word is a token."""
    return ModelSummarizer(
        lambda key: model, lambda key: window, lambda text, name: len(text.split())
    )


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
    """A model that takes so many words at most, and names a window where it refuses more."""

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
