"""WhatsApp with a strict fake of the Cloud API, in addition to the contract's suite; and its
markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from channels.base import ChannelError, WebhookCall
from channels.kit.messenger import Messenger
from channels.kit.platform import Button, Location, Media, Post
from channels.message import Action, Address, Outbound, Reply
from channels.splitting import split
from channels.whatsapp import WhatsAppSettings
from channels.whatsapp.letters import rendered, units
from channels.whatsapp.whatsapp import MetaSecrets, WhatsApp
from tests.channels.clock import quick_sleep
from tests.channels.webhook_server import webhooks
from tests.fakes.fake_bot import FakeBot, echo
from tests.fakes.whatsapp_server import (
    APP_SECRET,
    DAY,
    PHONE_ID,
    TOKEN,
    VERIFY_TOKEN,
    WhatsAppServer,
)

GROUP = "Y2FwaV9ncm91cDoxNzA1NTU1MDEzOToxMjAzNjM0MDQ2OTQyMzM4MjAZD"


@dataclass
class WhatsAppTestBot:
    """Run a bot with this channel and the fake."""

    meta: WhatsAppServer
    bot: FakeBot
    platform: WhatsApp
    channel: Messenger

    async def send(self, chat: str, reply: Reply) -> None:
        address = Address("whatsapp", chat, user=chat)
        await self.channel.send(Outbound(1, address, reply, "made-by-the-bot"))


@asynccontextmanager
async def at_whatsapp(template: str = "", token: str = TOKEN) -> AsyncIterator[WhatsAppTestBot]:
    async with WhatsAppServer() as meta:
        settings = WhatsAppSettings(phone_id=PHONE_ID, template=template, base_url=meta.base_url)
        platform = WhatsApp(settings, MetaSecrets(token, APP_SECRET, VERIFY_TOKEN), check=0.05)
        channel, bot = Messenger(platform, quick_sleep), FakeBot(echo)
        async with webhooks(bot, channel) as address, bot.serving(channel):
            meta.webhook_url = f"{address}/webhooks/whatsapp"
            await channel.call(bot, WebhookCall("GET", {}, {}, b""))  # it is open then
            yield WhatsAppTestBot(meta, bot, platform, channel)


async def test_a_message_is_answered_below_it_and_is_shown_as_read_meanwhile() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann")
        asked = await ann.says("Hello")
        answer = await ours.meta.shown("You said: Hello")
    assert (answer.chat, answer.answers) == (ann.id, asked)
    assert ours.bot.submitted[0].address == Address("whatsapp", ann.id, user=ann.id)


async def test_the_webhook_proves_itself_only_with_the_word_that_was_agreed() -> None:
    async with at_whatsapp() as ours:
        assert await ours.meta.prove() == (200, "1158201444")
        assert (await ours.meta.prove("guessed"))[0] == 401


async def test_a_forged_call_is_refused_and_brings_nothing() -> None:
    async with at_whatsapp() as ours:
        for signature in ["", "sha256=", "sha256=00", "sha1=abc", "é"]:
            ann = ours.meta.person("Ann")
            message = ann.message("text", {"body": "/forget all"})
            body = ours.meta.payload({"messages": [message], "contacts": [ann.contact]})
            assert (
                await ours.meta.call(body, signature=signature.encode("latin-1").decode("latin-1"))
                == 401
            ), signature
            assert await ours.meta.call(body, secret="another app's") == 401, signature
            assert not ours.bot.submitted, signature


async def test_what_is_strange_in_a_call_holds_up_nothing_that_is_beside_it() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann")
        cases: list[Any] = [
            {"statuses": None},
            {
                "statuses": [
                    None,
                    {"status": "failed"},
                    {"status": "failed", "id": "x", "errors": None},
                ]
            },
            {"statuses": [{"status": "failed", "id": "x", "errors": [{"code": None}, 5]}]},
            {"statuses": [{"status": "failed", "id": "x", "errors": [{"error_data": None}]}]},
            {"messages": [None, {"id": "x", "timestamp": "9" * 30, "type": "text", "from": "1"}]},
        ]
        for value in cases:
            said = {"messages": [ann.message("text", {"body": "Hi"})], "contacts": [ann.contact]}
            body = ours.meta.payload(value)
            body["entry"] += [{"changes": None}, {"changes": [{"value": None}]}]
            body["entry"] += ours.meta.payload(said)["entry"]
            assert await ours.meta.call(body) == 200, value
            assert [one.text for one in ours.bot.submitted] == ["Hi"], value
            ours.bot.submitted.clear()


async def test_what_is_for_another_number_of_the_same_app_is_left_to_its_own_bot() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann")
        value = {"messages": [ann.message("text", {"body": "Hi"})], "contacts": [ann.contact]}
        assert await ours.meta.call(ours.meta.payload(value, phone_id="999")) == 200
        assert not ours.bot.submitted


async def test_one_call_may_bring_what_several_people_said() -> None:
    async with at_whatsapp() as ours:
        ann, ben = ours.meta.person("Ann"), ours.meta.person("Ben")
        messages = [one.message("text", {"body": f"I am {one.name}"}) for one in (ann, ben)]
        for one in (ann, ben):
            ours.meta.note(messages[0], one.chat, opens=True)
        value = {"messages": messages, "contacts": [ann.contact, ben.contact]}
        assert await ours.meta.call(ours.meta.payload(value)) == 200
        assert {(one.address.user, one.text) for one in ours.bot.submitted} == {
            (ann.id, "I am Ann"),
            (ben.id, "I am Ben"),
        }


async def test_nobody_is_taken_for_another_whom_a_call_names() -> None:
    async with at_whatsapp() as ours:
        ann, eve = ours.meta.person("Ann"), ours.meta.person("Eve")
        message = eve.message("text", {"body": "I am Ann"})
        del message["from_user_id"]  # as before Meta introduced such ids
        ours.meta.note(message, eve.phone, opens=True)
        for contacts in ([ann.contact], [], [ann.contact, {"profile": {"name": "Ann"}}]):
            again = {**message, "id": ours.meta.new_id()}
            value = {"messages": [again], "contacts": contacts}
            assert await ours.meta.call(ours.meta.payload(value)) == 200
        assert {one.address.user for one in ours.bot.submitted} == {eve.phone}


async def test_a_message_after_the_window_waits_until_its_person_writes() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann")
        await ann.says("Hello")
        await ours.meta.shown("You said: Hello")
        _grow_old(ours)
        await ours.send(ann.id, Reply("Take your **pills**.", actions=(Action("Done", "/done"),)))
        assert [one.text for one in ours.meta.messages] == ["You said: Hello"]
        await ann.says("Are you there?")
        reminder = await ours.meta.shown("*pills*")
        assert reminder.buttons == {"Done": "/done"}
        await ours.meta.shown("Are you there?")
        assert [one.text for one in ours.meta.messages][1] == "Take your *pills*."


async def test_a_template_asks_once_for_a_person_to_write() -> None:
    async with at_whatsapp(template="news") as ours:
        ann = ours.meta.person("Ann")
        for text in ("One", "Two"):
            await ours.send(ann.id, Reply(text))
        assert [one.text for one in ours.meta.messages] == ["template news in en_US"]
        await ann.says("What is it?")
        await ours.meta.shown("What is it?")
        assert [one.text for one in ours.meta.messages][1:3] == ["One", "Two"]


async def test_a_template_that_there_is_not_loses_nothing() -> None:
    async with at_whatsapp(template="unknown") as ours:
        ann = ours.meta.person("Ann")
        await ours.send(ann.id, Reply("One"))
        await ann.says("What is it?")
        await ours.meta.shown("One")


async def test_a_group_has_a_window_too_and_no_buttons_in_it() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann", group=GROUP)
        place = Location(GROUP, is_group=True)
        await ours.platform.post(place, Post("Sure?", (Button("Yes", "/yes"),)))
        assert not ours.meta.messages
        await ann.says("Good morning")
        await ours.meta.shown("Sure?", GROUP)
        await ours.meta.shown("Yes: `/yes`", GROUP)


async def test_what_can_not_be_read_holds_nothing_up() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann")
        nobody = {**ann.message("text", {"body": "/forget"}), "from": "", "from_user_id": ""}
        odd = [{"id": "wamid.x", "type": "text"}, {"type": "interactive"}, {}, 7]
        value = {"messages": [*odd, nobody], "contacts": []}
        assert await ours.meta.call(ours.meta.payload(value)) == 200
        assert not ours.bot.submitted
        good = ann.message("text", {"body": "Hello"})
        ours.meta.note(good, ann.chat, opens=True)
        value = {"messages": [*odd, good], "contacts": [ann.contact]}
        assert await ours.meta.call(ours.meta.payload(value)) == 200
        await ours.meta.shown("You said: Hello")


async def test_a_message_that_meta_did_not_deliver_after_all_waits_too() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann")
        await ann.says("Hello")
        await ours.meta.shown("You said: Hello")
        ours.meta.let_pass(2 * DAY)  # by their clock alone
        await ours.send(ann.id, Reply("Take your pills."))
        await ours.meta.until(lambda: len(ours.meta.answered) == 2)
        await ann.says("And now?")
        await ours.meta.shown("Take your pills.")


async def test_the_window_is_measured_by_metas_clock() -> None:
    for skew in [-3 * DAY, 3 * DAY]:
        async with at_whatsapp() as ours:
            ours.meta.skew = skew
            await ours.platform._check_number()
            ann = ours.meta.person("Ann")
            await ann.says("Hello")
            await ours.meta.shown("You said: Hello")


async def test_what_waits_is_kept_over_a_restart() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann")
        await ours.send(ann.id, Reply("Take your pills."))
        again = WhatsApp(ours.platform._settings, ours.platform._keys)
        other = Messenger(again)
        async with webhooks(ours.bot, other) as address:
            ours.meta.webhook_url = f"{address}/webhooks/whatsapp"
            await ann.says("Hello")
            await ours.meta.shown("Take your pills.")
        await other.close()


async def test_a_picture_that_is_to_be_shown_after_the_window_waits_as_well() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann")
        await ours.platform.upload(
            Location(ann.id), Media("picture", "a.png", b"png", "Look", "image/png")
        )
        await ann.says("Hello")
        assert (await ours.meta.shown("Look")).file == b"png"


async def test_every_choice_can_be_pressed_however_many_there_are() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann")
        await ann.says("Hello")
        await ours.meta.shown("You said: Hello")
        for count in (1, 3, 4, 10):
            ours.meta.messages.clear()
            labels = [f"The choice with the number {n}" if n % 2 else f"{n}" for n in range(count)]
            buttons = tuple(Button(label, f"/do {n}") for n, label in enumerate(labels))
            await ours.platform.post(Location(ann.id), Post("Which one?", buttons))
            offered = [label for one in ours.meta.messages for label in one.buttons]
            assert offered == labels, count
            last = ours.meta.messages[-1]
            await ann.presses(last, labels[-1])
            assert ours.bot.submitted[-1].text == f"/do {count - 1}", count


async def test_a_long_text_with_choices_goes_as_one_message() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann")
        await ann.says("Hello")
        await ours.meta.shown("You said: Hello")
        await ours.platform.post(Location(ann.id), Post("x" * 4000, (Button("Yes", "/yes"),)))
        assert ours.meta.messages[-1].buttons == {"Yes": "/yes"}


async def test_files_come_and_go() -> None:
    async with at_whatsapp() as ours:
        ann = ours.meta.person("Ann")
        await ann.sends_file("a.pdf", b"%PDF", "application/pdf", "Read this")
        await ann.sends_file("v.ogg", b"OggS", "audio/ogg; codecs=opus")
        await ann.sends_file("v.mp4", b"film", "video/mp4")
        await ours.meta.shown("videos")
        (pdf,), (voice,) = (one.attachments for one in ours.bot.submitted)
        assert (pdf.name, pdf.media_type, pdf.data) == ("a.pdf", "application/pdf", b"%PDF")
        assert (voice.name, voice.media_type) == ("voice.ogg", "audio/ogg")
        await ours.platform.upload(
            Location(ann.id), Media("document", "a.csv", b"1,2", "", "text/csv")
        )
        await ours.platform.upload(
            Location(ann.id), Media("voice", "a.ogg", b"OggS", "", "audio/ogg")
        )
        assert [(one.kind, one.file) for one in ours.meta.messages if one.file] == [
            ("document", b"1,2"),
            ("audio", b"OggS"),
        ]


async def test_a_wrong_token_or_number_says_what_to_correct() -> None:
    async with WhatsAppServer() as meta:
        for phone, token, words in (("1", TOKEN, "phone_id"), (PHONE_ID, "old", "WHATSAPP_TOKEN")):
            settings = WhatsAppSettings(phone_id=phone, base_url=meta.base_url)
            with pytest.raises(ChannelError, match=words):
                await WhatsApp(settings, MetaSecrets(token, APP_SECRET, VERIFY_TOKEN)).open()


def _grow_old(ours: WhatsAppTestBot) -> None:
    """Let a day pass for both sides."""
    ours.meta.let_pass(2 * DAY)
    ours.platform._last.clear()
    for name in [name for name in ours.bot.kept if name[1].startswith("last ")]:
        del ours.bot.kept[name]


WORDS = st.sampled_from(
    ["one", "two", "Käse", "重点", "snake_case", "2*3*4", "&lt;b&gt;", "List<T>"]
)
MARKS = st.sampled_from(
    [
        *("**{}**", "*{}*", "_{}_", "~~{}~~", "`{}`", "# {}\n", "\n\n{}", "\n- {}", "\n1. {}"),
        *("\n   - {}", "\n> {}", "\n```\n{}\n```\n", "\n    {}\n", "[{}](http://a.b/c?d=e)", "{}"),
        *(
            "\n\n| {} | b |\n|---|---|\n| c | d | e |\n",
            "![{}](http://a.b/i.png)",
            "<http://x.y/{}>",
        ),
        *("\n[{}]: http://x.y\n", "\n---\n{}", "{}  \n", "\\*{}\\*", "[{}](http://ä.b 'a title')"),
    ]
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.tuples(MARKS, WORDS), min_size=1, max_size=12))
    return " ".join(mark.replace("{}", word) for mark, word in parts)


@given(texts() | st.text(max_size=200))
@example("**a** **b**\n\n1. x\n7. y")
@settings(max_examples=300, deadline=None)
def test_no_letter_is_lost(markdown: str) -> None:
    lost = _letters(markdown) - _letters(rendered(markdown))
    infos = "".join(
        line for line in markdown.split("\n") if line.lstrip(" >-").startswith(("```", "~~~"))
    )
    assert not lost - _letters(infos)


@given(texts())
@settings(max_examples=100, deadline=None)
def test_what_is_split_by_its_length_fits_each_time(markdown: str) -> None:
    pieces = split(markdown * 20, 300, lambda text: units(rendered(text)))
    assert all(units(rendered(piece)) <= 300 for piece in pieces)


def test_how_it_is_shown() -> None:
    for markdown, shown in [
        ("**bold** *it* ~~no~~", "*bold* _it_ ~no~"),
        ("# A **title**\n\ntext", "*A title*\n\ntext"),
        ("***both***", "_*both*_"),
        ("**two\nlines**", "*two*\n*lines*"),
        ("这是**重点**内容 a**b**c 2*3*4", "这是重点内容 abc 2*3*4"),
        ("`a*b`", "`a*b`"),
        ("```python\nx = 1\n```", "```\nx = 1\n```"),
        ("- a\n- b\n  1. c\n  2. d", "- a\n- b\n   1. c\n   2. d"),
        ("> a\n>\n> b", "> a\n>\n> b"),
        (
            "[here](http://a.b) <http://c.d> [http://e.f](http://e.f)",
            "here (http://a.b) http://c.d http://e.f",
        ),
        ("| a | bb |\n|---|---|\n| 1 | 2 |", "```\na  bb\n1  2\n```"),
        (f"| a | b |\n|---|---|\n| 1 | {'x' * 60} |", f"- a: 1\n- b: {'x' * 60}"),
        ("List<String> &amp; <b>", "List<String> &amp; <b>"),
        ("", ""),
        ("\\*as it is\\*", "*as it is*"),
    ]:
        assert rendered(markdown) == shown, markdown


def test_no_text_takes_long() -> None:
    for text in ["> " * 4000, "- " * 4000, "|" * 8000 + "\n|-|\n" * 9, "*a " * 2600, "[" * 8000]:
        assert rendered(text)


def _letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, text))
