"""Sentences about reminders and jobs, for people and for the model."""

from __future__ import annotations

from typing import get_args
from zoneinfo import ZoneInfo

from msgspec import Struct, field

from channels.language import _, explain, figure, number_of
from plugins.jobs.record import JobRow, Outcome, RunDelivery, RunRow
from plugins.jobs.recurrence import describe, format_time
from plugins.wording import aside, series


class JobView(Struct, frozen=True):
    """A job with its last run, and the delivery state of the run's messages."""

    job: JobRow
    last: RunRow | None = None
    delivered: RunDelivery = field(default_factory=RunDelivery)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.job.zone)


def describe_rule(job: JobRow) -> str:
    """Return the schedule of a job: "every day at 09:00", "the hook github"; "once"."""
    if job.hook:
        return _("the hook {hook}", hook=job.hook)
    return describe(job.rule, job.anchor, ZoneInfo(job.zone))


def describe_when(view: JobView) -> str:
    """Return the schedule with the next time: "every day at 09:00, next on Mon 23 Nov 2026, 09:00
    (Europe/Berlin)"."""
    job, zone = view.job, view.zone
    if job.hook:
        return _("whenever `POST /api/hooks/{hook}` is called", hook=job.hook)
    rule = describe_rule(job)
    if not job.next_at:
        return rule
    at = format_time(job.next_at, zone)
    when = _("{rule}, next on {at}", rule=rule, at=at) if job.rule else _("on {at}", at=at)
    if job.condition:
        when = _("{when}, if `{condition}` finds anything new", when=when, condition=job.condition)
    return when


def describe_made(view: JobView) -> str:
    """Describe a new job, in a sentence for the person and for the model."""
    return _("{made} /jobs delete {n} deletes it.", made=describe_set(view), n=view.job.id)


def describe_set(view: JobView) -> str:
    """Return the confirmation that a job is set, with its time."""
    return (
        _("Reminder {n} is set: {when}.", n=view.job.id, when=describe_when(view))
        if view.job.kind == "reminder"
        else _("Job {n} is set: {when}.", n=view.job.id, when=describe_when(view))
    )


def describe_last(view: JobView) -> str:
    """Describe the outcome of the last run, and the delivery of its messages; "" without a run."""
    run = view.last
    if run is None:
        return ""
    at = format_time(run.at, view.zone)
    if not run.outcome:
        return _("last run on {at}: under way, or waiting for its turn", at=at)
    cost = figure(f"${run.cost:.4f}") if run.cost else ""
    outcome = _(run.outcome) + aside(explain(run.why) if run.why else "")
    return _(
        "last run on {at}: {outcome}; {delivery}",
        at=at,
        outcome=series((outcome, cost)),
        delivery=_describe_delivery(view),
    )


OUTCOMES = get_args(Outcome)[1:]


def _describe_delivery(view: JobView) -> str:
    delivered = view.delivered
    if delivered.aside:
        return _("its message could not be sent and was put aside")
    if delivered.waiting:
        return (
            number_of(
                delivered.tries,
                "its message waits to be sent, tried once",
                "its message waits to be sent, tried {n} times",
            )
            if delivered.tries
            else _("its message waits to be sent")
        )
    return _("its message was sent")
