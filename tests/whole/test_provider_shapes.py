"""A bot in front of providers as they really behave: histories that strict ones take, ends that are
none, calls and summaries that are not whole, and waits of hours."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.loop import CUT_CALLS, SHORTFALLS
from agent.models.finish import Finish
from agent.models.providers import PROVIDERS
from channels.base import Activity, Delta, StepRestarted
from tests.fakes.openai_server import Answer, Call, Fail, Received, Say
from tests.waiting import until
from tests.whole.requests import whole
from tests.whole.testbot import run_bot


def complain(messages: list[dict[str, Any]]) -> str:
    """Return what the strictest endpoint says of a history; "" where it takes it. Written apart
    from the rules of the product: Mistral's order, Gemma's turns, OpenAI's names, the Responses
    API's ids, and JSON by RFC 8259."""
    roles = "".join("A" if m.get("tool_calls") else m["role"][0] for m in messages)
    if not re.fullmatch(r"s?u(?:(?:At+)*au)*(?:At+)*", roles):
        return f"the roles do not take turns: {roles}"
    calls = [call for m in messages for call in m.get("tool_calls") or ()]
    if len({call["id"] for call in calls}) < len(calls):
        return "an id comes again"
    for call in calls:
        if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["function"]["name"]):
            return f"{call['function']['name']!r} is no name"
        if re.search(r"NaN|Infinity", call["function"]["arguments"]):
            return "no JSON"
    empty = [m for m in messages if not m.get("content") and not m.get("tool_calls")]
    return "a message is empty" if empty else ""


def strictly(script: Callable[[Received], Answer]) -> Callable[[Received], Answer]:
    def answer(request: Received) -> Answer:
        complaint = complain(request.body["messages"])
        return Fail(400, {"message": complaint}) if complaint else script(request)

    return answer


def in_turn(*answers: Answer) -> Callable[[Received], Answer]:
    left = list(answers)
    return strictly(lambda _: left.pop(0))


async def test_a_tool_that_the_model_invented_is_refused_by_nobody(tmp_path: Path) -> None:
    names = ("functions.guess", " guess", "x" * 90, "guess<|channel|>commentary")
    odd = tuple(Call(name, '{"a": NaN}', f"c{n}") for n, name in enumerate(names))
    async with run_bot(tmp_path, in_turn(Say(calls=odd), Say("Well."), Say("Yes."))) as bot:
        assert (await bot.says("Add!")).text == "Well."
        results = [m["content"] for m in bot.sent_to_model() if m["role"] == "tool"]
        assert (await bot.says("And?")).text == "Yes."
    assert len(results) == 4
    assert all("There is no tool" in result for result in results)


async def test_calls_of_one_id_in_each_turn_keep_their_own_thoughts_and_results(
    tmp_path: Path,
) -> None:
    steps = [
        answer
        for n in range(3)
        for answer in (
            Say(
                calls=(Call("calculate", f'{{"expression": "{n}+1"}}', "call_0"),),
                reasoning=f"I add one to {n}.",
            ),
            Say(f"It is {n + 1}."),
        )
    ]
    brain = {"provider": "deepseek", "model": "deepseek-chat"}
    keys = {"DEEPSEEK_API_KEY": "deep"}
    async with run_bot(tmp_path, in_turn(*steps)) as other:
        other.server.thoughts = PROVIDERS["deepseek"].thoughts
        config = {"base_url": other.server.base_url}
        settings = {
            "agents": [{"id": "deep", "brain": {**brain, "config": config}}],
            "agent": "deep",
        }
        (tmp_path / "two").mkdir()
        async with run_bot(tmp_path / "two", (), settings, keys) as bot:
            for n in range(3):
                assert (await bot.says(f"{n}?")).text == f"It is {n + 1}."
            sent = other.sent_to_model()
    thoughts = [m["reasoning_content"] for m in sent if m.get("tool_calls")]
    assert thoughts == [f"I add one to {n}." for n in range(3)]
    assert [m["content"] for m in sent if m["role"] == "tool"] == ["1", "2", "3"]


async def test_a_call_that_was_cut_off_is_told_and_after_two_it_ends(tmp_path: Path) -> None:
    cut = Say(calls=(Call("calculate", '{"expression": "2+', "c"),), finish="length")
    script = in_turn(cut, cut, Say("I can't."), Say("Yes."))
    async with run_bot(tmp_path, script) as bot:
        reply = await bot.says("Add!")
        results = [m["content"] for m in bot.sent_to_model() if m["role"] == "tool"]
        assert bot.server.turns[-1].body["tool_choice"] == "none"
        assert len(bot.server.requests) == 3
        assert (await bot.says("And?")).text == "Yes."
    assert reply.text.startswith("I can't.")
    assert CUT_CALLS in reply.text
    assert all("cut off by the length limit" in result for result in results)


WORDS: dict[str, Finish] = {
    "length": "length",
    "model_length": "length",
    "sensitive": "filtered",
    "content_filter": "filtered",
    "refusal": "refused",
    "network_error": "interrupted",
    "insufficient_system_resource": "interrupted",
    "of_tomorrow": "unknown",
}


async def test_what_is_not_complete_is_told_under_the_answer(tmp_path: Path) -> None:
    script = in_turn(*(Say("It was", finish=word) for word in WORDS), Say("It was all."))
    async with run_bot(tmp_path, script) as bot:
        for word, meaning in WORDS.items():
            text = (await bot.says("Go on.")).text
            assert text.startswith("It was")
            assert SHORTFALLS[meaning] in text, word
        assert (await bot.says("Go on.")).text == "It was all."
        assert "The answer" not in whole(bot.sent_to_model()[1:]), "nothing of it is sent"


async def test_thoughts_that_were_shown_as_text_are_taken_back(tmp_path: Path) -> None:
    """Stream thoughts that are known to be thoughts at their end alone."""
    events: list[Activity] = []
    async with run_bot(tmp_path, in_turn(Say("Hm. Four.\n</think>\n\nIt is 4."))) as bot:
        watching = await bot.watches(events)
        assert (await bot.says("2+2?")).text == "It is 4."
        await until(lambda: any(isinstance(event, StepRestarted) for event in events))
        watching.cancel()
    shown = ""
    for event in events:
        shown = "" if isinstance(event, StepRestarted) else shown
        shown += event.text if isinstance(event, Delta) else ""
    assert shown == "It is 4."
