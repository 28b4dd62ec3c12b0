"""Drafts of summaries: asked of a model and checked; an extract serves where they are no use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from memory.context import summary as words
from memory.context.acceptance import is_summary
from memory.context.compaction import SummarySpec
from memory.context.continued import Beginning
from memory.context.limits import Limits
from memory.context.receipt import Receipt
from memory.context.summary import SummaryRequest, SummaryResult
from memory.context.summary_source import SummarySource
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.services import MemoryServices

_SHORTER = 0.75  # of what it stands for, with all around it, is what an extract fills at most,
_LEAST = 100  # but where turns leave by their number, and that is too few tokens to say anything


class SummaryDraft(Struct, frozen=True):
    """The text of a summary, and what is to be known of it: by which model, what of it is new to
    the daily memory, turns that no model would take, and what it kept."""

    text: str
    model: str = ""
    section: str = ""
    left_out: frozenset[int] = frozenset()
    receipt: Receipt | None = None

    @property
    def share(self) -> float:
        return self.receipt.share if self.receipt else 1.0


class SummaryDrafter:
    """`book` keeps what the calls to a model took."""

    def __init__(
        self,
        services: MemoryServices,
        key: ConversationKey,
        book: Callable[[Sequence[Spent]], Awaitable[None]],
    ) -> None:
        self._services, self._key, self._book = services, key, book

    async def draft(
        self,
        spec: SummarySpec,
        source: SummarySource,
        limits: Limits,
        beginning: Beginning | None = None,
        frame: int = 0,
    ) -> SummaryDraft:
        """Return the better of two attempts, where the first has kept too little; an extract
        without a model where its answer is no summary (`acceptance`), or longer than what it
        replaces. The first may be asked for behind the `beginning` of the conversation. `frame`
        tokens come with it, and an extract is as much shorter."""
        plain = words.without_model(spec.style, source.rest, source.so_far)
        if spec.style in words.OUT_OF_CONTEXT:
            return SummaryDraft(plain, section=plain)
        if not source.turns:  # all of them were taken away since: what was summarised before stays
            return SummaryDraft(plain)
        parts, replaced = await asyncio.to_thread(self._measure, source, spec.style, limits)
        shorter = int((min(replaced, self._count(source)) - frame) * _SHORTER)
        is_told = shorter >= _LEAST or limits.strategy != "trim"
        longest = min(limits.summary_tokens, max(1, shorter if is_told else replaced - 1))
        best = await self._attempt(spec, parts, source, limits, replaced, beginning)
        if best is not None and best.receipt and best.share < limits.context.summary_min_kept:
            wanted = words.list_left_out(best.receipt.missing)
            again = await self._attempt(spec, (*parts, wanted), source, limits, replaced)
            best = again if again is not None and again.share > best.share else best
        said = source.material(parts)
        if best is not None and self._is_summary(best.text, said, replaced, best.receipt):
            return await self._with_section(best, source)
        return await self._with_receipt(
            SummaryDraft(self._services.meter.clip(plain, longest)), source
        )

    async def _attempt(
        self,
        spec: SummarySpec,
        parts: Sequence[words.SourcePart],
        source: SummarySource,
        limits: Limits,
        replaced: int,
        beginning: Beginning | None = None,
    ) -> SummaryDraft | None:
        """Ask a model for a summary; None where it is asked for nothing, or says nothing shorter
        than the tokens that it replaces."""
        meter = self._services.meter
        result = await self._ask_model(spec, parts, source, limits, beginning)
        said = words.check_answer(spec.style, result.text, limits)
        if not said or meter.count(said) >= replaced:
            return None
        draft = SummaryDraft(
            meter.clip(said, min(limits.summary_tokens, max(1, replaced - 1))),
            result.model,
            source.pick_new(said, result.diary),
            frozenset(turn for index in result.left_out for turn in parts[index].turns),
        )
        return await self._with_receipt(draft, source)

    async def _with_section(self, draft: SummaryDraft, source: SummarySource) -> SummaryDraft:
        """The draft without what is new of it, where that does not tell of what is new: the daily
        memory gets excerpts instead."""
        new = source.without_told
        receipt = await asyncio.to_thread(new.receipt, draft.section)
        of_tokens = sum(turn.tokens for turn in new.turns)
        said = new.material(new.parts("notes", ()))
        is_good = self._is_summary(draft.section, said, of_tokens, receipt)
        return draft if is_good else replace(draft, section="")

    def _is_summary(self, text: str, source: str, of_tokens: int, receipt: Receipt | None) -> bool:
        return is_summary(text, self._services.meter.count(text), source, of_tokens, receipt)

    async def _with_receipt(self, draft: SummaryDraft, source: SummarySource) -> SummaryDraft:
        return replace(draft, receipt=await asyncio.to_thread(source.receipt, draft.text))

    def _count(self, source: SummarySource) -> int:
        """Tokens of what is removed, and of the summaries of some of it."""
        summed = [*([source.prior] if source.prior else []), *source.stood]
        return sum(turn.tokens for turn in source.turns) + sum(one.tokens for one in summed)

    def _measure(
        self, source: SummarySource, style: words.Style, limits: Limits
    ) -> tuple[tuple[words.SourcePart, ...], int]:
        """Return the parts that are summarised, and how many tokens they replace. Turns that a
        summary covered are told anew, unless it was to keep something above all, a person has
        edited it, or they would not fit into one call.
        """
        brief = source.parts(style, source.stood)
        replaced = self._services.meter.count(source.material(brief))
        own = [one for one in source.stood if one.focus or one.edits]
        whole = source.parts(style, own)
        if len(whole) == len(brief):
            return brief, replaced
        room = limits.ceiling - limits.summary_tokens
        is_fitting = self._services.meter.count(source.material(whole)) <= room
        return (whole if is_fitting else brief), replaced

    async def _ask_model(
        self,
        spec: SummarySpec,
        parts: Sequence[words.SourcePart],
        source: SummarySource,
        limits: Limits,
        beginning: Beginning | None,
    ) -> SummaryResult:
        """Return a model's summary; an empty one where none is asked. One that continues another
        has room to say what is new."""
        is_continued, told = source.prior is not None, source.told
        task = words.task(spec.style, spec.focus, limits, is_continued, told)
        if not task:
            return SummaryResult("", "")
        if not parts[-1].turns:
            task = f"{task}\n\n{words.LEFT_OUT}"
        most = limits.summary_tokens
        schema = words.schema(spec.style, limits, is_continued or bool(told))
        spent: list[Spent] = []
        request = SummaryRequest(
            task,
            tuple(part.text for part in parts),
            most + most // 2 if is_continued or told else most,
            self._key,
            schema,
            source.prior.text if source.prior else "",
            told,
            None if schema else beginning,  # in front of which a schema would stand
            spent.append,
        )
        try:
            return await self._services.summarizer.summarize(request)
        finally:  # also where it was cancelled: what the model has written is paid
            await self._book(spent)
