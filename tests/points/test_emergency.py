"""Points 4 to 7: what the emergency sends, whom it tells, how much it clips, and what it learns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Call, Received, Say, openai_overflow
from tests.points.scene import (
    AUDIENCE,
    answering,
    content,
    events,
    has_results,
    last_asked,
    looks,
    put_file,
    state,
    steps,
    talk,
    whole,
)
from tests.whole.testbot import TestBot, run_bot

GOAL = "Plan the garden of aunt Walburga."
LONG_TURNS = [f"{number} " + "word " * 700 for number in range(4)]
NOTES = "\n".join(f"note {number}" for number in range(40))


def refusing(times: int, window: int = 10_000) -> Callable[[Received], Answer]:
    """A script that refuses the turn that asks for "the last" so many times, and else says Fine."""
    left = times

    def reply(request: Received) -> Answer:
        nonlocal left
        if left and last_asked(request).startswith("the last"):
            left -= 1
            return openai_overflow(window + 500, window)
        return Say("Fine.")

    return answering(reply)


def context(**settings: Any) -> dict[str, Any]:
    return {"context": {"max_tokens": 10_000, "output_reserved": 500, **settings}}


async def heard_in(bot: TestBot, line: str) -> str:
    """All that the person gets for a line, the reply and what comes beside it."""
    before = len(bot.sent)
    await talk(bot, line)
    return "\n".join(outbound.reply.text for outbound in bot.sent[before:])


# --- point 4: the retry carries the recap, the recap the snapshot ---


@pytest.mark.parametrize("strategy", ["truncate", "summarize"])
async def test_the_retry_after_an_emergency_holds_the_goal_of_what_left(
    tmp_path: Path, strategy: str
) -> None:
    settings = context(strategy=strategy)
    async with run_bot(tmp_path, refusing(1), settings) as bot:
        await talk(bot, GOAL, *LONG_TURNS)
        await talk(bot, "the last word " + "word " * 400)
        refused, retry = steps(bot)[-2:]
    assert GOAL in texts_of_people(refused)
    assert GOAL not in texts_of_people(retry), "the turn itself has left"
    assert GOAL in whole(retry)


@pytest.mark.parametrize("strategy", ["truncate", "summarize"])
async def test_an_emergency_between_two_tool_calls_leaves_the_goal_in_the_retry(
    tmp_path: Path, strategy: str
) -> None:
    refusals = 1

    def reply(request: Received) -> Answer:
        nonlocal refusals
        if not last_asked(request).startswith("the last"):
            return Say("Fine.")
        if not has_results(request):
            return looks(request, "notes.txt")
        refusals -= 1
        return Say("Read.") if refusals < 0 else openai_overflow(10_500, 10_000)

    put_file(tmp_path, "notes.txt", NOTES)
    settings = context(strategy=strategy)
    async with run_bot(tmp_path, answering(reply), settings) as bot:
        await talk(bot, GOAL, *LONG_TURNS)
        await talk(bot, "the last word")
        refused, retry = steps(bot)[-2:]
    assert retry[-1]["role"] == refused[-1]["role"] == "tool"
    assert GOAL not in texts_of_people(retry), "the turn itself has left"
    assert GOAL in whole(retry)


def texts_of_people(messages: list[dict[str, Any]]) -> list[str]:
    return [content(message) for message in messages if message["role"] == "user"]


def note_of(messages: list[dict[str, Any]]) -> str:
    """What stands in system messages behind the prompt, without the names of tools."""
    notes = [content(message) for message in messages[1:] if message["role"] == "system"]
    return "\n".join(notes).replace("memory_search", "")


async def after_an_emergency(tmp_path: Path, *lines: str) -> list[dict[str, Any]]:
    """The first request of the turn after one in which the model refused a request."""
    put_file(tmp_path, "notes.txt", NOTES)

    def reply(request: Received) -> Answer:
        if last_asked(request).startswith("look") and not has_results(request):
            return looks(request, "notes.txt")
        return overflow(request)

    overflow = refusing(1)
    async with run_bot(tmp_path, answering(reply), context(strategy="truncate")) as bot:
        await talk(bot, GOAL, *lines, *LONG_TURNS)
        await talk(bot, "the last word", "and now?")
        return steps(bot)[-1]


async def test_without_tool_calls_there_is_a_note_of_the_tools_too(tmp_path: Path) -> None:
    assert "read_file" in note_of(await after_an_emergency(tmp_path))


async def test_with_tool_calls_the_note_names_the_tools_and_the_last_calls(tmp_path: Path) -> None:
    note = note_of(await after_an_emergency(tmp_path, "look"))
    assert "read_file" in note
    assert "notes.txt" in note


async def test_the_note_says_how_tools_are_injected(tmp_path: Path) -> None:
    assert "native" in note_of(await after_an_emergency(tmp_path, "look"))


async def test_the_note_says_what_memory_there_is(tmp_path: Path) -> None:
    assert "memory" in note_of(await after_an_emergency(tmp_path, "look")).lower()


# --- point 5: the person is told ---


@pytest.mark.parametrize(("strategy", "times"), [("trim", 1), ("summarize", 2), ("structured", 3)])
async def test_the_person_hears_what_left_by_an_overflow_why_and_how_to_get_it_back(
    tmp_path: Path, strategy: str, times: int
) -> None:
    async with run_bot(tmp_path, refusing(times), context(strategy=strategy)) as bot:
        await talk(bot, *LONG_TURNS)
        before = (await state(bot))["turns"]
        heard = await heard_in(bot, "the last word")
        left = set(before) - set((await state(bot))["turns"])
    assert left, "something has left"
    assert "t1" in heard, "what"
    assert "window" in heard or "too long" in heard, "why"
    assert "/context undo" in heard, "how to get it back"


async def test_an_emergency_before_anything_is_sent_tells_the_person_too(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(0), context(strategy="full")) as bot:
        for number in range(1, 9):
            heard = await heard_in(bot, f"{number} " + "word " * 1_500)
            left = [turn for event in await events(bot) for turn in event["turns"]]
            if left:
                break
    assert left, "something has left"
    assert "/context undo" in heard


async def test_the_person_hears_that_their_own_text_was_clipped(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(0), context()) as bot:
        heard = await heard_in(bot, "word " * 12_000)
        received = content(steps(bot)[-1][-1])
    assert "left out here" in received, "it was clipped"
    assert heard.strip() != "Fine."


async def test_when_nothing_is_left_to_clear_nobody_is_told_to_clear(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(9), context()) as bot:
        await talk(bot, *LONG_TURNS)
        heard = await heard_in(bot, "the last word")
        turns = (await state(bot))["turns"]
    assert len(turns) <= 1, "nothing but this turn is in play"
    assert "Fine." not in heard
    assert "/context clear" not in heard


# --- point 6: clip to what fits ---


async def test_a_message_just_over_the_window_loses_only_what_does_not_fit(tmp_path: Path) -> None:
    settings = {"context": {"max_tokens": 20_000, "strategy": "full"}}
    async with run_bot(tmp_path, refusing(0), settings) as bot:
        room = 20_000 - 4_096 - (await state(bot))["tokens"]
        await talk(bot, "word " * (room + 150))
        received = content(steps(bot)[-1][-1])
    assert "left out here" in received
    assert len(received) > 0.9 * 5 * room


async def test_a_message_that_the_provider_finds_just_too_long_loses_only_a_little(
    tmp_path: Path,
) -> None:
    settings = {"context": {"max_tokens": 20_000, "strategy": "full"}}
    async with run_bot(tmp_path, refusing(1, window=16_000), settings) as bot:
        await talk(bot, "the last word " + "word " * 13_000)
        received = content(steps(bot)[-1][-1])
    assert len(received) > 40_000


@pytest.mark.parametrize("calls", [1, 20])
async def test_a_call_that_is_longer_than_the_window_is_run_and_shortened(
    tmp_path: Path, calls: int
) -> None:
    written = "word " * (100_000 // calls)

    def reply(request: Received) -> Answer:
        if has_results(request) or "write" not in last_asked(request):
            return Say("Written.")
        files = (json.dumps({"path": f"{n}.txt", "content": written}) for n in range(calls))
        return Say(calls=tuple(Call("write_file", one, f"c{n}") for n, one in enumerate(files)))

    async with run_bot(tmp_path, answering(reply), context()) as bot:
        heard = await heard_in(bot, "write it")
        shown = [call for m in steps(bot)[-1] for call in m.get("tool_calls", ())]
        assert await talk(bot, "and now?") == "Written."
    assert heard.startswith("Written.")
    assert "the model's own tool calls were too long and were shortened" in heard
    assert len(shown) == calls
    arguments = [json.loads(call["function"]["arguments"]) for call in shown]
    assert all("left out here" in one["shortened"] for one in arguments)
    assert (tmp_path / AUDIENCE / "files" / "0.txt").read_text() == written


async def test_calls_are_left_alone_where_shorter_results_are_enough(tmp_path: Path) -> None:
    def reply(request: Received) -> Answer:
        read = sum(m["role"] == "tool" for m in request.body["messages"])
        note = json.dumps({"path": "own.txt", "content": "mine " * 200})
        if read == 0:
            return Say(calls=(Call("write_file", note, "w"),))
        return looks(request, "notes.txt", 3) if read == 1 else Say("Read.")

    put_file(tmp_path, "notes.txt", "\n".join(["note " * 900] * 40))
    async with run_bot(tmp_path, answering(reply), context()) as bot:
        assert (await talk(bot, "look")).startswith("Read.")
        arguments = str([m.get("tool_calls") for m in steps(bot)[-1]])
    assert "mine " * 200 in arguments


# --- point 7: a learned window ---


async def test_one_wrong_window_in_an_error_does_not_stop_the_conversation(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(1, window=1_500), {}) as bot:
        await talk(bot, "hello", "the last word")
        assert await talk(bot, "and now?") == "Fine."


async def test_one_wrong_window_in_an_error_does_not_stop_other_conversations(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, refusing(1, window=1_500), {}) as bot:
        await talk(bot, "the last word")
        assert (await bot.says("hello", chat="other")).text == "Fine."


async def test_the_setting_that_is_advised_is_obeyed(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(1, window=1_500), {}) as bot:
        await talk(bot, "the last word", "/config context.max_tokens 100000")
        assert (await state(bot))["window"] == 100_000
        assert await talk(bot, "and now?") == "Fine."


async def test_refusals_are_believed_only_within_reason_by_the_meter_too(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(3), context(strategy="structured")) as bot:
        await talk(bot, *LONG_TURNS)
        before = (await state(bot))["parts"]["tools"]
        await talk(bot, "the last word")
        after = (await state(bot))["parts"]["tools"]
    assert after < 2 * before


async def learned(bot: TestBot) -> None:
    """A window of 16,000 that the provider named for a request of 20,000."""
    await talk(bot, "the last word " + "word " * 18_000)
    assert (await state(bot))["window"] == 16_000, "it is believed"


async def test_a_learned_window_is_shown_as_learned(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(1, window=16_000), {}) as bot:
        await learned(bot)
        assert "learned" in (await bot.says("/context")).text


async def test_a_learned_window_is_forgotten_when_the_setting_changes(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(1, window=16_000), {}) as bot:
        await learned(bot)
        await talk(bot, "/config context.max_tokens 60000")
        assert (await state(bot))["window"] == 60_000


async def test_a_learned_window_is_forgotten_when_the_model_changes(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(1, window=16_000), {}) as bot:
        await learned(bot)
        await talk(bot, "/model gpt-4o")
        assert (await state(bot))["window"] == 128_000


async def test_a_learned_window_can_be_reset(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(1, window=16_000), {}) as bot:
        await learned(bot)
        await talk(bot, "/config context.max_tokens 0")
        assert (await state(bot))["window"] == 128_000
