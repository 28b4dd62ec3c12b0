"""The tool `shell`: commands in a box. It is off until an owner turns it on."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field

from agent.tools import box
from agent.tools.allowance import Allowance, overuse
from agent.tools.box import Complaint, Ran
from agent.tools.workspace import WRITABLE
from plugins.api import Tool, ToolContext, ToolError, hookimpl, tool

NO_BOX = (
    "The command was not run: bubblewrap (bwrap) does not work on this machine, and without it "
    "commands can't be confined. Tell the owner: they can install it, or set tools.shell_unboxed "
    "to true in the configuration."
)

NO_ROOM = (
    "(This chat has used up tools.files_quota, so the command could delete files but write none.)"
)


@tool(touches={"shell"}, is_once=True, switch="shell")
async def shell(
    context: ToolContext, command: Annotated[str, Field(min_length=1, max_length=8_000)]
) -> str:
    """Run a command with sh in files/ of the workspace, the only folder that it may change; no
    network, no input. The person is asked first.
    """
    if "\0" in command:
        raise ToolError("The command was not run: it holds a zero byte.")
    files = context.workspace / WRITABLE
    files.mkdir(parents=True, exist_ok=True)
    settings = context.settings
    allowance = await asyncio.to_thread(Allowance.of, context.workspace, settings.files_quota)
    limited = box.limit_command(command, allowance.room)
    if await _has_box():
        arguments = [*box.build_box_command(context.workspace), *limited]
        home = f"{box.INSIDE}/{WRITABLE}"
    elif settings.shell_unboxed:
        arguments, home = limited, str(files)
    else:
        raise ToolError(NO_BOX)
    complaints: tuple[Complaint, ...] = (
        lambda process: overuse(process, settings.shell_memory),
        lambda process: allowance.urgent_complaint(),
        lambda process: allowance.complaint(),
    )
    seconds = settings.shell_timeout
    text = format_result(
        await box.run(arguments, box.environment(home), files, seconds, complaints)
    )
    return text if allowance.room else f"{text}\n{NO_ROOM}"


_BOX: list[bool] = []


async def _has_box() -> bool:
    """Found out once: it takes a process to know."""
    if not _BOX:
        _BOX.append(await box.is_there())
    return _BOX[0]


def format_result(ran: Ran) -> str:
    """What came of a command, as the model reads it: how it ended first, then what it wrote."""
    gap = f"\n[… {ran.gone:,} bytes left out here …]\n".encode() if ran.gone else b""
    output = (ran.head + gap + ran.tail).decode("utf-8", "replace").strip("\n")
    if ran.ended:
        ending = f"It was killed because {ran.ended}."
    elif ran.status < 0:
        ending = f"It was killed by signal {-ran.status}."
    else:
        ending = f"Exit code {ran.status}."
    return f"{ending}\n{output}" if output else f"{ending} It printed nothing."


@hookimpl
def parley_tools() -> list[Tool]:
    return [shell]
