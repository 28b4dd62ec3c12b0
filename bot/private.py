"""Private conversations: their messages are in this process's memory and nowhere else.

A message of such a chat bypasses the inbox (`bot/intake.py`), and its answer goes to the channel
without the outbox. The code here has no access to a transcript, and passes no text to code that
has. The disk holds three things, without any text: that the chat is off the record; the ids of its
messages, so that one that the platform redelivers after a crash is not answered publicly; and the
cost of the calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from agent.loop import Output
from agent.models.base import ModelError
from bot.access import CLOSED, Access, name_of
from bot.activity import EventBus
from bot.delivery import Delivery
from bot.logs import in_turn, off_record
from bot.ports import Processes
from bot.received import CommandLine, Links, Received, unescape_slash
from bot.runtime import RuntimeConfig
from bot.turn_runner import (
    BROKEN,
    STOPPED,
    StoppableTasks,
    describe_timeout,
    problem_of,
    without_commands,
)
from channels.base import (
    Delta,
    Done,
    PrivateChanged,
    StepRestarted,
    Thought,
    TranscriptMessage,
    TurnStarted,
    TurnUsage,
)
from channels.language import ENGLISH, _, explain, number_of, speaking
from channels.message import Action, Address, Inbound, Problem, Reply
from memory.context.emergency import RequestTooLong
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import Message
from memory.plain_text import literal
from memory.record import bot_state
from memory.record.database import Database
from memory.record.store import StoreError
from memory.record.tables import UNREADABLE
from memory.tasks import KeyedQueues, cancel_and_wait
from memory.unrecorded import PrivateConversation, PrivateTurn
from plugins.api import PrivateInfo, refusal

log = logging.getLogger(__name__)

STATE = "private"
"""The first word of the names under which chats off the record are stored on disk."""
MOST_IDS = 200
"""The maximum number of a chat's newest messages that are recognised when redelivered."""
MOST_WAITING = 20
"""The maximum number of messages of a private conversation that may wait for answers."""
ENDS_WITH_PROCESS = ("terminal", "pipe", "ask")
"""Channels that deliver no message from before the start of the process."""
OPEN = frozenset({"private", "stop", "cancel", "help", "status", "whoami", "version"})
"""The commands of a private conversation: none of them stores its arguments."""
READ_BY_CHANNELS = frozenset(
    f"/{line}"
    for line in (
        *("branches", "model list", "agent", "approve", "config", "context json"),
        *("context turns", "context history", "context requests", "context map json"),
    )
)
"""The lines by which the page and the terminal read the public conversation, to show it."""
FOOTER = "*Off the record: this is not saved.*"
REFUSED = (
    "/{name} needs saved messages, and this conversation is off the record, so nothing was done. "
    "/private off ends it; /context shows it."
)
NO_FILES = (
    "This conversation is off the record, and files would be saved on the disk, so your "
    "message was not accepted. Send its text alone, or end the private conversation with "
    "/private off."
)
GONE = (
    "The private conversation here ended when the bot was restarted, and nothing is left of "
    "it. This message was not accepted. /private on begins a new one; /private off continues "
    "the saved conversation."
)
FULL = "{n} of your messages wait for their answers; send this one again when some are answered."
TOGETHER = (
    "Private conversations are not possible where several processes are one bot: your messages "
    "would pass through the queues between them. Nothing was changed."
)
ENDED = "The private conversation ended before this message was answered, so it is forgotten."


class PrivateLocation(Struct):
    """The stored part of a chat that is off the record: `home` is the id of its first conversation,
    or of the one that it is linked to."""

    home: str
    is_on: bool
    ids: list[str] = field(default_factory=list)


class PrivateConversations:
    """The private conversations of this process, at most one per chat."""

    def __init__(
        self,
        conversations: Conversations,
        config: RuntimeConfig,
        delivery: Delivery,
        bus: EventBus,
        access: Access,
        links: Links,
        processes: Processes,
    ) -> None:
        self._conversations, self._config, self._delivery = conversations, config, delivery
        self._bus, self._access, self._links, self._processes = bus, access, links, processes
        self._talks: dict[str, PrivateConversation] = {}
        self._places: dict[tuple[str, str, str], PrivateLocation] = {}
        self._tasks = StoppableTasks()
        self.queues = KeyedQueues("private turn")

    async def load(self) -> None:
        """Load the chats that were off the record when the previous process ended."""
        store = self._conversations.services.store
        for channel, _name, text in await store.read(lambda db: bot_state.list_of(db, STATE)):
            with suppress(*UNREADABLE):
                whole = orjson.loads(text)
                at, place = whole["at"], PrivateLocation(whole["home"], whole["on"], whole["ids"])
                self._places[channel, at[0], at[1]] = place

    # --- the private chats ---------------------------------------------------------------------

    def covers(self, key: ConversationKey) -> bool:
        """Return whether messages in this chat are off the record, or belong to a private
        conversation that was lost in a restart."""
        home = key.home
        return home in self._talks or any(p.is_on and p.home == home for p in self._places.values())

    def knows(self, inbound: Inbound) -> bool:
        """Return whether this message was accepted off the record, even before a restart."""
        if not self._places:
            return False  # the usual case
        place = self._places.get(_place_of(inbound.address))
        return place is not None and inbound.id in place.ids

    def status(self, key: ConversationKey) -> PrivateInfo | None:
        talk = self._talks.get(key.home)
        if talk is not None:
            return PrivateInfo(len(talk.turns), talk.in_view, talk.tokens, is_alive=True)
        return PrivateInfo(0, 0, 0, is_alive=False) if self.covers(key) else None

    async def begin(self, key: ConversationKey, address: Address) -> None:
        if self._processes.owners is not None or self._processes.survey is not None:
            raise refusal(TOGETHER)
        await self._keep(address, key.home, is_on=True)
        conversations = self._conversations
        self._talks[key.home] = PrivateConversation(
            conversations.services, conversations.models, key
        )
        self._bus.publish(key.home, PrivateChanged(True))

    async def end(self, key: ConversationKey) -> PrivateInfo | None:
        was, home = self.status(key), key.home
        self.stop(key)
        for name, place in list(self._places.items()):
            if place.home == home and place.is_on:
                await self._keep(Address(*name), home, is_on=False)
        self._talks.pop(home, None)
        self._bus.publish(home, PrivateChanged(False))
        return was

    async def _keep(self, address: Address, home: str, *, is_on: bool, id: str = "") -> None:
        """Store whether a chat is off the record, and this message's id. Raises StoreError."""
        homes = (home, *self._links.followers(home))
        if all(one.partition("/")[0] in ENDS_WITH_PROCESS for one in homes):
            return
        name = _place_of(address)
        known = self._places.get(name)
        ids = [*(known.ids if known else ()), *((id,) if id else ())][-MOST_IDS:]
        whole = {"at": [address.chat, address.thread], "home": home, "on": is_on, "ids": ids}
        text, words = orjson.dumps(whole).decode(), f"{STATE} {address.chat} {address.thread}"

        def work(db: Database) -> None:
            bot_state.put_text(db, address.channel, words.rstrip(), text)

        await self._conversations.services.store.write(work)
        self._places[name] = PrivateLocation(home, is_on, ids)

    # --- messages ------------------------------------------------------------------------------

    def refuse(
        self, inbound: Inbound, key: ConversationKey, line: CommandLine | None
    ) -> Reply | None:
        """Return the refusal of a message off the record; None: it is accepted."""
        if line is not None or self.knows(inbound):
            return None
        if key.home not in self._talks:
            return _deleted_reply()
        if inbound.attachments:
            return Reply(_(NO_FILES), problem="refused")
        waiting = self.queues.depth(key.home)
        if waiting >= MOST_WAITING:
            return Reply(_(FULL, n=waiting), problem="busy")
        return None

    async def note(self, inbound: Inbound, key: ConversationKey) -> bool:
        """Store the id of an accepted message; return False if it was known. Raises StoreError."""
        if self.knows(inbound):
            return False
        await self._keep(inbound.address, key.home, is_on=self.covers(key), id=inbound.id)
        return True

    def answer_command(self, key: ConversationKey, line: CommandLine) -> Reply | None:
        """Return the answer to a command in a chat off the record; None: the command itself
        answers."""
        whole = f"/{line.name} {line.rest}".strip()
        if whole == "/context":
            return self._overview(key)
        if line.name in OPEN or whole in READ_BY_CHANNELS:
            return None
        # /context itself is answered, so the refusal of `/context clear` names both words.
        name = " ".join(whole[1:].split()[:2]) if line.name == "context" else line.name
        return Reply(_(REFUSED, name=literal(name)), problem="command_refused")

    def _overview(self, key: ConversationKey) -> Reply:
        info = self.status(key)
        assert info is not None, "only private chats are asked about"
        if not info.is_alive:
            return _deleted_reply()
        left = info.turns - info.in_view
        text = _(
            "The model sees {turns} of this private conversation, {tokens:,} tokens, and nothing "
            "of the conversation on the record. What is remembered (/memory) is in its prompt. No "
            "tool runs.",
            turns=number_of(info.in_view, "{n} turn", "{n} turns"),
            tokens=info.tokens,
        )
        if left:
            removed = number_of(left, "{n} older turn", "{n} older turns")
            text += " " + _("Removed from its context to make room: {turns}.", turns=removed)
        off = Action(_("End it"), "/private off")
        return Reply(text, {"private": {"turns": info.turns, "tokens": info.tokens}}, (off,))

    def mark(self, key: ConversationKey, reply: Reply) -> Reply:
        """Return the reply with a note that it is off the record."""
        if key.home not in self._talks:
            return reply
        return replace(reply, text=f"{reply.text}\n\n{_(FOOTER)}")

    async def send(self, received: Received, reply: Reply, turn: str | None = None) -> None:
        """Pass a reply to its channel, without the outbox."""
        with off_record():
            answer = await self._delivery.prepare(received, reply, turn)
            answer.ids = [0] * len(answer.rows)
            self._delivery.send_prepared(answer)

    def put(self, received: Received) -> None:
        """Add a message to the queue of its private conversation."""
        talk = self._talks.get(received.key.home)
        with off_record():
            self.queues.put(received.key.home, lambda: self._answer(received, talk))

    async def _answer(self, received: Received, talk: PrivateConversation | None) -> None:
        with off_record(), self._delivery.speaking_to(received.address, received.key.id):
            turn = None
            try:
                reply, turn = await self._work(talk, received)
            except (ModelError, RequestTooLong, StoreError) as error:
                log.warning("a private answer failed", exc_info=error)
                text = without_commands(explain(str(error)))  # they work on what is kept
                reply = Reply(text, problem=problem_of(error))
            except _NoAnswer as error:
                reply = Reply(explain(str(error)), problem=error.problem)
            except Exception:
                log.exception("a private answer failed")
                reply = Reply(_(BROKEN), problem="failed")
            usage = TurnUsage()
            if turn is not None:
                usage = TurnUsage(turn.bill.prompt, turn.bill.cached, turn.bill.completion)
            name = f"p{turn.number}" if turn is not None else None
            done = Done(received.id, name, usage)
            if self._links.followers(received.key.home):
                done = Done(received.id, name, usage, received.address, reply.text)
            await self.send(received, self.mark(received.key, reply), name)
            self._bus.publish(received.key.home, done)
            self._bus.end_turn(received.key.home)

    async def _work(
        self, talk: PrivateConversation | None, received: Received
    ) -> tuple[Reply, PrivateTurn]:
        if talk is None or self._talks.get(received.key.home) is not talk:
            raise _NoAnswer(_(ENDED), "refused")
        if (person := self._access.identify(received.address)) is None:
            raise _NoAnswer(_(CLOSED), "refused")
        key, config, user = talk.key, self._config, person.limited
        if refusal := config.spending.refusal(key, user):
            raise _NoAnswer(refusal, "spent")
        shared = received.address if self._links.followers(key.home) else None
        text = unescape_slash(received.text)
        turn = await talk.open(text, received.speaker, name_of(received.address))
        name = f"p{turn.number}"
        self._bus.publish(key.home, TurnStarted(received.id, received.text, shared, name))
        config.spending.begin(key, user)
        agent = config.agent_off_record(key, user)
        with in_turn(f"{key.id} private"), speaking(ENGLISH):
            task = asyncio.create_task(
                agent.answer_without_tools(turn, _PrivateOutput(self._bus, key))
            )
        seconds = config.turn_timeout(key)
        with self._tasks.running(key, task) as running:
            done, _pending = await asyncio.wait({task}, timeout=seconds)
            if not done:
                await cancel_and_wait(task)
                raise _NoAnswer(describe_timeout(seconds), "timeout")
        if running.stopped or task.cancelled():
            raise _NoAnswer(running.stopped or STOPPED, "")
        answer: Message = task.result()
        talk.keep(turn)
        warnings = await config.spending.warnings(key, user)
        return Reply("\n\n".join((answer.full_text, *warnings))), turn

    def stop(self, key: ConversationKey) -> bool:
        talk = self._talks.get(key.home)
        return talk is not None and self._tasks.stop(talk.key, STOPPED)

    def transcript(
        self, key: ConversationKey, before: int, most: int
    ) -> Sequence[TranscriptMessage] | None:
        """Return the newest turns of a private conversation, or those before this one; None if the
        chat is on the record."""
        if not self.covers(key):
            return None
        talk = self._talks.get(key.home)
        turns = [one for one in talk.turns if not before or one.number < before] if talk else []
        return [
            TranscriptMessage(
                f"p{turn.number}",
                entry.message.role,
                entry.message.full_text,
                entry.at,
                reasoning=entry.message.reasoning,
                notice=explain(entry.message.notice) if entry.message.notice else "",
            )
            for turn in turns[-most:]
            for entry in turn.entries
        ]

    async def close(self) -> None:
        """Delete all private conversations, which end with the process."""
        await self.queues.close()
        self._talks.clear()


def _place_of(address: Address) -> tuple[str, str, str]:
    return address.channel, address.chat, address.thread


def _deleted_reply() -> Reply:
    ways = (Action(_("Private again"), "/private on"), Action(_("Go on"), "/private off"))
    return Reply(_(GONE), actions=ways, problem="refused")


class _NoAnswer(Exception):
    """Raised if there is no answer; the text is a sentence that says why."""

    def __init__(self, sentence: str, problem: Problem) -> None:
        super().__init__(sentence)
        self.problem: Problem = problem


class _PrivateOutput(Output):
    """An output that is published to the watchers of the chat."""

    def __init__(self, bus: EventBus, key: ConversationKey) -> None:
        self._bus, self._home = bus, key.home

    def delta(self, text: str) -> None:
        if text:
            self._bus.publish(self._home, Delta(text))

    def thought(self, text: str) -> None:
        self._bus.publish(self._home, Thought(text))

    def step_restarted(self) -> None:
        self._bus.publish(self._home, StepRestarted())
