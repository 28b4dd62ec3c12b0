"""The tool `shell`: commands in a sandbox; and `/shell`, by which a person runs one for the model
to see. Both are off until an owner turns the tool on."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from heapq import nlargest
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from pydantic import Field

from agent.pictures import find_picture_type
from agent.tools.allowance import Allowance, find_why_full
from agent.tools.child_process import HAS_GROUPS
from agent.tools.workspace import WRITABLE, files_below, open_file
from bot.app import Kernel
from bot.checks import Finding
from bot.settings import Settings
from bot.turn_runner import StoppableTasks
from channels.language import _
from memory.keys import ConversationKey
from memory.record.offload import LocalWorkspace
from plugins.api import (
    EVERYTHING,
    Action,
    Ask,
    Command,
    CommandError,
    Message,
    Reply,
    Tool,
    ToolContext,
    ToolError,
    ToolRun,
    command,
    hookimpl,
    refusal,
    tool,
)
from plugins.shell import box
from plugins.shell.box import CommandResult, Complaint
from plugins.shell.settings import ShellSettings
from plugins.wording import fence

MOST_SHOWN = 4
"""The maximum of pictures shown per command, the newest."""
LARGEST_SHOWN = 5_000_000
"""The maximum of bytes of a picture."""
_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_COARSE = 20_000_000  # the delay in nanoseconds that file timestamps may have

NO_BOX = (
    "The command was not run: bubblewrap (bwrap) does not work on this machine, and without it "
    "commands can't be confined. Tell the owner: they can install it, or set tools.shell_unboxed "
    "to true in the configuration."
)

NO_SHELL = "The command was not run: Windows has no sandbox for commands, so there are none there."
NO_ROOM = (
    "(This chat has used up tools.files_quota, so the command could delete files but write none.)"
)


@tool(touches={"shell"}, is_once=True, switch="shell")
async def shell(
    context: ToolContext, command: Annotated[str, Field(min_length=1, max_length=8_000)]
) -> str:
    """Run a command with sh in files/ of the workspace, the only folder that it may change; no
    network, no input.
    """
    if "\0" in command:
        raise ToolError("The command was not run: it holds a zero byte.")
    if not HAS_GROUPS:
        raise ToolError(NO_SHELL)
    workspace = context.workspace.absolute()  # the command has its own working folder
    files = workspace / WRITABLE
    files.mkdir(parents=True, exist_ok=True)
    settings, limits = context.settings, context.section(ShellSettings)
    allowance = await asyncio.to_thread(Allowance.of, workspace, settings.files_quota)
    limited = box.limit_command(command, allowance.room)
    if await _has_box():
        arguments = [*box.build_box_command(workspace), *limited]
        home = f"{box.INSIDE}/{WRITABLE}"
    elif settings.shell_unboxed:
        arguments, home = limited, str(files)
    else:
        raise ToolError(NO_BOX)
    complaints: tuple[Complaint, ...] = (
        lambda process: box.overuse(process, limits.shell_memory),
        lambda process: allowance.quick_refusal(),
        lambda process: allowance.complaint(),
    )
    seconds, began = limits.shell_timeout, time.time_ns()
    text = format_result(
        await box.run(arguments, box.environment(home), files, seconds, complaints)
    )
    text = text if allowance.room else f"{text}\n{NO_ROOM}"
    shown = await _show_pictures(context, workspace, began)
    return "\n".join([text, *(f"(Shown in the chat: {path})" for path in shown)])


async def _show_pictures(context: ToolContext, workspace: Path, since: int) -> list[str]:
    """Add the pictures that a command made to the answer; return their paths. Copies are kept,
    since later commands may change the files."""
    pictures = context.effects.pictures
    if pictures is None:
        return []
    megabytes = context.settings.files_quota
    made = await asyncio.to_thread(find_made, workspace, since, megabytes)
    for picture in made:
        image = await LocalWorkspace(workspace).keep(picture.content, picture.media_type)
        pictures.append(image.file)
    return [picture.path for picture in made]


class MadePicture(Struct, frozen=True):
    """A picture as of the end of the command; `path` is its path in the workspace."""

    path: str
    media_type: str
    content: bytes


def find_made(workspace: Path, since: int, megabytes: int) -> list[MadePicture]:
    """Return the pictures that were written since then (nanoseconds since 1970), as many as may be
    shown and kept. Links and files that are not pictures are skipped."""
    newest = nlargest(MOST_SHOWN, _changed(workspace, since))
    made = [_read_picture(workspace, path) for _, path in reversed(newest)]
    found = [picture for picture in made if picture is not None]
    return [] if find_why_full(workspace, megabytes, sum(len(p.content) for p in found)) else found


def _changed(workspace: Path, since: int) -> Iterator[tuple[int, Path]]:
    with suppress(OSError):
        for path in files_below(workspace, workspace / WRITABLE):
            if not path.name.lower().endswith(_ENDINGS):
                continue
            with suppress(OSError):  # deleted during the walk
                state = path.stat(follow_symlinks=False)
                if state.st_ctime_ns >= since - _COARSE and 0 < state.st_size <= LARGEST_SHOWN:
                    yield state.st_ctime_ns, path


def _read_picture(workspace: Path, path: Path) -> MadePicture | None:
    try:
        with open_file(workspace, path) as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(LARGEST_SHOWN + 1) if size <= LARGEST_SHOWN else b""
    except (ToolError, OSError):
        return None
    media_type = find_picture_type(content)
    if not media_type or len(content) > LARGEST_SHOWN:
        return None
    return MadePicture(path.relative_to(workspace).as_posix(), media_type, content)


_BOX: list[bool] = []


async def _has_box() -> bool:
    """Return whether the sandbox works; checked once, since it takes a process."""
    if not _BOX:
        _BOX.append(await box.is_there())
    return _BOX[0]


def format_result(ran: CommandResult) -> str:
    """Return the result of a command for the model: its ending first, then its output."""
    gap = f"\n[… {ran.gone:,} bytes left out here …]\n".encode() if ran.gone else b""
    output = (ran.head + gap + ran.tail).decode("utf-8", "replace").strip("\n")
    if ran.ended:
        ending = f"It was killed because {ran.ended}."
    elif ran.status < 0:
        ending = f"It was killed by signal {-ran.status}."
    else:
        ending = f"Exit code {ran.status}."
    return f"{ending}\n{output}" if output else f"{ending} It printed nothing."


class CommandsOfPeople(StoppableTasks):
    """The commands that people are running, at most one per conversation."""

    @hookimpl
    def parley_stop(self) -> Callable[[ConversationKey], bool]:
        return self.stop

    async def run(self, ask: Ask, line: str) -> ToolRun:
        """Run a command; `/stop` and `/forget` stop it. Raises CommandError if they did."""
        task = asyncio.ensure_future(ask.bot.tools.run(ask, "shell", {"command": line}))
        with self.running(ask.conversation.key, task) as running:
            try:
                return await task
            except asyncio.CancelledError:
                if not running.stopped:
                    raise
                raise refusal("Stopped; the model does not see this command.") from None


@hookimpl
def parley_open(kernel: Kernel) -> CommandsOfPeople:
    del kernel
    return CommandsOfPeople()


RUN_BY_PERSON = "(The person ran this command.)"
"""The end of a turn in which a person ran a command, for the model; no model was called."""


@command(
    "shell",
    "Run a command in the sandbox of the tool shell; the model sees its output",
    "COMMAND",
    slow=(EVERYTHING,),
)
async def run_shell(ask: Ask) -> Reply:
    """`/shell ls -l`, in the terminal `!ls -l`: the output becomes a turn, marked as untrusted."""
    line = ask.text.strip()
    if not line:
        raise refusal("/shell needs a command: /shell ls -l.")
    ran = await ask.service(CommandsOfPeople).run(ask, line)
    if ran.is_error:
        raise CommandError(ran.text)
    result = Message(
        "tool",
        ran.text,
        call_id=ran.call.id,
        tool="shell",
        is_untrusted=ran.is_untrusted,
        files=ran.shown,
    )
    called = Message("assistant", tool_calls=(ran.call,))
    question = Message("user", f"!{line}", speaker=ask.speaker)
    (turn,) = await ask.conversation.turns.append(
        [[question, called, result, Message("assistant", RUN_BY_PERSON)]]
    )
    text = _("{output}\n\nThe model sees it as {id}.", output=fence(ran.text), id=turn.id)
    data = {"turn": turn.id, "output": ran.text}
    folder = ask.bot.workspace(ask.conversation.key)
    pictures = tuple(str((folder / file).absolute()) for file in ran.shown)
    return Reply(text, data, (Action(_("Remove it"), f"/context drop {turn.id}"),), pictures)


@hookimpl
def parley_commands() -> list[Command]:
    return [run_shell]


@hookimpl
def parley_tools() -> list[Tool]:
    return [shell]


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Check that commands can be sandboxed on this machine, if the tool is on."""
    del may_connect
    if not settings.section(ShellSettings).shell:
        return ()
    return [check_box(settings, await box.is_there(), bool(shutil.which("bwrap")))]


def check_box(settings: Settings, is_there: bool, is_installed: bool) -> Finding:
    """Return whether the commands of the tool `shell` run in a sandbox."""
    if not HAS_GROUPS:
        advice = "Take tools.shell out of the configuration."
        return Finding(
            "commands", "broken", "The tool shell is off: it needs Linux or macOS.", advice
        )
    if is_there:
        return Finding("commands", "ok", "They can be confined (bubblewrap).")
    if settings.tools.shell_unboxed:
        return Finding("commands", "ok", "They are not confined (tools.shell_unboxed).")
    advice = "Or switch the tool off: take tools.shell out of the configuration."
    if not is_installed:
        sentence = "The tool shell is on, and refuses all: bubblewrap is missing."
        return Finding(
            "commands", "broken", sentence, f"Install it: apt install bubblewrap. {advice}"
        )
    sentence = (
        "The tool shell is on, and refuses all: bubblewrap may make no namespaces here, as in most "
        "containers."
    )
    page = 'Documentation: "Running the bot permanently", "Commands in a sandbox".'
    return Finding("commands", "broken", sentence, f"{page} {advice}")


def list_risks(settings: Settings) -> Iterator[Finding]:
    """Yield the risks of commands, if the tool is on."""
    if not settings.section(ShellSettings).shell:
        return
    if settings.tools.shell_unboxed:
        yield Finding(
            "commands",
            "high",
            "Commands run outside a sandbox, and can do all that the bot's account can.",
            'take "shell_unboxed" out of the configuration',
        )
    elif not shutil.which("bwrap"):
        yield Finding(
            "commands",
            "low",
            "Commands are on, but can't run: bubblewrap is missing.",
            "apt install bubblewrap",
        )
    yield Finding(
        "commands", "note", "The model may ask to run commands.", "/config tools.shell false"
    )
