"""Summaries by the model: the implementation of the interface in `memory`, for input of any
length."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from agent.models.base import (
    AccountRefused,
    ContextOverflow,
    Model,
    ModelAnswerBroken,
    ModelError,
    ModelRefused,
    ModelReply,
    ModelRequest,
    ModelUnreachable,
)
from agent.models.catalogue import input_price, parameters_of
from agent.models.work_requests import TokenCount, WorkModels, WorkWatch, ask_for_work
from memory.context.continued import RequestBeginning, pays
from memory.context.summary import SummaryRequest, SummaryResult, behind, split_answer
from memory.context.terse import extract
from memory.text.receipt import Receipt
from memory.text.shapes import find_kind

log = logging.getLogger(__name__)

_FILLED = 0.9  # of the room for a piece: tokenizers differ from the meter
_LEAST = 200  # tokens that a piece may have in any window
_MOST_MISSES = 3  # in a row, after which a provider is assumed to have no cache for summaries
_SHORTER = "Your summary was cut off. Write it in at most {words} words."
_FEWEST_WORDS = 30
_AROUND = 50  # tokens around task and text
_NO_SUMMARY = frozenset(("empty", "call", "refusal", "thoughts"))
"""Kinds of invalid text for a piece's summary; other kinds are allowed, since it is not the
whole."""

Part = tuple[int, str, int]
"""A part to be summarised: the index of the request's part that it belongs to, its text, its
tokens."""


class ModelSummarizer(Struct, frozen=True):
    """A summarizer that asks the model in force for the conversation; `count` returns the tokens of
    a text for a model's name.

    Only a model that answers in the conversation, and has its turns cached, gets the conversation's
    prompt. `unstructured` are the names of models that refused a JSON Schema: they get it in words.
    `misses` counts consecutive failures of asking in the conversation: the model called a tool or
    refused, or its provider had no cache.
    """

    models: WorkModels
    watch: WorkWatch
    count: TokenCount
    unstructured: set[str] = field(default_factory=set)
    misses: Counter[str] = field(default_factory=Counter)

    async def summarize(self, request: SummaryRequest) -> SummaryResult:
        """Summarise in one call if the window allows it; otherwise piece by piece, with the summary
        so far before the next piece. A model that is too small is not asked."""
        model = self.models.summary_model(request.key)
        if 0 < parameters_of(model.name) < request.least_parameters:
            return SummaryResult("", model.name, finish="small")
        await model.ready()
        work = _SummaryProgress(
            self, model, request, self.models.summary_window(request.key), model.name
        )
        try:
            text = await work.continue_summary() or await work.run()
        except ModelError as error:
            log.warning("a summary failed: %s", error)
            self.watch.summary_failed()
            if isinstance(error, AccountRefused):
                self.watch.model_refused(str(error))
            return SummaryResult("", model.name, finish="failed")
        left_out = frozenset(work.left_out)
        return SummaryResult(text, work.model_name, work.new, left_out, work.finish)

    async def ask(self, model: Model, request: SummaryRequest) -> ModelReply:
        """Return the summary of one piece; for a model that can't follow a schema, retry once with
        the schema in words."""
        if request.schema is not None and model.name not in self.unstructured:
            try:
                return await self._reply(model, request)
            except (ModelRefused, ModelAnswerBroken, ModelUnreachable) as error:
                if _is_permanent(error):
                    raise
                log.info("%s is asked without a schema: %s", model.name, error)
        reply = await self._reply(model, _in_words(request))
        if request.schema is not None:
            self.unstructured.add(model.name)
        return reply

    async def ask_behind(
        self, model: Model, request: SummaryRequest, beginning: RequestBeginning
    ) -> ModelReply:
        """Return the summary, requested as the conversation's next message. Raises ModelError."""
        reply = await self._reply(model, request, beginning)
        usage = reply.usage
        is_miss = usage is None or usage.cached < usage.prompt // 2
        if reply.by is None and (is_miss or reply.tool_calls):
            log.info("%s was asked for a summary in the conversation in vain", model.name)
            self.misses[model.name] += 1
        elif reply.by is None:
            self.misses[model.name] = 0
        return reply

    async def pays(
        self, model: Model, request: SummaryRequest, beginning: RequestBeginning
    ) -> bool:
        """Return whether the summary is much cheaper that way."""
        is_at_hand = model.caches_by_itself and self.models.summarizes_itself(request.key)
        if not is_at_hand or self.misses[model.name] >= _MOST_MISSES:
            return False
        texts = (behind(request.task, request.appended), f"{request.task}\n{request.text}")
        asked, apart = await self.tokens(texts, model)
        price = await asyncio.to_thread(input_price, model.name, model.provider)
        return pays(beginning, asked, apart, price)

    async def _reply(
        self, model: Model, request: SummaryRequest, beginning: RequestBeginning | None = None
    ) -> ModelReply:
        """Ask, and book the cost, also if the result is not a summary."""
        asked = _request(request) if beginning is None else _request_behind(request, beginning)
        counted = beginning.tokens if beginning else 0
        return await ask_for_work(
            model, asked, "summary", self.count, request.on_spent, counted=counted
        )

    async def tokens(self, texts: Sequence[str], model: Model) -> list[int]:
        """Return the tokens of each text for a model."""

        def count() -> list[int]:
            return [self.count(text, model.name) for text in texts]

        return await asyncio.to_thread(count)


class _SummaryProgress(Struct):
    """A summary in progress: the model that wrote it, the news of each piece, the finish of the
    last one, and the parts that no model accepted."""

    by: ModelSummarizer
    model: Model
    request: SummaryRequest
    window: int
    model_name: str
    left_out: set[int] = field(default_factory=set)
    diary: list[str] = field(default_factory=list)
    finish: str = "complete"

    @property
    def new(self) -> str:
        """Return the news for the daily memory, if the model has named them for every piece."""
        return "\n\n".join(self.diary) if all(self.diary) else ""

    async def continue_summary(self) -> str:
        """Return the summary, requested in the conversation itself, if that is cheaper; "" if it is
        not, or the result is not a summary. Raises ModelError."""
        beginning = self.request.beginning
        if beginning is None or not await self.by.pays(self.model, self.request, beginning):
            return ""
        try:
            reply = await self.by.ask_behind(self.model, self.request, beginning)
        except ModelError as error:
            if _is_permanent(error):
                raise
            self.by.misses[self.model.name] += isinstance(error, ModelRefused)
            log.info("a summary is asked for apart from its conversation: %s", error)
            return ""
        is_whole = reply.finish == "complete" and not reply.tool_calls
        if not is_whole or not (text := self._extract_summary(reply)):
            self.diary.clear()
            return ""
        return text

    async def run(self) -> str:
        """Return the summary, from one or more separate requests. Raises ModelError."""
        so_far, texts = self.request.prior, self.request.parts
        around = (_in_words(self.request).task, so_far)
        task, before, *sizes = await self.by.tokens((*around, *texts), self.model)
        parts = list(zip(range(len(texts)), texts, sizes, strict=True))
        while parts:
            taken = self.window - self.request.max_tokens - task - before
            piece, parts = _piece(parts, max(_LEAST, int((taken - _AROUND) * _FILLED)))
            try:
                so_far = await self._ask(so_far, piece)
            except ContextOverflow as error:
                if 0 < error.window < self.window:
                    self.window, parts = error.window, piece + parts
                    continue
                so_far = await self._with_less(so_far, piece, error)
            if parts:
                (before,) = await self.by.tokens((so_far,), self.model)
                is_whole = self.finish == "complete"
                if not is_whole or find_kind(so_far, "complete", Receipt()) in _NO_SUMMARY:
                    # The final text would be a summary of the remaining pieces only.
                    raise ModelAnswerBroken(f"What {self.model_name} wrote is no summary.")
        return so_far

    async def _with_less(self, so_far: str, piece: Sequence[Part], error: ContextOverflow) -> str:
        """Summarise a piece that is too long for the model: leave out its oldest parts, and double
        their number until it fits."""
        out = 1
        while out < len(piece):
            try:
                summary = await self._ask(so_far, piece[out:])
            except ContextOverflow:
                out *= 2
            else:
                self.left_out.update(index for index, _, _ in piece[:out])
                return summary
        raise error

    async def _ask(self, so_far: str, piece: Sequence[Part]) -> str:
        """Return the summary of one piece; if the length limit truncated it, retry once with a
        shorter one. Raises ModelError."""
        request = replace(self.request, prior=so_far, parts=tuple(text for _, text, _ in piece))
        reply = await self.by.ask(self.model, request)
        if reply.finish == "length":
            shorter = _SHORTER.format(words=max(_FEWEST_WORDS, request.max_tokens // 2))
            request = replace(request, task=f"{request.task}\n\n{shorter}")
            reply = await self.by.ask(self.model, request)
        self.finish = reply.finish
        return self._extract_summary(reply)

    def _extract_summary(self, reply: ModelReply) -> str:
        """Return the summary in a reply; a thought is not one. With `slim` the model may add its
        activity line."""
        self.model_name, (text, _) = reply.model, extract("" if reply.is_thought else reply.text)
        if not self.request.has_diary:
            return text.strip()
        summary, diary = split_answer(text)
        self.diary.append(diary)
        return summary


def _piece(parts: Sequence[Part], room: int) -> tuple[list[Part], list[Part]]:
    """Return the first of these parts that hold at most this many tokens together, and the rest; a
    longer part is divided."""
    (index, text, tokens), rest = parts[0], list(parts[1:])
    if tokens > room:
        end = max(1, len(text) * room // tokens)
        cut = text.rfind("\n", end // 2, end) + 1 or end
        more = (index, text[cut:], tokens - tokens * cut // len(text))
        return [(index, text[:cut], room)], [more, *rest]
    count, left = 0, room
    while count < len(parts) and parts[count][2] <= left:
        left -= parts[count][2]
        count += 1
    return list(parts[:count]), list(parts[count:])


def _is_permanent(error: ModelError) -> bool:
    """Return whether a model that failed like this would fail for any wording of the request."""
    is_out_of_reach = isinstance(error, ModelUnreachable) and error.status < 500
    return is_out_of_reach or isinstance(error, AccountRefused)


def _in_words(request: SummaryRequest) -> SummaryRequest:
    """Return the same request, with the schema in the task."""
    if request.schema is None:
        return request
    wish = f"Answer with one JSON object that fits this JSON Schema: {json.dumps(request.schema)}"
    return replace(request, task=f"{request.task}\n\n{wish}", schema=None)


def _request_behind(request: SummaryRequest, beginning: RequestBeginning) -> ModelRequest:
    """Return the request as the conversation's next one: everything that identifies its beginning
    is unchanged."""
    asked = behind(request.task, request.appended)
    return ModelRequest(
        messages=[*beginning.messages, {"role": "user", "content": asked}],
        tools=beginning.tools,
        tool_choice="none" if beginning.tools else "auto",
        max_tokens=request.max_tokens,
        beside=beginning.beside,
        affinity=beginning.affinity,
    )


def _request(request: SummaryRequest) -> ModelRequest:
    return ModelRequest(
        messages=[
            {"role": "system", "content": request.task},
            {"role": "user", "content": request.text},
        ],
        max_tokens=request.max_tokens,
        schema=request.schema,
        is_once=True,
    )
