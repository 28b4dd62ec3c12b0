"""Mail's platform with real servers: its behaviour in addition to the contract of all channels."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from channels.base import ChannelError
from channels.kit.platform import Location, Post
from channels.mail import MailSettings
from channels.mail.inbox import Inbox
from channels.mail.mail import Mail
from tests.channels.fake_receiver import FakeReception
from tests.servers.mail import PASSWORD, SERVER, Correspondent, PostOffice
from tests.waiting import PATIENCE, until

_numbers = itertools.count(1)


@dataclass
class MailSetup:
    """The bot's mailbox, Ann, who has access, and Bob, who has none."""

    office: PostOffice
    settings: MailSettings
    receiver: FakeReception
    ann: Correspondent
    bob: Correspondent

    def platform(self) -> Mail:
        return Mail(self.settings, PASSWORD)


@pytest.fixture
def setup(mail: PostOffice) -> MailSetup:
    number = next(_numbers)
    bot = f"reader{number}@parley.test"
    settings = MailSettings(
        address=bot,
        verified_by=SERVER,
        imap=f"127.0.0.1:{mail.dovecot.port}",
        smtp=f"127.0.0.1:{mail.port}",
    )
    ann, bob = (Correspondent(mail, f"{who}{number}@example.org", bot) for who in ("ann", "bob"))
    return MailSetup(mail, settings, FakeReception({ann.address}), ann, bob)


@asynccontextmanager
async def reading(setup: MailSetup, platform: Mail) -> AsyncIterator[None]:
    await platform.open()
    task = asyncio.create_task(platform.listen(setup.receiver))
    await until(lambda: setup.receiver.state or task.done())
    try:
        yield
    finally:
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        await platform.close()
    assert isinstance(end, asyncio.CancelledError), end


async def test_only_verified_mail_of_people_who_are_known_is_read(setup: MailSetup) -> None:
    async with reading(setup, setup.platform()):
        setup.ann.writes("forged", verdict="dmarc=fail header.from=example.org")
        setup.ann.writes("forged", verdict="")
        setup.ann.writes("a machine", Auto_Submitted="auto-replied")
        setup.bob.writes("Let me in")
        setup.ann.writes("Hello")
        await until(setup.receiver.texts)
    assert setup.receiver.texts() == ["Hello"]
    assert setup.office.sent == []


async def test_a_verified_stranger_is_heard_where_that_is_set(setup: MailSetup) -> None:
    setup.settings = setup.settings.model_copy(update={"answers_strangers": True})
    async with reading(setup, setup.platform()):
        setup.bob.writes("forged", verdict="")
        setup.bob.writes("Let me in")
        await until(setup.receiver.texts)
    assert setup.receiver.texts() == ["Let me in"]


async def test_what_was_there_before_is_not_answered_and_what_comes_meanwhile_is(
    setup: MailSetup,
) -> None:
    setup.ann.writes("old")
    old = datetime.now(UTC)
    await until(lambda: datetime.now(UTC) - old > timedelta(seconds=1.1))  # it counts in seconds
    async with reading(setup, setup.platform()):
        setup.ann.writes("one")
        await until(setup.receiver.texts)
    setup.ann.writes("two")
    async with reading(setup, setup.platform()):
        await until(lambda: "two" in setup.receiver.texts())
    assert [*dict.fromkeys(setup.receiver.texts())] == ["one", "two"]


async def test_an_answer_after_a_restart_belongs_to_its_thread(setup: MailSetup) -> None:
    async with reading(setup, setup.platform()):
        first = setup.ann.writes("How long?", "Green tea")
        await until(setup.receiver.texts)
    place = setup.receiver.place()
    again = setup.platform()
    async with reading(setup, again):  # which has not read the message
        await again.post(place, Post("Two minutes"))
    (answer,) = setup.ann.reads()
    assert (answer["Subject"], answer["In-Reply-To"]) == ("Re: Green tea", first["Message-ID"])


async def test_a_reminder_begins_a_thread_that_its_answer_goes_on_with(setup: MailSetup) -> None:
    platform = setup.platform()
    async with reading(setup, platform):
        await platform.post(Location(setup.ann.address), Post("**Tea** is ready"))
        (reminder,) = setup.ann.reads()
        assert reminder["Subject"] == "Tea is ready"
        setup.ann.writes("Thanks", answers=reminder)
        await until(setup.receiver.texts)
        thread = str(reminder["Message-ID"]).split(".")[1]
        assert setup.receiver.place().thread == thread
        await platform.post(Location(setup.ann.address, thread), Post("Any time"))
    answer = setup.ann.reads()[-1]
    assert answer["In-Reply-To"] == setup.receiver.place().message


async def test_what_the_server_told_between_two_answers_is_not_waited_for(
    setup: MailSetup,
) -> None:
    inbox = Inbox(setup.settings, PASSWORD)
    try:
        await asyncio.to_thread(inbox.open)
        setup.ann.writes("Hello")
        await asyncio.to_thread(inbox.client.noop)  # with which it reports a new message
        async with asyncio.timeout(PATIENCE):
            await asyncio.to_thread(inbox.wait)
        assert len(inbox.find_later(0)) == 1
    finally:
        inbox.end()
        inbox.close()


async def test_a_folder_that_is_not_there_is_said(setup: MailSetup) -> None:
    setup.settings = setup.settings.model_copy(update={"folder": "Nowhere"})
    with pytest.raises(ChannelError, match="no folder Nowhere"):
        await setup.platform().listen(setup.receiver)


async def test_what_the_server_answers_is_understood(setup: MailSetup) -> None:
    for answer, kind in [
        ("451 4.7.1 Greylisted", "wait"),
        ("552 5.3.4 Message too large", "refused"),
        ("454 4.0.0 Not now", "passing"),
    ]:
        setup.office.refusals.append(answer)
        platform = setup.platform()
        with pytest.raises(Exception, match=answer[4:]) as raised:
            await platform.post(Location(setup.ann.address), Post("Hello"))
        assert platform.explain(raised.value).kind == kind, answer


async def test_a_wrong_password_is_said(setup: MailSetup) -> None:
    platform = Mail(setup.settings, "wrong")
    with pytest.raises(Exception, match="535") as sending:
        await platform.post(Location(setup.ann.address), Post("Hello"))
    with pytest.raises(Exception, match=r"(?i)auth") as fetching:
        await platform.listen(setup.receiver)
    for raised in (sending, fetching):
        assert platform.explain(raised.value).kind == "revoked"
