"""The kit of all messengers: limits, waiting, choices, names of messages, and health."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bot.messengers import UnavailableMessenger, find_type, make_messengers
from bot.settings.schema import validate
from channels.base import ChannelError, Delta, Done, TurnStarted
from channels.formulas import change_parts
from channels.kit import drafts as drafts_module
from channels.kit import receiver as receiver_module
from channels.kit.choices import Choices, Press, confirm, data_of, make_buttons, spell_out
from channels.kit.delivery import MessageSender
from channels.kit.drafts import Drafts
from channels.kit.messenger import Messenger
from channels.kit.pace import Busy, ChatRateLimit, HealthRecord
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
from channels.kit.receiver import MessageReceiver, address_of, id_of
from channels.message import Action, Address, Form, Outbound, Reply
from channels.retry import TROUBLE
from tests.channels.clock import quick_sleep
from tests.fakes.fake_bot import FakeBot
from tests.tables import each_row
from tests.waiting import PATIENCE, until


class Limited(Exception):
    """The platform asks to wait 12 s."""


class Plain(Platform):
    """A platform that has only messages, in memory."""

    name = "plain"

    def __init__(self, **traits: Any) -> None:
        self.traits = Traits(**{"longest": 100, "overall": 1_000, **traits})
        self.posted: list[tuple[str, str]] = []

    def explain(self, error: BaseException) -> PlatformFailure:
        match error:
            case Limited():
                return PlatformFailure("wait", 12)
            case PermissionError():
                return PlatformFailure("revoked", advice="Make a new token.")
            case OSError():
                return PlatformFailure("passing")
        return PlatformFailure("fatal")

    async def post(self, place: Location, post: Post) -> str:
        self.posted.append((place.chat, post.text))
        return str(len(self.posted))

    async def listen(self, handler: IncomingHandler) -> None:
        handler.connected()
        await asyncio.Event().wait()


GROUP, ANN = Location("7", is_group=True), Location("42")


def pace_of(
    sleep: Callable[[float], Any] = lambda seconds: asyncio.sleep(0), **traits: Any
) -> ChatRateLimit:
    return ChatRateLimit(Plain(**traits), HealthRecord("plain"), sleep)


async def test_a_group_gets_no_more_messages_than_the_platform_allows() -> None:
    pace, sent = pace_of(per_group=6, chat_time=3_600.0), list[int]()

    async def send() -> None:
        sent.append(1)

    for _ in range(6):
        await pace.send(GROUP, send)
    with pytest.raises(Busy):  # a draft leaves the remaining rate to replies
        await pace.try_once(GROUP, send)
    more = asyncio.create_task(pace.send(GROUP, send))
    await pace.try_once(ANN, send)
    assert not more.done()
    more.cancel()
    assert len(sent) == 7


async def test_a_chat_that_the_platform_wants_left_alone_is_and_others_are_not() -> None:
    over, held = asyncio.Event(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds:
            assert seconds == 12
            held.set()
            await over.wait()

    pace, refusals, reached = pace_of(sleep), [Limited()], list[str]()

    async def refuse_once() -> None:
        if refusals:
            raise refusals.pop()
        reached.append("7")

    async def reach() -> None:
        reached.append("42")

    waiting = asyncio.create_task(pace.send(GROUP, refuse_once))
    await held.wait()
    await pace.send(ANN, reach)
    with pytest.raises(Busy):
        await pace.try_once(GROUP, reach)
    assert reached == ["42"]
    over.set()
    await waiting
    assert reached == ["42", "7"]
    await pace.close()


async def test_what_is_no_message_is_not_asked_for_again_either_before_the_time() -> None:
    over, asked = asyncio.Event(), 0

    async def sleep(seconds: float) -> None:
        await (over.wait() if seconds else asyncio.sleep(0))

    async def fetch() -> bytes:
        nonlocal asked
        asked += 1
        if not over.is_set():
            raise Limited
        return b"file"

    pace = pace_of(sleep)
    fetching = asyncio.create_task(pace.send(ANN, fetch, is_message=False))
    for _ in range(50):
        await asyncio.sleep(0)
    assert asked == 1
    over.set()
    assert await fetching == b"file"
    await pace.close()


@pytest.mark.parametrize("seconds", [-5.0, 1e12, float("nan")])
async def test_no_time_to_wait_is_absurd(seconds: float) -> None:
    waited, refusals = list[float](), [Limited()]

    class Strange(Plain):
        def explain(self, error: BaseException) -> PlatformFailure:
            return PlatformFailure("wait", seconds)

    async def sleep(wait: float) -> None:
        waited.append(wait)

    async def refuse_once() -> str:
        if refusals:
            raise refusals.pop()
        return "sent"

    pace = ChatRateLimit(Strange(), HealthRecord("plain"), sleep)
    assert await pace.send(ANN, refuse_once) == "sent"
    assert 0 < max(waited) <= 24 * 3600
    assert min(waited) >= 0


async def test_a_bot_that_the_platform_knows_no_more_is_told_what_to_do() -> None:
    async def send() -> None:
        raise PermissionError

    with pytest.raises(ChannelError, match="Make a new token"):
        await pace_of().send(ANN, send)


ACTIONS = (Action("Clear", "/context clear", asks_first=True), Action("Map", "/context map"))


def at(message: str) -> Location:
    return replace(ANN, message=message)


async def test_a_number_stands_for_a_choice_until_the_next_message_of_the_bot() -> None:
    bot = FakeBot(lambda text: [])
    choices = Choices("plain", bot)
    assert await choices.choose(at("m0"), "1") is None
    await choices.offer(ANN, ACTIONS)
    assert await choices.choose(at("m1"), "2.") == ("Map", "/context map")
    assert await choices.choose(at("m2"), "3") is None
    assert await choices.choose(at("m3"), "1 apple") is None
    after = Choices("plain", bot)  # another process
    assert await after.choose(at("m4"), " 1 ") == ("Clear", "?/context clear")
    await after.offer(ANN, ())
    assert await after.choose(at("m5"), "1") is None
    assert await after.choose(at("m1"), "2.") == ("Map", "/context map"), "it comes once more"


async def test_a_number_is_one_in_any_script() -> None:
    for text in ["2", "2.", "2)", "２", "２．", "2、", "2。", "٢"]:
        choices = Choices("plain", FakeBot(lambda text: []))
        await choices.offer(ANN, ACTIONS)
        assert await choices.choose(at("m1"), text) == ("Map", "/context map"), text


async def test_a_choice_that_was_edited_is_what_it_says_now() -> None:
    choices = Choices("plain", FakeBot(lambda text: []))
    await choices.offer(ANN, ACTIONS)
    assert await choices.choose(at("m1"), "1") == ("Clear", "?/context clear")
    assert await choices.choose(at("m1"), "2") == ("Map", "/context map")
    assert await choices.choose(at("m1"), "What is the capital of France?") is None
    await choices.offer(ANN, ())
    assert await choices.choose(at("m1"), "1.") == ("Clear", "?/context clear"), "it comes again"
    assert await choices.choose(at("m1"), "3") is None


async def test_an_emoji_answers_the_message_that_asked() -> None:
    choices = Choices("plain", FakeBot(lambda text: []))
    asks = (Action("Approve", "/approve K7QM"), Action("Deny", "/deny K7QM"))
    await choices.ask(ANN, "m1", asks)
    assert await choices.react(at("m1"), "👍🏽") == "/approve K7QM"
    assert await choices.react(at("m1"), "👎") == "/deny K7QM"
    assert await choices.react(at("m2"), "👍") == ""
    assert await choices.react(at("m2"), "🛑") == "/stop"
    assert await choices.react(at("m1"), "❤️") == ""


def test_what_does_not_fit_into_a_button_is_spelled_out() -> None:
    long = Action("Search", "/context search " + "word " * 12)
    traits = Traits(100, longest_button=64, most_buttons=1)
    buttons = make_buttons((long, *ACTIONS), traits)
    assert [button.label for button in buttons] == ["Clear"]
    spelled = f"Search: `{long.command}`\nMap: `/context map`"
    assert spell_out((long, *ACTIONS), traits) == spelled


def test_a_confirmation_is_known_for_one() -> None:
    yes, no = (Press.of(data_of(action)) for action in confirm("Clear", "/context clear"))
    assert (yes.command, yes.is_answer, no.command, no.is_answer) == (
        "/context clear",
        True,
        "",
        True,
    )
    assert Press.of(data_of(ACTIONS[0])).is_question


name = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(message=name, thread=st.one_of(st.just(""), name), press=st.one_of(st.just(""), name))
def test_the_place_of_a_message_can_be_read_from_its_id(
    message: str, thread: str, press: str
) -> None:
    place = Location("7", thread, message, is_group=True)
    messenger = Messenger(Plain())
    found = messenger.place_of(Address("plain", "7", thread, "42"), id_of(place, press))
    assert found == place


@given(user=name, chat=name, is_group=st.booleans())
def test_only_a_persons_own_chat_is_private(user: str, chat: str, is_group: bool) -> None:
    event = IncomingMessage(Location(chat, is_group=is_group), Author(user), "Hi")
    address = address_of("plain", event)
    assert address.is_private is not is_group
    assert is_group or Plain().place_of(address, "").chat == chat


def test_health_tells_after_many_failures_and_forgets_what_a_connection_has_outlasted() -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    health = HealthRecord("plain", lambda: now[0])
    for _ in range(TROUBLE):
        health.has_trouble(OSError("no way there"))
    assert (health.state.state, health.state.reason) == ("troubled", "no way there")
    assert health.wait > 1
    health.is_good()
    health.has_trouble(OSError("again"))
    assert health.failures == TROUBLE + 1, "a connection that does not hold is none"
    health.is_good()
    now[0] += timedelta(minutes=1)
    health.has_trouble(OSError("cut"))
    assert (health.failures, health.wait) == (1, 0.0)


def test_nobody_is_shown_the_ticket_of_an_address() -> None:
    health = HealthRecord("plain")
    health.has_trouble(OSError("403, url='wss://plain.example/link/?ticket=zq-17&id=1'"))
    assert health.state.reason == "403, url='wss://plain.example/link/?…'"


async def test_where_a_command_waits_for_text_a_number_is_text() -> None:
    platform, bot = Plain(), FakeBot(lambda text: [])
    delivery = MessageSender(
        platform, ChatRateLimit(platform, HealthRecord("plain"), asyncio.sleep)
    )
    delivery.choices = Choices("plain", bot)
    await delivery.deliver(ANN, Reply("Which?", actions=ACTIONS))
    assert "1. Clear" in platform.posted[-1][1]
    await delivery.deliver(ANN, Reply("Write it.", actions=ACTIONS, form=Form("/keep")))
    assert "Map: `/context map`" in platform.posted[-1][1]
    assert await delivery.choices.choose(at("m1"), "1") is None


async def test_what_is_sent_again_is_whole(tmp_path: Path) -> None:
    class Loud(Plain):
        def __init__(self) -> None:
            super().__init__(sound="opus")
            self.sent: list[Media] = []

        async def upload(self, place: Location, media: Media) -> str:
            self.sent.append(media)
            return "m9"

    platform, sound = Loud(), tmp_path / "answer.opus"
    sound.write_bytes(b"OggS")
    messenger = Messenger(platform)
    listening = asyncio.create_task(messenger.listen(FakeBot(lambda text: [])))
    await asyncio.sleep(0)
    reply = Reply("Write it.", actions=ACTIONS, form=Form("/keep"), sound=str(sound))
    address = Address("plain", "42", user="42")
    await messenger.send(Outbound(1, address, reply, "m1", is_resent=True))
    assert [media.kind for media in platform.sent] == ["voice"]
    assert "Answer with a number" not in platform.posted[0][1], "the answer is text"
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await messenger.close()


async def test_an_event_without_an_author_is_nobodys() -> None:
    bot = FakeBot(lambda text: [])
    messenger = Messenger(Plain())
    delivery = MessageSender(messenger.platform, pace_of())
    receiver = MessageReceiver(bot, delivery, None, HealthRecord("plain"))
    await receiver.take(
        [
            IncomingMessage(at("m1"), Author(""), "/config"),
            IncomingMessage(at("m2"), Author("7"), "Hi"),
        ]
    )
    assert [inbound.text for inbound in bot.submitted] == ["Hi"]


async def test_a_file_that_is_never_there_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Filed(Plain):
        async def fetch(self, file: File) -> bytes:
            raise ConnectionError("its server is gone")

    monkeypatch.setattr(receiver_module, "_FETCHING", 0.05)
    bot, platform = FakeBot(lambda text: []), Filed()
    pace = ChatRateLimit(platform, HealthRecord("plain"), quick_sleep)
    handler = MessageReceiver(bot, MessageSender(platform, pace), None, HealthRecord("plain"))
    with_file = IncomingMessage(at("m1"), Author("42"), "Look", (File("f1", "a.png"),))
    async with asyncio.timeout(PATIENCE):
        await handler.take([with_file, IncomingMessage(at("m2"), Author("42"), "Hello?")])
    assert [inbound.text for inbound in bot.submitted] == ["Look", "Hello?"]
    assert "I did not get a.png" in platform.posted[0][1]


def test_a_channel_that_is_called_says_that_the_server_is_missing(tmp_path: Path) -> None:
    settings = validate({"channels.messengers": [{"name": "whatsapp", "settings": {}}]})
    (channel,) = make_messengers(settings.channels.messengers, {}, tmp_path, has_server=False)
    assert isinstance(channel, UnavailableMessenger)
    assert '"web": true' in channel.reason


def test_a_channel_comes_from_an_installed_package_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pigeon_post.py").write_text(
        "from channels.kit.registration import ChannelType\n"
        "CHANNEL = ChannelType('pigeon', lambda settings, secrets: None)\n"
    )
    made = tmp_path / "pigeon_post-1.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon-post\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text("[parley.channels]\npigeon = pigeon_post:CHANNEL\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_type("pigeon", tmp_path / "plugins").name == "pigeon"
    with pytest.raises(ChannelError, match="There is no channel dove"):
        find_type("dove", tmp_path / "plugins")
    with pytest.raises(ChannelError, match="it runs where TELEGRAM_BOT_TOKEN stands"):
        find_type("telegram", tmp_path / "plugins")


@each_row(
    ("markdown", "changed"),
    [
        ("a `b` c", "A `b` C"),
        (r"a \`b\` c", r"A \`B\` C"),
        (r"`a\` b", r"`a\` B"),
        (r"`a\` b `c` d", r"`a\` B `c` D"),
        (r"\``a` b", r"\``a` B"),
        (r"\\`a` b", r"\\`a` B"),
        ("``a`b`` c", "``a`b`` C"),
        ("`a b", "`A B"),
        ("`a\nb` c", "`a\nb` C"),
        ("`a\n\nb` c", "`A\n\nB` C"),
        ("a\n~~~\nb\n~~~\nc", "A\n~~~\nb\n~~~\nC"),
    ],
)
def test_what_stands_in_code_is_left_alone(markdown: str, changed: str) -> None:
    assert change_parts(markdown, str.upper) == changed


@pytest.mark.timeout(60)
def test_no_line_takes_longer_than_its_length() -> None:
    for part in ("ab ", "`a ", r"\`", "a\\", " ``a ` "):
        text = part * 200_000
        assert change_parts(text, str) == text


async def test_a_draft_waits_for_the_answers_before_it() -> None:
    """Otherwise it would be above them, and so would the answer that replaces it."""
    platform, address = Plain(can_edit=True, draft=0.0), Address("plain", "42")
    bot = FakeBot(lambda text: [])
    sender = MessageSender(platform, ChatRateLimit(platform, HealthRecord("plain"), quick_sleep))
    drafts = Drafts(sender)
    for message in ("1", "2"):
        assert drafts.expect(bot, address, message, ANN)
    for activity in (TurnStarted("1"), Done("1", "t1"), TurnStarted("2"), Delta("two")):
        bot.show(activity)
    onlooker = drafts._all["42", ""]
    await until(lambda: "2" in onlooker._drafts and onlooker._drafts["2"]._step)
    for _ in range(10):  # drawn by now, if it did not wait
        await asyncio.to_thread(int)
    await drafts.finish(address, "1")
    await sender.deliver(ANN, Reply("one"))
    await drafts.note_sent(address, "1")
    await until(lambda: len(platform.posted) == 2)
    assert [text for _, text in platform.posted] == ["one", "two …"]
    await drafts.close()


@pytest.mark.parametrize("unanswered", ["post", "delete"])
async def test_a_platform_that_does_not_answer_keeps_no_bot_from_ending(
    unanswered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def hang(*_: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(drafts_module, "_FAREWELL", 0.01)
    platform, address = Plain(can_edit=True, draft=0.0), Address("plain", "42")
    monkeypatch.setattr(platform, unanswered, hang)
    bot = FakeBot(lambda text: [])
    drafts = Drafts(
        MessageSender(platform, ChatRateLimit(platform, HealthRecord("plain"), quick_sleep))
    )
    drafts.expect(bot, address, "1", ANN)
    bot.show(TurnStarted("1"))
    bot.show(Delta("one"))
    if unanswered == "post":
        await asyncio.wait_for(asked.wait(), PATIENCE)
    else:
        await until(lambda: platform.posted)
    await asyncio.wait_for(drafts.close(), PATIENCE)
    assert asked.is_set()
    assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing of it goes on"
