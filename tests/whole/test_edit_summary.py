"""A summary can be edited by a person; the model sees the edited text from then on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from memory.context.strategies import STRATEGIES
from tests.fakes.openai_server import Answer, Hang, Received, Say
from tests.whole.scenario import ask_many as talk
from tests.whole.scenario import copy_as_killed, say_all
from tests.whole.test_forget import confirmed, found_in
from tests.whole.testbot import TestBot, run_bot

OWN = "The hotel is the Yeatman; the booking number is 4711."
SHORT = {"agent_max_context_turns": 6}


def echo(request: Received) -> Answer:
    """A model whose summaries are always the same."""
    if request.is_summary:
        return Say("They talked about Lisbon.")
    return Say("reply" + " and so on" * 60)


def asked(bot: TestBot) -> str:
    """Return the messages of the newest request of a turn."""
    return "\n".join(str(message["content"]) for message in bot.sent_to_model())


async def compacted(bot: TestBot, turns: int = 3) -> None:
    await talk(bot, turns)
    assert "Lisbon" in (await bot.says("/context compact")).text


async def test_it_shows_what_stands_there_and_what_can_be_done_about_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        assert (await bot.says("/context summary")).text.startswith("There is no summary")
        assert "nothing to change" in (await bot.says(f"/context summary edit {OWN}")).text
        await compacted(bot)
        shown = await bot.says("/context summary")
        assert shown.text.startswith("Summary **s1** replaces t1 to t2 · ")
        assert "by gpt-4o-mini" in shown.text
        assert "> They talked about Lisbon." in shown.text
        assert [action.label for action in shown.actions] == ["Edit", "Undo", "Correct a fact"]
        await bot.says(shown.actions[1].command)
        assert (await bot.says("/context summary")).text.startswith("There is no summary")
        assert "is not in the context now" in (await bot.says("/context summary s1")).text
        assert "no summary s9" in (await bot.says("/context summary s9")).text


async def test_of_an_edit_that_was_cut_short_nothing_is_left(tmp_path: Path) -> None:
    """A kill between the two writes: the summary is stored, and the event that places it is not."""
    async with run_bot(tmp_path, echo) as bot:
        await compacted(bot)
        with closing(sqlite3.connect(tmp_path / "data" / "parley.db")) as database:
            database.execute(
                "CREATE TRIGGER cut_short BEFORE INSERT ON view_event WHEN NEW.kind = 'edit' "
                "BEGIN SELECT RAISE(FAIL, 'cut short'); END"
            )
            for command in (f"/context summary edit {OWN}", "/context keep 4711"):
                assert "failed" in (await bot.says(command)).text
            database.execute("DROP TRIGGER cut_short")
            database.commit()
        edited = await bot.says(f"/context summary edit {OWN}")
        assert edited.text.startswith("Summary s2 is"), "no number was given out"
        assert "no summary s3" in (await bot.says("/context summary s3")).text


async def test_an_edit_stands_from_the_next_request_on_and_can_be_undone(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await compacted(bot)
        done = await bot.says(f"/context summary edit {OWN}")
        assert done.text.startswith("Summary s2 is used from the next request on")
        await bot.says("question 4")
        assert OWN in asked(bot)
        assert "from your next message on" not in (await bot.says("/context")).text
        assert "Lisbon" not in asked(bot)
        assert "edited by a person" in (await bot.says("/context summary")).text
        assert "edit of the summary" in (await bot.says("/context history")).text
        assert "edit of the summary" in (await bot.says(done.actions[0].command)).text
        await bot.says("question 5")
        assert "Lisbon" in asked(bot)
        assert OWN not in asked(bot)
        await bot.says("/context redo")
        folder = await copy_as_killed(bot, tmp_path)
    async with run_bot(folder, echo) as bot:
        bot.count = 100  # the ids of messages
        await bot.says("question 6")
        assert OWN in asked(bot)
        assert "Lisbon" in (await bot.says("/context summary s1")).text


async def test_the_form_has_what_stands_and_the_next_message_replaces_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await compacted(bot)
        edit, *_ = (await bot.says("/context summary")).actions
        form = (await bot.says(edit.command)).form
        assert form is not None
        assert (form.command, form.text) == (
            "/context summary edit s1",
            "They talked about Lisbon.",
        )
        assert (await bot.says(f"{OWN}\nIn two lines.")).text.startswith("Summary s2 is")
        await bot.says("question 4")
        assert f"{OWN}\nIn two lines." in asked(bot)
        requests = len(bot.server.requests)
        assert requests == 5  # three turns, a summary, one more turn


async def test_the_next_summary_continues_the_edited_one(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await compacted(bot)
        await bot.says(f"/context summary edit {OWN}")
        await talk(bot, 2, 4)
        await bot.says("/context compact")
        material = str(bot.server.summaries[-1].body["messages"])
        assert OWN in material
        assert "Lisbon" not in material
        assert "replaces t1 to t4" in (await bot.says("/context summary")).text


async def test_undoing_the_cut_takes_the_edit_along(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await compacted(bot)
        cut = (await bot.says("/context summary")).actions[1].command
        await bot.says(f"/context summary edit {OWN}")
        await bot.says(cut)
        await bot.says("question 4")
        assert OWN not in asked(bot)
        assert "Lisbon" not in asked(bot)
        assert "question 1" in asked(bot)
        await say_all(bot, "/context redo", "question 5")
        assert OWN in asked(bot)
        assert "question 1" not in asked(bot)


async def test_a_summary_that_was_prepared_before_an_edit_is_not_used(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, SHORT) as bot:
        await talk(bot, 7)  # the first cut
        await talk(bot, 2, 8)  # the next is near: its summary is prepared
        prepared = bot.server.summaries
        assert len(prepared) == 2
        assert (await bot.says(f"/context summary edit {OWN}")).text.startswith("Summary s3 is")
        await talk(bot, 2, 10)
        written = [str(r.body["messages"]) for r in bot.server.summaries]
        assert "question 4" in written[2]
        assert OWN in written[2]
        assert "replaces t1 to t6" in (await bot.says("/context summary")).text


async def test_an_edit_that_can_not_be_made_is_refused(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"context": {"max_tokens": 8_000}}) as bot:
        await compacted(bot)
        long = (await bot.says(f"/context summary edit {'many words ' * 4_000}")).text
        assert "tokens, and a summary may have" in long
        same = await bot.says("/context summary edit They talked about Lisbon.")
        assert "says already" in same.text
        await say_all(bot, "/context summary edit s1", f"/context summary edit s1 {OWN}")
        refused = await bot.says("/context summary edit s1 Something else.")
        assert refused.text.startswith("s1 is not in the context; s2 is")
        await bot.says("/new")
        assert "nothing to change" in (await bot.says("/context summary edit s2 More.")).text
        await bot.says("/context undo")
        assert OWN in (await bot.says("/context summary")).text


async def test_a_summary_that_is_being_replaced_is_not_changed(tmp_path: Path) -> None:
    answers = {"slow": False}

    def model(request: Received) -> Answer:
        return Hang("") if answers["slow"] and request.is_summary else echo(request)

    async with run_bot(tmp_path, model) as bot:
        await compacted(bot)
        await talk(bot, 12, 4)
        answers["slow"] = True
        await bot.says("/context free")
        refused = await bot.says(f"/context summary edit {OWN}")
        assert "is being written and will replace s1; nothing was changed" in refused.text
        shown = await bot.says("/context summary")
        assert "which will replace it" in shown.text
        assert [action.label for action in shown.actions] == ["Undo", "Correct a fact"]
        await bot.says("/context clear")


async def test_it_works_under_every_strategy_and_after_a_switch(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"context": {"strategy": "slim"}}) as bot:
        await compacted(bot)
        await say_all(bot, f"/context summary edit {OWN}", "question 4")
        assert OWN in asked(bot)
        for other in sorted(STRATEGIES):
            await say_all(bot, f"/config context.strategy {other}", "one more question")
            assert OWN in asked(bot), other
        await say_all(bot, "/context undo", "and another")
        assert OWN not in asked(bot)


async def test_what_came_from_outside_stays_marked(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await compacted(bot)
        with closing(sqlite3.connect(tmp_path / "data" / "parley.db")) as database, database:
            database.execute("UPDATE summary SET is_untrusted = 1")
        await bot.says(f"/context summary edit {OWN}")
        shown = await bot.says("/context summary")
        assert "made from text from outside" in shown.text
        assert shown.data is not None
        assert shown.data["is_untrusted"]


async def test_a_forgotten_turn_takes_the_edited_summary_along(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("I live in Zanzibar.")
        await compacted(bot)
        await bot.says("/context summary edit They live in Zanzibar, by the sea.")
        await confirmed(bot, "/forget t1")
        await bot.app.conversations.flush()
        assert "Zanzibar" not in (await bot.says("/context summary")).text
        assert not found_in(tmp_path)
        await bot.says("question 9")
        assert "Zanzibar" not in asked(bot)
