"""The corrections of a conversation: values that a person ended, stored beside the memory of the
audience, and applied to summaries."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from memory.compactor import Compactor
from memory.context.change import ViewEvent
from memory.context.forms import CLEARED
from memory.context.layout import list_effective
from memory.context_state import ContextState
from memory.corrections.ended_values import show_corrected
from memory.corrections.finder import may_correct
from memory.keys import ConversationKey
from memory.long_term import ended
from memory.long_term.ended import EndedInAudience
from memory.record import transcript
from memory.record.forget import StoredCounts
from memory.record.search.corrected import CorrectionBook, Corrections
from memory.record.store import StoreError
from memory.services import MemoryServices
from memory.summary_editor import EditRefused, SummaryEditor

log = logging.getLogger(__name__)


class ConversationCorrections:
    """Finds, stores and applies the corrections of one conversation. `book` has those in the
    transcripts of all."""

    def __init__(
        self,
        services: MemoryServices,
        book: CorrectionBook,
        key: ConversationKey,
        context: ContextState,
        compactor: Compactor,
        summary: SummaryEditor,
    ) -> None:
        self._services, self._book, self._key = services, book, key
        self._context, self._compactor, self._summary = context, compactor, summary

    async def for_search(self) -> Corrections:
        """Return the corrections for searches in this conversation."""
        data, audience = self._services.data, self._key.audience
        values = await asyncio.to_thread(ended.stored, data, audience)
        return Corrections(self._book, values)

    async def of_turn(self, turn: int) -> list[EndedInAudience]:
        """Return the values that a person ended in a turn of this conversation."""
        path = ended.path_of(self._services.data, self._key.audience)
        there = await asyncio.to_thread(ended.read, path)
        return [one for one in there if one.conversation == self._key.id and one.value.turn == turn]

    async def _uses_ended(self, texts: Sequence[str]) -> bool:
        """Return whether one of these messages has a value that was ended: from now on, it may be
        the value of something else."""
        path = ended.path_of(self._services.data, self._key.audience)
        if not ended.exists(path):  # the most frequent case
            return False
        return await asyncio.to_thread(ended.is_mentioned, path, "\n".join(texts))

    async def note(self, texts: Sequence[str]) -> None:
        """Store the corrections in these messages, if there are any, and apply them to the
        summaries that are in the context or will be."""
        is_used = any(map(may_correct, texts)) or await self._uses_ended(texts)
        if not is_used or not await self.keep():
            return
        values = [one.value for one in await self.of_turn(self._context.newest)]
        if not values:
            return
        self._compactor.summaries.forget_prepared()
        why, after = f"corrected in t{self._context.newest}", self._context.last_seq + 1

        async def correct() -> None:
            for number in await self._summary.list_numbers():
                with suppress(EditRefused):
                    await self._summary.change(
                        lambda one: show_corrected(one.text, values, "assistant", after),
                        *(number, why),
                    )

        if self._compactor.summaries.is_busy:  # one may be written, and not be in context yet
            self._compactor.summaries.do_afterwards(correct)
        await correct()

    async def keep(self) -> bool:
        """Store the values that were ended here, beside the memory; return whether that was
        possible. If not, the memory is shown uncorrected."""
        row, layout = self._context.row, self._context.layout
        away, cleared = layout.removed_turns, layout.turns_removed_by(CLEARED)
        zone = self._services.rules.zone()
        book, data, key = self._book, self._services.data, self._key

        def read(db: Any) -> tuple[list[EndedInAudience], dict[int, float]]:
            values = book.of(db, row, away)
            seqs = {one.seq for one in values} | {one.value.seq for one in before}
            entries = transcript.entries_at(db, row, seqs)
            times = {entry.seq: entry.at.astimezone(zone) for entry in entries}
            found = [
                EndedInAudience(
                    *(one, key.id, f"{at:%Y-%m-%d}", f"{at:%H:%M}"), said=at.timestamp()
                )
                for one in values
                if (at := times.get(one.seq)) is not None
            ]
            return found, {e.seq: e.at.timestamp() for e in entries if e.turn not in cleared}

        try:
            path = ended.path_of(data, key.audience)
            before = await asyncio.to_thread(ended.read, path)
            new = await self._services.store.read(read)
            if await asyncio.to_thread(ended.update, data, key.audience, key.id, *new):
                self._context.notify()
        except Exception:
            log.exception("the corrections of %s could not be kept", key.id)
            return False
        return True

    async def forget(
        self, before: Sequence[ViewEvent], deleted: StoredCounts, turns: Collection[int] | None
    ) -> bool:
        """Delete the corrections in deleted turns, and those by edits of deleted summaries; return
        whether that was possible. `before` are the events before the deletion."""
        last = deleted.shared.get(self._context.row, math.inf)
        gone = {one.id for one in before} - {one.id for one in await self._context.history()}
        is_whole = turns is None and math.isinf(last)

        def is_forgotten(one: EndedInAudience) -> bool:
            turn = one.value.turn
            is_deleted = is_whole or one.event in gone or (turn in deleted.turns and turn <= last)
            return one.conversation == self._key.id and is_deleted

        try:
            data, audience = self._services.data, self._key.audience
            await asyncio.to_thread(ended.forget, data, audience, is_forgotten)
        except StoreError:
            log.exception("corrections in %s could not be deleted", self._key.id)
            return False
        return True

    async def mark_undone(self) -> None:
        """Store which corrections by edited summaries are undone with their edits."""
        key, data = self._key, self._services.data
        standing = {one.id for one in list_effective(await self._context.history())}

        def is_undone(one: EndedInAudience) -> bool:
            is_of_edit = one.event and one.conversation == key.id
            return one.event not in standing if is_of_edit else one.is_undone

        if await asyncio.to_thread(ended.mark_undone, data, key.audience, is_undone):
            self._context.notify()
