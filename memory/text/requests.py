"""Requests of a person in turns: finished ones and open ones. Found without a model, by their
wording and by the following messages. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from memory.text.request_signs import (
    DONE,
    LATER,
    NO_REQUEST,
    PROMISES,
    QUESTIONS,
    SHOWN,
    asks,
    declines,
    ends_with_question,
    is_postponed,
    leaves_unfinished,
    may_ask,
    only_promises,
    postpones,
    promises,
    reports_action,
)
from memory.text.wording import WordIndex, shared, split_sentences, stems
from memory.turns import Turn

MOST = 12
"""The maximum number of requests of each kind that are listed: the newest."""
_LOOKED_AT = 4_000  # characters of a message that are searched, from both ends
LIKE = 0.6  # of the content words: two requests are the same
_FILLERS = frozenset(
    ("überl", "heute", "etwas", "jetzt", "somet", "someb", "today", "maybe", "nicht")
)
_CLEAR = 3  # content words of a request; with fewer, the sentence before is added


class PersonRequest(Struct, frozen=True, dict=True):
    """A request: its turn (0: only a summary has it), the person's words, the stems of these words,
    and the stems of the request and its answer, by which it is found again. `marks` are the words
    of the request that no other turn has; they tell an open request from others."""

    turn: int
    text: str
    own: frozenset[str] = frozenset()
    about: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()

    @cached_property
    def heads(self) -> frozenset[str]:
        """The beginnings with which `shared` compares shorter words."""
        return frozenset(word[:4] for word in self.own)

    @property
    def line(self) -> str:
        return f"t{self.turn}: {self.text}" if self.turn else self.text


class Requests(NamedTuple):
    """The requests in turns, oldest first."""

    open: tuple[PersonRequest, ...] = ()
    finished: tuple[PersonRequest, ...] = ()


NONE = Requests()


def find_requests(
    turns: Sequence[Turn], known: Requests = NONE, words_of: WordIndex | None = None
) -> Requests:
    """Find the requests of turns in order, after the `known` ones. A request is finished once it
    was answered with neither a question nor a mere promise. It is open if it was postponed, only
    promised, or answered with a question."""
    is_open, finished = list(known.open), list(known.finished)
    pending: list[PersonRequest] = []  # answered with a question; the next turn may finish them
    replies: dict[int, str] = {}
    words_of = words_of or WordIndex()
    for turn, following in pairwise((*turns, None)):
        if turn is None:
            continue
        asked = _ends(turn.question.text)
        reply = _ends(turn.reply.text) if turn.reply else ""
        made = _requests_in(turn.number, asked, words_of(asked))
        replies[turn.number] = reply
        if not (made or pending) and promises(reply, words_of.heads(reply)):
            said = frozenset(stems(asked))
            made = [PersonRequest(turn.number, _shorten(asked), said)] if said else []
        heads = words_of.heads(asked)
        is_all_later = bool(made) and is_postponed(asked, reply, heads)
        put_off = [one for one in made if is_all_later or LATER.is_in(one.text, heads)]
        now = [*pending, *(one for one in made if one not in put_off)]
        is_open, finished = _not_like(is_open, made), _not_like(finished[-MOST:], made)
        done = _find_completed(is_open, asked, reply, words_of) if reply else []
        finished += done
        is_open = [*(one for one in is_open if one not in done), *put_off][-2 * MOST :]
        pending = []
        if not now:
            continue
        heads = words_of.heads(reply)
        wanted = words_of.stems((asked,))
        if not reply or postpones(reply, heads) or only_promises(reply, heads, wanted):
            is_open += now
        elif ends_with_question(reply) or (
            following and leaves_unfinished(reply, _said(following))
        ):
            pending = now
        elif not declines(reply):
            finished += now
    told = [_with_answer(one, replies) for one in [*is_open, *pending][-MOST:]]
    over = tuple(_with_answer(one, replies) for one in finished[-MOST:])
    return Requests(_with_marks(told, turns), over)


def _with_marks(found: Sequence[PersonRequest], turns: Sequence[Turn]) -> tuple[PersonRequest, ...]:
    """Return open requests with the words of theirs that no other turn has."""
    left = [set(one.own) for one in found]
    for turn in turns if found else ():
        said = turn.question.text + (turn.reply.text if turn.reply else "")
        folded = said[: 2 * _LOOKED_AT].casefold()
        for one, words in zip(found, left, strict=True):
            if one.turn != turn.number:
                words -= {word for word in words if word in folded}
    return tuple(
        replace(one, marks=frozenset(words)) for one, words in zip(found, left, strict=True)
    )


def make_request(turn: int, text: str) -> PersonRequest:
    """Return a request with these words alone."""
    said = frozenset(stems(text))
    return PersonRequest(turn, text, said, said)


def as_text(found: Requests) -> str:
    """Return the requests as text for the summarising model; "" if there are none."""
    parts = []
    if found.open:
        parts.append("Open requests:\n" + "\n".join(f"- {one.line}" for one in found.open))
    if found.finished:
        lines = "\n".join(f"- {one.line}" for one in found.finished)
        parts.append(f"Finished, not to be done again:\n{lines}")
    return "\n\n".join(parts)


def find_done_requests(
    turns: Sequence[Turn], words_of: WordIndex | None = None
) -> list[PersonRequest]:
    """Return as requests the messages, in any wording, whose reply says that something was done."""
    found, words_of = [], words_of or WordIndex()
    for turn in turns:
        reply = turn.reply.text[:_LOOKED_AT] if turn.reply else ""
        if reports_action(reply, words_of.heads(reply)) and not PROMISES.pattern.search(reply):
            about = frozenset(stems(_ends(turn.question.text)) | stems(reply))
            found.append(PersonRequest(turn.number, _shorten(turn.question.text), about, about))
    return found


def _with_answer(one: PersonRequest, replies: Mapping[int, str]) -> PersonRequest:
    """Return a request that was just found with the words of its answer added."""
    if one.about or one.turn not in replies:
        return one
    return replace(one, about=one.own | stems(replies[one.turn]))


def _requests_in(turn: int, asked: str, words: Set[str]) -> list[PersonRequest]:
    """Return the requests in a person's message, which has these words, in order. A request that
    says little by itself ("Can you help?") gets the sentence before it."""
    has_cue = may_ask(asked, words)
    if not has_cue and QUESTIONS.isdisjoint(asked):
        return []
    sentences, found = split_sentences(asked), list[PersonRequest]()
    for number, sentence in enumerate(sentences):
        is_question = not QUESTIONS.isdisjoint(sentence)
        if not (is_question or (has_cue and asks(sentence))) or NO_REQUEST.match(sentence):
            continue
        said = frozenset(stems(sentence))
        if len(said - _FILLERS) < _CLEAR and number:
            sentence = f"{sentences[number - 1]} {sentence}"
            said = frozenset(stems(sentence))
        if said:
            found.append(PersonRequest(turn, _shorten(sentence), said))
    return found


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _find_completed(
    known: list[PersonRequest], asked: str, reply: str, words_of: WordIndex
) -> list[PersonRequest]:
    """Return the requests that a later turn is about and reports as done."""
    if not known or not any(DONE.may_be_in(text, words_of.heads(text)) for text in (asked, reply)):
        return []
    said = f"{asked} {reply}"
    words = words_of.stems((asked, reply))
    found = [one for one in known if one.own and _is_like(one, words)]
    return found if found and DONE.pattern.search(said) and not ends_with_question(said) else []


def _not_like(known: list[PersonRequest], made: list[PersonRequest]) -> list[PersonRequest]:
    """Return the requests that none of the new ones repeats."""
    if not made:
        return known
    return [one for one in known if not any(_is_like(one, new.own) for new in made)]


def _is_like(one: PersonRequest, words: Set[str]) -> bool:
    """Return whether most content words of a request are among these words."""
    if one.own.isdisjoint(words) and one.heads.isdisjoint(words):
        return False
    return len(shared(one.own, words)) >= LIKE * max(1, len(one.own))


def _said(turn: Turn) -> str:
    return turn.question.text.strip()[:200]


def _ends(text: str) -> str:
    """Return the text; of a long one, its beginning and its end."""
    half = _LOOKED_AT // 2
    return text if len(text) <= _LOOKED_AT else f"{text[:half]}\n{text[-half:]}"
