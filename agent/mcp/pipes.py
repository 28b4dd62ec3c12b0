"""A server as a process: messages in lines, through its standard input and output.

The SDK has this, too; this one bounds what a server can cost: the length of a message, how many
come in a second, and what it says on its standard error.
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
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import JSONRPCResponse, jsonrpc_message_adapter
from msgspec import Struct

from agent.mcp import ServerDown
from agent.mcp.rate import LONGEST, MOST_ITEMS, Health, Rate

_GRACE = 0.5  # seconds for which a server may end by itself, and again when it is told to
_SAID = 2_000  # bytes of what it said last that are kept
_LARGE = 100_000  # bytes from which a message is read in a thread
_KINDS = frozenset(("text", "image", "audio", "resource_link", "resource"))
"""The kinds of pieces that the result of a tool may have."""
_NEEDED = ("TMPDIR", "LANG", "LC_ALL", "XDG_RUNTIME_DIR", "PYTHONUTF8")


class Program(Struct, frozen=True):
    """What is started: with `environ` beside what every program needs, in `folder`."""

    command: str
    arguments: Sequence[str]
    environ: Mapping[str, str]
    folder: Path


@asynccontextmanager
async def run_program(program: Program, health: Health) -> AsyncGenerator[TransportStreams, None]:
    """The program, running; it is ended with all that it has started. Raises ServerDown."""
    process = await _start(program)
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read(process, to_session, health)),
        asyncio.create_task(_write(process, from_session, health)),
        asyncio.create_task(_hear(process, health)),
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
    # Where the bot is killed, nobody else would end a server that does not mind its input's end.
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
            limit=LONGEST,
        )
    except (OSError, ValueError) as error:
        raise ServerDown(f"it can't be started ({error})") from None


async def _read(
    process: Process, into: MemoryObjectSendStream[SessionMessage | Exception], health: Health
) -> None:
    assert process.stdout is not None
    rate = Rate()
    why = "it has ended"
    with into:
        try:
            while line := await process.stdout.readline():
                await rate.wait(len(line))
                if (message := await _parse(line)) is not None:
                    await into.send(message)
        except ValueError:
            why = f"it sent a message of more than {LONGEST // 1_000_000} MB"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            why = ""
    health.end(why)


async def _parse(line: bytes) -> SessionMessage | None:
    """The message in a line, with � for what is not UTF-8; None where it is none: some servers
    write their log there."""
    parse, text = jsonrpc_message_adapter.validate_json, line.decode("utf-8", "replace")
    try:
        if len(line) < _LARGE:
            return tidy(SessionMessage(parse(text, by_name=False)))
        return tidy(SessionMessage(await asyncio.to_thread(parse, text, by_name=False)))
    except ValueError:
        return None


def tidy(message: SessionMessage) -> SessionMessage:
    """The same, without what a list in it has beyond what is ever used: the SDK would look at each
    item while everybody waits. A piece of a result that this version of the protocol does not have
    becomes a note, since for the SDK it would break the whole answer."""
    if isinstance(message.message, JSONRPCResponse):
        result = message.message.result
        for name, value in result.items():
            if isinstance(value, list) and len(value) > MOST_ITEMS:
                result[name] = value[:MOST_ITEMS]
        if isinstance(content := result.get("content"), list):
            result["content"] = [_as_known(block) for block in content]
    return message


def _as_known(block: Any) -> Any:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str) or kind in _KINDS:
        return block
    return {"type": "text", "text": f"[a part of the kind {kind[:40]!r} is left out]"}


async def _write(
    process: Process, source: MemoryObjectReceiveStream[SessionMessage], health: Health
) -> None:
    assert process.stdin is not None
    with source:
        try:
            async for sent in source:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
        except (OSError, RuntimeError, anyio.ClosedResourceError):  # uvloop says RuntimeError
            health.end("it takes nothing any more")


async def _hear(process: Process, health: Health) -> None:
    """Keep the end of what it says on its standard error, for whoever asks why it has ended."""
    assert process.stderr is not None
    rate = Rate()
    while piece := await process.stderr.read(65_536):
        health.said = (health.said + piece)[-_SAID:]
        await rate.wait(len(piece))


async def _end(process: Process, tasks: Sequence[asyncio.Task[None]]) -> None:
    """End the process and what it has started: it is asked twice before it is killed."""
    if process.stdin is not None:
        process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await _gone(process)
                break
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # what it has left behind
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    transport = getattr(process, "_transport", None)  # which a child that holds a pipe keeps open
    if transport is not None:
        transport.close()


async def _gone(process: Process) -> None:
    """Until the process itself is over: `Process.wait` waits for all who hold its pipes."""
    while process.returncode is None:  # noqa: ASYNC110 - asyncio tells of it in no other way
        await asyncio.sleep(0.01)
