"""Stateless requests in OpenAI's protocol: the caller, the budget, the answer.

Each request is its own audience, whose folder exists as long as the request. The agent works on it
as on every turn. It leaves no transcript; its cost is in the ledger.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from uuid import uuid4

from msgspec.structs import replace

from agent.loop import Agent, Output
from agent.models.base import (
    ModelError,
)
from agent.models.chat_thoughts import without_markup
from bot.access import CLOSED, PAGE, TOO_FAST, Access, name_of
from bot.logs import in_turn
from bot.recent import EndedTurn, RecentActivity
from bot.runtime import RuntimeConfig
from bot.turn_runner import BROKEN, problem_of, without_commands
from channels.base import Delta, KeyHolder
from channels.message import (
    Address,
    ClientMessage,
    ClientToolCall,
    Completed,
    CompletionRequest,
    NotCompleted,
    Problem,
)
from memory.context.emergency import RequestTooLong
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import Image, Message, Role, ToolCall
from memory.record.store import StoreError
from memory.tasks import cancel_and_wait
from memory.unrecorded import StatelessLog, StatelessMessage, StatelessTurn

log = logging.getLogger(__name__)

FOLDERS = ".request-"
"""The beginning of the audiences of requests; no chat's audience begins with it."""
BROKE_OFF = "The model's answer broke off after part of it had been sent; ask again."
STOPPED = "The bot is shutting down; ask again in a moment."
AN_HOUR = 3600
_ROLES: dict[str, Role] = {"system": "note", "user": "user", "assistant": "user", "tool": "user"}


class Completions:
    """The service for stateless requests; `recent` is notified of their end."""

    def __init__(
        self,
        conversations: Conversations,
        config: RuntimeConfig,
        access: Access,
        recent: RecentActivity,
    ) -> None:
        self._conversations, self._config = conversations, config
        self._access, self.recent = access, recent

    async def answer(
        self, holder: KeyHolder, request: CompletionRequest
    ) -> AsyncGenerator[Delta | Completed, None]:
        """Yield the text as it streams, and finally the whole. Raises NotCompleted."""
        address = Address(PAGE, holder.user, user=holder.user)
        name = uuid4().hex
        key = ConversationKey(f"{name_of(address)}/{FOLDERS}{name}", f"{FOLDERS}{name}")
        await self._admit(address, key)
        begun, steps, is_stopped = time.monotonic(), 0, True
        problem: Problem = ""
        try:
            agent = self._config.stateless_agent(key, request)
            user = self._access.find_limited_user(address)
            model = self._config.spending.limit(agent.model, key, user, is_chat=False)
            agent = replace(agent, model=model)
            known = self._conversations
            turn = await StatelessTurn.open(
                StatelessLog(known.services, known.models, key, name_of(address)),
                _messages(request.messages),
                hands_out=request.tools is not None,
            )
            running = _RunningRequest(agent, turn, request.is_streamed)
            async with aclosing(running.events(self._config.turn_timeout(key))) as events:
                async for event in events:
                    yield event
            steps, is_stopped = turn.steps, False
        except NotCompleted as error:
            problem, is_stopped = error.problem, False
            raise
        finally:
            lasted = time.monotonic() - begun
            self.recent.turn_ended(EndedTurn(PAGE, lasted, steps, problem, is_stopped))
            folder = self._config.folder(key)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _admit(self, address: Address, key: ConversationKey) -> None:
        """Check that the caller may send the request. Raises NotCompleted."""
        try:
            person = await self._access.identify_or_reload(address)
        except StoreError as error:
            raise NotCompleted("failed", str(error)) from None
        if person is None:
            raise NotCompleted("refused", CLOSED)
        if self._access.is_too_fast(person):
            raise NotCompleted("too_fast", TOO_FAST, self._access.wait)
        if refusal := self._config.spending.refusal(key, person.limited, is_chat=False):
            raise NotCompleted("spent", refusal, AN_HOUR)


class _RunningRequest(Output):
    """A request that is being answered."""

    def __init__(self, agent: Agent, turn: StatelessTurn, is_streamed: bool) -> None:
        self._agent, self._turn, self._is_streamed = agent, turn, is_streamed
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._draft: list[str] = []
        self._has_text = False

    async def events(self, seconds: float) -> AsyncGenerator[Delta | Completed, None]:
        """Yield the events of a request, for at most this many seconds. Its cost is always
        booked."""
        started = time.monotonic()
        task = asyncio.create_task(self._work())
        task.add_done_callback(lambda _: self._queue.put_nowait(None))
        try:
            while (text := await self._next(started + seconds, seconds)) is not None:
                yield Delta(text)
            reply = _result(task)
            if self._is_streamed and has_mixed_answers("".join(self._draft), reply.text):
                raise NotCompleted("upstream", BROKE_OFF)
            log.info("answered a request in %.2f s", time.monotonic() - started)
            yield self._to_completed(reply)
        finally:
            await cancel_and_wait(task)
            await self._turn.close()

    async def _work(self) -> Message:
        with in_turn(self._turn.log.state.key.id):
            return await self._agent.answer(self._turn, self)

    async def _next(self, end: float, seconds: float) -> str | None:
        try:
            # Not `wait_for`: in Python 3.11 it loses a cancellation that comes together with its
            # result, so that a client's disconnection went unnoticed.
            async with asyncio.timeout(max(0.0, end - time.monotonic())):
                return await self._queue.get()
        except TimeoutError:
            raise NotCompleted(
                "timeout",
                f"The answer took longer than {seconds:g} s and was stopped; the setting "
                "turn_timeout says how long it may take.",
            ) from None

    def _to_completed(self, reply: Message) -> Completed:
        calls = tuple(ClientToolCall(c.id, c.name, c.arguments) for c in reply.tool_calls)
        bill = self._turn.bill
        return Completed(
            reply.text,
            "tool_calls" if calls else finish_of(self._turn.finish),
            calls,
            reply.reasoning,
            bill.prompt,
            bill.cached,
            bill.completion,
            bill.reasoning,
        )

    # --- the agent's output ---

    def delta(self, text: str) -> None:
        if not text:
            return
        gap = "\n\n" if self._has_text and not self._draft else ""
        self._has_text = True
        self._draft.append(text)
        self._queue.put_nowait(gap + text)

    def step_restarted(self) -> None:
        if self._is_streamed and self._draft:
            raise NotCompleted("upstream", BROKE_OFF)
        self._draft.clear()

    def tool_started(self, call: ToolCall) -> None:
        del call
        self._draft.clear()


def has_mixed_answers(streamed: str, text: str) -> bool:
    """Return whether more was streamed than the answer holds: the rest is the beginning of an
    answer that a fallback model replaced. A character split in halves is streamed as two marks.
    Thoughts and calls in the text are recognised only at its end."""
    streamed = without_markup(streamed)
    return len(streamed) - streamed.count("\ufffd") > len(text)


def finish_of(finish: str) -> str:
    """Return the finish reason in OpenAI's protocol, which knows only these."""
    names = {"length": "length", "filtered": "content_filter", "refused": "content_filter"}
    return names.get(finish, "stop")


def _messages(given: Sequence[ClientMessage]) -> list[Message]:
    """Return the client's messages, for the meter and for the model."""
    picture = Image("", "")
    return [
        StatelessMessage(
            _ROLES[one.role], one.text, images=(picture,) * one.pictures, wire=one.wire
        )
        for one in given
    ]


def _result(task: asyncio.Task[Message]) -> Message:
    """Return the reply of the finished agent. Raises NotCompleted."""
    if task.cancelled():
        raise NotCompleted("unavailable", STOPPED)
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return task.result()
    if isinstance(error, NotCompleted):
        raise error
    if isinstance(error, ModelError | RequestTooLong | StoreError):
        log.warning("a request failed: %s", error)
    else:
        log.error("a request failed", exc_info=error)
    raise failure_of(error) from None


def failure_of(error: BaseException) -> NotCompleted:
    """Return why there is no answer, by the error that ended the turn."""
    sentence = str(error) if isinstance(error, ModelError | RequestTooLong | StoreError) else BROKEN
    sentence = without_commands(sentence)  # a program can't send them
    retry_after = error.retry_after if isinstance(error, ModelError) else 0
    return NotCompleted(problem_of(error), sentence, retry_after)


def clear_up(data: Path) -> None:
    """Delete the folders of requests that a crash interrupted."""
    for folder in (data / "audiences").glob(f"{FOLDERS}*"):
        shutil.rmtree(folder, ignore_errors=True)
