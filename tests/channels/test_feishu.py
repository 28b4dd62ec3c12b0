"""Feishu with a strict fake of its platform: its own behaviour, in addition to the contract's
suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from channels.base import Accepted, ChannelError
from channels.feishu import FeishuSettings
from channels.feishu.api import WireFrame
from channels.feishu.feishu import Feishu
from channels.feishu.reading import LARGEST, card, converted, size
from channels.kit.messenger import Messenger
from channels.kit.platform import Button, Location, Media, Post
from channels.message import Address, Inbound
from tests.channels.clock import quick_sleep
from tests.fakes.fake_bot import FakeBot, echo
from tests.fakes.feishu_server import (
    APP_ID,
    SECRET,
    FeishuServer,
)

GROUP = "oc_thegroup"


@dataclass
class FeishuTestBot:
    """Run a bot with this channel and the fake."""

    feishu: FeishuServer
    bot: FakeBot
    platform: Feishu
    channel: Messenger


@asynccontextmanager
async def at_feishu(patience: float = 3.0, parts: int = 1) -> AsyncIterator[FeishuTestBot]:
    async with FeishuServer(patience) as feishu:
        feishu.parts = parts
        platform = Feishu(FeishuSettings(app_id=APP_ID, base_url=feishu.base_url), SECRET)
        channel, bot = Messenger(platform, quick_sleep), FakeBot(echo)
        async with bot.serving(channel):
            await feishu.until(lambda: feishu.connections)
            yield FeishuTestBot(feishu, bot, platform, channel)


async def test_a_message_is_answered_below_it_in_a_card() -> None:
    async with at_feishu() as ours:
        ann = ours.feishu.person("Ann")
        asked = await ann.says("Hello")
        answer = await ours.feishu.shown("You said: Hello")
        await ours.feishu.until(lambda: ours.feishu.pings)
    assert (answer.chat, answer.parent, answer.kind) == (ann.chat, asked, "interactive")
    assert ours.bot.submitted[0].address == Address("feishu", f"{ann.id}/{ann.chat}", user=ann.id)


async def test_what_is_not_confirmed_in_time_comes_again_and_is_one_message() -> None:
    async with at_feishu(patience=0.05) as ours:
        ann = ours.feishu.person("Ann")
        released = asyncio.Event()
        submit = ours.bot.submit

        async def slowly(inbound: Inbound) -> Accepted:
            await released.wait()
            return await submit(inbound)

        ours.bot.submit = slowly  # type: ignore[method-assign]
        saying = asyncio.create_task(ann.says("Hello"))
        await ours.feishu.until(lambda: ours.feishu.pushes > 2)
        released.set()
        await saying
        assert {one.id for one in ours.bot.submitted} == {ours.bot.submitted[0].id}


async def test_an_event_may_come_in_parts() -> None:
    async with at_feishu(parts=3) as ours:
        ann = ours.feishu.person("Ann")
        await ann.says("Hello in parts")
        await ours.feishu.shown("You said: Hello in parts")


async def test_a_token_that_ended_is_renewed() -> None:
    async with at_feishu() as ours:
        ann = ours.feishu.person("Ann")
        ours.feishu.tokens.clear()
        await ann.says("Hello")
        await ours.feishu.shown("You said: Hello")


async def test_the_same_message_is_shown_once_however_often_it_is_sent() -> None:
    async with at_feishu() as ours:
        ann = ours.feishu.person("Ann")
        posts = [await ours.platform.post(Location(ann.chat), Post("Hi", once="o1")) for _ in "ab"]
        assert posts[0] == posts[1]
        assert len(ours.feishu.sent) == 1


async def test_in_a_group_it_answers_who_mentions_it_replies_to_it_or_commands() -> None:
    async with at_feishu() as ours:
        ann, ben = ours.feishu.person("Ann", GROUP), ours.feishu.person("Ben", GROUP)
        said = await ben.says("The password is swordfish")
        await ann.says("@_user_1 hello")
        answer = await ours.feishu.shown("You said: hello", GROUP)
        await ann.says("and you?", answering=answer)
        await ours.feishu.shown("You said: and you?", GROUP)
        await ann.says("/context")
        await ours.feishu.shown("12.4k of 50k")
        await ann.says("@_user_1 what is it?", answering=ours.feishu.messages[said])
        await ours.feishu.shown("what is it?")
        texts = [one.text for one in ours.bot.submitted]
        assert texts[:3] == ["hello", "and you?", "/context"]
        assert texts[3] == "Ben wrote:\n> The password is swordfish\n\nwhat is it?"
        assert {one.sender for one in ours.bot.submitted} == {"Ann"}


async def test_who_may_not_read_names_still_knows_people_apart() -> None:
    async with at_feishu() as ours:
        ours.feishu.may_read_names = False
        ann = ours.feishu.person("Ann", GROUP)
        await ann.says("@_user_1 hello")
        assert ours.bot.submitted[0].sender == ann.id


async def test_buttons_reactions_and_files_both_ways() -> None:
    async with at_feishu() as ours:
        ann = ours.feishu.person("Ann")
        place = Location(ann.chat)
        sent = await ours.platform.post(place, Post("Sure?", (Button("Yes", "/context clear"),)))
        await ann.presses(ours.feishu.messages[sent], "Yes")
        await ann.reacts(sent, "ERROR")
        await ann.reacts(sent, "HEART")
        assert [one.text for one in ours.bot.submitted] == ["/context clear", "/stop"]
        await ann.sends_file("a.pdf", b"%PDF", "application/pdf")
        await ann.sends_file("a.jpg", b"jpg", "image/jpeg")
        await ann.sends_file("a.ogg", b"OggS", "audio/ogg")
        files = [file for one in ours.bot.submitted for file in one.attachments]
        assert [(file.name, file.data) for file in files] == [
            ("a.pdf", b"%PDF"),
            ("picture.jpg", b"jpg"),
            ("voice.ogg", b"OggS"),
        ]
        for kind in ("picture", "voice", "document"):
            await ours.platform.upload(place, Media(kind, "a", kind.encode(), "Look"))
        kinds = [(one.kind, one.file) for one in ours.feishu.sent if one.kind != "interactive"]
        assert kinds == [("image", b"picture"), ("audio", b"voice"), ("file", b"document")]


async def test_a_written_message_with_markup_is_read_whole() -> None:
    async with at_feishu() as ours:
        ann = ours.feishu.person("Ann", GROUP)
        at = {"tag": "at", "user_id": "@_user_1", "user_name": "Parley"}
        line = [
            at,
            {"tag": "text", "text": " see "},
            {"tag": "a", "text": "this", "href": "http://a"},
        ]
        await ann.sends(
            "post", {"title": "News", "content": [line, [{"tag": "text", "text": "ok"}]]}
        )
        assert ours.bot.submitted[0].text == "News\n@Parley see this (http://a)\nok"


async def test_what_can_not_be_read_does_not_come_for_ever() -> None:
    async with at_feishu(patience=0.05) as ours:
        for event in ({}, {"message": {"chat_id": "oc_1"}}, {"message": 7}):
            await ours.feishu.confirmed(ours.feishu.bring("im.message.receive_v1", event))
        ann = ours.feishu.person("Ann")
        await replace(ann, id="").says("/forget")
        assert not ours.bot.submitted, "nobody without a name is anybody"
        await ann.says("Hello")
        await ours.feishu.shown("You said: Hello")


async def test_what_was_taken_back_can_still_be_answered() -> None:
    async with at_feishu() as ours:
        ann = ours.feishu.person("Ann")
        asked = await ann.says("Hello")
        await ours.feishu.shown("You said: Hello")
        ann.deletes(asked)
        await ours.platform.post(Location(ann.chat, message=asked), Post("Too late?"))
        assert (await ours.feishu.shown("Too late?")).parent == ""


async def test_a_wrong_secret_says_what_to_correct() -> None:
    async with FeishuServer() as feishu:
        platform = Feishu(FeishuSettings(app_id=APP_ID, base_url=feishu.base_url), "wrong")
        with pytest.raises(ChannelError, match="FEISHU_APP_SECRET"):
            await platform.open()


def test_a_frame_is_read_and_written_as_by_feishus_own_sdk() -> None:
    """The bytes that lark-oapi 1.7.5 makes of a frame with all of its fields."""
    made = bytes.fromhex(
        "0807108580808080808080800118f681801020012a0d0a047479706512056576656e742a110a0a6d657373"
        "6167655f696412036d2d312a080a0373756d1201312a080a037365711201302a0d0a0874726163655f6964"
        "1201743204677a69703a046a736f6e420a7b2261223a22c3a4227d4a8201"
    )
    made += b"x" * 130
    frame = WireFrame.load(made)
    assert (frame.seq, frame.log, frame.service) == (7, 2**63 + 5, 33554678)
    assert frame.headers["message_id"] == "m-1"
    assert frame.payload.decode() == '{"a":"ä"}'
    assert frame.dump() == made


@given(st.binary(max_size=60))
def test_what_is_no_frame_is_refused_in_a_word(content: bytes) -> None:
    with suppress(ValueError):
        WireFrame.load(content)


TEXTS = st.lists(
    st.sampled_from(
        [
            *(
                "<at id=all></at>",
                "`",
                "``",
                "```\n",
                "~~~\n",
                "\n",
                "> ",
                "- ",
                "    ",
                "\\",
                "word",
            ),
            *("![x](http://a)", "| a | b |\n|---|---|\n| 1 | 2 |\n\n", "<b>", "中文", "# "),
        ]
    ),
    max_size=25,
).map("".join)


@given(TEXTS | st.text())
@example("> ```\n<at id=all></at>\n")
@settings(max_examples=300, deadline=None)
def test_no_text_mentions_anybody_or_loses_a_letter(text: str) -> None:
    shown = converted(text)
    assert "<at" not in shown
    again = shown.replace("&#60;", "<").replace("\u200b", "").replace("```", "")
    letters = [sign for sign in text.replace("\u200b", "").replace("&#60;", "<") if sign.isalnum()]
    assert [sign for sign in again if sign.isalnum()] == letters


@given(TEXTS)
@settings(max_examples=50, deadline=None)
def test_a_card_of_the_longest_text_is_taken(text: str) -> None:
    buttons = tuple(Button(f"Choice {n}", f"/do {n}") for n in range(25))
    if size(text) <= 20_000:
        assert len(card(Post(text, buttons)).encode()) <= LARGEST


def test_cards_take_a_few_tables_and_the_others_are_code() -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    shown = converted("\n\n".join([table] * 6))
    assert shown.count("```") == 4
    shown = converted(
        "\n\n".join([table] * 4 + [f"- {table}".replace("\n", "\n  "), "a | b", table])
    )
    assert shown.count("```") == 4
    assert "```\n- | a | b |" in shown
    assert "&#60;" not in converted("\n\n".join([table] * 4 + ["| `<b>` |\n|---|\n| <i> |"]))
