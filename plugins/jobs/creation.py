"""`/remind`, `/jobs add` and `/jobs hook`: new reminders and jobs."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from bot.settings.schema import SETTINGS
from channels.language import _
from plugins.api import Action, Ask, CommandError, Form, Reply, command, refusal
from plugins.jobs.orders import JobOrders, describe_bounds, describe_call, to_data
from plugins.jobs.plans import JobView, describe_set
from plugins.jobs.record import Kind, NewJob
from plugins.jobs.when_words import EXAMPLES
from plugins.wording import clip, literal, sentences

if TYPE_CHECKING:
    from plugins.jobs.when import When

_OPTION = re.compile(r"--(\w+)\s+(?:\"([^\"]*)\"|(\S+))\s*")
_LAST_OPTION = re.compile(r"\s--(allow|budget|branch|if)\s+(?:\"([^\"]*)\"|(\S+))\s*$", re.I)


async def read_when(text: str, zone: ZoneInfo) -> When:
    """Return the time at the beginning of a text. It runs in a thread, since the first call is
    slow. Raises CommandError."""
    return await asyncio.to_thread(_read_when, text, zone)


def _read_when(text: str, zone: ZoneInfo) -> When:
    from plugins.jobs.when import WhenError, read  # noqa: PLC0415 - a third of a second

    try:
        return read(text, time.time(), zone)
    except WhenError as error:
        raise CommandError(str(error)) from None


@command("remind", "Set a reminder", "WHEN TEXT")
async def remind_command(ask: Ask) -> Reply:
    """Run `/remind tomorrow 9:00 Call Mom` or `/remind every monday 18:30 Gym`."""
    if not ask.text.strip():
        raise refusal(
            "Give a time and a text: /remind tomorrow 9:00 Call Mom. I understand {examples}. "
            "/jobs lists what is set.",
            examples=_(EXAMPLES),
        )
    return await make(ask, "reminder", ask.text, {})


async def make(ask: Ask, kind: Kind, text: str, options: dict[str, str]) -> Reply:
    zone = zone_of(ask)
    when = await read_when(text, zone)
    new = NewJob(kind, when.rest, when.rule, when.anchor or time.time(), when.zone or zone.key)
    view = await ask.service(JobOrders).add(
        ask.address, ask.conversation.key, _with_options(new, options)
    )
    return _confirm(view, when)


def zone_of(ask: Ask) -> ZoneInfo:
    zone = ask.bot.zone()
    return zone if isinstance(zone, ZoneInfo) else ZoneInfo("UTC")


def _with_options(new: NewJob, options: dict[str, str]) -> NewJob:
    for name, value in options.items():
        if name == "allow":
            new = replace(new, grants=_tools_of(value))
        elif name == "if":
            new = replace(new, condition=value)
        elif name == "budget" and re.fullmatch(r"\d{1,3}(\.\d+)?", value):
            new = replace(new, budget=float(value))
        elif name == "branch" and value.isdecimal():
            new = replace(new, branch=int(value[:9]))
        else:
            raise refusal(
                "/jobs does not know “{option}”. It takes --allow TOOL,TOOL, --budget DOLLARS, "
                "--branch N and --if TOOL:TEXT, before anything else.",
                option=f"--{literal(name)} {literal(clip(value))}",
            )
    return new


def _tools_of(value: str) -> tuple[str, ...]:
    """Return the tools in a comma-separated list."""
    return tuple(filter(None, (name.strip() for name in value.split(","))))


def _confirm(view: JobView, when: When) -> Reply:
    number = view.job.id
    assumed = [_("You gave no time of the day, so I took one.")] if when.is_assumed else []
    text = sentences(describe_set(view), *assumed, *describe_bounds(view))
    changes = _changes(number, when) if view.job.kind == "reminder" else ()
    actions = (*changes, Action(_("Undo it"), f"/jobs delete {number}"))
    return Reply(text, to_data(view), actions)


def _changes(number: int, when: When) -> tuple[Action, ...]:
    """Return buttons for other readings of the time, and for another time."""
    others = [
        Action(_("{time} instead", time=name), f"/jobs at {number} {written}")
        for name, written in when.others
    ]
    return (*others, Action(_("Another time"), f"/jobs at {number}"))


async def move(ask: Ask, text: str) -> Reply:
    """Change the time of a reminder, which gets a new number (`/jobs at 3 tomorrow 10:00`)."""
    number, _space, written = text.partition(" ")
    found = [
        view for view in await ask.service(JobOrders).all(ask.address) if str(view.job.id) == number
    ]
    if not found or found[0].job.kind != "reminder":
        raise refusal("Say which reminder, and when: /jobs at 3 tomorrow 10:00.")
    (view,) = found
    if not written.strip():
        return Reply(
            _("When should I remind you instead? {examples}", examples=_(EXAMPLES)),
            to_data(view),
            form=Form(f"/jobs at {number}"),
        )
    when = await read_when(written, view.zone)
    if when.rest:
        raise refusal("“{text}” is no time.", text=literal(clip(when.rest)))
    rule, anchor, zone = when.rule, when.anchor or time.time(), when.zone or view.job.zone
    new = NewJob("reminder", view.job.text, rule, anchor, zone, branch=view.job.branch)
    # The new reminder is stored before the old one is deleted, so that none is lost.
    made = await ask.service(JobOrders).add(ask.address, ask.conversation.key, new)
    try:
        await ask.service(JobOrders).delete(ask.address, view.job.id)
    except CommandError:
        await ask.service(JobOrders).delete(ask.address, made.job.id)
        raise
    return _confirm(made, when)


async def add(ask: Ask, text: str) -> Reply:
    options, text = await _read_options(ask, text)
    if not text:
        raise refusal(
            "Give a time and a task: /jobs add every weekday 8:00 Sum up what is new. Options "
            "come before the time: --allow web_fetch, --budget 0.50."
        )
    return await make(ask, "prompt", text, options)


_HOOK = re.compile(r"([a-z0-9][a-z0-9-]{0,39})\s+(.+)", re.DOTALL)


async def add_hook(ask: Ask, text: str) -> Reply:
    """Create a prompt that a program calls (`/jobs hook github Say what {pusher.name} pushed`)."""
    ask.require_owner("let programs call a job")
    name, _space, rest = text.partition(" ")
    options, prompt = await _read_options(ask, rest.strip())
    found = _HOOK.fullmatch(f"{name} {prompt}")
    if found is None or "if" in options:
        raise refusal(
            "Give a name (small letters, digits and -) and a task: /jobs hook github Say what "
            "{name} pushed. Names in braces are filled in from the call.",
            name="{pusher.name}",
        )
    zone, key = zone_of(ask).key, ask.conversation.key
    new = _with_options(NewJob("prompt", found[2], "", time.time(), zone, hook=found[1]), options)
    view = await ask.service(JobOrders).add(ask.address, key, new)
    parts = [describe_set(view), *describe_bounds(view), *describe_call(ask, view)]
    actions = (Action(_("Undo it"), f"/jobs delete {view.job.id}"),)
    return Reply(sentences(*parts), to_data(view), actions)


async def _read_options(ask: Ask, text: str) -> tuple[dict[str, str], str]:
    """Return the options at the beginning or end of a text, and the rest of it. Raises
    CommandError."""
    options, here = {}, ask.conversation.key.id
    while found := _OPTION.match(text):
        options[found[1].lower()] = found[2] or found[3] or ""
        text = text[found.end() :]
    while found := _LAST_OPTION.search(text):
        options.setdefault(found[1].lower(), found[2] or found[3] or "")
        text = text[: found.start()]
    if number := options.get("branch"):
        known = {str(one.number) for one in await ask.bot.branches.all(ask.conversation.key)}
        if number not in known:
            raise refusal(
                "There is no branch {number}; /branches lists them.", number=literal(clip(number))
            )
    tool = options.get("if", "").partition(":")[0]
    switch = f"tools.{tool}"
    is_switched = switch in SETTINGS and SETTINGS[switch].kind == "flag"
    if is_switched and not ask.bot.settings.describe(switch, here).value:
        raise refusal(
            "The tool `{name}` is not offered here; an owner switches it on with `/config "
            "tools.{name} true`.",
            name=tool,
        )
    if "if" in options and not ask.bot.tools.takes_text(ask, tool):
        raise refusal(
            "No tool {name} is offered here that takes a text. Write --if "
            "web_fetch:https://example.org, --if read_file:files/list.md or --if "
            '"shell:cat log | tail -1".',
            name=literal(clip(tool)),
        )
    for name in _tools_of(options.get("allow", "")):
        if "://" not in name and not ask.bot.tools.is_offered(ask, name):
            raise refusal(
                "No tool {name} is offered here, so it can't be allowed. /context lists those "
                "that are.",
                name=literal(clip(name)),
            )
    is_grant = bool({"allow", "if"} & {*options})
    if is_grant and not ask.person.is_owner and not ask.address.is_private:
        raise refusal("In a group only an owner may allow a job's tools beforehand.")
    return options, text
