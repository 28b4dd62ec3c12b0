"""What Telegram's messages say to us: pure, from the SDK's values to ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from telegram import Chat, MaybeInaccessibleMessage, Message, MessageOrigin, User

from channels.message import Address

Scope = Literal["topic", "chat", "user"]

_LONGEST_NAME = 64  # characters
_COMMAND = re.compile(r"/(\w+)(?:@(\w+))?(?!\S)")
NOT_TAKEN = {
    "video": "videos",
    "video_note": "video messages",
    "animation": "animations",
    "sticker": "stickers",
    "location": "places",
    "contact": "contacts",
    "poll": "polls",
    "story": "stories",
    "paid_media": "paid media",
    "checklist": "checklists",
}
"""What a message may hold that no model here is given, in the order in which it is looked for: an
animation is a document, too."""


@dataclass(frozen=True, slots=True)
class Me:
    """The bot as Telegram knows it: its id, its username, and the commands it answers to."""

    id: int
    username: str
    commands: frozenset[str]


@dataclass(frozen=True, slots=True)
class ChatLocation:
    """Where a reply goes: a chat, its topic, and the message that it answers (0: none)."""

    chat: int
    topic: int = 0
    message: int = 0

    @property
    def is_group(self) -> bool:
        return self.chat < 0


@dataclass(frozen=True, slots=True)
class File:
    """A file at Telegram's; `size` in bytes, 0 where it is not said."""

    id: str
    name: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True)
class Heard:
    """A message, an album, or the parts of a text, as one. `not_taken` names what of it can't be
    passed on."""

    text: str
    files: tuple[File, ...]
    not_taken: tuple[str, ...]


NOTHING = Heard("", (), ())


def heard(messages: Sequence[Message], me: Me) -> Heard:
    """What these messages of one album, or the parts of one text, or this one, say together."""
    texts = (_text(message, me) for message in messages)
    files = (_file(message) for message in messages)
    kinds = (_kind_not_taken(message) for message in messages)
    is_album = messages[0].media_group_id is not None
    return Heard(
        ("\n\n" if is_album else "\n").join(text for text in texts if text),
        tuple(file for file in files if file),
        tuple(dict.fromkeys(kind for kind in kinds if kind)),
    )


def is_for(messages: Sequence[Message], me: Me) -> bool:
    """Whether the bot is spoken to: in private always, in a group by command, mention or reply."""
    return any(
        message.chat.type == Chat.PRIVATE
        or _commands(message, me)
        or _mentions(message, me)
        or _replies_to(message, me)
        for message in messages
    ) and not any(_is_for_another(message, me) for message in messages)


def place_at(message: MaybeInaccessibleMessage) -> ChatLocation:
    """Where a message stands. Outside of topics Telegram numbers threads of replies in the field
    of the topic."""
    is_in_topic = isinstance(message, Message) and message.is_topic_message
    topic = message.message_thread_id if isinstance(message, Message) and is_in_topic else 0
    return ChatLocation(message.chat.id, topic or 0, message.message_id)


def address_of(place: ChatLocation, scope: Scope, person: User | Chat) -> Address:
    """Whose conversation a message at this place belongs to. In a group the scope says what is one
    conversation; an administrator who hides speaks as the group, under a name of its own: where
    chat and user have the same, nobody else reads along."""
    is_shared = place.is_group and scope != "topic"
    is_hidden = place.is_group and person.id == place.chat
    thread = "" if is_shared else str(place.topic or "")
    if is_shared and scope == "user":
        thread = f"user-{person.id}"
    user = f"admin{person.id}" if is_hidden else str(person.id)
    return Address("telegram", str(place.chat), thread, user)


def speaker(message: Message) -> User | Chat | None:
    """Who wrote it; None for another bot, which is not answered: two would never end."""
    if message.sender_chat:
        return message.sender_chat
    return None if message.from_user is None or message.from_user.is_bot else message.from_user


def language_of(user: User | Chat) -> str:
    """The language of their Telegram, as a tag; "" where it says none."""
    return (user.language_code or "") if isinstance(user, User) else ""


def name_of(user: User | Chat) -> str:
    """Their name as others in the chat see it, on one line."""
    name = user.full_name if isinstance(user, User) else user.effective_name
    return " ".join((name or str(user.id)).split())[:_LONGEST_NAME]


def id_of(place: ChatLocation, press: str = "") -> str:
    """The id of a message, or of a button pressed below it, from which its place can be read."""
    topic = f"@{place.topic}" if place.topic else ""
    return f"{place.message}{topic}{f'#{press}' if press else ''}"


def place_of(address: Address, reply_to: str) -> ChatLocation:
    """Where the reply to a message goes; its id may be one that the bot has made."""
    found = re.fullmatch(r"(\d+)(?:@(\d+))?(?:#\w+)?", reply_to)
    topic = int(address.thread) if address.thread.isdecimal() else 0
    if found is None:
        return ChatLocation(int(address.chat), topic)
    return ChatLocation(int(address.chat), int(found[2] or topic), int(found[1]))


def _text(message: Message, me: Me) -> str:
    text = (message.text or message.caption or "").strip()
    said = re.sub(rf"^@{me.username}\b[\s,:]*", "", text, flags=re.IGNORECASE) or text
    if message.forward_origin:
        return f"Forwarded from {_origin(message.forward_origin)}:\n{said}"
    quoted = _quoted(message, me)
    return f"{quoted}\n\n{said}" if quoted and not said.startswith("/") else said


def _origin(origin: MessageOrigin) -> str:
    user = getattr(origin, "sender_user", None)
    chat = getattr(origin, "sender_chat", None) or getattr(origin, "chat", None)
    person = user or chat
    return name_of(person) if person else str(getattr(origin, "sender_user_name", "someone"))


def _quoted(message: Message, me: Me) -> str:
    """What the message replies to, where the model may not know it: another person's words, or
    the part that was picked out."""
    first = message.reply_to_message
    author = first.from_user if first else None
    words = message.quote.text if message.quote else (first.text or first.caption) if first else ""
    is_known = author is not None and author.id == me.id and message.quote is None
    if not words or author is None or is_known or message.chat.type == Chat.PRIVATE:
        return ""
    quotation = words[:1_000].replace("\n", "\n> ")
    return f"{'You' if author.id == me.id else name_of(author)} wrote:\n> {quotation}"


def _commands(message: Message, me: Me) -> bool:
    command = _COMMAND.match(message.text or message.caption or "")
    return bool(command and (command[2] or command[1].lower() in me.commands))


def _is_for_another(message: Message, me: Me) -> bool:
    """Whether it begins with another bot's command."""
    command = _COMMAND.match(message.text or message.caption or "")
    return bool(command and command[2] and command[2].lower() != me.username.lower())


def _mentions(message: Message, me: Me) -> bool:
    entities = message.parse_entities() | message.parse_caption_entities()
    return any(
        (entity.type == "mention" and words.lower() == f"@{me.username}".lower())
        or (entity.type == "text_mention" and entity.user is not None and entity.user.id == me.id)
        for entity, words in entities.items()
    )


def _replies_to(message: Message, me: Me) -> bool:
    """Whether it answers what the bot said; the first message of a topic is "answered" by all."""
    first = message.reply_to_message
    if first is None or first.from_user is None or first.forum_topic_created:
        return False
    return first.from_user.id == me.id


def _file(message: Message) -> File | None:
    if message.photo:
        best = message.photo[-1]  # they are sorted by size
        return File(best.file_id, f"{best.file_unique_id}.jpg", "image/jpeg", best.file_size or 0)
    if message.document and not message.animation:
        found = message.document
        kind = found.mime_type or "application/octet-stream"
        return File(found.file_id, found.file_name or "document", kind, found.file_size or 0)
    if message.voice:
        said = message.voice
        return File(said.file_id, "voice.ogg", said.mime_type or "audio/ogg", said.file_size or 0)
    if message.audio:
        played = message.audio
        kind = played.mime_type or "audio/mpeg"
        return File(played.file_id, played.file_name or "audio.mp3", kind, played.file_size or 0)
    return None


def _kind_not_taken(message: Message) -> str:
    return next((name for kind, name in NOT_TAKEN.items() if getattr(message, kind)), "")
