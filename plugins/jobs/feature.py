"""The hooks of reminders and jobs, and the model's tool `remind`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from agent.tools.base import NOT_RUN
from agent.tools.toolbox import permission_for
from bot.app import Kernel
from bot.received import RunHandler
from bot.sending import address_of
from channels.base import Bot
from channels.language import _
from memory.record.forget import FeatureRows
from memory.turn_log import OpenTurn
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
    refusal,
    tool,
)
from plugins.hookspecs import Background
from plugins.jobs.calls import HookCalls
from plugins.jobs.creation import add, add_hook, move, read_when, remind_command
from plugins.jobs.firing import JobConditions, Jobs
from plugins.jobs.orders import (
    JobOrders,
    describe_bounds,
    describe_call,
    name_of_job,
    to_data,
    to_line,
)
from plugins.jobs.plans import JobView, describe_when
from plugins.jobs.record import JobRows, Kind, NewJob
from plugins.jobs.recurrence import format_seconds
from plugins.jobs.runs import JobRunner, JobTurns
from plugins.wording import literal

SHORTEST_FOR_MODEL = 900
"""The minimum number of seconds between two runs of a job that the model creates."""


@tool(is_once=True, is_parallel=False, needs_conversation=True)
async def remind(context: ToolContext, when: str, text: str, run: bool = False) -> str:
    """Tell the user text later, or run it as a prompt.

    Args:
        when: Like friday 9:00, in 2 hours, every day 9:00.
    """
    new = await _to_new(context, "prompt" if run else "reminder", when, text)
    if run:
        await _check_prompt(context, new, when)
    if context.place is None:
        raise ToolError(f"{NOT_RUN} what runs by itself may set nothing up.")
    orders = context.service(JobOrders)
    return await orders.add_for_model(context.key, address_of(context.place), new)


async def _to_new(context: ToolContext, kind: Kind, when: str, text: str) -> NewJob:
    try:
        found = await read_when(when, context.timezone)
    except CommandError as error:
        raise ToolError(str(error)) from None
    if found.rest:
        raise ToolError(f"Not made: {found.rest[:60]!r} in `when` is no time.")
    anchor = found.anchor or time.time()
    return NewJob(kind, text, found.rule, anchor, found.zone or context.timezone.key)


async def _check_prompt(context: ToolContext, new: NewJob, when: str) -> None:
    """Raise ToolError for a job that runs too often. Ask the person for permission if the turn
    contains text of others, which may have caused the call."""
    if new.rule.startswith("every ") and int(new.rule.split()[1]) < SHORTEST_FOR_MODEL:
        least = format_seconds(SHORTEST_FOR_MODEL)
        raise ToolError(f"Not made: every {least} is the most. The user may use /jobs add.")
    if context.has_outside():
        shown = {"when": when, "prompt": new.text}
        await context.approve(permission_for(remind, shown, context.settings))


class JobsFeature:
    """The feature's services, created from the kernel's."""

    def __init__(self, kernel: Kernel) -> None:
        runner = JobRunner(kernel)
        self._conditions = JobConditions(runner)
        self._jobs = Jobs(runner, kernel.conversations, self._conditions)
        self._calls = HookCalls(runner, kernel.turns, kernel.secrets)
        self._orders = JobOrders(runner, kernel.conversations, self._calls, self._conditions)
        self._turns = JobTurns(runner)
        kernel.schedule.every_minute(self._jobs.tick)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._orders, self._jobs)

    @hookimpl
    def parley_background(self) -> Background:
        return self._conditions.tasks

    @hookimpl
    def parley_runs(self) -> RunHandler:
        return self._turns

    @hookimpl
    def parley_notes(self) -> Callable[[OpenTurn], list[str]]:
        return self._orders.list_made

    @hookimpl
    def parley_calls(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        return {"jobs.call": self._calls.execute}

    @hookimpl
    def parley_routes(self) -> Callable[[Bot], Sequence[object]]:
        def routes(bot: Bot) -> Sequence[object]:
            from plugins.jobs.routes import hook_operations  # noqa: PLC0415 - the web server is slow to load

            return hook_operations(bot, self._calls)

        return routes


@hookimpl
def parley_open(kernel: Kernel) -> JobsFeature:
    return JobsFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [remind_command, jobs_command]


@hookimpl
def parley_tools() -> list[Tool]:
    return [remind]


@hookimpl
def parley_rows() -> FeatureRows:
    return JobRows()


# --- /remind and /jobs ----------------------------------------------------------------------------

SHOWN = 20
"""The maximum number of jobs listed."""

_SUBS = (
    ("add", "a prompt that runs by itself: /jobs add every day 8:00 Sum up my mail"),
    ("hook", "a prompt that runs when a program calls it: /jobs hook github Say what is new"),
    ("at", "another time for a reminder: /jobs at 3 tomorrow 10:00"),
    ("run", "run it now, besides its times"),
    ("pause", "pause it"),
    ("resume", "resume it"),
    ("delete", "delete it"),
)


@command(
    "jobs",
    "List reminders and jobs with their results, and add new ones",
    "[add WHEN PROMPT|hook NAME PROMPT|at N WHEN|run N|pause N|resume N|delete N]",
    _SUBS,
)
async def jobs_command(ask: Ask) -> Reply:
    """Run `/jobs`, `/jobs 3`, `/jobs add every weekday 8:00 PROMPT` or `/jobs pause 3`."""
    word, _space, rest = ask.text.strip().partition(" ")
    if not word:
        return await _list(ask)
    if word.isdecimal():
        return await _show(ask, _number(word))
    if word.lower() == "add":
        return await add(ask, rest.strip())
    if word.lower() == "hook":
        return await add_hook(ask, rest.strip())
    if word.lower() == "at":
        return await move(ask, rest.strip())
    change = CHANGES.get(word.lower())
    if change is None:
        raise ask.refuse_word("jobs", word)
    view = await change.act(ask)(ask.address, _number(rest))
    if change.next and view.job.next_at:
        text = _(change.next, name=name_of_job(view), when=describe_when(view))
    else:
        text = _(change.done, name=name_of_job(view))
    return Reply(text, to_data(view))


Act = Callable[[Address, int], Awaitable[JobView]]


class _Change(Struct, frozen=True):
    """A subcommand: its action, its button, and the sentence after it is done; `next` is a sentence
    that also has the job's next time."""

    act: Callable[[Ask], Act]
    label: str
    done: str
    next: str = ""


CHANGES = {
    "run": _Change(lambda ask: ask.service(JobOrders).run, "Run", "{name} runs now."),
    "pause": _Change(lambda ask: ask.service(JobOrders).pause, "Pause", "{name} is paused."),
    "resume": _Change(
        lambda ask: ask.service(JobOrders).resume,
        "Resume",
        "{name} goes on.",
        "{name} goes on: {when}.",
    ),
    "delete": _Change(lambda ask: ask.service(JobOrders).delete, "Delete", "{name} is deleted."),
}


def _number(text: str) -> int:
    number = text.strip().removeprefix("#")
    if not number.isdecimal() or len(number) > 15:
        raise refusal("Say which: a number that /jobs lists, as in /jobs pause 3.")
    return int(number)


async def _list(ask: Ask) -> Reply:
    every = await ask.service(JobOrders).all(ask.address)
    data = {"jobs": [to_data(view) for view in every]}
    if not every:
        return Reply(
            _(
                "No reminders or jobs here yet. `/remind tomorrow 9:00 Call Ann` sets a "
                "reminder; `/jobs add every day 8:00 What is new?` asks the model each day."
            ),
            data,
        )
    shown = [view for view in every if view.job.state != "done"] + [
        view for view in every if view.job.state == "done"
    ]
    lines = [to_line(view) for view in shown[:SHOWN]]
    if len(shown) > SHOWN:
        lines.append(_("and {n} more", n=len(shown) - SHOWN))
    return Reply("\n".join(lines), data)


async def _show(ask: Ask, number: int) -> Reply:
    found = [
        view for view in await ask.service(JobOrders).all(ask.address) if view.job.id == number
    ]
    if not found:
        raise refusal("There is no job {number} in this chat; /jobs lists them.", number=number)
    (view,) = found
    parts = [to_line(view), *describe_bounds(view), literal(view.job.text)]
    if view.job.hook:
        parts.extend(describe_call(ask, view))
    goes = {"active": "pause", "paused": "resume"}.get(view.job.state, "")
    controls = filter(None, (goes, "" if view.job.hook else "run", "delete"))
    actions = tuple(Action(CHANGES[word].label, f"/jobs {word} {number}") for word in controls)
    return Reply("\n\n".join(parts), to_data(view), actions)
