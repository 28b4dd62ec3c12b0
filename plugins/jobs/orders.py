"""Makes, lists, shows and changes jobs, for the commands and for the model."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from agent.tools import ToolError
from bot.delivery import columns_of
from bot.sending import address_of
from channels.language import _, explain, number_of
from channels.message import Address
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.record.database import Database
from memory.record.store import StoreError
from memory.turn_log import OpenTurn
from plugins.api import Ask, CommandError, refusal
from plugins.jobs import record as rows
from plugins.jobs.calls import HookCalls, secret_name
from plugins.jobs.firing import JobConditions
from plugins.jobs.plans import (
    JobView,
    describe_last,
    describe_made,
    describe_when,
    quiet_hours_of,
    to_reminder,
)
from plugins.jobs.record import JobRow, NewJob, RunDelivery
from plugins.jobs.recurrence import format_time, next_time, postpone
from plugins.jobs.runs import JobRunner
from plugins.jobs.settings import JobSettings
from plugins.wording import clip, format_list, literal, money

MOST_A_TURN = 5
"""The maximum number of jobs that the model may create in one turn."""
LONGEST_TEXT = 4_000
"""The maximum length of a reminder or a prompt in characters."""


class JobOrders:
    """The operations on jobs."""

    def __init__(
        self,
        runner: JobRunner,
        conversations: Conversations,
        calls: HookCalls,
        conditions: JobConditions,
    ) -> None:
        self._runner, self._conversations = runner, conversations
        self._calls, self._conditions = calls, conditions
        self._made: defaultdict[tuple[str, int], list[JobView]] = defaultdict(list)

    def list_made(self, turn: OpenTurn) -> list[str]:
        """Return sentences about the jobs that a turn has created. Each is returned once."""
        if not self._made:
            return []
        made = self._made.pop((turn.log.state.key.id, turn.number), [])
        return [describe_made(view) for view in made]

    async def add(self, address: Address, key: ConversationKey, new: NewJob) -> JobView:
        """Store a new job. Raises CommandError, and StoreError."""
        job = self._make(address, key, new, "")
        return await self._keep(job, key)

    async def import_entry(
        self, address: Address, key: ConversationKey, new: NewJob, *, is_rehearsal: bool
    ) -> bool:
        """Store a job imported from another program, paused until a person resumes it; return
        whether it is new here. Raises CommandError, and StoreError."""
        made = replace(self._make(address, key, new, ""), state="paused", why="it was imported")
        known = {_identity_of(view.job) for view in await self.all(address)}
        if _identity_of(made) in known:
            return False
        if not is_rehearsal:
            await self._keep(made, key)
        return True

    async def add_for_model(self, key: ConversationKey, address: Address, new: NewJob) -> str:
        """Store a job that the model creates; return the tool's result. The person is notified with
        the answer. Raises ToolError."""
        conversation = await self._conversations.get(key)
        number = conversation.turns.state.current
        made = self._made[key.id, number]
        try:
            if len(made) >= MOST_A_TURN:
                raise ToolError(f"Not made: {MOST_A_TURN} in one turn are the most.")
            view = await self._keep(self._make(address, key, new, f"{key.id} t{number}"), key)
        except (CommandError, StoreError) as error:
            raise ToolError(str(error)) from None
        finally:
            if not made:
                self._made.pop((key.id, number), None)
        self._made[key.id, number].append(view)
        return describe_made(view)

    def _make(self, address: Address, key: ConversationKey, new: NewJob, turn: str) -> JobRow:
        text = new.text.strip()
        if not text:
            raise refusal("Say what about: the text is empty.")
        if len(text) > LONGEST_TEXT:
            raise refusal(
                "That is longer than the {most:,} characters there may be.", most=LONGEST_TEXT
            )
        now, settings = self._runner.clock(), self._runner.settings(key)
        at = 0.0 if new.hook else _first_time(new, settings, now)
        return JobRow(
            home=key.home,
            place=columns_of(address),
            kind=new.kind,
            text=text,
            rule=new.rule,
            zone=new.zone,
            next_at=at,
            anchor=new.anchor,
            planned_at=now,
            turn=turn,
            grants=" ".join(new.grants),
            max_steps=settings.max_steps,
            run_budget=settings.run_budget if new.budget is None else new.budget,
            day_budget=settings.day_budget,
            branch=new.branch,
            hook=new.hook,
            condition=new.condition,
        )

    async def _keep(self, job: JobRow, key: ConversationKey) -> JobView:
        settings = self._runner.settings(key)
        most, most_a_person = settings.most, settings.most_a_person

        def work(db: Database) -> int | None:
            if rows.find_hook(db, job.hook) is not None:
                return None
            is_full = rows.count_of(db, job.place) >= most_a_person
            return -1 if is_full else rows.insert(db, job, most)

        number = await self._runner.store.write(work)
        if number is None:
            raise refusal("There is a hook {hook} already; choose another name.", hook=job.hook)
        if number < 0:
            raise CommandError(
                number_of(
                    most_a_person,
                    "Not made: you have a reminder or job already, and may have only one in all "
                    "your chats (jobs.most_a_person). /jobs delete N makes room.",
                    "Not made: you have {n} reminders and jobs in all your chats, the most that "
                    "there may be (jobs.most_a_person). /jobs delete N in one of them makes room.",
                )
            )
        if not number:
            raise CommandError(
                number_of(
                    most,
                    "Not made: this chat has a reminder or job already, and may have only one "
                    "(jobs.most). /jobs delete N makes room.",
                    "Not made: this chat has {n} reminders and jobs, the most that there may be "
                    "(jobs.most). /jobs lists them; /jobs delete N makes room.",
                )
            )
        await self._runner.wake()
        kept = replace(job, id=number)
        if kept.condition:
            self._conditions.check(kept, self._runner.resolve(kept))
        return JobView(kept)

    async def all(self, address: Address) -> list[JobView]:
        """Return the jobs of the chat that an address resolves to."""
        home = self._runner.home_of(address)

        def work(db: Database) -> list[JobView]:
            mine = [job for job in rows.list_all(db) if self._runner.resolve(job).home == home]
            return [_to_view(db, job) for job in mine]

        return await self._runner.store.read(work)

    def missing_secret(self, hook: str) -> str:
        """Return the environment variable in which a hook's secret is missing; "" if it has one."""
        return "" if self._calls.has_secret(hook) else secret_name(hook)

    async def run(self, address: Address, number: int) -> JobView:
        """Run a job now, in addition to its schedule. Raises CommandError, and StoreError."""
        job = await self._find(address, number)
        now = self._runner.clock()
        if job.hook:
            raise refusal("Job {n} runs when its hook {hook} is called.", n=number, hook=job.hook)
        await self._check_may_happen(job)
        if job.kind == "reminder":
            with self._runner.speaking_to(job):
                reply = to_reminder(job)
            await self._runner.notify_run(job, job, reply, "told", now)
        elif not await self._runner.run(job, self._runner.resolve(job), job, now, due=now):
            raise refusal("Job {n} is running already, or waits for its turn.", n=number)
        return await self._view(number)

    async def pause(self, address: Address, number: int) -> JobView:
        """Pause a job. Raises CommandError, and StoreError."""
        job = await self._find(address, number)
        if job.state != "active":
            raise CommandError(
                _("Job {n} is paused already.", n=number)
                if job.state == "paused"
                else _("Job {n} is done already.", n=number)
            )
        await self._runner.pause(job, "you paused it")
        return await self._view(number)

    async def resume(self, address: Address, number: int) -> JobView:
        """Resume a job. Raises CommandError, and StoreError."""
        job, now = await self._find(address, number), self._runner.clock()
        if job.state != "paused":
            raise refusal("Job {n} is not paused.", n=number)
        await self._check_may_happen(job)
        at = job.next_at if job.next_at > now else 0.0
        if job.rule:
            at = next_time(job.rule, job.anchor, now, ZoneInfo(job.zone))
        if not at and not job.hook:
            raise refusal("The time of job {n} has passed; `/jobs run {n}` does it now.", n=number)
        going = replace(job, state="active", why="", next_at=at, planned_at=now, failures=0)
        await self._runner.move(job, going)
        await self._runner.wake()
        return await self._view(number)

    async def delete(self, address: Address, number: int) -> JobView:
        """Delete a job and return it. Raises CommandError, and StoreError."""
        job = await self._find(address, number)
        await self._runner.store.write(lambda db: rows.delete(db, job.id))
        return JobView(job)

    async def _find(self, address: Address, number: int) -> JobRow:
        """Return a job if it may be changed from this address: by its creator or an owner. Raises
        CommandError."""
        job = await self._runner.store.read(lambda db: rows.find(db, number))
        if job is None or self._runner.resolve(job).home != self._runner.home_of(address):
            raise refusal("There is no job {number} in this chat; /jobs lists them.", number=number)
        person, maker = self._runner.access.identify(address), address_of(job.place)
        is_maker = (address.channel, address.user) == (maker.channel, maker.user)
        if person is None or not (person.is_owner or is_maker):
            raise refusal("Only the person who made job {n}, or an owner, may change it.", n=number)
        return job

    async def _check_may_happen(self, job: JobRow) -> None:
        """Raise CommandError for a job that has no chat to run in, or would run in another chat's
        context."""
        if why := await self._runner.find_why_not(job):
            raise refusal(
                "Job {n} can't run: {why}. `/jobs delete {n}` deletes it.",
                n=job.id,
                why=explain(why),
            )

    async def _view(self, number: int) -> JobView:
        def work(db: Database) -> JobView | None:
            job = rows.find(db, number)
            return _to_view(db, job) if job else None

        if (view := await self._runner.store.read(work)) is None:
            raise refusal("Job {n} was deleted meanwhile.", n=number)
        return view


def _identity_of(job: JobRow) -> object:
    """Return the fields by which an imported job is recognised."""
    return job.kind, job.text, job.rule, 0.0 if job.rule else job.anchor


def _to_view(db: Database, job: JobRow) -> JobView:
    last = next(iter(rows.list_runs(db, job.id, 1)), None)
    return JobView(job, last, rows.delivery_of(db, last) if last else RunDelivery())


def _first_time(new: NewJob, settings: JobSettings, now: float) -> float:
    zone = ZoneInfo(new.zone)
    at = postpone(next_time(new.rule, new.anchor, now, zone), quiet_hours_of(new, settings), zone)
    if not at:
        raise refusal("{at} has passed already.", at=format_time(new.anchor, zone))
    return at


def describe_bounds(view: JobView) -> list[str]:
    """Describe the limits of a job's unattended runs."""
    job = view.job
    if job.kind == "reminder":
        return []
    budgets = (
        _("{amount} a run", amount=money(job.run_budget)) if job.run_budget else "",
        _("{amount} a day", amount=money(job.day_budget)) if job.day_budget else "",
    )
    most = format_list([budget for budget in budgets if budget])
    costs = _("may cost {budgets}", budgets=most) if most else _("has no budget")
    if job.kind == "command":
        return [_("It {costs}.", costs=costs)]
    granted = ", ".join(job.grants.split())
    tools = (
        _("may use {tools} without asking", tools=granted)
        if granted
        else _("may use no tool that has to ask")
    )
    return [_("It {costs}, and {tools}.", costs=costs, tools=tools)]


def to_data(view: JobView) -> dict[str, Any]:
    job, last = view.job, view.last
    return {
        "id": job.id,
        "kind": job.kind,
        "text": job.text,
        "rule": job.rule,
        "zone": job.zone,
        "next": job.next_at or None,
        "state": job.state,
        "run": last.outcome if last else None,
        "unsent": view.delivered.waiting,
        "hook": job.hook or None,
        "forged": job.forged,
    }


def describe_call(ask: Ask, view: JobView) -> list[str]:
    """Describe the missing secret of a hook, and its refused calls."""
    job, missing = view.job, ask.service(JobOrders).missing_secret(view.job.hook)
    parts = []
    if missing:
        parts.append(
            _(
                "Put {name}=… (a long random text) into .env, restart me, and give the same text "
                "to the program as its secret; until then each call is refused.",
                name=missing,
            )
        )
    if job.forged:
        at = format_time(job.forged_at, view.zone)
        parts.append(
            number_of(
                job.forged,
                "{n} call came without the secret and was refused, on {at}.",
                "{n} calls came without the secret and were refused, the last on {at}.",
                at=at,
            )
        )
    return parts


def name_of_job(view: JobView) -> str:
    number = view.job.id
    return _("Reminder {n}", n=number) if view.job.kind == "reminder" else _("Job {n}", n=number)


def to_line(view: JobView) -> str:
    job = view.job
    when = _("done") if job.state == "done" else describe_when(view)
    if job.state == "paused":
        when += _(" (paused: {why})", why=explain(job.why))
    if job.turn:
        when += _(", made by the model")
    retry_at = format_time(job.retry_at, view.zone) if job.retry_at else ""
    again = _("tried again on {at}", at=retry_at) if retry_at else ""
    parts = filter(None, (when, describe_last(view), again))
    return f"- **{job.id}** {literal(clip(job.text, 60))}: {'; '.join(parts)}"
