"""`/remind` and `/jobs`: what is to be told or run at a time; and the model's tool
`remind`, which makes the same."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

from agent.tools.base import NOT_RUN
from agent.tools.toolbox import permission_for
from channels.language import _
from memory.record.jobs import Kind, NewJob
from plugins.api import (
    Action,
    Address,
    Ask,
    Command,
    CommandError,
    Reply,
    Tool,
    ToolContext,
    ToolError,
    command,
    hookimpl,
    tool,
)
from plugins.jobs import JobView, describe_last, describe_when
from plugins.recurrence import format_seconds, format_time
from plugins.when import EXAMPLES, When, WhenError, read
from plugins.wording import clip, literal, money

SHOWN = 20
"""Jobs that are listed."""
SHORTEST_FOR_MODEL = 900
"""Seconds between two runs of a job that the model makes."""
_OPTION = re.compile(r"--(\w+)\s+(\S+)\s*")


async def _read(text: str, zone: ZoneInfo) -> When:
    """When the beginning of a text says; in a thread, since the first time is slow. Raises
    CommandError."""
    try:
        return await asyncio.to_thread(read, text, time.time(), zone)
    except WhenError as error:
        raise CommandError(str(error)) from None


@command("remind", "Remind you of something at a time", "WHEN TEXT")
async def remind_command(ask: Ask) -> Reply:
    """`/remind tomorrow 9:00 Call Mom`, `/remind every monday 18:30 Gym`."""
    if not ask.text.strip():
        raise CommandError(
            _(
                "Say when, and of what: /remind tomorrow 9:00 Call Mom. I understand {examples}. "
                "/jobs lists what is set.",
                examples=EXAMPLES,
            )
        )
    return await _make(ask, "reminder", ask.text, {})


async def _make(ask: Ask, kind: Kind, text: str, options: dict[str, str]) -> Reply:
    zone = _zone(ask)
    when = await _read(text, zone)
    new = NewJob(kind, when.rest, when.rule, when.anchor or time.time(), zone.key)
    view = await ask.bot.jobs.add(ask.address, ask.conversation.key, _with_options(new, options))
    return _confirm(view, when)


def _zone(ask: Ask) -> ZoneInfo:
    zone = ask.bot.zone()
    return zone if isinstance(zone, ZoneInfo) else ZoneInfo("UTC")


def _with_options(new: NewJob, options: dict[str, str]) -> NewJob:
    for name, value in options.items():
        if name == "allow":
            new = replace(new, grants=tuple(value.split(",")))
        elif name == "budget" and _is_amount(value):
            new = replace(new, budget=float(value))
        elif name == "branch" and value.isdecimal():
            new = replace(new, branch=int(value[:9]))
        else:
            raise CommandError(
                f"/jobs add does not know “--{literal(name)} {literal(clip(value))}”. It takes "
                "--allow TOOL,TOOL, --budget DOLLARS and --branch N before the time."
            )
    return new


def _is_amount(text: str) -> bool:
    return re.fullmatch(r"\d{1,3}(\.\d+)?", text) is not None


def _confirm(view: JobView, when: When) -> Reply:
    number = view.job.id
    what = (
        _("Reminder {n} is set: {when}.", n=number, when=describe_when(view))
        if view.job.kind == "reminder"
        else _("Job {n} is set: {when}.", n=number, when=describe_when(view))
    )
    assumed = [_("You gave no time of the day, so I took one.")] if when.is_assumed else []
    text = " ".join((what, *assumed, *_describe_bounds(view)))
    actions = (Action(_("Take it back"), f"/jobs delete {number}"),)
    return Reply(text, _data(view), actions)


def _describe_bounds(view: JobView) -> list[str]:
    """What a job may do while nobody looks."""
    job = view.job
    if job.kind == "reminder":
        return []
    budgets = [
        f"{money(limit)} a {span}"
        for limit, span in ((job.run_budget, "run"), (job.day_budget, "day"))
        if limit
    ]
    costs = f"may cost {' and '.join(budgets)}" if budgets else "has no budget"
    granted = ", ".join(job.grants.split())
    tools = f"may use {granted} without asking" if granted else "may use no tool that has to ask"
    return [f"It {costs}, and {tools}."]


def _data(view: JobView) -> dict[str, Any]:
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
    }


# --- /jobs ----------------------------------------------------------------------------------------

_SUBS = (
    ("add", "a prompt that runs by itself: /jobs add every day 8:00 Sum up my mail"),
    ("run", "run it now, besides its times"),
    ("pause", "let it rest"),
    ("resume", "let it go on"),
    ("delete", "delete it"),
)


@command(
    "jobs",
    "Reminders and jobs: which there are, what came of them, and new ones",
    "[add WHEN PROMPT|run N|pause N|resume N|delete N]",
    _SUBS,
)
async def jobs_command(ask: Ask) -> Reply:
    """`/jobs`, `/jobs 3`, `/jobs add every weekday 8:00 PROMPT`, `/jobs pause 3`."""
    word, _space, rest = ask.text.strip().partition(" ")
    if not word:
        return await _list(ask)
    if word.isdecimal():
        return await _show(ask, _number(word))
    if word.lower() == "add":
        return await _add(ask, rest.strip())
    change = _CHANGES.get(word.lower())
    if change is None:
        names = ", ".join(name for name, _summary in _SUBS)
        raise CommandError(f"/jobs does not know “{literal(clip(word))}”; it takes {names}.")
    view = await change.act(ask)(ask.address, _number(rest))
    text = f"{_name(view)} {change.done}."
    if change.says_when and view.job.next_at:
        text = f"{text[:-1]}: {describe_when(view)}."
    return Reply(text, _data(view))


Act = Callable[[Address, int], Awaitable[JobView]]


@dataclass(frozen=True, slots=True)
class _Change:
    """What a subcommand does, and how that is told."""

    act: Callable[[Ask], Act]
    done: str
    says_when: bool = False


_CHANGES = {
    "run": _Change(lambda ask: ask.bot.jobs.run, "runs now"),
    "pause": _Change(lambda ask: ask.bot.jobs.pause, "is paused"),
    "resume": _Change(lambda ask: ask.bot.jobs.resume, "goes on", says_when=True),
    "delete": _Change(lambda ask: ask.bot.jobs.delete, "is deleted"),
}


def _number(text: str) -> int:
    number = text.strip().removeprefix("#")
    if not number.isdecimal() or len(number) > 15:
        raise CommandError("Say which: a number that /jobs lists, as in /jobs pause 3.")
    return int(number)


async def _add(ask: Ask, text: str) -> Reply:
    options = {}
    while found := _OPTION.match(text):
        options[found[1].lower()] = found[2]
        text = text[found.end() :]
    if not text:
        raise CommandError(
            "Say when, and what to do: /jobs add every weekday 8:00 Sum up what is new. Before "
            "the time may stand --allow web_fetch and --budget 0.50."
        )
    if number := options.get("branch"):
        known = {str(one.number) for one in await ask.bot.branches.all(ask.conversation.key)}
        if number not in known:
            raise CommandError(f"There is no branch {literal(clip(number))}; /branches lists them.")
    if "allow" in options and not ask.person.is_owner and not ask.address.is_private:
        raise CommandError("In a group only an owner may allow a job's tools beforehand.")
    return await _make(ask, "prompt", text, options)


async def _list(ask: Ask) -> Reply:
    every = await ask.bot.jobs.all(ask.address)
    data = {"jobs": [_data(view) for view in every]}
    if not every:
        return Reply(
            _(
                "Nothing is set here. /remind tomorrow 9:00 TEXT reminds you, /jobs add every day "
                "8:00 PROMPT has me do something."
            ),
            data,
        )
    shown = [view for view in every if view.job.state != "done"] + [
        view for view in every if view.job.state == "done"
    ]
    lines = [_line(view) for view in shown[:SHOWN]]
    if len(shown) > SHOWN:
        lines.append(f"and {len(shown) - SHOWN} more")
    return Reply("\n".join(lines), data)


def _name(view: JobView) -> str:
    return f"{'Reminder' if view.job.kind == 'reminder' else 'Job'} {view.job.id}"


def _line(view: JobView) -> str:
    job = view.job
    rests = f" (paused: {job.why})" if job.state == "paused" else ""
    by = ", made by the model" if job.turn else ""
    when = "done" if job.state == "done" else describe_when(view)
    last = describe_last(view)
    again = f"; tried again on {format_time(job.retry_at, view.zone)}" if job.retry_at else ""
    return (
        f"- **{job.id}** {literal(clip(job.text, 60))}: {when}{rests}{by}"
        f"{'; ' if last else ''}{last}{again}"
    )


async def _show(ask: Ask, number: int) -> Reply:
    found = [view for view in await ask.bot.jobs.all(ask.address) if view.job.id == number]
    if not found:
        raise CommandError(f"There is no job {number} in this chat; /jobs lists them.")
    (view,) = found
    parts = [_line(view), *_describe_bounds(view), literal(view.job.text)]
    controls = ("pause", "run", "delete") if view.job.state == "active" else ("run", "delete")
    if view.job.state == "paused":
        controls = ("resume", "run", "delete")
    actions = tuple(Action(word.capitalize(), f"/jobs {word} {number}") for word in controls)
    return Reply("\n\n".join(parts), _data(view), actions)


# --- the model's tools ----------------------------------------------------------------------------


@tool(is_once=True, is_parallel=False, needs_conversation=True)
async def remind(context: ToolContext, when: str, text: str, run: bool = False) -> str:
    """Tell the user text later, or run it as a prompt.

    Args:
        when: Like friday 9:00, in 2 hours, every day 9:00.
    """
    new = await _to_new(context, "prompt" if run else "reminder", when, text)
    if run:
        await _check_prompt(context, new, when)
    if context.keep_job is None:
        raise ToolError(f"{NOT_RUN} what runs by itself may set nothing up.")
    return await context.keep_job(new)


async def _to_new(context: ToolContext, kind: Kind, when: str, text: str) -> NewJob:
    try:
        found = await _read(when, context.timezone)
    except CommandError as error:
        raise ToolError(str(error)) from None
    if found.rest:
        raise ToolError(f"Not made: {found.rest[:60]!r} in `when` is no time.")
    anchor = found.anchor or time.time()
    return NewJob(kind, text, found.rule, anchor, context.timezone.key)


async def _check_prompt(context: ToolContext, new: NewJob, when: str) -> None:
    """Refuse what runs too often; a person is asked first where what others wrote may have had it
    made."""
    if new.rule.startswith("every ") and int(new.rule.split()[1]) < SHORTEST_FOR_MODEL:
        least = format_seconds(SHORTEST_FOR_MODEL)
        raise ToolError(f"Not made: every {least} is the most. The user may use /jobs add.")
    if context.has_outside():
        shown = {"when": when, "prompt": new.text}
        await context.approve(permission_for(remind, shown, context.settings))


@hookimpl
def parley_commands() -> list[Command]:
    return [remind_command, jobs_command]


@hookimpl
def parley_tools() -> list[Tool]:
    return [remind]
