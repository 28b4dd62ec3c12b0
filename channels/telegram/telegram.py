"""The Telegram platform, over its Bot API: https://core.telegram.org/bots/api.

Also a tolerant parser for Telegram's updates: the SDK accepts all of them or none, so an invalid
one would be redelivered for ever and block all later ones.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import orjson
from msgspec.structs import replace
from telegram import BotCommand, LinkPreviewOptions, Message, ReplyParameters, Update
from telegram.constants import ChatAction
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)
from telegram.ext import ExtBot
from telegram.request import HTTPXRequest
from telegramify_markdown import utf16_len

from channels.base import ChannelError, CommandEntry, WebhookAnswer, WebhookCall
from channels.kit.messenger import Messenger, check_parts
from channels.kit.platform import (
    ButtonPress,
    File,
    IncomingHandler,
    Location,
    Media,
    Platform,
    PlatformFailure,
    Post,
    Traits,
)
from channels.language import ENGLISH
from channels.message import Address
from channels.settings import TelegramSettings
from channels.splitting import split
from channels.telegram.incoming import LONGEST_DATA, BotIdentity, Reader, keyboard
from channels.telegram.rendering import LONGEST, Rendered, measure, rendered
from channels.telegram.updates import KINDS, Counter, Intervals, Take, poll

_MOST_PARTS = 2_000
"""The maximum number of objects and lists of an update. A message has at most a hundred entities
and a hundred buttons, and its update also contains the message that it answers."""

NO_UPDATES = "the response is not from Telegram"


class TolerantRequest(HTTPXRequest):
    """The requests for updates. An invalid one is logged and replaced by an empty one with its
    number, so that it is confirmed. A response that is not Telegram's raises NetworkError."""

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the response in a payload, with its updates made valid. Raises NetworkError."""
        try:
            answer = HTTPXRequest.parse_json_payload(payload)
        except TelegramError as error:
            raise NetworkError(NO_UPDATES) from error
        if not isinstance(answer, dict) or not {"result", "description"} & answer.keys():
            raise NetworkError(NO_UPDATES)
        if isinstance(answer.get("result"), list):
            numbered = [update for update in answer["result"] if number_of(update) is not None]
            answer["result"] = [readable(update) for update in numbered]
        return answer


def readable(update: dict[str, Any]) -> dict[str, Any]:
    """Return a numbered update, or an empty one with its number if it is invalid."""
    try:
        check_parts(update, _MOST_PARTS)
        read = Update.de_json(dict(update), None)
        # `in_order` uses these as keys; the SDK does not validate them.
        hash((read.effective_chat and read.effective_chat.id, _album(read)))
    except Exception:
        log.exception("update %s from Telegram can't be read and is left out", number_of(update))
        return {"update_id": number_of(update)}
    return update


def _album(update: Update) -> object:
    return update.message and update.message.media_group_id


def number_of(update: object) -> int | None:
    """Return an update's number; None if it is missing, or not a number."""
    number = update.get("update_id") if isinstance(update, dict) else None
    return number if isinstance(number, int) else None


os.environ.setdefault("PTB_TIMEDELTA", "true")  # the SDK's own switch: `retry_after` is a timedelta

log = logging.getLogger(__name__)

S = TypeVar("S")
T = TypeVar("T")

WRONG_TOKEN = (
    "Telegram does not know this token; copy it from @BotFather into .env again, as "
    "TELEGRAM_BOT_TOKEN, and restart the bot."
)
NO_WAY = (
    "Messages from Telegram can't be received ({}); correct the settings in the group telegram."
)
_OFFERED = re.compile(r"[a-z0-9_]{1,32}")
"""Names of commands that Telegram accepts; it accepts 100."""
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_MOST_KNOWN = 2_000  # messages in topics that may be reacted to
_LONGEST_CAPTION = 1024  # UTF-16 units of a file's caption
_GONE = ("chat not found", "thread not found", "topic_deleted", "topic_closed", "not enough rights")
"""Telegram's errors for chats that can no longer be written to."""


class Telegram(Platform):
    """A Telegram bot. `settings` is called when they are needed."""

    name = "telegram"
    _sdk: ExtBot[None]

    def __init__(
        self, token: str, settings: Callable[[], TelegramSettings], rhythm: Intervals | None = None
    ) -> None:
        self._token, self._settings, self._rhythm = token, settings, rhythm or Intervals()
        times = self._rhythm
        self.traits = Traits(
            longest=LONGEST,
            can_edit=True,
            draft=times.draft,
            group_draft=times.group_draft,
            typing=times.typing,
            longest_button=LONGEST_DATA,
            overall=times.overall,
            per_group=times.per_group,
            chat_time=times.group_time,
            sound="opus",
            message_id=re.compile(r"\d+"),
        )
        self._counter = Counter(self._rhythm.album)
        self._topics: dict[tuple[str, str], str] = {}

    async def open(self) -> None:
        address = self._settings().base_url.rstrip("/")
        sdk = ExtBot(
            self._token,
            base_url=f"{address}/bot",
            base_file_url=f"{address}/file/bot",
            get_updates_request=TolerantRequest(connection_pool_size=1),
        )
        try:
            await sdk.initialize()
        except BaseException as error:
            await sdk.shutdown()
            if isinstance(error, InvalidToken):
                raise ChannelError(WRONG_TOKEN) from None
            raise
        self._sdk = sdk

    async def listen(self, handler: IncomingHandler) -> None:
        address = self._settings().webhook_url
        if not address:
            await poll(self._sdk, self._reader(handler).take, self._rhythm, handler)
            return
        await handler.patiently(
            lambda: self._sdk.set_webhook(address, allowed_updates=KINDS, secret_token=self._secret)
        )
        await asyncio.Event().wait()  # Telegram calls the webhook

    def expects(self, headers: Mapping[str, str]) -> bool:
        return hmac.compare_digest(headers.get(SECRET, "").encode(), self._secret.encode())

    async def call(self, handler: IncomingHandler, call: WebhookCall) -> WebhookAnswer:
        if call.is_too_large:
            log.error("an update of more than a megabyte from Telegram is left out")
            return WebhookAnswer()  # confirmed, because it would be redelivered for ever
        return await answer_call(self._sdk, call, self._counter, self._reader(handler).take)

    @property
    def _secret(self) -> str:
        """Return the secret that authenticates Telegram's calls; the same in all processes of a
        bot."""
        return hmac.new(self._token.encode(), b"parley webhook", hashlib.sha256).hexdigest()

    def _reader(self, handler: IncomingHandler) -> Reader:
        names = frozenset(entry.name for entry in handler.bot.list_commands())
        me = BotIdentity(self._sdk.id, self._sdk.username, names)
        return Reader(handler, me, lambda: self._settings().conversations, self._topics)

    async def close(self) -> None:
        await self._counter.close()
        await self._sdk.shutdown()

    def explain(self, error: BaseException) -> PlatformFailure:
        match error:
            case RetryAfter():
                return PlatformFailure("wait", error.retry_after.total_seconds())  # type: ignore[union-attr]  # see PTB_TIMEDELTA
            case InvalidToken():
                return PlatformFailure("revoked", advice=WRONG_TOKEN)
            case Conflict():
                log.warning(
                    "Another program is fetching this bot's messages from Telegram; stop it, or "
                    "give one of the two a bot of its own."
                )
                return PlatformFailure("passing")
            case BadRequest():
                kind: Literal["gone", "refused"] = "gone" if _is_deleted(error) else "refused"
                return PlatformFailure(kind, advice=NO_WAY.format(error))
            case Forbidden():
                return PlatformFailure("gone", advice=NO_WAY.format(error))
            case NetworkError():
                return PlatformFailure("passing")
        return PlatformFailure("fatal", advice=NO_WAY.format(error))

    def length(self, text: str) -> int:
        return measure(text)

    def plain_length(self, text: str) -> int:
        return utf16_len(text)

    async def post(self, place: Location, post: Post) -> str:
        async def send(to: Location, text: Rendered) -> Message:
            return await self._sdk.send_message(
                text=text.text,
                entities=text.entities,
                reply_markup=keyboard(post.buttons),
                link_preview_options=_NO_PREVIEW,
                chat_id=int(to.chat),
                message_thread_id=int(to.thread or 0) or None,
                reply_parameters=_answered(to),
            )

        sent = await _try_markup(post, lambda text: _send_to_current_chat(place, send, text))
        if place.thread:
            self._topics[place.chat, str(sent.message_id)] = place.thread
            if len(self._topics) > _MOST_KNOWN:
                del self._topics[next(iter(self._topics))]
        return str(sent.message_id)

    async def edit(self, place: Location, message: str, post: Post) -> None:
        async def change(text: Rendered) -> object:
            return await self._sdk.edit_message_text(
                text.text,
                int(place.chat),
                int(message),
                entities=text.entities,
                reply_markup=keyboard(post.buttons),
                link_preview_options=_NO_PREVIEW,
            )

        try:
            await _try_markup(post, change)
        except BadRequest as error:
            if "not modified" not in error.message:
                raise

    async def delete(self, place: Location, message: str) -> None:
        await self._sdk.delete_message(int(place.chat), int(message))

    async def upload(self, place: Location, media: Media) -> str:
        caption = next(split(media.caption, _LONGEST_CAPTION, utf16_len), None)

        async def send(to: Location, content: bytes) -> Message:
            where: dict[str, Any] = {
                "chat_id": int(to.chat),
                "message_thread_id": int(to.thread or 0) or None,
                "reply_parameters": _answered(to),
                "reply_markup": keyboard(media.buttons),
                "filename": media.name,
                "caption": caption,
            }
            match media.kind:
                case "picture":
                    return await self._sdk.send_photo(photo=content, **where)
                case "voice":
                    return await self._sdk.send_voice(voice=content, **where)
            return await self._sdk.send_document(document=content, **where)

        return str((await _send_to_current_chat(place, send, media.content)).message_id)

    async def fetch(self, file: File) -> bytes:
        return bytes(await (await self._sdk.get_file(file.id)).download_as_bytearray())

    async def show_typing(self, place: Location) -> None:
        topic = int(place.thread or 0) or None
        await self._sdk.send_chat_action(
            int(place.chat), ChatAction.TYPING, message_thread_id=topic
        )

    async def answer_press(self, pressed: ButtonPress) -> None:
        await self._sdk.answer_callback_query(pressed.press)

    async def offer(self, commands: Mapping[str, Sequence[CommandEntry]]) -> None:
        for language, entries in commands.items():
            named = [
                BotCommand(entry.name, entry.summary[:256])
                for entry in entries
                if _OFFERED.fullmatch(entry.name)
            ][:100]
            code = None if language == ENGLISH else language
            await self._sdk.set_my_commands(named, language_code=code)

    def place_of(self, address: Address, message: str) -> Location:
        topic = address.thread if address.thread.isdecimal() else ""
        return Location(address.chat, topic, message, is_group=address.chat.startswith("-"))


def telegram_channel(
    token: str, settings: Callable[[], TelegramSettings], rhythm: Intervals | None = None
) -> Messenger:
    """Return the channel."""
    return Messenger(Telegram(token, settings, rhythm), (rhythm or Intervals()).sleep)


async def _try_markup(post: Post, send: Callable[[Rendered], Awaitable[T]]) -> T:
    """Send a text with its markup, or its words alone if Telegram refuses the markup."""
    text = Rendered(post.text) if post.is_plain else rendered(post.text)
    try:
        return await send(text)
    except BadRequest as error:
        if not text.entities or _is_deleted(error) or "not modified" in error.message:
            raise
        log.warning("Telegram refuses this reply's markup, so it goes as plain text: %s", error)
        return await send(Rendered(text.text))


def _answered(place: Location) -> ReplyParameters | None:
    """Return the reply parameters: in groups a message names the one that it answers."""
    if not (place.is_group and place.message):
        return None
    return ReplyParameters(int(place.message), allow_sending_without_reply=True)


def _is_deleted(error: BadRequest) -> bool:
    return any(words in error.message.lower() for words in _GONE)


async def _send_to_current_chat(
    place: Location, send: Callable[[Location, S], Awaitable[T]], what: S
) -> T:
    """Send to a chat, or to the supergroup that replaced it."""
    try:
        return await send(place, what)
    except ChatMigrated as error:
        return await send(replace(place, chat=str(error.new_chat_id), message=""), what)


# --- calls of the webhook: an update per call, in JSON --------------------------------------------

SECRET = "x-telegram-bot-api-secret-token"


async def answer_call(
    sdk: ExtBot[Any], call: WebhookCall, counter: Counter, take: Take
) -> WebhookAnswer:
    """Answer once the update is processed. An invalid one is logged, and confirmed, because it
    would be redelivered for ever."""
    if call.method != "POST":
        return WebhookAnswer(405)
    update = _read(sdk, call.body)
    if update is not None:
        await counter.put(update, take)
    return WebhookAnswer()


def _read(sdk: ExtBot[Any], body: bytes) -> Update | None:
    try:
        update = orjson.loads(body)
        if number_of(update) is None:
            raise ValueError("it has no number")
        return Update.de_json(readable(update), sdk)
    except Exception:
        log.exception("an update from Telegram can't be read and is left out")
        return None
