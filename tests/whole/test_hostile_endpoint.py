"""An endpoint that wants to harm, before a bot in a process under limits: it answers in a sentence,
keeps what was said, holds little memory, and goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.hostile_endpoint import FAMILIES, Family, tried
from bot.problems import BROKEN
from tests.fakes.openai_server import Answer, Call, OpenAIServer, Received, Say
from tests.whole.testbot import run_bot

MOST_MEMORY = 500
"""MB; the bot itself takes 110."""
HEARD = {
    "one huge JSON": "sent more than 4 MB at once",
    "gzip bomb": "answered with compressed text ('gzip')",
    "no newline": "sent more than 4 MB at once",
    "words, then no newline": "As far as I know.\n\n(The answer ends here because it reached",
    "endless words": "(The answer ends here because it reached",
    "endless reasoning": "sent more than 2,000,000 characters at once",
    "an endless event": "sent more than 4 MB at once",
    "a deep nest": "broke off",
    "many small values": "gave an empty answer",
    "40,000 calls": "(I stopped after 3 steps",
    "20,000 calls at once": "(I stopped after 3 steps",
    "endless arguments": "sent more than 2,000,000 characters at once",
    "words, then comments": "As far as I know.\n\n(http",
    "blanks for ever": "kept the connection open for 3 s without an answer",
    "100 Continue for ever": "sent nothing for 1 s",
    "an endless error": "refused the request (error 400)",
    "an error in punycode": "refused the request (error 400)",
    "an endless list of models": "Fine.",
    "redirect elsewhere": "Nothing was sent there",
    "redirect of the list": "Fine.",
}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "family", [family for family in FAMILIES if family.name in HEARD], ids=lambda one: one.name
)
async def test_an_endpoint_that_wants_to_harm_gets_nowhere(family: Family, tmp_path: Path) -> None:
    row = await tried(family, tmp_path)
    assert HEARD[family.name] in row.heard
    assert BROKEN not in row.heard
    assert row.after == "Fine."
    assert row.peak < MOST_MEMORY
    assert row.elsewhere == 0, "nothing of what was said reached another address"


def many(count: int) -> Say:
    """An answer with so many calls, all of a tool that there is."""
    return Say(
        calls=tuple(
            Call("calculate", json.dumps({"expression": f"{n}+1"}), f"c{n}") for n in range(count)
        )
    )


async def test_of_too_many_calls_the_first_are_run_and_the_model_is_told(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return many(9) if request.body["messages"][-1]["content"] == "Count." else Say("Done.")

    async with run_bot(tmp_path, script, {"agent_max_calls": 4}) as bot:
        assert (await bot.says("Count.")).text == "Done."
        *_, asked, one, two, three, last, note = bot.sent_to_model()
    assert [message["content"] for message in (one, two, three, last)] == ["1", "2", "3", "4"]
    assert [call["id"] for call in asked["tool_calls"]] == ["c0", "c1", "c2", "c3"]
    assert "only the first 4 calls were run; the limit is `agent_max_calls`." in note["content"]


async def test_as_many_calls_as_a_step_may_are_all_run(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return Say("Done.") if request.body["messages"][-1]["role"] == "tool" else many(4)

    async with run_bot(tmp_path, script, {"agent_max_calls": 4}) as bot:
        assert (await bot.says("Count.")).text == "Done."
        results = [message for message in bot.sent_to_model() if message["role"] == "tool"]
        asked = next(m for m in bot.sent_to_model() if m.get("tool_calls"))
    assert len(results) == 4
    assert not asked["content"]


async def test_a_summary_without_an_end_is_no_longer_than_was_asked_for(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return Say("Fine.") if "tools" in request.body else Say("word " * 600_000, pieces=100)

    settings = {"agent_max_context_turns": 4, "context.summary_max_tokens": 100}
    async with run_bot(tmp_path, script, settings) as bot:
        for number in range(8):
            assert (await bot.says(f"question {number} " + "why " * 400)).text == "Fine."
        longest = max(len(str(message["content"])) for message in bot.sent_to_model())
    assert longest < 5_000


async def test_a_fallback_answers_for_a_model_that_sends_too_much(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        if request.body["model"] == "second":
            return Say("I am the second.")
        return Say(reasoning="Hm. " * 700_000, text="Well.", pieces=9)

    settings = {"fallback_models": ["second"]}
    async with run_bot(tmp_path, script, settings) as bot:
        assert (await bot.says("Hello?")).text == "I am the second."


async def test_a_sentence_about_an_endpoint_names_the_setting_that_it_is_from(
    tmp_path: Path,
) -> None:
    async with OpenAIServer() as other:
        brain = {"model": "other", "config": {"base_url": f"{other.base_url}/nothing"}}
        settings = {"agents": [{"id": "other", "brain": brain}], "agent": "other"}
        async with run_bot(tmp_path, settings=settings) as bot:
            reply = await bot.says("Hello?")
    assert "check the model's name and the agent's brain.config.base_url" in reply.text
