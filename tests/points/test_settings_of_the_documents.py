"""`runtime.context` as its document has it, secrets, and ratios that fit each other (point 22)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.settings import load_layers
from bot.settings.schema import SettingError
from tests.fakes.openai_server import Answer, OpenAIServer, Received, Say
from tests.points.wire import answered, compactions, data
from tests.whole.testbot import TestBot, run_bot

BLOCK = """
model: gpt-4o-mini
runtime:
  context:
    strategy: summarize
"""
KEY = {"DEEPSEEK_API_KEY": "deep-key-123"}


def with_field(line: str) -> str:
    return f"{BLOCK}    {line}\n"


def complaint(folder: Path, written: str, environ: dict[str, str] | None = None) -> str:
    """What is said about a configuration; "" for one that is taken."""
    config = folder / "config.yaml"
    config.write_text(written)
    try:
        load_layers(config, environ or {})
    except SettingError as error:
        return str(error)
    return ""


def talkative(request: Received) -> Answer:
    return Say("Yes. " * 30 if "tools" in request.body else "They talked.")


async def value(bot: TestBot, key: str) -> Any:
    return (await data(bot, f"/config {key}"))["value"]


async def talk(bot: TestBot, count: int, words: int = 3) -> None:
    for number in range(1, count + 1):
        await bot.says(f"question {number}: " + "word " * words)


# --- the values that the document allows ------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "key", "taken"),
    [
        pytest.param(
            f"{name}: {written}",
            f"context.{name}",
            taken,
            id=f"{name} {written}",
        )
        for name, written, taken in (
            ("compression_trigger", "0.0", 0.0),
            ("compression_trigger", "0.01", 0.01),
            ("compression_trigger", "0.049", 0.049),
            ("summary_max_tokens", "1", 1),
            ("summary_max_tokens", "15", 15),
            ("auto_compact", "yes", True),
            ("auto_compact", "no", False),
            ("auto_compact", "On", True),
        )
    ],
)
async def test_a_value_of_the_document_is_taken(
    tmp_path: Path, line: str, key: str, taken: object
) -> None:
    """Point 22."""
    assert complaint(tmp_path, with_field(line)) == ""
    async with run_bot(tmp_path, talkative, with_field(line)) as bot:
        assert await value(bot, key) == taken


@pytest.mark.parametrize("line", ["compression_trigger: 1.01", "compression_trigger: -0.1"])
async def test_a_ratio_that_is_none_is_refused(tmp_path: Path, line: str) -> None:
    """Point 22: from 0.0 to 1.0."""
    assert "compression_trigger" in complaint(tmp_path, with_field(line))


async def test_a_trigger_of_zero_compacts_as_soon_as_anything_can_leave(tmp_path: Path) -> None:
    """Point 22: every pressure is 0.0 or more."""
    written = with_field("compression_trigger: 0.0\n    keep_recent: 4")
    assert complaint(tmp_path, written) == ""
    async with run_bot(tmp_path, talkative, written) as bot:
        await talk(bot, 8, words=60)
        assert await compactions(bot)


async def test_a_cap_of_a_few_tokens_caps_the_summary(tmp_path: Path) -> None:
    """Point 22: the summary is hard-capped, however much the model writes."""
    written = with_field(
        "summary_max_tokens: 12\n    keep_recent: 2\n    max_tokens: 20000\n"
        "    compression_trigger: 0.2"
    )
    assert complaint(tmp_path, written) == ""

    def wordy(request: Received) -> Answer:
        return Say("Yes. " * 30 if "tools" in request.body else "They talked of words. " * 100)

    async with run_bot(tmp_path, wordy, written) as bot:
        await talk(bot, 8, words=500)
        assert await compactions(bot)
        preface = (await data(bot, "/context json"))["preface"]
    assert preface.count("They talked of words.") <= 3


@pytest.mark.parametrize("written", ["null", "~", ""], ids=["null", "tilde", "nothing"])
async def test_no_brain_for_summaries_is_written_as_null(tmp_path: Path, written: str) -> None:
    """Point 22: the main brain handles the summaries then."""
    assert complaint(tmp_path, with_field(f"summary_brain: {written}")) == ""


WHOLE = """
model: gpt-4o-mini
runtime:
  context:
    strategy: summarize
    summary_brain:
      provider: deepseek
      model: deepseek-chat
      backend: openai_compat
      config:
        api_key: "{{secret.DEEPSEEK_API_KEY}}"
        base_url: BASE_URL
      temperature: 0.0
      max_tokens: 1024
"""
RECURSIVE = (
    WHOLE
    + """
      context:
        max_tokens: 65536
        output_reserved: 4096
        strategy: truncate
        keep_recent: 15
        compression_trigger: 0.75
        summary_max_tokens: 512
        auto_compact: true
        summary_brain:
          provider: deepseek
          model: deepseek-reasoner
          backend: openai_compat
          config:
            api_key: "{{secret.DEEPSEEK_API_KEY}}"
            base_url: BASE_URL
"""
)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(WHOLE, id="whole"),
        pytest.param(RECURSIVE, id="recursive"),
    ],
)
async def test_a_brain_for_summaries_has_the_whole_recursive_shape(
    tmp_path: Path, written: str
) -> None:
    """Point 22: the block accepts the full AgentBrain shape recursively; it is the one asked."""
    async with OpenAIServer(talkative, key="deep-key-123") as deep:
        there = written.replace("BASE_URL", deep.base_url)
        assert complaint(tmp_path, there, KEY) == ""
        async with run_bot(tmp_path, talkative, there, KEY) as bot:
            await talk(bot, 3)
            await bot.says("/context compact")
        (asked,) = deep.requests
    assert asked.body["model"] == "deepseek-chat"
    assert asked.body["temperature"] == 0.0


# --- the strategy there -----------------------------------------------------------------------


async def test_without_a_strategy_the_fields_mean_something_or_are_refused(tmp_path: Path) -> None:
    """Point 22."""
    written = """
model: gpt-4o-mini
runtime:
  context:
    max_tokens: 20000
    keep_recent: 2
    compression_trigger: 0.2
"""
    if said := complaint(tmp_path, written):
        assert "strategy" in said
        return
    async with run_bot(tmp_path, talkative, written) as bot:
        await talk(bot, 8, words=500)
        made = await compactions(bot)
        assert made, "the trigger is passed, and nothing happened"
        assert {event["strategy"] for event in made} <= {"truncate", "summarize"}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param("sumarize"),
        pytest.param("structrd"),
        pytest.param("7"),
        "slim",
    ],
)
async def test_a_wrong_strategy_there_is_told_the_two_that_count(
    tmp_path: Path, wrong: str
) -> None:
    """Point 22."""
    said = complaint(tmp_path, BLOCK.replace("summarize", wrong))
    assert "runtime.context.strategy" in said
    assert "truncate or summarize" in said
    assert not [other for other in ("trim", "full", "structured") if other in said]


# --- secrets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["{{secret.X_KEY}}", "{{ secret.X_KEY }}", "{{  secret.X_KEY}}"])
async def test_a_secret_is_filled_in_with_and_without_spaces(tmp_path: Path, name: str) -> None:
    """Point 22: as a key, and in the midst of a text."""
    async with OpenAIServer(talkative, key="x-key-123") as deep:
        written = WHOLE.replace("{{secret.DEEPSEEK_API_KEY}}", name)
        written = written.replace("BASE_URL", deep.base_url) + f'system_prompt: "Say {name}."\n'
        async with run_bot(tmp_path, talkative, written, {"X_KEY": "x-key-123"}) as bot:
            await talk(bot, 3)
            system = answered(bot)[-1]["messages"][0]["content"]
            await bot.says("/context compact")
        assert len(deep.requests) == 1
    assert system.startswith("Say x-key-123.")


@pytest.mark.parametrize("name", ["{{secret.}}", "{{ secret. }}", "{{secret.  }}"])
@pytest.mark.parametrize("field", ["system_prompt", "api_key"])
async def test_a_secret_without_a_name_is_refused(tmp_path: Path, name: str, field: str) -> None:
    """Point 22: with a sentence that says what is wrong with it."""
    written = WHOLE.replace("BASE_URL", "http://127.0.0.1:9/v1")
    if field == "api_key":
        written = written.replace("{{secret.DEEPSEEK_API_KEY}}", name)
    else:
        written += f'system_prompt: "Say {name}."\n'
    said = complaint(tmp_path, written, {**KEY, "X_KEY": "x-key-123"})
    assert field in said
    assert "name" in said
    assert "plain text" not in said


# --- ratios that fit each other ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "reserve", "is_taken"),
    [
        pytest.param(0.3, 0.3, False),
        pytest.param(0.2, 0.4, False),
        (0.3, 0.29, True),
    ],
)
async def test_a_reserve_that_is_no_less_than_the_trigger_is_refused(
    tmp_path: Path, trigger: float, reserve: float, is_taken: bool
) -> None:
    """Point 22: in the configuration."""
    written = (
        "model: gpt-4o-mini\n"
        f"context: {{strategy: structured, trigger_ratio: {trigger}, reserve_ratio: {reserve}}}\n"
    )
    said = complaint(tmp_path, written)
    assert (said == "") is is_taken
    assert is_taken or ("reserve_ratio" in said and "trigger_ratio" in said)


@pytest.mark.parametrize("here", ["", " --here"])
async def test_a_reserve_above_the_trigger_is_refused_in_the_chat_too(
    tmp_path: Path, here: str
) -> None:
    """Point 22: whichever of the two is changed."""
    async with run_bot(tmp_path, talkative, {"context": {"strategy": "structured"}}) as bot:
        await bot.says(f"/config context.reserve_ratio 0.4{here}")
        said = (await bot.says(f"/config context.trigger_ratio 0.3{here}")).text
        assert await value(bot, "context.trigger_ratio") == 0.8
    assert "reserve_ratio" in said
