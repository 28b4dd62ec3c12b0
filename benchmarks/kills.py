"""kill -9 at random moments, in messengers and the pipe: messages lost, doubled, out of order.

python -m benchmarks.kills --kills 100 --seed 1

The bot runs as in production, in its own process, on the data folder of the previous process. A
script talks to it in two chats. For every other question the model calls a tool that writes a file,
so that a repeated call is visible. Telegram is a server on this machine that delivers unconfirmed
messages again, and sometimes all messages. Moments are random, by seed; every third kill happens
while the bot is idle, so that hardly any turn is put aside.

python -m benchmarks.kills --edits 20

kills it just before and after its writes while the context is edited, and compares it with a bot
that gets the same messages and is not killed (`tests/whole/edit_duel.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import re
import sqlite3
import sys
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from tests.fakes.discord_server import TOKEN as DISCORD_TOKEN
from tests.fakes.discord_server import DiscordServer
from tests.fakes.openai_server import Call, OpenAIServer, Received, Say
from tests.fakes.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer
from tests.fakes.telegram_server import TOKEN, TelegramServer
from tests.whole.edit_duel import CONTEXTS, fight
from tests.whole.process import BotProcess, talking

CHATS = (41, 42)
AGAIN = "This may have reached you before"
PUT_ASIDE = "so it was put aside"
EDITS = 24
"""Lines that are sent in a run in which the context is edited."""
LONGEST_START = 1.2
"""Seconds within which a kill occurs during a start, which has no events."""

NOTEBOOK = '''
import time

from agent.tools.base import ToolContext
from plugins.api import hookimpl, tool

@tool
def note(context: ToolContext, text: str) -> str:
    """Write a line down."""
    with open(context.workspace / "files" / "notes.txt", "a") as notes:
        notes.write(text + "\\n")
    time.sleep(0.02)
    return f"Noted: {text}"

@hookimpl
def parley_tools():
    return [note]
'''


@dataclass
class Figures:
    """The counted figures. `lost` to `rerun` must be 0. `marked` are repeated replies that are
    marked as such, `interrupted` tools that ran again because their first run did not finish."""

    kills: int = 0
    messages: int = 0
    lost: int = 0
    out_of_order: int = 0
    doubled: int = 0
    rerun: int = 0
    marked: int = 0
    interrupted: int = 0
    put_aside: int = 0

    def __iadd__(self, other: Figures) -> Figures:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))
        return self

    @property
    def faults(self) -> int:
        return self.lost + self.out_of_order + self.doubled + self.rerun

    def __str__(self) -> str:
        return ", ".join(f"{one.name} {getattr(self, one.name)}" for one in fields(self))


@dataclass(frozen=True)
class Reply:
    """A reply shown in a chat; `is_marked` if it says that it may be a repetition."""

    chat: int
    text: str
    is_marked: bool


class Platform(Protocol):
    """The platform where people write to the bot. It keeps their messages until the bot has
    confirmed them."""

    arguments: tuple[str, ...]

    def says(self, chat: int, text: str) -> None: ...

    async def hand_over(self, bot: BotProcess) -> None:
        """Deliver to a new process the messages that the previous one did not confirm."""

    async def until_events(self, bot: BotProcess, count: int) -> None:
        """Wait until the bot has contacted this platform that many times."""

    async def until_shown(self, bot: BotProcess, texts: Iterable[str]) -> None:
        """Wait until all these replies are shown, with or without a mark."""

    def collect(self, bot: BotProcess) -> None:
        """Store the output of a process that has ended."""

    @property
    def replies(self) -> list[Reply]: ...


class AtServer(ABC):
    """The base of platforms whose fake server records the shown replies and counts requests
    (`_events`)."""

    _server: TelegramServer | DiscordServer | SlackServer

    @property
    @abstractmethod
    def _events(self) -> int: ...

    @property
    @abstractmethod
    def replies(self) -> list[Reply]: ...

    async def until_events(self, bot: BotProcess, count: int) -> None:
        events = self._events + count
        await self._server.until(lambda: self._events >= events)

    async def until_shown(self, bot: BotProcess, texts: Iterable[str]) -> None:
        wanted = set(texts)
        await self._server.until(lambda: _are_shown(wanted, self.replies))

    def collect(self, bot: BotProcess) -> None:
        del bot  # the server has the output


class AtTelegram(AtServer):
    """Two private chats."""

    _server: TelegramServer
    arguments: tuple[str, ...] = ("--telegram",)

    def __init__(self, server: TelegramServer, chance: random.Random) -> None:
        self._server, self._chance = server, chance
        self._people = {chat: server.person("Ann", chat) for chat in CHATS}

    def says(self, chat: int, text: str) -> None:
        self._people[chat].says(text)

    async def hand_over(self, bot: BotProcess) -> None:
        if self._chance.random() < 0.1:
            self._server.deliver_again()

    @property
    def _events(self) -> int:
        return len(self._server.calls)

    @property
    def replies(self) -> list[Reply]:
        shown = self._server.messages.values()
        return [_reply(sent.chat, sent.text, AGAIN in sent.text) for sent in shown]


class AtDiscord(AtServer):
    """Two direct messages. Discord does not repeat messages to a new process. The process must
    fetch them, and finds the chats by earlier messages."""

    _server: DiscordServer
    arguments: tuple[str, ...] = ("--serve",)

    def __init__(self, server: DiscordServer) -> None:
        self._server = server
        self._people = {chat: server.person("Ann", chat) for chat in CHATS}
        self._is_known = False
        self._waiting: list[tuple[int, str]] = []

    def says(self, chat: int, text: str) -> None:
        if self._is_known:
            self._people[chat].says(text)
        else:
            self._waiting.append((chat, text))

    async def hand_over(self, bot: BotProcess) -> None:
        if self._is_known:
            return
        await self._server.gateway.is_connected()
        for chat, person in self._people.items():
            person.says("/whoami")
            await self._server.shown(f"Settings name you discord/{chat}")
        self._is_known = True
        for chat, text in self._waiting:
            self.says(chat, text)

    @property
    def _events(self) -> int:
        return len(self._server.requests)

    @property
    def replies(self) -> list[Reply]:
        chats = {person.channel: chat for chat, person in self._people.items()}
        shown = self._server.messages.values()
        return [_reply(chats[sent.channel], sent.text, AGAIN in sent.text) for sent in shown]


class AtSlack(AtServer):
    """Two private chats. Unacknowledged messages are delivered again over the next websocket."""

    _server: SlackServer
    arguments: tuple[str, ...] = ("--serve",)

    def __init__(self, server: SlackServer, chance: random.Random) -> None:
        self._server, self._chance = server, chance
        self._people = {chat: server.person(str(chat)) for chat in CHATS}

    def says(self, chat: int, text: str) -> None:
        self._people[chat].says(text)

    async def hand_over(self, bot: BotProcess) -> None:
        if self._chance.random() < 0.1:
            self._server.delivery.redeliver()

    @property
    def _events(self) -> int:
        return len(self._server.calls)

    @property
    def replies(self) -> list[Reply]:
        chats = {person.dm: chat for chat, person in self._people.items()}
        shown = self._server.said
        return [_reply(chats[sent.channel], sent.text, AGAIN in sent.text) for sent in shown]


class AtThePipe:
    """A script that repeats messages that were not accepted."""

    arguments: tuple[str, ...] = ("--jsonl",)

    def __init__(self) -> None:
        self._said: list[dict[str, Any]] = []
        self._accepted: set[str] = set()
        self._heard: list[dict[str, Any]] = []
        self._bot: BotProcess | None = None

    def says(self, chat: int, text: str) -> None:
        message = {"chat": str(chat), "text": text, "id": f"m{len(self._said)}"}
        self._said.append(message)

    async def hand_over(self, bot: BotProcess) -> None:
        self._bot = bot
        for message in self._said:
            if message["id"] not in self._accepted:
                await bot.tell(**message)

    async def until_events(self, bot: BotProcess, count: int) -> None:
        await bot.until(lambda: len(bot.out) >= count)

    async def until_shown(self, bot: BotProcess, texts: Iterable[str]) -> None:
        wanted = set(texts)
        await bot.until(lambda: _are_shown(wanted, self.replies))

    def collect(self, bot: BotProcess) -> None:
        self._accepted |= {line["accepted"] for line in bot.lines if "accepted" in line}
        self._heard += bot.replies
        self._bot = None

    @property
    def replies(self) -> list[Reply]:
        chats = {message["id"]: int(message["chat"]) for message in self._said}
        heard = [*self._heard, *(self._bot.replies if self._bot else ())]
        return [_reply(chats[r["reply_to"]], r["text"], "resent" in r) for r in heard]


def _reply(chat: int, text: str, is_marked: bool) -> Reply:
    return Reply(chat, text.rpartition("\n\n")[2] if is_marked else text, is_marked)


def _are_shown(wanted: set[str], replies: list[Reply]) -> bool:
    """Return True if all wanted replies are shown; a turn that was put aside counts as answered."""
    shown = {reply.text for reply in replies}
    aside = sum(PUT_ASIDE in reply.text for reply in replies)
    return len(wanted - shown) <= aside


@dataclass
class Run:
    """A run on one data folder, on which one process after the other is killed."""

    folder: Path
    chance: random.Random
    platform: Platform
    model: OpenAIServer
    asked: dict[str, int] = field(default_factory=dict)
    noted_by_death: list[tuple[Counter[str], set[str]]] = field(default_factory=list)

    @property
    def expected(self) -> list[str]:
        return [f"re: {text}" for text in self.asked]

    async def live_and_die(self, is_inactive: bool) -> None:
        self._say_more()
        async with talking(self.folder, self.model, arguments=self.platform.arguments) as bot:
            await self.platform.hand_over(bot)
            await self._moment(bot, is_inactive)
            await bot.kill()
        self._remember(bot)

    def _say_more(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            chat = self.chance.choice(CHATS)
            text = f"{chat}-{len(self.asked)}" + self.chance.choice(["", "!", "!!"])
            self.asked[text] = chat
            self.platform.says(chat, text)

    async def _moment(self, bot: BotProcess, is_inactive: bool) -> None:
        count = self.chance.randint(1, 6)
        kind = "rest" if is_inactive else self.chance.choice(("start", "platform", "model"))
        over = self.platform.until_shown(bot, self.expected)
        match kind:
            case "start":  # no event shows the progress of a start
                await _first(over, asyncio.sleep(self.chance.random() * LONGEST_START))
            case "platform":
                await _first(over, self.platform.until_events(bot, count))
            case "model":
                await _first(over, self._requests(count))
            case _:
                await over
        await asyncio.sleep(self.chance.random() * 0.03)  # also between two events

    async def _requests(self, count: int) -> None:
        for _ in range(count):
            await self.model.reached.acquire()

    async def end_well(self) -> None:
        """Let the last process answer everything, and ask it to stop."""
        self._say_more()
        async with talking(self.folder, self.model, arguments=self.platform.arguments) as bot:
            await self.platform.hand_over(bot)
            await self.platform.until_shown(bot, self.expected)
            bot.process.terminate()
            assert await bot.gone() == 0, bot.errors
        self._remember(bot, is_death=False)

    def _remember(self, bot: BotProcess, is_death: bool = True) -> None:
        assert bot.errors == "", bot.errors
        self.platform.collect(bot)
        if is_death and self._rows("SELECT 1 FROM sqlite_master WHERE name = 'outbox'"):
            assert self._rows("PRAGMA integrity_check") == [("ok",)]
            self.noted_by_death.append((self._notes(), self._recorded()))

    def figures(self, kills: int) -> Figures:
        replies = self.platform.replies
        unmarked = Counter(reply.text for reply in replies if not reply.is_marked)
        answered = {reply.text for reply in replies}
        turns = Counter(text for text, *_ in self._turns())
        aside = sum(PUT_ASIDE in reply.text for reply in replies)
        lost = sum(turns[t] != 1 or f"re: {t}" not in answered for t in self.asked)
        runs = self._notes()
        return Figures(
            kills=kills,
            messages=len(self.asked),
            lost=max(0, lost - aside),
            out_of_order=sum(self._is_out_of_order(chat, replies) for chat in CHATS),
            doubled=sum(count - 1 for text, count in unmarked.items() if text in self.expected),
            rerun=sum(
                runs[note] != then[note] for then, noted in self.noted_by_death for note in noted
            ),
            marked=sum(reply.is_marked for reply in replies),
            interrupted=sum(count - 1 for count in runs.values()),
            put_aside=aside,
        )

    def _is_out_of_order(self, chat: int, replies: list[Reply]) -> bool:
        """Return True if a chat's turns, or the first replies to them, are in another order than
        its messages."""
        said = [text for text, where in self.asked.items() if where == chat]
        turns = [text for text, where in self._turns() if where.endswith(f"{chat}")]
        shown = dict.fromkeys(reply.text for reply in replies if reply.text in self.expected)
        heard = [text for text in shown if self.asked[text.removeprefix("re: ")] == chat]
        answered = [f"re: {text}" for text in said if f"re: {text}" in shown]
        return turns != said or heard != answered

    def _turns(self) -> list[tuple[str, str]]:
        """Return the questions in the transcript, with the chats they were asked in."""
        return [
            (text, key.rpartition("/")[2])
            for text, key in self._rows(
                "SELECT text, c.key FROM message JOIN conversation c ON c.id = conversation "
                "WHERE role = 'user' ORDER BY c.id, seq"
            )
        ]

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        if not (self.folder / "data" / "parley.db").exists():
            return []  # killed before it wrote anything
        with closing(sqlite3.connect(self.folder / "data" / "parley.db")) as database:
            return database.execute(query).fetchall()

    def _notes(self) -> Counter[str]:
        files = (self.folder / "data").glob("audiences/*/files/notes.txt")
        return Counter(line for file in files for line in file.read_text().splitlines())

    def _recorded(self) -> set[str]:
        """Return the notes whose result is in the transcript."""
        rows = self._rows("SELECT text FROM message WHERE role = 'tool' AND text LIKE 'Noted: %'")
        return {text.removeprefix("Noted: ") for (text,) in rows}


async def _first(*waits: Any) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    _, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def answer(request: Received) -> Say:
    """Return a model that calls the note tool for a question once for each of its exclamation
    marks, and then repeats the question."""
    messages = request.body["messages"]
    if messages[0]["content"].startswith("Summarise"):
        return Say("They spoke of numbers.")
    place = max(i for i, message in enumerate(messages) if message["role"] == "user")
    asked = re.findall(r"\d+-\d+!*", messages[place]["content"])[-1]
    steps = sum(message["role"] == "tool" for message in messages[place:])
    if steps < asked.count("!"):
        return Say(calls=(Call("note", json.dumps({"text": f"{steps} {asked}"}), f"c{steps}"),))
    return Say(f"re: {asked}")


async def run(folder: Path, channel: str, kills: int, seed: int, is_once: bool = False) -> Figures:
    """Kill a bot on this folder that many times, let it finish, and count; `is_once` marks the tool
    as one that must not run twice."""
    notebook = NOTEBOOK.replace("@tool\n", "@tool(is_once=True)\n") if is_once else NOTEBOOK
    chance = random.Random(seed)
    (folder / "data" / "plugins").mkdir(parents=True)
    (folder / "data" / "plugins" / "notebook.py").write_text(notebook)
    tokens = {"TELEGRAM_BOT_TOKEN": TOKEN, "DISCORD_TOKEN": DISCORD_TOKEN}
    tokens |= {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
    (folder / ".env").write_text("".join(f"{name}={token}\n" for name, token in tokens.items()))
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(OpenAIServer(answer))
        telegram = await stack.enter_async_context(TelegramServer())
        discord = await stack.enter_async_context(DiscordServer())
        slack = await stack.enter_async_context(SlackServer())
        places = {"discord": discord.base_url, "slack": f"{slack.base_url}/api/"}
        owners = [f"{name}/{chat}" for name in ("telegram", "discord") for chat in CHATS]
        config = {
            "model": "gpt-4o-mini",
            "owners": [*owners, *(f"slack/U{n}{chat}" for n, chat in enumerate(CHATS, 1))],
            "telegram": {"base_url": telegram.base_url},
            "channels": {channel: {"base_url": places[channel]}} if channel in places else {},
            "agent_max_context_turns": chance.choice((4, 20)),
        }
        (folder / "config.json").write_text(json.dumps(config))
        platforms: dict[str, Callable[[], Platform]] = {
            "telegram": lambda: AtTelegram(telegram, chance),
            "discord": lambda: AtDiscord(discord),
            "slack": lambda: AtSlack(slack, chance),
            "pipe": AtThePipe,
        }
        platform = platforms[channel]()
        running = Run(folder, chance, platform, model)
        for life in range(kills):
            await running.live_and_die(is_inactive=life % 3 == 2)
        await running.end_well()
    return running.figures(kills)


def edit(seeds: Iterable[int]) -> int:
    """Kill a bot whose context is edited, and compare it with an undisturbed one; return the
    kills."""
    kills = 0
    for seed, strategy in zip(seeds, itertools.cycle(CONTEXTS), strict=False):
        with tempfile.TemporaryDirectory() as folder:
            killed = asyncio.run(fight(Path(folder), seed, CONTEXTS[strategy], EDITS))
        kills += killed
        print(f"seed {seed}: {strategy}, kills {killed}, the same", flush=True)
    print(f"kills {kills}, and what was confirmed is the same each time")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    channels = ("telegram", "discord", "slack", "pipe")
    parser.add_argument("--channel", choices=channels, default="telegram")
    parser.add_argument("--kills", type=int, default=200, help="how often (200)")
    parser.add_argument("--each", type=int, default=10, help="kills on one data folder (10)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--once", action="store_true", help="the tool must not run twice")
    parser.add_argument("--edits", type=int, default=0, help="edit the context in so many runs")
    options = parser.parse_args()
    if options.edits:
        return edit(range(options.seed, options.seed + options.edits))
    total = Figures()
    for seed in range(options.seed, options.seed + options.kills // options.each):
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(
                run(Path(folder), options.channel, options.each, seed, options.once)
            )
        total += found
        print(f"seed {seed}: {found}", flush=True)
    print(f"{options.channel}: {total}")
    return 1 if total.faults else 0


_Raw = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    sys.exit(main())
