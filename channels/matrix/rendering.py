"""Markdown as Matrix shows it: HTML, beside the original text for apps without HTML."""

from __future__ import annotations

import json

from channels.kit.markdown import render_html

LONGEST = 16_000
"""Bytes of a message's text. The specification limits a whole event to 65,536 ("Size limits"), in
which the text occurs twice, and once more in an edit."""

_LARGEST = 56_000  # bytes of an event's content; its signatures and the like are the rest
_FALLBACK = 1_000  # characters of an edit for apps without edits


def make_content(text: str, *, is_plain: bool = False) -> dict[str, object]:
    """Return the content of a message. It mentions no person, even if its text contains names."""
    content: dict[str, object] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    html = "" if is_plain else render_html(text)
    if html and _size(content) + _size(html) <= _LARGEST:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content


def make_edit(message: str, content: dict[str, object]) -> dict[str, object]:
    """Return the content of an edit of a message."""
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
