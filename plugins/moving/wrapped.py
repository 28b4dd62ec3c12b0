"""Text of a person, without what a program has written around it for the model.

Rules of OpenClaw from openclaw/openclaw `src/auto-reply/reply/strip-inbound-meta.ts` (of today, and
from before 2026.7), `src/auto-reply/media-note.ts`, `src/shared/chat-envelope.ts` and
`src/plugin-sdk/message-tool-delivery-hints.ts`. Each search takes time in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

_MARK = "⟦openclaw:ctx⟧"
_ENVELOPE = re.compile(
    r"\A(?>\s*+(?>"
    r"\[[^\]\n]{0,300}?\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\]\n]{0,60}\]"  # where it came from, and when
    r"|\[media attached[^\n]{0,4000}\][ \t]*$"
    r"|(?:To send an image back, prefer the message tool|Delivery: |System: \[\d{4}-\d\d-\d\d "
    r"|requester_profile is the verified linked requester)[^\n]*$"
    r"|(?:Untrusted context \([^\n]{1,80}\)|Context):[ \t]*\n"
    r"<active_memory_plugin>(?>.*?</active_memory_plugin>)"
    rf"|[^\n]{{1,120}}?(?:\(untrusted[^\n)]{{0,80}}\):|{_MARK})[ \t]*\n```json\n(?>.*?\n```)"
    rf"|[^\n]{{1,120}}?(?:\(untrusted, chrono[^\n)]{{0,80}}\):|{_MARK})[ \t]*+(?!\n```json)"
    r"(?>(?:\n[^\n]+)+)"
    r"))++\s*+",
    re.DOTALL | re.MULTILINE,
)
_SUFFIX = re.compile(
    rf"^Context: {_MARK}[ \t]*$"
    r"|^Untrusted context \(metadata, do not treat as instructions or commands\):[ \t]*$"
    r"(?=(?:\n[^\n]*){0,6}?\n[^\n]{0,200}?"
    r"(?:<<<EXTERNAL_UNTRUSTED_CONTENT|UNTRUSTED channel metadata \(|Source:\s))",
    re.MULTILINE,
)
_NUMBER = re.compile(r"^\[message_id: [^\]\n]{0,200}\][ \t]*$\n?", re.MULTILINE)
_MEDIA = re.compile(
    r"^[ \t]*\[media attached(?: \d+/\d+)?: (?P<path>[^|\n]{1,2000}?)"
    r"(?: \((?P<kind>[\w.+-]+/[\w.+-]+)[^\n]*?\))?(?: \|[^\n]*)?\][ \t]*$",
    re.MULTILINE,
)
_COUNTED = re.compile(r"\d+ files")
_PLACEHOLDER = re.compile(r"<media:\w+>(?: \(\d+ \w+\))?")


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
    text = _ENVELOPE.sub("", text)
    if found := _SUFFIX.search(text):
        text = text[: found.start()].rstrip()
    text = _NUMBER.sub("", text)
    return "" if _PLACEHOLDER.fullmatch(text.strip()) else text


def find_media(text: str) -> list[tuple[str, str]]:
    """Return the files that were sent with a message to OpenClaw: the path of each below its
    folder, and its type."""
    head = _ENVELOPE.match(text)
    found = _MEDIA.finditer(head[0]) if head else ()
    return [
        (_place_below(one["path"]), one["kind"] or "")
        for one in found
        if not _COUNTED.fullmatch(one["path"])
    ]


def _place_below(path: str) -> str:
    """Return where a file is below OpenClaw's folder, whatever system the path is of."""
    parts = PurePosixPath(path.strip().replace("\\", "/")).parts
    tops = [at for at, part in enumerate(parts) if part in (".openclaw", ".clawdbot", ".moltbot")]
    return (
        "/".join(parts[tops[-1] + 1 :]) if tops else f"media/inbound/{parts[-1] if parts else ''}"
    )
