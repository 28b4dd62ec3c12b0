"""A reply on its way to Telegram: several messages if it is long, its pictures, its buttons."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from telegram import InlineKeyboardMarkup, LinkPreviewOptions, ReplyParameters
from telegram.error import BadRequest, ChatMigrated, Forbidden, TelegramError
from telegram.ext import ExtBot

from channels.language import _
from channels.message import Reply
from channels.telegram.buttons import keyboard, spelled_out
from channels.telegram.incoming import ChatLocation
from channels.telegram.pace import ONCE, Busy
from channels.telegram.rendering import Rendered, beginning, messages, plain_messages

log = logging.getLogger(__name__)

_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_LONGEST_CAPTION = 1024  # UTF-16 units of what stands below a file
_FILE = "answer.md"
_IN_A_FILE = (
    "This reply is too long for a message ({characters:,} characters), so it is in this file."
)
_GONE = ("chat not found", "thread not found", "topic_deleted", "topic_closed", "not enough rights")
"""What Telegram says of places where nothing can be written any more."""


async def deliver(
    bot: ExtBot[str], place: ChatLocation, reply: Reply, draft: int = 0, *, is_plain: bool = False
) -> None:
    """Send a reply, in the place of its draft (a message's id) if there is one. Returns when
    Telegram has all of it, or says that nobody there can be reached any more."""
    text = "\n\n".join(filter(None, (reply.text, spelled_out(reply.actions))))
    read = plain_messages if is_plain else messages
    parts = (
        await asyncio.to_thread(read, text)
        if text.strip()
        else [Rendered(_("(This reply has no text.)"))]
    )
    pictures = tuple(map(Path, reply.images))
    letter = _Letter(text, parts, keyboard(reply.actions), pictures, reply.sound)
    try:
        await _deliver(bot, place, letter, draft)
    except ChatMigrated as error:  # a group became a supergroup
        await _deliver(bot, replace(place, chat=error.new_chat_id, message=0), letter, 0)
    except (Forbidden, BadRequest) as error:
        if isinstance(error, BadRequest) and not _is_gone(error):
            raise
        log.warning("a reply to telegram/%s was dropped: %s", place.chat, error)


def destination(place: ChatLocation) -> dict[str, Any]:
    """Where a new message goes, as the SDK wants it. In groups it names the one that it answers."""
    answered = ReplyParameters(place.message, allow_sending_without_reply=True)
    return {
        "chat_id": place.chat,
        "message_thread_id": place.topic or None,
        "reply_parameters": answered if place.is_group and place.message else None,
        "link_preview_options": _NO_PREVIEW,
    }


@dataclass(frozen=True, slots=True)
class _Letter:
    """A reply as it goes: its text in parts, or as a file where there are none."""

    text: str
    parts: Sequence[Rendered]
    buttons: InlineKeyboardMarkup | None
    images: Sequence[Path]
    sound: str = ""


async def _deliver(bot: ExtBot[str], place: ChatLocation, letter: _Letter, draft: int) -> None:
    if not letter.parts:
        await _send_file(bot, place, letter)
        if draft:
            with suppress(TelegramError, Busy):
                await bot.delete_message(place.chat, draft, rate_limit_args=ONCE)
    for index, part in enumerate(letter.parts):
        buttons = letter.buttons if part is letter.parts[-1] else None
        is_first = index == 0
        if not (is_first and draft and await _edited(bot, place, draft, part, buttons)):
            here = place if is_first else replace(place, message=0)
            await _send(bot, here, part, buttons)
    for image in letter.images:
        await _send_picture(bot, replace(place, message=0), image)
    if letter.sound:
        await _send_sound(bot, replace(place, message=0), Path(letter.sound))


async def _send_file(bot: ExtBot[str], place: ChatLocation, letter: _Letter) -> None:
    """All of a text in one request, which says so and begins with its first words."""
    said = _(_IN_A_FILE, characters=len(letter.text))
    caption = f"{said}\n\n{beginning(letter.text, _LONGEST_CAPTION - len(said) - 10)} …"
    where = {key: value for key, value in destination(place).items() if "preview" not in key}
    await bot.send_document(
        document=letter.text.encode("utf-8", "replace"),
        filename=_FILE,
        caption=caption,
        reply_markup=letter.buttons,
        **where,
    )


async def _send(
    bot: ExtBot[str], place: ChatLocation, part: Rendered, buttons: InlineKeyboardMarkup | None
) -> None:
    where = destination(place)
    try:
        await bot.send_message(
            text=part.text, entities=part.entities, reply_markup=buttons, **where
        )
    except BadRequest as error:
        if _is_gone(error):
            raise
        log.warning("Telegram refuses this reply's markup, so it goes as plain text: %s", error)
        await bot.send_message(text=part.text, reply_markup=buttons, **where)


async def _edited(
    bot: ExtBot[str],
    place: ChatLocation,
    draft: int,
    part: Rendered,
    buttons: InlineKeyboardMarkup | None,
) -> bool:
    """Put the final text in the draft's place; False when that can't be done."""
    for entities in (part.entities, ()):
        try:
            await bot.edit_message_text(
                part.text,
                place.chat,
                draft,
                entities=entities,
                reply_markup=buttons,
                link_preview_options=_NO_PREVIEW,
            )
        except BadRequest as error:
            if "not modified" in error.message:
                return True
            log.info("the draft was not replaced: %s", error)
        else:
            return True
    return False


async def _send_picture(bot: ExtBot[str], place: ChatLocation, path: Path) -> None:
    """As a picture, or as a file where Telegram finds it too large for one."""
    where = {key: value for key, value in destination(place).items() if "preview" not in key}
    try:
        content = await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        log.warning("the picture %s can't be read: %s", path, error)
        return
    try:
        await bot.send_photo(photo=content, filename=path.name, **where)
    except BadRequest as error:
        if _is_gone(error):
            raise
        await bot.send_document(document=content, filename=path.name, **where)


def _is_gone(error: BadRequest) -> bool:
    return any(words in error.message.lower() for words in _GONE)


async def _send_sound(bot: ExtBot[str], place: ChatLocation, path: Path) -> None:
    """As a voice message; who has forbidden these to bots has the text."""
    where = {key: value for key, value in destination(place).items() if "preview" not in key}
    try:
        content = await asyncio.to_thread(path.read_bytes)
        await bot.send_voice(voice=content, filename=path.name, **where)
    except OSError as error:
        log.warning("the sound %s can't be read: %s", path, error)
    except BadRequest as error:
        if _is_gone(error):
            raise
        log.warning("Telegram refuses a voice message: %s", error)
