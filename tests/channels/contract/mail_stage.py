"""Mail: a real Dovecot, and an SMTP server that checks the login."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

from msgspec.structs import replace

from channels.base import Channel
from channels.kit.messenger import Messenger
from channels.mail import MailSettings
from channels.mail.mail import Mail
from tests.channels.clock import quick_sleep
from tests.channels.contract.stage import Seen, Stage
from tests.servers.link import Link
from tests.servers.mail import PASSWORD, SERVER, Correspondent, PostOffice

_numbers = itertools.count(1)


class MailStage(Stage):
    name, server_fixture = "mail", "mail"
    can = (
        *("stranger", "file", "picture", "voice", "redeliver", "wait", "cut", "outage", "revoke"),
        "late",
    )
    secrets = (PASSWORD,)

    def use(self, server: PostOffice) -> None:
        self.server = server

    async def open(self) -> None:
        self.office = self.server
        number = next(_numbers)
        self.bot = f"bot{number}@parley.test"
        self.people = {
            name: Correspondent(
                self.office, f"{name}{number}@example.org", self.bot, name.capitalize()
            )
            for name in ("ann", "bob")
        }
        self.owner = self.people["ann"].address
        self.written: list[tuple[str, EmailMessage]] = []
        self.imap = await Link(self.office.dovecot.port).__aenter__()
        self.smtp = await Link(self.office.port).__aenter__()

    async def close(self) -> None:
        await self.imap.__aexit__(None, None, None)
        await self.smtp.__aexit__(None, None, None)

    def channel(self, settings: Callable[[], Any]) -> Channel:
        told = MailSettings(
            address=self.bot,
            verified_by=SERVER,
            imap=f"127.0.0.1:{self.imap.port}",
            smtp=f"127.0.0.1:{self.smtp.port}",
            answers_strangers=True,
        )
        platform = Mail(told, PASSWORD)
        platform.traits = replace(Mail.traits, overall=1_000.0)
        return Messenger(platform, quick_sleep)

    async def say(
        self,
        text: str,
        chat: str = "private",
        *,
        by: str = "ann",
        mention: bool = True,
        thread: str = "",
        age: float = 0.0,
    ) -> str:
        date = format_datetime(datetime.now(UTC) - timedelta(seconds=age))
        return await self._write(by, text, Date=date)

    async def _write(
        self, by: str, text: str, file: tuple[str, bytes, str] | None = None, **fields: str
    ) -> str:
        """All messages of a person belong to one thread."""
        last = next((message for who, message in reversed(self.written) if who == by), None)
        person = self.people[by]
        message = await asyncio.to_thread(
            lambda: person.writes(text, answers=last, file=file, **fields)
        )
        self.written.append((by, message))
        return str(message["Message-ID"])

    async def send_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        return await self._write("ann", text, (name, content, media_type))

    async def redeliver(self) -> None:
        for _by, message in self.written:
            await asyncio.to_thread(self.office.receive, self.bot, message)

    async def see(self, chat: str = "private", by: str = "ann") -> list[Seen]:
        return [_seen(message) for message in self.people[by].reads()]

    async def ask_to_wait(self, seconds: int) -> None:
        self.office.refusals.append("451 4.7.1 Greylisted, try again later")

    async def cut(self) -> None:
        self.imap.reset()
        self.smtp.reset()

    async def outage(self, *, is_on: bool) -> None:
        for link in (self.imap, self.smtp):
            if is_on:
                link.take_down()
            else:
                link.mend()

    async def revoke(self) -> None:
        await asyncio.to_thread(self.office.dovecot.lock_out, self.bot)
        self.imap.reset()


def _seen(message: EmailMessage) -> Seen:
    body = message.get_body(("plain",))
    files = [part.get_payload(decode=True) for part in message.iter_attachments()]
    file = next((content for content in files if isinstance(content, bytes)), b"")
    text = body.get_content() if isinstance(body, EmailMessage) else ""
    answers = str(message["In-Reply-To"] or "")
    return Seen(str(message["Message-ID"]), text, (), file, "", answers)
