"""The strategy `structured`: its trigger, the turns that it keeps, and its summary in five
fields."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.context import summary
from memory.context.meter import PrefixTokens
from memory.context.settings import Limits
from memory.context.strategies.split import plan_structured
from memory.context.summary_fields import SCHEMA, split_answer, with_diary
from memory.context.view import View
from memory.messages import Message, ToolCall
from memory.turns import Entry, Turn
from tests.memory.harness import FRAME, MemoryHarness
from tests.memory.test_slim import sent

FIELDS = {
    "task_overview": "Build a shed.",
    "current_state": "The floor is laid.",
    "important_discoveries": "Oak is too dear.",
    "next_steps": "Walls.",
    "context_to_preserve": "The person is called Ann.",
}
LONG = "word " * 90
NOW = datetime.fromtimestamp(0, UTC)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MemoryHarness]:
    harness = MemoryHarness(
        tmp_path, Limits().but(strategy="structured", window=10_000, output_reserved=100)
    )
    harness.summarizer.answer = lambda request: json.dumps(FIELDS)
    await harness.open()
    yield harness
    await harness.close()


async def until(harness: MemoryHarness, is_enough: Callable[[View], bool]) -> View:
    """Record turns of 110 tokens until a request meets the condition."""
    while not is_enough(view := (await harness.says(LONG))[-1]):
        pass
    return view


async def cut(harness: MemoryHarness) -> View:
    """Record turns until the first compaction; return the request that followed it."""
    conversation = await harness.conversation()
    return await until(harness, lambda view: conversation.context.layout.front is not None)


async def test_it_fires_at_the_trigger_and_keeps_the_reserve(harness: MemoryHarness) -> None:
    view = await cut(harness)
    (event,) = await (await harness.conversation()).context.history()
    assert 8_000 <= event.tokens_before < 8_200
    kept = sum(entry.tokens for turn in view.turns for entry in turn.entries)
    assert 900 <= kept <= 1_000
    assert event.reason.endswith("at or over 0.8 of the window of 10,000")


async def test_in_a_small_window_it_fires_before_the_emergency_does(harness: MemoryHarness) -> None:
    harness.limit(output_reserved=4_096)
    await cut(harness)
    (event,) = await (await harness.conversation()).context.history()
    assert event.actor == "strategy"
    assert 8_000 > event.tokens_before >= harness.limits.ceiling == 7_500
    assert "7,500" in event.reason, "the ceiling, and not the trigger"
    assert "0.8 of the window" not in event.reason


async def test_where_all_fits_the_reserve_the_reserve_is_lowered_and_it_compacts(
    harness: MemoryHarness,
) -> None:
    harness.limit(window=4_000, output_reserved=200, reserve_ratio=0.5)
    await cut(harness)
    (event,) = await (await harness.conversation()).context.history()
    assert event.actor == "strategy"


async def test_where_the_template_shows_nothing_of_the_answer_its_fields_are_named(
    harness: MemoryHarness,
) -> None:
    harness.limit(summary_template="The task: {task_overview}")
    harness.summarizer.answer = lambda request: '{"next_steps": "Count on."}'
    shown = sent(await cut(harness))[1]["content"]
    assert "Count on." in shown


async def test_the_summary_is_asked_for_in_five_fields_and_stands_after_the_prompt(
    harness: MemoryHarness,
) -> None:
    wire = sent(view := await cut(harness))
    assert view.preface is not None, "in the very request of the cut"
    request = harness.summarizer.requests[-1]
    assert request.schema is not None
    assert list(request.schema["properties"]) == list(FIELDS)
    assert [message["role"] for message in wire[:2]] == ["system", "system"]
    assert "# Task overview\nBuild a shed." in wire[1]["content"]
    assert "# Context to preserve\nThe person is called Ann." in wire[1]["content"]


async def test_it_fires_in_mid_turn_and_keeps_all_of_the_running_turn(
    harness: MemoryHarness,
) -> None:
    for _ in range(10):
        await harness.says(LONG)
    conversation = await harness.conversation()
    turn = await conversation.turns.open("the question")
    for number in range(8):
        call = ToolCall(f"c{number}", "look", "{}")
        await turn.record(Message("assistant", "", (call,)))
        await turn.record(Message("tool", "word " * 1_000, call_id=call.id, tool="look"))
        view = await turn.fit(FRAME)
    assert [t.number for t in view.turns] == [11]
    assert len(view.turns[0].entries) == 17
    assert (await conversation.context.history())[-1].leaving == tuple(range(1, 11))


@pytest.mark.parametrize("answer", ["not JSON at all", "So {that} is that."])
async def test_an_answer_in_other_words_than_json_stands_as_it_is(
    harness: MemoryHarness, answer: str
) -> None:
    harness.summarizer.answer = lambda request: answer
    wire = sent(await cut(harness))
    assert answer in wire[1]["content"]


@pytest.mark.parametrize(
    "answer",
    [
        "{}",
        "{" * 5_000,
        '```json\n{"task_overview": "Bui',
        '{"task_overview": null, "next_steps": [], "current_state": [" "]}',
    ],
    ids=lambda text: text[:10],
)
async def test_for_an_answer_that_says_nothing_what_was_said_serves(
    harness: MemoryHarness, answer: str
) -> None:
    harness.summarizer.answer = lambda request: answer
    wire = sent(await cut(harness))
    assert "- t1: word word" in wire[1]["content"]
    assert answer[:10] not in wire[1]["content"]


async def test_json_in_a_code_fence_is_read(harness: MemoryHarness) -> None:
    harness.summarizer.answer = lambda request: f"Sure!\n```json\n{json.dumps(FIELDS)}\n```"
    assert "# Next steps\nWalls." in sent(await cut(harness))[1]["content"]


async def test_prompt_template_and_schema_can_be_set(harness: MemoryHarness) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"gist": {"type": "string"}}}
    harness.limit(
        compression_prompt="Say it in one word.",
        summary_template="GIST {gist} {not a field}",
        summary_schema=json.dumps(schema),
    )
    harness.summarizer.answer = lambda request: '{"gist": "shed"}'
    wire = sent(await cut(harness))
    request = harness.summarizer.requests[-1]
    assert request.task == "Say it in one word."
    assert request.schema == schema
    assert "GIST shed {not a field}" in wire[1]["content"]


def test_a_schema_without_a_template_shows_its_fields_by_name() -> None:
    shown = summary.check_answer("structured", '{"gist": ["a", "b"], "n": 3}', Limits())
    assert shown == "# gist\n- a\n- b\n\n# n\n3"


async def test_compress_context_takes_a_one_off_config(harness: MemoryHarness) -> None:
    """The document's own figures: trigger_ratio 0.5, reserve_ratio 0.1."""
    await until(harness, lambda view: view.tokens > 5_000)
    conversation = await harness.conversation()
    assert await conversation.compactor.compress_context() is None, "below the threshold"
    done = await conversation.compactor.compress_context(trigger_ratio=0.5, reserve_ratio=0.1)
    assert done is not None
    event = done.event
    assert event is not None
    assert event.tokens_after < 1_200
    await until(harness, lambda view: view.tokens > 5_200)
    assert (await conversation.context.history())[-1] == event, "the stored settings hold again"


async def test_what_is_said_while_its_summary_is_written_overtakes_nothing(
    harness: MemoryHarness,
) -> None:
    """It was planned again, with other turns in the reserve; the summary was discarded."""
    await until(harness, lambda view: view.tokens > 5_000)
    conversation = await harness.conversation()
    asked = asyncio.Event()

    class Gate(asyncio.Event):
        async def wait(self) -> Literal[True]:
            asked.set()
            return await super().wait()

    harness.summarizer.gate = Gate()
    compressing = asyncio.create_task(
        conversation.compactor.compress_context(trigger_ratio=0.5, reserve_ratio=0.1)
    )
    await asked.wait()
    await harness.says(LONG)
    harness.summarizer.gate.set()
    done = await compressing
    assert done is not None
    assert done.event is not None
    assert not done.is_overtaken
    assert conversation.context.newest in {t.number for t in conversation.context.view().turns}


async def test_a_second_compression_continues_the_first(harness: MemoryHarness) -> None:
    await cut(harness)
    conversation = await harness.conversation()
    first = conversation.context.layout.front
    await until(harness, lambda view: conversation.context.layout.front != first)
    assert "Build a shed." in harness.summarizer.requests[-1].text


def test_a_summary_that_continues_another_has_a_field_for_what_is_new() -> None:
    schema = with_diary(SCHEMA)
    (diary,) = set(schema["properties"]) - set(SCHEMA["properties"])
    assert diary in schema["required"]
    answer = json.dumps({"task_overview": "All of it.", diary: ["t5 came.", "t6 came."]})
    assert split_answer(f"Here it is:\n{answer}") == (
        '{"task_overview": "All of it."}',
        "- t5 came.\n- t6 came.",
    )
    assert split_answer('{"task_overview": "All of it."}') is None
    own = {"type": "object", "properties": {diary: {"type": "string"}}}
    assert with_diary(own) == own, "a field of the person's own is theirs"


def test_what_a_field_says_is_no_template() -> None:
    said = {"task_overview": "Fill in {next_steps} and {task_overview}.", "next_steps": "Rest."}
    shown = summary.check_answer("structured", json.dumps(said), Limits())
    assert "Fill in {next_steps} and {task_overview}." in shown
    assert shown.count("Rest.") == 1


def test_fields_that_name_one_another_do_not_multiply() -> None:
    """Ten fields in a row, each with the next one twenty times, were expanded to 20 ** 10 words
    before."""
    names = [f"f{n}" for n in range(10)]
    said = {name: f"{{{other}}} " * 20 for name, other in itertools.pairwise(names)}
    template = "".join(f"{{{name}}}" for name in names)
    shown = summary.check_answer(
        "structured", json.dumps(said), Limits().but(summary_template=template)
    )
    assert len(shown) < 2 * len(json.dumps(said))


def test_a_field_that_a_template_names_often_is_bounded() -> None:
    template, said = "{a}" * 3_000, json.dumps({"a": "x" * 20_000})
    assert (
        len(summary.check_answer("structured", said, Limits().but(summary_template=template)))
        <= 100_000
    )


def test_fields_that_are_nested_deeply_are_no_error() -> None:
    depth = 900
    answer = '{"a": ' + "[" * depth + "]" * depth + "}"
    assert "[" not in summary.check_answer("structured", answer, Limits())


SHAPES = st.lists(
    st.tuples(st.integers(1, 400), st.lists(st.integers(0, 400), max_size=4), st.integers(1, 400)),
    min_size=1,
    max_size=12,
)


def talked(shapes: list[tuple[int, list[int], int]]) -> View:
    """Record turns, each with one step of parallel calls whose results have these sizes; the last
    one runs."""
    turns, seq = [], itertools.count(1)
    for number, (asked, results, replied) in enumerate(shapes, 1):
        calls = tuple(ToolCall(f"c{place}", "look", "{}") for place in range(len(results)))
        said = [(Message("user"), asked)]
        said += [(Message("assistant", tool_calls=calls), 5)] if calls else []
        said += [
            (Message("tool", call_id=c.id), size) for c, size in zip(calls, results, strict=True)
        ]
        said += [(Message("assistant"), replied)] if number < len(shapes) else []
        entries = [Entry(next(seq), number, message, size, NOW) for message, size in said]
        turns.append(Turn(number, tuple(entries)))
    whole = tuple(turns)
    return View(whole, whole, PrefixTokens(100, 100), current=len(whole), newest=len(whole))


@given(SHAPES, st.floats(0.01, 0.5))
def test_what_it_keeps_is_within_the_reserve_and_whole(
    shapes: list[tuple[int, list[int], int]], reserve: float
) -> None:
    view, limits = (
        talked(shapes),
        Limits().but(window=2_000, output_reserved=0, reserve_ratio=reserve),
    )
    planned = plan_structured(view, limits)
    if planned is None:
        running = sum(entry.tokens for entry in view.turns[-1].entries)
        assert view.tokens < 1_600 or not view.complete or 200 + running >= 1_600
        return
    after = view.apply(planned.change)
    assert after.turns[-1] == view.turns[-1], "the running turn"
    size = sum(entry.tokens for turn in after.turns for entry in turn.entries)
    assert size <= reserve * 2_000 or len(after.turns) == 1
    called = {c.id for t in after.turns for e in t.entries for c in e.message.tool_calls}
    held = [e.message.call_id for t in after.turns for e in t.entries if e.message.role == "tool"]
    assert called.issuperset(held)
    assert after.tokens < 1_600 or len(after.turns) == 1
