"""The receiver of events: each becomes a message for the bot, or is answered here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar
from urllib.parse import quote
from weakref import WeakValueDictionary

from msgspec.structs import replace

from channels.base import Bot
from channels.kit.choices import Cards, Choices, Press, confirm
from channels.kit.delivery import MessageSender
from channels.kit.drafts import Drafts
from channels.kit.pace import HealthRecord, bounded
from channels.kit.platform import (
    Author,
    ButtonPress,
    Event,
    File,
    IncomingMessage,
    Location,
    Reaction,
)
from channels.language import _, asked_in, speaking
from channels.message import (
    LARGEST_ATTACHMENT,
    MOST_ATTACHMENTS,
    Address,
    Attachment,
    Inbound,
    Reply,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

_MEGABYTES = LARGEST_ATTACHMENT // 1_000_000
_LONGEST_NAME = 64  # maximum characters
_LONGEST_QUOTE = 1_000
_FETCHING = 120.0  # seconds in which a file must be fetched

LEFT_OUT = (
    "videos",
    "video messages",
    "animations",
    "stickers",
    "places",
    "contacts",
    "polls",
    "stories",
    "paid media",
    "checklists",
    "dice",
    "games",
    "voice messages",
    "links to shared files",
    "messages of this kind",
)
"""The kinds of content that no model is given, as named in `IncomingMessage.left_out`."""
NOT_TAKEN = (
    "Something went wrong inside the bot, so this message was not accepted; the log has the "
    "details (`python main.py logs`). Send it again, or put it in other words."
)
TOO_LARGE = "I did not get {name}: files of more than {most} MB can't be taken here."
NOT_FETCHED = "I did not get {name}; please send it again."


class MessageReceiver:
    """The `IncomingHandler` of a platform: chats in parallel, the events of one chat in order."""

    def __init__(
        self, bot: Bot, delivery: MessageSender, drafts: Drafts | None, health: HealthRecord
    ) -> None:
        self.bot, self._platform, self._delivery = bot, delivery.platform, delivery
        self._drafts, self._health = drafts, health
        delivery.choices = delivery.choices or Choices(self._platform.name, bot.state)
        delivery.cards = delivery.cards or Cards(self._platform.name, bot.state)
        self._choices, self._cards = delivery.choices, delivery.cards
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def connected(self) -> None:
        self._health.is_good()

    def troubled(self, error: BaseException) -> None:
        self._health.has_trouble(error)

    async def patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        """Make a request until it succeeds. Raises lasting errors."""
        while True:
            try:
                done = await request()
            except Exception as error:
                failure = self._platform.explain(error)
                if failure.kind not in ("passing", "wait"):
                    raise
                self._health.has_trouble(error)
                waits = failure.kind == "wait"
                wait = bounded(failure.seconds) if waits else self._health.wait
                await self._delivery.pace.sleep(wait)
            else:
                self._health.is_good()
                return done

    async def take(self, events: Sequence[Event]) -> None:
        """Process the events; return once all of them are on disk. A failing event is logged, and
        does not block the others."""
        chats: dict[str, list[Event]] = {}
        for event in events:
            chats.setdefault(event.place.chat, []).append(event)
        await asyncio.gather(*(self._handle_chat(chat, some) for chat, some in chats.items()))

    async def _handle_chat(self, chat: str, events: Sequence[Event]) -> None:
        line = self._lines.setdefault(chat, asyncio.Lock())
        async with line:  # in order of arrival
            for event in events:
                await self._handle_event(event)

    async def _handle_event(self, event: Event) -> None:
        if not event.sender.id:  # "" is the person at this machine
            log.error("%s: an event without an author is left out", self._platform.name)
            return
        asked_in.set(event.sender.language)
        try:
            match event:
                case IncomingMessage():
                    await self._handle_message(event)
                case ButtonPress():
                    await self._execute_press(event)
                case Reaction():
                    await self._react(event)
        except Exception:
            log.exception("a message of %s could not be taken in", self._platform.name)
            with suppress(Exception):  # it may fail for the same reason
                await self._apologize(event)

    async def _apologize(self, event: Event) -> None:
        """Tell a person with access that a message was not accepted."""
        address = address_of(self._platform.name, event)
        if self.bot.admits(address) and (
            not isinstance(event, IncomingMessage) or event.is_for_bot
        ):
            with speaking(self.bot.language_of(address)):
                await self._delivery.deliver(event.place, Reply(_(NOT_TAKEN)))

    async def _handle_message(self, message: IncomingMessage) -> None:
        if message.place.is_group and not message.is_for_bot:
            return
        if not (message.text or message.files or message.left_out):
            return  # someone joined, a picture of the group was changed
        address, place = address_of(self._platform.name, message), message.place
        inbound = Inbound(
            id=id_of(place),
            address=address,
            text=_with_quotation(message),
            sender=name_of(message.sender) if place.is_group else "",
            at=message.at,
        )
        if self.bot.admits(address):
            with speaking(self.bot.language_of(address)):
                if chosen := await self._chosen(message):
                    await self._execute(chosen, message.place, inbound, inbound.sender)
                    return
                attachments = await self._fetch_all(message)
            if not message.text and not attachments:
                return  # all of its content was omitted
            inbound = replace(inbound, attachments=attachments)
        await self._submit(inbound, place, inbound.sender)

    async def _chosen(self, message: IncomingMessage) -> tuple[str, str] | None:
        """Return the label and data that a number stands for, if choices have numbers."""
        if self._platform.traits.longest_button or message.files:
            return None
        return await self._choices.choose(message.place, message.text)

    async def _fetch_all(self, message: IncomingMessage) -> tuple[Attachment, ...]:
        """Return the files; tell the person which ones are omitted."""
        attachments, sentences = (
            [],
            [_unsupported_notice(message.left_out)] if message.left_out else [],
        )
        for file in message.files[: MOST_ATTACHMENTS + 1]:  # one too many is refused in the bot
            if file.size > LARGEST_ATTACHMENT:
                sentences.append(_(TOO_LARGE, name=file.name, most=_MEGABYTES))
                continue
            try:
                attachments.append(await self._fetch(message.place, file))
            except Exception as error:  # noqa: BLE001 - an SDK may raise anything
                log.warning("a file was not fetched: %s", error)
                sentences.append(_(NOT_FETCHED, name=file.name))
        if sentences:
            with suppress(Exception):  # the remaining content is not lost because of it
                await self._delivery.deliver(message.place, Reply(" ".join(sentences)))
        return tuple(attachments)

    async def _fetch(self, place: Location, file: File) -> Attachment:
        """Return a file within a time limit: one that can't be reached must not block its chat or
        the channel."""
        async with asyncio.timeout(_FETCHING):
            content = await self._delivery.pace.send(
                place, lambda: self._platform.fetch(file), is_message=False
            )
        return Attachment(file.name, file.media_type, content)

    async def _submit(self, inbound: Inbound, place: Location, who: str = "") -> None:
        """Submit a message to the bot; `who` is the sender's name, if others read the chat."""
        await self._cards.note_command(place, inbound.id, inbound.text, who)
        is_new = self._drafts is not None and self._drafts.expect(
            self.bot, inbound.address, inbound.id, place
        )
        accepted = await self.bot.submit(inbound)
        if is_new and self._drafts and not (accepted and accepted.is_new):
            await self._drafts.finish(inbound.address, inbound.id)  # refused, or answered before

    async def _execute_press(self, pressed: ButtonPress) -> None:
        """Execute a button's command, if this person may talk to the bot."""
        address = address_of(self._platform.name, pressed)
        try:
            if self.bot.admits(address):
                who = _seen_name(pressed)
                inbound = Inbound(id_of(pressed.place, pressed.press), address, "", who)
                with speaking(self.bot.language_of(address)):
                    chosen = (pressed.label, pressed.data)
                    await self._execute(chosen, pressed.place, inbound, who)
                if Press.of(pressed.data).is_answer:  # an answered question is removed
                    await self._delivery.delete_message(pressed.place, pressed.place.message)
        finally:
            with suppress(Exception):  # it may be too late
                await self._platform.answer_press(pressed)

    async def _execute(
        self, chosen: tuple[str, str], place: Location, inbound: Inbound, who: str
    ) -> None:
        label, data = chosen
        press = Press.of(data)
        if press.is_question:
            question = _("{label}: are you sure? ({command})", label=label, command=press.command)
            actions = confirm(label, press.command)
            await self._delivery.deliver(place, Reply(question, actions=actions))
        elif press.command:
            await self._submit(replace(inbound, text=press.command), place, who)
        elif not self._platform.traits.longest_button:
            await self._delivery.deliver(place, Reply(_("All right, nothing was done.")))

    async def _react(self, reacted: Reaction) -> None:
        """Take an emoji as a quick answer, if it stands for a command."""
        address = address_of(self._platform.name, reacted)
        if not self.bot.admits(address):
            return
        if command := await self._choices.react(reacted.place, reacted.emoji):
            press = f"{reacted.sender.id}{reacted.emoji}"
            who = _seen_name(reacted)
            inbound = Inbound(id_of(reacted.place, press), address, command, who)
            await self._submit(inbound, reacted.place, who)


def address_of(channel: str, event: Event) -> Address:
    """Return the address of an event's conversation. The chat is private if chat and user are the
    same, or the chat's name follows the user's."""
    place, user = event.place, event.sender.id
    thread = place.thread if event.scope is None else event.scope
    if place.is_group:
        # A sender in the group's own name gets another name: else the chat would seem private.
        is_hidden = place.chat == user or place.chat.startswith(f"{user}/")
        return Address(channel, place.chat, thread, f"admin{user}" if is_hidden else user)
    chat = user if place.chat == user else f"{user}/{place.chat}"
    return Address(channel, chat, thread, user)


def name_of(sender: Author) -> str:
    """Return the author's name as others in the chat see it, on one line."""
    return " ".join((sender.name or sender.id).split())[:_LONGEST_NAME]


def _seen_name(event: ButtonPress | Reaction) -> str:
    """Return the author's name if others read the chat; "" in private."""
    return name_of(event.sender) if event.place.is_group else ""


def id_of(place: Location, press: str = "") -> str:
    """Return the id of a message, or of a button pressed below it. It includes the thread, in case
    the conversation has another."""
    thread = f"@{_quoted(place.thread)}" if place.thread else ""
    return f"{_quoted(place.message)}{thread}{f'#{_quoted(press)}' if press else ''}"


def _quoted(part: str) -> str:
    return quote(part, safe="$:.,=+<>!*()[]|~ /")


def _with_quotation(message: IncomingMessage) -> str:
    if message.quoted is None or message.text.startswith("/"):
        return message.text
    author, words = message.quoted
    quotation = words[:_LONGEST_QUOTE].replace("\n", "\n> ")
    return f"{author} wrote:\n> {quotation}\n\n{message.text}"


def _unsupported_notice(left_out: Sequence[str]) -> str:
    first, last = ", ".join(map(_, left_out[:-1])), _(left_out[-1])
    listed = f" {_('or')} ".join(filter(None, (first, last)))
    return _("I can't handle {what} yet; please put it in words.", what=listed)
