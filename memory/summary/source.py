"""The source of a summary."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from memory.audit.source import AuditSource
from memory.context import summary as words
from memory.context.terse import lines_of
from memory.corrections.ended_values import EndedByPerson
from memory.corrections.finder import Correction
from memory.record.summaries import Summary
from memory.summary.extract import read_finished, read_open
from memory.text.receipt import Receipt
from memory.text.requests import Requests
from memory.turns import Turn


class SummarySource(Struct, frozen=True):
    """Turns, the summary that it continues, the earlier summaries of some of the turns (`stood`),
    and the corrections in them, with their turns (None: not computed yet). `earlier` are previous
    turns in which a person corrected something; `by_hand` are values that a command, or a later
    turn, has ended."""

    turns: tuple[Turn, ...]
    prior: Summary | None = None
    stood: tuple[Summary, ...] = ()
    corrected: tuple[tuple[int, Correction], ...] | None = None
    earlier: tuple[Turn, ...] = ()
    by_hand: tuple[EndedByPerson, ...] = ()

    @property
    def rest(self) -> tuple[Turn, ...]:
        """The turns without an earlier summary."""
        covered = {number for one in self.stood for number in one.turns}
        return tuple(turn for turn in self.turns if turn.number not in covered)

    @property
    def so_far(self) -> str:
        """All text that is summarised already."""
        before = [self.prior.text] if self.prior else []
        return "\n\n".join((*before, *(one.text for one in self.stood)))

    @property
    def summarised(self) -> tuple[int, ...]:
        """The turns whose earlier summary is in the daily memory."""
        return tuple(sorted({turn for one in self.stood if one.section for turn in one.turns}))

    @property
    def without_distilled(self) -> SummarySource:
        """The source reduced to the turns that are new to the daily memory."""
        known = set(self.summarised)
        return SummarySource(tuple(turn for turn in self.turns if turn.number not in known))

    @property
    def is_untrusted(self) -> bool:
        made = (*([self.prior] if self.prior else []), *self.stood)
        is_doubted = any(one.is_untrusted for one in made)
        return is_doubted or any(turn.has_outside for turn in self.turns)

    def parts(self, style: words.Style, briefly: Sequence[Summary]) -> tuple[words.SourcePart, ...]:
        """Return the parts to summarise, with these summaries in place of the turns that they
        covered."""
        return words.parts(style, self.turns, {one.turns: one.text for one in briefly})

    def material(self, parts: Sequence[words.SourcePart]) -> str:
        before = self.prior.text if self.prior else ""
        return words.material([part.text for part in parts], before)

    def receipt(self, text: str) -> Receipt:
        """Return the receipt for a text. Many words take a while."""
        return self.to_audit(0).receipt(text)

    def to_audit(
        self, tokens: int, *, is_in_any_language: bool = False, is_of_log: bool = False
    ) -> AuditSource:
        """Return the source for the audit of a summary of this many tokens; slow for long texts.
        For one `is_of_log`, only the lines of the log were read."""
        messages = [entry.message for turn in self.turns for entry in turn.entries]
        asked = [message.text for message in messages if message.role == "user"]
        answered = [message.text for message in messages if message.role == "assistant"]
        called = [call.arguments for message in messages for call in message.tool_calls]
        lines = [line.text for turn in self.turns for line in lines_of(turn)]
        return AuditSource(
            lines if is_of_log else asked,
            () if is_of_log else answered,
            tokens,
            touched=() if is_of_log else called,
            prior=self.prior.text if self.prior else "",
            turns=self.turns,
            known=Requests(tuple(read_open(self.so_far)), tuple(read_finished(self.so_far))),
            is_in_any_language=is_in_any_language,
            corrections=self._corrections(),
            earlier=self.earlier,
            by_hand=self.by_hand,
        )

    def _corrections(self) -> list[Correction] | None:
        if self.corrected is None:
            return None
        places = {turn.number: at for at, turn in enumerate((*self.earlier, *self.turns))}
        heard = ((places.get(number), one) for number, one in self.corrected)
        return [replace(one, at=at) for at, one in heard if at is not None]

    def pick_new(self, said: str, diary: str) -> str:
        """Return the part of a model's answer that is new to the daily memory."""
        if {turn.number for turn in self.turns} <= set(self.summarised):
            return ""
        return diary if self.prior or self.summarised else said
