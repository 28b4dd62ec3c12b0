"""The transport to a server that runs as a process: messages in lines, through its standard input
and output.

The SDK has one as well; this one limits the resources of a server: the length of a message, the
number of messages per second, and the amount of text on its standard error.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from msgspec import Struct

from agent.tools.child_process import KILL, end_group
from memory.faults import describe_fault
from plugins.mcp import ServerDown
from plugins.mcp.health import Health, Rate
from plugins.mcp.messages import ServerAnswers, StreamLines, TooMuchError

_GRACE = 0.5  # seconds for each step of ending a server
_MOST_STDERR = 8_000  # bytes of its last output on standard error that are kept
NO_PROGRAM = "it is no program of this machine"
_NEEDED = ("TMPDIR", "LANG", "LC_ALL", "XDG_RUNTIME_DIR", "PYTHONUTF8")


class Program(Struct, frozen=True):
    """A program to start, with `environ` in addition to the default variables, in `folder`."""

    command: str
    arguments: Sequence[str]
    environ: Mapping[str, str]
    folder: Path


@asynccontextmanager
async def run_program(program: Program, health: Health) -> AsyncGenerator[TransportStreams, None]:
    """Run the program; at the end, kill it with all its child processes. Raises ServerDown."""
    process, answers = await _start(program), ServerAnswers()
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read(process, to_session, answers, health)),
        asyncio.create_task(_write(process, from_session, answers, health)),
        asyncio.create_task(_collect_stderr(process, health)),
    ]
    try:
        yield from_server, to_server
    finally:
        health.end("")
        ending = asyncio.create_task(_end(process, tasks))
        try:
            await asyncio.shield(ending)
        finally:
            for stream in (to_session, from_server, to_server, from_session):
                stream.close()


async def _start(program: Program) -> Process:
    environ = get_default_environment() | dict(program.environ)
    environ |= {name: os.environ[name] for name in _NEEDED if name in os.environ} | environ
    command = shutil.which(program.command, path=environ.get("PATH"))
    if command is None:
        raise ServerDown(f"there is no program {program.command[:200]!r}")
    # If the bot is killed, a server that ignores the end of its input would keep running.
    guard = shutil.which("setpriv")
    before = (guard, "--pdeathsig", "KILL", "--") if guard else ()
    try:
        return await asyncio.create_subprocess_exec(
            *(*before, command, *program.arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environ,
            cwd=program.folder,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ServerDown(f"it can't be started: {describe_fault(error, NO_PROGRAM)}") from None


async def _read(
    process: Process,
    into: MemoryObjectSendStream[SessionMessage | Exception],
    answers: ServerAnswers,
    health: Health,
) -> None:
    assert process.stdout is not None
    rate, lines = Rate(), StreamLines()
    why = "it has ended"
    with into:
        try:
            while piece := await process.stdout.read(65_536):
                await rate.wait(len(piece), 0)
                for line, is_whole in lines.feed(piece):
                    await rate.wait(0)
                    found = answers.read(line) if is_whole else answers.read_begin(line)
                    for message in found:
                        await into.send(SessionMessage(message))
        except TooMuchError:
            why = "it sent a message that does not end"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            why = ""
    health.end(why)


async def _write(
    process: Process,
    source: MemoryObjectReceiveStream[SessionMessage],
    answers: ServerAnswers,
    health: Health,
) -> None:
    assert process.stdin is not None
    with source:
        try:
            async for sent in source:
                answers.sent(sent.message)
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
        except (OSError, RuntimeError, anyio.ClosedResourceError):  # uvloop raises RuntimeError
            health.end("it accepts no more input")


async def _collect_stderr(process: Process, health: Health) -> None:
    """Keep the end of its standard error, to explain why it has ended."""
    assert process.stderr is not None
    rate = Rate()
    while piece := await process.stderr.read(65_536):
        health.said = (health.said + piece)[-_MOST_STDERR:]
        await rate.wait(len(piece))


async def _end(process: Process, tasks: Sequence[asyncio.Task[None]]) -> None:
    """End the process and its children: close its input, then terminate, then kill."""
    if process.stdin is not None:
        process.stdin.close()
    for number in (None, signal.SIGTERM, KILL):
        if number is not None:
            end_group(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await _wait_for_exit(process)
                break
    end_group(process.pid)  # remaining children
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    transport = getattr(process, "_transport", None)  # a child that holds a pipe keeps it open
    if transport is not None:
        transport.close()


async def _wait_for_exit(process: Process) -> None:
    """Wait until the process itself has ended; `Process.wait` also waits for all holders of its
    pipes."""
    while process.returncode is None:  # noqa: ASYNC110 - asyncio tells of it in no other way
        await asyncio.sleep(0.01)
