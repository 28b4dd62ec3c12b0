"""Matrix's platform with a real server: its behaviour in addition to the contract of all
channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from channels.base import ChannelError
from channels.kit.platform import IncomingMessage, Location, Post
from channels.matrix.matrix import ENCRYPTED, ENCRYPTED_PRIVATE, Matrix
from channels.matrix.reading import MatrixError, RoomRefused
from tests.channels.fake_receiver import FakeReception
from tests.servers.synapse import Account, MatrixPerson, SynapseServer
from tests.waiting import until

ENCRYPTION = {
    "type": "m.room.encryption",
    "state_key": "",
    "content": {"algorithm": "m.megolm.v1.aes-sha2"},
}
CIPHER = {
    "algorithm": "m.megolm.v1.aes-sha2",
    "ciphertext": "AwgA",
    "session_id": "s",
    "sender_key": "k",
    "device_id": "d",
}


@dataclass
class MatrixSetup:
    """A bot that listens, Ann, who has access, and Bob, who has none."""

    server: SynapseServer
    account: Account
    platform: Matrix
    receiver: FakeReception
    ann: MatrixPerson
    bob: MatrixPerson

    async def private(self) -> Location:
        """Return Ann's chat with the bot, in which she has written a message."""
        room = self.ann.chat_with(self.account.user)
        self.ann.says(room, "Hello!")
        await until(lambda: "Hello!" in self.receiver.texts())
        return self.receiver.place()

    def joined(self, room: str, person: MatrixPerson) -> bool:
        return person.members(room).get(self.account.user) == "join"


@asynccontextmanager
async def listening(platform: Matrix, receiver: FakeReception) -> AsyncIterator[None]:
    await platform.open()
    task = asyncio.create_task(platform.listen(receiver))
    try:
        yield
    finally:
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        await platform.close()
    assert isinstance(end, asyncio.CancelledError), end


@pytest.fixture
async def setup(synapse: SynapseServer) -> AsyncIterator[MatrixSetup]:
    account = synapse.register("parley")
    ann, bob = MatrixPerson(synapse, "ann"), MatrixPerson(synapse, "bob")
    receiver = FakeReception({ann.user})
    platform = Matrix(synapse.url, account.token)
    async with listening(platform, receiver):
        yield MatrixSetup(synapse, account, platform, receiver, ann, bob)


async def test_what_was_said_before_the_bot_was_invited_is_not(setup: MatrixSetup) -> None:
    room = setup.ann.shrink_request()
    setup.ann.says(room, "To myself")
    setup.ann.call("POST", f"rooms/{room}/invite", {"user_id": setup.account.user})
    await until(lambda: setup.joined(room, setup.ann))
    setup.ann.says(room, "To you")
    await until(setup.receiver.texts)
    assert setup.receiver.texts() == ["To you"]


async def test_a_stranger_has_a_direct_chat_and_can_bring_the_bot_into_no_room(
    setup: MatrixSetup,
) -> None:
    room, chat = (
        setup.bob.shrink_request(setup.account.user),
        setup.bob.chat_with(setup.account.user),
    )
    await until(lambda: setup.joined(chat, setup.bob))
    await until(lambda: setup.bob.members(room)[setup.account.user] == "leave")


async def test_an_encrypted_chat_hears_once_why_it_is_not_read_and_has_one_that_is(
    setup: MatrixSetup,
) -> None:
    room = setup.ann.chat_with(setup.account.user, initial_state=[ENCRYPTION])
    await until(lambda: setup.joined(room, setup.ann))
    for _ in range(2):
        setup.ann.send(room, CIPHER, "m.room.encrypted")
    await until(setup.ann.invitations)
    (other,) = setup.ann.invitations()
    setup.ann.joins(other)
    setup.ann.says(other, "Here I am")
    await until(setup.receiver.texts)
    assert setup.receiver.place() == Location(other, message=setup.receiver.place().message)
    said = [e["content"]["body"] for e in setup.ann.reads(room) if e["type"] == "m.room.message"]
    assert said == [ENCRYPTED_PRIVATE]
    failed = await failure(setup, Location(room))
    assert failed == "gone"  # no answer is sent there unencrypted


async def test_an_encrypted_group_hears_it_too(setup: MatrixSetup) -> None:
    room = setup.ann.shrink_request(setup.account.user, setup.bob.user, initial_state=[ENCRYPTION])
    await until(lambda: setup.joined(room, setup.ann))
    setup.ann.send(room, CIPHER, "m.room.encrypted")
    await until(lambda: any(e["content"].get("body") == ENCRYPTED for e in setup.ann.reads(room)))
    assert setup.ann.invitations() == []


async def test_a_room_in_which_the_bot_may_not_speak_ends_nothing(setup: MatrixSetup) -> None:
    mute = {"power_level_content_override": {"events_default": 50}}
    room = setup.bob.shrink_request(
        setup.account.user, initial_state=[ENCRYPTION], is_direct=True, **mute
    )
    await until(lambda: setup.joined(room, setup.bob))
    setup.bob.send(room, CIPHER, "m.room.encrypted")
    await setup.private()


async def test_an_answer_to_what_is_no_message_is_heard(setup: MatrixSetup) -> None:
    room = setup.ann.shrink_request(setup.account.user, setup.bob.user)
    setup.bob.joins(room)
    await until(lambda: setup.joined(room, setup.ann))
    for answered in ("..", "$a/b?c#d"):
        reply = {"m.relates_to": {"m.in_reply_to": {"event_id": answered}}}
        setup.ann.says(room, "Parley: hello?", **reply)
    await until(lambda: len(setup.receiver.heard) == 2)
    assert setup.receiver.texts() == ["hello?", "hello?"]


async def failure(setup: MatrixSetup, place: Location) -> str:
    """Return the kind of failure if nothing can be posted there; "" if it is posted."""
    try:
        await setup.platform.post(place, Post("private words"))
    except (MatrixError, RoomRefused) as error:
        return setup.platform.explain(error).kind
    return ""


async def test_who_is_invited_later_reads_nothing_that_was_meant_for_one(
    setup: MatrixSetup,
) -> None:
    place = await setup.private()
    assert await failure(setup, place) == ""
    setup.ann.call("POST", f"rooms/{place.chat}/invite", {"user_id": setup.bob.user})
    setup.ann.says(place.chat, "Parley: now we are three")
    await until(lambda: len(setup.receiver.heard) == 2)
    assert setup.receiver.place().is_group
    assert await failure(setup, place) == "gone"
    assert await failure(setup, setup.receiver.place()) == ""


async def test_a_room_into_which_anybody_may_come_is_not_private(setup: MatrixSetup) -> None:
    for count, (kind, content) in enumerate(
        [
            ("m.room.join_rules", {"join_rule": "public"}),
            ("m.room.history_visibility", {"history_visibility": "world_readable"}),
        ],
        1,
    ):
        state = {"type": kind, "state_key": "", "content": content}
        room = setup.ann.chat_with(setup.account.user, initial_state=[state])
        setup.ann.says(room, "Hello!")
        await until(lambda: len(setup.receiver.heard) == count)  # noqa: B023
        assert setup.receiver.place().is_group, kind


async def test_an_edit_by_somebody_else_is_none(setup: MatrixSetup) -> None:
    room = setup.ann.shrink_request(setup.account.user, setup.bob.user)
    setup.bob.joins(room)
    await until(lambda: setup.joined(room, setup.ann))
    first = setup.ann.says(room, "Parley: one")
    setup.bob.edits(room, first, "Parley: forged")
    setup.ann.edits(room, first, "Parley: two")
    await until(lambda: len(setup.receiver.heard) == 2)
    assert setup.receiver.texts() == ["one", "two"]
    assert {one.sender.id for one in setup.receiver.heard} == {setup.ann.user}
    assert {one.place.message for one in setup.receiver.heard} == {first}


async def test_all_that_was_said_while_the_bot_was_away_comes_in_order(
    synapse: SynapseServer,
) -> None:
    account, ann = synapse.register("parley"), MatrixPerson(synapse, "ann")
    receiver = FakeReception({ann.user})
    async with listening(Matrix(synapse.url, account.token), receiver):
        room = ann.chat_with(account.user)
        ann.says(room, "0")
        await until(receiver.texts)
        await until(lambda: any(name.startswith("since") for name in receiver.state))
    for number in range(1, 56):  # more than arrive at once
        ann.says(room, str(number))
    async with listening(Matrix(synapse.url, account.token), receiver):
        await until(lambda: len(set(receiver.texts())) == 56)
    said = [*dict.fromkeys(receiver.texts())]  # the first may be repeated, with the same id
    assert said == [str(number) for number in range(56)]


async def test_what_nobody_knows_whether_it_arrived_is_there_once(setup: MatrixSetup) -> None:
    place = await setup.private()
    first = await setup.platform.post(place, Post("Only once", once="outbox 7"))
    await setup.platform.post(place, Post("Another", once="outbox 8"))
    again = await setup.platform.post(place, Post("Only once", once="outbox 7"))
    assert first == again
    said = [one["content"].get("body") for one in setup.ann.reads(place.chat)]
    assert (said.count("Only once"), said.count("Another")) == (1, 1)


async def test_a_person_without_a_room_is_written_to_in_one_of_their_own(
    setup: MatrixSetup,
) -> None:
    place = Location(setup.bob.user)
    first = await setup.platform.post(place, Post("A reminder"))
    second = await setup.platform.post(place, Post("Another"))
    (room,) = setup.bob.invitations()
    setup.bob.joins(room)
    assert {first, second} <= {one["event_id"] for one in setup.bob.reads(room)}


async def test_a_thread_holds_its_answer_and_a_group_sees_what_is_answered(
    setup: MatrixSetup,
) -> None:
    first = await setup.private()
    thread = {"m.relates_to": {"rel_type": "m.thread", "event_id": first.message}}
    question = setup.ann.says(first.chat, "In a thread", **thread)
    await until(lambda: len(setup.receiver.heard) == 2)
    assert setup.receiver.place() == Location(first.chat, first.message, question)
    await setup.platform.post(setup.receiver.place(), Post("I see"))
    assert setup.ann.reads(first.chat)[-1]["content"]["m.relates_to"] == {
        "rel_type": "m.thread",
        "event_id": first.message,
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": question},
    }
    group = Location(first.chat, message=question, is_group=True)
    await setup.platform.post(group, Post("I see"))
    relation = setup.ann.reads(first.chat)[-1]["content"]["m.relates_to"]
    assert relation == {"m.in_reply_to": {"event_id": question}}


async def test_a_file_that_is_larger_than_it_says_is_not_read_to_its_end(
    setup: MatrixSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await setup.private()
    monkeypatch.setattr("channels.matrix.matrix.LARGEST_ATTACHMENT", 100_000)
    content = bytes(1_000_000)
    more = {"info": {"size": 3, "mimetype": "image/png"}}
    setup.ann.sends_file(place.chat, "m.image", content, "image/png", "large.png", **more)
    await until(lambda: len(setup.receiver.heard) == 2)
    found = setup.receiver.heard[-1]
    assert isinstance(found, IncomingMessage)
    fetched = await setup.platform.fetch(found.files[0])
    assert 100_000 < len(fetched) < 1_000_000


async def test_a_wrong_token_is_said(synapse: SynapseServer) -> None:
    with pytest.raises(ChannelError, match="does not know this access token"):
        await Matrix(synapse.url, "syt_wrong").open()
