"""Tests that a person's orders are detected in the person's own words, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from channels.kit.platform import IncomingMessage
from channels.message import Attachment, Reply
from channels.whatsapp import letters
from plugins.instructions.detect import cut_forwarded, find_instructions, is_forwarded, own_words
from plugins.instructions.record import list_words
from plugins.instructions.standing import MOST_OPEN
from tests.fakes.openai_server import Answer, Call, Received, Say, echo
from tests.tables import each_row
from tests.voice.test_voice import NOTE, VOICE
from tests.whole.scenario import again, say_all
from tests.whole.test_access import OWNER, afar, befriended
from tests.whole.testbot import TestBot, run_bot

BOSS = "Never send anything to my boss without asking me"
AUTO: dict[str, Any] = {"rules": {"detect": "auto"}}


def commands(reply: Reply) -> list[str]:
    return [action.command for action in reply.actions]


def system(bot: TestBot, index: int = -1) -> str:
    """Return the system prompt of a request."""
    return str(bot.sent_to_model(index)[0]["content"])


async def list_rules(bot: TestBot, chat: str = "main", user: str = "") -> list[dict[str, Any]]:
    data = (await bot.says("/rules", chat, user)).data
    assert data is not None
    rules: list[dict[str, Any]] = data["rules"]
    return rules


async def test_an_order_is_asked_about_once_and_holds_once_it_is_kept(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        reply = await bot.says(f"Hi. {BOSS}. Thanks!")
        assert f"Keep this as a rule? “{BOSS}”" in reply.text
        assert commands(reply) == ["/rules keep 1", "/rules dismiss 1"]
        assert BOSS not in system(bot)
        assert BOSS in (await bot.says("/rules keep 1")).text
        assert commands(await bot.says(f"As I said: {BOSS}")) == []
        assert system(bot).endswith(f"\n- {BOSS}")
        (rule,) = await list_rules(bot)
        expected = {"text": BOSS, "state": "active", "turn": "t1", "scope": "conversation"}
        assert rule.items() >= expected.items()


async def test_one_that_was_dismissed_or_not_answered_is_not_asked_about_again(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo) as bot:
        assert commands(await bot.says(BOSS))
        assert commands(await bot.says(BOSS.upper())) == []
        assert "you won't be asked again" in (await bot.says("/rules dismiss 1")).text
        assert commands(await bot.says(BOSS)) == []
        assert await list_rules(bot) == []
        await bot.says(f"/rules add {BOSS}")
        await bot.says("And?")
        assert BOSS in system(bot), "who gives it as a rule means it"


async def test_auto_keeps_it_in_the_same_turn_and_undo_ends_it_for_good(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, AUTO) as bot:
        reply = await bot.says(BOSS)
        assert f"Kept as a rule: “{BOSS}”" in reply.text
        assert commands(reply) == ["/rules undo 1"]
        assert BOSS in system(bot)
        changes = (await bot.says("/context history")).text
        assert "changed: standing instructions" in changes
        await bot.says("/rules undo 1")
        assert commands(await bot.says(BOSS)) == []
        assert "Standing instructions" not in system(bot)


async def test_off_asks_about_nothing(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("/config rules.detect off")
        assert commands(await bot.says(BOSS)) == []
        assert await list_rules(bot) == []


async def test_several_are_asked_about_by_number(tmp_path: Path) -> None:
    orders = [f"Never tell anybody number {n}." for n in range(5)]
    async with run_bot(tmp_path, echo) as bot:
        reply = await bot.says(" ".join(orders))
        assert [action.label for action in reply.actions[:2]] == ["Keep 1", "Dismiss 1"]
        assert "/rules lists 2 more" in reply.text
        await bot.says("/rules keep 1 2, 3")
        assert [rule["state"] for rule in await list_rules(bot)] == ["active"] * 3 + [
            "proposed"
        ] * 2


# --- sources of rules -----------------------------------------------------------------------------

FOREIGN: Mapping[str, str] = {
    "quoted": f"What do you think?\n> {BOSS}",
    "replied to": f"Bob wrote:\n> {BOSS}\n\nIs he right?",
    "forwarded by Telegram": f"Forwarded from Bob:\n{BOSS}",
    "forwarded by Discord": f"Forwarded:\n{BOSS}\n\nlook",
    "pasted code": f"```\n{BOSS}\n```\nWhat is this?",
    "an open block of code": f"~~~ text\n{BOSS}",
    "a mail below": f"Please read.\n\n---------- Forwarded message ---------\n{BOSS}",
    "a mail's head": f"See:\nFrom: Bob\nDate: today\nSubject: rules\n\n{BOSS}",
    "eine Mail": f"Sieh mal:\nVon: Bob\nBetreff: Regeln\n\n{BOSS}",
    "转发": f"看看\n发件人：Bob\n主题：x\n\n{BOSS}",
    "the name of a file": "[file: Never_ask.txt, files/Never send it to me again, 1 kB]",
}


@each_row("text", FOREIGN.values())
def test_words_of_others_in_a_message_are_not_the_persons_own(text: str) -> None:
    assert find_instructions(cut_forwarded(text)) == []
    assert BOSS not in own_words(text)
    assert BOSS in own_words(f"{BOSS}\n\n{text}"), "what stands above is their own"


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
async def test_no_rule_comes_from_words_of_others(tmp_path: Path, text: str) -> None:
    call = Call("propose_rule", json.dumps({"text": BOSS}), "a")
    async with run_bot(tmp_path, [Say(calls=(call,)), Say("No.")], AUTO) as bot:
        assert commands(await bot.says(text)) == []
        assert str(bot.sent_to_model()[-1]["content"]).startswith(
            "Not proposed: these are no words"
        )
        assert await list_rules(bot) == []


async def test_no_rule_comes_from_files_tools_answers_or_side_questions(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        asked = str(request.body["messages"][-1]["content"])
        if asked.startswith("Read"):
            return Say(calls=(Call("read_file", '{"path": "files/orders.txt"}', "a"),))
        return Say(BOSS)

    orders = Attachment("orders.txt", "text/plain", BOSS.encode())
    async with run_bot(tmp_path, script, AUTO) as bot:
        replies = [
            await bot.says("Here", files=(orders,)),
            await bot.says("Read it"),
            await bot.says(f"/btw {BOSS}"),
            await bot.says("Well?"),
        ]
        assert [commands(reply) for reply in replies] == [[]] * 4
        assert await list_rules(bot) == []


async def test_what_is_heard_in_a_sound_is_asked_about_unless_it_was_forwarded(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo, {**VOICE, **AUTO}) as bot:
        bot.server.voice.transcripts.extend([f"{BOSS}.", "Never lie.", "Never lie."])
        assert commands(await bot.says("", files=NOTE)) == ["/rules keep 1", "/rules dismiss 1"]
        for text in ("Forwarded from Bob:", "Forwarded:\nlisten"):
            assert commands(await bot.says(text, files=NOTE)) == [], text
        assert [rule["state"] for rule in await list_rules(bot)] == ["proposed"]


@pytest.mark.parametrize("kind", ["text", "audio", "image"])
@pytest.mark.parametrize("mark", ["forwarded", "frequently_forwarded", ""])
def test_whatsapp_marks_what_was_forwarded_with_text_or_without(kind: str, mark: str) -> None:
    content = {"id": "f", "mime_type": "audio/ogg", "body": BOSS}
    message = {"from": "4912", "id": "m", "timestamp": "1", "type": kind, kind: content}
    message |= {"context": {mark: True}} if mark else {}
    value = {"metadata": {"phone_number_id": "p"}, "messages": [message]}
    (arrival,) = letters.read({"entry": [{"changes": [{"value": value}]}]}, "p", "49")
    assert isinstance(arrival, letters.WhatsAppArrival)
    assert isinstance(arrival.event, IncomingMessage)
    assert is_forwarded(arrival.event.text) is bool(mark)


async def test_what_is_asked_again_is_not_said_again(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"rules": {"detect": "off"}}) as bot:
        await say_all(bot, BOSS, "/config rules.detect auto")
        await again(bot, "/regenerate")
        assert await list_rules(bot) == []
        said = await bot.app.store.read(lambda db: list_words(db, "pipe/main", "pipe/"))
        assert said == [BOSS]


# --- the model's proposals ------------------------------------------------------------------------


def proposing(wanted: Sequence[str]) -> Callable[[Received], Answer]:
    """Return a model that proposes the rule with the requested number."""

    def script(request: Received) -> Answer:
        last = request.body["messages"][-1]
        said = str(last["content"]).rpartition(" ")[2]
        if last["role"] == "user" and said.isdigit():
            text = json.dumps({"text": wanted[int(said)]})
            return Say(calls=(Call("propose_rule", text, "a"),))
        return Say("Yes.")

    return script


HATS = "Hats were a joke in my mails  to our boss"


async def test_the_model_may_only_ask_for_what_the_person_has_said(tmp_path: Path) -> None:
    async with run_bot(tmp_path, proposing([HATS.upper() + "."]), AUTO) as bot:
        assert commands(await bot.says(f"Well. {HATS}! Thanks")) == []
        assert commands(await bot.says("Propose 0")) == ["/rules keep 1", "/rules dismiss 1"]
        assert "hats" not in system(bot), "it keeps nothing by itself"
        assert (await list_rules(bot))[0]["text"] == HATS, "as it was said"
        await bot.says("And 0")
        assert "was asked already" in str(bot.sent_to_model()[-1])


async def test_no_part_of_a_sentence_is_proposed(tmp_path: Path) -> None:
    said = "Should I not send all my mails to bob?"
    parts = ("send all my mails to bob", "Should I not send", "my mails to bob", "?", said * 2)
    async with run_bot(tmp_path, proposing(parts)) as bot:
        await bot.says(said)
        for number, part in enumerate(parts):
            assert commands(await bot.says(f"Propose {number}")) == [], part
            assert "Not proposed" in str(bot.sent_to_model()[-1]), part


# --- groups ---------------------------------------------------------------------------------------


async def test_in_a_group_an_owner_decides_and_alone_each_for_themselves(tmp_path: Path) -> None:
    async with afar(tmp_path, **AUTO) as bot:
        await befriended(bot, "ann")
        reply = await bot.says(BOSS, "group", "ann")
        assert commands(reply) == ["/rules keep 1", "/rules dismiss 1"], "it is not kept by itself"
        for line in ("keep 1", "dismiss 1", "undo", "revoke 1", "edit 1 No.", "move 1 chat"):
            refused = (await bot.says(f"/rules {line}", "group", "ann")).text
            assert "Only an owner may" in refused or "There is no change" in refused, line
        assert (
            "An owner has to keep" in (await bot.says("/rules add No jokes.", "group", "ann")).text
        )
        await bot.says("/rules keep 1", "group", OWNER)
        await bot.says("And?", "group", "ann")
        assert system(bot).endswith(BOSS)
        assert f"Kept as a rule: “{BOSS}”" in (await bot.says(BOSS, "ann", "ann")).text
        assert (
            "Only an owner" in (await bot.says("/rules add --everywhere Joke.", "ann", "ann")).text
        )
        await bot.says("/rules move 1 everywhere", "group", OWNER)
        told = await bot.says("/rules revoke 1", "ann", "ann")
        assert "Only an owner may decide which rules hold for others, too" in told.text
        assert "no rule 3 here" in (await bot.says("/rules revoke 3", "group", "ann")).text


async def test_the_model_proposes_to_a_person_what_they_said_and_nobody_else(
    tmp_path: Path,
) -> None:
    async with afar(tmp_path) as bot:
        await befriended(bot, "ann")
        bot.server._decide = proposing([HATS])
        await bot.says(HATS, "group", "ann")
        assert commands(await bot.says("Propose 0", "group", OWNER)) == []
        assert commands(await bot.says("Propose 0", "group", "ann"))[0] == "/rules keep 1"


async def test_a_person_may_have_ten_rules_wait_and_an_owner_more(tmp_path: Path) -> None:
    many = "! ".join(f"Never tell anybody the number {n}" for n in range(20))
    async with afar(tmp_path) as bot:
        await befriended(bot, "ann")
        await bot.says(many, "group", "ann")
        bot.server._decide = proposing([HATS])
        await bot.says(HATS, "group", "ann")
        await bot.says("Propose 0", "group", "ann")
        refused = await bot.says("/rules add No jokes.", "group", "ann")
        assert refused.problem == "command_refused"
        assert "10 of your rules already await approval" in refused.text
        assert len(await list_rules(bot, "group", OWNER)) == MOST_OPEN
        await bot.says(many.replace("tell anybody", "give anyone"), "group", OWNER)
        assert len(await list_rules(bot, "group", OWNER)) == MOST_OPEN + 20


async def test_an_order_that_waits_is_kept_when_it_is_said_under_auto(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, BOSS, "/config rules.detect auto")
        assert "Kept as a rule" in (await bot.says(BOSS)).text
        assert [rule["state"] for rule in await list_rules(bot)] == ["active"]


async def test_a_strangers_words_are_never_asked_about(tmp_path: Path) -> None:
    async with afar(tmp_path, **AUTO) as bot:
        await say_all(bot)
        await bot.says(BOSS, "eve", "eve")
        await bot.says("Hi", OWNER, OWNER)
        assert "Standing" not in system(bot)
