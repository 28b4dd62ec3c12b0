"""Regular expressions that cost nothing until they are needed.

To compile all patterns of the bot takes longer than the rest of its start, and few of them ever
match. So a pattern is compiled when it is first used, and where any of several may match, one is
tried only on a text that has the words without which it can't: they are read from its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, cast

Words = frozenset[str]
"""Words of which a text has at least one."""


class LazyPattern:
    """A pattern that is compiled when one of its methods is first asked for."""

    def __init__(self, source: str, flags: int) -> None:
        self.pattern = source
        self._flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._compiled, name)
        self.__dict__[name] = value  # from now on it costs no more than a compiled one's
        return value


def lazy(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first used."""
    return cast("re.Pattern[str]", LazyPattern(source, flags))


class PatternList:
    """Patterns without flags, of which any may match."""

    def __init__(self, *sources: str) -> None:
        self._sources = sources

    @cached_property
    def _by_beginning(self) -> dict[str, dict[str, list[_Needy]]]:
        """The patterns by a word of which they need one, and the words by their first signs."""
        known: dict[str, Sequence[Words]] = {}
        words: dict[str, list[_Needy]] = {}
        for source in self._sources:
            first, *others = needed_words(source, known) or [Words([""])]
            needy = _Needy(lazy(source), others)
            for word in first:
                words.setdefault(word, []).append(needy)
        found: dict[str, dict[str, list[_Needy]]] = {}
        for word, patterns in words.items():
            found.setdefault(word[:_BEGINNING], {})[word] = patterns
        return found

    def match(self, text: str) -> bool:
        """Return whether any of the patterns matches at the beginning of a text."""
        return any(pattern.match(text) for pattern in self._list_possible(text))

    def search(self, text: str) -> bool:
        """Return whether any of the patterns matches somewhere in a text."""
        return any(pattern.search(text) for pattern in self._list_possible(text))

    def _list_possible(self, text: str) -> Iterator[re.Pattern[str]]:
        """Yield the patterns that could match a text."""
        seen = set[re.Pattern[str]]()
        for beginning in _beginnings(text) & self._by_beginning.keys():
            for word, patterns in self._by_beginning[beginning].items():
                if word in text:
                    for pattern, others in patterns:
                        if pattern not in seen and all(_has(text, words) for words in others):
                            yield pattern
                        seen.add(pattern)


_BEGINNING = 3
"""The number of signs by which words are looked up."""


@lru_cache(maxsize=8)
def _beginnings(text: str) -> Set[str]:
    """Return the beginnings of all words that could be in a text."""
    found = {text[at : at + _BEGINNING] for at in range(len(text))}
    found.update(text, map(str.__add__, text, text[1:]), ("",))
    return found


class _Needy(NamedTuple):
    """A pattern, and the words of which it needs one of each set, besides those it is found by."""

    pattern: re.Pattern[str]
    others: Sequence[Words]


def _has(text: str, words: Words) -> bool:
    return any(map(text.__contains__, words))


# --- the words that a pattern needs ---------------------------------------------------------------

_LETTERS = r"[^\\()\[\]|?*+{}.^$]"
_SIGNS = r"\[\^?\]?(?:[^\]\\]|\\.)*\]"
_TOKEN = lazy(
    rf"(?P<run>{_LETTERS}+(?![?*+{{]))|(?P<letter>{_LETTERS})|\\(?P<sign>\W)"
    rf"|(?P<any>{_SIGNS}|\\(?:u\w{{4}}|x\w\w|[0-9]+|[A-MO-Za-z])|[.^$])"
    r"|(?P<open>\((?:\?(?:[:=!]|<[=!]|P<\w+>))?(?!\?))|(?P<or>\|)"
    r"|(?P<times>(?:[?*+]|\{(?:\d+(?:,\d*)?|,\d*)\})[?+]?)",
    re.DOTALL,
)
_BRACKET = lazy(rf"\\.|{_SIGNS}|[()]", re.DOTALL)
_NOTHING: Sequence[Words] = ()
_Piece = str | Sequence[Words]
"""Letters, or the words that a group needs."""


def needed_words(source: str, known: dict[str, Sequence[Words]] | None = None) -> Sequence[Words]:
    """Return the words that a text has in which a pattern without flags matches: at least one of
    each set, the smallest sets first. Nothing is returned for a pattern that can't be read so
    simply. Groups are looked up in `known`, since many patterns have the same."""
    try:
        return sorted(_read(source, {} if known is None else known), key=len)
    except ValueError:
        return _NOTHING


def _read(source: str, known: dict[str, Sequence[Words]]) -> Sequence[Words]:
    if (needs := known.get(source)) is None:
        needs = known[source] = _read_anew(source, known)
    return needs


def _read_anew(source: str, known: dict[str, Sequence[Words]]) -> Sequence[Words]:
    branches: list[Sequence[Words]] = []
    pieces: list[_Piece] = []
    at = 0
    while at < len(source):
        token = _TOKEN.match(source, at)
        if token is None:
            raise ValueError(source)
        at, kind = token.end(), token.lastgroup
        if kind in ("run", "letter", "sign"):
            pieces.append(token[kind])
        elif kind == "any":
            pieces.append(_NOTHING)
        elif kind == "open":
            end = _end_of_group(source, at)
            is_forbidden = token[0].endswith("!")
            pieces.append(_NOTHING if is_forbidden else _read(source[at : end - 1], known))
            at = end
        elif kind == "times":
            if token[0].startswith(("?", "*", "{0", "{,")):
                pieces.pop()
            pieces.append(_NOTHING)
        else:
            branches.append(_needs_of(pieces))
            pieces = []
    branches.append(_needs_of(pieces))
    if len(branches) == 1:
        return branches[0]
    if not all(branches):
        return _NOTHING
    return [Words().union(*(max(needs, key=_tells) for needs in branches))]


def _end_of_group(source: str, at: int) -> int:
    depth = 1
    for bracket in _BRACKET.finditer(source, at):
        depth += {"(": 1, ")": -1}.get(bracket[0], 0)
        if not depth:
            return bracket.end()
    raise ValueError(source)


def _needs_of(pieces: Iterable[_Piece]) -> Sequence[Words]:
    """Return what a sequence needs: its runs of letters, and what its groups need."""
    needs: list[Words] = []
    run = ""
    for piece in (*pieces, _NOTHING):
        if isinstance(piece, str):
            run += piece
        else:
            needs += [Words((run,)), *piece] if run else piece
            run = ""
    return [words for words in needs if _tells(words) > 1]


def _tells(words: Words) -> int:
    """Return how much it tells of a text that it has one of the words."""
    return min(len(word.encode()) for word in words)
