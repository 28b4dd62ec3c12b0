"""The same as `moved`, for Chinese, whose words are not separated: a clause of a text that equals
one of the source but for a part, which stands elsewhere in the source. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile

from memory.audit.clauses import find_alike
from memory.audit.exchanged import Clauses
from memory.patterns import lazy
from memory.text.wording import is_wide

_LEAST = 3  # characters that both have,
_ALIKE = 0.5  # and their share of the clause
_PART = 2, 4  # characters of the part that differs
_MOST_FOUND = 4
_LONGEST = 40
_MOST_COMPARED = 2_000  # clauses, for one text
_VERBS = "等由给找跟请问让叫归"
"""Verbs before a person."""
_SUFFIX = lazy(
    r"饭店|酒店|公司|医院|大学|学校|银行|机场|车站|餐厅|超市|路|街|先生|女士|老师|师傅|经理|医生|律师|教授"
)
"""The sign behind the name of somebody or something."""
_EDGES = lazy(
    r"\A[\s\d.、·*-]{0,9}(?:用户|我们?(?![爸妈哥姐弟妹])|他们?|她们?|您|你)?的?"
    r"|[\s。！？!?.]{1,9}\Z"
)
_OPEN = lazy(r"[\d不没别无未最少多超以和与及或都也就在是的了要会可能已再]|[^\u4e00-\u9fff]")
"""Signs of a part that is no name of a person or a thing."""


def find_moved_wide(told: Clauses, said: Clauses) -> list[str]:
    """Return the clauses of the source of which a text says a part of somebody or something
    else."""
    found, room = dict[str, None](), _MOST_COMPARED
    whole = "\n".join(said.texts) if any(map(is_wide, told.texts)) else ""
    for at, text in enumerate(told.texts if whole else ()):
        mine = _EDGES.sub("", text)
        if not _LEAST < len(mine) <= _LONGEST or mine in whole:
            continue
        for place, _ in islice(find_alike(told.words[at], said), room):
            room -= 1
            theirs = _EDGES.sub("", said.texts[place])
            if any(_is_moved(*parts, said, whole) for parts in _differ(mine, theirs)):
                found[said.texts[place].strip()] = None
    return [*found][:_MOST_FOUND]


def _differ(mine: str, theirs: str) -> Iterator[tuple[str, str, str]]:
    """Yield the part in which a clause differs from another, that of the other, and the rest."""
    if len(theirs) > _LONGEST:
        return
    head = _count_same(mine, theirs)
    tail = _count_same(
        mine[: head - 1 if head else None : -1], theirs[: head - 1 if head else None : -1]
    )
    end = len(mine) - tail
    one, other = mine[head:end], theirs[head : len(theirs) - tail]
    if tail >= _LEAST and not head and theirs[0] in _VERBS and theirs[0] in mine[:end]:
        head = mine[:end].rfind(theirs[0]) + 1
        yield mine[head:end], theirs[1 : len(theirs) - tail], mine[end:]
        return
    rest = head + tail
    if rest >= max(_LEAST, _ALIKE * len(mine)) and one and other:
        yield one, other, mine[end:] or mine[:head]


def _count_same(some: str, others: str) -> int:
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(some, others, strict=False))
    )


def _is_moved(one: str, other: str, rest: str, said: Clauses, whole: str) -> bool:
    """Return whether both parts name somebody or something, and the source never has the first
    beside the rest."""
    if not (_is_thing(one) and _is_thing(other)):
        return False
    if one not in whole:
        return bool(_SUFFIX.match(rest))
    if abs(len(one) - len(other)) > 1:
        return False
    whole_of = (text for text in said.whole.values() if other not in text)
    return not any(one in text and rest[:_LEAST] in text for text in whole_of)


def _is_thing(part: str) -> bool:
    return _PART[0] <= len(part) <= _PART[1] and not _OPEN.search(part)
