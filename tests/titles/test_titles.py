"""Tests of the titles of conversations: their sources, and the cleaning of a model's text."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bot.listing import LONGEST_TITLE, title_of
from bot.settings.schema import SettingError
from channels.base import Activity, Titled
from plugins.titles import record
from plugins.titles.feature import clean_title
from tests.fakes.openai_server import Answer, Fail, Received, Say, echo
from tests.tables import each_row
from tests.waiting import until
from tests.whole.scenario import say_all
from tests.whole.testbot import TestBot, run_bot

CHEAP = {"context": {"summary_brain": {"model": "gpt-4.1-nano"}}}


def titled(text: str = "Autumn in Lisbon") -> Callable[[Received], Answer]:
    return lambda request: Say(text)


async def called(bot: TestBot, chat: str = "main") -> str:
    """Return the name of the chat in lists."""
    sessions = await (await bot.api()).sessions("pipe")
    return next(one.title for one in sessions if one.chat == chat)


async def rest(bot: TestBot) -> None:
    """Wait until no title request is running."""
    for work in bot.app.features.background:
        await work.idle()


async def test_the_model_for_summaries_gives_a_title_after_the_first_answer(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, CHEAP) as bot:
        bot.server.titler = titled("**Title:** “Autumn in Lisbon”.\nI hope it helps!")
        seen: list[Activity] = []
        watching = await bot.watches(seen)
        await bot.says("What about Lisbon in autumn, by train, with two children?")
        await until(lambda: any(isinstance(one, Titled) for one in seen))
        watching.cancel()
        assert await called(bot) == "Autumn in Lisbon"
        await say_all(bot, "And more", "And yet more")
        await rest(bot)
        (asked,) = bot.server.titles
        assert asked.body["model"] == "gpt-4.1-nano"
        assert "by train" in str(asked.body["messages"])
        told = await bot.says("/usage")
        assert "| Autumn in Lisbon |" in told.text
        assert "pipe/main" not in told.text
        usage = told.data
        assert usage is not None
        assert usage["this month by model"]["gpt-4.1-nano, title"]["calls"] == 1


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({}, 0),
        (CHEAP, 1),
        ({"conversations": {"titles": "on"}}, 1),
        (CHEAP | {"conversations": {"titles": "off"}}, 0),
        ({"context": {"summary_brain": {"model": "embedded"}}}, 0),
    ],
)
async def test_who_is_asked_for_a_title(
    tmp_path: Path, settings: dict[str, Any], asked: int
) -> None:
    async with run_bot(tmp_path, echo, settings) as bot:
        bot.server.titler = titled()
        await bot.says("Hello there")
        await rest(bot)
        assert len(bot.server.titles) == asked
        assert await called(bot) == ("Autumn in Lisbon" if asked else "Hello there")


async def test_other_values_of_the_setting_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"conversations\.titles"):
        async with run_bot(tmp_path, echo, {"conversations": {"titles": "yes"}}):
            pass


async def test_no_answer_waits_for_a_title_and_none_is_asked_for_twice(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with run_bot(tmp_path, echo, CHEAP) as bot:
        bot.server.titler = lambda request: Say("Too late", gate=gate)
        await say_all(bot, "one", "two", "three")
        await until(lambda: bot.server.titles)
        await bot.says("four")
        assert len(bot.server.titles) == 1
        gate.set()
        await rest(bot)
    async with run_bot(tmp_path, echo, CHEAP) as bot:
        bot.server.titler = titled()
        await say_all(bot, "five", "six")
        await rest(bot)
        assert not bot.server.titles
        assert await called(bot) == "Too late"


async def test_a_restart_while_it_is_written_asks_no_second_time(tmp_path: Path) -> None:
    gate = asyncio.Event()
    settings = {**CHEAP, "shutdown_timeout": 1}
    async with run_bot(tmp_path, echo, settings) as bot:
        bot.server.titler = lambda request: Say("Never", gate=gate)
        await bot.says("one")
        await until(lambda: bot.server.titles)
        for work in bot.app.features.background:
            await work.stop()
    async with run_bot(tmp_path, echo, settings) as bot:
        await say_all(bot, "two", "three")
        await rest(bot)
        assert not bot.server.titles
        assert await called(bot) == "one"


@pytest.mark.parametrize(
    "answer",
    [
        Say(""),
        Say("**"),
        Say("I'm sorry, but I can't help with that."),
        Fail(500, {"message": "x"}),
    ],
)
async def test_without_a_usable_title_the_first_words_stay(tmp_path: Path, answer: Answer) -> None:
    async with run_bot(tmp_path, echo, CHEAP) as bot:
        bot.server.titler = lambda request: answer
        await say_all(bot, "my_func_name and *args", "more")
        await rest(bot)
        assert await called(bot) == "my_func_name and *args"


async def test_a_turn_that_failed_gives_no_title_and_the_first_answer_does(tmp_path: Path) -> None:
    broken = Fail(400, {"message": "no"})
    async with run_bot(tmp_path, [broken, Say("Hello")], CHEAP) as bot:
        bot.server.titler = titled()
        await bot.says("one")
        await rest(bot)
        assert not bot.server.titles
        await bot.says("two")
        await rest(bot)
        assert await called(bot) == "Autumn in Lisbon"


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "meanwhile"])
async def test_a_persons_title_stays(tmp_path: Path, is_late: bool) -> None:
    gate = asyncio.Event()
    async with run_bot(tmp_path, echo, CHEAP) as bot:
        bot.server.titler = lambda request: Say("Other", gate=gate)
        if is_late:
            await bot.says("one")
            await until(lambda: bot.server.titles)
        await bot.says("/title Mine")
        gate.set()
        await bot.says("two")
        await rest(bot)
        assert await called(bot) == "Mine"
        assert len(bot.server.titles) == is_late
        await say_all(bot, "/regenerate t1", "/regenerate t1")
        assert await called(bot) == "Mine"
        assert "(2)" not in (await bot.says("/branches")).text
        await bot.says("/title Mine again")
        assert await called(bot) == "Mine again"
        assert "Mine again" in (await bot.says("/title")).text


@pytest.mark.databases
@pytest.mark.parametrize("wish", ["/forget chat yes", "/forget t1 yes", "/forget all yes"])
@pytest.mark.parametrize("is_late", [False, True], ids=["after", "meanwhile"])
async def test_nothing_is_called_after_what_was_forgotten(
    tmp_path: Path, wish: str, is_late: bool
) -> None:
    gate = asyncio.Event()
    async with run_bot(tmp_path, echo, CHEAP) as bot:
        bot.server.titler = lambda request: Say("The secret", gate=gate)
        await bot.says("secret")
        await until(lambda: bot.server.titles)
        if not is_late:
            gate.set()
            await rest(bot)
        await bot.says(wish)
        gate.set()
        await rest(bot)
        await bot.says("another thing")
        await rest(bot)
        assert await called(bot) == "another thing"
        assert len(bot.server.titles) == 1
        assert "secret" not in (await bot.says("/title")).text


@pytest.mark.databases
@pytest.mark.parametrize("way", ["after", "meanwhile", "given", "back"])
async def test_a_title_goes_with_the_turn_that_was_taken_back(tmp_path: Path, way: str) -> None:
    gate = asyncio.Event()
    titles = iter(["Trains", "Cooking", "Never"])
    async with run_bot(tmp_path, echo, CHEAP) as bot:
        bot.server.titler = lambda request: Say(next(titles), gate=gate)
        await bot.says("Trains to Lisbon?")
        await until(lambda: bot.server.titles)
        if way != "meanwhile":
            gate.set()
            await rest(bot)
        if way == "given":
            await bot.says("/title Mine")
        await bot.says("/undo")
        if way == "back":
            await bot.says("/context undo")
        gate.set()
        await rest(bot)
    async with run_bot(tmp_path, echo, CHEAP) as bot:
        bot.server.titler = lambda request: Say(next(titles))
        await say_all(bot, "How do I cook beans?", "And rice?")
        await rest(bot)
        names = {"given": "Mine", "back": "Trains"}
        assert await called(bot) == names.get(way, "Cooking")
        assert len(bot.server.titles) == (way not in names)


@pytest.mark.databases
async def test_no_title_is_asked_for_after_a_turn_that_is_gone(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "secret", "/forget t1 yes", "more")
        store, home = bot.app.conversations.services.store, "pipe/main"
        asked = [
            await store.write(lambda db, turn=turn: record.begin(db, home, turn))  # type: ignore[misc]
            for turn in (1, 2)
        ]
        assert asked == [False, True]


async def test_no_title_is_bought_where_no_more_may_be_spent(tmp_path: Path) -> None:
    settings = {**CHEAP, "spend_limit_chat": 0.0000001}
    async with run_bot(tmp_path, [Say("Hello")], settings) as bot:
        bot.server.titler = titled()
        await bot.says("one")
        await rest(bot)
        assert not bot.server.titles


TITLES = (
    *("Lisbon in autumn", "Fixing __init__ imports", "my_func_name fails", "Reise nach Köln"),
    *(
        "里斯本秋季旅行",
        "C# or F#",
        "What is 2 * 3?",
        "Don't panic",
        "Costs 3.14 of 12",
        "Q3 – plan",
        "می\u200cخواهم کتاب بخوانم",
        "👨\u200d👩\u200d👧 trip",
    ),
)
AROUND = (
    *("{}", "**{}**", '"{}"', "“{}”", "„{}“", "«{}»", "# {}", "## {} ##", "`{}`", "```\n{}\n```"),
    *(
        "Title: {}",
        "**Title:** {}",
        "Titel: „{}“",
        "标题：《{}》",
        "*{}*",
        "__{}__",
        "- {}",
        "1. {}",
    ),
    *("> {}", "<title>{}</title>", "[{}](http://example.org)", "{}.", "{}\n\nI hope it fits!"),
    *("Here is a title for it:\n\n**{}**", "Sure! A title:\n{}", "<think>Hm. A?</think>\n{}"),
    *(
        "\n\n  {}  \n",
        "\u202e{}\u200b",
        "{}\x00",
        "({})",
        "\x1b[1;31m{}\x1b[0m",
        "Title:\n{}",
        "'{}'",
        "~~{}~~",
    ),
)


@each_row(
    "title",
    [
        *("*args and **kwargs", "Compute 2*3*4", "2**8 and 3**2", "def f(*args, **kwargs)"),
        *("*.py and *.js files", "char **argv and int *p", "SELECT * FROM a WHERE b*c = 2*d"),
        *("Book title ideas: Dune", "Here: a story"),
    ],
)
def test_signs_of_code_are_no_emphasis(title: str) -> None:
    assert clean_title(title) == title
    assert title_of(title) == title


@each_row(
    ("written", "title"),
    [
        ('Sure! Here is a title: "Autumn in Lisbon"', "Autumn in Lisbon"),
        ("Here's a short title for this conversation: **Autumn in Lisbon**", "Autumn in Lisbon"),
        ("A good title would be: Autumn in Lisbon.", "Autumn in Lisbon"),
        ("Hier ist ein Titel: „Herbst in Lissabon“", "Herbst in Lissabon"),
        ("好的，标题是：里斯本秋季旅行", "里斯本秋季旅行"),
        ("这是**重点**内容", "这是重点内容"),
    ],
)
def test_words_before_a_title_in_its_line_are_removed(written: str, title: str) -> None:
    assert clean_title(written) == title


def test_the_first_words_are_not_the_mark_of_code() -> None:
    assert title_of("```python\ndef f(): pass\n```\nWhat does it do?") == "def f(): pass"
    assert title_of("\n ~~~ \nls -l\n~~~") == "ls -l"
    assert title_of("```") == "```"


@given(st.sampled_from(TITLES), st.sampled_from(AROUND), st.sampled_from(AROUND))
def test_a_title_is_found_in_what_stands_around_it(title: str, inner: str, outer: str) -> None:
    assume("__" not in title or "__" not in inner + outer)
    assert clean_title(inner.format(title)) == title
    is_of_one_line = "\n" not in inner and not inner.startswith("<")
    if is_of_one_line and not (inner == "{}." and outer.endswith("{}")):
        assert clean_title(outer.format(inner.format(title))) == title


PIECES = st.sampled_from(
    [
        *("#", "*", "**", "_", "`", "```", '"', "“", "”", "'", "[", "](x)", "<b>", "\n", "\r"),
        *("\u2028", "\x00", "\u202e", "\ud800", "|", ":", ".", "…", " ", "a", "Ab", "12", "中文"),
        *("é", "word " * 9, "Title:", "<think>", "</think>", "-", "(", ")", "{", "}", "x" * 90),
    ]
)


@given(st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=200))
@example("I'm sorry, but I can't help with that.")
@example("<think>only a thought")
def test_a_title_is_short_has_one_line_and_is_stable(written: str) -> None:
    title = clean_title(written)
    assert len(title) <= LONGEST_TITLE
    assert len(title.splitlines()) <= 1
    assert title == title.strip()
    assert not set(title) & set('"“”„«»`\u202e\u2028\x00\ud800')
    assert not any(unicodedata.category(sign) in ("Cc", "Cs") for sign in title)
    assert not title.startswith(("# ", "- ", "> "))
    assert not title or any(sign.isalnum() for sign in title)


def test_what_is_no_title_is_none() -> None:
    for written in (
        *("", "  \n ", "***", "“”", "Title:", "<think>The user wants a title", "Some titles:"),
        "I'm sorry, but I can't help with that request.",
    ):
        assert clean_title(written) == "", written


@each_row("piece", ["*", "<!--", "[", "a:", "- ", "(", "`", "<think>", "x:\n"])
def test_an_answer_of_a_megabyte_is_read_in_part(piece: str) -> None:
    assert len(clean_title(piece * (1_000_000 // len(piece)))) <= LONGEST_TITLE
    assert clean_title(f"<think>{'hm ' * 300_000}</think>Lisbon in autumn") == "Lisbon in autumn"
