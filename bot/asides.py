"""`/btw`: a question that is asked with the whole context and leaves no trace in it."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

from agent.loop import Agent
from agent.models.base import ModelError
from bot.access import name_of
from bot.logs import in_turn
from bot.problems import BROKEN
from bot.spending import Spending
from bot.turn_runner import describe_timeout
from bot.turn_tasks import STOPPED
from channels.language import ENGLISH, explain, speaking
from channels.message import Address
from memory.context.emergency import NoRoom
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.messages import Message, ToolCall
from memory.record.side_questions import SideQuestion, State
from memory.record.store import StoreError
from memory.stateless import SideTurn
from memory.tasks import cancel_and_wait
from plugins.api import Ask, CommandError

log = logging.getLogger(__name__)


class Asides:
    """Asks side questions. `agent_for` and `timeout_for` say what they are answered with, as for
    turns."""

    def __init__(
        self,
        agent_for: Callable[[Conversation, Address], Agent],
        timeout_for: Callable[[ConversationKey], float],
        spending: Spending,
    ) -> None:
        self._agent_for, self._timeout_for = agent_for, timeout_for
        self._spending = spending
        self._running: defaultdict[str, set[asyncio.Task[Message]]] = defaultdict(set)
        self._stopped: set[asyncio.Task[Message]] = set()

    async def answer(self, ask: Ask, question: str) -> str:
        """The answer, or a sentence why there is none. Raises CommandError where no model may be
        asked, and StoreError."""
        conversation, key = ask.conversation, ask.conversation.key
        if refusal := self._spending.refusal(key, ask.person.limited):
            raise CommandError(refusal)
        asked = SideQuestion(question, conversation.context.last_complete, ask.speaker)
        row = await conversation.note_aside(asked)
        try:
            state, said = await self._ask(ask, question)
        except asyncio.CancelledError:
            raise  # the bot is shutting down, and the next one says so
        except Exception:
            log.exception("a side question failed")
            state, said = "failed", BROKEN
        await conversation.finish_aside(row, said, state)
        warnings = await self._spending.warnings(key, ask.person.limited)
        return "\n\n".join((said if state == "answered" else explain(said), *warnings))

    async def _ask(self, ask: Ask, question: str) -> tuple[State, str]:
        conversation, key = ask.conversation, ask.conversation.key
        said = Message("user", question, speaker=ask.speaker)
        turn = await SideTurn.open_aside(conversation.turns, said, name_of(ask.address))
        agent = self._agent_for(conversation, ask.address)
        with in_turn(f"{key.id} aside"), speaking(ENGLISH):
            task = asyncio.create_task(agent.answer_aside(turn, _Unseen()))
        self._running[key.id].add(task)
        seconds = self._timeout_for(key)
        try:
            done, _pending = await asyncio.wait({task}, timeout=seconds)
            if not done:
                await cancel_and_wait(task)
                return "failed", describe_timeout(seconds)
            return self._result(task)
        finally:
            task.cancel()
            self._stopped.discard(task)
            self._running[key.id].discard(task)
            if not self._running[key.id]:
                del self._running[key.id]

    def _result(self, task: asyncio.Task[Message]) -> tuple[State, str]:
        if task in self._stopped or task.cancelled():
            return "stopped", STOPPED
        error = task.exception()
        if error is None:
            return "answered", task.result().told
        if isinstance(error, ModelError | NoRoom | StoreError):
            log.warning("a side question failed: %s", error)
            return "failed", str(error)
        raise error

    def stop(self, key: ConversationKey) -> bool:
        """End the side questions that are asked in a conversation; False where none is."""
        running = self._running.get(key.id, set())
        for task in running:
            self._stopped.add(task)
            task.cancel()
        return bool(running)


class _Unseen:
    """Nobody watches."""

    def delta(self, text: str) -> None: ...

    def thought(self, text: str) -> None: ...

    def step_restarted(self) -> None: ...

    def tool_started(self, call: ToolCall) -> None: ...

    def tool_ended(self, call: ToolCall, is_error: bool) -> None: ...
