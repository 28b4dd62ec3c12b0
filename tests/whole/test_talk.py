"""The main use, as a person does it: talk, look at the context, tune it, come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.settings import Settings
from channels.base import Activity, ContextChanged, Delta, Done, ToolEnded, ToolStarted, TurnStarted
from tests.fakes.openai_server import (
    Answer,
    Body,
    Break,
    Call,
    Fail,
    Hang,
    Received,
    Say,
    StreamError,
    openai_overflow,
)
from tests.waiting import until
from tests.whole.testbot import run_bot


async def test_a_question_gets_the_models_answer_as_it_streams(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello, Ann!", pieces=3)]) as bot:
        seen: list[Activity] = []
        watching = await bot.watches(seen)
        reply = await bot.says("Hi, I am Ann.")
        watching.cancel()
    assert reply.text == "Hello, Ann!"
    assert isinstance(seen[0], ContextChanged | TurnStarted)
    assert "".join(event.text for event in seen if isinstance(event, Delta)) == "Hello, Ann!"
    assert bot.sent_to_model()[-1] == {"role": "user", "content": "Hi, I am Ann."}


async def test_tools_run_and_their_results_reach_the_model(tmp_path: Path) -> None:
    calls = (
        Call("calculate", '{"expression": "6*7"}', "a"),
        Call("current_time", '{"timezone": "UTC"}', "b"),
    )
    async with run_bot(tmp_path, [Say(calls=calls), Say("42, and it is late.")]) as bot:
        seen: list[Activity] = []
        watching = await bot.watches(seen)
        reply = await bot.says("6 times 7, and the time?")
        watching.cancel()
        results = {m["tool_call_id"]: m["content"] for m in bot.sent_to_model()[-2:]}
    assert reply.text == "42, and it is late."
    assert results["a"] == "42"
    assert "UTC" in results["b"]
    assert sum(isinstance(event, ToolStarted) for event in seen) == 2
    assert [event.is_error for event in seen if isinstance(event, ToolEnded)] == [False, False]


async def test_the_step_limit_ends_with_an_answer_that_says_so(tmp_path: Path) -> None:
    def script(request: Received) -> Say:
        if request.body.get("tool_choice") == "none":
            return Say("This is what I have.")
        count = len(request.body["messages"])
        return Say(calls=(Call("calculate", '{"expression": "1"}', f"c{count}"),))

    async with run_bot(tmp_path, script, {"agent_max_steps": 3}) as bot:
        reply = await bot.says("Loop.")
        assert len(bot.server.requests) == 4
    assert reply.text.startswith("This is what I have.")
    assert "agent_max_steps" in reply.text


async def test_a_changed_step_limit_holds_in_the_turn_that_runs(tmp_path: Path) -> None:
    async with run_bot(tmp_path, lambda _: Say(), {"agent_max_steps": 10}) as bot:

        def script(request: Received) -> Say:
            if request.body.get("tool_choice") == "none":
                return Say("Enough.")
            count = len(request.body["messages"])
            if count >= 4:
                bot.app.config.book.set("agent_max_steps", 2)
            return Say(calls=(Call("calculate", '{"expression": "1"}', f"c{count}"),))

        bot.server._decide = script
        await bot.says("Loop.")
        assert len(bot.server.requests) == 3


async def test_stop_keeps_what_was_done(tmp_path: Path) -> None:
    script: list[Answer] = [
        Say(calls=(Call("calculate", '{"expression": "6*7"}', "a"),)),
        Hang("It is forty-"),
        Say("As I said, 42."),
    ]
    async with run_bot(tmp_path, script) as bot:
        seen: list[Activity] = []
        watching = await bot.watches(seen)
        await bot.writes("6*7?", id="q")
        await bot.server.reached.acquire()
        await bot.server.reached.acquire()
        await until(lambda: any(isinstance(event, Delta) for event in seen))
        await bot.says("/stop")
        first = (await bot.reply_to("q")).reply.text
        watching.cancel()
        assert first.startswith("It is forty-")
        assert (await bot.says("So?")).text == "As I said, 42."
        roles = [message["role"] for message in bot.sent_to_model()]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


async def test_whatever_the_endpoint_does_ends_in_a_sentence_and_the_next_message_works(
    tmp_path: Path,
) -> None:
    failing: list[tuple[list[Answer], str]] = [
        ([Fail(401, {"message": "Incorrect API key", "code": "invalid_api_key"})], "key"),
        ([Fail(400, {"message": "bad", "type": "invalid_request_error"})], "bad"),
        ([Break("Half an ans"), Break("Half an ans")], "Half an ans"),
        ([Say(""), Say("")], "empty answer"),
        ([Body("<html>Hello</html>"), Body("<html>Hello</html>")], "web page"),
        ([StreamError({"message": "overloaded", "code": 500})] * 2, "overloaded"),
        ([openai_overflow(9_000, 8_000)], "long"),
    ]
    script = [answer for answers, _ in failing for answer in (*answers, Say("All is well."))]
    async with run_bot(tmp_path, script) as bot:
        for number, (_, sentence) in enumerate(failing):
            reply = await bot.says("Hello?", f"chat {number}")
            assert sentence in reply.text
            assert "Traceback" not in reply.text
            assert (await bot.says("And now?", f"chat {number}")).text == "All is well."


async def test_a_turn_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(request: Received) -> Answer:
        is_slow = request.body["messages"][-1]["content"] == "Slow?"
        return Hang("Let me") if is_slow else Say("Quick.")

    async with run_bot(tmp_path, script) as bot:
        book = bot.app.turns.runner.rules.book
        effective = book.effective

        def hasten(chat: str = "") -> Settings:  # below the minimum: the test need not wait
            return effective(chat).model_copy(update={"turn_timeout": 0.2})

        monkeypatch.setattr(book, "effective", hasten)
        reply = await bot.says("Slow?")
        assert "took longer than 0.2 s" in reply.text
        monkeypatch.undo()
        assert (await bot.says("Fast?")).text == "Quick."


async def test_auto_takes_the_model_that_the_endpoint_lists(tmp_path: Path) -> None:
    settings = {"model": "auto"}
    async with run_bot(tmp_path, [Say("Hi.")], settings, models=("llama-9",)) as bot:
        await bot.says("Hello")
        assert bot.server.turns[-1].body["model"] == "llama-9"
        assert "llama-9" in (await bot.says("/model")).text


async def test_control_characters_and_broken_unicode_never_reach_the_model(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hm.")]) as bot:
        for nothing in ("", "   \n ", "\x00\x1b"):
            assert "empty" in (await bot.says(nothing)).text
        await bot.says("a\x00b\x1b[31m\ud800c\r\nd\te")
        assert bot.sent_to_model()[-1]["content"] == "ab[31m?c\nd\te"


async def test_a_new_start_says_what_left(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello!"), Say("A greeting.")]) as bot:
        assert "The context is empty already" in (await bot.says("/new")).text
        await bot.says("Hi")
        assert "1 turn removed from the context" in (await bot.says("/new")).text
        assert "The context is empty already" in (await bot.says("/new")).text


async def test_a_title_is_given_and_taken_away(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        assert "No title yet" in (await bot.says("/title")).text
        assert "now called “Lisbon”" in (await bot.says("/title Lisbon")).text
        assert "is called “Lisbon”" in (await bot.says("/title")).text
        assert "No title yet" in (await bot.says("/title --unset")).text


async def test_a_done_event_follows_a_reply_that_is_on_disk(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello!")]) as bot:
        seen: list[Activity] = []
        watching = await bot.watches(seen)
        await bot.says("Hi")
        done = await until(lambda: [event for event in seen if isinstance(event, Done)])
        watching.cancel()
    (event,) = done
    assert (event.reply_to, event.turn) == ("m1", "t1")
    assert event.usage.prompt > event.usage.completion > 0
