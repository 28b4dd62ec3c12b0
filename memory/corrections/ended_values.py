"""Texts with corrected values replaced by the current ones, and marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from memory.corrections.sentences import QUOTED, content_words
from memory.messages import Role
from memory.patterns import lazy
from memory.text.values import NO_NAMES, Value, find_values
from memory.turns import Entry

OLD = "[the old value]"
"""The words in place of the old value if the new one is beside it."""

_NEAR = 24  # characters beside a value
_WHOLE = frozenset(("url", "address", "path", "identifier"))
_CAPITAL = r"[A-ZÀ-ÖØ-Þ][\w'’]+"
_NEXT_NAME = lazy(rf"[ \t]({_CAPITAL})")
_NAME_BEFORE = lazy(rf"[\w,][ \t]({_CAPITAL})[ \t]$")  # the first word has a capital anyhow
_BESIDE = lazy(r"[\d,;.!?，；。！？、\n]|\b(?:and|or|und|oder)\b|和")
_OF_ONE_THING = 6  # digits from which on an identifier is unique
_AROUND = 400  # characters of a sentence on each side of a value


class EndedValue(Struct, frozen=True):
    """A value that a person ended in a turn, by the message of this seq, and its replacement.
    `topic` are words of its topic. If other sentences use the old value for something else
    (`is_shared`), only a sentence with one of these words is concerned, and none with a word of
    `others`. From the message
    `said_again` on (0: none), the old value may refer to something else."""

    old: str
    new: str
    turn: int
    seq: int
    topic: frozenset[str] = frozenset()
    is_shared: bool = False
    said_again: int = 0
    is_marked: bool = True
    others: frozenset[str] = frozenset()

    @property
    def mark(self) -> str:
        if not self.is_marked:
            return self.new
        return f"{self.new} (corrected in t{self.turn})" if self.turn else f"{self.new} (corrected)"

    def concerns(self, role: Role, seq: int) -> bool:
        """Return whether the value is replaced in a message of this role and seq. A person's later
        messages keep it, since the person uses it knowingly."""
        if role not in ("user", "assistant"):
            return False
        is_later = seq > self.seq
        return not is_later or (role == "assistant" and not 0 < self.said_again < seq)


def supersede(before: EndedValue, after: EndedValue) -> EndedValue | None:
    """Return the rest of an ended value after a later one: its replacement is updated, and it is
    None if it is in force again or was ended again."""
    if before.is_shared and after.is_shared and before.topic.isdisjoint(after.topic):
        return before
    if _is_same(before.old, after.old) or _is_same(before.old, after.new):
        return None
    return replace(before, new=after.new) if _is_same(before.new, after.old) else before


def _is_same(one: str, other: str) -> bool:
    """Return whether two values are the same, in any form."""
    return not _keys(one).isdisjoint(_keys(other))


@lru_cache(maxsize=4_096)  # many are compared with each other
def _keys(value: str) -> frozenset[object]:
    """Return a set that has something in common with that of each value that is the same."""
    found = [one for one in _values_of(value) if one.kind != "name"]
    is_one = len(found) == 1 and len(found[0].text) >= len(value.strip()) - 1
    forms = ((one.kind, form) for one in found[:is_one] for form in one.forms)
    return frozenset((value.strip().casefold(), *forms))


class EndedByPerson(Struct, frozen=True):
    """A value that a person ended in messages up to a time (Unix): by a command in all
    conversations, or in a message of a `conversation` in that one."""

    value: EndedValue
    until: float
    conversation: str = ""

    def is_in(self, times: Mapping[int, float]) -> bool:
        """Return whether it is in a message of these times, by seq. Another conversation has other
        messages with the same seqs."""
        return abs(times.get(self.value.seq, 0.0) - self.until) < 1


def choose_ended(
    ended: Sequence[EndedByPerson], entries: Sequence[Entry], *, has_prior: bool
) -> Iterator[EndedByPerson]:
    """Yield the values that a summary of these entries must not have: no person has used them
    since, and entries, or others that were summarised before, are older. A value that was ended in
    the same conversation is in none of the entries otherwise."""
    texts = [(e.at.timestamp(), e.message.role, e.message.text) for e in entries]
    keys = [frozenset[object]()] * len(texts)  # of the values of a text

    def has(at: int, old: str) -> bool:
        text = texts[at][2]
        keys[at] = keys[at] or frozenset(
            ("", *((one.kind, form) for one in find_values(text) for form in one.forms))
        )
        return not keys[at].isdisjoint(_keys(old)) or old.casefold() in text.casefold()

    for one in ended:
        later = [at for at, (time, _role, _text) in enumerate(texts) if time > one.until]
        is_older = has_prior or len(later) < len(texts)
        if is_older or one.conversation:
            wanted = [at for at in later if not is_older or texts[at][1] == "user"]
            if not any(has(at, one.value.old) for at in wanted):
                yield one


def with_commands(
    heard: Sequence[tuple[float, EndedValue]], commands: Sequence[EndedByPerson]
) -> list[EndedValue]:
    """Return the values ended in a chat at these times, and those ended by commands or in later
    turns, each updated by later ones."""
    found = [*update_by_commands(heard, commands)]
    for one in commands:
        later = [value for at, value in heard if at > one.until]
        found += _ended_by(replace(one.value, is_marked=one.value.turn > 0), later)
    return found


def update_by_commands(
    heard: Iterable[tuple[float, EndedValue]], commands: Sequence[EndedByPerson]
) -> Iterator[EndedValue]:
    """Yield the values ended at these times, each updated by later commands."""
    for at, value in heard:
        yield from _ended_by(value, (one.value for one in commands if at <= one.until))


def _ended_by(value: EndedValue, later: Iterable[EndedValue]) -> Iterator[EndedValue]:
    """Yield the rest of a value after later ones, if there is any."""
    for one in later:
        if (left := supersede(value, one)) is None:
            return
        value = left
    yield value


def show_corrected(
    text: str, ended: Sequence[EndedValue], role: Role = "user", seq: int = 0
) -> str:
    """Return a message's text with ended values replaced by those in force. Without a seq, the text
    is older than all corrections."""
    concerned = [one for one in ended if one.concerns(role, seq)]
    if not concerned:
        return text
    places: list[tuple[int, int, str]] = []
    taken = bytearray(len(text))
    values = find_values(text)
    for one in concerned:
        holds = bytearray(len(text))  # the new value may contain the old one: Ann, Ann Lee
        for start, end in find_places(text, one.new, values):
            holds[start:end] = b"\1" * (end - start)
        for start, end in find_changeable(text, one.old, one.topic, values):
            if all(holds[start:end]) or any(taken[start:end]):
                continue
            sentence = _sentence_at(text, start, end)
            is_beside = 0 < one.seq <= seq and (seq == one.seq or one.new in sentence)
            is_of_several = one.is_shared and not is_of_one_thing(one.old) and not is_beside
            own = content_words(sentence) if is_of_several or one.others else frozenset[str]()
            if is_of_several and one.topic.isdisjoint(own):
                continue
            if not one.others.isdisjoint(own):
                continue
            taken[start:end] = b"\1" * (end - start)
            places.append((start, end, OLD if is_beside else one.mark))
    shown, done = [], 0
    for start, end, words in sorted(places):
        shown += [text[done:start], words]
        done = end
    return "".join((*shown, text[done:]))


@lru_cache(maxsize=256)
def is_of_one_thing(value: str) -> bool:
    """Return whether a value is an address, a path, or a number such as a phone number. Only one
    thing has it, so each sentence with it is about the same thing."""
    kinds = {one.kind for one in _values_of(value)} or {""}
    is_long = sum(map(str.isdigit, value)) >= _OF_ONE_THING
    return kinds <= {"url", "address", "path"} or (kinds == {"identifier"} and is_long)


def has_old_value(text: str, ended: Iterable[EndedValue]) -> bool:
    """Return whether a text has an ended value."""
    values = find_values(text)
    return any(find_changeable(text, one.old, one.topic, values) for one in ended)


def find_changeable(
    text: str, value: str, topic: Set[str] = frozenset(), values: Sequence[Value] | None = None
) -> list[tuple[int, int]]:
    """Return the places of a value that a correction may change. Places in code, quotations, and
    longer addresses, paths or names are excluded. Of a number that a sentence has several times,
    only the places beside a word of `topic` are returned."""
    values = find_values(text) if values is None else values
    places = [*find_places(text, value, values)]
    if not places:
        return []
    kept = bytearray(len(text))
    for one in QUOTED.finditer(text):
        if (one.start() + 1, one.end() - 1) not in places or text[one.start()] != "`":
            kept[one.start() : one.end()] = b"\1" * (one.end() - one.start())
    for long in values:
        if long.kind in _WHOLE and not any(a <= long.start and long.end <= b for a, b in places):
            kept[long.start : long.end] = b"\1" * (long.end - long.start)
    free = [(start, end) for start, end in places if not any(kept[start:end])]
    kinds = {one.kind for one in _values_of(value)}
    if kinds <= {"name"} and not value[:1].islower():
        return [place for place in free if not _is_in_longer_name(text, *place)]
    return _is_near_topic(text, free, topic) if value.strip().isdigit() else free


def _is_in_longer_name(text: str, start: int, end: int) -> bool:
    """Return whether a name is part of a longer one: Tim Cook, tim@x.org, Porto-Alegre."""
    before, behind = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    if re.search(r"[/\\@#_]$|[\w.][-.]$", before) or re.match(r"[/\\@_]|[-.]\w", behind):
        return True
    if (after := _NEXT_NAME.match(behind)) and after[1].casefold() not in NO_NAMES:
        return True
    word = _NAME_BEFORE.search(before)
    return word is not None and word[1].casefold() not in NO_NAMES


def _is_near_topic(
    text: str, places: Sequence[tuple[int, int]], topic: Set[str]
) -> list[tuple[int, int]]:
    found = []
    for start, end in places:
        sentence = _sentence_at(text, start, end)
        is_said_once = len(re.findall(rf"(?<!\d){re.escape(text[start:end])}(?!\d)", sentence)) < 2
        beside = content_words(_BESIDE.split(text[end : end + _NEAR])[0]) or content_words(
            _BESIDE.split(text[max(0, start - _NEAR) : start])[-1]
        )
        if is_said_once or not beside or not topic.isdisjoint(beside):
            found.append((start, end))
    return found


def find_places(
    text: str, value: str, values: Sequence[Value] | None = None
) -> Iterator[tuple[int, int]]:
    """Find a value in a text, as written or in another form. `values` are the text's values, if
    known."""
    wanted = [one for one in _values_of(value) if one.kind != "name"]
    if len(wanted) == 1 and len(wanted[0].text) >= len(value.strip()) - 1:
        for one in find_values(text) if values is None else values:
            if one.text == f"{value.strip()}号":  # of a day, or of a house
                yield one.start, one.end - 1
            elif one.is_same(wanted[0]):
                yield one.start, one.end
        if wanted[0].kind not in ("identifier", "path", "url", "address"):
            return
    head, tail = (r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])")
    pattern = re.escape(value.strip())
    for found in re.finditer(f"{head}{pattern}{tail}", text, re.IGNORECASE):
        yield found.span()


@lru_cache(maxsize=256)  # each is looked for in many sentences
def _values_of(value: str) -> tuple[Value, ...]:
    return tuple(find_values(value))


def occurs_once(text: str, value: str) -> bool:
    """Return whether a text has a value exactly once."""
    return len({*find_places(text, value)}) == 1


def _sentence_at(text: str, start: int, end: int) -> str:
    signs = (". ", "! ", "? ", "\n", "。", "！", "？")
    begin, stop = max(0, start - _AROUND), min(len(text), end + _AROUND)
    first = max(max(text.rfind(sign, begin, start) for sign in signs), begin - 1)
    ends = [place for sign in signs if (place := text.find(sign, end, stop)) >= 0]
    return text[first + 1 : min(ends, default=stop)]
