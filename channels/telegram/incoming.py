"""The updates of Telegram, converted from the SDK's values to the kit's.

Also choices as buttons below a message. A button contains its command, so it works as long as
Telegram returns the message's buttons.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal

from msgspec import Struct
from telegram import (
    CallbackQuery,
    Chat,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    MaybeInaccessibleMessage,
    Message,
    MessageOrigin,
    MessageReactionUpdated,
    ReactionTypeEmoji,
    Update,
    User,
)

from channels.kit.platform import (
    Author,
    Button,
    ButtonPress,
    Event,
    File,
    IncomingHandler,
    IncomingMessage,
    Location,
    Reaction,
)
from channels.telegram.updates import in_order

LONGEST_DATA = 64  # bytes that Telegram keeps with a button
_ROW = 28  # total characters of a row's labels that a phone shows in full


def keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    """Return the buttons, in rows; None if there are none."""
    shown = [InlineKeyboardButton(one.label, callback_data=one.data) for one in buttons]
    return InlineKeyboardMarkup(_rows(shown)) if shown else None


def label_of(query: CallbackQuery) -> str:
    """Return the label of the pressed button; "" if its message has none with these data, or is too
    old."""
    buttons = _buttons_of(query.message) if query.message else ()
    return next((b.text for b in buttons if b.callback_data == query.data), "")


def _buttons_of(message: MaybeInaccessibleMessage) -> Iterator[InlineKeyboardButton]:
    markup = message.reply_markup if isinstance(message, Message) else None
    return chain.from_iterable(markup.inline_keyboard) if markup else iter(())


def _rows(buttons: Sequence[InlineKeyboardButton]) -> list[list[InlineKeyboardButton]]:
    rows: list[list[InlineKeyboardButton]] = []
    for button in buttons:
        if rows and sum(len(other.text) for other in rows[-1]) + len(button.text) <= _ROW:
            rows[-1].append(button)
        else:
            rows.append([button])
    return rows


log = logging.getLogger(__name__)

Scope = Literal["topic", "chat", "user"]

_LONGEST_NAME = 64  # maximum characters
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
    "dice": "dice",
    "game": "games",
}
"""The kinds of content that no model is given, in the order of their check: an animation is a
document, too."""


class BotIdentity(Struct, frozen=True):
    """The bot's data at Telegram: its id, its username, and the commands it answers to."""

    id: int
    username: str
    commands: frozenset[str]


class Reader:
    """A reader that passes updates to the handler. `scope` is the scope of a conversation in a
    group, and `topics` the topics of the bot's messages, by chat and message: Telegram omits them
    for reactions."""

    def __init__(
        self,
        handler: IncomingHandler,
        me: BotIdentity,
        scope: Callable[[], Scope],
        topics: Mapping[tuple[str, str], str],
    ) -> None:
        self._handler, self._me, self._scope, self._topics = handler, me, scope, topics

    async def take(self, updates: Sequence[Update]) -> None:
        """Process the updates; return once all of them are on disk. An invalid one is logged, and
        does not block the others."""
        events = []
        for group in in_order(updates):
            try:
                event = self._read(group)
            except Exception:
                log.exception("update %s could not be taken in", group[0].update_id)
            else:
                events += [event] if event else []
        await self._handler.take(events)

    def _read(self, group: Sequence[Update]) -> Event | None:
        """Read one update, an album, or the parts of a long text."""
        first = group[0]
        if first.callback_query is not None:
            return _pressed(first.callback_query, self._scope())
        if first.message_reaction is not None:
            return _reacted(first.message_reaction, self._scope(), self._topics)
        messages = [update.effective_message for update in group]
        present = [message for message in messages if message is not None]
        return read_message(present, self._me, self._scope()) if present else None


def read_message(
    messages: Sequence[Message], me: BotIdentity, scope: Scope
) -> IncomingMessage | None:
    """Return the message made of an album, the parts of one text, or a single message; None for
    another bot's, since two bots would answer each other endlessly."""
    person = speaker(messages[0])
    if person is None:
        return None
    texts = (_text(message, me) for message in messages)
    files = (_file(message) for message in messages)
    kinds = (_unsupported_kind(message) for message in messages)
    is_album = messages[0].media_group_id is not None
    place = place_at(messages[0])
    return IncomingMessage(
        place,
        sender_of(person),
        ("\n\n" if is_album else "\n").join(text for text in texts if text),
        tuple(file for file in files if file),
        is_for_bot=_is_for(messages, me),
        left_out=tuple(dict.fromkeys(kind for kind in kinds if kind)),
        at=messages[0].date,
        scope=_scope_of(place, scope, person.id),
    )


def _pressed(query: CallbackQuery, scope: Scope) -> ButtonPress | None:
    """Return a press of an existing button: a client can send any data instead."""
    message, person = query.message, query.from_user
    if not (message and query.data and person) or person.is_bot:
        return None
    label = label_of(query)
    place = place_at(message)
    # An unknown button does nothing, but is answered: otherwise the person's app waits.
    data = query.data if label else ""
    sender = sender_of(person)
    return ButtonPress(place, sender, query.id, data, label, _scope_of(place, scope, person.id))


def _reacted(
    update: MessageReactionUpdated, scope: Scope, topics: Mapping[tuple[str, str], str]
) -> Reaction | None:
    """Return the emoji that a person has put on a message."""
    person, old = update.user, {getattr(one, "emoji", "") for one in update.old_reaction}
    new = [one.emoji for one in update.new_reaction if isinstance(one, ReactionTypeEmoji)]
    added = [emoji for emoji in new if emoji not in old]
    if person is None or person.is_bot or not added:
        return None
    chat, message = str(update.chat.id), str(update.message_id)
    place = Location(chat, topics.get((chat, message), ""), message, update.chat.id < 0)
    return Reaction(place, sender_of(person), added[0], _scope_of(place, scope, person.id))


def _is_for(messages: Sequence[Message], me: BotIdentity) -> bool:
    """Return whether the bot is addressed: always in private, in a group by command, mention or
    reply."""
    return any(
        message.chat.type == Chat.PRIVATE
        or _commands(message, me)
        or _mentions(message, me)
        or _replies_to(message, me)
        for message in messages
    ) and not any(_is_for_another(message, me) for message in messages)


def place_at(message: MaybeInaccessibleMessage) -> Location:
    """Return the place of a message. Outside of topics Telegram uses the topic's field for threads
    of replies."""
    is_in_topic = isinstance(message, Message) and message.is_topic_message
    topic = message.message_thread_id if isinstance(message, Message) and is_in_topic else 0
    chat = message.chat.id
    return Location(str(chat), str(topic or ""), str(message.message_id), chat < 0)


def _scope_of(place: Location, scope: Scope, person: int) -> str | None:
    """Return the thread of the conversation, if it is not the topic."""
    if not place.is_group or scope == "topic":
        return None
    return f"user-{person}" if scope == "user" else ""


def speaker(message: Message) -> User | Chat | None:
    """Return the author; None for a bot."""
    if message.sender_chat:
        return message.sender_chat
    return None if message.from_user is None or message.from_user.is_bot else message.from_user


def sender_of(user: User | Chat) -> Author:
    """Return the author; the language of their app is "" if unknown."""
    language = (user.language_code or "") if isinstance(user, User) else ""
    return Author(str(user.id), _name_of(user), language)


def _name_of(user: User | Chat) -> str:
    return (user.full_name if isinstance(user, User) else user.effective_name) or ""


def _text(message: Message, me: BotIdentity) -> str:
    text = (message.text or message.caption or "").strip()
    content = re.sub(rf"^@{me.username}\b[\s,:]*", "", text, flags=re.IGNORECASE) or text
    if message.forward_origin and (content or _file(message)):
        return f"Forwarded from {_name_of_origin(message.forward_origin)}:\n{content}"
    quoted = _quoted(message, me)
    return f"{quoted}\n\n{content}" if quoted and not content.startswith("/") else content


def _one_line(name: str) -> str:
    return " ".join(name.split())[:_LONGEST_NAME]


def _name_of_origin(origin: MessageOrigin) -> str:
    """Return the original author of a message, on one line: a hidden one has chosen the name."""
    user = getattr(origin, "sender_user", None)
    chat = getattr(origin, "sender_chat", None) or getattr(origin, "chat", None)
    person = user or chat
    hidden = getattr(origin, "sender_user_name", "someone")
    return _one_line(_name_of(person) if person else str(hidden))


def _quoted(message: Message, me: BotIdentity) -> str:
    """Return the text that the message replies to, if the model may not know it: another person's,
    from another chat, or a selected part."""
    first, elsewhere = message.reply_to_message, message.external_reply
    author = first.from_user if first else None
    if author is not None:
        name = "You" if author.id == me.id else _one_line(_name_of(author))
    else:
        name = _name_of_origin(elsewhere.origin) if elsewhere else ""
    words = message.quote.text if message.quote else (first.text or first.caption) if first else ""
    is_alone = message.chat.type == Chat.PRIVATE  # the model has seen all messages
    is_known = is_alone or (author is not None and author.id == me.id)
    if not words or not name or (is_known and message.quote is None):
        return ""
    quotation = words[:1_000].replace("\n", "\n> ")
    return f"{name} wrote:\n> {quotation}"


def _commands(message: Message, me: BotIdentity) -> bool:
    command = _COMMAND.match(message.text or message.caption or "")
    return bool(command and (command[2] or command[1].lower() in me.commands))


def _is_for_another(message: Message, me: BotIdentity) -> bool:
    """Return whether it begins with another bot's command."""
    command = _COMMAND.match(message.text or message.caption or "")
    return bool(command and command[2] and command[2].lower() != me.username.lower())


def _mentions(message: Message, me: BotIdentity) -> bool:
    entities = message.parse_entities() | message.parse_caption_entities()
    return any(
        (entity.type == "mention" and words.lower() == f"@{me.username}".lower())
        or (entity.type == "text_mention" and entity.user is not None and entity.user.id == me.id)
        for entity, words in entities.items()
    )


def _replies_to(message: Message, me: BotIdentity) -> bool:
    """Return whether it replies to the bot; all messages of a topic formally reply to its first
    one."""
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
        voice = message.voice
        return File(
            voice.file_id, "voice.ogg", voice.mime_type or "audio/ogg", voice.file_size or 0
        )
    if message.audio:
        played = message.audio
        kind = played.mime_type or "audio/mpeg"
        return File(played.file_id, played.file_name or "audio.mp3", kind, played.file_size or 0)
    return None


def _unsupported_kind(message: Message) -> str:
    return next((name for kind, name in NOT_TAKEN.items() if getattr(message, kind)), "")
