"""A message of ours as Slack takes it: its blocks, and buttons below them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from channels.kit.platform import Button, Post
from channels.slack.rendering import LONGEST, blocks, plain_blocks, shown

Json = dict[str, Any]

_LONGEST_LABEL, _LONGEST_FALLBACK = 75, 4_000


def content(post: Post) -> Json:
    """Return a message's blocks, and its words for notifications and for those who hear it read."""
    inner = plain_blocks(post.text) if post.is_plain else blocks(post.text)
    words = shown(inner[0]["elements"]) if "elements" in inner[0] else post.text
    escaped = _escape(words[:LONGEST])
    if len(escaped) > _LONGEST_FALLBACK:
        escaped = _escape(words[: _LONGEST_FALLBACK // 5])
    return {"text": escaped, "blocks": [*inner, *_row(post.buttons)]}


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _row(buttons: Sequence[Button]) -> list[Json]:
    return [{"type": "actions", "elements": [*map(_button, buttons, range(99))]}] if buttons else []


def _button(button: Button, number: int) -> Json:
    label = button.label if len(button.label) <= _LONGEST_LABEL else f"{button.label[:74]}…"
    text = {"type": "plain_text", "text": label, "emoji": True}
    return {"type": "button", "action_id": f"choice{number}", "text": text, "value": button.data}
