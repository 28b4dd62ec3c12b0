"""Scheduled tasks of another program, imported as jobs that are paused until a person resumes them.

OpenClaw (2026.9.6, `docs/automation/cron-jobs`) has a `schedule` of the kind `at`, `every` or
`cron`, and a `payload` of the kind `systemEvent` or `agentTurn`. Hermes (0.19.0, `cron/jobs.py`)
has `once`, `interval` or `cron`, and a `prompt`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent.models.shapes import as_mapping
from bot.app import App
from channels.message import Address, clean_text
from memory.keys import ConversationKey
from plugins.api import CommandError
from plugins.jobs.orders import JobOrders
from plugins.jobs.record import NewJob
from plugins.jobs.recurrence import RuleError, check
from plugins.moving.source import (
    ForeignSchedule,
    SkippedItems,
    as_text,
    as_time,
)

_FIELDS = re.compile(r"\S+(?: +\S+){4}")
_MOST_NAMED, _LONGEST_NAME = 20, 60


def read_openclaw_job(job: Mapping[str, Any], skipped: SkippedItems) -> list[ForeignSchedule]:
    """Return a job of OpenClaw as a task; none, and a remark, if it has no counterpart."""
    schedule, payload = as_mapping(job.get("schedule")), as_mapping(job.get("payload"))
    made = ForeignSchedule(
        as_text(job.get("name")) or as_text(job.get("id")),
        as_text(payload.get("message")) or as_text(payload.get("text")),
    )
    zone = as_text(schedule.get("tz"))
    match schedule.get("kind"):
        case "cron":
            return _cron(made, as_text(schedule.get("expr")), zone, skipped)
        case "every":
            begun = schedule.get("anchorMs") or job.get("createdAtMs")
            return _every(made, schedule.get("everyMs"), 1_000, begun, skipped)
        case "at":
            return _once(made, schedule.get("at") or schedule.get("atMs"), skipped)
    return _refuse(made, "it comes at no time", skipped)


def read_hermes_job(job: Mapping[str, Any], skipped: SkippedItems) -> list[ForeignSchedule]:
    """Return a job of Hermes as a task; none, and a remark, if it has no counterpart."""
    schedule = as_mapping(job.get("schedule"))
    made = ForeignSchedule(
        as_text(job.get("name")) or as_text(job.get("id")), as_text(job.get("prompt"))
    )
    if job.get("no_agent") is True:
        return _refuse(made, "it runs a script", skipped)
    match schedule.get("kind"):
        case "cron":
            return _cron(made, as_text(schedule.get("expr")), "", skipped)
        case "interval":
            return _every(made, schedule.get("minutes"), 1 / 60, job.get("created_at"), skipped)
        case "once":
            return _once(made, schedule.get("run_at"), skipped)
    return _refuse(made, "it comes at no time", skipped)


async def bring_schedules(
    app: App | None,
    address: Address,
    key: ConversationKey,
    found: Sequence[ForeignSchedule],
    skipped: SkippedItems,
    *,
    is_rehearsal: bool,
) -> int:
    """Create jobs for tasks in a chat, and return the number of new ones. Tasks that can't be jobs
    are reported."""
    count = 0
    orders = app.features.services.get(JobOrders) if app else None
    zone = app.config.zone() if app else None
    home = zone.key if isinstance(zone, ZoneInfo) else "UTC"
    for one in found:
        new = NewJob("prompt", clean_text(one.text), one.rule, one.anchor, one.zone or home)
        try:
            check_time(new)
            is_new = True
            if isinstance(orders, JobOrders):
                is_new = await orders.bring(address, key, new, is_rehearsal=is_rehearsal)
            count += is_new
        except (CommandError, RuleError) as error:
            _refuse(one, str(error), skipped)
    return count


def check_time(new: NewJob) -> None:
    """Raise RuleError for a task that is never due, or too often."""
    now = time.time()
    if new.rule:
        check(new.rule, ZoneInfo(new.zone), now)
    elif new.anchor <= now:
        raise RuleError("its time has passed")


def _cron(
    made: ForeignSchedule, fields: str, zone: str, skipped: SkippedItems
) -> list[ForeignSchedule]:
    fields = " ".join(fields.split())
    if not _FIELDS.fullmatch(fields):
        return _refuse(made, "its time is not five fields of crontab", skipped)
    try:
        ZoneInfo(zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return _refuse(made, "its time zone is not known here", skipped)
    return _with_text(made, f"cron {fields}", 0.0, zone, skipped)


def _every(
    made: ForeignSchedule, number: object, parts: float, begun: object, skipped: SkippedItems
) -> list[ForeignSchedule]:
    """Return the task with an interval; `parts` is the number of the unit's parts in a second."""
    seconds = number / parts if isinstance(number, int | float) and abs(number) < 1e15 else 0
    if not 60 <= seconds <= 1e10:
        return _refuse(made, "it comes too often, or never", skipped)
    at = as_time(begun)
    return _with_text(made, f"every {int(seconds)}", at.timestamp() if at else 0.0, "", skipped)


def _once(made: ForeignSchedule, value: object, skipped: SkippedItems) -> list[ForeignSchedule]:
    at = as_time(value)
    if at is None or at.timestamp() <= time.time():
        return _refuse(made, "its time has passed", skipped)
    return _with_text(made, "", at.timestamp(), "", skipped)


def _with_text(
    made: ForeignSchedule, rule: str, anchor: float, zone: str, skipped: SkippedItems
) -> list[ForeignSchedule]:
    if not made.text.strip():
        return _refuse(made, "it asks the model nothing", skipped)
    return [ForeignSchedule(made.name, made.text, rule, anchor, zone)]


def _refuse(one: ForeignSchedule, why: str, skipped: SkippedItems) -> list[ForeignSchedule]:
    """Report a task that was not imported, by its name; after many, only their number."""
    name = " ".join(clean_text(one.name).split())[:_LONGEST_NAME] or "without a name"
    told = f"The scheduled task {name}: {why.rstrip('.')}."
    if sum(said.startswith("The scheduled task ") for said in skipped.remarks) < _MOST_NAMED:
        skipped.remarks.append(told)
    else:
        skipped.add(1, "more scheduled task", "more scheduled tasks")
    return []
