"""The hooks of reminders and jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from bot.kernel import Kernel
from bot.runs import RunHandler
from channels.base import Bot
from memory.record.forget import FeatureRows
from memory.turn_log import OpenTurn
from plugins.api import Command, Tool, hookimpl
from plugins.hookspecs import Background
from plugins.jobs.calls import HookCalls
from plugins.jobs.commands import jobs_command
from plugins.jobs.conditions import JobConditions
from plugins.jobs.firing import Jobs
from plugins.jobs.making import remind_command
from plugins.jobs.orders import JobOrders
from plugins.jobs.record import JobRows
from plugins.jobs.runner import JobRunner
from plugins.jobs.runs import JobTurns
from plugins.jobs.tool import remind


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
