"""The escapes of JSON in a text that may be no JSON as a whole: cut off, or quoted."""

from __future__ import annotations

import re

from memory.patterns import lazy

_LETTERS = lazy(r"(?:\\u(?!00[0-7])[0-9a-fA-F]{4})+")
_ESCAPE = lazy(r"((?:\\u[0-9a-fA-F]{4})+)|\\([\"\\/bfnrt])")
_SIGNS = {"b": " ", "f": " ", "n": "\n", "r": " ", "t": "\t"}
_NESTED = 2  # times that JSON may stand as a text in JSON


def decode_letters(text: str) -> str:
    """Return a text with the letters that stand in it as `\\u4f60`; what was JSON is the same."""
    return _LETTERS.sub(_joined, text) if "\\u" in text else text


def unescape(text: str) -> str:
    """Return a text with what its escapes stand for, also where they are escaped themselves."""
    for _ in range(_NESTED):
        if "\\" not in text:
            break
        text = _ESCAPE.sub(_meant, text)
    return text


def _meant(found: re.Match[str]) -> str:
    return _joined(found) if found[1] else _SIGNS.get(found[2], found[2])


def _joined(found: re.Match[str]) -> str:
    """Return the letters of escapes in a row; half a letter is a question mark."""
    units = bytes.fromhex(found[0].replace("\\u", ""))
    text = units.decode("utf-16-be", "replace")
    return text.replace("\0", " ")
