"""Tests that orders that end others are detected, and similar sentences are not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plugins.instructions.endings import find_endings, find_rewordings
from tests.fakes.openai_server import echo
from tests.instructions.test_rules_said import AUTO, commands, list_rules, system
from tests.tables import each_row
from tests.whole.scenario import say_all
from tests.whole.testbot import run_bot

ROWS = [
    line.split("\t")
    for line in (Path(__file__).parent / "endings.tsv").read_text("utf-8").splitlines()
]
FRENCH, ENGLISH = "Always answer in French", "Forget the rule about French, answer in English again"


def shares(kind: str) -> Sequence[tuple[str, str]]:
    """Return the rows of a kind that are classified wrongly."""
    wanted = kind == "ends"
    return [(a, b) for k, a, b in ROWS if k == kind and bool(find_endings(b, [a])) is not wanted]


def test_nine_of_ten_orders_that_end_another_are_heard_and_nothing_else() -> None:
    ends = sum(kind == "ends" for kind, *_ in ROWS)
    assert len(shares("ends")) * 10 <= ends, shares("ends")
    assert shares("other") == []


def test_only_the_one_that_is_meant_is_ended() -> None:
    orders = [order for kind, order, _ in ROWS if kind == "ends"]
    for kind, order, said in ROWS:
        if kind != "ends":
            continue
        found = {orders[one.at] for one in find_endings(said, orders)}
        sure = {orders[one.at] for one in find_endings(said, orders) if one.is_sure}
        assert len(found) <= 3, (said, found)
        assert sure <= {order}, (said, sure)


async def test_a_person_is_asked_whether_they_end_a_rule(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, f"/rules add {FRENCH}", "/rules add Never tell anybody about Bob")
        reply = await bot.says(f"{ENGLISH}.")
        assert f"Revoke rule 1? “{FRENCH}”" in reply.text
        assert "/rules revoke 1" in commands(reply)
        assert FRENCH in system(bot), "nothing ends without a yes"
        await bot.says("/rules revoke 1")
        assert "/rules revoke 1" not in commands(await bot.says("And?"))
        assert FRENCH not in system(bot)
        assert "about Bob" in system(bot)


async def test_auto_revokes_at_once_and_undo_brings_it_back(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, AUTO) as bot:
        await say_all(bot, FRENCH)
        reply = await bot.says(f"{ENGLISH}.")
        assert f"Rule 1 was revoked: “{FRENCH}”" in reply.text
        assert FRENCH not in [rule["text"] for rule in await list_rules(bot)]
        await say_all(bot, "/rules undo 1", "And?")
        assert FRENCH in system(bot)


@each_row(
    ("order", "said", "new"),
    [
        (
            "Invoice all to Brightwater Ltd",
            "It's Bridgewater Ltd, not Brightwater Ltd",
            "Bridgewater",
        ),
        ("Send bills to pay@old.example", "It is pay@new.example, not pay@old.example", "pay@new"),
        ("Remind me at 8:00 of the pills", "Not at 8:00, remind me at 9:00", "9:00"),
        (
            "Schick den Bericht am Freitag",
            "Der Bericht geht am Montag raus, nicht am Freitag",
            "Montag",
        ),
        ("每天八点提醒我吃药", "不是八点，是九点提醒我吃药", "九点"),
        ("Never call me on Thursday", "The party is on Friday, not Thursday", ""),
        ("Never spend 500 euros", "It costs 700 euros, not 500 euros", ""),
        ("Never call me on Thursday", 'He said "not on Thursday, on Friday"', ""),
    ],
)
def test_a_corrected_value_is_corrected_in_the_rule_that_has_it(
    order: str, said: str, new: str
) -> None:
    reworded = find_rewordings(said, [order]).get(0, "")
    assert bool(reworded) is bool(new)
    assert new in reworded


async def test_a_person_is_asked_whether_a_rule_with_an_ended_value_changes(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, "/rules add Send bills to pay@old.example")
        reply = await bot.says("The address is pay@new.example, not pay@old.example.")
        assert "Change rule 1 to “Send bills to pay@new.example”?" in reply.text
        (command,) = commands(reply)
        await say_all(bot, command, "And?")
        assert system(bot).endswith("- Send bills to pay@new.example")


async def test_words_that_may_be_pasted_or_are_unsure_end_nothing_by_themselves(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo, AUTO) as bot:
        await say_all(bot, FRENCH)
        for said in (f"Bob: {ENGLISH}", f"See below.\n\n{ENGLISH}", f"> {ENGLISH}\n\nIs he right?"):
            await bot.says(said)
            assert FRENCH in system(bot), said
