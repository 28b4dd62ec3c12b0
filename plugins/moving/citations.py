"""Marks by which ChatGPT points to its sources within a text: nobody can follow them elsewhere.

They stand between characters for private use: a kind, and fields. In most, the fields are places in
a result of a search; a link and an entity have words in them that belong to the sentence. Some
programs take the characters out, and leave kind and places as a word.
"""

from __future__ import annotations

import json
import re

_BEGIN, _END, _NEXT = "\ue200", "\ue201", "\ue202"
_MARK = re.compile(rf"[ \t]?{_BEGIN}([^{_BEGIN}{_END}]*){_END}")
_PRIVATE = re.compile("[\ue200-\ue20f]")
_STRIPPED = re.compile(r"[ \t]?\b(?:file)?cite(?:turn\d+[a-z]+\d+)+(?:L\d+-L\d+)?")
_BRACKETS = re.compile(r"[ \t]?【(?:\d+(?::\d+)?†[^【】]{0,200}|oaicite:\d+)】")
_REFERENCE = re.compile(r"[ \t]?:contentReference\[oaicite:\d+\]\{index=\d+\}")


def without_citations(text: str) -> str:
    """Return the text without such marks, but with the words in them."""
    text = _PRIVATE.sub("", _MARK.sub(_read_mark, text))
    for marks in (_STRIPPED, _BRACKETS, _REFERENCE):
        text = marks.sub("", text)
    return text


def _read_mark(found: re.Match[str]) -> str:
    kind, *fields = found[1].split(_NEXT)
    words = ""
    if kind in ("url", "link_title") and fields:
        words = fields[0]
    elif kind == "entity" and fields:
        try:
            named = json.loads(fields[0])
        except (ValueError, RecursionError):
            named = None
        if isinstance(named, list) and len(named) > 1 and isinstance(named[1], str):
            words = named[1]
    gap = found[0][0] if words and found[0][0] != _BEGIN else ""
    return f"{gap}{words}"
