"""Markdown as Matrix shows it: HTML, beside the text as it was written, for apps that show none."""

from __future__ import annotations

import json

from channels.kit.markdown import render_html

LONGEST = 16_000
"""Bytes of a message's text. The specification has 65,536 for an event as a whole ("Size limits"),
in which the text stands twice, and once more in an edit."""

_LARGEST = 56_000  # bytes of an event's content; its signatures and the like are the rest
_FALLBACK = 1_000  # characters of an edit for apps that know no edits


def make_content(text: str, *, is_plain: bool = False) -> dict[str, object]:
    """Make the content of a message. It names nobody, whatever names stand in its text."""
    content: dict[str, object] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    html = "" if is_plain else render_html(text)
    if html and _size(content) + _size(html) <= _LARGEST:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content


def make_edit(message: str, content: dict[str, object]) -> dict[str, object]:
    """Make the content that replaces another one of a message."""
    text = str(content["body"])
    return {
        "msgtype": content["msgtype"],
        "body": f"* {text[:_FALLBACK]}",
        "m.mentions": {},
        "m.new_content": content,
        "m.relates_to": {"rel_type": "m.replace", "event_id": message},
    }


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
