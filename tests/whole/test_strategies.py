"""The strategies, checked in the requests as their documents describe them, and switched during a
conversation."""

from __future__ import annotations

from pathlib import Path

import pytest
from openai import AsyncOpenAI

from channels.base import Activity, Delta
from tests.fakes.openai_server import Answer, Received, Say
from tests.web.site import serving
from tests.whole.requests import (
    answering,
    content,
    has_results,
    heard,
    last_asked,
    looks,
    put_file,
    settled,
    steps,
    whole,
)
from tests.whole.scenario import ask_many as talk
from tests.whole.test_busy import busy, gate
from tests.whole.test_busy import script as busy_script
from tests.whole.testbot import TestBot, run_bot

SLIM = {"context": {"strategy": "slim", "fold_turns": 1, "full_turns": 1}}
DASHBOARD = "I created the dashboard with three sections for shopping, todos, and schedule."
LINE = "created dashboard with shopping, todo, schedule sections"


def tagged(request: Received) -> Answer:
    """Return a reply that ends with a tag, as the system prompt asks."""
    number = str(request.body["messages"][-1]["content"]).split()[-1]
    return Say(f"reply {number}\n<terse>did {number}</terse>")


async def test_nobody_sees_a_terse_tag_neither_streamed_nor_sent_nor_in_commands(
    tmp_path: Path,
) -> None:
    script = [Say(f"{DASHBOARD}\n<terse>{LINE}</terse>"), Say("<TERSE>only this</TERSE>")]
    events: list[Activity] = []
    async with run_bot(tmp_path, script, SLIM) as bot:
        watching = await bot.watches(events)
        assert (await bot.says("Make a dashboard")).text == DASHBOARD
        assert (await bot.says("And now?")).text == "only this"
        for line in ("/context detail", "/context turns", "/context search dashboard"):
            assert "terse>" not in (await bot.says(line)).text.replace(
                "<terse>what was done, key decisions</terse>", ""
            )
        watching.cancel()
    streamed = "".join(event.text for event in events if isinstance(event, Delta))
    assert streamed == f"{DASHBOARD}only this"


async def test_the_model_is_asked_for_tags_under_slim_alone(tmp_path: Path) -> None:
    async with run_bot(tmp_path, tagged, SLIM) as bot:
        await bot.says("question 1")
        assert "<terse>" in bot.sent_to_model()[0]["content"]
        await bot.says("/config context.strategy full")
        reply = await bot.says("question 2")
        assert "<terse>" not in bot.sent_to_model()[0]["content"]
        assert reply.text == "reply 2", "nobody asked for it, and it is hidden all the same"


async def test_the_log_grows_line_by_line_and_context_shows_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, tagged, SLIM) as bot:
        for number in range(1, 5):
            await bot.says(f"question {number}")
        sent = bot.sent_to_model()
        shown = (await bot.says("/context")).text
        turns = (await bot.says("/context turns")).text
        map_ = await bot.says("/context map")
        preview = (await bot.says("/context preview")).text
    log = sent[1]["content"].splitlines()
    assert log[0] == "[Context -- Activity Log]"
    assert [line.partition("] ")[2] for line in log[1:]] == [
        "assistant: did 1",
        "assistant: did 2",
    ]
    assert [message["content"] for message in sent[3:]] == [
        "question 3",
        "reply 3\n<terse>did 3</terse>",
        "question 4",
    ]
    assert "activity log" in shown
    assert "slim (configuration file), the last 1 turn in full" in shown
    assert turns.count("in the log") == 2
    assert map_.images
    assert "t3 becomes a line of the log" in preview


async def test_each_change_of_strategy_plans_over_all_that_was_said(tmp_path: Path) -> None:
    async with run_bot(tmp_path, tagged, SLIM) as bot:
        for number in range(1, 6):
            await bot.says(f"question {number}")
        await bot.says("/config context.strategy full")
        await bot.says("question 6")
        everything = [str(m["content"]) for m in bot.sent_to_model()]
        await bot.says("/config context.strategy slim")
        await bot.says("question 7")
        folded = bot.sent_to_model()
        history = (await bot.says("/context history")).text
    assert [text for text in everything if text.startswith("question")] == [
        f"question {number}" for number in range(1, 7)
    ]
    assert len(folded[1]["content"].splitlines()) == 6
    assert "change of strategy" in history
    assert "move into the log" in history


async def test_freeing_lets_all_but_the_newest_messages_leave_and_says_when_there_is_nothing(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, tagged, {"context": {"strategy": "full"}}) as bot:
        await bot.says("question 1")
        few = await bot.says("/context free")
        assert few.text == (
            "There is nothing to compact: the 2 messages in context would stay anyway."
        )
        for number in range(2, 6):
            await bot.says(f"question {number}")
        freed = await bot.says("/context free")
        assert freed.data is not None
        assert freed.data["turns"] == ["t1", "t2"], "half of t3 would stay, so that it stays whole"
        assert freed.data["freed"] > 0
        assert "outside" not in (await bot.says("/context history")).text, "a person asked for it"


@pytest.mark.parametrize("headers", [{}, {"X-Parley-Session": "home"}], ids=["alone", "kept"])
async def test_a_terse_tag_is_not_streamed_over_openais_protocol(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    documented = f"{DASHBOARD}\n<terse>{LINE}</terse>"
    async with (
        serving(tmp_path, answering(lambda _: Say(documented)), SLIM) as site,
        AsyncOpenAI(base_url=f"{site.url}/v1", api_key="none", max_retries=0) as openai,
    ):
        stream = await openai.chat.completions.create(
            model="parley",
            messages=[{"role": "user", "content": "Make it."}],
            stream=True,
            extra_headers=headers,
        )
        chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == DASHBOARD


async def test_the_preview_shows_what_a_raised_setting_brings_back(tmp_path: Path) -> None:
    context = {"strategy": "slim", "full_turns": 1, "fold_turns": 1}
    async with run_bot(tmp_path, lambda _: Say("Yes."), {"context": context}) as bot:
        for number in range(6):
            await bot.says(f"question {number}")
        before = (await bot.says("/context json")).data
        await bot.says("/config context.full_turns 4")
        preview = await bot.says("/context preview")
        assert (await bot.says("/context json")).data["turns"] == before["turns"]  # type: ignore[index]
        await bot.says("question 6")
        asked = [m["content"] for m in bot.sent_to_model() if m["role"] == "user"][1:-1]
    assert preview.data is not None
    shown = [row["beginning"] for row in preview.data["messages"] if row["message"] == "user"][:-1]
    assert shown == asked == [f"question {number}" for number in range(2, 6)]
    assert "come back" in preview.text


async def test_what_was_at_hand_at_a_cut_is_told_again_under_a_strategy_chosen_later(
    tmp_path: Path,
) -> None:
    settings = {"context": {"strategy": "trim"}}
    async with run_bot(tmp_path, answering(lambda _: Say("Fine.")), settings) as bot:
        for number in range(4):
            await bot.says(f"Question {number}. " + "word " * 300)
        await bot.says("/context compact")
        await bot.says("Between.")
        assert "Tools at hand" not in whole(steps(bot)[-1])
        await bot.says("/config context.strategy summarize --here")
        await bot.says("After.")
        assert "Tools at hand (native tool calls): " in whole(steps(bot)[-1])


SUMMARY = "<summary-of-earlier-turns>\nThey talked.\n</summary-of-earlier-turns>\n\n"


def echo(request: Received) -> Answer:
    """Summaries are one line, replies repeat the question's number."""
    if request.is_summary:
        return Say("They talked.")
    return Say(f"reply {str(request.body['messages'][-1]['content']).split()[-1]}")


def turns_sent(bot: TestBot) -> list[str]:
    """Return the last request of a turn, without the system prompt."""
    return [str(message["content"]) for message in bot.sent_to_model()[1:]]


async def test_a_squeeze_is_shown_as_a_squeeze(tmp_path: Path) -> None:
    """Only the messages between question and reply were removed."""

    def script(request: Received) -> Answer:
        if last_asked(request) == "look" and not has_results(request):
            return looks(request, "long.txt")
        return Say("Seen.")

    put_file(tmp_path, "long.txt", "some words in a line\n" * 250)
    async with run_bot(tmp_path, script) as bot:
        for _ in range(3):
            await bot.says("look")
        assert sum(len(text) > 3_000 for text in turns_sent(bot)) == 3
        await bot.says("/config agent_max_context_tokens 4000")
        await bot.says("and now?")
        assert turns_sent(bot) == ["look", "Seen.", "look", "Seen.", "look", "Seen.", "and now?"]
        history = (await bot.says("/context history")).text.lower()
        assert "shorten" in (await bot.says("/context")).text.lower()
    assert "shorten" in history
    assert "compaction" not in history


async def test_a_restart_restores_three_turns_as_text_and_says_so_once_and_undo_brings_all_back(
    tmp_path: Path,
) -> None:
    settings = {"restore": "recent"}
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 2)
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 8, start=3)
        assert "/context undo" not in heard(bot), "nothing was set aside"
    async with run_bot(tmp_path, echo, settings) as bot:
        await bot.says("/context")
        await bot.app.conversations.flush()
        await talk(bot, 1, start=11)
        told = bot.sent[-1].reply.text
        for words in ("t1 to t7 removed", "/context undo"):
            assert words in told
        assert turns_sent(bot) == [
            f"{SUMMARY}question 8", "reply 8", "question 9", "reply 9", "question 10", "reply 10",
            "question 11",
        ]  # fmt: skip
        assert "restart" in (await bot.says("/context undo")).text
        await talk(bot, 1, start=12)
        assert len(turns_sent(bot)) == 23
        assert bot.sent[-1].reply.text == "reply 12", "it is said once"


@pytest.mark.parametrize(("when_busy", "restore"), [("collect", "recent"), ("steer", "exact")])
async def test_messages_that_were_joined_to_one_turn_survive_a_restart(
    tmp_path: Path, when_busy: str, restore: str
) -> None:
    settings = {"when_busy": when_busy, "restore": restore}
    async with busy(tmp_path, when_busy, restore=restore) as bot:
        await bot.writes("two", id="second")
        await bot.writes("three", id="third")
        gate("opened").set()
        await bot.reply_to("first" if when_busy == "steer" else "second")
        await settled(bot)
    async with run_bot(tmp_path, busy_script, settings) as bot:
        await bot.says("next")
        asked = [content(m) for m in steps(bot)[-1] if m["role"] == "user"]
    assert {"wait", "two", "three", "next"} <= set(" ".join(asked).split())


async def test_an_exact_restart_sends_the_very_same_beginning(tmp_path: Path) -> None:
    """It is the default."""
    settings = {"agent_max_context_turns": 6}
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 10)
        before = turns_sent(bot)
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 1, start=11)
        assert turns_sent(bot)[: len(before)] == before


async def test_a_frame_that_fills_the_window_is_told_with_its_sizes(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"context": {"max_tokens": 500}}) as bot:
        reply = await bot.says("Hello")
        assert not bot.server.requests, "nothing is sent that can't fit"
    assert "500" in reply.text
    assert "tools" in reply.text
    assert "context.max_tokens" in reply.text
