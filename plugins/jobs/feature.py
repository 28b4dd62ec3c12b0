"""The hooks of reminders and jobs, and the model's tool `remind`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from agent.tools.base import NOT_RUN
from agent.tools.toolbox import permission_for
from bot.kernel import Kernel
from bot.runs import RunHandler
from bot.sending import address_of
from channels.base import Bot
from memory.record.forget import FeatureRows
from memory.turn_log import OpenTurn
from plugins.api import Command, CommandError, Tool, ToolContext, ToolError, hookimpl, tool
from plugins.hookspecs import Background
from plugins.jobs.calls import HookCalls
from plugins.jobs.commands import jobs_command
from plugins.jobs.conditions import JobConditions
from plugins.jobs.firing import Jobs
from plugins.jobs.making import read_when, remind_command
from plugins.jobs.orders import JobOrders
from plugins.jobs.record import JobRows, Kind, NewJob
from plugins.jobs.recurrence import format_seconds
from plugins.jobs.runner import JobRunner
from plugins.jobs.runs import JobTurns

SHORTEST_FOR_MODEL = 900
"""Seconds between two runs of a job that the model makes."""


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
    """Refuse what runs too often; a person is asked first where what others wrote may have had it
    made."""
    if new.rule.startswith("every ") and int(new.rule.split()[1]) < SHORTEST_FOR_MODEL:
        least = format_seconds(SHORTEST_FOR_MODEL)
        raise ToolError(f"Not made: every {least} is the most. The user may use /jobs add.")
    if context.has_outside():
        shown = {"when": when, "prompt": new.text}
        await context.approve(permission_for(remind, shown, context.settings))


class JobsFeature:
    """The parts of the feature, made from the kernel's."""

    def __init__(self, kernel: Kernel) -> None:
        runner = JobRunner(kernel)
        conditions = JobConditions(runner)
        self._jobs = Jobs(runner, kernel.conversations, conditions)
        self._calls = HookCalls(runner, kernel.turns, kernel.secrets)
        self._orders = JobOrders(runner, kernel.conversations, self._calls, conditions)
        self._turns = JobTurns(runner)
        kernel.schedule.every_minute(self._jobs.tick)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._orders, self._jobs)

    @hookimpl
    def parley_background(self) -> Background:
        return self._jobs

    @hookimpl
    def parley_runs(self) -> RunHandler:
        return self._turns

    @hookimpl
    def parley_notes(self) -> Callable[[OpenTurn], list[str]]:
        return self._orders.list_made

    @hookimpl
    def parley_calls(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        return {"jobs.call": self._calls.carry_out}

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
