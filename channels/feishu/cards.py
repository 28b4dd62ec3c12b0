"""Replies as cards (JSON 2.0): they show Markdown, have buttons, and can be edited for 14 days.

Cards support CommonMark with tables, and tags of their own: foreign text must not mention everybody
(`<at id=all>`), nor refer to a picture that Feishu does not have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

from channels.kit.markdown import make_parser, read, takes_long
from channels.kit.outside_code import change_parts
from channels.kit.platform import Button, Post

LARGEST = 30_000
"""Bytes of a card."""
LONGEST = 20_000
"""Bytes of its text, which leaves room for the buttons."""
_MOST_TABLES = 4
_MENTION = re.compile(r"<(?=/?at\b)", re.IGNORECASE)
_PICTURE = re.compile(r"!(?=\[)")
_PARSER, _TICKS = make_parser(), re.compile("`+")

Json = dict[str, Any]


def card(post: Post) -> str:
    if post.is_plain:
        shown: Json = {"tag": "div", "text": {"tag": "plain_text", "content": post.text}}
    else:
        shown = {"tag": "markdown", "content": converted(post.text)}
    elements = [shown, *map(_button, post.buttons)]
    config = {"update_multi": True, "width_mode": "fill"}
    whole = {"schema": "2.0", "config": config, "body": {"elements": elements}}
    return orjson.dumps(whole).decode()


def converted(markdown: str) -> str:
    """Return Markdown as cards support it; excess tables are shown literally."""
    return change_parts(_with_tables_fenced(markdown), _without_tags, _without_mentions)


def size(markdown: str) -> int:
    """Return the bytes of a text in a card."""
    return len(orjson.dumps(converted(markdown)))


def plain_size(text: str) -> int:
    return len(orjson.dumps(text))


def _without_tags(text: str) -> str:
    return _PICTURE.sub("", text.replace("<", "&#60;"))


def _without_mentions(code: str) -> str:
    """Return code, which shows tags literally, without mentions, which are never allowed."""
    return _MENTION.sub("<\u200b", code)


def _with_tables_fenced(markdown: str) -> str:
    """Convert the blocks with excess tables to code, or the whole text if parsing would take
    long."""
    if "|" not in markdown:
        return markdown
    if takes_long(markdown):
        return _fence(markdown)
    lines = markdown.split("\n")
    left, fenced = _MOST_TABLES, list[tuple[int, int]]()
    for node in read(markdown, _PARSER):
        left -= sum(one.type == "table" for one in node.walk())
        has_table = any(one.type == "table" for one in node.walk())
        if left < 0 and has_table and node.map:
            fenced.append(node.map)
    for begin, end in reversed(fenced):
        lines[begin:end] = [_fence("\n".join(lines[begin:end]).rstrip("\n")), ""]
    return "\n".join(lines)


def _fence(text: str) -> str:
    """Return a text as a block of code, which it can't end."""
    ticks = "`" * max(3, *(len(run) + 1 for run in _TICKS.findall(text)), 0)
    return f"{ticks}\n{text}\n{ticks}"


def _button(button: Button) -> Json:
    return {
        "tag": "button",
        "text": {"tag": "plain_text", "content": button.label},
        "width": "default",
        "behaviors": [
            {"type": "callback", "value": {"command": button.data, "label": button.label}}
        ],
    }


def text_of(content: Sequence[Sequence[Json]], title: str) -> str:
    """Return the words of a "post", a person's message with markup."""
    lines = ["".join(map(_word, line)) for line in content]
    return "\n".join(filter(None, (title, *lines)))


def _word(part: Json) -> str:
    match part.get("tag"):
        case "text" | "md" | "code_block":
            return str(part.get("text", ""))
        case "a":
            words, address = part.get("text", ""), part.get("href", "")
            return f"{words} ({address})" if words and words != address else str(address)
        case "at":
            return str(part.get("user_id", ""))  # its key, as in a plain text
        case "emotion":
            return f":{part.get('emoji_type', '')}:"
    return ""
