"""Random conversations of a whole bot: users' actions and faults."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

from benchmarks.provider_answers import ANSWER
from benchmarks.provider_gate import GATE, PLUGIN
from benchmarks.provider_profiles import PROFILES, Profile
from benchmarks.provider_server import QUESTION, ProviderServer
from bot.data_folder import DATABASE
from channels.message import Attachment
from tests.fakes.voice_server import OGG
from tests.whole.testbot import TestBot, running

PNG = b"\x89PNG\r\n\x1a\n"
WHOLE = re.compile(rf"{ANSWER} #\d+#")
NOTHING_TO_RETRY = "There is nothing to take back"
STRATEGIES = ("trim", "slim", "full", "truncate", "summarize", "structured", "stubs")
TURNS_A_LIFE = 120
TURNS_A_CHAT = 40
_WAIT = 30.0

HOOKS = [
    {
        "id": "often",
        "on": "turn_start",
        "condition": {"type": "turn_count", "every": 3},
        "action": {"type": "inject_message", "content": "Be brief."},
    },
    {
        "id": "seen",
        "on": "tool_end",
        "condition": {"type": "tool_calls", "threshold": 3},
        "action": {"type": "inject_message", "content": "Think before you look again."},
    },
    {
        "id": "mended",
        "on": "tool_end",
        "condition": {"type": "tool_failed"},
        "action": {"type": "inject_message", "content": "Try another one."},
    },
]


def settings(server: ProviderServer, home: Profile) -> dict[str, Any]:
    """Return the configuration of a bot with one provider as its home, which may switch to all
    others."""
    agents = [agent for profile in PROFILES.values() for agent in profile.agents(server.base_url)]
    return {
        "model": "gpt-4o-mini",
        "agents": agents,
        "agent": f"{home.name}-0",
        "context": {"max_tokens": 8_000, "output_reserved": 500, "max_images": 4},
        "agent_max_context_turns": 12,
        "agent_max_steps": 5,
        "when_busy": "steer",
        "messages_per_minute": 0,
        "hooks": HOOKS,
        "log_level": "error",
        "voice": {
            "model": "whisper-1",
            "base_url": f"{server.base_url}/voice/v1",
            "api_key": "{{secret.BENCH_API_KEY}}",
        },
    }


def _copy_data(data: Path, copy: Path) -> None:
    """Copy a data folder as a kill would leave it. Its database is in use, so its files may differ
    in age."""
    shutil.copytree(data, copy, ignore=shutil.ignore_patterns(f"{DATABASE}*"))
    with (
        closing(sqlite3.connect(data / DATABASE)) as used,
        closing(sqlite3.connect(copy / DATABASE)) as made,
    ):
        used.backup(made)


class Crashes(logging.Handler):
    """A log handler that counts unexpected errors of the bot, by their first lines."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            self.seen[f"{record.getMessage()[:120]}: {type(error).__name__}: {error}"[:300]] += 1


class Talks:
    """Conversations with one provider as the home. `turns` counts the models' questions."""

    def __init__(self, server: ProviderServer, home: Profile, seed: int) -> None:
        self._server, self._home = server, home
        self._dice = random.Random(seed)
        self._tally = server.tallies[home.name]
        self._bot = TestBot()
        self._stack = AsyncExitStack()
        self._folder = Path()
        self._pictures = self._chats = self._questions = self._moves = 0
        self._chat = "main"
        self.crashes: Counter[str] = Counter()
        self.done: Counter[str] = Counter()

    async def run(self, turns: int) -> None:
        """Run for so many turns."""
        until = self._tally.turns + turns
        while self._tally.turns < until:
            with tempfile.TemporaryDirectory(prefix="providers-") as folder:
                await self._live(Path(folder), min(until, self._tally.turns + TURNS_A_LIFE))

    async def _live(self, folder: Path, until: int) -> None:
        self._server.forget()
        self._folder = folder / "0"
        plugins = self._folder / "data" / "plugins"
        plugins.mkdir(parents=True)
        (plugins / "gate.py").write_text(PLUGIN)
        await self._open()
        try:
            left = 0
            while self._tally.turns < until:
                if left <= self._tally.turns:
                    self._chats += 1
                    self._chat, left = f"chat{self._chats}", self._tally.turns + TURNS_A_CHAT
                    self._bot.sent.clear()
                await self._act()
        finally:
            await self._close()

    async def _open(self) -> None:
        self._bot = TestBot()
        self._bot.count = self._moves * 1_000
        self._moves += 1
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(
            running(
                self._folder,
                self._bot,
                settings(self._server, self._home),
                {"BENCH_API_KEY": "test-key"},
            )
        )

    async def _close(self) -> None:
        GATE.open()
        self._server.release()
        await self._stack.aclose()

    # --- turns ---

    async def _act(self) -> None:
        names, weights = zip(*((act, act_weight) for act, act_weight in ACTS), strict=True)
        act = self._dice.choices(names, weights)[0]
        self.done[act] += 1
        move: Callable[[], Awaitable[None]] = getattr(self, f"_{act}")
        try:
            async with asyncio.timeout(3 * _WAIT):
                await move()
        except TimeoutError:
            self.crashes[f"{act}: nothing came"] += 1
            self._chats += 1
            self._chat = f"chat{self._chats}"
        GATE.open()
        self._server.release()
        self._server.wants_gate = False
        if self._dice.random() < 0.6:
            await self._settle()

    async def _settle(self) -> None:
        await self._bot.app.turns.queues.idle()
        await self._bot.app.conversations.flush()

    def _question(self) -> str:
        self._questions += 1
        more = " Is the harbour large?" * self._dice.choice(
            (0, 0, 1, 1, 1, 2, 2, 8, 8, 30, 150, 300)
        )
        return f"{QUESTION} {self._questions}.{more}"

    async def _asks(self, text: str, files: tuple[Attachment, ...] = ()) -> None:
        """Ask a question, which must be answered unless the script caused a failure; in that case
        the next question must be answered."""
        self._begin()
        before = len(self._bot.sent)
        reply = await self._bot.says(text, self._chat, files=files)
        if WHOLE.search(reply.text):
            return
        await self._bot.app.turns.queues.idle()
        await self._bot.app.delivery.queues.idle()
        await self._judge("\n".join(one.reply.text for one in self._bot.sent[before:]))

    def _begin(self) -> None:
        self._tally.turns += 1
        self._server.begin()

    async def _judge(self, text: str) -> None:
        if WHOLE.search(text) or text.startswith(NOTHING_TO_RETRY):
            return
        if not self._server.is_troubled:
            self._server.tallies[self._server.asked].unanswered += 1
            self._server.note(f"{self._server.asked}: no answer, and no trouble", text[:300])
        await self._revive()

    async def _revive(self) -> None:
        """Ask a question after a turn without an answer; it must be answered."""
        self._begin()
        before, self._server.script.wildness = self._server.script.wildness, 0.0
        reply = await self._bot.says(self._question(), self._chat)
        self._server.script.wildness = before
        if not WHOLE.search(reply.text):
            self._server.tallies[self._server.asked].dead += 1
            self._server.note(f"{self._server.asked}: the chat is dead", reply.text[:300])
            self._chats += 1
            self._chat = f"chat{self._chats}"

    async def _plain(self) -> None:
        await self._asks(self._question())

    async def _picture(self) -> None:
        await self._asks(self._question(), (self._shot(b"fine"),))

    async def _bad_picture(self) -> None:
        await self._asks(self._question(), (self._shot(b"REFUSED"),))

    def _shot(self, ending: bytes) -> Attachment:
        self._pictures += 1
        data = PNG + b"-%06d" % self._pictures + ending
        return Attachment("photo.png", "image/png", data)

    async def _voice(self) -> None:
        self._questions += 1
        await self._asks("", (Attachment("voice.ogg", "audio/ogg", OGG),))

    async def _retry(self) -> None:
        await self._asks("/retry")

    async def _aside(self) -> None:
        await self._asks(f"/btw {self._question()}")

    async def _edit(self) -> None:
        await self._asks(f"/edit {self._question()}")

    async def _regenerate(self) -> None:
        await self._asks("/regenerate")

    # --- actions during a turn ---

    async def _waits(self) -> tuple[str, bool]:
        """Ask a question, and make a tool or the request itself wait; return the message's id, and
        whether something waits now."""
        self._begin()
        GATE.close()
        self._bot.count += 1
        own = f"m{self._bot.count}"
        if self._dice.random() < 0.7:
            self._server.wants_gate = True
        else:
            self._server.hold()
        await self._bot.writes(self._question(), self._chat, id=own)
        waiters = [GATE.reached.wait(), self._server.held.wait(), self._bot.reply_to(own)]
        tasks = [asyncio.ensure_future(one) for one in waiters]
        done, pending = await asyncio.wait(
            tasks, timeout=_WAIT, return_when=asyncio.FIRST_COMPLETED
        )
        for task in pending:
            task.cancel()
        return own, tasks[2] not in done and bool(done)

    async def _stop(self) -> None:
        await self._waits()
        await self._bot.says("/stop", self._chat)
        GATE.open()
        self._server.release()
        await self._bot.app.turns.queues.idle()
        await self._revive()

    async def _steer(self) -> None:
        own, is_waiting = await self._waits()
        if is_waiting:
            for _ in range(self._dice.choice((1, 1, 2))):
                await self._bot.writes(self._question(), self._chat)
            if self._dice.random() < 0.2:
                await self._agent()
        GATE.open()
        self._server.release()
        reply = await self._bot.reply_to(own)
        await self._bot.app.turns.queues.idle()
        await self._judge(reply.reply.text)

    async def _kill(self) -> None:
        """Kill the bot while it is idle."""
        await self._bot.app.turns.queues.idle()
        self._server.begin()
        await self._move_on()
        await self._revive()

    async def _kill_in_turn(self) -> None:
        own, is_waiting = await self._waits()
        if not is_waiting:
            return
        if self._dice.random() < 0.3:
            await self._agent()
        await self._move_on()
        reply = await self._bot.reply_to(own)
        await self._bot.app.turns.queues.idle()
        await self._judge(reply.reply.text)

    async def _move_on(self) -> None:
        """Abandon the current bot, and open another one on the data on disk."""
        folder = self._folder.parent / str(self._moves)
        await self._bot.app.delivery.queues.idle()
        _copy_data(self._folder / "data", folder / "data")
        old = self._folder
        before, self._server.script.wildness = self._server.script.wildness, 0.0
        await self._bot.says("/stop", self._chat)
        await self._close()
        self._server.kill()
        self._server.script.wildness = before
        shutil.rmtree(old)
        self._folder = folder
        GATE.open()
        await self._open()

    # --- commands ---

    async def _command(self, line: str) -> None:
        await self._bot.says(line, self._chat)

    async def _agent(self) -> None:
        """Switch to another provider, or back to the home provider."""
        name = self._dice.choice([self._home.name] * 14 + list(PROFILES))
        await self._command(f"/agent {name}-{self._dice.randint(0, 1)}")

    async def _range(self) -> str:
        turns = await self._turns()
        if not turns:
            return "t1"
        first = self._dice.choice(turns)
        last = min(first + self._dice.randint(0, 4), turns[-1])
        return f"t{first}-t{last}" if last > first else f"t{first}"

    async def _turns(self) -> list[int]:
        reply = await self._bot.says("/context turns", self._chat)
        return sorted({int(number) for number in re.findall(r"\bt(\d+)\b", reply.text)})

    async def _change(self) -> None:
        """Change the context by a command."""
        kind = self._dice.choice(
            ("drop", "compact", "compact", "pin", "unpin", "free", "expand", "undo", "redo", "stub")
        )
        line = {
            "drop": f"/context drop {await self._range()}",
            "compact": f"/context compact {await self._range()}",
            "pin": f"/context pin {await self._range()}",
            "unpin": f"/context unpin {await self._range()}",
            "free": f"/context free {await self._range()}",
            "expand": f"/context expand s{self._dice.randint(1, 3)}",
            "stub": "/context compact",
        }.get(kind, f"/context {kind}")
        await self._command(line)

    async def _strategy(self) -> None:
        name = self._dice.choice(STRATEGIES)
        await self._command(f"/config context.strategy {name} --here")

    async def _undo(self) -> None:
        await self._command(f"/undo {self._dice.randint(1, 2)}")

    async def _afresh(self) -> None:
        await self._command(self._dice.choice(("/new", "/context clear")))

    async def _fork(self) -> None:
        turns = await self._turns()
        where = f" t{self._dice.choice(turns)}" if turns and self._dice.random() < 0.6 else ""
        await self._command(f"/fork{where}")

    async def _branch(self) -> None:
        await self._command(f"/branches {self._dice.randint(1, 3)}")


ACTS = (
    ("plain", 44),
    ("picture", 3),
    ("bad_picture", 0.5),
    ("voice", 2),
    ("retry", 3),
    ("aside", 1.5),
    ("edit", 1.5),
    ("regenerate", 1),
    ("stop", 4),
    ("steer", 6),
    ("kill", 0.7),
    ("kill_in_turn", 1),
    ("agent", 6),
    ("change", 7),
    ("strategy", 1.5),
    ("undo", 1.5),
    ("afresh", 0.5),
    ("fork", 1.5),
    ("branch", 2),
)
"""The actions in a conversation, with their weights."""
