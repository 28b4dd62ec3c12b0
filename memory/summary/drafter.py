"""Drafts of summaries: written by a model and audited; sentences of the turns are used if that
fails."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from memory.audit.judge import NEVER_WRITTEN, REASONS, Audit, Candidate, Flaw, audit
from memory.audit.represented_requests import find_lost_requests
from memory.audit.source import AuditSource
from memory.context import summary as words
from memory.context.continued import RequestBeginning
from memory.context.plan import SummarySpec
from memory.context.settings import Limits
from memory.context.summary import SummaryRequest, SummaryResult
from memory.corrections.corrected import CurrentValues, apply_corrections
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.services import MemoryServices
from memory.summary.extract import extract, open_line
from memory.summary.source import SummarySource
from memory.text.receipt import Receipt, Taken
from memory.text.wording import end_at_sentence

_SHORTER = 0.75  # of the replaced text, with everything around it, is the most for an extract,
_LEAST = 100  # unless turns are removed by number, and fewer tokens than this would be useless
_OF_A_SECTION = frozenset(("empty", "call", "refusal", "cut", "thoughts", "loop", "facts", "short"))
"""The findings for which the daily memory gets excerpts instead."""


class SummaryDraft(Struct, frozen=True):
    """The text of a summary, its model, its new part for the daily memory (`section`), the turns
    that every model rejected, and its receipt."""

    text: str
    model: str = ""
    section: str = ""
    left_out: frozenset[int] = frozenset()
    receipt: Receipt | None = None


class _Attempt(Struct, frozen=True):
    """A summary by a model, and its audit."""

    draft: SummaryDraft
    audit: Audit
    is_over: bool = False
    """A flag: whether another attempt would be useless."""


class _Drafting(Struct, frozen=True):
    """A summary under construction: its specification, source, parts and limits, and the source it
    is compared with."""

    spec: SummarySpec
    source: SummarySource
    parts: tuple[words.SourcePart, ...]
    limits: Limits
    compared: AuditSource


class SummaryDrafter:
    """The drafter of summaries. `book` records the model calls."""

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
        beginning: RequestBeginning | None = None,
        frame: int = 0,
    ) -> SummaryDraft:
        """Return a model's summary that passes the audit, the better of two attempts if the first
        has faults; sentences of the turns if neither passes. The first attempt may be requested
        behind the `beginning` of the conversation. `frame` tokens are sent with it, and an extract
        is shorter by as much."""
        plain = words.without_model(spec.style, source.rest, source.so_far)
        if spec.style in words.OUT_OF_CONTEXT:
            return SummaryDraft(plain, section=plain)
        if not source.turns:  # all were removed since: the earlier summary stays
            return SummaryDraft(plain or source.so_far)
        parts, replaced = await asyncio.to_thread(self._measure, source, spec.style, limits)
        is_free = bool(spec.focus or limits.context.compression_prompt)
        is_of_log = spec.style == "rollup"
        compared = await asyncio.to_thread(
            source.to_audit, replaced, is_in_any_language=is_free, is_of_log=is_of_log
        )
        work = _Drafting(spec, source, parts, limits, compared)
        first = await self._attempt(work, beginning)
        taken: Taken = "first"
        best = first
        if first is not None and self._is_faulty(first, limits) and not first.is_over:
            second = await self._attempt(work, again=first.audit)
            if second is not None and second.audit.rank > first.audit.rank:
                best, taken = second, "second"
        if best is not None and best.audit.accepts(limits.context.summary_audit):
            kinds = first.audit.kinds if first and taken == "second" else best.audit.kinds
            return await asyncio.to_thread(self._clean_draft, work, best, taken, kinds)
        told = self._count_summarised(source)
        fresh = min(replaced, self._count(source)) - told - frame
        shorter = told + int(fresh * _SHORTER)  # or ten summaries would halve the first
        is_told = shorter >= _LEAST or limits.strategy != "trim"
        longest = min(limits.summary_tokens, max(1, shorter if is_told else replaced - 1))
        kinds = best.audit.kinds if best else ()
        return await asyncio.to_thread(self._extract, work, plain, longest, kinds)

    def _is_faulty(self, one: _Attempt, limits: Limits) -> bool:
        """Return whether a model is asked once more: not for open requests alone, which are
        added."""
        if limits.context.summary_audit == "strict" and not one.audit.accepts():
            return True
        return "missing" in one.audit.kinds

    async def _attempt(
        self, work: _Drafting, beginning: RequestBeginning | None = None, again: Audit | None = None
    ) -> _Attempt | None:
        """Request a summary from a model; None if no model is called."""
        result, _ = await asyncio.gather(
            self._ask_model(work, beginning, again), asyncio.to_thread(work.compared.prepare)
        )
        if result is None:
            return None
        if result.finish in NEVER_WRITTEN:
            found = Audit((Flaw(result.finish),))
            return _Attempt(SummaryDraft(""), found, is_over=True)
        said = words.check_answer(work.spec.style, result.text, work.limits)
        return await asyncio.to_thread(self._judge, work, said, result)

    def _judge(self, work: _Drafting, said: str, result: SummaryResult) -> _Attempt:
        meter, parts = self._services.meter, work.parts
        candidate = Candidate(said, meter.count(said), result.finish)
        left_out = (part for index, part in enumerate(parts) if index in result.left_out)
        draft = SummaryDraft(
            said,
            result.model,
            work.source.pick_new(said, result.diary),
            frozenset(turn for part in left_out for turn in part.turns),
        )
        found = audit(candidate, work.compared, work.limits.context.summary_min_kept)
        is_over = result.finish != "complete" or found.kinds == ("longer",)
        return _Attempt(draft, found, is_over)

    def _clean_draft(
        self, work: _Drafting, one: _Attempt, taken: Taken, kinds: tuple[str, ...]
    ) -> SummaryDraft:
        """Return a model's summary as it will stand there: within its limit, with what is still
        open, with the values and the orders of a person that hold, and with what the summary that
        it continues had of numbers, dates and identifiers. Without its section where that does not
        tell of the new turns: the daily memory gets excerpts instead."""
        longest = min(work.limits.summary_tokens, max(1, work.compared.tokens - 1))
        text = self._clip(apply_corrections(one.draft.text, work.compared.ended), longest)
        if lost := find_lost_requests(text, work.compared.requests):
            more = open_line(lost, [turn.question.text for turn in work.source.turns])
            more = apply_corrections(more, work.compared.ended)
            room = work.compared.tokens - 1 - self._services.meter.count(f"\n{more}")
            text = "\n".join(filter(None, (self._clip(text, max(0, room)), more)))
        for more in (*work.compared.find_omitted(text), *work.compared.find_left_out(text)):
            text = self._with_line(work, text, f"- {more}", work.compared.tokens - 1)
        for more in work.compared.find_dropped(text):
            text = self._with_line(work, text, f"- {more}", longest)
        receipt = replace(self._receipt(work, text), taken=taken, findings=kinds)
        section = one.draft.section if self._is_section(one.draft, work.source) else ""
        return replace(one.draft, text=text, section=section, receipt=receipt)

    def _with_line(self, work: _Drafting, text: str, more: str, longest: int) -> str:
        """Return a text with one more line, corrected, if it fits into this many tokens."""
        text_with = f"{text}\n{apply_corrections(more, work.compared.ended)}"
        return text_with if self._services.meter.count(text_with) <= longest else text

    def _is_section(self, draft: SummaryDraft, source: SummarySource) -> bool:
        """Return whether a section may be written to the daily memory."""
        if draft.section == draft.text:
            return True
        new, count = source.without_distilled, self._services.meter.count
        compared = new.to_audit(sum(turn.tokens for turn in new.turns))
        found = audit(Candidate(draft.section, count(draft.section)), compared)
        return _OF_A_SECTION.isdisjoint(found.kinds)

    def _extract(
        self, work: _Drafting, plain: str, longest: int, kinds: tuple[str, ...]
    ) -> SummaryDraft:
        """Return the summary without a model's text."""
        meter, compared = self._services.meter, work.compared
        text = self._whole_lines(plain, longest, work.spec.style)
        if work.spec.style not in words.WITHOUT_SENTENCES:
            head = plain.splitlines()
            prior = [line for line in work.source.so_far.splitlines() if line not in head]
            chosen = extract(
                work.source.rest,
                "\n".join(prior),
                longest - meter.count(f"{text}\n"),
                meter.count,
                compared.facts,
                compared.requests,
                CurrentValues(compared.current, compared.ended),
            )
            text = "\n".join(filter(None, (text, chosen)))
        text = apply_corrections(text, compared.ended)
        receipt = replace(self._receipt(work, text), taken="extract", findings=kinds)
        return SummaryDraft(text, receipt=receipt)

    def _whole_lines(self, plain: str, longest: int, style: words.Style) -> str:
        """Return as many lines of a text as fit; of recent activity, the newest."""
        count = self._services.meter.count
        if count(plain) <= longest:
            return plain
        lines = plain.splitlines()
        first = words.REMINDER_HEAD if style == "reminder" else 0
        rest = [*reversed(lines[first:])] if first else lines
        fitting = bisect_left(
            range(len(rest) + 1),
            True,
            key=lambda n: count("\n".join((*lines[:first], *rest[: n + 1]))) > longest,
        )
        chosen = [*reversed(rest[:fitting])] if first else rest[:fitting]
        if chosen:
            return "\n".join((*lines[:first], *chosen))
        return self._services.meter.clip("\n".join(lines[: max(1, first - 1)]), longest)

    def _receipt(self, work: _Drafting, text: str) -> Receipt:
        is_of_log = work.spec.style == "rollup"  # its model has read less than is removed
        return (work.source if is_of_log else work.compared).receipt(text)

    def _clip(self, text: str, tokens: int) -> str:
        """Return a text clipped to this many tokens, at the end of a sentence if one is near."""
        clipped = self._services.meter.clip(text, tokens)
        return text if clipped == text else end_at_sentence(clipped)

    def _count(self, source: SummarySource) -> int:
        """Return the tokens of the removed turns, and of the summaries of some of them."""
        return sum(turn.tokens for turn in source.turns) + self._count_summarised(source)

    def _count_summarised(self, source: SummarySource) -> int:
        summed = [*([source.prior] if source.prior else []), *source.stood]
        return sum(one.tokens for one in summed)

    def _measure(
        self, source: SummarySource, style: words.Style, limits: Limits
    ) -> tuple[tuple[words.SourcePart, ...], int]:
        """Return the parts to summarise, and the number of tokens that they replace. Turns that a
        summary covered are summarised again, unless it had a focus, a person has edited it, or they
        would not fit into one call."""
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
        self, work: _Drafting, beginning: RequestBeginning | None, again: Audit | None
    ) -> SummaryResult | None:
        """Return a model's summary; None if no model is called. One that continues another has
        additional tokens for the new part."""
        spec, source, limits = work.spec, work.source, work.limits
        is_continued, known = source.prior is not None, source.summarised
        task = words.task(spec.style, spec.focus, limits, is_continued, known)
        if not task:
            return None
        task, *appended = words.append_requests(task, work.compared.requests)
        if again is not None:
            wrong = [one for one in again.findings if one.kind != "missing"]
            missing = [*(what for one in wrong for what in one.what), *again.receipt.missing]
            reasons = [REASONS[one.kind] for one in wrong]
            task, listed = words.append_left_out(task, missing, reasons)
            appended.append(listed)
        appended = list(filter(None, appended))
        most = limits.summary_tokens
        schema = words.schema(spec.style, limits, is_continued or bool(known))
        spent: list[Spent] = []
        request = SummaryRequest(
            task,
            (*(part.text for part in work.parts), *appended),
            most + most // 2 if is_continued or known else most,
            self._key,
            schema,
            source.prior.text if source.prior else "",
            known,
            None if schema else beginning,  # a schema would precede it
            "\n\n".join(appended),
            limits.context.summary_least_parameters,
            spent.append,
        )
        try:
            return await self._services.summarizer.summarize(request)
        finally:  # also if it was cancelled: the tokens that the model has written are paid
            await self._book(spent)
