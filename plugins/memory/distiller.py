"""The distillation of an audience's daily files into its `MEMORY.md`, in batches.

A batch is what fits the model's window. The result of each is stored before the next request, so
that a crash, an empty account or a stop loses nothing that was paid for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from datetime import date
from functools import partial
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent.models.base import AccountRefused, ContextOverflow, ModelError, ModelRequest
from agent.models.work_requests import OnSpent, TokenCount, WorkModels, WorkWatch, ask_for_work
from bot.app import Kernel
from bot.spending import SpendingRules
from channels.language import _
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.long_term import ended
from memory.long_term.document import LineOperation, MemoryLine, facts
from memory.record import daily, memory_file, summaries
from memory.record.daily import Note
from memory.services import MemoryServices
from memory.tasks import run_shielded
from plugins.memory import operations
from plugins.memory.operations import ANSWER_TOKENS, TASK, BadAnswerError

log = logging.getLogger(__name__)

MOST_SECTIONS = 40
"""The maximum number of sections in one batch."""
_FILLED = 0.8  # maximum share of the window, since tokenizers differ
_LINES = 3  # the lines may take a third of the room
_LEAST = 200  # minimum tokens for a section in any window


class NoAnswerError(Exception):
    """A request without a usable answer. The text is a sentence; `window` is the one that an error
    named, or 0."""

    def __init__(self, sentence: str, window: int = 0) -> None:
        super().__init__(sentence)
        self.window = window


class DistillRequest(Struct, frozen=True):
    """A call to the model: the task and the material, for a `person` with spending limits of their
    own ("": nobody). `on_spent` is called with the cost, even if the call failed."""

    task: str
    text: str
    max_tokens: int
    key: ConversationKey
    person: str = ""
    on_spent: OnSpent = lambda spent: None


class PaidModels(WorkModels, Protocol):
    """The models, and their spending rules."""

    @property
    def spending(self) -> SpendingRules: ...


class ModelDistiller(Struct, frozen=True):
    """The calls to the summary model, within the spending limits; `count` counts the tokens of a
    text for a named model."""

    models: PaidModels
    watch: WorkWatch
    count: TokenCount

    async def ask(self, request: DistillRequest) -> tuple[str, str]:
        """Return the answer, and the name of the model that gave it. Raises NotAskedError."""
        model = self.models.summary_model(request.key)
        if self.models.spending.is_enough(request.key, request.person) and not model.is_free:
            raise NoAnswerError(
                _(
                    "This month's spending limit is used up (/usage shows it), so no model was "
                    "asked."
                )
            )
        try:
            await model.ready()
            reply = await ask_for_work(
                model, _wire(request), "memory", self.count, request.on_spent
            )
            return reply.text, reply.model
        except ContextOverflow as error:
            half = self.models.summary_window(request.key) // 2
            raise NoAnswerError(str(error), error.window or half) from error
        except ModelError as error:
            log.warning("the memory could not be distilled: %s", error)
            if isinstance(error, AccountRefused):
                self.watch.model_refused(str(error))
            raise NoAnswerError(str(error)) from error


def _wire(request: DistillRequest) -> ModelRequest:
    return ModelRequest(
        messages=[
            {"role": "system", "content": request.task},
            {"role": "user", "content": request.text},
        ],
        max_tokens=request.max_tokens,
        is_once=True,
    )


class Order(Struct, frozen=True):
    """The parameters of a distillation: everything not distilled yet, or all of these `days`
    (again, if done before), for at most `budget` US dollars (0: no limit). `is_auto` means that the
    result is in force without approval. `person` is the one whose spending limits apply in addition
    to the chat's ("": nobody's)."""

    days: Collection[date] = ()
    budget: float = 0.0
    is_auto: bool = False
    person: str = ""


class DistillProgress(Struct, frozen=True):
    """The progress of a distillation: the number of finished sections, and of all."""

    done: int
    total: int


class DistillResult(Struct, frozen=True):
    """The result of a distillation: the numbers of distilled and of all sections, the number of
    operations, the cost of the calls (None: unknown for one of them), and the reason of an early
    end ("": none). `away` counts the sections skipped because a person removed some of their
    turns."""

    done: int = 0
    total: int = 0
    operations: int = 0
    calls: int = 0
    cost: float | None = 0.0
    away: int = 0
    fault: str = ""


OnProgress = Callable[[DistillProgress], None]


BUSY = "The memory of this chat is being distilled already; /memory diff shows the result."
_BAD = (
    "{model} gave an answer that can't be used, twice ({why}); nothing was changed by it. Where "
    "that happens often, a larger model does better (context.summary_brain.model)."
)
_FORGOTTEN = "Something was deleted meanwhile, so the answer was discarded; ask again."
_SPENT = "The budget is used up."


class Distillation:
    """A distillation of the daily files of a conversation's audience, billed to the
    conversation."""

    def __init__(
        self,
        services: MemoryServices,
        distiller: ModelDistiller,
        conversation: Conversation,
        order: Order,
    ) -> None:
        self._services, self._distiller, self._order = services, distiller, order
        self._conversation, self._memory = conversation, conversation.long_term
        self._window = 0
        self._result = DistillResult()

    async def run(self, on_progress: OnProgress = lambda progress: None) -> DistillResult:
        """Distil. Raises StoreError."""
        state = self._memory.state
        if state.is_distilling:
            return DistillResult(fault=BUSY)
        state.is_distilling = True
        try:
            await self._run(on_progress)
            if self._order.is_auto:
                await self._memory.approve("")
        finally:
            state.is_distilling = False
        return self._result

    async def _run(self, on_progress: OnProgress) -> None:
        self._window = self._distiller.models.summary_window(self._memory.key)
        waiting, away = await self._find_waiting()
        self._result = replace(self._result, total=len(waiting), away=away)
        while waiting and not self._result.fault:
            try:
                taken = await self._distill_first(waiting)
            except NoAnswerError as error:
                if 0 < error.window < self._window:
                    self._window = error.window
                    continue
                self._result = replace(self._result, fault=str(error))
                return
            waiting = waiting[taken:]
            self._result = replace(self._result, done=self._result.total - len(waiting))
            on_progress(DistillProgress(self._result.done, self._result.total))

    async def _find_waiting(self) -> tuple[list[Note], int]:
        """Return the sections to distil, oldest first, and the number of skipped ones."""
        services, audience, days = self._services, self._memory.audience, self._order.days

        def read() -> list[Note]:
            there = daily.days(services.data, audience)
            wanted = [day for day in there if not days or day in days]
            return [n for day in wanted for n in daily.notes(services.data, audience, day)]

        def known(db: Any) -> tuple[frozenset[str], frozenset[int]]:
            done = memory_file.list_distilled(db, audience) if not days else frozenset[str]()
            return done, summaries.removed_jobs(db, audience)

        notes = await asyncio.to_thread(read)
        done, removed_turns = await services.store.read(known)
        fresh = [note for note in notes if note.digest not in done]
        kept = [note for note in fresh if note.job not in removed_turns]
        return kept, len(fresh) - len(kept)

    async def _distill_first(self, waiting: Sequence[Note]) -> int:
        """Distil the first of these sections, as many as fit, and return their number. Raises
        NotAskedError."""
        memory = self._memory
        async with memory.state.changing:
            lines = facts((await memory.read_held()).proposed)
            generation = memory.state.forgotten
        shown, texts = await self._piece(lines, await self._as_shown(waiting[:MOST_SECTIONS]))
        piece, material = waiting[: len(texts)], operations.format_material(shown, texts)
        answer, by = await self._ask(material)
        try:
            found = operations.read_operations(answer, shown, piece, len(lines))
        except BadAnswerError as wrong:
            complaint = f"Your last answer was not taken: {wrong}. Answer again, as you were told."
            answer, by = await self._ask(f"{material}\n\n{complaint}")
            try:
                found = operations.read_operations(answer, shown, piece, len(lines), is_last=True)
            except BadAnswerError as error:
                raise NoAnswerError(_BAD.format(model=by, why=error)) from None
        async with memory.state.changing:
            if memory.state.forgotten != generation:
                raise NoAnswerError(_FORGOTTEN)
            found = await self._drop_removed(found)
            sections = [note.digest for note in piece]
            await run_shielded(memory.propose(found, sections, f"model {by}"))
        self._result = replace(self._result, operations=self._result.operations + len(found))
        return len(piece)

    async def _as_shown(self, sections: Sequence[Note]) -> list[Note]:
        """Return the sections as the model always sees them: with corrected values."""
        path = ended.path_of(self._services.data, self._memory.audience)
        ended_values = await asyncio.to_thread(ended.read, path)
        return [replace(note, text=ended.show_note(note, ended_values)) for note in sections]

    async def _drop_removed(self, found: Sequence[LineOperation]) -> list[LineOperation]:
        """Return the operations without those based on turns that a person has removed
        meanwhile."""
        audience = self._memory.audience
        away = await self._services.store.read(lambda db: summaries.removed_jobs(db, audience))
        return [one for one in found if not any(s.job in away for s in one.sources if s.job)]

    async def _piece(
        self, lines: Sequence[MemoryLine], sections: Sequence[Note]
    ) -> tuple[list[MemoryLine], list[Note]]:
        """Return the lines to show, and the first sections, as far as they fit together."""
        count = self._services.meter.text
        most = min(ANSWER_TOKENS, self._window // 4)
        room = int((self._window - most - await count(TASK)) * _FILLED)
        share, size = room // _LINES, 0
        known = 0
        sizes = [await count(line.raw) + 5 for line in lines]
        while known < len(lines) and size + sizes[known] <= share:
            size += sizes[known]
            known += 1
        piece: list[Note] = []
        left = max(_LEAST, room - size)
        for note in sections:
            whole = await count(operations.format_section(len(piece) + 1, note))
            if whole > left and piece:
                break
            piece.append(note if whole <= left else self._cut(note, left))
            left -= whole
        return operations.choose_related(lines, piece, known), piece

    def _cut(self, note: Note, tokens: int) -> Note:
        """Return the beginning of a section that alone exceeds the window."""
        return replace(note, text=self._services.meter.clip(note.text, tokens // 2))

    async def _ask(self, text: str) -> tuple[str, str]:
        """Return an answer, and bill its cost. Raises NotAskedError."""
        order = self._order
        if order.budget and (self._result.cost or 0.0) >= order.budget:
            raise NoAnswerError(_SPENT)
        spent: list[Spent] = []
        request = DistillRequest(
            TASK,
            text,
            min(ANSWER_TOKENS, self._window // 4),
            self._memory.key,
            order.person,
            spent.append,
        )
        try:
            return await self._distiller.ask(request)
        finally:
            for call in spent:
                await run_shielded(self._conversation.context.pay(call))
                so_far = self._result
                is_known = so_far.cost is not None and call.cost is not None
                cost = (so_far.cost or 0.0) + (call.cost or 0.0) if is_known else None
                self._result = replace(so_far, calls=so_far.calls + 1, cost=cost)


class Distillations:
    """The factory of distillations, for commands."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, talks = kernel, kernel.conversations
        count = partial(talks.models.tokens, talks.services.meter)
        self._distiller = ModelDistiller(kernel.config, kernel.turns.recent, count)

    def start(self, conversation: Conversation, order: Order) -> Distillation:
        """Return a distillation of the daily files of a conversation's audience."""
        services = self._kernel.conversations.services
        return Distillation(services, self._distiller, conversation, order)
