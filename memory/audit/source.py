"""The source of a text written by a model, and everything that is compared with the text. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import log2

from msgspec import Struct
from msgspec.structs import replace

from memory.audit.conditions import (
    Condition,
    Refusal,
    StatedException,
    find_conditions,
    find_exceptions,
    find_refusals,
)
from memory.audit.deferred import Planned, PutOff, find_planned, find_put_off
from memory.audit.exchanged import Clauses
from memory.audit.made_up_orders import Ban, find_bans, find_grants
from memory.audit.represented_requests import list_tasks
from memory.audit.roles import TwoSided, list_deeds
from memory.audit.superseded import (
    SupersededValue,
    find_stale_values,
    find_superseded,
    has_same_measure_word,
    keeps_old_value,
)
from memory.audit.turned import Bound, ComparedSides, Turnable, list_bounds, list_compared
from memory.audit.unsettled import (
    Order,
    Rejected,
    Unsettled,
    find_left_out,
    find_options,
    find_orders,
    find_rejected,
    find_unsettled,
)
from memory.corrections.corrected import SAID, choose_certain, find_omitted, find_stale
from memory.corrections.ended_values import EndedByPerson, EndedValue, has_old_value, with_commands
from memory.corrections.finder import Correction, find_corrections, in_force
from memory.patterns import lazy
from memory.text.receipt import Receipt, SourceFacts, sentence_with
from memory.text.requests import NONE, PersonRequest, Requests, find_done_requests, find_requests
from memory.text.wording import WordIndex, is_wide, languages_of, shared, split_sentences, stems
from memory.turns import Turn

_MUCH_SAID = 30  # words of a source from which on a summary must share some
_FEW_STEMS = 100  # in a source that shares few words with any text by chance;
_LEAST_SHARED, _PER_DOUBLING, _MOST_SHARED = 0.18, 0.075, 0.4  # a longer one shares more
_NEW = 6  # words of a sentence of which almost all are new
_NEXT_TO_NONE = 1 / 8
_SEVERAL = 3  # turns
_LIKE = 0.4  # the share of a line's words that a text about the same has
_CAPITAL = lazy(r"\b[A-ZÀ-ÖØ-Þ]\w{3,60}")


class AuditSource(Struct, frozen=True, dict=True):
    """The source of a text, and all that is compared with it, computed once for several attempts:
    messages of people and replies, oldest first, arguments of tool calls, and the summary so far,
    with the requests in it that are `known`. `tokens` is its size (0: unknown).
    `is_in_any_language`: a person has named the language to write in. `corrections` are those in
    the turns and in the `earlier` turns, which are summarised already, with their positions among
    both (None: they are computed); `by_hand` are values that a command has ended."""

    asked: Sequence[str]
    answered: Sequence[str] = ()
    tokens: int = 0
    touched: Sequence[str] = ()
    prior: str = ""
    turns: Sequence[Turn] = ()
    known: Requests = NONE
    is_in_any_language: bool = False
    corrections: Sequence[Correction] | None = None
    earlier: Sequence[Turn] = ()
    by_hand: Sequence[EndedByPerson] = ()

    def prepare(self) -> None:
        """Compute everything that is compared, before there is a text to compare. It takes most of
        the time of an audit."""
        _ = self.facts.text, self.languages, self.stems, self.requests, self.current, self.bans
        _ = self.deeds, self.superseded, self.clauses, self.rejected, self.orders
        _ = self.put_off, self.exceptions, self.refusals, self.bounds, self.turnable
        _ = self.two_sided, self.conditions, self.planned, self.compared
        _ = self.options, self.unsettled
        self.facts.prepare()

    @cached_property
    def facts(self) -> SourceFacts:
        prior = [self.prior] if self.prior else []
        return SourceFacts(self.asked, [*prior, *self.answered], self.touched)

    @cached_property
    def languages(self) -> frozenset[str]:
        if self.is_in_any_language:
            return frozenset()
        texts = [*self.asked, *self.answered, *([self.prior] if self.prior else [])]
        return languages_of(texts)

    @cached_property
    def stems(self) -> set[str]:
        return self._words_of.stems(self.facts.texts)

    @cached_property
    def requests(self) -> Requests:
        return find_requests(self.turns, self.known, self._words_of)

    @cached_property
    def deeds(self) -> list[PersonRequest]:
        return find_done_requests(self.turns, self._words_of)

    @cached_property
    def bans(self) -> list[Ban]:
        return find_bans(self._pairs)

    @cached_property
    def grants(self) -> list[frozenset[str]]:
        return find_grants(self._said) if self.bans else []

    @cached_property
    def superseded(self) -> list[SupersededValue]:
        return find_superseded(self._pairs, self._words_of)

    @cached_property
    def rejected(self) -> list[frozenset[str]]:
        return find_rejected(self._pairs)

    @cached_property
    def orders(self) -> list[Order]:
        return find_orders(self._pairs, self.bans)

    @cached_property
    def exceptions(self) -> list[StatedException]:
        return find_exceptions(self.asked)

    @cached_property
    def conditions(self) -> list[Condition]:
        return find_conditions(self.asked)

    @cached_property
    def compared(self) -> list[ComparedSides]:
        return list_compared(self.clauses)

    @cached_property
    def options(self) -> list[Rejected]:
        return find_options(self._pairs, self.clauses)

    @cached_property
    def unsettled(self) -> list[Unsettled]:
        return find_unsettled(self._pairs, self.clauses)

    @cached_property
    def planned(self) -> list[Planned]:
        return find_planned(self._pairs)

    @cached_property
    def put_off(self) -> list[PutOff]:
        return find_put_off(self._pairs)

    @cached_property
    def refusals(self) -> list[Refusal]:
        return find_refusals([*self.asked, *self.answered])

    @cached_property
    def clauses(self) -> Clauses:
        return Clauses(self.facts.texts, len(self.asked))

    @cached_property
    def bounds(self) -> Mapping[tuple[str, bool], Sequence[Bound]]:
        return list_bounds(self.clauses)

    @cached_property
    def two_sided(self) -> list[TwoSided]:
        return list_deeds(self.asked, self.answered)

    @cached_property
    def turnable(self) -> Turnable:
        return Turnable(self.clauses)

    @cached_property
    def current(self) -> list[Correction]:
        """The corrections in force, of values that a person has plainly ended."""
        return choose_certain(self._corrections, self._said)

    def receipt(self, text: str) -> Receipt:
        """Return the receipt for a text, which says what it keeps of the source; nobody misses a
        value that was ended."""
        found = self.facts.receipt(text)
        missing = (fact for fact in found.missing if not has_old_value(fact, self.ended))
        return replace(found, missing=tuple(missing))

    def find_omitted(self, text: str) -> list[str]:
        """Return the sentences with current values, set by corrections, that a text does not
        have."""
        return find_omitted(text, self.current, self._said)

    def find_left_out(self, text: str) -> list[str]:
        """Return the orders of a person that still hold, and of which a text says nothing."""
        return find_left_out(text, self.orders)

    def find_dropped(self, text: str) -> list[str]:
        """Return the lines of the summary so far whose numbers, dates and identifiers are missing
        from a text that continues it. Tasks are left out, and so are lines about something that the
        text or a turn mentions, since their value may have changed."""
        missing = SourceFacts([], [self.prior], []).list_missing(text) if self.prior else []
        facts = [fact.text for fact in missing if fact.kind != "name"]
        if not facts:
            return []
        said = [stems(one) for one in (*split_sentences(text), *self.asked, *self.answered)]
        tasks = [one.text for one in (*self.known.open, *self.known.finished)]
        tasks += list_tasks(self.prior)
        lines = dict.fromkeys(sentence_with(one, [self.prior]).lstrip("-•*· ") for one in facts)
        return [
            line
            for line in filter(None, lines)
            if not any(one in line or line in one for one in tasks)
            if not _is_mentioned(stems(line), said)
        ]

    def find_stale(self, text: str) -> list[str]:
        """Return the current values for which a text has the corrected ones."""
        stale = [
            one
            for one in find_stale(text, self.current, self._said)
            if not keeps_old_value(self._pairs[one.at][1], one.old, one.new)
            and has_same_measure_word(text, one.old, self._said[one.at])
        ]
        corrected = [f"{one.new} ({one.old} was corrected)" for one in stale]
        return corrected or find_stale_values(text, self.superseded)

    @cached_property
    def ended(self) -> list[EndedValue]:
        """The ended values. Those that a person has not plainly ended are marked; those of the
        earlier turns were marked in their summary already."""
        plain = {(one.old, one.new) for one in self.current}
        heard = (
            (self._source_turns[one.at], one)
            for one in in_force(self._corrections)
            if one.at >= len(self.earlier) or (one.old, one.new) in plain
        )
        values = [
            (
                turn.entries[0].at.timestamp(),
                EndedValue(
                    *(one.old, one.new, turn.number, SAID, one.topic, one.is_shared),
                    is_marked=(one.old, one.new) not in plain,
                    others=one.others,
                ),
            )
            for turn, one in heard
        ]
        return with_commands(values, self.by_hand)

    @property
    def _source_turns(self) -> Sequence[Turn]:
        return (*self.earlier, *self.turns)

    @cached_property
    def _pairs(self) -> list[tuple[str, str]]:
        return [
            (one.question.text, one.reply.text if one.reply else "") for one in self._source_turns
        ]

    @cached_property
    def _said(self) -> list[str]:
        return [turn.question.text for turn in self._source_turns]

    @cached_property
    def _corrections(self) -> Sequence[Correction]:
        if self.corrections is not None:
            return self.corrections
        replies = [turn.reply.text if turn.reply else "" for turn in self._source_turns]
        return find_corrections(self._said, replies)

    @cached_property
    def _words_of(self) -> WordIndex:
        return WordIndex()

    def count_new(self, text: str, facts: Sequence[str]) -> int:
        """Return the number of sentences of a text that have one of these facts and almost no word
        of the source."""
        told = (one for one in split_sentences(text) if any(fact in one for fact in facts))
        of_each = ((stems(one), _NEW * (1 + is_wide(one))) for one in told)
        return sum(
            len(words) >= least and self.share(words) <= _NEXT_TO_NONE for words, least in of_each
        )

    @property
    def least_share(self) -> float:
        """The share of a text's words that a source of this length has by chance."""
        doubled = max(0.0, log2(max(1, len(self.stems)) / _FEW_STEMS))
        return min(_MOST_SHARED, _LEAST_SHARED + _PER_DOUBLING * doubled)

    def own_words(self, text: str) -> set[str]:
        """Return the content words of a text without the names of the source: any story may use a
        name."""
        folded = text.casefold()
        names = [fact for fact in self.facts.list_names() if fact.casefold() in folded]
        if "de" not in self.languages:  # in German every noun has a capital
            names += [one for one in set(_CAPITAL.findall(text)) if self.facts.is_name(one)]
        return stems(text) - stems(" ".join(names))

    def share(self, said: set[str]) -> float:
        """Return the share of these words that the source has."""
        return len(shared(said, self.stems)) / len(said) if said else 1.0

    def is_of_last_turn(self, text: str) -> bool:
        """Return whether a text has words of the last of several turns, and of no other turn."""
        if len(self.turns) < _SEVERAL:
            return False
        *before, last = ((t.question.text, t.reply.text if t.reply else "") for t in self.turns)
        stems_of = self._words_of.stems
        earlier = stems_of(text for pair in before for text in pair)
        said = stems(text)
        only_last = shared(said, stems_of(last)) - earlier
        return bool(only_last) and not shared(said, earlier)

    def has(self, said: set[str], least: int) -> bool:
        """Return whether the source has at least `least` of these words, or is short."""
        return len(self.stems) < _MUCH_SAID or len(shared(said, self.stems)) >= least

    @cached_property
    def distinct_words(self) -> int:
        return len({*re.findall(r"[^\W\d_]{1,12}", self.facts.text[:100_000])})


def _is_mentioned(words: set[str], said: Sequence[set[str]]) -> bool:
    """Return whether one of several texts is about the same as a line of these words."""
    return any(len(shared(words, one)) >= max(1, _LIKE * len(words)) for one in said)
