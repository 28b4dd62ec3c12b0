"""What comes in: each update becomes a message for the bot, or is answered here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from telegram import CallbackQuery, MaybeInaccessibleMessage, Message, Update
from telegram.error import TelegramError
from telegram.ext import ExtBot

from channels.base import Bot
from channels.language import _, asked_in, speaking
from channels.message import LARGEST_ATTACHMENT, Attachment, Inbound, Reply
from channels.telegram import incoming
from channels.telegram.buttons import Press, confirmation, is_confirmation, label_of, pressed
from channels.telegram.incoming import NOTHING, ChatLocation, File, Heard, Me, Scope
from channels.telegram.onlooker import Onlookers
from channels.telegram.pace import ONCE, Busy
from channels.telegram.sending import deliver, destination
from channels.telegram.updates import in_order

log = logging.getLogger(__name__)

_MEGABYTES = LARGEST_ATTACHMENT // 1_000_000  # Telegram itself hands no larger files to bots

NOT_TAKEN = (
    "Something went wrong inside the bot, so this message was not taken; the log has the details "
    "(data/logs). Send it again, or put it in other words."
)
TOO_LARGE = "I did not get {name}: Telegram hands bots no files of more than {most} MB."
NOT_FETCHED = "I did not get {name} from Telegram; please send it again."


class Desk:
    """Takes updates in: chats side by side, the messages of one chat in order."""

    def __init__(
        self, bot: Bot, sdk: ExtBot[str], scope: Callable[[], Scope], onlookers: Onlookers
    ) -> None:
        self._bot, self._sdk, self._scope, self._onlookers = bot, sdk, scope, onlookers
        self._me = Me(sdk.id, sdk.username, frozenset(entry.name for entry in bot.list_commands()))

    async def take(self, updates: Sequence[Update]) -> None:
        """Returns when all that they say is on disk. One that can't be understood is logged, and
        does not hold up the others."""
        await asyncio.gather(*(self._take_chat(groups) for groups in in_order(updates)))

    async def _take_chat(self, groups: Sequence[Sequence[Update]]) -> None:
        for group in groups:
            try:
                await self._take_group(group)
            except Exception:
                log.exception("update %s could not be taken in", group[0].update_id)
                with suppress(Exception):  # it may fail for the same reason
                    await self._apologize(group[0])

    async def _apologize(self, update: Update) -> None:
        """Say that a message was not taken, to who may talk to the bot."""
        message = update.effective_message
        person = incoming.speaker(message) if isinstance(message, Message) else None
        if message is None or person is None:
            return
        place = incoming.place_at(message)
        asked_in.set(incoming.language_of(person))
        address = incoming.address_of(place, self._scope(), person)
        if self._bot.admits(address):
            with speaking(self._bot.language_of(address)):
                await deliver(self._sdk, place, Reply(_(NOT_TAKEN)))

    async def _take_group(self, group: Sequence[Update]) -> None:
        query = group[0].callback_query
        if query is not None:
            await self._press(query)
            return
        messages = [update.effective_message for update in group]
        if heard := [message for message in messages if message is not None]:
            await self._hear(heard)

    async def _hear(self, messages: Sequence[Message]) -> None:
        person = incoming.speaker(messages[0])
        if person is None or not incoming.is_for(messages, self._me):
            return
        asked_in.set(incoming.language_of(person))
        heard = incoming.heard(messages, self._me)
        if heard == NOTHING:
            return  # someone joined, a photo of the group was changed
        place = incoming.place_at(messages[0])
        inbound = Inbound(
            id=incoming.id_of(place),
            address=incoming.address_of(place, self._scope(), person),
            text=heard.text,
            sender=incoming.name_of(person) if place.is_group else "",
            at=messages[0].date,
        )
        if self._bot.admits(inbound.address):
            with speaking(self._bot.language_of(inbound.address)):
                attachments = await self._fetched(heard, place)
            if not heard.text and not attachments:
                return  # all that it says was left out
            inbound = replace(inbound, attachments=attachments)
        await self._submit(inbound)

    async def _fetched(self, heard: Heard, place: ChatLocation) -> tuple[Attachment, ...]:
        """The files; what is left out is said."""
        attachments, sentences = [], [_sorry(heard.not_taken)] if heard.not_taken else []
        for file in heard.files:
            if file.size > LARGEST_ATTACHMENT:
                sentences.append(_(TOO_LARGE, name=file.name, most=_MEGABYTES))
                continue
            try:
                attachments.append(await self._fetch(file))
            except TelegramError as error:
                log.warning("a file was not fetched: %s", error)
                sentences.append(_(NOT_FETCHED, name=file.name))
        if sentences:
            with suppress(TelegramError):  # what can be taken is not lost over it
                await deliver(self._sdk, place, Reply(" ".join(sentences)))
        return tuple(attachments)

    async def _fetch(self, file: File) -> Attachment:
        content = await (await self._sdk.get_file(file.id)).download_as_bytearray()
        return Attachment(file.name, file.media_type, bytes(content))

    async def _submit(self, inbound: Inbound) -> None:
        is_new = self._onlookers.expect(self._bot, inbound.address, inbound.id)
        accepted = await self._bot.submit(inbound)
        if is_new and not (accepted and accepted.is_new):  # refused, or answered before
            await self._onlookers.settle(inbound.address, inbound.id)

    async def _press(self, query: CallbackQuery) -> None:
        """Carry a button out, if this person may talk to the bot and the button is there: a client
        can send what it likes in its place. All others see that it does nothing."""
        label = label_of(query)
        message = query.message
        if label and message and query.data and query.from_user and not query.from_user.is_bot:
            place = incoming.place_at(message)
            asked_in.set(incoming.language_of(query.from_user))
            address = incoming.address_of(place, self._scope(), query.from_user)
            if self._bot.admits(address):
                inbound = Inbound(incoming.id_of(place, query.id), address, "")
                with speaking(self._bot.language_of(address)):
                    await self._carry_out(label, pressed(query.data), place, inbound)
                if not pressed(query.data).is_question:
                    await self._take_away(message, place)
        with suppress(TelegramError, Busy):  # it may be too late
            await self._sdk.answer_callback_query(query.id, rate_limit_args=ONCE)

    async def _carry_out(
        self, label: str, press: Press, place: ChatLocation, inbound: Inbound
    ) -> None:
        if press.is_question:
            await self._ask_first(label, press, place)
        elif press.command:
            await self._submit(replace(inbound, text=press.command))

    async def _take_away(self, message: MaybeInaccessibleMessage, place: ChatLocation) -> None:
        """A question that was answered goes."""
        if is_confirmation(message):
            with suppress(TelegramError, Busy):
                await self._sdk.delete_message(place.chat, place.message, rate_limit_args=ONCE)

    async def _ask_first(self, label: str, press: Press, place: ChatLocation) -> None:
        await self._sdk.send_message(
            text=_("{label}: are you sure? ({command})", label=label, command=press.command),
            reply_markup=confirmation(label, press.command),
            **destination(place),
        )


def _sorry(left_out: Sequence[str]) -> str:
    first, last = ", ".join(map(_, left_out[:-1])), _(left_out[-1])
    listed = f" {_('or')} ".join(filter(None, (first, last)))
    return _("I can't handle {what} yet; please put it in words.", what=listed)
