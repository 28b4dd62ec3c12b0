"""Turns: one at a time in each conversation, many side by side; every one ends with a reply."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from agent.loop import Agent
from agent.models.base import ModelError
from bot.activity import Hub
from bot.attachments import images_of, kept, with_files
from bot.delivery import Delivery, Received
from bot.lanes import Lanes
from bot.logs import in_turn
from bot.spending import Spending
from channels.base import Delta, Done, StepRestarted, ToolEnded, ToolStarted, TurnStarted
from channels.message import Address, Inbound, Reply
from memory.context.emergency import NoRoom
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import Image, Mark, ToolCall
from memory.open_turn import OpenTurn
from memory.record.store import StoreError

log = logging.getLogger(__name__)

LONGEST_LINE = 100
"""Messages that may wait in one conversation; more get an honest "busy"."""
BUSY = (
    f"{LONGEST_LINE} of your messages are waiting already; this one was not taken. "
    "Wait for answers, or say /stop."
)
BROKEN = (
    "Something went wrong inside the bot, so this has no answer; the log has the details "
    "(data/logs). Your message is kept: say it again to try again."
)


@dataclass(slots=True)
class _Running:
    """The turn that runs in a conversation."""

    task: asyncio.Task[object]
    is_stopped: bool = False


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a turn ended that the agent did not end itself."""

    mark: Mark
    sentence: str


class Turns:
    """Carries turns out. `agent_for` and `timeout_for` are asked for each turn."""

    def __init__(
        self,
        conversations: Conversations,
        delivery: Delivery,
        hub: Hub,
        agent_for: Callable[[ConversationKey], Agent],
        timeout_for: Callable[[ConversationKey], float],
        spending: Spending,
    ) -> None:
        self._conversations, self._delivery, self._hub = conversations, delivery, hub
        self._agent_for, self._timeout_for = agent_for, timeout_for
        self._spending = spending
        self._running: dict[str, _Running] = {}
        self._floors: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.lanes = Lanes("turn")

    def is_busy(self, key: ConversationKey) -> bool:
        """Whether this conversation's line is full."""
        return self.lanes.depth(key.id) >= LONGEST_LINE

    async def room(self, key: ConversationKey) -> None:
        """Wait until this conversation's line is not full."""
        await self.lanes.room(key.id, LONGEST_LINE)

    def put(self, key: ConversationKey, received: Received, text: str) -> None:
        """Add a message to its conversation's line."""
        self.lanes.put(key.id, lambda: self._carry_out(key, received, text))

    async def ask(
        self, key: ConversationKey, address: Address, text: str, images: Sequence[Image] = ()
    ) -> str:
        """Put a text into the inbox and into the line, as if it had been said at this address, with
        pictures that are there; returns the message's id. Raises StoreError."""
        is_command = text.lstrip().startswith("/")  # or would be, when the inbox is read again
        said = f"/{text.lstrip()}" if is_command else text
        inbound = Inbound(f"again-{uuid4().hex}", address, said)
        received, _ = await self._delivery.receive(inbound, kept(images))
        self.put(key, received, text)
        return received.id

    def stop(self, key: ConversationKey) -> bool:
        """End the turn that runs in this conversation; what was done so far is kept."""
        running = self._running.get(key.id)
        if running is None:
            return False
        running.is_stopped = True
        running.task.cancel()
        return True

    def floor(self, key: ConversationKey) -> asyncio.Lock:
        """Who holds this has the conversation for himself: no turn of it runs, and the reply to the
        one that did is on disk; those behind it wait."""
        return self._floors[key.id]

    async def _carry_out(self, key: ConversationKey, received: Received, text: str) -> None:
        async with self.floor(key):
            if refusal := self._spending.refusal(key):
                await self._delivery.answer(received, Reply(refusal))
            else:
                await self._take(key, received, text)

    async def _take(self, key: ConversationKey, received: Received, text: str) -> None:
        try:
            conversation = await self._conversations.get(key)
            said, images = with_files(text, received.files), images_of(received.files)
            turn = await conversation.turn(said, inbox=received.row, images=images)
            with in_turn(f"{key.id} {turn.id}"):
                await self._answer(key, turn, received)
        except StoreError as error:
            log.exception("the turn for %s could not be saved", received.id)
            await self._delivery.answer(received, Reply(str(error)))
        except Exception:
            log.exception("the turn for %s failed", received.id)
            await self._delivery.answer(received, Reply(BROKEN))

    async def _answer(self, key: ConversationKey, turn: OpenTurn, received: Received) -> None:
        self._hub.publish(key.id, TurnStarted(received.id))
        if turn.reply is None:
            await self._run(key, turn)
        reply = turn.reply
        assert reply is not None, "a turn that was run has a reply"
        said = "\n\n".join((reply.text, *await self._spending.warnings(key)))
        await self._delivery.answer(received, Reply(said), turn.id)
        self._hub.publish(key.id, Done(received.id, turn.id))
        await turn.tell("turn_end", reply.text)  # nobody waits for his answer meanwhile

    async def _run(self, key: ConversationKey, turn: OpenTurn) -> None:
        """Let the agent answer; whatever happens, the turn is over afterwards."""
        output = _Broadcast(self._hub, key.id)
        started = time.monotonic()
        seconds = self._timeout_for(key)
        task = asyncio.create_task(self._agent_for(key).answer(turn, output))
        running = self._running[key.id] = _Running(task)
        try:
            done, _ = await asyncio.wait({task}, timeout=seconds)
            if not done:
                task.cancel()
                await asyncio.wait({task})
        finally:  # also when the bot shuts down: the turn stays open and goes on at the next start
            del self._running[key.id]
            task.cancel()
        if ending := _ending(running, seconds, is_late=not done):
            await turn.break_off(ending.mark, output.draft, ending.sentence)
            if ending.mark == "failed":
                await turn.tell("error", ending.sentence)
        log.info("answered in %.2f s", time.monotonic() - started)


def _ending(running: _Running, seconds: float, is_late: bool) -> _Ending | None:
    """How a finished task ended the turn; None when the agent's reply stands."""
    if running.is_stopped:
        return _Ending("stopped", "Stopped, as you asked.")
    if is_late:
        return _Ending(
            "failed",
            f"The answer took longer than {seconds:g} s and was ended; "
            "`/config turn_timeout` says how long it may take.",
        )
    error = None if running.task.cancelled() else _first(running.task.exception())
    if error is None:
        return _Ending("failed", BROKEN) if running.task.cancelled() else None
    if isinstance(error, ModelError | StoreError | NoRoom):
        log.warning("the turn failed: %s", error)
        return _Ending("failed", str(error))
    log.error("the turn failed", exc_info=error)
    return _Ending("failed", BROKEN)


def _first(error: BaseException | None) -> BaseException | None:
    """The first cause of a group of errors, as tools that run side by side raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Broadcast:
    """The agent's output, published; `draft` is what streamed in the step under way."""

    def __init__(self, hub: Hub, topic: str) -> None:
        self._hub, self._topic = hub, topic
        self._pieces: list[str] = []

    @property
    def draft(self) -> str:
        return "".join(self._pieces)

    def delta(self, text: str) -> None:
        self._pieces.append(text)
        self._hub.publish(self._topic, Delta(text))

    def step_restarted(self) -> None:
        self._pieces.clear()
        self._hub.publish(self._topic, StepRestarted())

    def tool_started(self, call: ToolCall) -> None:
        self._pieces.clear()  # the step's text is recorded by now
        self._hub.publish(self._topic, ToolStarted(call.name, call.arguments))

    def tool_ended(self, call: ToolCall, is_error: bool) -> None:
        self._hub.publish(self._topic, ToolEnded(call.name, is_error))
