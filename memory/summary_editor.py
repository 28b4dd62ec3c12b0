"""The summary in the context, as a person sees and changes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from memory.compactor import Compactor
from memory.context.change import Change, ViewEvent
from memory.context.plan import Plan
from memory.context_state import ContextState
from memory.record import summaries
from memory.record.database import Database
from memory.record.proposals import Proposal
from memory.record.summaries import Summary
from memory.services import MemoryServices
from memory.text.receipt import Receipt, sentence_with
from memory.turns import format_turns

SHARE = 2
"""A person's summary may take this part of the maximum context: one half."""


_AT_A_TIME = 50  # turns of a summary that are read at once


class EditRefused(Exception):
    """The refusal of a change: the text is a sentence with the reason and the remedy."""


class CurrentSummary(Struct, frozen=True):
    """The summary in force, which covers `turns`, or that of a compaction that waits for approval
    (`waits_for`). `late`: it is in the context from the next turn on. `coming` are the turns of a
    summary in progress that will replace it. `event` is the one that an undo reverts: the edit, or
    the compaction (0: none). `slot` is the event that removed its turns. `is_range`: it is not in
    front."""

    summary: Summary
    turns: tuple[int, ...]
    tokens: int
    is_late: bool = False
    coming: tuple[int, ...] = ()
    event: int = 0
    slot: int = 0
    is_range: bool = False
    waits_for: Proposal | None = None


class EditedSummary(Struct, frozen=True):
    """The result of an edit: the summary before and after it; `event` is None for the summary of a
    waiting compaction."""

    before: Summary
    after: Summary
    event: ViewEvent | None
    is_range: bool = False


def _add_lines(summary: Summary, lines: Mapping[str, str]) -> str:
    """Return the text with those of the lines, given by fact, that it does not have yet."""
    known = summary.text.casefold()
    new = [line for fact, line in lines.items() if fact.casefold() not in known]
    if not new:
        raise EditRefused("The summary has that already; nothing was changed.")
    return "\n".join((summary.text.rstrip(), *(f"- {line}" for line in dict.fromkeys(new))))


def _explain_none(there: Sequence[CurrentSummary]) -> str:
    in_place = [one.summary.name for one in there]
    if not in_place:
        return "There is no summary in the context, so there is nothing to change."
    return (
        f"There are several summaries ({', '.join(in_place)}); name one, like /context summary "
        f"edit {in_place[0]}. Nothing was changed."
    )


def _find_showing(events: Sequence[ViewEvent], summary: int) -> int:
    """Return the newest event by which a person has this summary shown; 0 where there is none."""
    edits = (e for e in reversed(events) if e.kind == "edit" or e.name in ("expand", "drop"))
    return next((e.id for e in edits if summary in e.change.summaries), 0)


class SummaryEditor:
    """The editor for a person's changes of the summary of the removed turns. Each change is a new
    summary and an event; earlier texts are kept."""

    def __init__(self, services: MemoryServices, state: ContextState, compactor: Compactor) -> None:
        self._services, self._state, self._compactor = services, state, compactor

    async def list_standing(self) -> list[CurrentSummary]:
        """Return the summaries in force: the one in front, then those that stand where their turns
        stood."""
        state, count = self._state, self._services.meter.text
        layout, front, view = state.layout, state.layout.front or 0, state.view()
        shown = {**view.summaries} | ({layout.preface: view.preface} if view.preface else {})
        late, events = await self._compactor.forecaster.find_late_summaries(), await state.history()
        places = [(late.get(front) or layout.preface, front, tuple[int, ...]())]
        places += [(one.summary, one.event, one.turns) for one in layout.ranges]
        found = []
        for number, slot, turns in places:
            summary = await self._compactor.summaries.read(number) if number else None
            if summary is not None:
                one = CurrentSummary(
                    summary,
                    turns or await self._covered_turns(summary),
                    view.scale.part(
                        shown[number].tokens if number in shown else await count(summary.text)
                    ),
                    is_late=not turns and front in late,
                    coming=() if turns else await self.find_pending_turns(),
                    event=_find_showing(events, summary.id) or slot,
                    slot=slot,
                    is_range=bool(turns),
                )
                found.append(one)
        return found

    async def list_numbers(self) -> list[int]:
        """Return the numbers of the summaries in force, and of that of a waiting compaction."""
        proposal, there = self._compactor.approval.current, await self.list_standing()
        waiting = await self._compactor.summaries.read(proposal.summary) if proposal else None
        return [one.number for one in (waiting, *(one.summary for one in there)) if one]

    async def _covered_turns(self, summary: Summary) -> tuple[int, ...]:
        read = self._services.store.read
        return await read(lambda db: summaries.list_covered_turns(db, summary))

    async def _find_named(self, number: int, *, is_newest: bool) -> CurrentSummary | None:
        """Return the summary with this number, if it waits for approval or is in place of its
        turns. Unless `is_newest`, also a summary that a person made from the one with this number,
        and for 0 any that waits."""
        read = self._compactor.summaries.read
        proposal, standing = self._compactor.approval.current, await self.list_standing()
        made = await read(proposal.summary) if proposal is not None and proposal.summary else None
        waiting = [CurrentSummary(made, made.turns, 0, waits_for=proposal)] if made else []
        for one in (*waiting, *(one for one in standing if one.is_range)):
            origin = None if is_newest else await read(one.summary.origin)
            is_any = not (number or is_newest or one.is_range)
            if is_any or number in {summary.number for summary in (one.summary, origin) if summary}:
                return one
        return None

    async def find_default(self) -> CurrentSummary | None:
        """Return the summary that is selected if none is named: the one in front, or else the only
        one in place of its turns."""
        found = await self.list_standing()
        return found[0] if found and (not found[0].is_range or len(found) == 1) else None

    async def find_pending_turns(self) -> tuple[int, ...]:
        """Return the turns whose summary is being written and will replace the one in force."""
        front = self._state.layout.front
        if await self._compactor.forecaster.find_pending(front) != "coming":
            return ()
        return next((e.leaving for e in await self._state.history() if e.id == front), ())

    async def find_numbered(self, number: int) -> Summary | None:
        """Return the summary with this number, in force or not."""
        found = await self._compactor.summaries.read_all()
        return next((one for one in found if one.number == number), None)

    async def receipts(self, events: Iterable[ViewEvent]) -> dict[int, Receipt]:
        """Return the receipts of the summaries of the turns that these events removed, by the ids
        of those events that have one."""

        def read(db: Database, row: int) -> tuple[dict[int, Receipt], dict[int, Receipt]]:
            return summaries.receipts_of_events(db, row), summaries.receipts_of_edits(db, row)

        by_event, by_edit = await self._state.read(read)
        edited = {e.id: max(e.change.summaries, default=0) for e in events if e.kind == "edit"}
        return by_event | {e: by_edit[one] for e, one in edited.items() if one in by_edit}

    def longest(self, present: int = 0) -> int:
        """Return the maximum tokens of a person's summary: half of the maximum context, less if
        there is less room, but at least its size at `present`."""
        limits, view = self._state.limits, self._state.view()
        now = view.scale.part(view.preface.tokens) if view.preface else 0
        room = limits.ceiling - (view.tokens - now)
        return max(present, min(limits.threshold // SHARE, room))

    async def edit(self, text: str, number: int = 0) -> EditedSummary:
        """Replace the summary in force, which has this number (0: any), by a person's text; or the
        summary with this number of a waiting compaction. Raises EditRefused."""
        return await self.change(lambda before: text.strip(), number)

    async def keep(self, text: str, number: int = 0) -> EditedSummary:
        """Add a fact to the summary in force, or to that of a waiting compaction, which will follow
        it, unless `number` selects the former. The fact is added as its original sentence, if that
        is found. Without a text, all facts missing according to the receipt are added, as far as
        there is room. Raises EditRefused."""
        fact = " ".join(text.split())
        async with self._state.changing:
            chosen = await self._find_named(number, is_newest=False) or await self.find_editable()
            before, name = chosen.summary, chosen.summary.name
            lines, is_outside = await self._find_lines(before, fact)
            why = f"“{fact[:60]}” was added to {name}" if fact else f"{name} was completed"
            return await self._put(chosen, _add_lines(before, lines), why, is_outside)

    async def _find_lines(self, summary: Summary, fact: str) -> tuple[dict[str, str], bool]:
        """Return the line for a fact, or ("") for each fact that is missing, as long as there is
        room; and whether one has content from outside."""
        missing = summary.receipt.missing if summary.receipt else ()
        if not fact and not missing:
            raise EditRefused(f"{summary.name} has left out nothing; nothing was changed.")
        lines, is_outside = dict[str, str](), False
        room = self.longest(summary.tokens) - summary.tokens
        for one in [fact] if fact else missing:
            line, outside = await self._find_sentence(summary, one)
            room -= 0 if line in lines.values() else await self._services.meter.text(f"- {line}\n")
            if room < 0 and lines:
                break
            lines[one], is_outside = line, is_outside or outside
        return lines, is_outside

    async def _find_sentence(self, summary: Summary, fact: str) -> tuple[str, bool]:
        """Find the sentence with a fact in the removed turns, as a line of the summary, and whether
        it has content from outside."""
        away, covered = self._state.layout.removed_turns, await self._covered_turns(summary)
        rest = [*summary.turns, *sorted(set(covered) - set(summary.turns), reverse=True)]
        for first in range(0, len(rest), _AT_A_TIME):
            for turn in await self._state.turns(rest[first : first + _AT_A_TIME]):
                for entry in turn.entries:
                    message = entry.message
                    is_said = message.role in ("user", "assistant")
                    if not is_said or away.has(turn.number):
                        continue
                    if found := await asyncio.to_thread(sentence_with, fact, [message.text]):
                        return f"{found} ({turn.id})", message.has_outside
        return fact, False

    async def change(
        self, write: Callable[[Summary], str], number: int = 0, why: str = ""
    ) -> EditedSummary:
        """Put what `write` makes of the summary in force in its place, or of the one of this number
        that a waiting cut brings. Raises EditRefused."""
        async with self._state.changing:
            chosen = await self.find_editable(number)
            return await self._put(chosen, write(chosen.summary), why)

    async def _put(
        self, chosen: CurrentSummary, text: str, why: str, is_untrusted: bool = False
    ) -> EditedSummary:
        before = chosen.summary
        made = await self._write(before, text, chosen.tokens, is_untrusted=is_untrusted)
        if chosen.waits_for is not None:
            after = await self._compactor.approval.edit(chosen.waits_for, made)
            return EditedSummary(before, after, None)
        made = replace(made, section="")
        event = await self._to_event(chosen, made)

        def name(after: Summary) -> ViewEvent:
            shown = Change.showing({chosen.slot: after.id})
            reason = why or f"{before.name} was changed to {after.name}"
            return replace(event, change=shown, reason=reason)

        stored, after = await self._state.record_summary(made, name)
        return EditedSummary(before, after, stored, chosen.is_range)

    async def find_editable(self, number: int = 0) -> CurrentSummary:
        """Return the summary in force, if it may be changed, and is the one that the person has
        seen; or the one with this number of a compaction that waits. Raises EditRefused."""
        if number and (here := await self._find_named(number, is_newest=True)) is not None:
            return here
        standing = await self.find_default()
        if standing is None:
            raise EditRefused(_explain_none(await self.list_standing()))
        now = standing.summary
        if standing.coming:
            raise EditRefused(
                f"A summary of {format_turns(standing.coming)} is being written and will "
                f"replace {now.name}; nothing was changed. Edit it when it is ready: /context "
                "summary shows it."
            )
        if number and number != now.number:
            raise EditRefused(
                f"s{number} is not in the context; {now.name} is. Nothing was changed. "
                "/context summary shows it."
            )
        return standing

    async def _write(
        self, before: Summary, text: str, present: int, *, is_untrusted: bool
    ) -> Summary:
        """Return the summary that a person has made from another, if its text is permitted. Raises
        EditRefused."""
        if not text:
            raise EditRefused("A summary needs some text; nothing was changed.")
        if text == before.text:
            raise EditRefused("That is what the summary says already; nothing was changed.")
        raw = await self._services.meter.text(text)
        tokens, most = self._state.view().scale.part(raw), self.longest(present)
        if tokens > most:
            raise EditRefused(
                f"That is {tokens:,} tokens, and a summary may have {most:,} here: half of what "
                "the context may hold, or less where it is fuller. Nothing was changed."
            )
        receipt = await self._compactor.summaries.receipt_of(before, text)
        is_doubted, edits = before.is_untrusted or is_untrusted, before.origin
        new = {"text": text, "tokens": raw, "edits": edits, "receipt": receipt}
        return replace(before, is_untrusted=is_doubted, **new)

    async def _to_event(self, standing: CurrentSummary, made: Summary) -> ViewEvent:
        """Return the event that puts a summary in force, before the summary has an id."""
        state, view = self._state, self._state.view()
        shown = await state.with_summary(view, made, is_range=standing.is_range)
        event = state.event(Plan(Change(), ""), view, shown.tokens, kind="edit")
        return state.count_broken(event, view, shown)
