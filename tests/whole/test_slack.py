"""A whole bot at Slack: the real SDK, and a Slack that refuses what Slack refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.openai_server import Answer, Call, Hang, Received, Say
from tests.fakes.slack_methods import SlackRefusal
from tests.fakes.slack_server import SlackServer
from tests.whole.slack_house import SlackHouse, at_slack

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


def echo(request: Received) -> Answer:
    """A model that repeats the last thing it was told."""
    return Say(f"re: {request.body['messages'][-1]['content']}")


async def answers(house: SlackHouse, words: str) -> list[str]:
    """All messages with these words, once the bot has nothing more to do."""
    await house.is_idle()
    return [message.text for message in house.slack.said if words in message.text]


async def test_a_message_is_answered_with_its_markup(tmp_path: Path) -> None:
    async with at_slack(tmp_path, [Say("Hello, **Ann** <!channel>!")]) as house:
        house.ann.says("Hi")
        answer = await house.slack.shown("Hello, Ann <!channel>!")
        assert answer.marked("bold") == ["Ann"]
        assert house.sent_to_model()[-1] == {"role": "user", "content": "Hi"}


async def test_an_answer_streams_into_one_message_which_its_final_text_replaces(
    tmp_path: Path,
) -> None:
    async with at_slack(tmp_path, [Hang("Once **upon** a time")]) as house:
        house.ann.says("Tell me a story")
        draft = await house.slack.shown("Once upon a time …")
        assert draft.marked("bold") == ["upon"]
        house.ann.says("/stop")
        await house.slack.until(
            lambda: draft.text == "Once upon a time\n\n(Stopped, as you asked.)"
        )
        assert len(await answers(house, "Once upon")) == 1


async def test_a_long_answer_comes_in_several_messages_with_its_code_as_code(
    tmp_path: Path,
) -> None:
    code = "\n".join(f"line_{n} = {n}  # < & > 😀" for n in range(400))
    async with at_slack(tmp_path, [Say(f"Here:\n\n```python\n{code}\n```\n\nDone.")]) as house:
        house.ann.says("Write code")
        await house.slack.shown("Done.")
        await house.is_idle()
        parts = [part for message in house.slack.said for part in message.marked("pre")]
        assert "\n".join(parts) == code
        assert len(parts) > 2


async def test_a_huge_answer_comes_as_a_file(tmp_path: Path) -> None:
    words = "word " * 20_000
    async with at_slack(tmp_path, [Say(words)]) as house:
        house.ann.says("Write a book")
        message = await house.slack.shown("This reply is too long for a message")
        (number,) = message.files
        assert house.slack.contents[number].decode().strip() == words.strip()
        assert house.slack.files[number]["name"] == "answer.md"


async def test_events_that_come_again_are_answered_once(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as house:
        general = house.slack.channel()
        house.ann.says("Hi")
        house.ann.mentions("hello", general)
        house.ann.commands("whoami")
        await house.slack.shown("re: Hi")
        await house.slack.shown("hello", general)
        await house.slack.shown("You are slack/")
        await house.is_idle()
        house.slack.delivery.redeliver()
        await house.is_idle()
        assert len(house.model.requests) == 2
        assert len(house.slack.said) == 3


async def test_messages_that_come_at_once_are_taken_in_their_order(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as house:
        for number in range(8):
            house.ann.says(f"message {number}")
        await house.slack.shown("message 7")
        await house.is_idle()
        asked = [str(message["content"]) for message in house.sent_to_model()]
        places = [next(n for n, a in enumerate(asked) if f"message {k}" in a) for k in range(8)]
        assert places == sorted(places)


async def test_what_no_bot_has_confirmed_is_brought_to_the_next_one(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        async with at_slack(tmp_path, echo, slack=slack) as house:
            house.ann.says("first")
            await slack.shown("re: first")
        house.ann.says("second")
        async with at_slack(tmp_path, echo, slack=slack):
            await slack.shown("re: second")
            await slack.until(lambda: not slack.delivery.waiting)
        assert [m.text for m in slack.said if "first" in m.text] == ["re: first"]


async def test_an_edited_message_is_answered_anew_and_one_that_got_a_preview_is_not(
    tmp_path: Path,
) -> None:
    async with at_slack(tmp_path, echo) as house:
        said = house.ann.says("one")
        await house.slack.shown("re: one")
        house.slack.change(said, said.as_json())  # a link's preview came
        house.ann.edits(said, "two")
        await house.slack.shown("re: two")
        house.ann.deletes(said)
        await house.is_idle()
        assert len(house.model.requests) == 2


async def test_pictures_reach_the_model_and_documents_its_folder(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as house:
        house.ann.sends("cat.png", PNG, "image/png", "What is this?")
        await house.slack.shown("What is this?")
        parts = house.sent_to_model()[-1]["content"]
        assert [part["type"] for part in parts if part["type"] != "text"] == ["image_url"]
        house.ann.sends("note.txt", b"remember the milk", "text/plain", "Keep it")
        await house.slack.shown("Keep it")
        assert kept_files(tmp_path) == {"note.txt": "remember the milk"}


def kept_files(folder: Path) -> dict[str, str]:
    """What stands in the folders of chats."""
    return {file.name: file.read_text() for file in folder.glob("data/audiences/*/files/*")}


async def test_a_file_that_slack_does_not_give_is_said(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as house:
        house.slack.scopes.remove("files:read")
        house.ann.sends("note.txt", b"secret", "text/plain", "Keep it")
        await house.slack.shown("I did not get note.txt")
        await house.slack.shown("re: Keep it")


async def test_buttons_do_what_is_on_them_and_only_for_those_who_are_let_in(tmp_path: Path) -> None:
    async with at_slack(tmp_path, [Say("Hi.")]) as house:
        house.ann.says("Hello")
        await house.slack.shown("Hi.")
        house.ann.commands("context")
        context = await house.slack.shown("50k tokens")
        assert {"Details", "Compact", "Clear"} <= set(context.buttons)
        mallory = house.slack.person("Mallory")
        mallory.presses(context, "Clear")
        house.ann.presses(context, "Clear")
        question = await house.slack.shown("are you sure?")
        house.ann.presses(question, next(one for one in question.buttons if "Yes" in one))
        await house.slack.until(lambda: question in house.slack.deleted)
        house.ann.commands("context")
        await house.is_idle()
        asked = [m for m in house.slack.said if "are you sure?" in m.text]
        assert not asked


async def test_a_reaction_stops_an_answer(tmp_path: Path) -> None:
    async with at_slack(tmp_path, [Hang("Once upon a time")]) as house:
        house.ann.says("Tell me a story")
        draft = await house.slack.shown("Once upon a time …")
        house.ann.reacts(draft, "tada")
        house.ann.reacts(draft, "octagonal_sign")
        await house.slack.until(lambda: "Stopped, as you asked" in draft.text)


async def test_a_reaction_approves_in_a_thread_of_a_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [Say(calls=(Call("shell", '{"command": "echo done"}', "c1"),)), Say("It is done.")]
    monkeypatch.setattr("plugins.builtin.shell._BOX", [False])
    settings = {"tools": {"shell": True, "shell_unboxed": True}}
    async with at_slack(tmp_path, script, settings) as house:
        house.ann.mentions("do it", house.slack.channel())
        question = await house.slack.shown("echo done")
        assert question.thread
        house.slack.person("Mallory").reacts(question, "+1")
        house.ann.reacts(question, "+1::skin-tone-4")
        answer = await house.slack.shown("It is done.")
        assert answer.thread == question.thread


async def test_a_slash_command_is_a_command_or_a_message(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as house:
        house.ann.commands("whoami")
        await house.slack.shown(f"You are slack/{house.ann.id}, an owner")
        house.ann.commands("")
        await house.slack.shown("/context")
        house.ann.commands("What is R&amp;D?")
        await house.slack.shown("re: What is R&D?")


async def test_where_the_bot_is_no_member_a_command_is_answered_to_whoever_gave_it(
    tmp_path: Path,
) -> None:
    async with at_slack(tmp_path, echo) as house:
        for kind in ("channel", "group"):
            place = house.slack.channel(f"C-{kind}", kind, joined=False)
            house.ann.commands("whoami", place)
            house.ann.commands(f"hello, {kind}", place)
            await house.slack.until(
                lambda: any(kind in one and "re: " in one for one in house.slack.whispers)  # noqa: B023
            )
        assert sum("You are slack/" in one for one in house.slack.whispers) == 2
        assert not [message for message in house.slack.said if message.channel != house.ann.dm]


async def test_where_the_bot_is_no_member_nobody_sees_the_answer_to_another(
    tmp_path: Path,
) -> None:
    async with SlackServer() as slack:
        people = {one.id: one for one in (slack.person("Ann"), slack.person("Bob"))}
        settings = {"owners": [f"slack/{user}" for user in people]}
        async with at_slack(tmp_path, echo, settings, slack=slack):
            place = slack.channel("C-far", joined=False)
            for person in people.values():
                person.commands(f"I am {person.name}", place)
            await slack.until(lambda: len(slack.whispers) == 2)
            for user, whisper in zip(slack.whispered_to, slack.whispers, strict=True):
                assert f"I am {people[user].name}" in whisper


async def test_a_stranger_is_refused_and_nothing_is_fetched_for_them(tmp_path: Path) -> None:
    async with at_slack(tmp_path) as house:
        bob = house.slack.person("Bob", "de-DE")
        bob.sends("note.txt", b"hello", "text/plain", "Hi")
        await house.slack.shown("/pair", bob.dm)
        await house.is_idle()
        assert not house.slack.made("files.info")


async def test_slack_says_its_own_words_in_the_language_of_the_person(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        slack.person("Eva", "de-DE")
        async with at_slack(tmp_path, slack=slack) as house:
            house.ann.says("/whoami")
            await slack.shown("Du bist")


async def test_when_slack_asks_to_wait_the_reply_waits_as_long(tmp_path: Path) -> None:
    async with at_slack(tmp_path, [Say("Hello!")]) as house:
        house.slack.limit(17, "chat.postMessage", "users.info")
        house.ann.says("Hi")
        await house.slack.shown("Hello!")
        assert house.slept.count(17) >= 2


async def test_when_slack_fails_the_reply_is_sent_again(tmp_path: Path) -> None:
    async with at_slack(tmp_path, [Say("Hello!")]) as house:
        errors = ("internal_error", "service_unavailable")
        house.slack.fail("chat.postMessage", *map(SlackRefusal, errors))
        house.ann.says("Hi")
        await house.slack.shown("Hello!")
        assert len(await answers(house, "Hello!")) == 1


async def test_markup_that_slack_refuses_goes_as_plain_text(tmp_path: Path) -> None:
    async with at_slack(tmp_path, [Say("Hello, **Ann**!")]) as house:
        house.channel.platform.traits = house.channel.platform.traits.__class__(
            longest=3_000, message_id=house.channel.platform.traits.message_id
        )
        house.slack.fail("chat.postMessage", SlackRefusal("invalid_blocks"))
        house.ann.says("Hi")
        answer = await house.slack.shown("Hello, **Ann**!")
        assert answer.blocks[0]["type"] == "section"


async def test_a_reply_to_a_channel_that_is_no_more_is_dropped(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as house:
        general = house.slack.channel()
        house.ann.mentions("Hi", general)
        house.slack.channels[general] = "archived"
        await house.slack.called("chat.postMessage")
        await house.is_idle()
        house.ann.says("still there?")
        await house.slack.shown("re: still there?")


async def test_the_status_shows_that_the_bot_thinks_where_there_is_a_thread(tmp_path: Path) -> None:
    async with at_slack(tmp_path, [Hang("Once")]) as house:
        general = house.slack.channel()
        said = house.ann.mentions("think", general)
        await house.slack.shown("Once")
        (status, *_) = await house.slack.called("assistant.threads.setStatus")
        assert (status["thread_ts"], status["status"]) == (said.ts, "is thinking…")
        house.ann.mentions("/stop", general, said.ts)
        await house.slack.shown("Stopped")
