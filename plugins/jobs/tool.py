"""The model's tool `remind`."""

from __future__ import annotations

import time

from agent.tools.base import NOT_RUN
from agent.tools.toolbox import permission_for
from bot.sending import address_of
from plugins.api import CommandError, ToolContext, ToolError, tool
from plugins.jobs.making import read_when
from plugins.jobs.orders import JobOrders
from plugins.jobs.record import Kind, NewJob
from plugins.jobs.recurrence import format_seconds

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
