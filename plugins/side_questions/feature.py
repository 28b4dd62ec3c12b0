"""`/btw`: a side question, asked with the whole context; it leaves no trace in it."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from agent.loop import Output
from agent.models.base import ModelError
from bot.access import name_of
from bot.app import Kernel
from bot.logs import in_turn
from bot.runtime import RuntimeConfig
from bot.turn_runner import BROKEN, STOPPED, describe_timeout
from channels.language import ENGLISH, _, explain, format_datetime, speaking
from memory.context.change import Change
from memory.context.emergency import RequestTooLong
from memory.context.meter import PromptPrefix
from memory.context.view import View, apply_layout
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.messages import Message
from memory.record.store import Store, StoreError
from memory.tasks import cancel_and_wait
from memory.turn_log import TurnLog
from memory.turns import Entry, Turn
from memory.unrecorded import UnrecordedTurn, make_entry
from plugins.api import (
    EVERYTHING,
    Ask,
    Command,
    CommandError,
    ContextPart,
    Reply,
    command,
    hookimpl,
)
from plugins.side_questions import record as rows
from plugins.side_questions.record import SideQuestion, State
from plugins.wording import clip, literal

log = logging.getLogger(__name__)


class SideTurn(UnrecordedTurn):
    """A question that is asked with the content of the conversation's next request, and that is not
    part of the conversation: content removed for it stays in the conversation. `person` pays for
    it."""

    is_of_conversation = True

    def __init__(self, log: TurnLog, question: Entry, person: str) -> None:
        super().__init__(log, Turn(question.turn, (question,)))
        self._person = person
        self.cuts = Change()

    @classmethod
    async def open_turn(cls, log: TurnLog, question: Message, person: str) -> SideTurn:
        """Return the turn of a side question that is asked now."""
        await log.services.meter.ready()
        state = log.state
        entry = await make_entry(log, state.last_seq + 1, state.last_complete + 1, question)
        return cls(log, entry, person)

    def view(self, prefix: PromptPrefix) -> View:
        """Return the turns in context, except a running turn, plus the question."""
        state = self.log.state
        view = state.view(prefix, state.limits)
        question = Turn(self.number, tuple(self.entries))
        whole = (*(turn for turn in view.whole if turn.is_complete), question)
        layout = view.layout.apply(self.cuts)
        return replace(
            view,
            whole=whole,
            turns=apply_layout(whole, layout),
            layout=layout,
            current=self.number,
            newest=self.number,
        )

    async def book(self, spent: Spent) -> None:
        """Add a call to the bill of the person; it belongs to no turn."""
        spent = replace(spent, purpose="aside")
        await self.log.state.pay(spent, person=self._person)
        self.bill = self.bill.plus(spent)


class SideQuestions:
    """Asks side questions, with the agent and the time limit of turns, and stores them."""

    def __init__(self, config: RuntimeConfig, store: Store) -> None:
        self._config, self._store = config, store
        self._running: defaultdict[str, set[asyncio.Task[Message]]] = defaultdict(set)
        self._stopped: set[asyncio.Task[Message]] = set()

    @hookimpl
    def parley_stop(self) -> Callable[[ConversationKey], bool]:
        return self.stop

    async def answer(self, ask: Ask, question: str) -> str:
        """Ask a question with the model's view of the conversation. Return the answer, or a
        sentence why there is none. Raises CommandError if no model may be called, and
        StoreError."""
        conversation, key = ask.conversation, ask.conversation.key
        if refusal := self._config.spending.refusal(key, ask.person.limited):
            raise CommandError(refusal)
        asked = SideQuestion(question, conversation.context.last_complete, ask.speaker)
        place = conversation.context.row
        row = await self._store.write(lambda db: rows.insert(db, place, asked))
        try:
            state, message = await self._ask(ask, question)
        except asyncio.CancelledError:
            raise  # the bot is shutting down; the next start reports it
        except Exception:
            log.exception("a side question failed")
            state, message = "failed", BROKEN
        await self._store.write(lambda db: rows.finish(db, row, message, state))
        warnings = await self._config.spending.warnings(key, ask.person.limited)
        return "\n\n".join((message if state == "answered" else explain(message), *warnings))

    async def _ask(self, ask: Ask, question: str) -> tuple[State, str]:
        conversation, key = ask.conversation, ask.conversation.key
        message = Message("user", question, speaker=ask.speaker)
        turn = await SideTurn.open_turn(conversation.turns, message, name_of(ask.address))
        self._config.spending.begin(key, ask.person.limited)
        agent = self._config.agent(conversation, ask.address)
        with in_turn(f"{key.id} aside"), speaking(ENGLISH):
            task = asyncio.create_task(agent.answer_without_tools(turn, Output()))
        self._running[key.id].add(task)
        seconds = self._config.book.effective(key.id).turn_timeout
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
            return "answered", task.result().full_text
        if isinstance(error, ModelError | RequestTooLong | StoreError):
            log.warning("a side question failed: %s", error)
            return "failed", str(error)
        raise error

    def stop(self, key: ConversationKey) -> bool:
        """Stop the running side questions of a conversation. Return whether there were any."""
        running = self._running.get(key.id, set())
        for task in running:
            self._stopped.add(task)
            task.cancel()
        return bool(running)

    async def list_newest(
        self, conversation: Conversation, most: int, words: Sequence[str] = ()
    ) -> list[SideQuestion]:
        """Return the newest side questions of a conversation, oldest first; with `words`, those
        that contain any of them."""
        place = conversation.context.row
        return await self._store.read(lambda db: rows.newest(db, place, most, words))


@hookimpl
def parley_open(kernel: Kernel) -> SideQuestions:
    return SideQuestions(kernel.config, kernel.store)


@hookimpl
def parley_commands() -> list[Command]:
    return [btw]


@hookimpl
def parley_context_parts() -> Mapping[str, ContextPart]:
    return {"search": find_in_context}


NEWEST = 10
"""The maximum of side questions shown."""
_CUT_OFF = "it was cut off by a restart, or is still being answered"


@command(
    "btw",
    "Ask a side question: the model sees the whole context, and the answer is not added to it",
    "[QUESTION]",
    slow=[EVERYTHING],
    interrupted="The bot was restarted before your side question was answered; ask it again.",
)
async def btw(ask: Ask) -> Reply:
    """`/btw QUESTION`; without one, those that were asked lately."""
    question = ask.text.strip()
    if question:
        answer = await ask.service(SideQuestions).answer(ask, question)
        return Reply(answer, {"question": question, "answer": answer})
    asked = await ask.service(SideQuestions).list_newest(ask.conversation, NEWEST)
    data = {"asides": [_data(one) for one in asked]}
    if not asked:
        return Reply(
            _(
                "No side question was asked here. /btw QUESTION asks with the whole "
                "context, and neither the question nor the answer becomes a part of it."
            ),
            data,
        )
    return Reply("\n\n".join(_show(ask, one) for one in asked), data)


async def find_in_context(ask: Ask, rest: str) -> tuple[str, dict[str, object]]:
    """Return the side questions with any of these words, for `/context search`."""
    asked = ask.service(SideQuestions)
    found = await asked.list_newest(ask.conversation, NEWEST, rest.split())
    lines = [
        f"- {literal(clip(one.question, 120))}: {literal(clip(one.answer, 240))}" for one in found
    ]
    head = _("Side questions (/btw), which the model does not see:")
    asides = [{"question": one.question, "answer": one.answer} for one in found]
    return "\n".join((head, *lines)) if found else "", {"asides": asides}


def _show(ask: Ask, one: SideQuestion) -> str:
    who = f"{literal(one.speaker)}: " if one.speaker else ""
    answer = explain(one.answer) if one.state else f"({_(_CUT_OFF)})"
    at = format_datetime(_time(one), ask.bot.zone())
    return f"**{at}** {who}{literal(clip(one.question, 200))}\n\n{answer}"


def _time(one: SideQuestion) -> datetime:
    return datetime.fromtimestamp(one.at, UTC)


def _data(one: SideQuestion) -> dict[str, object]:
    return {
        "question": one.question,
        "answer": one.answer,
        "state": one.state or "open",
        "turn": f"t{one.turn}" if one.turn else "",
        "at": _time(one).isoformat(),
    }
