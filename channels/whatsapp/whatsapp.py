"""The WhatsApp platform: Meta calls the bot's webhook, and the bot calls the Graph API.

A person's message opens a window of 24 hours. Later messages to them are stored until they write
again; a template may ask them to.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime

import httpx
import orjson
from msgspec import Struct
from msgspec.structs import replace
from pywa.errors import (
    AuthorizationError,
    MessageUndeliverable,
    RecipientNotInAllowedList,
    ReEngagementMessage,
    ThrottlingError,
    WhatsAppError,
)
from pywa.utils import webhook_updates_validator
from pywa_async.client import WhatsApp as Client
from pywa_async.types.templates import TemplateLanguage

from channels.base import ChannelError, WebhookAnswer, WebhookCall
from channels.kit.platform import (
    File,
    IncomingHandler,
    Location,
    Media,
    Platform,
    PlatformFailure,
    Post,
    Traits,
    is_lasting,
)
from channels.limited import LimitedDict
from channels.message import LARGEST_ATTACHMENT
from channels.splitting import Length
from channels.whatsapp import WhatsAppSettings
from channels.whatsapp.letters import (
    LONGEST_DATA,
    FailedDelivery,
    HeldMessage,
    WhatsAppArrival,
    choices_of,
    dump,
    load,
    messages,
    read,
    rendered,
    units,
)

log = logging.getLogger(__name__)

NO_ENTRY = (
    "WhatsApp does not take the access token (any more); make one for a system user that never "
    "expires, with the permission whatsapp_business_messaging, put it into .env as "
    "WHATSAPP_TOKEN, and restart the bot."
)
NO_NUMBER = (
    "WhatsApp knows no phone number with the id {}; copy the phone number ID (not the number) from "
    "WhatsApp > API Setup into channels.whatsapp.phone_id, and restart the bot."
)
_WINDOW = 24 * 3600 - 300  # seconds; messages take a while
_GRAIN = 900.0
"""Seconds by which the stored time of a person's last message may be too old."""
_MOST_SENT = 200
"""The maximum number of sent messages kept in memory, in case their delivery fails later."""
_REFUSED = {100, 131008, 131009, 131051, 131052, 131053}
_PASSING = {1, 2, 131000, 131016, 131037, 133004, 135000}
_PAUSES = {131056: 6.0, 130429: 2.0, 131048: 3600.0}
"""Seconds to wait after a limit ("Throttling errors"): one message in six seconds to one person, 80
a second in all, and suspected spam."""


class MetaSecrets(Struct, frozen=True):
    """The secrets: the token for the Graph API, the key of Meta's signatures, and the verification
    token of the webhook's setup."""

    token: str
    app_secret: str
    verify_token: str

    def __repr__(self) -> str:
        """Return the name without the secrets, which must not get into a log."""
        return "MetaSecrets()"


class WhatsApp(Platform):
    name = "whatsapp"
    traits = Traits(
        longest=4096,
        typing=20.0,  # the sign is shown for 25 seconds
        longest_button=LONGEST_DATA,
        most_buttons=10,
        overall=80.0,
        per_chat=45,  # this many at once, and then one in six seconds
        per_group=45,
        chat_time=270.0,
        sound="opus",
        message_id=re.compile(r"wamid\.\S+"),
    )

    def __init__(self, settings: WhatsAppSettings, keys: MetaSecrets, check: float = 300.0) -> None:
        self._settings, self._keys, self._check = settings, keys, check
        self._number, self._ahead = "", 0.0
        self._handler: IncomingHandler | None = None
        self._has_handler = asyncio.Event()
        self._last: dict[str, float] = {}
        self._sent = LimitedDict[str, tuple[str, HeldMessage]](_MOST_SENT)
        self._waiting = asyncio.Lock()

    async def open(self) -> None:
        session = httpx.AsyncClient(timeout=30.0, event_hooks={"response": [self._note_answer]})
        self._client = Client(self._settings.phone_id, self._keys.token, session=session)
        session.base_url = httpx.URL(self._settings.base_url)
        self._session = session
        try:
            await self._check_number()
        except WhatsAppError as error:
            await session.aclose()
            if error.code == 100:
                raise ChannelError(NO_NUMBER.format(self._settings.phone_id)) from error
            if self.explain(error).kind == "revoked":
                raise ChannelError(NO_ENTRY) from error
            raise
        except BaseException:
            await session.aclose()
            raise

    async def _note_answer(self, response: httpx.Response) -> None:
        """Update the clock difference: messages have Meta's time, so the window is measured by
        Meta's clock."""
        if self._handler and response.is_success:
            self._handler.connected()
        with suppress(ValueError):  # a proxy's response may have no date
            now = parsedate_to_datetime(response.headers.get("date", ""))
            self._ahead = now.timestamp() - time.time()

    def _now(self) -> float:
        return time.time() + self._ahead

    async def close(self) -> None:
        await self._session.aclose()

    async def listen(self, handler: IncomingHandler) -> None:
        """Check at intervals that the Graph API can be reached; Meta calls the webhook."""
        self._serve(handler)
        while True:
            await self._check_number()
            handler.connected()
            await asyncio.sleep(self._check)

    async def _check_number(self) -> None:
        fields = ("id", "display_phone_number")
        found = await self._client.api.get_business_phone_number(self._settings.phone_id, fields)
        self._number = "".join(filter(str.isdigit, found.get("display_phone_number", "")))

    def _serve(self, handler: IncomingHandler) -> None:
        self._handler = handler
        self._has_handler.set()

    async def call(self, handler: IncomingHandler, call: WebhookCall) -> WebhookAnswer:
        self._serve(handler)
        if call.method == "GET":
            return self._prove(call)
        if call.is_too_large:
            log.error("a call of WhatsApp is too large to be read")
            return WebhookAnswer(413)
        signature = call.headers.get("x-hub-signature-256", "")
        if not signature.isascii() or not webhook_updates_validator(
            self._keys.app_secret, call.body, signature
        ):
            return WebhookAnswer(401)
        events = []
        for one in read(orjson.loads(call.body), self._settings.phone_id, self._number):
            if isinstance(one, FailedDelivery):
                await self._report_undelivered(one)
                continue
            if one.opens:
                await self._open_window(one)
            if one.event:
                events.append(one.event)
        await handler.take(events)
        return WebhookAnswer()

    def _prove(self, call: WebhookCall) -> WebhookAnswer:
        """Answer Meta's verification of the webhook."""
        given = call.query.get("hub.verify_token", "").encode()
        if not hmac.compare_digest(given, self._keys.verify_token.encode()):
            return WebhookAnswer(401)
        return WebhookAnswer(body=call.query.get("hub.challenge", "").encode())

    # Outgoing messages.

    @property
    def length(self) -> Length:
        return lambda markdown: units(rendered(markdown))

    def plain_length(self, text: str) -> int:
        return units(text)

    async def post(self, place: Location, post: Post) -> str:
        text = post.text if post.is_plain else rendered(post.text)
        letter = HeldMessage(text, choices_of(post.buttons), answers=place.message)
        return await self._deliver(place.chat, replace(letter, is_group=place.is_group))

    async def upload(self, place: Location, media: Media) -> str:
        """Upload a file. Text has a single media type there, whatever its content."""
        is_text = media.media_type.startswith("text/") or media.kind == "document"
        known = media.media_type.startswith(("image/", "audio/")) or media.media_type.endswith(
            "/pdf"
        )
        media_type = "text/plain" if is_text and not known else media.media_type
        stored = await self._client.upload_media(media.content, media_type, media.name)
        choices = choices_of(media.buttons)
        letter = HeldMessage(media.caption, choices, media.kind, str(stored.id), media.name)
        return await self._deliver(place.chat, replace(letter, is_group=place.is_group))

    async def show_typing(self, place: Location) -> None:
        if place.message and not place.is_group:
            await self._client.indicate_typing(place.message)

    async def fetch(self, file: File) -> bytes:
        found = await self._client.get_media_url(file.id)
        content = bytearray()
        async for piece in self._client.stream_media(found.url):
            content += piece
            if len(content) > LARGEST_ATTACHMENT:
                break  # the bot refuses it, and says so
        return bytes(content)

    async def _deliver(self, to: str, letter: HeldMessage) -> str:
        if await self._is_window_open(to):
            return await self._send(to, letter)
        await self._store_letter(to, letter)
        return ""

    async def _send(self, to: str, letter: HeldMessage) -> str:
        last, answers = "", letter.answers or None
        if letter.media:
            last = await self._send_media(to, letter)
        for text, keyboard in messages(letter):
            sent = await self._client.send_message(
                to, text, buttons=keyboard, reply_to_message_id=answers
            )
            last, answers = sent.id, None
        self._sent[last] = (to, letter)
        return last

    async def _send_media(self, to: str, letter: HeldMessage) -> str:
        caption = letter.text or None
        if letter.kind == "picture":
            return (await self._client.send_image(to, letter.media, caption)).id
        if letter.kind == "voice":
            return (await self._client.send_voice(to, letter.media)).id
        return (await self._client.send_document(to, letter.media, letter.name, caption)).id

    # The window.

    async def _state(self, name: str) -> str:
        await self._has_handler.wait()
        assert self._handler
        return await self._handler.bot.state.get(self.name, name)

    async def _keep(self, name: str, text: str) -> None:
        await self._has_handler.wait()
        assert self._handler
        await self._handler.bot.state.set(self.name, name, text)

    async def _is_window_open(self, chat: str) -> bool:
        if self._now() - self._last.get(chat, 0) > _WINDOW:  # another gateway may have a later time
            self._last[chat] = float(await self._state(f"last {chat}") or 0)
        return self._now() - self._last[chat] <= _WINDOW

    async def _open_window(self, arrived: WhatsAppArrival) -> None:
        chat, at = arrived.chat, min(arrived.at.timestamp(), self._now())
        if at > float(await self._state(f"last {chat}") or 0) + _GRAIN:
            await self._keep(f"last {chat}", str(at))
        self._last[chat] = max(at, self._last.get(chat, 0))
        await self._release(chat)

    async def _store_letter(self, chat: str, letter: HeldMessage) -> None:
        """Store a letter until its person writes; the first one asks them to."""
        name = f"waiting {chat}"
        async with self._waiting:
            waiting = load(await self._state(name))
            await self._keep(name, dump([*waiting, letter]))
        log.info("a message to %s waits until they write: the last is a day ago", chat)
        if not waiting and self._settings.template:
            language = TemplateLanguage(self._settings.template_language)
            try:
                await self._client.send_template(chat, self._settings.template, language)
            except (WhatsAppError, httpx.HTTPError) as error:
                log.warning("the template %s was not sent: %s", self._settings.template, error)

    async def _release(self, chat: str) -> None:
        name = f"waiting {chat}"
        async with self._waiting:
            waiting = load(await self._state(name))
            while waiting:
                try:
                    await self._send(chat, waiting[0])
                except Exception as error:
                    if self.explain(error).kind in ("passing", "wait", "revoked"):
                        raise  # the call fails, so Meta repeats it
                    log.warning("a message that waited is dropped: %s", error)
                waiting = waiting[1:]
                await self._keep(name, dump(waiting))

    async def _report_undelivered(self, failed: FailedDelivery) -> None:
        """Log that the delivery of a message failed; store it if the chat has to write first."""
        chat, letter = self._sent.pop(failed.message, ("", None))
        log.warning("a message was not delivered (%d): %s", failed.code, failed.reason)
        if letter and failed.code == ReEngagementMessage.__error_codes__[0]:
            self._last.pop(chat, None)
            await self._keep(f"last {chat}", "")
            await self._store_letter(chat, letter)

    def explain(self, error: BaseException) -> PlatformFailure:
        match error:
            case httpx.HTTPStatusError() if is_lasting(error.response.status_code):
                return PlatformFailure("refused")  # a deleted file
            case httpx.HTTPError():
                return PlatformFailure("passing")
            case ThrottlingError():
                return PlatformFailure("wait", _PAUSES.get(error.code, 60.0))
            case AuthorizationError():
                return PlatformFailure("revoked", advice=NO_ENTRY)
            case MessageUndeliverable() | RecipientNotInAllowedList():
                return PlatformFailure("gone")
            case WhatsAppError() if error.code in _PASSING or (error.status_code or 0) >= 500:
                return PlatformFailure("passing")
            case WhatsAppError() if error.code in _REFUSED or 132000 <= error.code < 133000:
                return PlatformFailure("refused")
        return PlatformFailure("fatal")
