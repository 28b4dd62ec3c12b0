"""Refusals that teach: what the next request is, what the person hears, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.pictures import Pictures
from bot.received import key_of
from channels.message import Address, Attachment
from plugins.request_log.reading import KeptRequests, rebuild
from tests.fakes.openai_server import Answer, Body, Call, Fail, Received, Say
from tests.whole.requests import answered, events
from tests.whole.test_attachments import AUDIENCE, PNG, url, urls
from tests.whole.testbot import run_bot

ADD = Call("calculate", '{"expression": "2+2"}', "call_0")
NO_TOOLS = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


def refusing(
    is_refused: Callable[[dict[str, Any]], bool], said: str, status: int = 400
) -> Callable[[Received], Answer]:
    """Answer with a refusal where a body is refused, and else with a word."""

    def answer(request: Received) -> Answer:
        if is_refused(request.body):
            return Fail(status, {"message": said})
        return Say("Yes.")

    return answer


@pytest.mark.parametrize("status", [400, 500])
async def test_a_model_that_takes_no_tools_is_asked_without_and_that_is_said_once(
    tmp_path: Path, status: int
) -> None:
    said = NO_TOOLS if status == 400 else "tools param requires --jinja flag"
    script = refusing(lambda body: "tools" in body, said, status)
    async with run_bot(tmp_path, script) as bot:
        first = await bot.says("One?")
        assert first.text.startswith("Yes.")
        assert "takes no tools at" in first.text
        sent = len(bot.server.requests)
        assert (await bot.says("Two?")).text == "Yes."
        assert len(bot.server.requests) == sent + 1
        assert "It takes no tools." in (await bot.says("/model")).text


async def test_what_was_learnt_is_kept_and_forgotten_when_somebody_says_so(tmp_path: Path) -> None:
    script = refusing(lambda body: "stream_options" in body, "Unknown parameter: stream_options")
    async with run_bot(tmp_path, script) as other:
        base = {"OPENAI_BASE_URL": other.server.base_url}
        folder = tmp_path / "two"
        folder.mkdir()
        for refusals in (1, 0):
            before = len(other.server.requests)
            async with run_bot(folder, (), None, base) as bot:
                assert (await bot.says(f"One? {refusals}")).text == "Yes."
                assert (await bot.says(f"Two? {refusals}")).text == "Yes."
                assert len(other.server.requests) == before + 2 + refusals
        async with run_bot(folder, (), None, base) as bot:
            assert "Not sent: stream_options." in (await bot.says("/model")).text
            assert "Forgotten" in (await bot.says("/model forget")).text
            assert "Nothing was learned" in (await bot.says(" /model forget")).text
            before = len(other.server.requests)
            assert (await bot.says("Three?")).text == "Yes."
            assert len(other.server.requests) == before + 2


async def test_reasoning_is_sent_back_to_who_demands_it(tmp_path: Path) -> None:
    """Kimi K2 and DeepSeek behind a name that nobody knows (opencode#10996, LangBot#2223)."""

    def answer(request: Received) -> Answer:
        calling = [m for m in request.body["messages"] if m.get("tool_calls")]
        if not all(m.get("reasoning_content", "").strip() for m in calling):
            words = "reasoning_content is missing in assistant tool call message at index 2"
            return Fail(400, {"message": f"thinking is enabled but {words}"})
        if request.body["messages"][-1]["role"] == "user":
            return Say(calls=(ADD,), reasoning="Two and two.")
        return Say("Four.")

    async with run_bot(tmp_path, answer) as bot:
        bot.server.thoughts = "reasoning_content"
        assert (await bot.says("Add!")).text == "Four."
        calling = [m for m in bot.sent_to_model() if m.get("tool_calls")]
        assert [m["reasoning_content"] for m in calling] == ["Two and two."]
        assert len(bot.server.requests) == 3
        assert (await bot.says("Again!")).text == "Four."
        assert len(bot.server.requests) == 5


async def test_a_request_that_is_too_large_is_made_smaller_before_it_is_sent(
    tmp_path: Path,
) -> None:
    """A proxy in front that takes no body of 100 kB (opencode#14562: 413 of any body)."""

    def answer(request: Received) -> Answer:
        if len(str(request.body)) > 100_000:
            return Fail(413, "<html>Request Entity Too Large</html>")
        return Say("Yes.")

    async with run_bot(tmp_path, answer, {"context": {"max_tokens": 400_000}}) as bot:
        for number in range(4):
            assert (await bot.says(f"{number} " + "words " * 5_000)).text.startswith("Yes.")
        large = sum(len(str(one.body)) > 100_000 for one in bot.server.requests)
        assert large == 1
        assert "Requests stay below" in (await bot.says("/model")).text


async def test_a_refusal_that_nobody_understands_is_tried_once_with_less(tmp_path: Path) -> None:
    script = refusing(lambda body: len(body["messages"]) > 8, "Something is off with this.")
    async with run_bot(tmp_path, script) as bot:
        for number in range(4):
            await bot.says(f"Question {number}?")
        reply = await bot.says("Question 4?")
        assert reply.text.startswith("Yes.")
        assert "refused this request for an unclear reason" in reply.text
        assert "fallback model" not in reply.text, "there is none"
        assert (await bot.says("Question 5?")).text.startswith("Yes.")


@pytest.mark.parametrize(
    "words",
    [
        "Invalid value for 'temperature': it must be at most 1.",
        "Unsupported parameter: 'seed'.",
        "Invalid API key.",
        "The model gpt-x does not support this.",
        "response_format is not a schema",
    ],
)
async def test_a_refusal_of_something_else_takes_nothing_out_of_the_context(
    tmp_path: Path, words: str
) -> None:
    async with run_bot(tmp_path, refusing(lambda body: len(body["messages"]) > 8, words)) as bot:
        for number in range(4):
            await bot.says(f"Question {number}?")
        before = len(answered(bot))
        await bot.says("Question 4?")
        assert len(answered(bot)) == before + 1
        assert await events(bot) == []


async def test_what_was_removed_in_vain_comes_back(tmp_path: Path) -> None:
    is_off = [False]
    script = refusing(lambda body: is_off[0], "Something is off with this.")
    async with run_bot(tmp_path, script) as bot:
        for number in range(4):
            await bot.says(f"Question {number}?")
        is_off[0] = True
        before = len(answered(bot))
        assert "Something is off with this." in (await bot.says("Why?")).text
        assert len(answered(bot)) == before + 2
        assert "Something is off with this." in (await bot.says("Why now?")).text
        assert len(answered(bot)) == before + 3, "once, until a request is accepted"
        is_off[0] = False
        assert (await bot.says("And now?")).text == "Yes."
        assert "Question 0?" in str(bot.sent_to_model())


async def test_below_a_refusal_stand_buttons_that_make_the_next_message_work(
    tmp_path: Path,
) -> None:
    script = refusing(lambda body: "Hello?" in str(body["messages"]), "Bad \x1a character.")
    async with run_bot(tmp_path, script) as bot:
        refused = await bot.says("Hello?")
        assert "`/context clear`" in refused.text
        commands = [action.command for action in refused.actions]
        assert commands == ["/retry", "/context compact", "/context clear"]
        await bot.says(commands[-1])
        assert (await bot.says("And now?")).text == "Yes."


async def test_thoughts_of_another_model_are_not_sent_to_the_next(tmp_path: Path) -> None:
    """OpenRouter: signatures are of the model that made them (oh-my-pi#3399)."""

    def answer(request: Received) -> Answer:
        if request.body["messages"][-1]["role"] == "user":
            name = request.body["model"]
            detail = {"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": name}
            said = {"role": "assistant", "reasoning_details": [detail], "tool_calls": [CALL]}
            choice = {"message": said, "finish_reason": "tool_calls"}
            return Body(json.dumps({"choices": [choice]}), "application/json")
        return Say("Four.")

    async with run_bot(tmp_path, answer) as other:
        config = {"base_url": other.server.base_url}
        settings = {"brain": {"provider": "openrouter", "config": config}, "model": "a/one"}
        other.server.thoughts = "reasoning_details"
        folder = tmp_path / "two"
        folder.mkdir()
        async with run_bot(folder, (), settings, {"OPENROUTER_API_KEY": "k"}) as bot:
            for name in ("a/one", "a/two"):
                await bot.says(f"/model {name}")
                assert (await bot.says("Add!")).text == "Four."
                last = other.server.turns[-1].body
                signed = [d["signature"] for d in _details(last["messages"])]
                assert signed == [name]


CALL = {
    "index": 0,
    "id": "call_0",
    "type": "function",
    "function": {"name": "calculate", "arguments": '{"expression": "2+2"}'},
}


def _details(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for m in messages for one in m.get("reasoning_details", ())]


async def test_a_picture_that_is_refused_hides_no_other(tmp_path: Path) -> None:
    """At the price of one refusal, which the person hears of once."""
    good, bad, later = (Attachment(f"{n}.png", "image/png", PNG + n.encode()) for n in "abc")
    script = refusing(lambda body: url(bad) in str(body), "Could not process image")
    async with run_bot(tmp_path, script) as bot:
        assert (await bot.says("One?", files=(good,))).text == "Yes."
        reply = await bot.says("Two?", files=(bad,))
        assert "refused a picture" in reply.text
        assert len(bot.server.requests) == 3
        assert (await bot.says("Three?", files=(later,))).text == "Yes."
        assert len(bot.server.requests) == 4
        assert urls(bot.sent_to_model()) == [url(good), url(later)]
        conversation = await bot.app.conversations.get(key_of(Address("pipe", "main")))
        log = KeptRequests(conversation.turns)
        pictures = Pictures(tmp_path / AUDIENCE, lambda: 9)
        for number in await log.numbers():
            sent = await log.request(number)
            assert sent is not None
            assert (await rebuild(log, sent, pictures)).is_same, number


async def test_pictures_of_a_request_that_is_too_large_are_not_refused_for_good(
    tmp_path: Path,
) -> None:
    """The oldest are told in words, as many as it takes; a later one is sent as it is."""
    photos = [Attachment(f"{n}.png", "image/png", PNG + bytes([n]) * 25_000) for n in range(6)]

    def answer(request: Received) -> Answer:
        if len(json.dumps(request.body)) > 100_000:
            return Fail(413, "<html>Request Entity Too Large</html>")
        return Say("Yes.")

    async with run_bot(tmp_path, answer) as bot:
        for number, photo in enumerate(photos):
            assert (await bot.says(f"{number}?", files=(photo,))).text.startswith("Yes.")
            assert urls(bot.sent_to_model())[-1] == url(photo)
        large = sum(len(json.dumps(one.body)) > 100_000 for one in bot.server.requests)
        assert large == 1, "then its size is known before it is sent"
        said = (await bot.says("/model")).text
        assert "Requests stay below" in said
        assert "Pictures that it refused" not in said


async def test_a_picture_that_was_refused_is_kept_as_such_once_a_request_without_it_is_taken(
    tmp_path: Path,
) -> None:
    """Also where the first request without it came to nothing for another reason."""
    good, bad = (Attachment(f"{n}.png", "image/png", PNG + n.encode()) for n in "ab")
    answers = [Fail(400, {"message": "Could not process image"}), Fail(403, {"message": "No."})]

    def answer(request: Received) -> Answer:
        return answers.pop(0) if answers else Say("Yes.")

    async with run_bot(tmp_path, answer) as bot:
        await bot.says("One?", files=(good, bad))
        assert "Pictures that it refused" not in (await bot.says("/model")).text
        assert (await bot.says("Two?")).text.startswith("Yes.")
        assert urls(bot.sent_to_model()) == [url(good)]
        assert "Pictures that it refused: 1." in (await bot.says("/model")).text


async def test_a_model_that_sees_nothing_is_told_in_words_and_that_is_said_once(
    tmp_path: Path,
) -> None:
    photos = [Attachment(f"{n}.png", "image/png", PNG + n.encode()) for n in "ab"]
    script = refusing(lambda body: "image_url" in str(body), "unknown variant `image_url`")
    async with run_bot(tmp_path, script) as bot:
        assert "takes no pictures" in (await bot.says("One?", files=(photos[0],))).text
        assert (await bot.says("Two?", files=(photos[1],))).text == "Yes."
        assert len(bot.server.requests) == 3
