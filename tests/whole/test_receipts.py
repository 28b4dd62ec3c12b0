"""After a compaction a person sees the facts that the summary kept, and may add others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT
from tests.fakes.openai_server import Answer, Received, Say
from tests.whole.scenario import ask_many as talk
from tests.whole.test_approve_cuts import ASK, settle, told
from tests.whole.test_edit_summary import asked
from tests.whole.testbot import TestBot, run_bot

BOOKING = "I am Anna Schmidt, my booking number is 4711 at the Yeatman in Lisbon."


def model(request: Received) -> Answer:
    if request.is_turn:
        return Say("Noted" + " and so on" * 40)
    is_again = "Left out by an earlier summary" in str(request.body)
    return Say("Anna Schmidt booked in Lisbon, 4711." if is_again else "Anna Schmidt, Lisbon.")


async def compacted(bot: TestBot) -> Any:
    await bot.says(BOOKING)
    await talk(bot, 2, 2)
    return await bot.says("/context compact")


async def test_what_is_missing_is_named_and_a_button_adds_it_in_its_sentence(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, model) as bot:
        done = await compacted(bot)
        assert "The summary keeps 2 of 4 names and numbers; missing: 4711, Yeatman." in done.text
        receipt = {"kept": 2, "of": 4, "missing": ["4711", "Yeatman"]}
        assert done.data["receipt"] == receipt | {"taken": "first", "findings": []}
        labels = [action.label for action in done.actions]
        assert labels == ["Undo", "Add all 2", "Add 4711", "Add Yeatman"]
        assert "kept 2 of 4" in (await bot.says("/context history")).text
        assert "missing: 4711, Yeatman" in (await bot.says("/context summary")).text
        added = await bot.says(done.actions[2].command)
        assert added.text.startswith("Summary s2 is used")
        await bot.says("question 4")
        assert f"Anna Schmidt, Lisbon.\n- {BOOKING} (t1)" in asked(bot)
        shown = await bot.says("/context summary")
        assert "keeps 4 of 4 names and numbers." in shown.text
        assert "kept 4 of 4" in (await bot.says("/context history")).text
        assert "has that already" in (await bot.says("/context keep 4711")).text
        await bot.says("/context undo")
        assert "missing: 4711" in (await bot.says("/context summary")).text


async def test_a_fact_of_an_earlier_summary_is_added_in_its_sentence_too(tmp_path: Path) -> None:
    async with run_bot(tmp_path, model) as bot:
        await compacted(bot)
        await talk(bot, 3, 6)
        await bot.says("/context compact")
        await bot.says("/context keep 4711")
        await bot.says("question 9")
        assert f"- {BOOKING} (t1)" in asked(bot)


async def test_the_page_shows_what_a_person_sees(tmp_path: Path) -> None:
    """Check docs/context.md, "Edit a summary", except for the sizes."""
    async with run_bot(tmp_path, model) as bot:
        await compacted(bot)
        shown = (await bot.says("/context summary")).text
    page = (ROOT / "docs" / "context.md").read_text("utf-8")
    sizes = re.compile(r"\d+ tokens")
    assert sizes.sub("", f"```markdown\n{shown}\n```\n") in sizes.sub("", page)


async def test_words_that_were_never_said_are_added_as_they_are(tmp_path: Path) -> None:
    async with run_bot(tmp_path, model) as bot:
        assert "nothing to change" in (await bot.says("/context keep")).text
        assert "nothing to change" in (await bot.says("/context keep 4711")).text
        await compacted(bot)
        await bot.says("/context keep   bring the\numbrella")
        await bot.says("question 4")
        assert "- bring the umbrella" in asked(bot)


async def test_a_summary_that_kept_too_little_is_asked_for_once_more_and_booked(
    tmp_path: Path,
) -> None:
    settings = {"context": {"summary_min_kept": 0.7}}
    async with run_bot(tmp_path, model, settings) as bot:
        done = await compacted(bot)
        assert "booked in Lisbon, 4711" in done.text
        wanted = bot.server.summaries
        assert len(wanted) == 2
        assert "- 4711\n- Yeatman" in str(wanted[1].body["messages"][-1]["content"])
        (conversation,) = bot.app.conversations.list_loaded()
        assert (await conversation.bill_for("summary")).calls == 2


async def test_one_button_adds_all_that_is_missing_and_then_there_is_nothing_left(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, model) as bot:
        done = await compacted(bot)
        await bot.says(done.actions[1].command)
        told = await bot.says("/context receipt")
        assert "keeps 4 of 4" in told.text
        assert not told.actions
        assert "left out nothing" in (await bot.says("/context keep")).text


def in_english(request: Received) -> Answer:
    if request.is_turn:
        return Say("Das ist notiert, und ich denke auch an die Reise" + " und so weiter" * 40)
    return Say(
        "The user is Mrs Schmidt and has the booking 4711. They asked for a room that is not on "
        "the first floor, and will be there for a week with the dog."
    )


GERMAN = (
    "Ich bin Frau Schmidt, und meine Buchung hat die Nummer 4711. Das Zimmer ist nicht im ersten "
    "Stock, und ich bleibe dort für eine Woche mit dem Hund."
)


async def test_a_person_is_told_which_summary_was_taken_and_why(tmp_path: Path) -> None:
    async with run_bot(tmp_path, in_english) as bot:
        await bot.says(GERMAN)
        await talk(bot, 2, 2)
        done = await bot.says("/context compact")
        assert "- t1: Ich bin Frau Schmidt" in done.text
        assert "because it is in another language than the conversation" in done.text
        assert done.data is not None
        assert done.data["receipt"]["taken"] == "extract"
        first, second = bot.server.summaries
        assert "was not taken: it is in another language" not in str(first.body)
        assert "was not taken: it is in another language" in str(second.body)


async def test_where_the_audit_only_warns_a_person_is_told_what_is_wrong(tmp_path: Path) -> None:
    async with run_bot(tmp_path, in_english, {"context": {"summary_audit": "warn"}}) as bot:
        await bot.says(GERMAN)
        await talk(bot, 2, 2)
        told = await bot.says("/context compact")
        assert "The user is Mrs Schmidt" in told.text
        assert "is used, although it is in another language" in told.text
        assert len(bot.server.summaries) == 1


async def test_the_better_of_two_is_taken_and_it_is_asked_at_most_once_more(
    tmp_path: Path,
) -> None:
    def worse(request: Received) -> Answer:
        if request.is_turn:
            return model(request)
        is_again = "Left out by an earlier summary" in str(request.body)
        return Say("They talked." if is_again else "Anna Schmidt, Lisbon.")

    settings = {"context": {"summary_min_kept": 1.0}}
    async with run_bot(tmp_path, worse, settings) as bot:
        assert "Anna Schmidt, Lisbon." in (await compacted(bot)).text
        assert len(bot.server.summaries) == 2


async def test_a_question_says_what_is_missing_and_keeps_it_before_the_cut(tmp_path: Path) -> None:
    async with run_bot(tmp_path, model, ASK) as bot:
        await bot.says(BOOKING)
        await talk(bot, 6, 2)
        await settle(bot)
        (question,) = told(bot)
        assert "missing: 4711, Yeatman" in question.text
        *_, first, second = question.actions
        assert (first.command, second.label) == ("/context keep s1 4711", "Add Yeatman")
        await bot.says(first.command)
        assert "has that already" in (await bot.says(second.command)).text
        edited = await bot.says("/context approve")
        await bot.says(edited.actions[0].command)
        await bot.says("question 9")
        assert f"- {BOOKING} (t1)" in asked(bot)


async def test_a_value_that_was_corrected_is_missed_by_nobody(tmp_path: Path) -> None:
    async with run_bot(tmp_path, model) as bot:
        await bot.says(BOOKING)
        await bot.says("Sorry, my booking number is 4712, not 4711.")
        await talk(bot, 3, 2)
        done = await bot.says("/context compact")
        assert done.data is not None
        await bot.says("question 9")
        sent = asked(bot)
    assert "4711" not in done.data["receipt"]["missing"]
    assert "4712" in sent  # the sentence with the correction was added
    assert "4711" not in sent
