"""Sub-agents in a whole bot: their context, their cost, their line of progress, and their end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from channels.base import Activity, Delta, ToolStarted
from plugins.spending import record as ledger
from tests.fakes.openai_server import Answer, Call, Fail, Hang, Received, Say, openai_overflow
from tests.memory.harness import KEY
from tests.whole.testbot import TestBot, run_bot

FILES = Path("data/audiences/pipe-main/files")


def is_subagent(request: Received) -> bool:
    return "You are a sub-agent" in str(request.body["messages"][0]["content"])


def sending(*tasks: str) -> Answer:
    calls = (Call("delegate", json.dumps({"task": task}), f"d{n}") for n, task in enumerate(tasks))
    return Say(calls=tuple(calls))


def tools_of(request: Received) -> set[str]:
    return {tool["function"]["name"] for tool in request.body.get("tools", ())}


def results(bot: TestBot) -> list[str]:
    """Return the results of the tools in the last request."""
    return [str(m["content"]) for m in bot.sent_to_model() if m["role"] == "tool"]


async def test_a_subagent_sees_its_task_alone_and_its_result_comes_back(tmp_path: Path) -> None:
    script = [
        Say("I know."),
        sending("Count the needles."),
        Say(calls=(Call("calculate", '{"expression": "6*7"}', "c"),)),
        Say("There are 42 needles."),
        Say("42, I am told."),
    ]
    async with run_bot(tmp_path, script) as bot:
        await bot.says("My name is Ann.")
        reply = await bot.says("How many needles?")
        requests = bot.server.requests
        task, step = (request.body["messages"] for request in list(requests)[2:4])
        (result,) = results(bot)
    assert reply.text == "42, I am told."
    assert result == "There are 42 needles."
    assert [message["role"] for message in task] == ["system", "user"]
    assert task[1]["content"] == "Count the needles."
    assert [message["role"] for message in step] == ["system", "user", "assistant", "tool"]
    assert "delegate" in tools_of(requests[1])
    assert tools_of(requests[2]) == tools_of(requests[1]) - {"delegate"}


async def test_it_writes_where_its_caller_may_and_is_on_the_bill_of_the_conversation(
    tmp_path: Path,
) -> None:
    written = {"path": "note.txt", "content": "by a sub-agent"}
    script = [
        sending("Write a note."),
        Say(calls=(Call("write_file", json.dumps(written), "w"),)),
        Say("Written."),
        Say("Done."),
    ]
    async with run_bot(tmp_path, script) as bot:
        await bot.says("A note, please.")
        usage = await bot.says("/usage")
        conversation = await bot.app.conversations.get(KEY)
        bills = await bot.app.store.read(ledger.bills_by_model)
    assert (tmp_path / FILES / "note.txt").read_text() == "by a sub-agent"
    assert conversation.context.bill.calls == 4
    assert {purpose: bill.calls for _, purpose, bill in bills} == {"answer": 2, "subagent": 2}
    assert "subagent" in usage.text


async def test_under_slim_the_log_has_the_line_that_the_subagent_wrote(tmp_path: Path) -> None:
    script = [
        sending("Count the needles."),
        Say("There are 42.<terse>counted 42 needles</terse>"),
        Say("42.<terse>had them counted</terse>"),
        Say("Fine.<terse>agreed</terse>"),
        Say("Good.<terse>said good</terse>"),
    ]
    settings = {"context": {"strategy": "slim", "full_turns": 1, "fold_turns": 1}}
    async with run_bot(tmp_path, script, settings) as bot:
        for text in ("How many?", "Sure?", "Good."):
            await bot.says(text)
        log = str(bot.sent_to_model()[1]["content"]).splitlines()
        result = bot.sent_to_model(2)[-1]["content"]
    assert [line.partition("] ")[2] for line in log[1:]] == [
        "subagent: counted 42 needles",
        "assistant: had them counted",
    ]
    assert result == "There are 42."


async def test_it_has_as_many_steps_as_a_turn_and_they_are_its_own(tmp_path: Path) -> None:
    def model(request: Received) -> Answer:
        if request.body.get("tool_choice") == "none":
            return Say("I have got this far.")
        if is_subagent(request):
            return Say(calls=(Call("current_time", "{}", "t"),))
        is_done = request.body["messages"][-1]["role"] == "tool"
        return Say("Done.") if is_done else sending("Go on for ever.")

    async with run_bot(tmp_path, model, {"agent_max_steps": 3}) as bot:
        assert (await bot.says("Go!")).text == "Done."
        (result,) = results(bot)
        assert len(bot.server.requests) == 2 + 4
    assert result.startswith("I have got this far.\n\n(I stopped after 3 steps")


async def test_a_subagent_can_send_no_other_and_needs_a_task(tmp_path: Path) -> None:
    script = [sending("Delegate!"), sending("More!"), Say("I could not."), Say("Well.")]
    async with run_bot(tmp_path, [*script, sending(" "), Say("Sorry.")]) as bot:
        await bot.says("Go!")
        assert "There is no tool 'delegate'" in bot.sent_to_model(2)[-1]["content"]
        await bot.says("Go!")
        assert results(bot)[-1] == "delegate needs a task: what the sub-agent is to do."


@pytest.mark.parametrize("failure", [Fail(401, {"message": "no"}), openai_overflow(9_000, 8_000)])
async def test_an_error_of_its_model_is_the_tools_error(tmp_path: Path, failure: Fail) -> None:
    def model(request: Received) -> Answer:
        if is_subagent(request):
            return failure
        last = request.body["messages"][-1]
        return sending("Try.") if last["role"] == "user" else Say("It failed.")

    async with run_bot(tmp_path, model) as bot:
        reply = await bot.says("Try!")
        (result,) = results(bot)
        conversation = await bot.app.conversations.get(KEY)
        (turn,) = await conversation.context.turns([1])
    assert reply.text == "It failed."
    assert result.startswith("The sub-agent could not finish its task: ")
    assert turn.entries[2].message.is_error
    assert not turn.entries[2].message.terse


async def test_its_long_results_are_clipped_until_they_fit(tmp_path: Path) -> None:
    def model(request: Received) -> Answer:
        messages = request.body["messages"]
        if not is_subagent(request):
            return Say("Done.") if messages[-1]["role"] == "tool" else sending("Read.")
        steps = sum(message["role"] == "assistant" for message in messages)
        if steps < 4:
            return Say(calls=(Call("read_file", '{"path": "long.txt"}', f"r{steps}"),))
        return Say("Read it all.")

    (tmp_path / FILES).mkdir(parents=True)
    (tmp_path / FILES / "long.txt").write_text("a line of many words\n" * 2_000)
    settings = {"context": {"max_tokens": 12_000, "output_reserved": 1_000}}
    async with run_bot(tmp_path, model, settings, window=12_000) as bot:
        assert (await bot.says("Read!")).text == "Done."
        assert "\nRead it all.\n" in results(bot)[0]


async def test_stop_ends_the_subagent_too(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [sending("Take your time."), Hang("Well, ")]) as bot:
        await bot.writes("Go!", id="go")
        for _ in range(2):
            await bot.server.reached.acquire()
        await bot.says("/stop")
        reply = (await bot.reply_to("go")).reply
        await bot.server.hung_up.acquire()
    assert "Stopped, as you asked." in reply.text
    assert "Well" not in reply.text


async def test_watchers_see_its_tools_and_not_its_words(tmp_path: Path) -> None:
    script = [
        sending("Tell the time."),
        Say("Let me see.", calls=(Call("current_time", "{}", "t"),)),
        Say("It is late."),
        Say("Late."),
    ]
    events: list[Activity] = []
    async with run_bot(tmp_path, script) as bot:
        watching = await bot.watches(events)
        await bot.says("How late is it?")
        watching.cancel()
    assert [e.name for e in events if isinstance(e, ToolStarted)] == ["delegate", "current_time"]
    assert "".join(e.text for e in events if isinstance(e, Delta)) == "Late."
