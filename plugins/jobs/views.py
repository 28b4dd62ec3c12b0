"""Jobs as people are shown them."""

from __future__ import annotations

from typing import Any

from channels.language import _, explain, number_of
from plugins.api import Ask
from plugins.jobs.orders import JobOrders
from plugins.jobs.recurrence import format_time
from plugins.jobs.wording import JobView, describe_last, describe_when
from plugins.wording import clip, format_list, literal, money


def describe_bounds(view: JobView) -> list[str]:
    """Describe what a job may do while nobody looks."""
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
    """Say what is still to be done so that a hook can be called, and what was refused."""
    job, missing = view.job, ask.service(JobOrders).missing_secret(view.job.hook)
    said = []
    if missing:
        said.append(
            _(
                "Put {name}=… (a long random text) into .env, restart me, and give the same text "
                "to the program as its secret; until then each call is refused.",
                name=missing,
            )
        )
    if job.forged:
        at = format_time(job.forged_at, view.zone)
        said.append(
            number_of(
                job.forged,
                "{n} call came without the secret and was refused, on {at}.",
                "{n} calls came without the secret and were refused, the last on {at}.",
                at=at,
            )
        )
    return said


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
