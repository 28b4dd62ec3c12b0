"""The run of one job: its reminder is sent, or its prompt is added to its conversation's queue."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from bot.app import Kernel
from bot.delivery import to_received
from bot.received import command_line, key_of
from bot.sending import address_of
from channels.message import Address, Reply
from memory.keys import ConversationKey
from memory.record.database import Database
from memory.record.mailbox import InboxRow, OutboxRow
from memory.record.store import StoreError
from plugins.jobs import record as rows
from plugins.jobs.plans import BRANCH_GONE, SHUT_OUT, to_message
from plugins.jobs.record import JobRow, Outcome, RunRow
from plugins.jobs.settings import JobSettings


class JobRunner:
    """The operations that change a job's state and run it."""

    def __init__(self, kernel: Kernel) -> None:
        self.store, self.access, self.config = kernel.store, kernel.access, kernel.config
        self.kernel, self.clock = kernel, time.time
        self._delivery, self._turns = kernel.delivery, kernel.turns

    def settings(self, key: ConversationKey) -> JobSettings:
        """Return the settings of jobs for a conversation."""
        return self.config.book.effective(key.id).section(JobSettings)

    @property
    def zone(self) -> ZoneInfo:
        return self.config.book.effective().zone

    def midnight(self) -> float:
        """Return the beginning of the current day, in seconds since 1970."""
        now = datetime.now(self.zone)
        return now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()

    def resolve(self, job: JobRow) -> ConversationKey:
        """Return the conversation that a job currently belongs to."""
        key = self._turns.resolve(address_of(job.place))
        return key.branch(job.branch) if job.branch else key

    def speaking_to(self, job: JobRow) -> AbstractContextManager[None]:
        """Return a context in which the bot uses the language of the person who gets the job's
        messages."""
        return self._delivery.speaking_to(address_of(job.place), self.resolve(job).id)

    def home_of(self, address: Address) -> str:
        """Return the chat's conversation that an address resolves to."""
        return self._turns.resolve(address).home

    async def find_why_not(self, job: JobRow) -> str:
        """Return the reason why a job may no longer run; "" if it may. A job of a branch runs only
        in that branch."""
        if self.access.identify(address_of(job.place)) is None:
            return SHUT_OUT
        branches = self.kernel.conversations.branches
        return BRANCH_GONE if job.branch and await branches.is_gone(self.resolve(job)) else ""

    async def wake(self) -> None:
        """Set the timer for the next due job."""
        at = await self.store.read(rows.next_due)
        if at > self.clock():
            self.kernel.schedule.wake_at(at)

    async def move(self, before: JobRow, after: JobRow) -> None:
        """Store the new state of a job, unless it was changed meanwhile."""
        await self.store.write(lambda db: rows.claim(db, before, after))

    async def pause(self, job: JobRow, why: str) -> None:
        """Pause a job."""
        await self.move(job, replace(job, state="paused", why=why, retry_at=0.0))

    async def note_run(
        self, job: JobRow, after: JobRow, outcome: Outcome, why: str, now: float
    ) -> None:
        """Store the outcome of a run without a message."""

        def work(db: Database) -> None:
            if rows.claim(db, job, after):
                rows.begin_run(db, RunRow(job.id, job.due, now, outcome, why, ended=now))

        await self.store.write(work)

    async def tell_run(
        self,
        job: JobRow,
        after: JobRow,
        reply: Reply,
        outcome: Outcome,
        now: float,
        why: str = "",
    ) -> None:
        """Send a message about a job to its chat, as a complete run."""

        def put(db: Database, parts: list[OutboxRow]) -> list[int]:
            if not rows.claim(db, job, after):
                return []
            run = rows.begin_run(db, RunRow(job.id, job.due, now, outcome, why, ended=now))
            return rows.put_out(db, run, parts)

        await self._delivery.tell_if(address_of(job.place), reply, put)

    async def tell_together(
        self, moved: Sequence[tuple[JobRow, JobRow]], reply: Reply, now: float
    ) -> None:
        """Send one message for several reminders of a place, and store the next state of each.
        Raises StoreError, and sends nothing, if one of them was changed meanwhile."""

        def put(db: Database, parts: list[OutboxRow]) -> list[int]:
            ids: list[int] = []
            for job, after in moved:
                if not rows.claim(db, job, after):
                    raise StoreError(f"job {job.id} was changed just now")
                run = rows.begin_run(db, RunRow(job.id, job.due, now, "told", ended=now))
                if ids:
                    rows.set_outbox_ids(db, run, ids)
                else:
                    ids = rows.put_out(db, run, parts)
            return ids

        await self._delivery.tell_if(address_of(moved[0][0].place), reply, put)

    async def run(
        self,
        job: JobRow,
        key: ConversationKey,
        after: JobRow,
        now: float,
        due: float = 0.0,
        found: str = "",
    ) -> bool:
        """Put a prompt into the inbox and its conversation's queue, unless an earlier run of it is
        still running; return whether it was added. `found` is the result of its condition, which is
        untrusted text."""
        address = address_of(job.place)
        text = "\n\n".join(filter(None, (to_message(job), found)))

        def work(db: Database) -> InboxRow | None:
            if rows.is_running(db, job.id):
                rows.claim(db, job, replace(after, found=job.found))
                return None
            if not rows.claim(db, job, after):
                return None
            run = rows.begin_run(db, RunRow(job.id, due or job.due, now))
            branch = key.id if key.id != key_of(address).id else ""
            name = f"job-{job.id}-{run}"
            message = InboxRow(0, job.place, name, text, "", now, branch=branch)
            message = replace(message, is_outside=bool(found))
            return rows.put_in(db, run, message, hashlib.sha256(text.encode()).hexdigest()[:32])

        row = await self.store.write(work)
        if row is not None:
            line = command_line(text) if job.kind == "command" else None
            self.kernel.bot.dispatch(to_received(row, key, line))
        return row is not None
