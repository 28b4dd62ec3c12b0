"""Reminders and jobs, as commands and tools see them, and how people are told of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol
from zoneinfo import ZoneInfo

from channels.message import Address
from memory.keys import ConversationKey
from memory.record.jobs import JobRow, NewJob, RunDelivery, RunRow
from plugins.recurrence import describe, format_time


@dataclass(frozen=True, slots=True)
class JobView:
    """A job with its last run, and how far what that said has come."""

    job: JobRow
    last: RunRow | None = None
    delivered: RunDelivery = field(default_factory=RunDelivery)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.job.zone)


class JobsPort(Protocol):
    """The reminders and jobs of a chat. What is refused raises CommandError; jobs are changed by
    who made them, or an owner."""

    async def add(self, address: Address, key: ConversationKey, new: NewJob) -> JobView:
        """Keep a new one, which is told or runs at this address."""
        ...

    async def all(self, address: Address) -> list[JobView]:
        """Those of the chat that an address leads to, the next first."""
        ...

    async def run(self, address: Address, number: int) -> JobView:
        """Tell or run it now, besides its times."""
        ...

    async def pause(self, address: Address, number: int) -> JobView:
        """Let it rest."""
        ...

    async def resume(self, address: Address, number: int) -> JobView:
        """Let it go on."""
        ...

    async def delete(self, address: Address, number: int) -> JobView:
        """Delete it, and what is kept of its runs."""
        ...


def describe_when(view: JobView) -> str:
    """When it happens: "every day at 09:00, next on Mon 23 Nov 2026, 09:00 (Europe/Berlin)"."""
    job, zone = view.job, view.zone
    rule = describe(job.rule, job.anchor, zone)
    if not job.next_at:
        return rule
    at = format_time(job.next_at, zone)
    return f"{rule}, next on {at}" if job.rule else f"on {at}"


def describe_made(view: JobView) -> str:
    """What was made, in a sentence for the person and for the model."""
    what = "Reminder" if view.job.kind == "reminder" else "Job"
    number = view.job.id
    return f"{what} {number} is set: {describe_when(view)}. /jobs delete {number} takes it back."


def describe_last(view: JobView) -> str:
    """What came of the last run, and how far what it said has come; "": there was none."""
    run = view.last
    if run is None:
        return ""
    at = format_time(run.at, view.zone)
    if not run.outcome:
        return f"last run on {at}: under way, or waiting for its turn"
    cost = f", ${run.cost:.4f}" if run.cost else ""
    why = f" ({run.why})" if run.why else ""
    return f"last run on {at}: {run.outcome}{why}{cost}; {_describe_delivery(view)}"


def _describe_delivery(view: JobView) -> str:
    delivered = view.delivered
    if delivered.aside:
        return "its message could not be sent and was put aside"
    if delivered.waiting:
        tried = f", tried {delivered.tries} times" if delivered.tries else ""
        return f"its message waits to be sent{tried}"
    return "its message was sent"
