"""Orders that end others are heard, and what only sounds like one is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plugins.instructions.endings import find_endings
from tests.fakes.openai_server import echo
from tests.instructions.test_rules_said import AUTO, commands, list_rules, system
from tests.whole.scenario import say_all
from tests.whole.testbot import run_bot

ROWS = [
    line.split("\t")
    for line in (Path(__file__).parent / "endings.tsv").read_text("utf-8").splitlines()
]
FRENCH, ENGLISH = "Always answer in French", "Forget the rule about French, answer in English again"


def shares(kind: str) -> Sequence[tuple[str, str]]:
    """The rows of a kind that are told wrong."""
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


async def test_words_that_may_be_pasted_or_are_unsure_end_nothing_by_themselves(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo, AUTO) as bot:
        await say_all(bot, FRENCH)
        for said in (f"Bob: {ENGLISH}", f"See below.\n\n{ENGLISH}", f"> {ENGLISH}\n\nIs he right?"):
            await bot.says(said)
            assert FRENCH in system(bot), said
