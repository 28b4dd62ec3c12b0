"""The mail platform: fetched over IMAP with notifications (IDLE), and sent over SMTP.

Also the opening of a mail: a small one is read here, any other in a separate process.

A process costs 0.2 s of CPU time, which reading a mail of ten kilobytes never takes (`python -m
benchmarks.hostile mails`).
"""

from __future__ import annotations

import asyncio
import imaplib
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any, Literal

import aiosmtplib
import msgspec
from aiosmtplib.errors import (
    SMTPAuthenticationError,
    SMTPException,
    SMTPRecipientsRefused,
    SMTPResponseException,
)
from imapclient.exceptions import LoginError
from msgspec.structs import replace

from channels.base import Bot, UnreadableError
from channels.kit.platform import (
    Author,
    File,
    IncomingHandler,
    IncomingMessage,
    Location,
    Media,
    Platform,
    PlatformFailure,
    Post,
    Traits,
)
from channels.mail import MailSettings
from channels.mail.bounds import MOST_PARTS
from channels.mail.inbox import Host, Inbox, is_verified, parse
from channels.mail.reading import Letter, read, read_head
from channels.mail.writing import MailThread, begin_thread, make_mail, make_mail_with
from channels.message import LARGEST_ATTACHMENT, Address
from channels.retry import MessageSkipped

SMALL = 10_000  # bytes
_FEW_PARTS = 20  # lines that may begin a part
_BOUNDARY = re.compile(rb"[\r\n]--")
_READER = Path(__file__).with_name("reader.py")
_decoder = msgspec.msgpack.Decoder(Letter)


def is_small(raw: bytes) -> bool:
    """Return whether a mail is certainly fast to read."""
    return len(raw) <= SMALL and len(_BOUNDARY.findall(raw)) <= _FEW_PARTS


def open_letter(bot: Bot, raw: bytes, fallback: str, own: str) -> Letter | None:
    """Return the received letter; call it in a thread. None if it can't be read. Raises
    UnreadableError if reading takes too many resources."""
    try:
        if is_small(raw):
            letter = read(raw, fallback, own)
        else:
            letter = _decoder.decode(bot.run_limited(_READER, raw, fallback, own))
    except UnreadableError as error:
        if error.takes_too_much:
            raise
        log.warning("a message can't be read, and is left out: %s", error)
        return None
    except OSError:  # an error of this machine, which may be temporary
        raise
    except Exception:  # the standard library's parser may raise any error
        log.warning("a message can't be read, and is left out", exc_info=True)
        return None
    if not letter.whole:
        log.warning("a message has more than %d parts; only its head is read", MOST_PARTS)
    return letter


log = logging.getLogger(__name__)

WRONG_PASSWORD = (
    "The mail server does not take this password; put the right one into .env as MAIL_PASSWORD, "
    "and restart the bot. Some providers want one that is made for apps."
)

_TIMEOUT = 60.0  # seconds
_WAIT = 60.0  # seconds after which a busy server is retried
_BUSY = (421, 450, 451, 452)
_MOST_KEPT = 200
_MOST_ATTEMPTS = 2  # starts of the bot in which reading one message did not finish
_PASSING_LOGIN = re.compile(r"UNAVAILABLE|INUSE|LIMIT|too many|try again|temporar", re.IGNORECASE)

_NOT_VERIFIED = (
    "Mail of %s is not answered: it is not verified who sent it. channels.mail.verified_by is %s; "
    "this message has results of: %s."
)


class Mail(Platform):
    """A mailbox of the bot's own."""

    name = "mail"
    traits = Traits(
        longest=100_000,
        most_parts=1,
        overall=1.0,
        sound="mp3",
        message_id=re.compile(r"<[^<>\s]+>"),
    )

    def __init__(self, settings: MailSettings, password: str) -> None:
        self._settings, self._password = settings, password
        self._own = settings.address.lower()
        domain = self._own.rpartition("@")[2]
        self._smtp = Host.of(settings.smtp, f"smtp.{domain}", 465)
        self._begin = datetime.now(UTC).replace(microsecond=0)
        self._handler: IncomingHandler | None = None
        self._files: dict[str, bytes] = {}
        self._heads: dict[str, tuple[str, tuple[str, ...]]] = {}  # subject and references, by id
        self._warned: set[str] = set()

    async def listen(self, handler: IncomingHandler) -> None:
        self._handler = handler
        inbox = Inbox(self._settings, self._password)
        thread = ThreadPoolExecutor(1, thread_name_prefix="mail")
        run = partial(asyncio.get_running_loop().run_in_executor, thread)
        try:
            await run(inbox.open)
            last, waiting = await self._resume(handler, inbox, run)
            while True:
                handler.connected()
                for uid in waiting:
                    await self._handle_letter(handler, inbox, run, uid)
                    last = max(last, uid)
                    await handler.bot.state.set(self.name, self._mark, f"{inbox.validity} {last}")
                    await run(inbox.mark_seen, uid)
                waiting = await run(inbox.find_later, last)
                if not waiting:
                    await run(inbox.wait)
        finally:
            inbox.end()
            thread.submit(inbox.close)  # once the waiting call has ended
            thread.shutdown(wait=False)

    @property
    def _mark(self) -> str:
        return f"last {self._own} {self._settings.folder}"

    async def _resume(
        self, handler: IncomingHandler, inbox: Inbox, run: Any
    ) -> tuple[int, list[int]]:
        """Return the last processed message, and the waiting ones. Mail from before the bot's
        creation is not answered; after the server has renumbered its messages, the unseen ones
        count as waiting."""
        kept = await handler.bot.state.get(self.name, self._mark)
        if not kept:
            recent = await run(inbox.find_since, self._begin)
            kept = f"{inbox.validity} {recent[0] - 1 if recent else inbox.next - 1}"
            await handler.bot.state.set(self.name, self._mark, kept)
        validity, last = map(int, kept.split())
        if validity != inbox.validity:
            return inbox.next - 1, await run(inbox.find_unseen)
        return last, await run(inbox.find_later, last)

    async def _handle_letter(
        self, handler: IncomingHandler, inbox: Inbox, run: Any, uid: int
    ) -> None:
        """Pass on a message from a permitted person: the answer must not go to a forged sender, nor
        to a machine. Its head is checked before the rest is fetched. The number of attempts is on
        disk before reading, so that a message which crashes the process is not read for ever."""
        fallback = f"<{uid}.{inbox.validity}@imap>"
        raw = await run(inbox.fetch_head, uid)
        if not raw or not await self._begin_reading(handler, fallback):
            return
        try:
            letter = await self._open(handler, inbox, run, uid, raw)
        except (Exception, asyncio.CancelledError):
            await handler.bot.state.set(self.name, self._attempts, "")
            raise
        # The rest may fail and be retried.
        await handler.bot.state.set(self.name, self._attempts, "")
        if letter is not None and self._may_be_read(handler, letter):
            await self._receive(handler, letter)

    async def _open(
        self, handler: IncomingHandler, inbox: Inbox, run: Any, uid: int, head: bytes
    ) -> Letter | None:
        """Return the letter; None: it was deleted, can't be read, or is not permitted."""
        about = (f"<{uid}.{inbox.validity}@imap>", self._own)
        try:
            letter: Letter | None = await run(open_letter, handler.bot, head, *about)
        except UnreadableError as error:
            log.warning("the head of a message %s, and the message is left out", error)
            return None
        if letter is None or not self._may_be_read(handler, letter):
            return None
        raw, is_whole = await run(inbox.fetch, uid)
        if is_whole:
            try:
                return await run(open_letter, handler.bot, raw, *about) if raw else None
            except UnreadableError as error:
                log.warning("a message %s; only its head is read", error)
        return replace(letter, whole=False) if raw else None

    async def _begin_reading(self, handler: IncomingHandler, identity: str) -> bool:
        """Return whether to try reading a message once more."""
        kept, _space, count = (await handler.bot.state.get(self.name, self._attempts)).partition(
            " "
        )
        tries = int(count or 0) if kept == identity else 0
        if tries >= _MOST_ATTEMPTS:
            log.warning("message %s ended the bot %d times, and is left out", identity, tries)
            handler.bot.trouble(self.name, MessageSkipped(identity))
            return False
        await handler.bot.state.set(self.name, self._attempts, f"{identity} {tries + 1}")
        return True

    @property
    def _attempts(self) -> str:
        return f"attempts {self._own} {self._settings.folder}"

    def _may_be_read(self, handler: IncomingHandler, letter: Letter) -> bool:
        if reason := self._why_not(handler, letter):
            log.info("a message of %s is left unanswered: %s", letter.sender or "nobody", reason)
        return not reason

    async def _receive(self, handler: IncomingHandler, letter: Letter) -> None:
        message, self._files = _to_incoming(letter)
        self._keep_head(letter.id, letter.subject, letter.references)
        name = f"thread {letter.sender} {letter.thread}"
        await handler.bot.state.set(self.name, name, letter.id)
        await handler.take([message])
        self._files = {}

    def _why_not(self, handler: IncomingHandler, letter: Letter) -> str:
        if not letter.sender:
            return "its From names nobody, or several"
        if letter.automatic:
            return letter.automatic
        is_known = handler.bot.admits(Address(self.name, letter.sender, user=letter.sender))
        if not is_known and not self._settings.answers_strangers:
            return "the bot does not know them"
        if not is_verified(letter.sender, letter.results, self._settings.verified_by):
            if is_known:
                self._warn(letter)
            return "it is not verified who sent it"
        return ""

    def _warn(self, letter: Letter) -> None:
        """Warn once per person: their mail is not read, and the setting may be wrong."""
        if letter.sender not in self._warned and len(self._warned) < _MOST_KEPT:
            self._warned.add(letter.sender)
            names = ", ".join(dict.fromkeys(parse(one)[0] for one in letter.results)) or "nobody"
            log.warning(_NOT_VERIFIED, letter.sender, self._settings.verified_by, names)

    def _keep_head(self, message: str, subject: str, references: tuple[str, ...]) -> None:
        if len(self._heads) >= _MOST_KEPT:
            del self._heads[next(iter(self._heads))]
        self._heads[message] = (subject, references)

    async def fetch(self, file: File) -> bytes:
        return self._files[file.id]

    async def post(self, place: Location, post: Post) -> str:
        course = await self._find_course(place)
        return await self._send(make_mail(course, post))

    async def upload(self, place: Location, media: Media) -> str:
        course = await self._find_course(place)
        return await self._send(make_mail_with(course, media))

    async def _find_course(self, place: Location) -> MailThread:
        """Return the course of a message: into its thread, after the last message there."""
        last = place.message
        if not last and place.thread and self._handler:
            last = await self._handler.bot.state.get(
                self.name, f"thread {place.chat} {place.thread}"
            )
        if not last:
            return MailThread(self._own, place.chat, place.thread or begin_thread())
        if last not in self._heads:
            self._keep_head(last, *await asyncio.to_thread(self._look_up, last))
        subject, references = self._heads[last]
        return MailThread(self._own, place.chat, place.thread, subject, (*references, last))

    def _look_up(self, message: str) -> tuple[str, tuple[str, ...]]:
        """Return the subject and the references of a message from before the bot's start."""
        inbox = Inbox(self._settings, self._password)
        try:
            inbox.open(is_readonly=True)
            return read_head(inbox.find_head(message))
        finally:
            inbox.close()

    async def _send(self, message: EmailMessage) -> str:
        host = self._smtp
        await aiosmtplib.send(
            message,
            hostname=host.name,
            port=host.port,
            use_tls=host.is_secure,
            start_tls=not (host.is_secure or host.is_here),
            username=self._settings.user or self._settings.address,
            password=self._password,
            timeout=_TIMEOUT,
        )
        return str(message["Message-ID"])

    def explain(self, error: BaseException) -> PlatformFailure:
        match error:
            case LoginError() if not _PASSING_LOGIN.search(str(error)):
                return PlatformFailure("revoked", advice=WRONG_PASSWORD)
            case SMTPAuthenticationError(code=code) if code >= 500:
                return PlatformFailure("revoked", advice=WRONG_PASSWORD)
            case SMTPRecipientsRefused():
                codes = [one.code for one in error.recipients]
                return _failure_of(max(codes, default=550), "gone")
            case SMTPResponseException(code=code):
                return _failure_of(code, "refused")
            case SMTPException() | imaplib.IMAP4.error() | OSError():
                return PlatformFailure("passing")
        return PlatformFailure("fatal")


def _to_incoming(letter: Letter) -> tuple[IncomingMessage, dict[str, bytes]]:
    """Return the letter in the kit's form, and the bytes of its files by their ids. A letter that
    was not completely read is represented by a file that is too large."""
    given = letter.files if letter.whole else ()
    files = [File(str(n), f.name, f.media_type, len(f.content)) for n, f in enumerate(given)]
    if not letter.whole:
        files = [File("", "the message", size=LARGEST_ATTACHMENT + 1)]
    message = IncomingMessage(
        Location(letter.sender, letter.thread, letter.id),
        Author(letter.sender, letter.author),
        letter.text,
        tuple(files),
        at=letter.at,
    )
    return message, {str(number): file.content for number, file in enumerate(given)}


def _failure_of(code: int, lasting: Literal["gone", "refused"]) -> PlatformFailure:
    """Return the meaning of an SMTP server's response: 4.. is temporary, 5.. is permanent."""
    if code in _BUSY:
        return PlatformFailure("wait", _WAIT)
    return PlatformFailure(lasting if code >= 500 else "passing")
