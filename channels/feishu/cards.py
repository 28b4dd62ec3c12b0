"""Replies as cards (JSON 2.0): they show Markdown, have buttons, and can be changed for 14 days.

Cards read CommonMark with tables, and tags of their own: a text from outside must not mention
everybody (`<at id=all>`), nor refer to a picture that Feishu does not have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

from channels.kit.outside_code import change_parts
from channels.kit.platform import Button, Post
from channels.splitting import has_vast_table

LARGEST = 30_000
"""Bytes of a card."""
LONGEST = 20_000
"""Bytes of its text, so that there is room for the buttons."""
_MOST_TABLES = 4
_MENTION = re.compile(r"<(?=/?at\b)", re.IGNORECASE)
_PICTURE = re.compile(r"!(?=\[)")
_RULER = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")

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
    """Markdown as cards read it; the tables of which there are too many are shown as they stand."""
    safe = change_parts(markdown, _without_tags, _without_mentions)
    if has_vast_table(safe):
        return _fenced(safe, 0)
    return _fenced(safe, _MOST_TABLES)


def size(markdown: str) -> int:
    """Return the bytes of a text in a card."""
    return len(orjson.dumps(converted(markdown)))


def plain_size(text: str) -> int:
    return len(orjson.dumps(text))


def _without_tags(text: str) -> str:
    return _PICTURE.sub("", text.replace("<", "&#60;"))


def _without_mentions(code: str) -> str:
    """Tags are shown in code; one that would mention somebody counts in no case."""
    return _MENTION.sub("<\u200b", code)


def _fenced(markdown: str, most: int) -> str:
    """Tables after the first so many within code."""
    if "|" not in markdown:
        return markdown
    lines, shown, found = markdown.split("\n"), [], 0
    is_code = is_table = False
    for place, line in enumerate(lines):
        if not is_table and line.lstrip(" >").startswith(("```", "~~~")):
            is_code = not is_code
        following = lines[place + 1] if place + 1 < len(lines) else ""
        if is_table and "|" not in line:
            is_table = False
            shown += ["```"] if found > most else []
        elif not is_table and not is_code and _begins_table(line, following):
            is_table, found = True, found + 1
            shown += ["```"] if found > most else []
        shown.append(line)
    return "\n".join([*shown, "```"] if is_table and found > most else shown)


def _begins_table(line: str, following: str) -> bool:
    return "|" in line and "|" in following and _RULER.fullmatch(following) is not None


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
    """Return the words of a "post", a message with markup that a person wrote."""
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
