"""Matrix's platform in front of a real server: what it has beside the contract of all channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import pytest

from channels.base import Bot, ChannelError, CommandEntry
from channels.kit.platform import Event, Heard, Media, Place, Post
from channels.matrix.answers import MatrixError, NobodyThere
from channels.matrix.matrix import ENCRYPTED, ENCRYPTED_PRIVATE, Matrix
from channels.message import Address
from tests.servers.synapse import Account, MatrixPerson, SynapseServer

PATIENCE = 20.0
T = TypeVar("T")
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


class Kept(dict[str, str]):
    """What the bot keeps for a channel."""

    async def get(self, channel: str, name: str) -> str:  # type: ignore[override]
        return super().get(name, "")

    async def set(self, channel: str, name: str, text: str) -> None:
        self[name] = text


@dataclass
class MatrixDesk:
    """Takes what comes in. `known` are the people who may talk to the bot."""

    known: set[str] = field(default_factory=set)
    state: Kept = field(default_factory=Kept)
    heard: list[Event] = field(default_factory=list)
    bot: Any = field(init=False)

    def __post_init__(self) -> None:
        self.bot = cast(Bot, self)

    def list_commands(self) -> Sequence[CommandEntry]:
        return [CommandEntry("help", "this list")]

    def admits(self, address: Address) -> bool:
        return address.user in self.known

    def language_of(self, address: Address) -> str:
        return "en"

    async def take(self, events: Sequence[Event]) -> None:
        self.heard += events

    def connected(self) -> None: ...

    def troubled(self, error: BaseException) -> None: ...

    async def patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        return await request()

    def texts(self) -> list[str]:
        return [one.text for one in self.heard if isinstance(one, Heard)]

    def place(self) -> Place:
        return self.heard[-1].place


@dataclass
class Scene:
    """A bot that listens, Ann, whom it knows, and Bob, whom it does not."""

    server: SynapseServer
    account: Account
    platform: Matrix
    desk: MatrixDesk
    ann: MatrixPerson
    bob: MatrixPerson

    async def private(self) -> Place:
        """Ann's chat with the bot, in which she has said something."""
        room = self.ann.chat_with(self.account.user)
        self.ann.says(room, "Hello!")
        await until(lambda: "Hello!" in self.desk.texts())
        return self.desk.place()

    def joined(self, room: str, person: MatrixPerson) -> bool:
        return person.members(room).get(self.account.user) == "join"


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110 - another process says so
            await asyncio.sleep(0.02)


@asynccontextmanager
async def listening(platform: Matrix, desk: MatrixDesk) -> AsyncIterator[None]:
    await platform.open()
    task = asyncio.create_task(platform.listen(desk))
    try:
        yield
    finally:
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        await platform.close()
    assert isinstance(end, asyncio.CancelledError), end


@pytest.fixture
async def scene(synapse: SynapseServer) -> AsyncIterator[Scene]:
    account = synapse.register("parley")
    ann, bob = MatrixPerson(synapse, "ann"), MatrixPerson(synapse, "bob")
    desk = MatrixDesk({ann.user})
    platform = Matrix(synapse.url, account.token)
    async with listening(platform, desk):
        yield Scene(synapse, account, platform, desk, ann, bob)


async def test_what_was_said_before_the_bot_followed_its_invitation_is_heard(scene: Scene) -> None:
    place = await scene.private()
    assert scene.desk.texts() == ["Hello!"]
    assert not place.is_group


async def test_what_was_said_before_the_bot_was_invited_is_not(scene: Scene) -> None:
    room = scene.ann.make_room()
    scene.ann.says(room, "To myself")
    scene.ann.call("POST", f"rooms/{room}/invite", {"user_id": scene.account.user})
    await until(lambda: scene.joined(room, scene.ann))
    scene.ann.says(room, "To you")
    await until(scene.desk.texts)
    assert scene.desk.texts() == ["To you"]


async def test_a_stranger_has_a_direct_chat_and_can_bring_the_bot_into_no_room(
    scene: Scene,
) -> None:
    room, chat = scene.bob.make_room(scene.account.user), scene.bob.chat_with(scene.account.user)
    await until(lambda: scene.joined(chat, scene.bob))
    await until(lambda: scene.bob.members(room)[scene.account.user] == "leave")


async def test_an_encrypted_chat_hears_once_why_it_is_not_read_and_has_one_that_is(
    scene: Scene,
) -> None:
    room = scene.ann.chat_with(scene.account.user, initial_state=[ENCRYPTION])
    await until(lambda: scene.joined(room, scene.ann))
    for _ in range(2):
        scene.ann.send(room, CIPHER, "m.room.encrypted")
    await until(scene.ann.invitations)
    (other,) = scene.ann.invitations()
    scene.ann.joins(other)
    scene.ann.says(other, "Here I am")
    await until(scene.desk.texts)
    assert scene.desk.place() == Place(other, message=scene.desk.place().message)
    said = [e["content"]["body"] for e in scene.ann.reads(room) if e["type"] == "m.room.message"]
    assert said == [ENCRYPTED_PRIVATE]
    failed = await failure(scene, Place(room))
    assert failed == "gone"  # no answer goes there in the clear


async def test_an_encrypted_group_hears_it_too(scene: Scene) -> None:
    room = scene.ann.make_room(scene.account.user, scene.bob.user, initial_state=[ENCRYPTION])
    await until(lambda: scene.joined(room, scene.ann))
    scene.ann.send(room, CIPHER, "m.room.encrypted")
    await until(lambda: any(e["content"].get("body") == ENCRYPTED for e in scene.ann.reads(room)))
    assert scene.ann.invitations() == []


async def test_a_room_in_which_the_bot_may_not_speak_ends_nothing(scene: Scene) -> None:
    mute = {"power_level_content_override": {"events_default": 50}}
    room = scene.bob.make_room(
        scene.account.user, initial_state=[ENCRYPTION], is_direct=True, **mute
    )
    await until(lambda: scene.joined(room, scene.bob))
    scene.bob.send(room, CIPHER, "m.room.encrypted")
    await scene.private()


@pytest.mark.parametrize("answered", ["..", "$a/b?c#d"])
async def test_an_answer_to_what_is_no_message_is_heard(scene: Scene, answered: str) -> None:
    room = scene.ann.make_room(scene.account.user, scene.bob.user)
    scene.bob.joins(room)
    await until(lambda: scene.joined(room, scene.ann))
    reply = {"m.relates_to": {"m.in_reply_to": {"event_id": answered}}}
    scene.ann.says(room, "Parley: hello?", **reply)
    await until(scene.desk.texts)
    assert scene.desk.texts() == ["hello?"]


async def failure(scene: Scene, place: Place) -> str:
    """Why nothing can be posted there."""
    try:
        await scene.platform.post(place, Post("private words"))
    except (MatrixError, NobodyThere) as error:
        return scene.platform.explain(error).kind
    return ""


async def test_who_is_invited_later_reads_nothing_that_was_meant_for_one(scene: Scene) -> None:
    place = await scene.private()
    assert await failure(scene, place) == ""
    scene.ann.call("POST", f"rooms/{place.chat}/invite", {"user_id": scene.bob.user})
    scene.ann.says(place.chat, "Parley: now we are three")
    await until(lambda: len(scene.desk.heard) == 2)
    assert scene.desk.place().is_group
    assert await failure(scene, place) == "gone"
    assert await failure(scene, scene.desk.place()) == ""


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("m.room.join_rules", {"join_rule": "public"}),
        ("m.room.history_visibility", {"history_visibility": "world_readable"}),
    ],
)
async def test_a_room_into_which_anybody_may_come_is_not_private(
    scene: Scene, kind: str, content: dict[str, str]
) -> None:
    state = {"type": kind, "state_key": "", "content": content}
    room = scene.ann.chat_with(scene.account.user, initial_state=[state])
    await until(lambda: scene.joined(room, scene.ann))
    scene.ann.says(room, "Hello!")
    await until(scene.desk.texts)
    assert scene.desk.place().is_group


async def test_an_edit_by_somebody_else_is_none(scene: Scene) -> None:
    room = scene.ann.make_room(scene.account.user, scene.bob.user)
    scene.bob.joins(room)
    await until(lambda: scene.joined(room, scene.ann))
    first = scene.ann.says(room, "Parley: one")
    scene.bob.edits(room, first, "Parley: forged")
    scene.ann.edits(room, first, "Parley: two")
    await until(lambda: len(scene.desk.heard) == 2)
    assert scene.desk.texts() == ["one", "two"]
    assert {one.sender.id for one in scene.desk.heard} == {scene.ann.user}
    assert {one.place.message for one in scene.desk.heard} == {first}


async def test_all_that_was_said_while_the_bot_was_away_comes_in_order(
    synapse: SynapseServer,
) -> None:
    account, ann = synapse.register("parley"), MatrixPerson(synapse, "ann")
    desk = MatrixDesk({ann.user})
    async with listening(Matrix(synapse.url, account.token), desk):
        room = ann.chat_with(account.user)
        ann.says(room, "0")
        await until(desk.texts)
        await until(lambda: any(name.startswith("since") for name in desk.state))
    for number in range(1, 81):  # more than come at once
        ann.says(room, str(number))
    async with listening(Matrix(synapse.url, account.token), desk):
        await until(lambda: len(set(desk.texts())) == 81)
    said = [*dict.fromkeys(desk.texts())]  # the first may come twice: with the same id
    assert said == [str(number) for number in range(81)]


async def test_what_nobody_knows_whether_it_arrived_is_there_once(scene: Scene) -> None:
    place = await scene.private()
    first = await scene.platform.post(place, Post("Only once", once="outbox 7"))
    await scene.platform.post(place, Post("Another", once="outbox 8"))
    again = await scene.platform.post(place, Post("Only once", once="outbox 7"))
    assert first == again
    said = [one["content"].get("body") for one in scene.ann.reads(place.chat)]
    assert (said.count("Only once"), said.count("Another")) == (1, 1)


async def test_a_person_without_a_room_is_written_to_in_one_of_their_own(scene: Scene) -> None:
    place = Place(scene.bob.user)
    first = await scene.platform.post(place, Post("A reminder"))
    second = await scene.platform.post(place, Post("Another"))
    (room,) = scene.bob.invitations()
    scene.bob.joins(room)
    assert {first, second} <= {one["event_id"] for one in scene.bob.reads(room)}


async def test_a_thread_holds_its_answer_and_a_group_sees_what_is_answered(scene: Scene) -> None:
    first = await scene.private()
    thread = {"m.relates_to": {"rel_type": "m.thread", "event_id": first.message}}
    question = scene.ann.says(first.chat, "In a thread", **thread)
    await until(lambda: len(scene.desk.heard) == 2)
    assert scene.desk.place() == Place(first.chat, first.message, question)
    await scene.platform.post(scene.desk.place(), Post("I see"))
    assert scene.ann.reads(first.chat)[-1]["content"]["m.relates_to"] == {
        "rel_type": "m.thread",
        "event_id": first.message,
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": question},
    }
    group = Place(first.chat, message=question, is_group=True)
    await scene.platform.post(group, Post("I see"))
    relation = scene.ann.reads(first.chat)[-1]["content"]["m.relates_to"]
    assert relation == {"m.in_reply_to": {"event_id": question}}


async def test_a_file_that_is_larger_than_it_says_is_not_read_to_its_end(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await scene.private()
    monkeypatch.setattr("channels.matrix.matrix.LARGEST_ATTACHMENT", 100_000)
    content = bytes(1_000_000)
    more = {"info": {"size": 3, "mimetype": "image/png"}}
    scene.ann.sends_file(place.chat, "m.image", content, "image/png", "large.png", **more)
    await until(lambda: len(scene.desk.heard) == 2)
    found = scene.desk.heard[-1]
    assert isinstance(found, Heard)
    fetched = await scene.platform.fetch(found.files[0])
    assert 100_000 < len(fetched) < 1_000_000


async def test_a_file_arrives_as_it_is(scene: Scene) -> None:
    place = await scene.private()
    media = Media("voice", "answer.ogg", b"OggS", "Listen!", "audio/ogg")
    await scene.platform.upload(place, media)
    content = scene.ann.reads(place.chat)[-1]["content"]
    assert (content["msgtype"], content["body"], content["filename"]) == (
        *("m.audio", "Listen!"),
        "answer.ogg",
    )
    assert scene.ann.downloads(content["url"]) == b"OggS"


async def test_a_wrong_token_is_said(synapse: SynapseServer) -> None:
    with pytest.raises(ChannelError, match="does not know this access token"):
        await Matrix(synapse.url, "syt_wrong").open()


async def test_a_limit_is_waited_for(scene: Scene) -> None:
    place = await scene.private()
    scene.server.limit(scene.account, per_second=1, at_once=1)
    failures = [await failure(scene, place) for _ in range(4)]
    assert "wait" in failures
