"""Tests that type the tutorials as written: each line after > is sent, and the lines below it must
be in the answer."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.telegram_testbot import at_telegram
from tests.whole.testbot import TestBot, run_bot

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SUMMARY = "Two people plan Lisbon in November with 900 EUR. They stay in Alfama, at Casa do Largo."


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "docs" / page).read_text("utf-8"))


async def type_all(bot: TestBot, text: str) -> None:
    """Send each line that begins with >, and check that the lines below it are in the answer."""
    answer = ""
    for line in text.splitlines():
        if line.startswith("> "):
            answer = (await bot.says(line.removeprefix("> "))).text
            await bot.app.conversations.flush()
        else:
            assert line in answer, (line, answer)


async def test_the_first_hour_goes_as_its_page_says(tmp_path: Path) -> None:
    async with run_bot(tmp_path, lambda _: Say(SUMMARY)) as bot:
        texts = [text for language, text in blocks("first-hour.md") if language == "text"]
        assert len(texts) > 8
        for text in texts:
            await type_all(bot, text)


async def test_the_first_plugin_does_at_each_step_what_its_page_says(tmp_path: Path) -> None:
    file = tmp_path / "data" / "plugins" / "split.py"
    file.parent.mkdir(parents=True)
    steps: list[tuple[str, list[str]]] = []
    for language, text in blocks("first-plugin.md"):
        if language == "python":
            steps.append((text, []))
        else:
            steps[-1][1].append(text)
    assert [len(typed) for _, typed in steps] == [2, 1, 0]
    for code, typed in steps:
        file.write_text(code)
        async with run_bot(tmp_path) as bot:
            for text in typed:
                await type_all(bot, text)


async def test_the_tool_of_the_first_plugin_is_called_and_refuses_nonsense(tmp_path: Path) -> None:
    file = tmp_path / "data" / "plugins" / "split.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        [text for language, text in blocks("first-plugin.md") if language == "python"][-1]
    )
    calls = iter(({"amount": 126, "people": 4}, {"amount": 126, "people": 0}))

    def script(request: Received) -> Answer:
        is_asked = request.body["messages"][-1]["role"] == "user"
        arguments = str(next(calls)).replace("'", '"') if is_asked else ""
        return Say(calls=(Call("split_bill", arguments),)) if is_asked else Say("Done.")

    async with run_bot(tmp_path, script) as bot:
        await bot.says("Dinner was 126 EUR, and we were four.")
        assert bot.sent_to_model()[-1]["content"] == "31.50 each"
        await bot.says("And for nobody?")
        assert "people" in bot.sent_to_model()[-1]["content"]
        assert "each" not in bot.sent_to_model()[-1]["content"]


async def test_whoever_writes_at_telegram_is_let_in_as_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "telegram-bot.md").read_text("utf-8")
    (typed,) = re.findall(r"`(/pair \S+ owner)`", page)
    async with at_telegram(tmp_path, lambda _: Say("Hello!")) as bot:
        eve = bot.telegram.person("Eve", 66)
        eve.says("Hi")
        await bot.telegram.shown("Ask the bot's owner to send", chat=66)
        refused = " ".join(str(one) for one in bot.telegram.made("sendMessage"))
        (code,) = set(re.findall(r"\b[A-Z0-9]{4}-[A-Z0-9]{4}\b", refused))
        bot.ann.says(typed.replace("K7QM-2XRD", code))
        await bot.telegram.shown("now has access", chat=42)
        eve.says("Hi again")
        await bot.telegram.shown("Hello!", chat=66)
        eve.says("/context")
        await bot.telegram.shown("system prompt", chat=66)
