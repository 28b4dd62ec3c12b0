"""`/fork`, `/branches` and `/btw` at Telegram: in private, in groups and topics; who sees them."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.openai_server import Received, Say
from tests.fakes.telegram_server import Person
from tests.whole.telegram_testbot import TelegramTestBot, at_telegram
from tests.whole.test_telegram_groups import GROUP, questions

TWO = {"owners": ["telegram/42", "telegram/43"]}


def echo(request: Received) -> Say:
    last = str(request.body["messages"][-1]["content"])
    return Say(f"re: {last.rpartition(': ')[2]}")


async def said(bot: TelegramTestBot, person: Person, text: str) -> None:
    """Say something to the bot in a group, and wait for the model's answer."""
    person.says(f"@parley_bot {text}")
    await bot.telegram.shown(f"re: {text}")


async def test_in_a_group_a_fork_leads_everybody_there_and_nobody_elsewhere(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, echo, TWO) as bot:
        group = bot.telegram.group(GROUP)
        ann, bob = bot.ann.at(group), bot.telegram.person("Bob", 43).at(group)
        await said(bot, ann, "first")
        await said(bot, bob, "second")
        ann.says("/fork@parley_bot t1 Aside")
        forked = await bot.telegram.shown("You are in branch 2, “Aside” now", chat=GROUP)
        await said(bot, bob, "third")
        assert questions(bot) == ["Ann: first", "Bob: third"]
        bot.ann.says("/branches")
        await bot.telegram.shown("This chat has one conversation and no branches", chat=42)
        bob.presses(forked, "Go back")
        await bot.telegram.shown("You are in branch 1", chat=GROUP)
        await said(bot, ann, "fourth")
        assert questions(bot) == ["Ann: first", "Bob: second", "Ann: fourth"]


async def test_another_member_sees_what_was_asked_aside_and_the_model_does_not(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, echo, TWO) as bot:
        group = bot.telegram.group(GROUP)
        ann, bob = bot.ann.at(group), bot.telegram.person("Bob", 43).at(group)
        await said(bot, ann, "first")
        ann.says("/btw who is it?")
        await bot.telegram.shown("re: who is it?", chat=GROUP)
        assert questions(bot) == ["Ann: first", "Ann: who is it?"]
        bob.says("/btw")
        listed = await bot.telegram.shown("Ann: who is it?", chat=GROUP)
        assert "re: who is it?" in listed.text
        await said(bot, bob, "second")
        assert questions(bot) == ["Ann: first", "Bob: second"]


async def test_a_stranger_in_a_group_neither_branches_nor_asks_nor_sees_anything(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path, echo) as bot:
        group = bot.telegram.group(GROUP)
        ann, eve = bot.ann.at(group), bot.telegram.person("Eve", 66).at(group)
        await said(bot, ann, "first")
        ann.says("/fork Plan")
        forked = await bot.telegram.shown("You are in branch 2, “Plan” now")
        shown = len(bot.telegram.texts)
        for line in ("/btw what is the plan?", "/fork", "/branches", "/branches 1"):
            eve.says(line)
        eve.presses(forked, "Go back")
        eve.presses(forked, "All branches")
        await bot.telegram.called("answerCallbackQuery", 2)
        await bot.is_idle()
        (told,) = bot.telegram.texts[shown:]
        assert "Ask its owner to send it" in told
        assert "Plan" not in told
        ann.says("/branches")
        listed = await bot.telegram.shown("You are in branch 2. /branches N")
        assert [*listed.buttons] == ["1: first"]
        ann.says("/btw")
        await bot.telegram.shown("No side question was asked here.")
        assert len(bot.model.requests) == 1
