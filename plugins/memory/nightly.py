"""`/memory nightly`: the new parts of the daily files are distilled each night, without a
message."""

from __future__ import annotations

import time
from zoneinfo import ZoneInfo

from channels.language import _
from memory.patterns import lazy
from plugins.api import Action, Ask, CommandError, Reply
from plugins.jobs.orders import JobOrders
from plugins.jobs.record import NewJob
from plugins.jobs.wording import JobView, describe_when
from plugins.wording import money

TEXT = "/memory distill"
"""The command of the nightly job."""
HOUR = "3:30"
_TIME = lazy(r"([01]?\d|2[0-3]):([0-5]\d)")


async def nightly(ask: Ask, rest: str) -> Reply:
    """Run `/memory nightly on`, `on 2:15` or `off`; alone, show the state."""
    word, at = (*rest.lower().split(None, 1), "", "")[:2]
    found = await _find(ask)
    if word == "on":
        return _tell(ask, found or await _make(ask, at.strip() or HOUR), is_new=found is None)
    if word == "off" and found is not None:
        await ask.service(JobOrders).delete(ask.address, found.job.id)
        return Reply(_("The memory is not distilled by itself any more."), {"nightly": None})
    if word not in ("", "off"):
        raise CommandError(_("/memory nightly takes on, perhaps with a time (on 2:15), and off."))
    if found is not None:
        return _tell(ask, found, is_new=False)
    return Reply(
        _("The memory is distilled only when somebody asks for it (/memory nightly on)."),
        {"nightly": None},
        (Action(_("Every night"), "/memory nightly on"),),
    )


async def _find(ask: Ask) -> JobView | None:
    """Return the nightly job, if there is one."""
    every = await ask.service(JobOrders).all(ask.address)
    return next((one for one in every if (one.job.kind, one.job.text) == ("command", TEXT)), None)


async def _make(ask: Ask, at: str) -> JobView:
    if not (time_of_day := _TIME.fullmatch(at)):
        raise CommandError(_("{at!r} is no time of the day; write it like 2:15.", at=at[:20]))
    zone = ask.bot.zone()
    rule = f"cron {int(time_of_day[2])} {int(time_of_day[1])} * * *"
    name = zone.key if isinstance(zone, ZoneInfo) else "UTC"
    new = NewJob("command", TEXT, rule, time.time(), name)
    return await ask.service(JobOrders).add(ask.address, ask.conversation.key, new)


def _tell(ask: Ask, view: JobView, *, is_new: bool) -> Reply:
    job = view.job
    parts = [
        _("The memory is distilled {when}.", when=describe_when(view))
        if is_new
        else _("The memory is distilled already: {when}.", when=describe_when(view)),
        _("It is in force at once, as memory.approve says.")
        if ask.bot.settings.describe("memory.approve", ask.conversation.key.id).value == "auto"
        else _("The result waits for your approval: /memory diff."),
        _("A night without anything new costs nothing."),
    ]
    if job.run_budget:
        parts.append(_("Any other costs {most} at most.", most=money(job.run_budget)))
    data = {"nightly": {"job": job.id, "next": job.next_at or None, "state": job.state}}
    actions = (Action(_("No more"), "/memory nightly off"), Action(_("Show"), f"/jobs {job.id}"))
    return Reply(" ".join(parts), data, actions)
