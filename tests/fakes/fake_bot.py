"""A bot for channels under test: it answers from a script, and its turns can be stopped."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from msgspec.structs import asdict

from bot.attachments import run_limited
from channels.base import (
    Accepted,
    Activity,
    Channel,
    CommandEntry,
    ContextChanged,
    ContextUsage,
    Delta,
    Done,
    KeyHolder,
    Logins,
    OpenedFile,
    Session,
    StepRestarted,
    ToolStarted,
    TranscriptMessage,
    TurnStarted,
    WithConnections,
    WorkspaceFiles,
)
from channels.language import ENGLISH
from channels.message import (
    Action,
    Address,
    Completed,
    CompletionRequest,
    Form,
    Inbound,
    Outbound,
    Reply,
)

USAGE = ContextUsage(12_400, 50_000, 7, 20, 0.02, is_measured=True, model="gpt-9-mini", share=0.248)
COMMANDS = {
    "context": Reply(
        "**Context** 12.4k of 50k tokens\n\n- turns 7 of 20\n- next cut at t21",
        {"usage": asdict(USAGE)},
        (Action("Clear", "/context clear"), Action("Details", "/context detail")),
    ),
    "help": Reply(
        "- `/context` what the model sees\n- `/config` settings",
        {
            "commands": [
                {
                    "name": "context",
                    "usage": "[clear]",
                    "summary": "what the model sees",
                    "subcommands": [{"name": "clear", "summary": "forget this conversation"}],
                },
                {"name": "config", "usage": "/config [KEY [VALUE]]", "summary": "settings"},
                {"name": "help", "usage": "/help", "summary": "this list"},
                {"name": "stop", "usage": "/stop", "summary": "end the answer under way"},
            ]
        },
    ),
    "note": Reply("What shall it say?", form=Form("/keep", "as\nit was")),
    "config": Reply(
        "`agent_max_context_turns` is 20.",
        {
            "settings": [
                {
                    "key": "agent_max_context_tokens",
                    "value": 50_000,
                    "meaning": "most tokens sent",
                    "layer": "default",
                    "wants": "a whole number from 1000 to 2000000",
                },
                {
                    "key": "agent_max_context_turns",
                    "value": 20,
                    "meaning": "most turns in context",
                    "layer": "default",
                    "wants": "a whole number from 1 to 1000",
                },
            ]
        },
    ),
}
Script = Callable[[str], Sequence[Activity | asyncio.Event]]


class FakeBot:
    """`script` has the activities of the turn that a text begins; an Event in it is waited for. The
    turn's reply is the streamed text of its last step, or `finals[text]`. `pace` is the pause
    before each activity, in seconds."""

    def __init__(self, script: Script, *, finals: dict[str, str] | None = None, pace: float = 0):
        self.submitted: list[Inbound] = []
        self.commands: list[str] = []
        self.kept: dict[tuple[str, str], str] = {}
        self.language = ENGLISH
        self.said: list[TranscriptMessage] = []
        """Return the transcript of earlier messages."""
        self.channel: Channel | None = None
        self._script, self._finals, self._pace = script, finals or {}, pace
        self._watchers: set[asyncio.Queue[Activity]] = set()
        self._line: asyncio.Queue[Inbound] = asyncio.Queue()
        self._answering: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)

    async def get(self, channel: str, name: str) -> str:
        return self.kept.get((channel, name), "")

    async def set(self, channel: str, name: str, text: str) -> None:
        self.kept[channel, name] = text

    @property
    def state(self) -> FakeBot:
        return self

    @property
    def logins(self) -> Logins:
        raise NotImplementedError

    def run_limited(self, script: Path, content: bytes, *arguments: str) -> bytes:
        return run_limited(script, content, *arguments)

    @asynccontextmanager
    async def serving(self, channel: Channel) -> AsyncIterator[asyncio.Task[None]]:
        """Run `channel` with this bot until the block ends, and close it then."""
        running = asyncio.create_task(self.serve(channel))
        try:
            yield running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if isinstance(channel, WithConnections):
                await channel.close()

    async def serve(self, channel: Channel) -> None:
        """Run `channel` with this bot until it ends and all messages are answered."""
        self.channel = channel
        worker = asyncio.create_task(self._work())
        try:
            await channel.listen(self)
            await self._line.join()
        finally:
            worker.cancel()

    def must_wait(self, inbound: Inbound) -> bool:
        del inbound
        return False

    async def submit(self, inbound: Inbound) -> Accepted:
        self.submitted.append(inbound)
        if inbound.text.startswith("/"):
            await self._send(inbound, await self.command(inbound.address, inbound.text), None)
        else:
            self._line.put_nowait(inbound)
        return Accepted(inbound.id, is_new=True)

    def language_of(self, address: Address) -> str:
        return self.language

    def admits(self, address: Address) -> bool:
        return True

    def is_private(self, address: Address) -> bool:
        return False

    async def command(self, address: Address, line: str) -> Reply:
        self.commands.append(line)
        name = line.removeprefix("/").partition(" ")[0]
        if name == "stop":
            return self._stop()
        return COMMANDS.get(name, Reply(f"There is no command `/{name}`; `/help` lists them."))

    def list_commands(self) -> Sequence[CommandEntry]:
        return [CommandEntry(name, "what it does") for name in COMMANDS]

    def trouble(self, channel: str, error: BaseException) -> None: ...

    async def sessions(self, channel: str, words: str = "") -> list[Session]:
        return []

    async def own_sessions(self, words: str = "") -> list[Session]:
        return []

    def own_address(self, channel: str, chat: str) -> Address | None:
        return Address(channel, chat)

    async def transcript(
        self, address: Address, before: int = 0, most: int = 50
    ) -> list[TranscriptMessage]:
        turns = [*dict.fromkeys(one.turn for one in self.said)][-most:]
        return [one for one in self.said if one.turn in turns]

    async def list_files(self, address: Address) -> WorkspaceFiles:
        return WorkspaceFiles((), 0)

    async def open_file(self, address: Address, path: str) -> OpenedFile | None:
        return None

    async def key_holder(self, key: str) -> KeyHolder | None:
        return None

    async def complete(
        self, holder: KeyHolder, request: CompletionRequest
    ) -> AsyncGenerator[Delta | Completed, None]:
        yield Completed("", "stop")

    def list_routes(self) -> Sequence[object]:
        return ()

    async def call_owner(self, address: Address, name: str, body: bytes) -> bytes:
        return b""

    async def instruct(self, address: Address, text: str) -> str:
        return ""

    async def begin_with(self, address: Address, exchanges: Sequence[tuple[str, str]]) -> bool:
        return False

    @contextmanager
    def watch(self, address: Address) -> Iterator[AsyncIterator[Activity]]:
        queue: asyncio.Queue[Activity] = asyncio.Queue()
        self._watchers.add(queue)
        try:
            yield _items(queue)
        finally:
            self._watchers.discard(queue)

    def show(self, activity: Activity) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(activity)

    async def _work(self) -> None:
        while True:
            inbound = await self._line.get()
            turn = f"t{next(self._numbers)}"
            self.show(TurnStarted(inbound.id))
            said: list[str] = []
            self._answering = asyncio.create_task(self._act(inbound.text, said))
            await asyncio.wait([self._answering])
            stopped = "\n\n(stopped)" if self._answering.cancelled() else ""
            self._answering = None
            final = self._finals.get(inbound.text, "".join(said)) + stopped
            self.show(ContextChanged(USAGE))
            self.show(Done(inbound.id, turn))
            await self._send(inbound, Reply(final), turn)
            self._line.task_done()

    async def _act(self, text: str, said: list[str]) -> None:
        for activity in self._script(text):
            await asyncio.sleep(self._pace)
            match activity:
                case asyncio.Event():
                    await activity.wait()
                    continue
                case Delta(piece):
                    said.append(piece)
                case StepRestarted() | ToolStarted():
                    said.clear()
            self.show(activity)

    def _stop(self) -> Reply:
        if self._answering is None:
            return Reply("Nothing is under way.")
        self._answering.cancel()
        return Reply("Stopped; what was done so far is kept.")

    async def _send(self, inbound: Inbound, reply: Reply, turn: str | None) -> None:
        assert self.channel is not None
        number = next(self._numbers)
        await self.channel.send(Outbound(number, inbound.address, reply, inbound.id, turn))


async def _items(queue: asyncio.Queue[Activity]) -> AsyncIterator[Activity]:
    while True:
        yield await queue.get()


def deltas(text: str, size: int = 4) -> list[Activity]:
    """Yield `text` as it streams, in pieces of `size` characters."""
    return [Delta(text[start : start + size]) for start in range(0, len(text), size)]


def echo(text: str) -> Sequence[Activity]:
    """Return the script of a bot that repeats its messages."""
    return [Delta(f"You said: {text}")]
