"""Summaries by the model: in pieces, in a schema, and in words where a model knows no schemas."""

from __future__ import annotations

import json

from agent.models.base import ModelRefused, ModelRequest
from agent.models.scripted import ScriptedModel
from agent.summarizer import ModelSummarizer
from memory.context.summary import SummaryRequest
from memory.context.summary_fields import SCHEMA
from memory.keys import ConversationKey

KEY = ConversationKey("pipe/main", "pipe-main")


def summarizer(model: ScriptedModel, window: int = 8_000) -> ModelSummarizer:
    return ModelSummarizer(lambda key: model, lambda key: window)


async def test_a_schema_reaches_the_model() -> None:
    model = ScriptedModel(['{"task_overview": "x"}'])
    request = SummaryRequest("Compress.", "They talked.", 100, KEY, SCHEMA)
    result = await summarizer(model).summarize(request)
    assert result.text == '{"task_overview": "x"}'
    assert model.requests[0].schema == SCHEMA
    assert model.requests[0].max_tokens == 100


async def test_a_model_that_refuses_schemas_is_asked_in_words_from_then_on() -> None:
    model = ScriptedModel([ModelRefused("no response_format here"), "{}", "{}"])
    asked = summarizer(model)
    request = SummaryRequest("Compress.", "They talked.", 100, KEY, SCHEMA)
    assert (await asked.summarize(request)).text == "{}"
    assert (await asked.summarize(request)).text == "{}"
    assert [sent.schema is None for sent in model.requests] == [False, True, True]
    assert json.dumps(SCHEMA) in str(model.requests[1].messages[0]["content"])


async def test_a_model_that_refuses_everything_gives_no_summary_and_is_tried_again() -> None:
    model = ScriptedModel([ModelRefused("no"), ModelRefused("no"), '{"a": "b"}'])
    asked = summarizer(model)
    request = SummaryRequest("Compress.", "They talked.", 100, KEY, SCHEMA)
    assert (await asked.summarize(request)).text == ""
    assert (await asked.summarize(request)).text == '{"a": "b"}'
    assert model.requests[-1].schema == SCHEMA


async def test_text_beyond_the_window_is_taken_in_pieces() -> None:
    def answer(request: ModelRequest) -> str:
        return f"part {len(model.requests)}"

    model = ScriptedModel(answer)
    result = await summarizer(model, window=1_000).summarize(
        SummaryRequest("Sum up.", "line\n" * 2_000, 100, KEY)
    )
    assert len(model.requests) > 3
    assert result.text == f"part {len(model.requests)}"
    assert "part 1" in str(model.requests[1].messages[1]["content"])
    assert len(result.spent) == len(model.requests)
