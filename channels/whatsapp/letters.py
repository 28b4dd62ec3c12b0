"""WhatsApp's messages, both ways: webhooks as the kit's values, and the bot's messages, which can
wait on disk, with choices and Markdown as WhatsApp shows it. No sign can be escaped there, and none
counts within a word."""

from __future__ import annotations

import logging
import mimetypes
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import chain
from typing import Any, TypeVar

import orjson
from markdown_it.tree import SyntaxTreeNode
from msgspec import Struct
from msgspec.structs import asdict
from pywa.types.callback import Button as ReplyButton
from pywa.types.callback import Section, SectionList, SectionRow

from channels.kit.choices import Press
from channels.kit.markdown import MARKS, Dialect, Table, Within, address_of, guard_fence, spell_out
from channels.kit.messenger import ODD_SHAPE, list_objects
from channels.kit.platform import (
    Author,
    Button,
    ButtonPress,
    Event,
    File,
    IncomingMessage,
    Location,
    Reaction,
)
from channels.language import _

_WIDEST_TABLE = 44
"""Characters of a row that a phone shows on a line."""
_LONGEST_READ = 8_192
"""The maximum characters of a text that is parsed for markup at once."""
_SIGNS = {"strong": "*", "em": "_", "s": "~"}


@lru_cache(maxsize=16)
def rendered(markdown: str) -> str:
    """Render the text of one message; a text that would become invisible is returned unchanged."""
    return _WHATSAPP.write(markdown).strip("\n") or markdown


def units(text: str) -> int:
    """Return the length in UTF-16 units: an emoji counts as two."""
    return len(text) + sum(sign > "\uffff" for sign in text)


class _WhatsApp(Dialect[str]):
    ruler = "———"

    def blocks(self, nodes: Sequence[SyntaxTreeNode], within: Within) -> str:
        between = "\n" if "list_item" in within else "\n\n"
        return between.join(filter(None, (self.block(node, within) for node in nodes)))

    def heading(self, node: SyntaxTreeNode, within: Within) -> str:
        return _marked(self.inline(node, within | {"strong"}), "*")

    def code(self, content: str, info: str, within: Within) -> str:
        return f"```\n{guard_fence(content).rstrip()}\n```" if content.strip() else ""

    def quote(self, node: SyntaxTreeNode, within: Within) -> str:
        lines = self.blocks(node.children, within - {"list_item"}).split("\n")
        return "\n".join(f"> {line}".rstrip() for line in lines)

    def listing(self, node: SyntaxTreeNode, within: Within) -> str:
        items = []
        for item in node.children:
            sign = f"{item.info}." if item.info else "-"
            text = self.blocks(item.children, within | {"list_item"}).replace("\n", "\n   ")
            items.append(f"{sign} {text}")
        return "\n".join(items)

    def table(self, node: SyntaxTreeNode, within: Within) -> str:
        table = Table(node)
        if sum(table.widths) + 2 * len(table.widths) <= _WIDEST_TABLE:
            text = table.draw(between="  ", ruler="")
            return self.code(text, "", within)
        head, *body = table.rows
        return "\n\n".join(_record(head, row) for row in body) or " · ".join(head)

    def words(self, text: str, within: Within) -> str:
        return text

    def code_span(self, content: str) -> str:
        return content if "`" in content else f"`{content}`"

    def mark(
        self, node: SyntaxTreeNode, inner: str, beside: tuple[str, str], within: Within
    ) -> str:
        before, after = beside
        if not before[-1:].isalnum() and self.is_apart(node, after, within):
            return _marked(inner, _SIGNS[node.type])
        # Within a word, it may be a product: 2*3*4
        is_product = node.type == "em" and (before[-1:].isalnum() and after[:1].isalnum())
        return f"{node.markup}{inner}{node.markup}" if is_product else inner

    def is_apart(self, node: SyntaxTreeNode, after: str, within: Within) -> bool:
        return node.type in MARKS - within and not after[:1].isalnum()

    def link(self, node: SyntaxTreeNode, label: str) -> str:
        address = address_of(node).removeprefix("mailto:")
        title = f' "{node.attrs["title"]}"' if node.attrs.get("title") else ""
        return spell_out(label, address + title)


_WHATSAPP = _WhatsApp("", _LONGEST_READ, ["entity"])


def _record(head: Sequence[str], row: Sequence[str]) -> str:
    """Return a row of a wide table, its cells below one another."""
    return "\n".join(
        f"- {name}: {cell}" if name else f"- {cell}" for name, cell in zip(head, row, strict=True)
    )


def _marked(text: str, sign: str) -> str:
    """Return a text with signs around each line, because both must be on the same line."""
    return "\n".join(
        f"{sign}{line.strip()}{sign}" if line.strip() else line for line in text.split("\n")
    )


LONGEST_DATA = 200
"""Bytes of data in a list's row; a button stores 256."""
_MOST_BUTTONS, _LONGEST_TITLE, _LONGEST_BODY = 3, 20, 1024
_LONGEST_ROW, _LONGEST_ABOUT = 24, 72

Keyboard = Sequence[ReplyButton] | SectionList | None


class HeldMessage(Struct, frozen=True):
    """A message as WhatsApp shows it: its text, or a file by its id there with a caption; labels
    and data of its choices; and the message that it answers."""

    text: str
    choices: tuple[tuple[str, str], ...] = ()
    kind: str = ""
    media: str = ""
    name: str = ""
    answers: str = ""
    is_group: bool = False


def dump(letters: Sequence[HeldMessage]) -> str:
    return orjson.dumps([asdict(letter) for letter in letters]).decode() if letters else ""


def load(text: str) -> list[HeldMessage]:
    found = orjson.loads(text) if text else []
    return [HeldMessage(**{**one, "choices": tuple(map(tuple, one["choices"]))}) for one in found]


def choices_of(buttons: Sequence[Button]) -> tuple[tuple[str, str], ...]:
    """Return one choice per command: duplicates are refused."""
    return tuple({button.data: (button.label, button.data) for button in buttons}.values())


def messages(letter: HeldMessage) -> Iterator[tuple[str, Keyboard]]:
    """Yield the texts of a letter: up to three short choices are buttons, more are a list. Groups
    support neither, so there the commands are spelled out."""
    choices, text = letter.choices, "" if letter.media else letter.text
    if not choices or letter.is_group:
        commands = ((label, Press.of(data).command) for label, data in choices)
        lines = [f"{label}: `{command}`" for label, command in commands if command]
        for one in filter(None, (text, "\n".join(lines))):
            yield one, None
    elif _fit_buttons(choices, text):
        yield text or _("Choose"), [ReplyButton(label, data) for label, data in choices]
    else:
        yield text or _("Choose"), _list(choices)


def _fit_buttons(choices: Sequence[tuple[str, str]], text: str) -> bool:
    labels = {label for label, _data in choices}
    is_short = all(units(label) <= _LONGEST_TITLE for label in labels)
    is_few = len(labels) == len(choices) <= _MOST_BUTTONS
    return is_few and is_short and units(text) <= _LONGEST_BODY


def _list(choices: Sequence[tuple[str, str]]) -> SectionList:
    rows = [SectionRow(_cut(label, _LONGEST_ROW), data, _about(label)) for label, data in choices]
    return SectionList(_cut(_("Choose"), _LONGEST_TITLE), [Section(_("Choose"), rows)])


def _about(label: str) -> str | None:
    """Return the description of a row whose label is too long for its title; otherwise None."""
    return _cut(label, _LONGEST_ABOUT) if units(label) > _LONGEST_ROW else None


def _cut(text: str, most: int) -> str:
    if units(text) <= most:
        return text
    while units(text) >= most:
        text = text[:-1]
    return f"{text}…"


T = TypeVar("T")
log = logging.getLogger(__name__)

Json = dict[str, Any]

OPENING = {
    *("text", "image", "audio", "document", "video", "sticker", "location", "contacts"),
    *("interactive", "button", "order"),
}
"""Messages with which a person opens the window in which the bot may write freely."""
_NOT_TAKEN = {
    "video": "videos",
    "sticker": "stickers",
    "location": "places",
    "contacts": "contacts",
    "order": "messages of this kind",
    "unsupported": "messages of this kind",
}
_UNREADABLE = (*ODD_SHAPE, OSError)  # of a time that the system does not support
_NAMES = {"image": "picture", "audio": "voice", "document": "document"}


class WhatsAppArrival(Struct, frozen=True):
    """A person's message: `event` is None if it is irrelevant to the bot."""

    chat: str
    at: datetime
    opens: bool
    event: Event | None


class FailedDelivery(Struct, frozen=True):
    """A message of the bot whose delivery failed."""

    message: str
    code: int
    reason: str


def read(body: Json, phone_id: str, number: str) -> Iterator[WhatsAppArrival | FailedDelivery]:
    """Yield the content of a call for this phone number. `number` is its displayed form, in
    digits."""
    for entry in list_objects(body, "entry"):
        for change in list_objects(entry, "changes"):
            value = change.get("value")
            if not isinstance(value, dict):
                continue
            metadata = value.get("metadata")
            if not isinstance(metadata, dict) or metadata.get("phone_number_id") != phone_id:
                continue  # an app may have several numbers
            yield from _each("messages", value, partial(_arrived, value, number))
            yield from _each("statuses", value, _failure)


def _each(name: str, value: Json, read_one: Callable[[Json], T | None]) -> Iterator[T]:
    """Yield the converted objects of a list; of invalid ones a single traceback is logged."""
    odd = 0
    for one in list_objects(value, name):
        try:
            if (found := read_one(one)) is not None:
                yield found
        except _UNREADABLE:
            odd += 1
            if odd == 1:
                log.exception("something in a call of WhatsApp can't be read and is left out")
    if odd > 1:
        log.error("%d more of these %s of WhatsApp can't be read either", odd - 1, name)


def _failure(status: Json) -> FailedDelivery | None:
    if status.get("status") != "failed":
        return None
    error: Json = next(iter(status.get("errors") or ()), {})
    reason = (error.get("error_data") or {}).get("details") or error.get("title", "")
    return FailedDelivery(str(status["id"]), int(error.get("code") or 0), str(reason))


def _arrived(value: Json, number: str, message: Json) -> WhatsAppArrival:
    sender = _sender(message, value)
    at = datetime.fromtimestamp(int(message["timestamp"]), UTC)
    chat = message.get("group_id", sender.id)
    event = _event(message, sender, number, at)
    return WhatsAppArrival(chat, at, message["type"] in OPENING, event)


def _sender(message: Json, value: Json) -> Author:
    """Return the author. Their id within this business is stable even with a hidden number; a
    number is not, and may be reassigned to another person."""
    phone, scoped = message.get("from", ""), message.get("from_user_id", "")
    contacts = list_objects(value, "contacts")
    same = (one for one in contacts if scoped and one.get("user_id") == scoped)
    own = (one for one in contacts if phone and one.get("wa_id") == phone)
    hidden = (one for one in contacts if not phone and len(contacts) == 1)
    contact: Json = next(chain(same, own, hidden), {})  # not another person's
    id = scoped or contact.get("user_id", "") or phone or contact.get("wa_id", "")
    if not id:
        raise ValueError("nobody is named who wrote it")
    return Author(id, contact.get("profile", {}).get("name", ""))


def _event(message: Json, sender: Author, number: str, at: datetime) -> Event | None:
    context = message.get("context", {})
    group = message.get("group_id", "")
    place = Location(group or sender.id, message=message["id"], is_group=bool(group))
    below = Location(place.chat, message=context.get("id", ""), is_group=place.is_group)
    kind = message["type"]
    match kind:
        case "interactive":
            reply = message["interactive"].get(message["interactive"]["type"], {})
            return ButtonPress(
                below, sender, message["id"], reply.get("id", ""), reply.get("title", "")
            )
        case "reaction":
            found = message["reaction"]
            on = Location(place.chat, message=found["message_id"], is_group=place.is_group)
            return Reaction(on, sender, found["emoji"]) if found.get("emoji") else None
        case "edit":
            edited = {**message["edit"]["message"], "id": message["edit"]["original_message_id"]}
            return (
                _event({**message, **edited}, sender, number, at)
                if kind != edited["type"]
                else None
            )
        case "revoke" | "system":
            return None
    text, is_for_bot = _text(message, kind), not group
    if group:
        content = re.sub(rf"^\s*@{number}\b[\s,:]*", "", text)
        is_for_bot = content != text or text.startswith("/") or context.get("from") == number
        text = content
    files = _files(message, kind)
    is_forwarded = context.get("forwarded") or context.get("frequently_forwarded")
    if is_forwarded and (text or files):
        text = f"Forwarded:\n{text}".strip()
    return IncomingMessage(
        place,
        sender,
        text,
        files=files,
        is_for_bot=is_for_bot,
        left_out=(_NOT_TAKEN[kind],) if kind in _NOT_TAKEN else (),
        at=at,
    )


def _text(message: Json, kind: str) -> str:
    content = message.get(kind, {})
    if kind == "text":
        return str(content.get("body", ""))
    if kind == "button":
        return str(content.get("text", ""))
    return str(content.get("caption", "")) if isinstance(content, dict) else ""


def _files(message: Json, kind: str) -> tuple[File, ...]:
    if kind not in _NAMES:
        return ()
    content = message[kind]
    media_type = str(content.get("mime_type", "application/octet-stream")).partition(";")[0]
    ending = ".ogg" if media_type == "audio/ogg" else mimetypes.guess_extension(media_type) or ""
    name = content.get("filename") or f"{_NAMES[kind]}{ending}"
    return (File(content["id"], name, media_type),)
