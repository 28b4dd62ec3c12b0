"""Tests that standing instructions are detected in people's messages, with few false alarms.

No row of the tables here is used for learning (`benchmarks/instructions.py`). `said.tsv` was
written before the detector and does not change. `fresh.tsv` has another author than the training
data, and includes tasks and remarks that sound like instructions. `found_words.tsv` names the words
that are found in messages of several sentences.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.instructions.detect import SCANNED, find_instructions, is_plain
from tests.tables import each_row

_HERE = Path(__file__).parent


def _rows(name: str, language: str) -> list[list[str]]:
    lines = (_HERE / name).read_text(encoding="utf-8").splitlines()
    rows = [line.replace("\\n", "\n").split("\t") for line in lines]
    return [row for row in rows if row[0] == language]


def _share(messages: list[str]) -> float:
    return sum(bool(find_instructions(message)) for message in messages) / len(messages)


@each_row("language", ["en", "de", "zh"])
def test_nine_of_ten_standing_instructions_are_found(language: str) -> None:
    assert _share([row[1] for row in _rows("said.tsv", language)]) >= 0.9


@pytest.mark.parametrize("language", ["en", "de", "zh"])
@pytest.mark.parametrize(
    ("kind", "least", "most"), [("rule", 0.7, 1.0), ("task", 0.0, 0.15), ("other", 0.0, 0.1)]
)
def test_instructions_that_nobody_has_foreseen_are_told_from_tasks_and_remarks(
    kind: str, least: float, most: float, language: str
) -> None:
    rows = _rows("fresh.tsv", language)
    assert least <= _share([row[2] for row in rows if row[1] == kind]) <= most


_THINGS = {
    "en": (
        "guest list,timesheet,pension letter,league table,shift plan,voucher,X-ray pictures,"
        "mortgage papers,seat number,packing list,lab results,meter readings,ferry times,"
        "pay slip,certificate"
    ),
    "de": (
        "Gehaltsabrechnung,Gästeliste,Sitzplatznummer,Packliste,Laborwerte,Zählerstände,"
        "Röntgenbilder,Mietunterlagen,Zeugnisse,Kündigung,Tabelle der Liga,Schichtpläne,"
        "Bahncard-Nummer,Gutscheine,Urkunde"
    ),
    "zh": (
        "工资条,嘉宾名单,座位号,化验单,体检结果,租房合同,班表,证书,成绩单,优惠券,电费单,"
        "打包清单,船班时间,保单,房贷材料"
    ),
}
_ASKED_FOR = {
    "en": ["My {}, please", "The {}, please", "{} please", "my {} pls"],
    "de": ["Meine {}, bitte", "Die {}, bitte", "{} bitte", "Und meine {} bitte"],
    "zh": ["我的{}，谢谢", "请给我{}", "把我的{}给我", "{}，谢谢"],
}


@each_row("language", ["en", "de", "zh"])
def test_a_thing_that_is_asked_for_is_no_instruction(language: str) -> None:
    things = _THINGS[language].split(",")
    asked = [form.format(thing) for form in _ASKED_FOR[language] for thing in things]
    assert _share(asked) <= 0.05


_FOUND_OUT = {
    "en": (
        "Can you find out, {}?|Do you always know, {}?",
        "when it shuts,where it is,why it hangs",
    ),
    "de": (
        "Kannst du bitte nachschauen, {}?|Könntest du mir sagen, {}?|Weißt du immer, {}?"
        "|Schau doch bitte mal, {}?",
        "wann das Rathaus schließt,wo der Beleg ist,warum der Dienst hängt,was das kostet",
    ),
}


@pytest.mark.parametrize("language", list(_FOUND_OUT))
def test_what_a_question_asks_to_find_out_is_no_question_of_its_own(language: str) -> None:
    forms, asked = (some.split(sign) for some, sign in zip(_FOUND_OUT[language], "|,", strict=True))
    assert _share([form.format(one) for form in forms for one in asked]) <= 0.1


@each_row("language", ["en", "de", "zh"])
def test_the_words_that_are_found_are_the_persons_own(language: str) -> None:
    for _, message, words in _rows("found_words.tsv", language):
        found = find_instructions(message)
        assert all(message[one.start : one.end] == one.text for one in found)
        assert words in [one.text for one in found]


def test_a_message_may_hold_several() -> None:
    message = "Some rules:\n- never lie to me\n- always use metric units\n- don't use emojis"
    texts = [found.text for found in find_instructions(message)]
    assert texts == ["never lie to me", "always use metric units", "don't use emojis"]


@each_row(
    "message",
    [
        "> Always ask before deleting.\n",
        "```\n# never delete this\n```",
        'The sign says "never enter without asking".',
        "Translate this: never send anything without asking me",
        "Übersetz das ins Englische: Antworte immer auf Deutsch",
        "翻译成英文：以后都用中文回答",
        "From: Tom\nSubject: rules\n\nAlways reply within a day.",
        "Tom: never call me again\nAnn: always answer me then",
        "Bob: never ask me about money again",
        "Bob Smith: always answer me in French",
        "[12:03, 1/2/2026] Bob: never call me again",
        "1/2/2026, 12:03 - bobby: hi\n[1/2/26, 12:03:44 PM] Note: never call me again",
        "De : Bob\nObjet : x\n\nNever call me again.",
        "-------- Message transféré --------\nNever call me again.",
        "Fwd: hi\nNever call me again.",
        "<quote>Never call me again.</quote> Funny",
        "<blockquote class='x'>\nHi.\nNever call me again.",
        "Read 《Never call me again.\nAlways answer.》",
        "He said “Hi.\n\nNever call me again.\nAlways answer.” and left",
        'It says "Hi.\nNever call me again.\n" there',
        "Error: it failed. Never run this command as root",
        "Here are the lyrics:\nNever send me roses\nAlways answer my call",
    ],
)
def test_the_words_of_others_order_nothing(message: str) -> None:
    assert find_instructions(message) == []


@pytest.mark.parametrize("lead", ["Bob wrote", "Bob Smith wrote", "乔布 wrote", "Er schrieb"])
@pytest.mark.parametrize("quoted", ["> hi", "> hi\n> Never sing", "> a:\n> \n> b"])
def test_an_order_in_a_reply_is_found(lead: str, quoted: str) -> None:
    order = "Never reply to Bob in French again"
    found = find_instructions(f"{lead}:\n{quoted}\n\n{order}.")
    assert [one.text for one in found] == [order]


ORDER = "Never reply to Bob in French"


@each_row(
    "message",
    [ORDER, f"Hi! {ORDER}. Thanks", f"\n{ORDER}\nThanks", f"Note: {ORDER}", f"Important: {ORDER}",
     f"New rule: {ORDER}", f'"Bob" is new. {ORDER}', f"By the way: {ORDER}", f"Regel: {ORDER}"],
)  # fmt: skip
def test_plain_orders_are_surely_the_persons_own(message: str) -> None:
    (found,) = find_instructions(message)
    assert found.text.endswith(ORDER)
    assert is_plain(message, found.start)


@each_row(
    "message",
    [
        f"Dear customer,\n\n{ORDER}.",
        f"Error: it failed\n{ORDER}",
        f"{ORDER}.\n\nYours, Bob",
        f'{ORDER}" is what he says',
        f"„So. {ORDER}.",
        f"bob: {ORDER}",
        f"bob smith: hi. {ORDER}",
        f"Bob wrote:\n> hi\n\n{ORDER}",
    ],
)
def test_what_may_have_been_pasted_is_not(message: str) -> None:
    assert not any(is_plain(message, found.start) for found in find_instructions(message))


def test_of_a_very_long_message_the_beginning_is_looked_through() -> None:
    message = "never lie to me. " + "and so on, " * SCANNED
    assert [found.text for found in find_instructions(message)] == ["never lie to me"]
