"""A whole bot whose model is Claude, by Anthropic's own protocol, or OpenAI's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.models import selection
from agent.models.brain import PROVIDERS
from agent.models.endpoint import INSTALL_ANTHROPIC
from channels.program import EXTRAS, ROOT
from tests.fakes.anthropic_server import AnthropicServer, Think
from tests.fakes.openai_server import Call, Fail, Hang, OpenAIServer, Received, Say, Script
from tests.waiting import PATIENCE
from tests.whole.testbot import TestBot, running

MODEL = "claude-sonnet-4-5"
KEYS = {"ANTHROPIC_API_KEY": "sk-ant-test-key"}
SUM = Call("calculate", '{"expression": "6 * 7"}')


def settings(server: AnthropicServer, **more: Any) -> dict[str, Any]:
    brain = {"provider": "anthropic", "config": {"base_url": server.base_url}}
    return {"model": MODEL, "brain": brain, **more}


@asynccontextmanager
async def living_with_claude(
    folder: Path, script: Script = (), more: dict[str, Any] | None = None, **server: Any
) -> AsyncIterator[tuple[TestBot, AnthropicServer]]:
    async with AnthropicServer(script, key=KEYS["ANTHROPIC_API_KEY"], **server) as endpoint:
        bot = TestBot()
        async with running(folder, bot, settings(endpoint, **(more or {})), KEYS):
            yield bot, endpoint


async def test_a_turn_with_tools_and_thoughts_is_answered_and_shown_as_it_was_sent(
    tmp_path: Path,
) -> None:
    broken = Call("calculate", '{"expression": "6 /"}')
    thought = Think("One moment.", (SUM, broken), "I should calculate.", redacted="c2VjcmV0")
    async with living_with_claude(tmp_path, [thought, Say("It is 42.")]) as (bot, server):
        reply = await bot.says("What is six times seven?")
        asked, answered, results = server.turns[-1].body["messages"]
        for number, received in enumerate(server.requests, 1):
            shown = (await bot.says(f"/context request r{number} json")).data
            assert shown
            assert shown["request"]["is_same"]
            assert shown["body"] == received.body
    assert reply.text == "It is 42."
    assert asked["content"][-1]["text"] == "What is six times seven?"
    kinds = [block["type"] for block in answered["content"]]
    assert kinds == ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"]
    right, wrong = results["content"]
    assert right["content"][0]["text"] == "42"
    assert [one.get("is_error", False) for one in (right, wrong)] == [False, True]


@pytest.mark.parametrize(
    "given", ["{", '{"expression": "6', "six", "[1]", '"6"', "null", "{}{}", ""]
)
async def test_input_of_a_tool_that_is_no_object_is_a_failed_call_and_goes_back_as_one(
    tmp_path: Path, given: str
) -> None:
    script = [Say("One moment.", (Call("calculate", given),)), Say("It is 42.")]
    async with living_with_claude(tmp_path, script) as (bot, server):
        assert (await bot.says("What is six times seven?")).text == "It is 42."
        _asked, answered, results = server.turns[-1].body["messages"]
    call, result = answered["content"][-1], results["content"][-1]
    assert isinstance(call["input"], dict)
    assert (result["tool_use_id"], result["is_error"]) == (call["id"], True)


async def test_thoughts_are_sent_back_by_a_bot_that_was_restarted_in_the_middle(
    tmp_path: Path,
) -> None:
    thought = Think("One moment.", (SUM,), "I should calculate.")
    async with AnthropicServer([thought, Hang(), Say("It is 42.")]) as server:
        first = TestBot()
        async with running(tmp_path, first, settings(server), KEYS):
            await first.writes("What is six times seven?", id="m1")
            for _ in range(2):
                await asyncio.wait_for(server.reached.acquire(), PATIENCE)
            app = first.app
            for lanes in (app.bot.commands.queues, app.turns.queues, app.delivery.queues):
                await lanes.close()  # as if the process ended
        second = TestBot()
        async with running(tmp_path, second, settings(server), KEYS):
            assert (await second.reply_to("m1")).reply.text == "It is 42."
        before, after = (server.requests[n].body["messages"] for n in (1, 2))
    assert before[1] == after[1]
    assert [block["type"] for block in after[1]["content"]] == ["thinking", "text", "tool_use"]


async def test_a_wrong_key_is_told_by_its_name(tmp_path: Path) -> None:
    refused = Fail(401, {"type": "authentication_error", "message": "invalid x-api-key"})
    async with living_with_claude(tmp_path, [refused]) as (bot, _):
        assert "check ANTHROPIC_API_KEY." in (await bot.says("Hi")).text


@pytest.fixture
def without_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "is_anthropic_installed", lambda: False)


@pytest.mark.usefixtures("without_sdk")
async def test_without_its_sdk_the_bot_says_that_nothing_is_cached_and_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bot = TestBot()
    config = {"model": MODEL, "brain": {"provider": "anthropic"}}
    async with running(tmp_path, bot, config, KEYS):
        model, status = await bot.says("/model"), await bot.says("/status")
    for text in (model.text, status.text, caplog.text):
        assert "caches nothing" in text
        assert INSTALL_ANTHROPIC in text


@pytest.mark.usefixtures("without_sdk")
async def test_its_protocol_at_another_address_wants_the_sdk(tmp_path: Path) -> None:
    bot = TestBot()
    own = {"provider": "mine", "backend": "anthropic", "config": {"base_url": "http://127.0.0.1:9"}}
    async with running(tmp_path, bot, {"model": MODEL, "brain": own}, {}):
        assert INSTALL_ANTHROPIC in (await bot.says("Hi")).text


async def test_its_protocol_may_be_spoken_at_any_address(tmp_path: Path) -> None:
    async with AnthropicServer([Say("Hello.")], key="own-key") as server:
        place = {"base_url": server.base_url, "api_key": "{{secret.MINE}}"}
        own = {"provider": "mine", "backend": "anthropic", "config": place}
        bot = TestBot()
        config = {"model": MODEL, "brain": own}
        async with running(tmp_path, bot, config, {"MINE": "own-key"}):
            assert (await bot.says("Hi")).text == "Hello."


def test_the_line_that_installs_the_sdk_names_a_file_that_has_it() -> None:
    assert "anthropic==" in (ROOT / EXTRAS[INSTALL_ANTHROPIC.split()[-1]]).read_text()
    assert [name for name, one in PROVIDERS.items() if one.speaks == "anthropic"] == ["anthropic"]


async def test_the_ledger_has_what_the_cache_was_read_and_written_at_their_own_prices(
    tmp_path: Path,
) -> None:
    def answer(received: Received) -> Say:
        return Say("Yes.")

    async with living_with_claude(tmp_path, answer) as (bot, server):
        for number in range(6):
            await bot.says(f"Question {number}. " + "It was a dark night. " * 60)
        usage = await bot.says("/usage")
    assert usage.data is not None
    bill = usage.data["chat"]["this chat, total"]
    fresh, read, written = (
        sum(getattr(one, name) for one in server.bills) for name in ("fresh", "read", "written")
    )
    assert (bill["prompt"], bill["cached"], bill["written"]) == (
        fresh + read + written,
        read,
        written,
    )
    assert read > written > 0
    paid = 3 * fresh + 0.3 * read + 3.75 * written + 15 * bill["completion"]
    assert bill["cost"] == pytest.approx(paid / 1e6)
    assert "| into the cache |" in usage.text


# --- counting ---

WORDY = "internationalization and compartmentalization of counterintelligence " * 20


@asynccontextmanager
async def moving_to_claude(
    folder: Path, window: int, strategy: str, is_counted: bool = True
) -> AsyncIterator[tuple[TestBot, AnthropicServer]]:
    """A long conversation with another model, which Claude is about to continue: Claude counts
    three times as many tokens as the meter, which does not know that."""

    def answer(received: Received) -> Say:
        return Say("Yes.")

    async with (
        OpenAIServer(answer) as other,
        AnthropicServer(answer, window=window, key=KEYS["ANTHROPIC_API_KEY"]) as server,
    ):
        server.can_count = is_counted
        brain = {"provider": "anthropic", "config": {"base_url": server.base_url}}
        context = {"max_tokens": window, "output_reserved": 1_000}
        more = {"model": MODEL, "max_tokens": 900, "context": context}
        agents = [{"id": "claude", "brain": {**brain, **more}}]
        config = {"model": "gpt-4o-mini", "agents": agents, "context": {"strategy": strategy}}
        secrets = {"OPENAI_BASE_URL": other.base_url, "OPENAI_API_KEY": "k", **KEYS}
        bot = TestBot()
        async with running(folder, bot, config, secrets):
            for number in range(21):
                await bot.says(f"Question {number}. {WORDY}")
            await bot.says("/agent claude")
            yield bot, server


async def test_a_long_conversation_is_counted_once_before_it_is_cut_by_a_guess(
    tmp_path: Path,
) -> None:
    async with moving_to_claude(tmp_path, 8_000, "truncate") as (bot, server):
        for _ in range(3):
            assert (await bot.says("And now?")).text == "Yes."
        assert len(server.counted) == 1
        assert len(server.requests) == len(server.bills) == 3, "nothing was refused as too long"
        assert server.counted[0].keys() == {"model", "messages", "system", "tools"}


async def test_where_nothing_is_counted_the_bot_goes_on_without(tmp_path: Path) -> None:
    async with moving_to_claude(tmp_path, 8_000, "full", is_counted=False) as (bot, server):
        for _ in range(2):
            assert (await bot.says("And now?")).text.startswith("Yes.")
        assert len(server.counted) == 1, "it is not asked again"
        assert len(server.requests) > len(server.bills), "it was too long, as nobody knew"


async def test_a_short_conversation_is_counted_by_nobody(tmp_path: Path) -> None:
    async with living_with_claude(tmp_path, [Say("Yes.")]) as (bot, server):
        await bot.says("Hi")
        assert server.counted == []


OPENAI_KEYS = {"OPENAI_API_KEY": "sk-test"}


def openai_settings(server: OpenAIServer, **more: Any) -> dict[str, Any]:
    brain = {"provider": "openai", "config": {"base_url": server.base_url}}
    return {"model": "gpt-5-mini", "brain": brain, **more}


def keys_of(server: OpenAIServer) -> list[str]:
    return [str(one.body.get("prompt_cache_key", "")) for one in server.requests]


async def test_each_conversation_has_a_key_of_its_own_that_outlives_a_restart(
    tmp_path: Path,
) -> None:
    def answer(received: Received) -> Say:
        return Say("Yes.")

    async with OpenAIServer(answer) as server:
        for start in range(2):
            bot = TestBot()
            bot.count = 10 * start  # each message has an id of its own
            async with running(tmp_path, bot, openai_settings(server), OPENAI_KEYS):
                for chat in ("ann", "bob"):
                    await bot.says("Hi", chat=chat)
        ann, bob, *later = keys_of(server)
    assert ann != bob
    assert later == [ann, bob]
    assert re.fullmatch("[0-9a-f]{32}", ann), "nothing of whose it is"


async def test_a_branch_has_the_key_of_what_it_shares_its_beginning_with(tmp_path: Path) -> None:
    async with OpenAIServer([Say("Yes.")] * 2) as server:
        bot = TestBot()
        async with running(tmp_path, bot, openai_settings(server), OPENAI_KEYS):
            await bot.says("Hi")
            await bot.says("/fork t1")
            await bot.says("And now?")
            shown = (await bot.says("/context request r1 json")).data
        here, there = keys_of(server)
    assert here == there
    assert shown


async def test_what_was_thought_is_in_the_ledger_if_something_was(tmp_path: Path) -> None:
    script = [Say("Yes."), Say("42.", reasoning="Six times seven. " * 40)]
    async with OpenAIServer(script) as server:
        bot = TestBot()
        async with running(tmp_path, bot, openai_settings(server), OPENAI_KEYS):
            await bot.says("Are you there?")
            assert "| reasoning |" not in (await bot.says("/usage")).text
            await bot.says("Six times seven?")
            usage = await bot.says("/usage")
    assert usage.data
    assert usage.data["chat"]["this chat, total"]["reasoning"] == 170
    assert "| reasoning |" in usage.text


# --- the Responses API ---


async def test_thoughts_go_back_after_a_restart_and_what_was_sent_is_shown_as_it_went(
    tmp_path: Path,
) -> None:
    thought = Say("One moment.", (SUM,), reasoning="I should calculate.")
    async with OpenAIServer([thought, Say("It is 42."), Say("Yes.")]) as server:
        more = {"model": "gpt-5-pro"}
        bot = TestBot()
        async with running(tmp_path, bot, openai_settings(server, **more), OPENAI_KEYS):
            assert (await bot.says("What is six times seven?")).text == "It is 42."
            for number in (1, 2):
                shown = (await bot.says(f"/context request r{number} json")).data
                assert shown
                assert shown["request"]["is_same"]
        bot = TestBot()
        bot.count = 10
        async with running(tmp_path, bot, openai_settings(server, **more), OPENAI_KEYS):
            assert (await bot.says("Sure?")).text == "Yes."
        kinds = [item.get("type", item.get("role")) for item in server.turns[-1].body["input"]]
    assert kinds == [
        *("system", "user", "reasoning", "assistant", "function_call", "function_call_output"),
        *("assistant", "user"),
    ]


async def test_a_conversation_goes_on_from_one_api_with_the_other(tmp_path: Path) -> None:
    thought = Say("One moment.", (SUM,), reasoning="I should calculate.")
    script = [thought, Say("It is 42."), Say("Yes."), Say("Of course.")]
    async with OpenAIServer(script) as server:
        bot = TestBot()
        async with running(tmp_path, bot, openai_settings(server, model="gpt-5-pro"), OPENAI_KEYS):
            await bot.says("What is six times seven?")
            await bot.says("/model gpt-5-mini")
            assert (await bot.says("Sure?")).text == "Yes."
            await bot.says("/model gpt-5-pro")
            assert (await bot.says("Really?")).text == "Of course."
    assert ["input" in one.body for one in server.requests] == [True, True, False, True]


# --- thoughts that go back by chat completions ---
