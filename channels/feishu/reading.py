"""Feishu's JSON: its events as the kit's values, and replies as cards, which show Markdown, have
buttons, and can be edited for 14 days. Foreign text in a card must not mention everybody (`<at
id=all>`), nor refer to a picture that Feishu does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from msgspec import Struct

from channels.formulas import change_parts
from channels.kit.markdown import make_parser, read, takes_long
from channels.kit.platform import Author, Button, ButtonPress, File, IncomingMessage, Location, Post

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


EMOJI = {
    "THUMBSUP": "👍",
    "OK": "👌",
    "DONE": "✅",
    "CheckMark": "✅",
    "ThumbsDown": "👎",
    "CrossMark": "❌",
    "No": "⛔",
    "ERROR": "🛑",
}
"""Reactions that have a meaning as an answer, by their name at Feishu ("Emoji types")."""
_NOT_TAKEN = {
    "media": "videos",
    "sticker": "stickers",
    "location": "places",
    "share_user": "contacts",
    "vote": "polls",
}
_SILENT = {"system"}


class FeishuBot(Struct, frozen=True):
    """The bot's data at Feishu."""

    id: str
    name: str


def read_message(event: Json, me: FeishuBot, name: str) -> IncomingMessage | None:
    """Return a person's message, with the name that others see; None for another bot's."""
    message, sender = event["message"], event["sender"]
    kind, id = message["message_type"], message["message_id"]
    if sender.get("sender_type", "user") != "user" or kind in _SILENT:
        return None
    content: Json = orjson.loads(message.get("content") or "{}")
    mentions = message.get("mentions") or []
    is_group = message.get("chat_type") != "p2p"
    text = _with_names(_text(kind, content), mentions, me)
    is_known = kind in ("text", "post", "image", "file", "audio")
    return IncomingMessage(
        place_of(message),
        author(sender["sender_id"]["open_id"], name),
        text.strip(),
        files=tuple(_files(id, kind, content)),
        is_for_bot=not is_group or _is_mentioned(mentions, me) or text.lstrip().startswith("/"),
        left_out=() if is_known else (_NOT_TAKEN.get(kind, "messages of this kind"),),
        at=datetime.fromtimestamp(int(message.get("create_time", "0")) / 1000, UTC),
    )


def author(id: str, name: str = "") -> Author:
    """Return the author of an event. Raises ValueError if there is none."""
    if not id:
        raise ValueError("nobody is named who did it")
    return Author(id, name)


def place_of(message: Json) -> Location:
    """Return the place of a message. A thread is named by its first message, to which all of its
    messages reply."""
    id = message["message_id"]
    thread = (message.get("root_id") or id) if message.get("thread_id") else ""
    is_group = message.get("chat_type") != "p2p"
    return Location(message["chat_id"], thread, id, is_group=is_group)


def read_press(event: Json, press: str, place: Location) -> ButtonPress:
    """Return a pressed button of a card."""
    value = event.get("action", {}).get("value") or {}
    sender = Author(event["operator"]["open_id"])
    return ButtonPress(
        place, sender, press, str(value.get("command", "")), str(value.get("label", ""))
    )


def text_in(shown: Json, me: FeishuBot) -> str:
    """Return the words of a message from "Get message"."""
    content: Json = orjson.loads(shown.get("body", {}).get("content") or "{}")
    mentions = [{**one, "id": {"open_id": one.get("id")}} for one in shown.get("mentions") or []]
    return _with_names(_text(shown.get("msg_type", ""), content), mentions, me).strip()


def _is_mentioned(mentions: list[Json], me: FeishuBot) -> bool:
    return any(one.get("id", {}).get("open_id") == me.id for one in mentions)


def _with_names(text: str, mentions: list[Json], me: FeishuBot) -> str:
    """Return a text with names in place of keys; the bot's own is removed at the beginning."""
    names = {one["key"]: one for one in mentions}

    def name(found: re.Match[str]) -> str:
        one = names.get(found[0])
        return f"@{one.get('name', '')}" if one else found[0]

    for key, one in names.items():
        if one.get("id", {}).get("open_id") == me.id:
            text = re.sub(rf"^\s*{re.escape(key)}(?!\d)[\s,:，：]*", "", text)
    return re.sub(r"@_user_\d+", name, text)


def _text(kind: str, content: Json) -> str:
    if kind == "text":
        return str(content.get("text", ""))
    if kind == "post":
        return text_of(content.get("content") or [], str(content.get("title", "")))
    return ""


def _files(message: str, kind: str, content: Json) -> Iterator[File]:
    """Yield each file, with the data for `fetch`: the message, the key of the file, and which of
    two kinds it is."""
    if kind == "image":
        yield File(f"{message} {content['image_key']} image", "picture.jpg", "image/jpeg")
    elif kind == "file":
        yield File(f"{message} {content['file_key']} file", content.get("file_name") or "document")
    elif kind == "audio":
        yield File(f"{message} {content['file_key']} file", "voice.ogg", "audio/ogg")
    elif kind == "post":
        for line in content.get("content") or []:
            for part in line:
                if part.get("tag") == "img":
                    key = part["image_key"]
                    yield File(f"{message} {key} image", "picture.jpg", "image/jpeg")
