"""The next state of a job when it is due and after a run, and the sentences about jobs for people
and for the model; pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import get_args
from zoneinfo import ZoneInfo

from msgspec import Struct, field
from msgspec.structs import replace

from bot.turns import INTERRUPTED
from channels.language import ENGLISH, _, explain, figure, number_of, speaking
from channels.message import Problem, Reply
from memory.messages import Mark
from memory.plain_text import plain_number
from plugins.jobs.record import JobRow, Kind, NewJob, Outcome, RunDelivery, RunRow
from plugins.jobs.recurrence import describe, format_time, in_zone, next_time, postpone
from plugins.jobs.settings import JobSettings
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


GRACE = 90.0
"""The number of seconds after its due time from which a reminder or run is called late."""
CATCH_UP = 86_400.0
"""The number of seconds after its due time within which a prompt is still run. Prompts cost money,
so they are skipped after a long absence or when an old backup is restored."""
WAITS = (300.0, 900.0)
"""The seconds before each retry of a failed run."""
ATTEMPTS = len(WAITS) + 1
MOST_FAILURES = 3
"""The number of consecutive failed runs after which a job is paused."""

SHUT_OUT = "the person who made it has no access any more"
BRANCH_GONE = "its branch is gone"
_WORTH_AGAIN: frozenset[Problem] = frozenset(
    {"failed", "busy", "unavailable", "upstream", "timeout"}
)


def plan_after(job: JobRow, now: float, quiet: str = "") -> JobRow:
    """Return a job after it was fired, with its next due time outside of the quiet hours."""
    if 0 < job.retry_at <= now:
        return replace(job, retry_at=0.0)
    zone = ZoneInfo(job.zone)
    at = postpone(next_time(job.rule, job.anchor, now, zone), quiet, zone) if job.rule else 0.0
    state = job.state if at else "done"
    return replace(job, next_at=at, planned_at=now, state=state, attempts=0, retry_at=0.0)


def plan_tomorrow(job: JobRow, now: float, midnight: float, zone: ZoneInfo) -> JobRow:
    """Return a recurring job after it has used its budget for the day that began at midnight: it is
    due next on the following day."""
    day = datetime.fromtimestamp(midnight, zone).replace(tzinfo=None) + timedelta(1)
    at = next_time(job.rule, job.anchor, in_zone(day, zone) - 1, ZoneInfo(job.zone))
    state = job.state if at else "done"
    return replace(job, next_at=at, planned_at=now, retry_at=0.0, attempts=0, state=state)


def quiet_hours_of(job: JobRow | NewJob, settings: JobSettings) -> str:
    """Return the hours in which a job is postponed. One-off reminders and commands, whose answer
    nobody gets, are not postponed."""
    is_held = job.kind == "prompt" or (job.kind == "reminder" and job.rule != "")
    return settings.quiet_hours if is_held else ""


def is_doubtful(job: JobRow, now: float, believed: float) -> bool:
    """Return whether a job is due only by an invalid clock: it was planned before the clock jumped,
    for a time that may not have come yet."""
    return believed < now and job.planned_at <= believed < job.due


def plan_retry(job: JobRow, due: float, now: float) -> JobRow:
    """Return a job after a failed run: scheduled for a retry, or after the last attempt counted as
    a failure; after several failures in a row it is paused."""
    if job.attempts < len(WAITS):
        at = now + WAITS[job.attempts]
        return replace(job, retry_at=at, retry_due=due, attempts=job.attempts + 1)
    failed = replace(job, attempts=0, retry_at=0.0, failures=job.failures + 1)
    if job.state == "active" and failed.failures >= MOST_FAILURES:
        return replace(failed, state="paused", why=f"{failed.failures} runs in a row failed")
    return failed


def to_message(job: JobRow) -> str:
    """Return the inbox text for a run: a command with its budget, or the model's text for a
    scheduled prompt. The latter never begins with a slash, which would make it a command."""
    if job.kind == "command":
        return f"{job.text} --budget {plain_number(job.run_budget)}" if job.run_budget else job.text
    with speaking(ENGLISH):
        when = format_time(job.due, ZoneInfo(job.zone)) if job.due else "now"
        rule = describe_rule(job)
    return f"[Job {job.id}, {rule}; due {when}. Nobody is here to answer questions.]\n{job.text}"


def describe_lateness(due: float, now: float, zone: ZoneInfo, missed: int = 0) -> str:
    if now - due <= GRACE:
        return ""
    at = format_time(due, zone)
    late = (
        number_of(
            missed,
            "Late: this was due on {at}, and once more since.",
            "Late: this was due on {at}, and {n} more times since.",
            at=at,
        )
        if missed
        else _("Late: this was due on {at}.", at=at)
    )
    return f"\n\n({late})"


def list_late(late: Sequence[tuple[JobRow, int]]) -> Reply:
    """Return one message with the late reminders of a chat, each with the number of times that it
    was missed since it was due."""
    lines = [
        number_of(
            missed,
            "- {at}, and once more since: {text}",
            "- {at}, and {n} more times since: {text}",
            at=_due(job),
            text=job.text,
        )
        if missed
        else _("- {at}: {text}", at=_due(job), text=job.text)
        for job, missed in late
    ]
    head = _("**Reminders that were due while I was not running:**")
    return Reply("\n".join((head, "", *lines)))


def _due(job: JobRow) -> str:
    return format_time(job.due, ZoneInfo(job.zone))


def to_reminder(job: JobRow, late: str = "") -> Reply:
    return Reply(_("**Reminder:** {text}", text=job.text) + late)


class RunEnding(Struct, frozen=True):
    """The end of a run, and whether a retry makes sense."""

    outcome: Outcome
    why: str = ""
    is_worth_again: bool = False


def classify_result(reply: Reply, mark: Mark, kind: Kind = "prompt") -> RunEnding:
    if mark == "stopped":
        return RunEnding("stopped", "it was stopped", _(INTERRUPTED) in reply.text)
    if not reply.problem:  # a command's answer is sent nowhere else
        return RunEnding("done", reply.text.partition("\n")[0][:300] if kind == "command" else "")
    why = " ".join(_find_reason(reply.text).split())[:300]
    outcome: Outcome = "refused" if reply.problem in ("refused", "spent") else "failed"
    return RunEnding(outcome, why, reply.problem in _WORTH_AGAIN)


def _find_reason(text: str) -> str:
    """Return the reason why there is no answer. The text of the reply may have the beginning of the
    answer before the reason, and notes after it."""
    parts = text.split("\n\n")
    reasons = [part[1:-1] for part in parts if part.startswith("(") and part.endswith(")")]
    return (reasons or parts)[0]


def plan_ended(job: JobRow, run: RunRow, ending: RunEnding, now: float) -> JobRow:
    """Return a job after a run of it has ended."""
    if ending.outcome == "done":
        return replace(job, failures=0, attempts=0, retry_at=0.0)
    if ending.is_worth_again and job.state != "paused" and not job.hook:
        return plan_retry(job, run.due, now)
    if ending.outcome == "failed":  # the content of a hook's call is not stored with the job
        return plan_retry(replace(job, attempts=len(WAITS)), run.due, now)
    return replace(job, attempts=0, retry_at=0.0)


def describe_run(job: JobRow, after: JobRow, run: RunRow, ending: RunEnding) -> str:
    """Return the line below a run's answer: the job, and what happens next."""
    zone = ZoneInfo(job.zone)
    parts = [_("Job {n}, {rule}", n=job.id, rule=describe_rule(job))]
    if run.at - run.due > GRACE:
        parts.append(_("late: it was due on {at}", at=format_time(run.due, zone)))
    if after.retry_at:
        parts.append(
            _(
                "it is tried again on {at}, attempt {n} of {most}",
                at=format_time(after.retry_at, zone),
                n=after.attempts + 1,
                most=ATTEMPTS,
            )
        )
    if after.state == "paused":
        why = explain(after.why)
        parts.append(_("it is paused, since {why}; /jobs resume {n} resumes it", why=why, n=job.id))
    return "; ".join(parts)
