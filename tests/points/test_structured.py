"""Point 8: `structured`, as AgentScope's document has it, and what it does with a bad summary."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.settings.schema import SettingError
from tests.fakes.openai_server import Answer, Fail, Received, Say, openai_overflow
from tests.points.scene import (
    answering,
    content,
    daily,
    events,
    has_results,
    last_asked,
    looks,
    put_file,
    steps,
    summaries,
    talk,
    whole,
)
from tests.whole.testbot import run_bot

FIELDS = {
    "task_overview": "Count the lockers.",
    "current_state": "Three are counted.",
    "important_discoveries": "One is empty.",
    "next_steps": "Count on.",
    "context_to_preserve": "The person is called Ann.",
}
LINES = "".join(f"line {n} of the file that is read\n" for n in range(45))


def structured(**settings: Any) -> dict[str, Any]:
    chosen = {"strategy": "structured", "max_tokens": 10_000, "output_reserved": 500}
    return {"context": chosen | settings}


def fine(request: Received) -> Answer:
    del request
    return Say("Fine.")


def told(number: int) -> str:
    """Some 430 tokens with a fact in front."""
    return f"The key is in locker{number:02d}. " + "word " * 420


# --- what stays ---


async def test_it_keeps_no_more_than_is_reserved_also_of_results_of_one_step(
    tmp_path: Path,
) -> None:
    def reply(request: Received) -> Answer:
        if last_asked(request).startswith("many") and not has_results(request):
            return looks(request, "long.txt", times=18)
        return Say("Fine.")

    put_file(tmp_path, "long.txt", LINES)
    async with run_bot(tmp_path, answering(reply, json.dumps(FIELDS)), structured()) as bot:
        await talk(bot, "hello", "many files, please", "word " * 400)
        done = [e["actor"] for e in await events(bot) if e["kind"] == "compact"]
        sent = steps(bot)[-1]
    kept = [content(m) for m in sent if m["role"] in ("user", "assistant", "tool")][:-1]
    assert "strategy" in done
    assert sum(len(text) for text in kept) // 4 <= 1_000


async def test_where_all_fits_the_reserve_the_reserve_is_lowered_and_it_compacts(
    tmp_path: Path,
) -> None:
    settings = structured(max_tokens=4_000, output_reserved=200, reserve_ratio=0.5)
    async with run_bot(tmp_path, answering(fine, json.dumps(FIELDS)), settings) as bot:
        for number in range(20):
            await talk(bot, f"{number} " + "word " * 120)
            done = [event for event in await events(bot) if event["kind"] == "compact"]
            if done:
                break
    assert done
    assert done[0]["actor"] == "strategy"


# --- when it fires, and why ---


async def test_where_the_ceiling_is_lower_than_the_trigger_the_reason_names_the_ceiling(
    tmp_path: Path,
) -> None:
    settings = structured(output_reserved=4_096)
    async with run_bot(tmp_path, answering(fine, json.dumps(FIELDS)), settings) as bot:
        await talk(bot, *(told(number) for number in range(1, 14)))
        event = next(event for event in await events(bot) if event["kind"] == "compact")
    assert event["tokens_before"] < 8_000, "it fired at 7,500, which is the ceiling"
    assert "0.8 of the window" not in event["reason"]
    assert "7,500" in event["reason"]


async def test_where_the_trigger_is_lower_the_reason_names_the_trigger(tmp_path: Path) -> None:
    async with run_bot(tmp_path, answering(fine, json.dumps(FIELDS)), structured()) as bot:
        await talk(bot, *(told(number) for number in range(1, 16)))
        event = next(event for event in await events(bot) if event["kind"] == "compact")
    assert 8_000 <= event["tokens_before"] < 9_000
    assert "0.8 of the window" in event["reason"]


# --- a summary that is none ---


async def after_a_cut(
    tmp_path: Path, summary: Callable[[Received], Answer] | str, **settings: Any
) -> str:
    """All that the model receives in a request after turns have left."""
    async with run_bot(tmp_path, answering(fine, summary), structured(**settings)) as bot:
        await talk(bot, *(told(number) + "word " * 600 for number in range(1, 8)))
        assert [event["kind"] for event in await events(bot)] == ["compact"]
        return whole(steps(bot)[-1])


@pytest.mark.parametrize(
    "summary",
    [
        "{}",
        json.dumps(dict.fromkeys(FIELDS, "")),
        json.dumps(dict.fromkeys(FIELDS, "  ")),
        json.dumps(FIELDS)[:40],
        '{"task_overview": "Count the',
    ],
    ids=["no fields", "empty fields", "blank fields", "cut off", "cut off in a field"],
)
async def test_a_summary_that_says_nothing_is_replaced_by_what_was_said(
    tmp_path: Path, summary: str
) -> None:
    sent = await after_a_cut(tmp_path, summary)
    assert "locker01" in sent
    assert '{"task_overview' not in sent


async def test_where_the_template_shows_nothing_of_the_answer_what_was_said_serves(
    tmp_path: Path,
) -> None:
    answer = json.dumps({"next_steps": "Count on."})
    sent = await after_a_cut(tmp_path, answer, summary_template="The task: {task_overview}")
    assert "locker01" in sent or "Count on." in sent


BAD_TEMPLATES = ["A summary was made.", "{task_overveiw}", "{task_overview} and {nothing}"]


@pytest.mark.parametrize("template", BAD_TEMPLATES)
async def test_config_refuses_a_template_without_fields_or_with_a_typo(
    tmp_path: Path, template: str
) -> None:
    async with run_bot(tmp_path, answering(fine), structured()) as bot:
        before = (await bot.says("/config context.summary_template")).text
        await bot.says(f"/config context.summary_template {template}")
        after = (await bot.says("/config context.summary_template")).text
    assert after == before


@pytest.mark.parametrize("template", BAD_TEMPLATES)
async def test_the_file_of_settings_is_refused_with_a_template_that_shows_nothing(
    tmp_path: Path, template: str
) -> None:
    is_refused = False
    try:
        async with run_bot(tmp_path, answering(fine), structured(summary_template=template)):
            pass
    except SettingError:
        is_refused = True
    assert is_refused


async def test_a_field_in_braces_inside_a_value_is_text(tmp_path: Path) -> None:
    answer = FIELDS | {"task_overview": "Fill {next_steps} into the form."}
    sent = await after_a_cut(tmp_path, json.dumps(answer))
    assert "Fill {next_steps} into the form." in sent


# --- a call that fails ---


async def test_a_server_error_on_the_schema_is_tried_once_in_plain_words(tmp_path: Path) -> None:
    def summary(request: Received) -> Answer:
        if "response_format" in request.body:
            return Fail(500, {"message": "grammar not supported"}, {"x-should-retry": "false"})
        return Say(json.dumps(FIELDS))

    assert "Count the lockers." in await after_a_cut(tmp_path, summary)


@pytest.mark.parametrize("strategy", ["structured", "summarize", "trim"])
async def test_a_summary_call_that_overflows_drops_the_oldest_and_tries_again(
    tmp_path: Path, strategy: str
) -> None:
    def summary(request: Received) -> Answer:
        if "locker01" in whole(request.body["messages"]):
            return openai_overflow(10_500, 10_000)
        return Say(json.dumps(FIELDS))

    settings = structured(strategy=strategy)
    async with run_bot(tmp_path, answering(fine, summary), settings) as bot:
        await talk(bot, *(told(number) for number in range(1, 18)), "and now?")
        refused, tried, *_ = [whole(r.body["messages"]) for r in summaries(bot)] + ["", ""]
        sent = whole(steps(bot)[-1])
    assert "locker01" in refused
    assert "locker02" in tried, "all but the oldest"
    assert "Count the lockers." in sent
    assert "locker01" in daily(tmp_path), "no summary tells of it"
