"""The real behaviour of providers: refusals that the bot learns from, and histories that strict
providers accept."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.loop import CUT_CALLS, SHORTFALLS
from agent.models.base import Finish
from agent.models.brain import PROVIDERS
from agent.pictures import Pictures
from bot.received import key_of
from channels.base import Activity, Delta, StepRestarted
from channels.message import Address, Attachment
from plugins.request_log.reading import StoredRequests, rebuild
from tests.fakes.openai_server import Answer, Call, Fail, Received, Say
from tests.waiting import until
from tests.whole.requests import answered, events, whole
from tests.whole.test_attachments import AUDIENCE, PNG, url, urls
from tests.whole.testbot import run_bot

NO_TOOLS = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


def refusing(
    is_refused: Callable[[dict[str, Any]], bool], said: str, status: int = 400
) -> Callable[[Received], Answer]:
    """Answer with a refusal if a body is refused, and otherwise with a word."""

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
        assert "accepts no tools at" in first.text
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


async def test_a_request_that_is_too_large_is_made_smaller_before_it_is_sent(
    tmp_path: Path,
) -> None:
    """A proxy in front that accepts no body of 100 kB (opencode#14562: 413 for any body)."""

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


@pytest.mark.parametrize("subject", ["The model", "This API key's account", "parameter error:"])
@pytest.mark.parametrize(
    "size", ["supports 4096 tokens", "input length is not supported", "input is too long"]
)
async def test_a_refusal_that_has_a_measure_is_tried_with_less(
    tmp_path: Path, subject: str, size: str
) -> None:
    """The refusal may also name a model or a parameter, which shorter messages would not change."""
    words = f"{subject} {size}."
    async with run_bot(tmp_path, refusing(lambda body: len(body["messages"]) > 8, words)) as bot:
        for number in range(5):
            reply = await bot.says(f"Question {number}?")
        assert reply.text.startswith("Yes.")


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
        assert commands == ["/retry t1", "/context compact", "/context clear"]
        await bot.says(commands[-1])
        assert (await bot.says("And now?")).text == "Yes."


async def test_a_picture_that_is_refused_hides_no_other(tmp_path: Path) -> None:
    """This costs one refusal, of which the person is notified once."""
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
        log = StoredRequests(conversation.turns)
        pictures = Pictures(tmp_path / AUDIENCE)
        for number in await log.numbers():
            sent = await log.request(number)
            assert sent is not None
            assert (await rebuild(log, sent, pictures)).is_same, number


async def test_a_picture_that_was_refused_is_kept_as_such_once_a_request_without_it_is_taken(
    tmp_path: Path,
) -> None:
    """The first request without it may have failed for another reason."""
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
        assert "accepts no pictures" in (await bot.says("One?", files=(photos[0],))).text
        assert (await bot.says("Two?", files=(photos[1],))).text == "Yes."
        assert len(bot.server.requests) == 3


def complain(messages: list[dict[str, Any]]) -> str:
    """Return the strictest endpoint's refusal of a history; "" if it is accepted. The rules are
    written independently of the product: Mistral's order, Gemma's turns, OpenAI's names, the
    Responses API's ids, and JSON by RFC 8259."""
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
    """Stream thoughts that can only be recognised as such at their end."""
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
