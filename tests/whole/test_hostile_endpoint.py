"""An endpoint that wants to harm, before a bot in a process under limits: it answers in a sentence,
keeps what was said, holds little memory, and goes on."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from benchmarks.hostile_endpoint import FAMILIES, LIMITS, SETTINGS, HostileEndpoint, _peak
from bot.problems import BROKEN
from tests.fakes.openai_server import Answer, Call, OpenAIServer, Received, Say
from tests.whole.process import talking
from tests.whole.testbot import run_bot

MOST_MEMORY = 500
"""MB; the bot itself takes 110."""
HEARD = {
    "one huge JSON": "sent more than 4 MB at once",
    "gzip bomb": "answered with compressed text ('gzip')",
    "no newline": "sent more than 4 MB at once",
    "words, then no newline": "As far as I know.\n\n(The answer ends here because it is as long",
    "endless words": "(The answer ends here because it is as long",
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
async def test_an_endpoint_that_wants_to_harm_gets_nowhere(tmp_path: Path) -> None:
    """Run a process under limits, with an agent for each kind of endpoint."""
    families = [family for family in FAMILIES if family.name in HEARD]
    async with AsyncExitStack() as stack:
        endpoints = [
            await stack.enter_async_context(HostileEndpoint(family)) for family in families
        ]
        agents = [
            {
                "id": f"agent{number}",
                "brain": {
                    "model": "auto" if family.is_listing else "gpt-4o-mini",
                    "config": {"base_url": endpoint.base_url},
                },
            }
            for number, (family, endpoint) in enumerate(zip(families, endpoints, strict=True))
        ]
        settings = {**SETTINGS, "agents": agents}
        bot = await stack.enter_async_context(talking(tmp_path, None, settings, shell=LIMITS))

        async def meet(number: int) -> None:
            name, chat = families[number].name, f"chat {number}"
            said = [
                (await bot.says(text, chat=chat, id=f"{number} {text}"))["text"]
                for text in (f"/agent agent{number}", "Hello?", "and now?")
            ]
            assert HEARD[name] in said[1], (name, said[1][:1_000])
            assert BROKEN not in said[1], name
            assert said[2] == "Fine.", name
            assert endpoints[number].elsewhere == [], "nothing reached another address"

        slow = [number for number, family in enumerate(families) if family.pause]
        waiting = asyncio.gather(*map(meet, slow))  # they take no CPU while the others do
        for number in set(range(len(families))).difference(slow):
            await meet(number)
        await waiting
        assert _peak(bot) < MOST_MEMORY


def many(count: int) -> Say:
    """An answer with so many calls, all of a tool that there is."""
    return Say(
        calls=tuple(
            Call("calculate", json.dumps({"expression": f"{n}+1"}), f"c{n}") for n in range(count)
        )
    )


async def test_of_too_many_calls_the_first_are_run_and_the_model_is_told(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        asked = str(request.body["messages"][-1]["content"])
        return many(int(asked[-1])) if asked.startswith("Count ") else Say("Done.")

    async with run_bot(tmp_path, script, {"agent_max_calls": 4}) as bot:
        assert (await bot.says("Count to 4")).text == "Done."
        *_, all_asked, first, _two, _three, fourth = bot.sent_to_model()
        assert (len(all_asked["tool_calls"]), all_asked["content"] or "") == (4, "")
        assert (first["content"], fourth["content"]) == ("1", "4")
        assert (await bot.says("Count to 9")).text == "Done."
        *_, asked, one, two, three, last = bot.sent_to_model()
    assert [message["content"] for message in (one, two, three)] == ["1", "2", "3"]
    assert [call["id"][:2] for call in asked["tool_calls"]] == ["c0", "c1", "c2", "c3"]
    assert last["content"].startswith("4\n\n")
    assert "only the first 4 calls were run; the limit is `agent_max_calls`." in last["content"]


async def test_a_summary_without_an_end_is_no_longer_than_was_asked_for(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return Say("Fine.") if request.is_turn else Say("word " * 600_000, pieces=100)

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
