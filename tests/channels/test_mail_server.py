"""Mail's platform in front of real servers: what it has beside the contract of all channels."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from channels.base import ChannelError
from channels.kit.platform import Place, Post
from channels.mail import MailSettings
from channels.mail.inbox import Inbox
from channels.mail.mail import Mail
from tests.channels.test_matrix_server import MatrixDesk, until
from tests.servers.mail import PASSWORD, SERVER, Correspondent, PostOffice

_numbers = itertools.count(1)


@dataclass
class MailScene:
    """The bot's mailbox, Ann, whom it knows, and Bob, whom it does not."""

    office: PostOffice
    settings: MailSettings
    desk: MatrixDesk
    ann: Correspondent
    bob: Correspondent

    def platform(self) -> Mail:
        return Mail(self.settings, PASSWORD)


@pytest.fixture
def scene(mail: PostOffice) -> MailScene:
    number = next(_numbers)
    bot = f"reader{number}@parley.test"
    settings = MailSettings(
        address=bot,
        verified_by=SERVER,
        imap=f"127.0.0.1:{mail.dovecot.port}",
        smtp=f"127.0.0.1:{mail.port}",
    )
    ann, bob = (Correspondent(mail, f"{who}{number}@example.org", bot) for who in ("ann", "bob"))
    return MailScene(mail, settings, MatrixDesk({ann.address}), ann, bob)


@asynccontextmanager
async def reading(scene: MailScene, platform: Mail) -> AsyncIterator[None]:
    await platform.open()
    task = asyncio.create_task(platform.listen(scene.desk))
    await until(lambda: scene.desk.state or task.done())
    try:
        yield
    finally:
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        await platform.close()
    assert isinstance(end, asyncio.CancelledError), end


async def test_only_verified_mail_of_people_who_are_known_is_read(scene: MailScene) -> None:
    async with reading(scene, scene.platform()):
        scene.ann.writes("forged", verdict="dmarc=fail header.from=example.org")
        scene.ann.writes("forged", verdict="")
        scene.ann.writes("a machine", Auto_Submitted="auto-replied")
        scene.bob.writes("Let me in")
        scene.ann.writes("Hello")
        await until(scene.desk.texts)
    assert scene.desk.texts() == ["Hello"]
    assert scene.office.sent == []


async def test_a_result_that_came_with_the_message_is_not_the_servers(scene: MailScene) -> None:
    forged = f"{SERVER}; dmarc=pass header.from=example.org"
    async with reading(scene, scene.platform()):
        scene.ann.writes("forged", verdict="dmarc=fail", Authentication_Results=forged)
        scene.ann.writes("Hello")
        await until(scene.desk.texts)
    assert scene.desk.texts() == ["Hello"]


async def test_a_verified_stranger_is_heard_where_that_is_set(scene: MailScene) -> None:
    scene.settings = scene.settings.model_copy(update={"answers_strangers": True})
    async with reading(scene, scene.platform()):
        scene.bob.writes("forged", verdict="")
        scene.bob.writes("Let me in")
        await until(scene.desk.texts)
    assert scene.desk.texts() == ["Let me in"]


async def test_what_was_there_before_is_not_answered_and_what_comes_meanwhile_is(
    scene: MailScene,
) -> None:
    scene.ann.writes("old")
    await asyncio.sleep(1.1)  # the server knows the time in seconds
    async with reading(scene, scene.platform()):
        scene.ann.writes("one")
        await until(scene.desk.texts)
    scene.ann.writes("two")
    async with reading(scene, scene.platform()):
        await until(lambda: "two" in scene.desk.texts())
    assert [*dict.fromkeys(scene.desk.texts())] == ["one", "two"]


async def test_an_answer_after_a_restart_belongs_to_its_thread(scene: MailScene) -> None:
    async with reading(scene, scene.platform()):
        first = scene.ann.writes("How long?", "Green tea")
        await until(scene.desk.texts)
    place = scene.desk.place()
    again = scene.platform()
    async with reading(scene, again):  # which has not read the message
        await again.post(place, Post("Two minutes"))
    (answer,) = scene.ann.reads()
    assert (answer["Subject"], answer["In-Reply-To"]) == ("Re: Green tea", first["Message-ID"])


async def test_a_reminder_begins_a_thread_that_its_answer_goes_on_with(scene: MailScene) -> None:
    platform = scene.platform()
    async with reading(scene, platform):
        await platform.post(Place(scene.ann.address), Post("**Tea** is ready"))
        (reminder,) = scene.ann.reads()
        assert reminder["Subject"] == "Tea is ready"
        scene.ann.writes("Thanks", answers=reminder)
        await until(scene.desk.texts)
        thread = str(reminder["Message-ID"]).split(".")[1]
        assert scene.desk.place().thread == thread
        await platform.post(Place(scene.ann.address, thread), Post("Any time"))
    answer = scene.ann.reads()[-1]
    assert answer["In-Reply-To"] == scene.desk.place().message


async def test_what_the_server_told_between_two_answers_is_not_waited_for(
    scene: MailScene,
) -> None:
    inbox = Inbox(scene.settings, PASSWORD)
    try:
        await asyncio.to_thread(inbox.open)
        scene.ann.writes("Hello")
        await asyncio.to_thread(inbox.client.noop)  # with which it says that something has come
        start = time.monotonic()
        await asyncio.to_thread(inbox.wait)
        assert time.monotonic() - start < 60
        assert len(inbox.find_later(0)) == 1
    finally:
        inbox.close()


async def test_a_folder_that_is_not_there_is_said(scene: MailScene) -> None:
    scene.settings = scene.settings.model_copy(update={"folder": "Nowhere"})
    with pytest.raises(ChannelError, match="no folder Nowhere"):
        await scene.platform().listen(scene.desk)


async def test_what_the_server_answers_is_understood(scene: MailScene) -> None:
    for answer, kind in [
        ("451 4.7.1 Greylisted", "wait"),
        ("552 5.3.4 Message too large", "refused"),
        ("454 4.0.0 Not now", "passing"),
    ]:
        scene.office.refusals.append(answer)
        platform = scene.platform()
        with pytest.raises(Exception, match=answer[4:]) as raised:
            await platform.post(Place(scene.ann.address), Post("Hello"))
        assert platform.explain(raised.value).kind == kind, answer


async def test_a_wrong_password_is_said(scene: MailScene) -> None:
    platform = Mail(scene.settings, "wrong")
    with pytest.raises(Exception, match="535") as sending:
        await platform.post(Place(scene.ann.address), Post("Hello"))
    with pytest.raises(Exception, match=r"(?i)auth") as fetching:
        await platform.listen(scene.desk)
    for raised in (sending, fetching):
        assert platform.explain(raised.value).kind == "revoked"
