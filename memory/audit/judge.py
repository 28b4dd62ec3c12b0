"""The audit of texts written by models: it decides whether a text may replace its source. The text
is a summary, a line of the activity log, or a line of the long-term memory; it may be all that is
left of the source.

The audit does not understand texts, and calls no model. It recognises texts that are not summaries
(`shapes.py`), and compares the others with the source: language, names and numbers, words,
corrections, and requests. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from memory.audit.conditions import find_consent, find_unconditional, find_unconditioned
from memory.audit.deferred import find_told_as_done, find_too_early
from memory.audit.exchanged import Clauses, find_exchanged
from memory.audit.made_up_orders import find_made_up, find_permitted
from memory.audit.moved import find_moved, find_new_days
from memory.audit.polarity import find_joined, find_newly_denied, find_stated
from memory.audit.represented_requests import (
    find_lost_requests,
    find_restated,
    find_told_finished,
    list_unbacked,
)
from memory.audit.roles import find_exchanged_roles, find_other_owners
from memory.audit.source import AuditSource
from memory.audit.tied import find_untied
from memory.audit.turned import find_turned_bounds, find_turned_comparisons
from memory.audit.unsettled import find_affirmed, find_chosen, find_decided, find_weakened
from memory.patterns import lazy
from memory.text import shapes
from memory.text.receipt import Receipt, SourceFacts
from memory.text.wording import language_of, split_sentences

Level = Literal["strict", "warn", "off"]
"""The values of the setting `context.summary_audit`."""

REASONS: Mapping[str, str] = {
    "empty": "it says nothing",
    "call": "it is the call of a tool",
    "refusal": "it is a refusal",
    "longer": "it is longer than what it replaces",
    "cut": "it breaks off",
    "thoughts": "it contains the model's reasoning",
    "template": "it is a form that was not filled in",
    "loop": "it repeats itself",
    "answer": "it continues the conversation",
    "language": "it is in another language than the conversation",
    "short": "it is one line for thousands of tokens",
    "topic": "it is about something other than the turns",
    "facts": "it has almost none of the names and numbers",
    "dropped": "it drops much of the summary before it",
    "invented": "it says things that nobody said",
    "ordered": "it contains an instruction that nobody gave",
    "permitted": "it allows what was forbidden",
    "weakened": "it weakens an instruction",
    "swapped": "it mixes up two things",
    "corrected": "it gives a value that has been corrected",
    "affirmed": "it says that something rejected was agreed",
    "condition": "it drops the exception of a statement",
    "undone": "it presents as done what was put off",
    "restated": "it lists something finished as a task",
    "open": "it leaves out what is still open",
    "orders": "it omits an instruction that still applies",
    "missing": "it has too few of the names and numbers",
    "small": "the model is too small to write summaries",
    "failed": "the model gave no answer",
    "spent": "the spending limit of this month is used up",
}
"""The findings by name. The texts are the ends of sentences shown to people and to the model."""
NEVER_WRITTEN = frozenset(("small", "failed", "spent"))
"""The findings of summaries that were not written by a model."""
ALWAYS = NEVER_WRITTEN | {"empty", "call", "refusal", "longer"}
"""The findings with which a text is rejected at every level."""
MENDED = frozenset(("open", "orders", "missing"))
"""The findings that keep nothing from being taken: what is open, and what holds, is added to the
text."""

_NEXT_TO_NONE = 1 / 8
"""The share of facts at or below which a text is rejected, unless it is about the same topic. A
good summary may state few facts in the same form: a name may be inflected, and "noon" may be
written for 12:00."""
_TELLING = 4  # facts from which on a source is judged, however short it is
_MANY = 16  # facts of which a summary has to keep at least one, however it is worded
_TOLD_BEFORE = 6  # facts of the previous summary from which on it is compared
_LEAST_OF_BEFORE = 0.7, 0.4  # share of them to keep; the second if the text is no shorter
_FALSE = 2  # false numbers from which on a text is rejected, unless as many are true
_INVENTED = 3  # invented facts from which on a text is rejected,
_INVENTED_SHARE = 1 / 2  # unless as many of its facts are in the source
_PEOPLE = 2  # the same for names
_PEOPLE_SHARE = 1 / 4
_NEW_WEIGHT = 3  # of a sentence whose words are almost all new
_NAMED, _COUNTED = 4, 3
"""The weights of invented names and of invented numbers from which on a text is rejected, however
many facts it states. A name of several words weighs more, as does a number that is long, has a
unit, or is a slip."""
_MUCH = 2_000  # tokens of a source for which one short line is too little,
_WORDS = 50  # unless it repeats fewer than this many words
_LINE_SHARE = 100  # one line must have at least one token per this many tokens
_LONG_LINE = 60  # tokens from which on a line may be a summary of any source
_JUDGED = 9  # content words from which on the topic is compared
_MUCH_SAID = 30  # words of a source from which on a summary must share some
_DIALOGUE = 1 / 2  # the least share of a dialogue's words that must be in the source
_LINES_MAY = frozenset(("empty", "cut", "loop"))
_CJK = lazy(r"[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_LAST_WORD = lazy(r"([^\W\d_]{2,20})\Z")


class Flaw(Struct, frozen=True):
    """A fault of a text: its name in REASONS, and the parts of the source that are wrong or
    missing."""

    kind: str
    what: tuple[str, ...] = ()


class Candidate(Struct, frozen=True):
    """A text written by a model, and its tokens; `finish` says how it ended, as in
    `agent.models.base`."""

    text: str
    tokens: int
    finish: str = "complete"


class Audit(Struct, frozen=True):
    """The flaws of a text, and the receipt of the facts that it kept."""

    findings: tuple[Flaw, ...] = ()
    receipt: Receipt = Receipt()

    def accepts(self, level: Level = "strict") -> bool:
        """Return whether the text is accepted at a level of the setting."""
        kinds = {finding.kind for finding in self.findings}
        return not (kinds - MENDED if level == "strict" else kinds & ALWAYS)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(finding.kind for finding in self.findings)

    @property
    def rank(self) -> tuple[int, float]:
        """The sort key for quality: the better of two audits has the higher rank."""
        return -len(set(self.kinds) - MENDED), self.receipt.share


def audit(candidate: Candidate, source: AuditSource, least_kept: float = 0.0) -> Audit:
    """Audit a text. `least_kept` is the share of facts below which a model is asked again."""
    text = candidate.text.strip()
    lines = shapes.list_content(text)
    receipt = source.facts.receipt(text)
    if source.tokens and candidate.tokens >= source.tokens:
        return Audit((Flaw("longer"),), receipt)
    kind = shapes.find_kind(text, candidate.finish, receipt)
    if kind and not (kind == "loop" and shapes.is_loop(source.facts.text)):  # so is the source
        return Audit((Flaw(kind),), receipt)
    checks = (
        _check_end(text, source),
        _check_size(candidate, lines, source),
        _check_language(text, source),
        _check_facts(text, source, receipt),
        _check_topic(text, source),
        _check_orders(text, source),
        _check_answer(text, source),
        _check_exchanged(text, source),
        _check_corrections(text, source),
        _check_requests(text, source),
    )
    found = [finding for some in checks for finding in some]
    if not found and receipt.share < least_kept:
        found.append(Flaw("missing", receipt.missing))
    return Audit(tuple(found), receipt)


def audit_line(line: str, source: AuditSource) -> Audit:
    """Audit a line made from a source: a turn's line in the activity log, or a line of the
    long-term memory. It may end in any way, and state few facts."""
    kind = shapes.find_kind(line, "complete", Receipt())
    if kind in _LINES_MAY:
        kind = ""
    if not kind and len(SourceFacts([line], [], []).facts) >= _PEOPLE:
        new = source.facts.find_invented(line)
        is_invented = len(new.all) >= _PEOPLE and len(new.all) * 2 > new.told
        kind = "invented" if is_invented else ""
    return Audit((Flaw(kind),) if kind else ())


def _check_end(text: str, source: AuditSource) -> Sequence[Flaw]:
    """Find a text that breaks off: its last word is the beginning of a word of the source. List
    items and labelled lines may end in any way; in Chinese and Japanese, words are not separated by
    spaces."""
    last = _LAST_WORD.search(text.casefold())
    if last is None or _CJK.search(last[1]) or len(split_sentences(text)) < 2:
        return []
    if shapes.needs_no_period(text):
        return []
    is_word = re.search(rf"\b{last[1]}\b", source.facts.text)
    begun = re.search(rf"\b{last[1]}[^\W\d_]{{3}}", source.facts.text)
    return [Flaw("cut")] if begun and not is_word else []


def _check_size(candidate: Candidate, lines: Sequence[str], source: AuditSource) -> Sequence[Flaw]:
    is_short = candidate.tokens < min(_LONG_LINE, source.tokens // _LINE_SHARE)
    if source.tokens < _MUCH or not is_short or len(lines) > 1:
        return []
    return [Flaw("short")] if source.distinct_words >= _WORDS else []


def _check_language(text: str, source: AuditSource) -> Sequence[Flaw]:
    language = language_of(text)
    is_other = language and source.languages and language not in source.languages
    return [Flaw("language")] if is_other else []


def _check_facts(text: str, source: AuditSource, receipt: Receipt) -> Sequence[Flaw]:
    is_judged = receipt.total >= _TELLING or (receipt.total and len(source.stems) >= _MUCH_SAID)
    is_bare = receipt.total >= _MANY and not receipt.kept
    if is_judged and receipt.share <= _NEXT_TO_NONE and (is_bare or not _is_about(text, source)):
        return [Flaw("facts", receipt.missing)]
    before = SourceFacts([], [source.prior], []).receipt(text)
    least = _LEAST_OF_BEFORE[len(text) >= len(source.prior)]
    if before.total >= _TOLD_BEFORE and before.share < least:
        return [Flaw("dropped", before.missing)]
    new = source.facts.find_invented(shapes.strip_labels(text))
    if len(new.names) >= _PEOPLE and len(new.names) > _PEOPLE_SHARE * new.told:
        return [Flaw("invented", new.names)]
    of_names, of_numbers = new.weights
    if of_names or of_numbers:
        of_names += _NEW_WEIGHT * source.count_new(text, new.all)
    if new.weights[0] >= _NAMED or (of_names and of_names + of_numbers >= _NAMED):
        return [Flaw("invented", new.all)]
    false = new.false_numbers
    if of_numbers >= _COUNTED:
        return [Flaw("invented", false)]
    is_all_false = bool(false) and len(false) == new.numbers and source.facts.has_numbers
    if is_all_false or (len(false) >= _FALSE and len(false) * 2 > new.numbers):
        return [Flaw("invented", false)]
    if len(new.all) >= _INVENTED and len(new.all) > _INVENTED_SHARE * new.told:
        return [Flaw("invented", new.all)]
    return []


def _check_topic(text: str, source: AuditSource) -> Sequence[Flaw]:
    """Find a text about something else: few of its words are in the source. For a text of few
    words: none are, although the source is long."""
    said = source.own_words(text)
    if len(said) >= _JUDGED and len(source.stems) >= _JUDGED:
        is_other = source.share(said) < source.least_share
    else:
        is_other = len(said) > 2 and not source.has(said, 1)
    return [Flaw("topic")] if is_other else []


def _is_about(text: str, source: AuditSource) -> bool:
    said = source.own_words(text)
    is_like = source.share(said) >= source.least_share and len(said) > 2
    return is_like and source.has(said, 2)


def _check_answer(text: str, source: AuditSource) -> Sequence[Flaw]:
    """Find a text that continues the conversation. The signs are its beginning and end, the person
    addressed, code, and words of the last turn alone; signs of a report count against it."""
    if shapes.is_dialogue(text) and source.share(source.own_words(text)) < _DIALOGUE:
        return [Flaw("answer")]
    signs = 2 * shapes.begins_an_answer(text) + shapes.offers_more(text)
    signs += shapes.addresses_reader(text) + 2 * shapes.is_mostly_code(text)
    signs += source.is_of_last_turn(text)
    return [Flaw("answer")] if signs - shapes.reports(text) >= 2 else []


def _check_orders(text: str, source: AuditSource) -> Sequence[Flaw]:
    if source.is_in_any_language or not source.stems:
        return []
    found = (
        ("ordered", find_made_up(text, source.stems, list_unbacked(text, source.requests))),
        ("permitted", find_permitted(text, source.bans, source.grants)),
        ("affirmed", find_affirmed(text, source.rejected)),
        ("weakened", find_weakened(text, source.orders)),
        ("orders", source.find_left_out(text)),
    )
    return [Flaw(kind, tuple(what)) for kind, what in found if what]


def _check_exchanged(text: str, source: AuditSource) -> Sequence[Flaw]:
    said, told = source.clauses, Clauses([text])
    exchanged = (
        find_exchanged(told, said)
        or find_moved(told, said)
        or source.turnable.find_turned(told)
        or find_turned_bounds(told, source.bounds)
        or find_exchanged_roles(text, source.two_sided)
        or find_other_owners(text, said)
        or find_turned_comparisons(told, said, source.compared)
        or find_untied(told, said)
    )
    found = (
        ("swapped", exchanged),
        ("affirmed", find_stated(told, said) or find_consent(text, source.refusals)),
        ("affirmed", find_joined(told, said)),
        ("affirmed", find_chosen(told, source.options)),
        ("undone", find_decided(told, source.unsettled)),
        ("condition", find_unconditional(text, source.exceptions)),
        ("condition", find_unconditioned(text, source.conditions)),
        ("invented", find_new_days(told, said) or find_newly_denied(told, said)),
        ("undone", find_told_as_done(text, source.put_off) or find_too_early(text, source.planned)),
    )
    return [Flaw(kind, tuple(what)) for kind, what in found if what]


def _check_corrections(text: str, source: AuditSource) -> Sequence[Flaw]:
    stale = source.find_stale(text)
    return [Flaw("corrected", tuple(stale))] if stale else []


def _check_requests(text: str, source: AuditSource) -> Sequence[Flaw]:
    found = source.requests
    restated = [one.line for one in find_restated(text, found, source.deeds)]
    lost = [one.line for one in find_lost_requests(text, found)]
    early = [one.line for one in find_told_finished(text, found)]
    kinds = (("restated", restated), ("undone", early), ("open", lost))
    return [Flaw(kind, tuple(lines)) for kind, lines in kinds if lines]
