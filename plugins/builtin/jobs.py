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
from channels.language import _, explain, number_of
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
from plugins.jobs import JobView, describe_last, describe_set, describe_when
from plugins.recurrence import format_seconds, format_time
from plugins.when import EXAMPLES, When, WhenError, read
from plugins.wording import clip, format_list, literal, money

SHOWN = 20
"""Jobs that are listed."""
SHORTEST_FOR_MODEL = 900
"""Seconds between two runs of a job that the model makes."""
_OPTION = re.compile(r"--(\w+)\s+(?:\"([^\"]*)\"|(\S+))\s*")


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
                examples=_(EXAMPLES),
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
        elif name == "if":
            new = replace(new, condition=value)
        elif name == "budget" and _is_amount(value):
            new = replace(new, budget=float(value))
        elif name == "branch" and value.isdecimal():
            new = replace(new, branch=int(value[:9]))
        else:
            raise CommandError(
                _(
                    "/jobs does not know “{option}”. It takes --allow TOOL,TOOL, --budget DOLLARS, "
                    "--branch N and --if TOOL:TEXT, before anything else.",
                    option=f"--{literal(name)} {literal(clip(value))}",
                )
            )
    return new


def _is_amount(text: str) -> bool:
    return re.fullmatch(r"\d{1,3}(\.\d+)?", text) is not None


def _confirm(view: JobView, when: When) -> Reply:
    number = view.job.id
    assumed = [_("You gave no time of the day, so I took one.")] if when.is_assumed else []
    text = " ".join((describe_set(view), *assumed, *_describe_bounds(view)))
    actions = (Action(_("Take it back"), f"/jobs delete {number}"),)
    return Reply(text, _data(view), actions)


def _describe_bounds(view: JobView) -> list[str]:
    """What a job may do while nobody looks."""
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
        "hook": job.hook or None,
        "forged": job.forged,
    }


# --- /jobs ----------------------------------------------------------------------------------------

_SUBS = (
    ("add", "a prompt that runs by itself: /jobs add every day 8:00 Sum up my mail"),
    ("hook", "a prompt that runs when a program calls it: /jobs hook github Say what is new"),
    ("run", "run it now, besides its times"),
    ("pause", "let it rest"),
    ("resume", "let it go on"),
    ("delete", "delete it"),
)


@command(
    "jobs",
    "Reminders and jobs: which there are, what came of them, and new ones",
    "[add WHEN PROMPT|hook NAME PROMPT|run N|pause N|resume N|delete N]",
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
    if word.lower() == "hook":
        return await _add_hook(ask, rest.strip())
    change = CHANGES.get(word.lower())
    if change is None:
        names = ", ".join(name for name, _summary in _SUBS)
        raise CommandError(
            _(
                "/jobs does not know “{word}”; it takes {names}.",
                word=literal(clip(word)),
                names=names,
            )
        )
    view = await change.act(ask)(ask.address, _number(rest))
    if change.next and view.job.next_at:
        text = _(change.next, name=_name(view), when=describe_when(view))
    else:
        text = _(change.done, name=_name(view))
    return Reply(text, _data(view))


Act = Callable[[Address, int], Awaitable[JobView]]


@dataclass(frozen=True, slots=True)
class _Change:
    """What a subcommand does, its button, and how that it is done is told; `next` also says
    when it happens next."""

    act: Callable[[Ask], Act]
    label: str
    done: str
    next: str = ""


CHANGES = {
    "run": _Change(lambda ask: ask.bot.jobs.run, "Run", "{name} runs now."),
    "pause": _Change(lambda ask: ask.bot.jobs.pause, "Pause", "{name} is paused."),
    "resume": _Change(
        lambda ask: ask.bot.jobs.resume, "Resume", "{name} goes on.", "{name} goes on: {when}."
    ),
    "delete": _Change(lambda ask: ask.bot.jobs.delete, "Delete", "{name} is deleted."),
}


def _number(text: str) -> int:
    number = text.strip().removeprefix("#")
    if not number.isdecimal() or len(number) > 15:
        raise CommandError(_("Say which: a number that /jobs lists, as in /jobs pause 3."))
    return int(number)


async def _add(ask: Ask, text: str) -> Reply:
    options, text = await _read_options(ask, text)
    if not text:
        raise CommandError(
            _(
                "Say when, and what to do: /jobs add every weekday 8:00 Sum up what is new. Before "
                "the time may stand --allow web_fetch and --budget 0.50."
            )
        )
    return await _make(ask, "prompt", text, options)


_HOOK = re.compile(r"([a-z0-9][a-z0-9-]{0,39})\s+(.+)", re.DOTALL)


async def _add_hook(ask: Ask, text: str) -> Reply:
    """`/jobs hook github Say what {pusher.name} pushed`: a prompt that a program calls."""
    ask.require_owner("let programs call a job")
    name, _space, rest = text.partition(" ")
    options, prompt = await _read_options(ask, rest.strip())
    found = _HOOK.fullmatch(f"{name} {prompt}")
    if found is None or "if" in options:
        raise CommandError(
            _(
                "Say a name of small letters, digits and -, and what to do: /jobs hook github Say "
                "what {name} pushed. Names in braces stand for what the call brings.",
                name="{pusher.name}",
            )
        )
    zone, key = _zone(ask).key, ask.conversation.key
    new = _with_options(NewJob("prompt", found[2], "", time.time(), zone, hook=found[1]), options)
    view = await ask.bot.jobs.add(ask.address, key, new)
    parts = [describe_set(view), *_describe_bounds(view), *_describe_call(ask, view)]
    actions = (Action(_("Take it back"), f"/jobs delete {view.job.id}"),)
    return Reply(" ".join(parts), _data(view), actions)


def _describe_call(ask: Ask, view: JobView) -> list[str]:
    """What is still to be done so that a hook can be called, and what was refused."""
    job, missing = view.job, ask.bot.jobs.missing_secret(view.job.hook)
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
                "{n} call had not the secret and was refused, on {at}.",
                "{n} calls had not the secret and were refused, the last on {at}.",
                at=at,
            )
        )
    return said


async def _read_options(ask: Ask, text: str) -> tuple[dict[str, str], str]:
    """The options that a text begins with, and the rest of it. Raises CommandError."""
    options = {}
    while found := _OPTION.match(text):
        options[found[1].lower()] = found[2] or found[3] or ""
        text = text[found.end() :]
    if number := options.get("branch"):
        known = {str(one.number) for one in await ask.bot.branches.all(ask.conversation.key)}
        if number not in known:
            raise CommandError(
                _(
                    "There is no branch {number}; /branches lists them.",
                    number=literal(clip(number)),
                )
            )
    tool = options.get("if", "").partition(":")[0]
    if "if" in options and not ask.bot.tools.takes_text(ask, tool):
        raise CommandError(
            _(
                "No tool {name} is offered here that takes a text. Write --if "
                "web_fetch:https://example.org, --if read_file:files/list.md or --if "
                '"shell:cat log | tail -1".',
                name=literal(clip(tool)),
            )
        )
    is_grant = bool({"allow", "if"} & {*options})
    if is_grant and not ask.person.is_owner and not ask.address.is_private:
        raise CommandError(_("In a group only an owner may allow a job's tools beforehand."))
    return options, text


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
        lines.append(_("and {n} more", n=len(shown) - SHOWN))
    return Reply("\n".join(lines), data)


def _name(view: JobView) -> str:
    number = view.job.id
    return _("Reminder {n}", n=number) if view.job.kind == "reminder" else _("Job {n}", n=number)


def _line(view: JobView) -> str:
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


async def _show(ask: Ask, number: int) -> Reply:
    found = [view for view in await ask.bot.jobs.all(ask.address) if view.job.id == number]
    if not found:
        raise CommandError(
            _("There is no job {number} in this chat; /jobs lists them.", number=number)
        )
    (view,) = found
    parts = [_line(view), *_describe_bounds(view), literal(view.job.text)]
    if view.job.hook:
        parts.extend(_describe_call(ask, view))
    goes = {"active": "pause", "paused": "resume"}.get(view.job.state, "")
    controls = filter(None, (goes, "" if view.job.hook else "run", "delete"))
    actions = tuple(Action(CHANGES[word].label, f"/jobs {word} {number}") for word in controls)
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
