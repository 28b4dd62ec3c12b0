"""WeCom with a strict fake of its gateway: its own behaviour, in addition to the contract's
suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.base import ChannelError
from channels.kit.messenger import Messenger
from channels.kit.platform import Button, Location, Media, Post
from channels.message import Action, Address, Outbound, Reply
from channels.wecom import WeComSettings
from channels.wecom.reading import as_it_stands, converted
from channels.wecom.wecom import WeCom
from tests.channels.clock import quick_sleep
from tests.fakes.fake_bot import FakeBot, echo
from tests.fakes.wecom_server import BOT_ID, SECRET, WeComServer
from tests.waiting import until

GROUP = "wrkSFfCgAAxxxx"


@dataclass
class WeComTestBot:
    """Run a bot with this channel and the fake."""

    wecom: WeComServer
    bot: FakeBot
    platform: WeCom
    channel: Messenger

    async def heard(self, count: int) -> None:
        """Wait until the bot has this many messages."""
        await until(lambda: len(self.bot.submitted) >= count)


@asynccontextmanager
async def at_wecom() -> AsyncIterator[WeComTestBot]:
    async with WeComServer() as wecom:
        platform = WeCom(WeComSettings(bot_id=BOT_ID, url=wecom.url), SECRET, pause=0.01)
        channel, bot = Messenger(platform, quick_sleep), FakeBot(echo)
        async with bot.serving(channel):
            await until(lambda: channel.health.state == "up")
            yield WeComTestBot(wecom, bot, platform, channel)


async def test_a_message_is_answered_as_what_it_is() -> None:
    async with at_wecom() as ours:
        ann = ours.wecom.person("ann")
        asked = await ann.says("Hello")
        answer = await ours.wecom.shown("You said: Hello")
    assert (answer.chat, answer.kind, answer.answers) == ("ann", "stream", asked)
    assert ours.bot.submitted[0].address == Address("wecom", "ann", user="ann")


async def test_an_answer_that_comes_too_late_is_a_message_by_itself() -> None:
    async with at_wecom() as ours:
        ann = ours.wecom.person("ann")
        asked = await ann.says("Hello")
        await ours.wecom.shown("You said: Hello")
        ours.wecom._calls.clear()
        await ours.platform.post(Location("ann", message=asked), Post("Late"))
        assert (await ours.wecom.shown("Late")).kind == "markdown"


async def test_what_answers_nothing_is_pushed() -> None:
    async with at_wecom() as ours:
        ours.wecom.person("ann")
        await _send(ours, Reply("Take your pills", actions=(Action("Done", "/done"),)))
        assert (await ours.wecom.shown("Take your pills")).kind == "markdown"
        assert ours.wecom.messages[-1].buttons == {"Done": "/done"}


async def test_a_group_hears_the_bot_that_it_calls() -> None:
    async with at_wecom() as ours:
        ann = ours.wecom.person("ann", GROUP)
        await ann.says("@Parley what is it?", quoting="The password is swordfish")
        answer = await ours.wecom.shown("what is it?")
        (said,) = ours.bot.submitted
        assert answer.chat == GROUP
        assert (said.sender, said.address) == ("ann", Address("wecom", GROUP, user="ann"))
        assert said.text == "Somebody wrote:\n> The password is swordfish\n\nwhat is it?"


async def test_buttons_and_files_both_ways() -> None:
    async with at_wecom() as ours:
        ann = ours.wecom.person("ann")
        place = Location("ann")
        buttons = (Button("Clear", "?/context clear"), Button("Details", "/context detail"))
        await ours.platform.post(place, Post("What now?", buttons))
        card = ours.wecom.messages[-1]
        await ann.presses(card, "Details")
        await ours.heard(1)
        await ann.presses(card, "Clear")
        await ours.wecom.shown("Clear: are you sure?")
        await ann.sends_file("a.pdf", b"%PDF" * 9, "application/pdf")
        await ann.sends_file("a.png", b"png" * 32, "image/png", "Look")
        await ours.heard(3)
        pdf, png = (one.attachments[0] for one in ours.bot.submitted[1:])
        assert (pdf.name, pdf.data, png.data) == ("a.pdf", b"%PDF" * 9, b"png" * 32)
        assert [one.text for one in ours.bot.submitted] == ["/context detail", "", "Look"]
        await ours.platform.upload(place, Media("picture", "b.png", b"png" * 9, "Look"))
        await ours.platform.upload(place, Media("document", "b.bin", bytes(10**6)))
        sent = [(one.kind, one.name, len(one.file)) for one in ours.wecom.messages if one.file]
        assert sent == [("image", "b.png", 27), ("file", "b.bin", 10**6)]


async def test_voice_comes_as_words_and_a_film_is_declined() -> None:
    async with at_wecom() as ours:
        ann = ours.wecom.person("ann")
        await ann.sends(ann.body("voice", {"content": "Hello by voice"}))
        await ours.wecom.shown("You said: Hello by voice")
        await ann.sends(ann.body("video", ours.wecom.keep_file("a.mp4", b"film")))
        await ours.wecom.shown("videos")


async def test_what_can_not_be_read_holds_nothing_up() -> None:
    async with at_wecom() as ours:
        ann = ours.wecom.person("ann")
        for body in (
            {},
            {"msgtype": "text"},
            {**ann.body("text", {"content": "/forget"}), "from": {"userid": ""}},
        ):
            await ours.wecom.push("aibot_msg_callback", body)
        await ann.says("Hello")
        await ours.wecom.shown("You said: Hello")
        assert [one.text for one in ours.bot.submitted] == ["Hello"]


async def test_no_frame_ends_the_connection() -> None:
    async with at_wecom() as ours:
        ann = ours.wecom.person("ann")
        for frame in [
            "no JSON",
            "[]",
            "null",
            '{"headers": null, "errcode": 0}',
            '{"headers": {"req_id": []}}',
            '{"cmd": "aibot_event_callback", "headers": null, "body": {"event": null}}',
            '{"cmd": "aibot_event_callback", "body": "text"}',
            '{"cmd": "aibot_msg_callback", "headers": null, "body": {"from": null}}',
        ]:
            assert ours.wecom._wire is not None
            await ours.wecom._wire.send_str(frame)
            await ann.says(f"Hello after {frame}")
            await ours.wecom.shown(f"You said: Hello after {frame}")
            assert ours.wecom.connections == 1, frame


async def test_what_came_before_a_cut_is_answered_after_it() -> None:
    async with at_wecom() as ours:
        ann = ours.wecom.person("ann")
        film = ann.body("video", ours.wecom.keep_file("a.mp4", b"film"))
        ours.wecom.drops = 1  # it is unknown whether the answer has arrived
        await ann.sends(film)
        await ours.wecom.shown("videos")
        await ours.wecom.cut()
        await ours.wecom.until(lambda: len(ours.wecom.messages) == 2)
        assert ours.wecom.connections == 2


async def test_another_program_that_connects_as_the_bot_is_told_of() -> None:
    async with at_wecom() as ours:
        ann = ours.wecom.person("ann")
        other = WeCom(WeComSettings(bot_id=BOT_ID, url=ours.wecom.url), SECRET, pause=60)
        another = Messenger(other, quick_sleep)
        listening = asyncio.create_task(another.listen(FakeBot(echo)))
        await ours.wecom.until(lambda: ours.wecom.connections == 3)  # ours has reconnected
        await until(lambda: another.health.state == "troubled")
        assert "another program" in another.health.reason
        await ann.says("Hello")
        await ours.wecom.shown("You said: Hello")
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await another.close()


async def test_who_is_not_there_any_more_holds_nothing_up() -> None:
    async with at_wecom() as ours:
        await _send(ours, Reply("Hello?"))
        assert not ours.wecom.messages


async def test_a_wrong_secret_says_what_to_correct() -> None:
    async with WeComServer() as wecom:
        channel = Messenger(WeCom(WeComSettings(bot_id=BOT_ID, url=wecom.url), "wrong"))
        with pytest.raises(ChannelError, match="WECOM_SECRET"):
            await channel.listen(FakeBot(echo))
        assert channel.health.state == "down"
        await channel.close()


@given(st.text() | st.sampled_from(["<@ann>", "<think>no</think>", "```\n<@all>\n```", "a ```` b"]))
def test_no_text_mentions_anybody_or_passes_for_a_thought(text: str) -> None:
    for shown in (converted(text), as_it_stands(text)):
        assert "<@" not in shown
        assert "<think" not in shown.lower()
        assert text.replace("\u200b", "") in shown.replace("\u200b", "")


async def _send(ours: WeComTestBot, reply: Reply) -> None:
    await ours.channel.send(Outbound(1, Address("wecom", "ann", user="ann"), reply, ""))
