"""The bot uses people's languages for people, and English for the model."""

from __future__ import annotations

import errno
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from markdown_it import MarkdownIt
from peewee import OperationalError

from agent.loop import (
    CUT_CALLS,
    CUT_SHORT,
    NO_TOOLS,
    ONLY_ONE_CALL,
    SHORTFALLS,
    TOO_MANY_CALLS,
)
from agent.models.endpoint import Endpoint
from agent.models.failures import empty_answer_error, refusal
from bot.settings.schema import SETTINGS
from channels.language import LANGUAGES, _, choose, explain, number_of, speaking, words_of
from channels.web.channel import list_words
from memory.calibration import CutPrompt
from memory.context.change import Change, ViewEvent
from memory.context.forms import SUMMARY, TurnForm, assign_form
from memory.context.strategies.trim import describe_restart
from memory.record.engines.postgresql import PostgresqlEngine
from memory.record.engines.sqlite import SqliteEngine
from memory.turn_log import describe_cut_prompt
from plugins.api import HookContext
from plugins.loader import load
from plugins.wording import amount, money
from tests.channels.marked import collect, find_shapes, list_lower_texts, shape_of
from tests.fakes.openai_server import Fail, Received, Say
from tests.tables import each_row
from tests.web.site import serving
from tests.whole.telegram_testbot import at_telegram
from tests.whole.test_access import afar, befriended
from tests.whole.testbot import run_bot

OTHERS = LANGUAGES[1:]
COMMAND = re.compile(r"(?<![\w/<])/[a-z_]+(?![\w/])|--[a-z]+|`[^`{}]+`")
GERMAN = {"language": "de"}


def echo(request: Received) -> Say:
    return Say("re: " + request.body["messages"][-1]["content"])


def test_nearly_all_that_is_marked_is_translated_and_little_else_is() -> None:
    """Allow few new texts, which are English until they are translated, and list them."""
    marked = collect()
    for language in OTHERS:
        known = set(words_of(language))
        missing, gone = sorted(marked - known), sorted(known - marked)
        sys.stdout.write(f"{language}: not translated: {missing}; not in use any more: {gone}\n")
        assert len(missing) + len(gone) <= len(marked) // 20, "run python -m tests.channels.marked"


def test_a_translation_has_the_same_places_and_the_commands_keep_their_names() -> None:
    for language in OTHERS:
        for text, translated in words_of(language).items():
            assert _places(text) == _places(translated), text
            names = [name for name in COMMAND.findall(text) if name.startswith("/")]
            assert [name for name in names if name not in translated] == [], text


def _places(text: str) -> set[str]:
    if '{"' in text:  # JSON, in a text without placeholders
        return set()
    return {name for _text, name, _spec, _how in Formatter().parse(text) if name}


def test_what_is_bold_in_english_is_bold_in_a_translation() -> None:
    """Between Chinese letters, Markdown ignores marks behind a full stop."""
    drawn = MarkdownIt().render
    for language in OTHERS:
        for text, translated in words_of(language).items():
            bold = [drawn(one).count("<strong>") for one in (text, translated)]
            assert bold[0] == bold[1], translated


def test_of_the_languages_that_somebody_wants_the_first_of_ours_is_chosen() -> None:
    for wanted, language in [
        ("de", "de"),
        ("de-AT", "de"),
        ("zh-Hans-CN", "zh"),
        ("fr, de;q=0.5, en;q=0.7", "en"),
        ("en;q=0.1,zh;q=0.9", "zh"),
        ("fr", ""),
        ("", ""),
        ("de;q=0", ""),
        ("*", ""),
        ("deutsch", ""),
        ("de;q=x, zh", "zh"),
        ("\0;;;,,de" * 500, ""),
    ]:
        assert choose(wanted) == language, wanted


OTHER_WORDS = {
    "de": r"\b(?:Stummel|Verdichtung|Demomodell|[Ii]m Spiel|Tokens|Konversation|Nutzer|Prompt|"
    r"Provider|Sie haben|Ihnen)\b",
    "zh": r"你|个 ?(?:令牌|token)|会话|提示词|提供商|占位符|回合|拥有者",
}
"""The words that are not used: each thing has one name, and people are addressed in one way."""


def test_each_thing_has_one_name_in_a_language() -> None:
    for language in OTHERS:
        other, texts = re.compile(OTHER_WORDS[language]), words_of(language).values()
        found = [text for text in texts if other.search(text)]
        assert found == [], language


def test_no_text_of_the_page_begins_or_ends_with_a_space() -> None:
    """A sentence composed of pieces can't follow the order of another language."""
    assert [text for text in list_words() if text != text.strip()] == []


def test_what_a_setting_can_be_is_said_in_every_language() -> None:
    english = re.compile(r"\b(?:or|of|with|such|from|to|no|an)\b")
    for language in OTHERS:
        with speaking(language):
            for key, setting in SETTINGS.items():
                said = re.sub(r"[„“].*?[“”]", "", explain(setting.wants))
                assert setting.choices or not english.search(said), (language, key, said)


def test_what_is_not_translated_is_english() -> None:
    with speaking("de"):
        assert _("No such sentence, {name}.", name="Ann") == "No such sentence, Ann."
    with speaking("xx"):
        assert number_of(2, "{n} turn", "{n} turns") == "2 turns"


async def test_a_command_is_answered_in_the_language_that_is_set(tmp_path: Path) -> None:
    async with run_bot(tmp_path, settings=GERMAN) as bot:
        assert (await bot.says("/start")).text.startswith("Hallo! Ich bin Parley")
        assert "Nächste Komprimierung: voraussichtlich bei t21" in (await bot.says("/context")).text
        groups = (await bot.says("/config")).actions
        assert [one.command for one in groups] == [f"/config {one.label}" for one in groups]
        await bot.says("/config language zh --here")
        assert (await bot.says("/start")).text.startswith("您好！")
        assert (await bot.says("/start", chat="other")).text.startswith("Hallo!")


async def test_help_names_every_command_in_every_language(tmp_path: Path) -> None:
    names = load(Path("/nonexistent"), HookContext()).commands
    async with run_bot(tmp_path) as bot:
        for language in OTHERS:
            await bot.says(f"/config language {language}")
            said = (await bot.says("/help")).text
            assert [name for name in names if f"/{name}" not in said] == []
            for name in names:
                assert f"/{name}" in (await bot.says(f"/help {name}")).text


async def test_a_browser_is_answered_in_its_language_unless_another_is_set(tmp_path: Path) -> None:
    german = {"Accept-Language": "de-DE,de;q=0.9,en;q=0.8"}
    path = "/api/sessions/main/commands/start"
    async with serving(tmp_path, echo) as site:
        _status, reply = await site.post(path, {"text": ""}, headers=german)
        assert reply["text"].startswith("Hallo!")
        await site.commands("/config language en --here")
        _status, reply = await site.post(path, {"text": ""}, headers=german)
        assert reply["text"].startswith("Hello!")


async def test_telegram_says_a_persons_language_and_a_stranger_hears_theirs(
    tmp_path: Path,
) -> None:
    async with at_telegram(tmp_path) as bot:
        bot.ann.user["language_code"] = "zh-hans"
        bot.ann.says("/start")
        await bot.telegram.shown("您好！我是 Parley")
        eve = bot.telegram.person("Eve", 66)
        eve.user["language_code"] = "de"
        eve.says("Hello?")
        await bot.telegram.shown("keinen Zugang zu diesem Bot", 66)


async def test_what_the_model_reads_is_the_same_in_every_language(tmp_path: Path) -> None:
    sent = []
    for language in LANGUAGES:
        folder = tmp_path / language
        folder.mkdir()
        async with run_bot(folder, echo, settings={"language": language}) as bot:
            for text in ("one", "/context", "/context compact", "two", "/stop", "/new", "three"):
                await bot.says(text)
                await bot.app.idle()  # summaries are requested meanwhile
            sent.append([request.body for request in bot.server.requests])
    assert sent[0] == sent[1] == sent[2]


async def test_users_may_choose_their_language(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        await befriended(bot, "ann")
        await bot.says("/config language de --here", "ann", "ann")
        assert (await bot.says("/start", "ann", "ann")).text.startswith("Hallo!")


async def test_errors_of_the_rooms_below_reach_a_person_in_their_language(tmp_path: Path) -> None:
    async with run_bot(tmp_path, lambda request: Fail(401, "no"), settings=GERMAN) as bot:
        assert "API-Schlüssel abgelehnt" in (await bot.says("Hallo")).text
        assert (await bot.says("/config agent_max_steps many")).text == (
            "Nichts wurde geändert: agent_max_steps kann nicht 'many' sein; möglich ist eine ganze "
            "Zahl von 1 bis 200."
        )
        assert "Es gibt keine Einstellung 'foo'" in (await bot.says("/config foo")).text


def test_what_a_room_below_says_is_recognised_by_its_shape() -> None:
    with speaking("de"):
        said = explain("21 turns were over the limit of 20")
        assert said == "21 Runden waren über der Grenze von 20"
        assert explain("Nobody knows this one.") == "Nobody knows this one."
    assert explain("21 turns were over the limit of 20") == "21 turns were over the limit of 20"


def test_what_a_tool_will_do_is_shown_as_it_is_whatever_it_reads_like() -> None:
    with speaking("de"):
        said = explain("Run `shell` with exactly this:\n\n```\nsaid no\n```")
    assert "\nsaid no\n" in said
    assert said.startswith("`shell` mit genau diesen Angaben ausführen")


def test_joined_parts_turns_and_figures_in_a_sentence_from_below_are_translated_too() -> None:
    heard = (
        "(This request was too long for the model's window of 12,000 tokens: t1 to t3 "
        "removed from the context, and long tool results were shortened. Nothing is "
        "deleted. Once there is room for it, with a larger window (`context.max_tokens`) or "
        "another model, `/context undo`{times} brings it back.)"
    )
    with speaking("de"):
        said = explain(heard.format(times=" (2 times)"))
        assert "12.000 Token: t1 bis t3 aus dem Kontext entfernt, und lange Werkz" in said
        assert "bringt `/context undo` (2-mal) es zurück.)" in said
        assert "bringt `/context undo` es zurück.)" in explain(heard.format(times=""))
        assert "4.096 der 10.000 gesendeten Token" in explain(
            describe_cut_prompt("qwen3", CutPrompt(sent=10_000, read=4_096))
        )


def test_when_to_ask_again_is_said_in_the_language() -> None:
    endpoint = Endpoint("m", "http://127.0.0.1:1/v1")
    waits = {200_000.0: "3 Tagen", 7_200.0: "2 Stunden", 150.0: "3 Minuten", 45.0: "45 Sekunden"}
    with speaking("de"):
        for wait, words in waits.items():
            said = explain(str(refusal(endpoint, 429, "", wait)))
            assert said.endswith(f"(Fehler 429); frag in {words} noch einmal."), said


def test_why_nothing_could_be_saved_is_said_in_the_language() -> None:
    cases: list[Any] = [
        (
            SqliteEngine(Path("parley.db")),
            OperationalError("database or disk is full"),
            "Das konnte nicht gespeichert werden: die Platte ist voll; schaffe Platz (nichts, was "
            "bestätigt wurde, ist verloren).",
        ),
        (
            PostgresqlEngine("postgresql://127.0.0.1/parley"),
            OperationalError("connection refused"),
            "Das konnte nicht gespeichert werden: der PostgreSQL-Server ist nicht zu erreichen; "
            "starte ihn, oder berichtige `database` (connection refused).",
        ),
    ]
    for engine, error, said in cases:
        with speaking("de"):
            assert explain(str(engine.explain(error))) == said, engine


async def test_what_is_wrong_with_a_file_or_with_settings_together_is_said_in_the_language(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, settings=GERMAN) as bot:
        said = (await bot.says("/context import ../x")).text
        assert "führt aus dem Arbeitsordner hinaus" in said
        await bot.says("/config context.reserve_ratio 0.5")
        said = (await bot.says("/config context.trigger_ratio 0.4")).text
        assert "es muss kleiner sein als context.trigger_ratio, also als 0.4" in said
        lines = '{"format": "parley-context", "version": 1, "conversation": "x", "exported": "", '
        mine = tmp_path / "data/audiences/pipe-main/files"
        mine.mkdir(parents=True, exist_ok=True)
        said_last = '"messages": [{"turnId": "t1", "role": "user", "content": "Hi"}]}'
        (mine / "x.json").write_text(lines + said_last)
        said = (await bot.says("/context import x.json")).text
        assert "Runde 't1' endet nicht mit einer Antwort des Modells." in said


async def test_what_the_page_refuses_is_said_in_the_language_of_the_browser(tmp_path: Path) -> None:
    given = {"name": "ann", "password": "wrong"}
    async with serving(tmp_path, echo) as site:
        for headers, said in (
            ({"Accept-Language": "de"}, "Name oder Passwort ist falsch."),
            ({}, "Wrong name or password."),
        ):
            status, body = await site.post("/api/login", given, headers=headers)
            assert (status, body["error"]["message"]) == (401, said)


@pytest.mark.parametrize("language", OTHERS)
def test_what_a_turn_or_a_restart_adds_to_an_answer_is_translated_whatever_it_says(
    language: str,
) -> None:
    now, short = datetime.now(UTC), Change(assign_form([4, 5], TurnForm("squeezed")))
    moves = [
        ViewEvent(now, "view", "restart", "", change, "trim", leaving=leaving)
        for change, leaving in (
            (short, (1, 3)),
            (short, ()),
            (Change(assign_form([1], SUMMARY)), (1,)),
        )
    ]
    endpoint = Endpoint("m", "http://127.0.0.1:1/v1", "key")
    finishes = ("length", "refusal", "error", "content_filter", "stop")
    said = [
        *(*SHORTFALLS.values(), CUT_SHORT, CUT_CALLS, ONLY_ONE_CALL),
        *(text.format(most=3, name="look") for text in (TOO_MANY_CALLS, NO_TOOLS)),
        *(str(empty_answer_error(endpoint, finish)) for finish in finishes),
        *map(describe_restart, moves),
    ]
    with speaking(language):
        assert [text for text in said if explain(text) == text] == []


def test_each_sentence_of_the_rooms_below_that_is_translated_is_still_said() -> None:
    assert [text for text in list_lower_texts() if shape_of(text) not in find_shapes()] == []


@each_row(("language", "said"), [("de", "keine Berechtigung"), ("zh", "没有权限")])
def test_a_reason_of_the_system_is_translated_within_a_sentence(language: str, said: str) -> None:
    with speaking(language):
        assert said in explain(f"/data/a can't be used: {os.strerror(errno.EACCES)}.")


def test_numbers_stand_as_the_language_writes_them() -> None:
    with speaking("de"):
        assert _("{n:,} of {share:.1f}", n=12345, share=0.5) == "12.345 of 0,5"
        assert number_of(1234, "{n} turn", "{n} turns") == "1.234 Runden"
        assert (amount(12_400), money(1.2)) == ("12,4k", "1,20\xa0$")
        assert (money(0), money(1e-5)) == ("0\xa0$", "<0,0001\xa0$")
    assert number_of(1234, "{n} turn", "{n} turns") == "1,234 turns"
