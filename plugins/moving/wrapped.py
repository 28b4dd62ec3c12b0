"""Text of a person, without what a program has written around it for the model.

Rules of OpenClaw from openclaw/openclaw `src/auto-reply/reply/strip-inbound-meta.ts` and
`src/shared/chat-envelope.ts`. Each search takes time in proportion to the text."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ENVELOPE = re.compile(
    r"\A(?>\s*+(?>"
    r"\[[^\]\n]{0,300}?\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\]\n]{0,60}\]"  # where it came from, and when
    r"|[^\n]{1,80}?(?:\(untrusted metadata\):|⟦openclaw:ctx⟧)[ \t]*\n```json\n(?>.*?\n```)"
    r"))++\s*+",
    re.DOTALL,
)
_NUMBER = re.compile(r"^\[message_id: [^\]\n]{0,200}\][ \t]*$\n?", re.MULTILINE)


def drop_elements(text: str, names: Iterable[str]) -> str:
    """Return a text without the elements of these names that begin a line."""
    for name in names:
        end = f"</{name}>"
        if end not in text:
            continue
        begins = re.compile(rf"^[ \t]*<{name}>", re.MULTILINE)
        kept = []
        *parts, rest = text.split(end)
        for part in parts:
            found = begins.search(part)
            kept.append(part[: found.start()] if found else part + end)
        text = "".join((*kept, rest)).strip()
    return text


def drop_envelope(text: str) -> str:
    """Return a message to OpenClaw without the lines that say who sent it, from where, and when."""
    return _NUMBER.sub("", _ENVELOPE.sub("", text))
