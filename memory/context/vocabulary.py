"""Counts the tokens of ordinary text without holding a vocabulary in memory.

tiktoken keeps cl100k_base in 26 MB of its own memory. Here it is a file of 2 MB that the system
maps, so that only what is looked at is in memory, and several processes share that. Ordinary text
is cut into pieces by Python's `re` and merged as tiktoken merges it; a piece that was seen before
costs a look into a dictionary. Of all else `count` says that it does not know: of texts and pieces
that are very long, and of scripts without spaces between words (Chinese, Japanese, Thai), whose
pieces are long and seldom come twice.

The file is made of the ranks by `build`: a hash table of numbers of tokens, where each token
begins, and the tokens themselves, in the order of their ranks.
"""

from __future__ import annotations

import mmap
import re
import struct
import sys
import unicodedata
from array import array
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from zlib import crc32

FILE = Path(__file__).with_name("cl100k_base.table")
LONGEST_TEXT = 50_000
"""Characters of a text that is counted here; tiktoken is quicker with long ones."""
LONGEST_PIECE = 200
"""Bytes of a piece: the time that merging takes grows with its square."""
_MAGIC = b"parley1\n"
_HEAD = struct.Struct("<8sII")
_MOST_KNOWN = 8_192  # pieces whose tokens are remembered
_NEVER = 1 << 31  # the rank of what is no token

_RANGES = (
    *((0x00, 0x52F), (0x5D0, 0x5EA), (0x621, 0x64A), (0x904, 0x94D), (0x1E00, 0x1EFF)),
    *((0x200D, 0x200D), (0x2010, 0x2027), (0x2030, 0x205E), (0x2070, 0x27BF)),
    *((0xFE0E, 0xFE0F), (0x1F000, 0x1FAFF)),
)
_SPACES = "\t\n\x0b\x0c\r \x85\xa0"
_LEFT_OUT = "\u017f"  # the long s, which (?i:s) is sometimes said to match


class TokenTable:
    """The tokens of a vocabulary, in a file. Raises OSError and ValueError where it can't be
    read."""

    def __init__(self, path: Path = FILE) -> None:
        with path.open("rb") as file:
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if len(content) < _HEAD.size:
            raise ValueError(f"{path} is not a table of tokens")
        magic, slots, tokens = _HEAD.unpack_from(content)
        start = _HEAD.size + 4 * slots
        end = start + 4 * (tokens + 1)
        if magic != _MAGIC or sys.byteorder != "little" or len(content) < end:
            raise ValueError(f"{path} is not a table of tokens")
        self._slots = content[_HEAD.size : start].cast("I")
        self._begins = content[start:end].cast("I")
        self._tokens = content[end:]
        if len(self._tokens) != self._begins[tokens]:
            raise ValueError(f"{path} is not whole")
        self._mask = slots - 1
        self._known: dict[str, int] = {}

    def rank(self, token: bytes) -> int:
        """The rank of a token; a very high one for what is none."""
        slots, begins, tokens, mask = self._slots, self._begins, self._tokens, self._mask
        place = crc32(token) & mask
        while number := slots[place]:
            if tokens[begins[number - 1] : begins[number]] == token:
                return int(number) - 1
            place = (place + 1) & mask
        return _NEVER

    def count(self, text: str) -> int | None:
        """Tokens of a text; None for one that is not ordinary."""
        if len(text) > LONGEST_TEXT or not (text.isascii() or is_ordinary(text)):
            return None
        known, total = self._known, 0
        for piece in _splitter().findall(text):
            tokens = known.get(piece)
            if tokens is None:
                content = piece.encode()
                if len(content) > LONGEST_PIECE:
                    return None
                if len(known) >= _MOST_KNOWN:
                    known.clear()
                tokens = known[piece] = self._count_piece(content)
            total += tokens
        return total

    def _count_piece(self, piece: bytes) -> int:
        """Tokens of a piece: of all neighbours the two that make the token of the lowest rank
        become one, until no two make any."""
        rank = self.rank
        if len(piece) == 1 or rank(piece) != _NEVER:
            return 1
        ends = [*range(1, len(piece) + 1)]  # where each part ends
        ranks = [rank(piece[at : at + 2]) for at in range(len(piece) - 1)]  # with the one behind it
        while ranks and (lowest := min(ranks)) != _NEVER:
            at = ranks.index(lowest)
            del ends[at], ranks[at]
            begin = ends[at - 1] if at else 0
            if at < len(ranks):
                ranks[at] = rank(piece[begin : ends[at + 1]])
            if at:
                before = ends[at - 2] if at > 1 else 0
                ranks[at - 1] = rank(piece[before : ends[at]])
        return len(ends)


def is_ordinary(text: str) -> bool:
    """Return whether a text has only characters that are counted here."""
    return _stranger().search(text) is None


def list_ordinary() -> list[str]:
    """All characters that are counted here."""
    found = []
    for first, last in _RANGES:
        for one in map(chr, range(first, last + 1)):
            kind = unicodedata.category(one)
            if one in _SPACES or not (kind[0] == "Z" or kind in ("Cn", "Cs", "Co")):
                found.append(one)
    return [one for one in found if one not in _LEFT_OUT]


@lru_cache(maxsize=1)
def _stranger() -> re.Pattern[str]:
    return re.compile(f"[^{_class(list_ordinary())}]")


@lru_cache(maxsize=1)
def _splitter() -> re.Pattern[str]:
    """The split pattern of cl100k_base, with the classes of characters written out."""
    ordinary = list_ordinary()
    letters = _class(one for one in ordinary if unicodedata.category(one)[0] == "L")
    digits = _class(one for one in ordinary if unicodedata.category(one)[0] == "N")
    spaces = _class(_SPACES)
    return re.compile(
        rf"'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])"
        rf"|[^\r\n{letters}{digits}]?+[{letters}]++|[{digits}]{{1,3}}+"
        rf"| ?[^{spaces}{letters}{digits}]++[\r\n]*+"
        rf"|[{spaces}]++\Z|[{spaces}]*[\r\n]|[{spaces}]+(?![^{spaces}])|[{spaces}]"
    )


def _class(characters: Iterable[str]) -> str:
    """Return the bracket expression for these characters: as ranges, since there are thousands."""
    spans: list[list[int]] = []
    for code in sorted(map(ord, characters)):
        if spans and spans[-1][1] == code - 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in spans)


def build(ranks: Mapping[bytes, int]) -> bytes:
    """The table of a vocabulary whose ranks count from 0."""
    tokens = sorted(ranks, key=ranks.__getitem__)
    if [ranks[token] for token in tokens] != [*range(len(tokens))]:
        raise ValueError("there are gaps between the ranks")
    slots = array("I", bytes(4 * (1 << (len(tokens) * 4 // 3).bit_length())))
    begins = array("I", [0])
    for number, token in enumerate(tokens, 1):
        place = crc32(token) & len(slots) - 1
        while slots[place]:
            place = place + 1 & len(slots) - 1
        slots[place] = number
        begins.append(begins[-1] + len(token))
    head = _HEAD.pack(_MAGIC, len(slots), len(tokens))
    return b"".join((head, slots.tobytes(), begins.tobytes(), *tokens))
