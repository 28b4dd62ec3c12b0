"""Reminders and jobs: what is told, or runs as a turn, at a time of its own.

Jobs are rows (`memory/record/jobs.py`); once a minute, and when the next one is due, `Jobs.tick`
fires what is due. A reminder goes to the outbox and a prompt to the inbox in the transaction that
moves its row on. From there a prompt is a message like any other: it waits for its turn, and goes
on after a crash. Whatever it may not do is in what its turn is answered with (`prepare`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from agent.loop import Agent
from agent.tools import ToolError
from agent.tools.base import NOT_RUN, Approve, Permission
from bot.access import Access
from bot.delivery import Delivery, columns_of, to_received
from bot.received import Received, key_of
from bot.sending import address_of
from bot.settings.jobs import JobSettings
from bot.spending import BudgetedModel, RunBudget
from bot.turns import INTERRUPTED, Turns
from channels.language import _
from channels.message import Address, Problem, Reply
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import Mark
from memory.record import jobs as rows
from memory.record.database import Database
from memory.record.jobs import JobRow, NewJob, Outcome, RunDelivery, RunRow
from memory.record.mailbox import InboxRow, OutboxRow
from memory.record.store import Store, StoreError
from memory.turn_log import OpenTurn
from plugins.api import CommandError
from plugins.jobs import JobView, describe_made
from plugins.recurrence import count_missed, describe, format_time, next_time, postpone

log = logging.getLogger(__name__)

GRACE = 300.0
"""Seconds after its time from which on what is told or run is called late."""
CATCH_UP = 86_400.0
"""Seconds after its time up to which a prompt is still run: what costs money is not made up for
after a long absence, or when an old backup is restored."""
WAITS = (300.0, 900.0)
"""Seconds until a run that failed is tried again, for each attempt after the first."""
ATTEMPTS = len(WAITS) + 1
MOST_A_TURN = 5
"""Jobs that the model may make in one turn."""
MOST_FAILURES = 3
"""Runs in a row that may fail for good until a job rests."""
LONGEST_TEXT = 4_000
"""Characters of a reminder or a prompt."""
SHUT_OUT = "whoever made it is let in no more"
_WORTH_AGAIN: frozenset[Problem] = frozenset(
    {"failed", "busy", "unavailable", "upstream", "timeout"}
)


@dataclass(frozen=True, slots=True)
class JobRules:
    """What holds for the jobs of a conversation, asked each time. `believed` is the time that is
    believed, where the clock is in doubt (`bot/clock.py`), and `midnight` when the day began, in
    seconds since 1970; `is_asked` says whether tools ask a person there."""

    settings: Callable[[ConversationKey], JobSettings]
    zone: Callable[[], ZoneInfo]
    believed: Callable[[], float]
    midnight: Callable[[], float]
    is_asked: Callable[[ConversationKey], bool]


def plan_after(job: JobRow, now: float, quiet: str = "") -> JobRow:
    """A job once it is fired: with when it is due next, outside of the quiet hours."""
    if 0 < job.retry_at <= now:
        return replace(job, retry_at=0.0)
    zone = ZoneInfo(job.zone)
    at = postpone(next_time(job.rule, job.anchor, now, zone), quiet, zone) if job.rule else 0.0
    state = job.state if at else "done"
    return replace(job, next_at=at, planned_at=now, state=state, attempts=0, retry_at=0.0)


def is_doubtful(job: JobRow, now: float, believed: float) -> bool:
    """Whether a job is due by a clock alone that is not believed: planned before it jumped, for a
    time that may not have come."""
    return believed < now and job.planned_at <= believed < job.due


def plan_retry(job: JobRow, due: float, now: float) -> JobRow:
    """A job after a run of it has failed: tried again, or when that was the last attempt, counted;
    one that fails again and again rests."""
    if job.attempts < len(WAITS):
        at = now + WAITS[job.attempts]
        return replace(job, retry_at=at, retry_due=due, attempts=job.attempts + 1)
    failed = replace(job, attempts=0, retry_at=0.0, failures=job.failures + 1)
    if job.state == "active" and failed.failures >= MOST_FAILURES:
        return replace(failed, state="paused", why=f"{failed.failures} runs in a row failed")
    return failed


async def _unheard(job: int, sentence: str, address: Address) -> None:
    """Nobody is told."""


class Jobs:
    """All jobs, those that other processes own too, of which it fires its own. `wake_at` is told
    when the next is due; `clock` gives seconds since 1970."""

    def __init__(
        self,
        store: Store,
        delivery: Delivery,
        turns: Turns,
        conversations: Conversations,
        access: Access,
        rules: JobRules,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._delivery, self._turns = store, delivery, turns
        self._conversations, self._access, self._rules = conversations, access, rules
        self.clock = clock
        self.wake_at: Callable[[float], None] = lambda at: None
        self.on_failure: Callable[[int, str, Address], Awaitable[None]] = _unheard
        self._made: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        self._ticking = asyncio.Lock()

    # --- what is due ------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Fire what is due, and have this happen again when something is."""
        async with self._ticking:
            try:
                for job in await self._store.read(lambda db: rows.list_due(db, self.clock())):
                    await self._try_to_fire(job)
                await self._wake()
            except StoreError:
                log.exception("what is due could not be looked up; it is tried again in a minute")

    async def _try_to_fire(self, job: JobRow) -> None:
        try:
            await self._fire(job)
        except StoreError as error:
            log.warning("job %d was not fired, and is tried again in a minute: %s", job.id, error)
        except Exception:  # one row must not hold up the others
            log.exception("job %d could not be fired", job.id)

    async def _wake(self) -> None:
        at = await self._store.read(rows.next_due)
        if at > self.clock():
            self.wake_at(at)

    async def _fire(self, job: JobRow) -> None:
        now, key = self.clock(), self._lead(job)
        if not self._conversations.is_ours(key.id):
            return
        if is_doubtful(job, now, self._rules.believed()):
            return
        quiet = self._rules.settings(key).quiet_hours if job.rule or job.kind == "prompt" else ""
        later = postpone(now, quiet, ZoneInfo(job.zone))
        address = address_of(job.place)
        if later > now and not job.retry_at:
            await self._move(job, replace(job, next_at=later))
        elif self._access.identify(address) is None:
            await self._move(job, replace(job, state="paused", why=SHUT_OUT))
        elif job.kind == "reminder":
            await self._remind(job, address, now, quiet)
        elif now - job.due > CATCH_UP and not job.retry_at:
            await self._pass_over(job, address, now, quiet)
        else:
            await self._run(job, key, plan_after(job, now, quiet), now)

    def _lead(self, job: JobRow) -> ConversationKey:
        """The conversation that a job belongs to now."""
        key = self._turns.lead(address_of(job.place))
        return key.branch(job.branch) if job.branch else key

    async def _move(self, before: JobRow, after: JobRow) -> None:
        await self._store.write(lambda db: rows.claim(db, before, after))

    async def _remind(self, job: JobRow, address: Address, now: float, quiet: str) -> None:
        zone = ZoneInfo(job.zone)
        missed = count_missed(job.rule, job.anchor, job.due, now, zone)
        text = f"**Reminder:** {job.text}{_describe_lateness(job.due, now, zone, missed)}"
        await self._tell_run(job, plan_after(job, now, quiet), Reply(text), "told", now)

    async def _pass_over(self, job: JobRow, address: Address, now: float, quiet: str) -> None:
        """Say that a prompt was not run, since that would have been too late."""
        zone = ZoneInfo(job.zone)
        text = (
            f"Job {job.id} was due on {format_time(job.due, zone)}, when I was not running. That "
            f"is over a day ago, so it was not run. `/jobs run {job.id}` runs it now."
        )
        await self._tell_run(job, plan_after(job, now, quiet), Reply(text), "refused", now)

    async def _tell_run(
        self, job: JobRow, after: JobRow, reply: Reply, outcome: Outcome, now: float
    ) -> None:
        """Say something of a job in its chat, which is all that there is to this run."""

        def put(db: Database, parts: list[OutboxRow]) -> list[int]:
            if not rows.claim(db, job, after):
                return []
            why = "" if outcome == "told" else "it was due over a day before"
            run = rows.begin_run(db, RunRow(job.id, job.due, now, outcome, why, ended=now))
            return rows.put_out(db, run, parts)

        await self._delivery.tell_if(address_of(job.place), reply, put)

    async def _run(
        self, job: JobRow, key: ConversationKey, after: JobRow, now: float, due: float = 0.0
    ) -> bool:
        """Put a prompt into the inbox and its conversation's line, unless an earlier run of it is
        still under way; says whether it was."""
        address, text = address_of(job.place), _to_prompt(job)

        def work(db: Database) -> InboxRow | None:
            if not rows.claim(db, job, after) or rows.is_running(db, job.id):
                return None
            run = rows.begin_run(db, RunRow(job.id, due or job.due, now))
            branch = key.id if key.id != key_of(address).id else ""
            name = f"job-{job.id}-{run}"
            message = InboxRow(0, job.place, name, text, "", now, branch=branch)
            return rows.put_in(db, run, message, hashlib.sha256(text.encode()).hexdigest()[:32])

        row = await self._store.write(work)
        if row is not None:
            self._turns.put(to_received(row, key, None), text)
        return row is not None

    # --- a run as a turn (`bot.turns.JobRuns`) ----------------------------------------------------

    async def prepare(self, received: Received, conversation: Conversation, agent: Agent) -> Agent:
        """What a run is answered with: within its budget, and with nobody there to be asked."""
        midnight = self._rules.midnight()

        def look(db: Database) -> tuple[JobRow | None, float, float]:
            run = rows.find_run(db, received.run)
            job = rows.find(db, run.job) if run else None
            earlier = rows.spent_since(db, job.id, midnight) if job else 0.0
            return job, rows.cost_of(db, received.run), earlier

        job, before, earlier = await self._store.read(look)
        if job is None:
            raise RuntimeError(f"the job of run {received.run} was deleted just now")
        context = conversation.context
        begun = context.bill.cost
        budget = RunBudget(
            job.run_budget, job.day_budget, lambda: before + context.bill.cost - begun, earlier
        )
        person = self._access.identify(received.address)
        approve = _approve_granted(
            job, self._rules.is_asked(conversation.key), person is not None and person.is_owner
        )
        surroundings = replace(agent.surroundings, approve=approve, keep_job=None)
        return replace(
            agent,
            model=BudgetedModel(agent.model, budget),
            surroundings=surroundings,
            max_steps=lambda: job.max_steps,
        )

    async def refusal(self, received: Received) -> str:
        """Why a run that waited does not begin; "": it does."""
        run = await self._store.read(lambda db: rows.find_run(db, received.run))
        return "" if run is not None else "The job was deleted before its turn came."

    async def answer(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> None:
        """Keep what came of a run, in one transaction with its reply."""

        def look(db: Database) -> tuple[RunRow, JobRow] | None:
            run = rows.find_run(db, received.run)
            job = rows.find(db, run.job) if run else None
            return (run, job) if run and job else None

        found = await self._store.read(look)
        if found is None:
            await self._delivery.answer(received, reply, turn)
            return
        run, job = found
        ending = _judge(reply, mark)
        after = _plan_ended(job, run, ending, self.clock())
        note = _describe_run(job, after, run, ending)
        said = replace(reply, text=f"{reply.text}\n\n({note})")

        def also(db: Database, ids: Sequence[int]) -> None:
            rows.end_run(db, run.id, ending.outcome, ending.why, ids)
            if (now := rows.find(db, job.id)) is not None:
                rows.claim(db, now, _plan_ended(now, run, ending, self.clock()))

        await self._delivery.answer(received, said, turn, also)
        await self._wake()
        if ending.outcome == "failed" and not after.retry_at:
            sentence = f"Job {job.id} failed: {ending.why}"
            await self.on_failure(job.id, sentence, received.address)

    def list_made(self, turn: OpenTurn) -> list[str]:
        """What a turn has made for a later time, in sentences; told once."""
        if not self._made:
            return []
        return self._made.pop((turn.log.state.key.id, turn.number), [])

    # --- what people and the model want (`plugins.jobs.JobsPort`) ---------------------------------

    async def add(self, address: Address, key: ConversationKey, new: NewJob) -> JobView:
        """Keep a new job. Raises CommandError, and StoreError."""
        job = self._make(address, key, new, "")
        return await self._keep(job, key)

    async def add_for_model(self, key: ConversationKey, address: Address, new: NewJob) -> str:
        """Keep a job that the model wants; returns what it is told. The person is told beside the
        answer. Raises ToolError."""
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
        self._made[key.id, number].append(describe_made(view))
        return describe_made(view)

    def _make(self, address: Address, key: ConversationKey, new: NewJob, turn: str) -> JobRow:
        text = new.text.strip()
        if not text:
            raise CommandError("Say what about: the text is empty.")
        if len(text) > LONGEST_TEXT:
            raise CommandError(f"That is longer than the {LONGEST_TEXT:,} characters there may be.")
        now, settings = self.clock(), self._rules.settings(key)
        zone = ZoneInfo(new.zone)
        quiet = settings.quiet_hours if new.rule or new.kind == "prompt" else ""
        at = postpone(next_time(new.rule, new.anchor, now, zone), quiet, zone)
        if not at:
            raise CommandError(f"{format_time(new.anchor, zone)} has passed already.")
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
        )

    async def _keep(self, job: JobRow, key: ConversationKey) -> JobView:
        most = self._rules.settings(key).most
        number = await self._store.write(lambda db: rows.insert(db, job, most))
        if not number:
            raise CommandError(
                f"Not made: this chat has {most} reminders and jobs, the most that there may be "
                "(jobs.most). /jobs lists them; /jobs delete N makes room."
            )
        await self._wake()
        return JobView(replace(job, id=number))

    async def all(self, address: Address) -> list[JobView]:
        """The jobs of the chat that an address leads to."""
        home = self._turns.lead(address).home

        def work(db: Database) -> list[JobView]:
            mine = [job for job in rows.list_all(db) if self._lead(job).home == home]
            return [_to_view(db, job) for job in mine]

        return await self._store.read(work)

    async def run(self, address: Address, number: int) -> JobView:
        """Tell or run a job now, besides its times. Raises CommandError, and StoreError."""
        job = await self._find(address, number)
        now = self.clock()
        if job.kind == "reminder":
            await self._tell_run(job, job, Reply(f"**Reminder:** {job.text}"), "told", now)
        elif not await self._run(job, self._lead(job), job, now, due=now):
            raise CommandError(f"Job {number} is running already, or waits for its turn.")
        return await self._view(number)

    async def pause(self, address: Address, number: int) -> JobView:
        """Let a job rest. Raises CommandError, and StoreError."""
        job = await self._find(address, number)
        if job.state != "active":
            raise CommandError(f"Job {number} is {job.state} already.")
        await self._move(job, replace(job, state="paused", why="you paused it", retry_at=0.0))
        return await self._view(number)

    async def resume(self, address: Address, number: int) -> JobView:
        """Let a job go on. Raises CommandError, and StoreError."""
        job, now = await self._find(address, number), self.clock()
        if job.state != "paused":
            raise CommandError(f"Job {number} is not paused.")
        at = job.next_at if job.next_at > now else 0.0
        if job.rule:
            at = next_time(job.rule, job.anchor, now, ZoneInfo(job.zone))
        if not at:
            raise CommandError(
                f"The time of job {number} has passed; `/jobs run {number}` does it now."
            )
        going = replace(job, state="active", why="", next_at=at, planned_at=now, failures=0)
        await self._move(job, going)
        await self._wake()
        return await self._view(number)

    async def delete(self, address: Address, number: int) -> JobView:
        """Delete a job; returns what it was. Raises CommandError, and StoreError."""
        job = await self._find(address, number)
        await self._store.write(lambda db: rows.delete(db, job.id))
        return JobView(job)

    async def _find(self, address: Address, number: int) -> JobRow:
        """A job that may be changed from an address: by who made it, or an owner."""
        job = await self._store.read(lambda db: rows.find(db, number))
        if job is None or self._lead(job).home != self._turns.lead(address).home:
            raise CommandError(f"There is no job {number} in this chat; /jobs lists them.")
        person, maker = self._access.identify(address), address_of(job.place)
        is_maker = (address.channel, address.user) == (maker.channel, maker.user)
        if person is None or not (person.is_owner or is_maker):
            raise CommandError(f"Only who made job {number}, or an owner, may change it.")
        return job

    async def _view(self, number: int) -> JobView:
        def work(db: Database) -> JobView | None:
            job = rows.find(db, number)
            return _to_view(db, job) if job else None

        if (view := await self._store.read(work)) is None:
            raise CommandError(f"Job {number} was deleted meanwhile.")
        return view


def _to_view(db: Database, job: JobRow) -> JobView:
    last = next(iter(rows.list_runs(db, job.id, 1)), None)
    return JobView(job, last, rows.delivery_of(db, last) if last else RunDelivery())


def _to_prompt(job: JobRow) -> str:
    """What the model reads of a prompt that runs by the clock. It never begins with a slash, which
    would make it a command."""
    zone = ZoneInfo(job.zone)
    when = format_time(job.due, zone) if job.due else "now"
    return (
        f"[Job {job.id}, {describe(job.rule, job.anchor, zone)}; due {when}. Nobody is here to "
        f"answer questions.]\n{job.text}"
    )


def _describe_lateness(due: float, now: float, zone: ZoneInfo, missed: int = 0) -> str:
    if now - due <= GRACE:
        return ""
    besides = f", and {missed} more times since" if missed else ""
    return f"\n\n(Late: this was due on {format_time(due, zone)}{besides}.)"


@dataclass(frozen=True, slots=True)
class _RunEnding:
    """How a run ended, and whether it is worth to be tried again."""

    outcome: Outcome
    why: str = ""
    is_worth_again: bool = False


def _judge(reply: Reply, mark: Mark) -> _RunEnding:
    if mark == "stopped":
        return _RunEnding("stopped", "it was stopped", _(INTERRUPTED) in reply.text)
    if not reply.problem:
        return _RunEnding("done")
    why = " ".join(reply.text.split())[:300]
    outcome: Outcome = "refused" if reply.problem in ("refused", "spent") else "failed"
    return _RunEnding(outcome, why, reply.problem in _WORTH_AGAIN)


def _plan_ended(job: JobRow, run: RunRow, ending: _RunEnding, now: float) -> JobRow:
    """A job once a run of it has ended."""
    if ending.outcome == "done":
        return replace(job, failures=0, attempts=0, retry_at=0.0)
    if ending.is_worth_again and job.state != "paused":
        return plan_retry(job, run.due, now)
    if ending.outcome == "failed":
        return plan_retry(replace(job, attempts=len(WAITS)), run.due, now)
    return replace(job, attempts=0, retry_at=0.0)


def _describe_run(job: JobRow, after: JobRow, run: RunRow, ending: _RunEnding) -> str:
    """The line below the answer of a run: whose it is, and what follows."""
    zone = ZoneInfo(job.zone)
    parts = [f"Job {job.id}, {describe(job.rule, job.anchor, zone)}"]
    if run.at - run.due > GRACE:
        parts.append(f"late: it was due on {format_time(run.due, zone)}")
    if after.retry_at:
        again = format_time(after.retry_at, zone)
        parts.append(f"it is tried again on {again}, attempt {after.attempts + 1} of {ATTEMPTS}")
    if after.state == "paused":
        parts.append(f"it rests now, since {after.why}; /jobs resume {job.id} lets it go on")
    return "; ".join(parts)


def _approve_granted(job: JobRow, is_asked: bool, may_own: bool) -> Approve:
    """Allows what was granted when the job was made, and asks nobody."""
    granted = frozenset(job.grants.split())

    async def approve(wanted: Permission) -> None:
        is_granted = wanted.tool in granted or (wanted.covers and wanted.covers in granted)
        if not is_asked or (is_granted and (may_own or not wanted.is_for_owner)):
            return
        raise ToolError(
            f"{NOT_RUN} nobody attends this job, so nobody can allow it, and it was not granted "
            f"when the job was made (--allow {wanted.tool})."
        )

    return approve
