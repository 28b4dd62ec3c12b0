"""Tests of reminders and jobs, by the whole bot: each is sent or run once at its time, under all
circumstances."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from time_machine import Coordinates

from memory.record.database import Database
from plugins.jobs import record as jobs
from plugins.jobs.firing import Jobs
from plugins.jobs.record import RunRow
from tests.fakes.openai_server import Call, Fail, Say
from tests.waiting import until
from tests.whole.scenario import forbid_retries
from tests.whole.testbot import TestBot, run_bot

NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
SETTINGS = {"timezone": "UTC"}


@pytest.fixture(autouse=True)
def clock() -> Iterator[Coordinates]:
    """Yield a clock that runs from noon, and can be moved."""
    with time_machine.travel(NOON, tick=True) as traveller:
        yield traveller


async def tick_at(bot: TestBot, clock: Coordinates, at: datetime) -> None:
    """Run everything that is due at this time."""
    clock.move_to(at, tick=True)
    await bot.app.features.service(Jobs).tick()
    await bot.app.idle()


def other_channel(
    folder: Path, settings: Mapping[str, Any]
) -> AbstractAsyncContextManager[TestBot]:
    """Run a bot on a channel that requires pairing."""
    return run_bot(folder, [], settings, channel="other")


def unasked(bot: TestBot) -> list[str]:
    """Return the unrequested messages of the bot, and the answers of jobs."""
    return [o.reply.text for o in bot.sent if not o.reply_to or o.reply_to.startswith("job-")]


async def test_a_reminder_is_told_at_its_time_and_once(tmp_path: Path, clock: Coordinates) -> None:
    async with run_bot(tmp_path, settings=SETTINGS) as bot:
        made = await bot.says("/remind tomorrow 9:00 Call Mom")
        assert "Tue 24 Nov 2026, 09:00 (UTC)" in made.text
        due = NOON + timedelta(hours=21)
        await tick_at(bot, clock, due - timedelta(seconds=1))
        assert unasked(bot) == []
        await tick_at(bot, clock, due)
        await tick_at(bot, clock, due + timedelta(minutes=1))
        assert unasked(bot) == ["**Reminder:** Call Mom"]
        assert "told" in (await bot.says("/jobs")).text


async def test_what_jobs_say_unasked_is_in_the_language_of_their_chat_and_the_model_reads_english(
    tmp_path: Path, clock: Coordinates
) -> None:
    settings = {**SETTINGS, "language": "de"}
    async with run_bot(tmp_path, [Say("Nichts."), Say("Noch nichts.")], settings) as bot:
        made = await bot.says("/remind jeden Tag 9:00 Wasser")
        when = "Di., 24.\xa0Nov. 2026, 09:00"
        assert f"jeden Tag um 09:00, das nächste Mal am {when}" in made.text
        await bot.says("/jobs add jeden Tag 9:00 Was ist neu?")
        await tick_at(bot, clock, NOON + timedelta(hours=21, minutes=20))
        assert sorted(unasked(bot)) == [
            f"**Erinnerung:** Wasser\n\n(Verspätet: fällig war das am {when} (UTC).)",
            f"Nichts.\n\n(Auftrag 2, jeden Tag um 09:00; verspätet: er war am {when} (UTC) fällig)",
        ]
        await bot.says("/jobs run 2")
        await bot.app.idle()
        read = [line["content"] for line in bot.sent_to_model() if line["role"] == "user"]
        assert [text.partition(";")[0] for text in read] == ["[Job 2, every day at 09:00"] * 2
        assert "gesagt" in (await bot.says("/jobs 1")).text


async def test_a_job_runs_as_a_turn_of_its_chat_and_says_what_it_is(
    tmp_path: Path, clock: Coordinates
) -> None:
    async with run_bot(tmp_path, [Say("All quiet.")], SETTINGS) as bot:
        made = await bot.says("/jobs add every day 8:00 What is new?")
        assert "every day at 08:00, next on Tue 24 Nov 2026, 08:00 (UTC)" in made.text
        await tick_at(bot, clock, NOON + timedelta(hours=20))
        assert len(unasked(bot)) == 1
        assert unasked(bot)[0].startswith("All quiet.\n\n(Job 1, every day at 08:00")
        said = bot.sent_to_model()[-1]
        assert said["role"] == "user"
        assert "What is new?" in said["content"]
        assert "Wed 25 Nov" in (await bot.says("/jobs")).text


async def test_what_was_due_while_the_bot_was_down_is_told_late_once_and_marked(
    tmp_path: Path, clock: Coordinates
) -> None:
    async with run_bot(tmp_path, settings=SETTINGS) as bot:
        await bot.says("/remind tomorrow 9:00 Call Mom")
        await bot.says("/remind every day 10:00 Water")
    clock.move_to(NOON + timedelta(days=3), tick=True)
    async with run_bot(tmp_path, settings=SETTINGS) as bot:
        await tick_at(bot, clock, NOON + timedelta(days=3))
        await tick_at(bot, clock, NOON + timedelta(days=3, minutes=2))
        assert unasked(bot) == [
            "**Reminders that were due while I was not running:**\n\n- Tue 24 Nov 2026, "
            "09:00 (UTC): Call Mom\n- Tue 24 Nov 2026, 10:00 (UTC), and 2 more times since: "
            "Water"
        ]
        assert (await bot.says("/jobs")).text.count("told; its message was sent") == 2


@pytest.mark.parametrize(
    ("seconds", "is_marked"), [(0, False), (60, False), (120, True), (290, True)]
)
async def test_a_reminder_that_was_missed_by_minutes_is_marked_too(
    tmp_path: Path, clock: Coordinates, seconds: int, is_marked: bool
) -> None:
    async with run_bot(tmp_path, settings=SETTINGS) as bot:
        await bot.says("/remind tomorrow 9:00 Call Mom")
        await tick_at(bot, clock, NOON + timedelta(hours=21, seconds=seconds))
        (told,) = unasked(bot)
        assert ("(Late: this was due on Tue 24 Nov 2026, 09:00 (UTC).)" in told) == is_marked


async def test_what_is_late_of_each_chat_is_told_there_and_ten_at_a_time(
    tmp_path: Path, clock: Coordinates
) -> None:
    async with run_bot(tmp_path, settings=SETTINGS) as bot:
        for number in range(1, 13):
            await bot.says(f"/remind tomorrow {number}:00 Thing {number}.")
        await bot.says("/remind tomorrow 9:00 Elsewhere", "other")
        await tick_at(bot, clock, NOON + timedelta(days=2))
        here = [o.reply.text for o in bot.sent if not o.reply_to and o.address.chat == "main"]
        there = [o.reply.text for o in bot.sent if not o.reply_to and o.address.chat == "other"]
        assert [text.count("Thing") for text in here] == [10, 2]
        assert there == [
            "**Reminder:** Elsewhere\n\n(Late: this was due on Tue 24 Nov 2026, 09:00 (UTC).)"
        ]
        await tick_at(bot, clock, NOON + timedelta(days=2, minutes=1))
        assert len(unasked(bot)) == 3


async def test_a_prompt_that_was_due_days_ago_is_not_run_and_that_is_said(
    tmp_path: Path, clock: Coordinates
) -> None:
    """Miss a job that costs money: it is not run later, even after an old backup is restored."""
    async with run_bot(tmp_path, settings=SETTINGS) as bot:
        await bot.says("/jobs add tomorrow 9:00 What is new?")
        await tick_at(bot, clock, NOON + timedelta(days=3))
        assert not bot.server.requests
        (said,) = unasked(bot)
        assert "was due on Tue 24 Nov 2026, 09:00 (UTC)" in said
        assert "/jobs run 1" in said
    async with run_bot(tmp_path, [Say("Much.")], SETTINGS) as bot:
        await bot.says("/jobs run 1")
        await bot.app.idle()
        assert unasked(bot)[-1].startswith("Much.")


async def test_a_reminder_stays_at_its_moment_when_the_zone_is_changed(
    tmp_path: Path, clock: Coordinates
) -> None:
    async with run_bot(tmp_path, settings={"timezone": "Europe/Berlin"}) as bot:
        await bot.says("/remind tomorrow 9:00 Call Mom")
    async with run_bot(tmp_path, settings={"timezone": "Asia/Tokyo"}) as bot:
        assert "Tue 24 Nov 2026, 09:00 (Europe/Berlin)" in (await bot.says("/jobs")).text
        await tick_at(bot, clock, datetime(2026, 11, 24, 7, 59, tzinfo=UTC))
        assert unasked(bot) == []
        await tick_at(bot, clock, datetime(2026, 11, 24, 8, 0, tzinfo=UTC))
        assert unasked(bot) == ["**Reminder:** Call Mom"]


async def test_a_job_waits_for_the_turn_under_way_and_a_person_for_the_job(
    tmp_path: Path, clock: Coordinates
) -> None:
    gate = asyncio.Event()
    script = [Say("First.", gate=gate), Say("Job."), Say("Second.")]
    async with run_bot(tmp_path, script, SETTINGS | {"when_busy": "steer"}) as bot:
        await bot.says("/jobs add in 1 hour Look")
        await bot.writes("One", id="one")
        await until(lambda: bot.server.requests)
        clock.move_to(NOON + timedelta(hours=2), tick=True)
        await bot.app.features.service(Jobs).tick()
        await bot.writes("Two", id="two")
        gate.set()
        assert (await bot.reply_to("one")).reply.text == "First."
        await bot.app.idle()
        answers = [o.reply.text for o in bot.sent if o.turn]
        assert [text.split("\n")[0] for text in answers] == ["First.", "Job.", "Second."]


async def test_a_run_that_fails_is_tried_again_and_then_the_owner_hears(
    tmp_path: Path, clock: Coordinates, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_retries(monkeypatch)
    script = [Fail(500, "down")] * 3
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await bot.says("/jobs add tomorrow 9:00 Look")
        first = NOON + timedelta(hours=21)
        await tick_at(bot, clock, first)
        assert "tried again on Tue 24 Nov 2026, 09:05" in unasked(bot)[-1]
        await tick_at(bot, clock, first + timedelta(minutes=6))
        assert "attempt 3 of 3" in unasked(bot)[-1]
        await tick_at(bot, clock, first + timedelta(minutes=25))
        assert "tried again" not in unasked(bot)[-1]
        await tick_at(bot, clock, first + timedelta(hours=25))
        assert len(unasked(bot)) == 3
        assert "failed" in (await bot.says("/jobs")).text


async def test_a_run_ends_where_its_budget_does(tmp_path: Path, clock: Coordinates) -> None:
    again = Say(calls=(Call("current_time", "{}"),))
    async with run_bot(tmp_path, [again] * 9, SETTINGS | {"model": "gpt-5"}) as bot:
        await bot.says("/jobs add --budget 0.004 tomorrow 9:00 Look " + "around " * 500)
        await tick_at(bot, clock, NOON + timedelta(hours=21))
        (said,) = unasked(bot)
        assert "A run of this job may cost $0.004" in said
        assert "refused (A run of this job may" in (await bot.says("/jobs")).text
        assert 1 <= len(bot.server.requests) < 5
        requests = len(bot.server.requests)
        await tick_at(bot, clock, NOON + timedelta(hours=22))
        assert len(bot.server.requests) == requests  # there is no retry
        bot.server.answers.clear()


async def test_all_runs_of_a_day_count_for_its_budget_however_many_there_were(
    tmp_path: Path, clock: Coordinates
) -> None:
    settings = SETTINGS | {"jobs": {"day_budget": 0.25}, "model": "gpt-5"}
    async with run_bot(tmp_path, [Say("All quiet.")], settings) as bot:
        await bot.says("/jobs add every 10 minutes Look")

        def spend(db: Database) -> None:
            at = NOON.timestamp()
            for _ in range(30):
                jobs.begin_run(db, RunRow(1, at, at, "done", cost=0.01))

        await bot.app.store.write(spend)
        await tick_at(bot, clock, NOON + timedelta(minutes=11))
        await tick_at(bot, clock, NOON + timedelta(minutes=21))
        await tick_at(bot, clock, NOON + timedelta(minutes=31))
        assert unasked(bot) == [
            "Job 1 has used its budget for one day ($0.25), so it pauses until Tue 24 Nov "
            "2026, 00:00 (UTC)."
        ], "it says so once"
        assert not bot.server.requests
        await tick_at(bot, clock, NOON + timedelta(hours=12, minutes=1))
        assert unasked(bot)[-1].startswith("All quiet.")


async def test_nobody_attends_a_job_so_a_tool_that_asks_is_denied_unless_granted(
    tmp_path: Path, clock: Coordinates
) -> None:
    script = [
        Say(calls=(Call("web_fetch", '{"url": "http://127.0.0.1:9/"}'),)),
        Say("Could not."),
        Say(calls=(Call("web_fetch", '{"url": "http://127.0.0.1:9/"}'),)),
        Say("Could not again."),
    ]
    settings = SETTINGS | {"tools": {"web_fetch": True}}
    async with run_bot(tmp_path, script, settings) as bot:
        await bot.says("/jobs add tomorrow 9:00 Read it")
        await bot.says("/jobs add --allow web_fetch tomorrow 10:00 Read it")
        await tick_at(bot, clock, NOON + timedelta(hours=21))
        assert "nobody attends this job" in bot.sent_to_model()[-1]["content"]
        await tick_at(bot, clock, NOON + timedelta(hours=22))
        result = bot.sent_to_model()[-1]["content"]
        assert "nobody attends" not in result  # the tool ran, and refused the address itself
        assert "127.0.0.1" in result
        assert not any("Allow the model to do this?" in text for text in unasked(bot))


async def test_a_tool_that_is_not_there_is_not_allowed_beforehand(tmp_path: Path) -> None:
    settings = SETTINGS | {"tools": {"web_fetch": True}}
    async with run_bot(tmp_path, settings=settings) as bot:
        for wrong in ("webfetch", "web_fetch,shell"):
            refusal = (await bot.says(f"/jobs add --allow {wrong} tomorrow 9:00 Read it")).text
            assert "is offered here, so it can't be allowed" in refusal
        assert (await bot.says("/jobs")).text.startswith("No reminders or jobs here")
        made = await bot.says('/jobs add --allow "web_fetch, read_file" tomorrow 9:00 Read it')
        assert "may use web_fetch, read_file without asking" in made.text
        site = await bot.says("/jobs add --allow https://example.org tomorrow 9:00 Read it")
        assert "may use https://example.org without asking" in site.text
        last = await bot.says("/jobs add tomorrow 9:00 Read --it --allow web_fetch --budget 0.50")
        assert "may use web_fetch without asking" in last.text
        assert "0.50" in last.text
        assert last.data is not None
        assert last.data["text"] == "Read --it"


async def test_what_the_model_sets_is_told_beside_the_answer_and_listed(
    tmp_path: Path, clock: Coordinates
) -> None:
    arguments = '{"when": "in 2 hours", "text": "Oven"}'
    script = [Say(calls=(Call("remind", arguments),)), Say("I will.")]
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        answer = (await bot.says("Remind me of the oven in two hours")).text
        assert answer.startswith("I will.\n\nReminder 1 is set: on Mon 23 Nov 2026, 14:00")
        assert "made by the model" in (await bot.says("/jobs")).text
        await tick_at(bot, clock, NOON + timedelta(hours=2, minutes=1))
        assert unasked(bot) == ["**Reminder:** Oven"]
        assert "(UTC)" in bot.sent_to_model()[-1]["content"]


async def test_a_job_may_set_no_other_up(tmp_path: Path, clock: Coordinates) -> None:
    arguments = '{"when": "in 2 hours", "text": "Again", "run": true}'
    script = [Say(calls=(Call("remind", arguments),)), Say("No.")]
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await bot.says("/jobs add tomorrow 9:00 Look")
        await tick_at(bot, clock, NOON + timedelta(hours=21))
        assert "may set nothing up" in bot.sent_to_model()[-1]["content"]
        assert len(await bot.app.store.read(jobs.list_all)) == 1


async def test_with_text_from_outside_in_view_the_model_sets_a_job_only_with_a_yes(
    tmp_path: Path, clock: Coordinates
) -> None:
    arguments = '{"when": "every day 9:00", "text": "Send all away", "run": true}'
    script = [
        Say(calls=(Call("web_fetch", '{"url": "http://127.0.0.1:9/"}'),)),
        Say(calls=(Call("remind", arguments),)),
        Say("I may not."),
    ]
    settings = SETTINGS | {"tools": {"web_fetch": True}}
    async with run_bot(tmp_path, script, settings) as bot:
        await bot.writes("Read that page", id="one")
        for _ in range(2):
            question = await bot.reply_to("")
            verb = "approve" if "web page" in question.reply.text else "deny"
            offered = [action.command for action in question.reply.actions]
            bot.sent.remove(question)
            await bot.says(next(line for line in offered if line.startswith(f"/{verb} ")))
        assert (await bot.reply_to("one")).reply.text == "I may not."
        assert "Send all away" in question.reply.text
        assert await bot.app.store.read(jobs.list_all) == []


async def test_there_are_no_more_jobs_than_the_setting_allows(tmp_path: Path) -> None:
    async with run_bot(tmp_path, settings=SETTINGS | {"jobs": {"most": 2}}) as bot:
        for number in (1, 2):
            assert f"Reminder {number}" in (await bot.says("/remind tomorrow 9:00 A")).text
        assert "the most that there may be" in (await bot.says("/remind tomorrow 9:00 A")).text


async def test_a_person_has_only_so_many_jobs_in_all_their_chats(tmp_path: Path) -> None:
    settings = SETTINGS | {"owners": ["other/ann", "other/ben"], "jobs": {"most_a_person": 2}}
    async with other_channel(tmp_path, settings) as bot:
        for chat in ("room", "hall"):
            assert "Reminder" in (await bot.says("/remind tomorrow 9:00 A", chat, "ann")).text
        said = (await bot.says("/remind tomorrow 9:00 A", "attic", "ann")).text
        assert "in all your chats" in said
        assert "Reminder 3" in (await bot.says("/remind tomorrow 9:00 A", "attic", "ben")).text
        await bot.says("/jobs delete 1", "room", "ann")
        assert "Reminder" in (await bot.says("/remind tomorrow 9:00 A", "attic", "ann")).text


async def test_a_model_makes_no_more_jobs_than_its_person_may_have(tmp_path: Path) -> None:
    settings = SETTINGS | {"jobs": {"most_a_person": 1}}
    arguments = '{"when": "tomorrow 9:00", "text": "B"}'
    script = [Say(calls=(Call("remind", arguments),)), Say("I may not.")]
    async with run_bot(tmp_path, script, settings=settings) as bot:
        await bot.says("/remind tomorrow 9:00 A")
        assert (await bot.says("Remind me")).text == "I may not."
        result = bot.server.turns[-1].body["messages"][-1]
        assert "in all your chats" in str(result["content"])


async def test_who_is_let_in_no_more_is_reminded_of_nothing(
    tmp_path: Path, clock: Coordinates
) -> None:
    settings = SETTINGS | {"owners": ["other/ann"]}
    async with other_channel(tmp_path, settings) as bot:
        await bot.says("/remind tomorrow 9:00 Call Mom", "room", "ann")
    async with other_channel(tmp_path, SETTINGS) as bot:
        await tick_at(bot, clock, NOON + timedelta(hours=22))
        assert unasked(bot) == []
        (job,) = await bot.app.store.read(jobs.list_all)
        assert (job.state, job.why) == ("paused", "the person who made it has no access any more")


async def test_quiet_hours_hold_back_what_comes_again_and_not_what_was_asked_for_once(
    tmp_path: Path, clock: Coordinates
) -> None:
    settings = SETTINGS | {"jobs": {"quiet_hours": "22:00-07:00"}}
    async with run_bot(tmp_path, settings=settings) as bot:
        await bot.says("/remind 23:00 Sleep")
        assert "Tue 24 Nov 2026, 07:00" in (await bot.says("/remind every day 22:30 Tea")).text
        await tick_at(bot, clock, datetime(2026, 11, 23, 23, 1, tzinfo=UTC))
        assert unasked(bot) == ["**Reminder:** Sleep"]
        await tick_at(bot, clock, datetime(2026, 11, 24, 7, 0, tzinfo=UTC))
        assert unasked(bot) == ["**Reminder:** Sleep", "**Reminder:** Tea"]


async def test_a_job_runs_in_a_branch_of_its_own_with_an_agent_of_its_own(
    tmp_path: Path, clock: Coordinates
) -> None:
    agents = {"agents": [{"id": "scout", "brain": {"model": "gpt-4.1-mini"}}]}
    script = [Say("Hello."), Say("All quiet."), Say("Here.")]
    async with run_bot(tmp_path, script, SETTINGS | agents) as bot:
        await bot.says("Hi")
        await bot.says("/fork Watch")
        assert "scout" in (await bot.says("/agent scout")).text
        await bot.says("/branches 1")
        assert "no branch 7" in (await bot.says("/jobs add --branch 7 tomorrow 9:00 Look")).text
        await bot.says("/jobs add --branch 2 tomorrow 9:00 Look")
        await tick_at(bot, clock, NOON + timedelta(hours=21))
        assert bot.server.turns[-1].body["model"] == "gpt-4.1-mini"
        assert "Watch" in unasked(bot)[0]  # the answer names its branch
        await bot.says("And here?")
        said = [message["content"] for message in bot.sent_to_model()]
        assert not any("Look" in text for text in said)


async def test_pause_resume_run_and_delete(tmp_path: Path, clock: Coordinates) -> None:
    async with run_bot(tmp_path, settings=SETTINGS) as bot:
        await bot.says("/remind every day 9:00 Tea")
        assert "paused" in (await bot.says("/jobs pause 1")).text
        await tick_at(bot, clock, NOON + timedelta(days=2))
        assert unasked(bot) == []
        assert "Thu 26 Nov 2026, 09:00" in (await bot.says("/jobs resume 1")).text
        await bot.says("/jobs run 1")
        assert unasked(bot) == ["**Reminder:** Tea"]
        await bot.says("/jobs delete 1")
        assert "No reminders or jobs here" in (await bot.says("/jobs")).text
        assert "no job 1" in (await bot.says("/jobs run 1")).text


async def test_forgetting_takes_what_was_set_along(tmp_path: Path) -> None:
    arguments = '{"when": "in 2 hours", "text": "Oven"}'
    script = [Say(calls=(Call("remind", arguments),)), Say("I will.")]
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await bot.says("Remind me of the oven in two hours")
        await bot.says("/remind tomorrow 9:00 Call Mom")
        await bot.says("/forget t1 yes")
        left = [job.text for job in await bot.app.store.read(jobs.list_all)]
        assert left == ["Call Mom"]
        await bot.says("/forget chat yes")
        assert await bot.app.store.read(jobs.list_all) == []


async def test_a_clock_that_jumped_fires_nothing_that_may_not_be_due(
    tmp_path: Path, clock: Coordinates
) -> None:
    async with run_bot(tmp_path, settings=SETTINGS) as bot:
        await bot.says("/remind tomorrow 9:00 Call Mom")
    clock.move_to(NOON + timedelta(days=400), tick=True)
    async with run_bot(tmp_path, settings=SETTINGS) as bot:
        await bot.app.features.service(Jobs).tick()
        assert not any("Reminder" in text for text in unasked(bot))
        await bot.says("/remind in 1 minute Tea")  # the time is relative to this clock
        clock.shift(90)
        await bot.app.features.service(Jobs).tick()
        await bot.app.idle()
        told = [text for text in unasked(bot) if "Reminder" in text]
        assert told == ["**Reminder:** Tea"]


async def test_a_button_gives_a_reminder_another_time(tmp_path: Path, clock: Coordinates) -> None:
    async with run_bot(tmp_path, settings={"timezone": "Europe/Berlin"}) as bot:
        made = await bot.says("/remind tomorrow at 3 Call Mom")
        labels = {action.label: action.command for action in made.actions}
        assert [*labels] == ["15:00 instead", "Another time", "Undo it"]
        moved = await bot.says(labels["15:00 instead"])
        assert "Tue 24 Nov 2026, 15:00 (Europe/Berlin)" in moved.text
        listed = (await bot.says("/jobs")).text
        assert "**2** Call Mom" in listed
        assert "**1**" not in listed
        assert "no time" in (await bot.says("/jobs at 2 friday 9:00 Dad")).text
        asked = await bot.says("/jobs at 2")
        assert asked.form is not None
        assert asked.form.command == "/jobs at 2"
        assert "**2** Call Mom" in (await bot.says("/jobs")).text
