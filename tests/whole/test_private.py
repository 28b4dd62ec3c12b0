"""Off the record: no part of a private conversation reaches the disk, or the model afterwards."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bot.logs import set_up_logs
from bot.settings import load_layers
from channels.message import Address, Attachment, Outbound, Reply
from tests.fakes.openai_server import (
    Answer,
    Call,
    Fail,
    Hang,
    OpenAIServer,
    Received,
    Say,
    openai_overflow,
)
from tests.links.test_link import two_channels
from tests.waiting import until
from tests.whole.testbot import TestBot, run_bot, running

FOOTER = "\n\n*Off the record: this is not saved.*"
MARK = "zebra-4711"


def holding(folder: Path, word: str) -> list[str]:
    """Return all files under a folder whose content or name contains this word."""
    found = [one for one in folder.rglob("*") if one.is_file()]
    return [
        str(one.relative_to(folder))
        for one in found
        if word.encode() in one.read_bytes() or word in one.name
    ]


@asynccontextmanager
async def afar(folder: Path, server: OpenAIServer, **more: Any) -> AsyncIterator[TestBot]:
    """A bot, with its logs, on a channel that delivers messages written before its start."""
    environ = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "test-key"}
    bot = TestBot("afar")
    bot.server = server
    set_so = {"owners": ["afar/ann", "afar/bob"], "log_level": "debug", **more}
    async with running(folder, bot, set_so, environ):
        yield bot


async def test_what_is_said_off_the_record_is_on_no_disk_and_in_no_later_request(
    tmp_path: Path,
) -> None:
    script = [Say("Hello."), Say(f"Aye, {MARK}."), Say("Still here."), Say("Back.")]
    async with run_bot(tmp_path, script) as bot:
        await bot.says("An open word")
        begun = await bot.says("/private on")
        assert begun.text.startswith("**Off the record.**")
        said = await bot.says(f"My word is {MARK}")
        assert said.text == f"Aye, {MARK}.{FOOTER}"
        assert "An open word" not in str(bot.sent_to_model())
        await bot.says("And again")
        assert MARK in str(bot.sent_to_model())
        ended = await bot.says("/private off")
        assert "The private conversation (2 turns) is forgotten" in ended.text
        await bot.says("Open again")
        assert MARK not in str(bot.sent_to_model())
        assert "An open word" in str(bot.sent_to_model())
        assert holding(tmp_path, MARK) == []
        assert holding(tmp_path, "An open word") != []


def answer_at_random(request: Received) -> Answer:
    """Answer as the last message asks: with a tool call, a failure that quotes it, or similar."""
    said = str(request.body["messages"][-1]["content"])
    if "overflow" in said and len(request.body["messages"]) > 3:
        return openai_overflow(9_000, 8_000)
    if "refuse" in said:
        return Fail(400, {"message": f"Invalid content: {said}", "type": "invalid_request_error"})
    if "unkeyed" in said:
        return Fail(401, {"message": f"No key for {said}", "type": "invalid_request_error"})
    if "tool" in said and request.body["messages"][-1]["role"] == "user":
        if not request.body.get("tools") and MARK not in said:
            return Say("no tools")
        call = Call("write_file", f'{{"path": "{MARK}.txt", "content": "{MARK}"}}')
        return Say(said, calls=(call,)) if MARK in said else Say(said)
    return Say(f"re: {said}")


STEPS = (
    *("words", "tool", "refuse", "unkeyed", "overflow", "long " + "word " * 900),
    *("/remember", "/btw", "/title", "/help", "/status", "/context search", "/fork", "/retry"),
    *("/private", "/nonsense", "//escaped", "/context", "/undo", "/rules add", "/edit"),
    *("again", "restart", "on", "off", "file", "stop"),
)


@settings(max_examples=3, phases=(Phase.explicit, Phase.generate))
@given(st.lists(st.sampled_from(STEPS), min_size=8, max_size=20))
def test_no_sequence_leaves_a_trace(steps: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_live(Path(folder), [*steps[:2], "on", *steps[2:]]))


async def _live(folder: Path, steps: Sequence[str]) -> None:
    left, is_private = list(steps), False
    config = folder / "config.json"
    config.write_text('{"log_level": "debug"}')
    close = set_up_logs(folder / "data" / "logs", load_layers(config, {}), is_quiet=True)
    try:
        async with OpenAIServer(answer_at_random) as server:
            while left:
                small = {"context.max_tokens": 6_000}
                async with afar(folder, server, **small) as bot:
                    bot.count = 1_000 * len(left)  # no id is repeated over a restart
                    is_private, left = await _say_all(bot, left, is_private)
                    assert holding(folder, MARK) == []
    finally:
        close()
    assert holding(folder, MARK) == []


async def _say_all(bot: TestBot, steps: list[str], is_private: bool) -> tuple[bool, list[str]]:
    """Send the steps up to the next restart; words that must not be stored are sent only while the
    chat is off the record. Return whether it is, and the remaining steps."""
    seen = len(bot.server.turns)
    while steps:
        step = steps.pop(0)
        if step == "restart":
            break
        if step in ("on", "off"):
            await bot.says(f"/private {step}", "ann", "ann")
            is_private = step == "on"
        elif step == "file":
            file = Attachment(f"{MARK if is_private else 'open'}.txt", "text/plain", MARK.encode())
            if is_private:
                await bot.says("Read this", "ann", "ann", files=(file,))
        elif step == "again":
            text = MARK if is_private else "openly"
            await bot.says(text, "ann", "ann")
            known = await bot.writes(text, "ann", "ann", f"m{bot.count - 1}")
            assert known is None or not known.is_new
        elif step == "stop":
            await bot.says("/stop", "ann", "ann")
        else:
            await bot.says(f"{step} {MARK if is_private else 'openly'}", "ann", "ann")
        requests = bot.server.turns[seen:]
        seen = len(bot.server.turns)
        if not is_private:
            assert MARK not in str([one.body for one in requests])
    return is_private, steps


async def test_after_a_restart_nothing_is_taken_in_until_a_person_has_decided(
    tmp_path: Path,
) -> None:
    async with OpenAIServer(answer_at_random) as server:
        async with afar(tmp_path, server) as bot:
            await bot.says("/private on", "ann", "ann")
            await bot.writes(MARK, "ann", "ann", "known")
            await bot.reply_to("known")
        asked = len(server.turns)
        async with afar(tmp_path, server) as bot:
            refused = await bot.says(f"{MARK} once more", "ann", "ann")
            assert "ended when the bot was restarted" in refused.text
            assert [one.command for one in refused.actions] == ["/private on", "/private off"]
            assert (
                "ended when the bot was restarted"
                in (await bot.says("/context", "ann", "ann")).text
            )
            await bot.says("Hello", "bob", "bob")  # another chat continues
            await bot.says("/private off", "ann", "ann")
            known = await bot.writes(MARK, "ann", "ann", "known")  # the platform redelivers it
            assert known is not None
            assert not known.is_new
            await bot.says("Openly", "ann", "ann")
            assert MARK not in str([one.body for one in server.turns[asked:]])
        assert holding(tmp_path, MARK) == []


async def test_what_is_kept_can_be_worked_on_only_on_the_record(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("One."), Say("Two.")]) as bot:
        await bot.says("First")
        await bot.says("/private on")
        api, here = await bot.api(), Address("pipe", "main")
        for line in ("/undo", "/remember x", "/fork", "/context clear", "/config x 1", "/forget"):
            told, at_once = await bot.says(line), await api.command(here, line)
            for reply in (told, at_once):
                assert "this conversation is off the record, so nothing was done" in reply.text
                assert reply.text.startswith(
                    "/context clear needs saved" if "clear" in line else "/"
                )
                assert reply.problem == "command_refused"
        assert "There is no command /undoo" in (await bot.says("/undoo")).text
        assert (await api.command(here, "/context json")).data
        assert await api.instruct(here, "Be brief.")
        assert not await api.begin_with(here, [("a", "b")])
        assert [one.is_private for one in await api.sessions("pipe")] == [True]
        await bot.says("Second")
        assert [one.turn for one in await api.transcript(here)] == ["p1", "p1"]
        await bot.says("/private off")
        assert [one.turn for one in await api.transcript(here)] == ["t1", "t1"]
        assert [one.is_private for one in await api.sessions("pipe")] == [False]


def has_asked(bot: TestBot, times: int) -> bool:
    return len(bot.server.turns) == times


async def test_stop_ends_a_private_answer_and_off_ends_what_waits(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Hang("Half"), Hang("Half")]) as bot:
        await bot.says("/private on")
        for number, end in enumerate(("/stop", "/private off"), 1):
            await bot.writes("Go", id=f"go {end}")
            await bot.writes("Behind", id="behind") if number == 2 else None
            await until(partial(has_asked, bot, number))
            told = await bot.says(end)
            assert "what was done so far is kept" not in told.text
            assert (await bot.reply_to(f"go {end}")).reply.text.startswith("Stopped")
        behind = (await bot.reply_to("behind")).reply
        assert "ended before this message was answered" in behind.text


async def test_a_private_failure_names_no_command_that_is_refused(tmp_path: Path) -> None:
    async with run_bot(tmp_path, lambda request: Fail(400, "Bad.")) as bot:
        assert "`/context compact`" in (await bot.says("On the record")).text
        await bot.says("/private on")
        failed = await bot.says("Off the record")
        assert "If this happens again, send less, start over" in failed.text
        assert [action.command for action in failed.actions] == []


async def test_nothing_private_is_begun_where_several_processes_are_one_bot(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path) as bot:
        bot.app.processes.owners = object()  # type: ignore[assignment]
        refused: Reply = await bot.says("/private on")
        assert refused.problem == "command_refused"
        assert not (await bot.api()).is_private(Address("pipe", "main"))


async def test_a_private_chat_is_not_led_elsewhere(tmp_path: Path) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.from_afar(f"/link {await bot.code()}")
        await bot.from_afar("/private on")
        refused = await bot.here.says("/link yes afar/ann")
        assert "is off the record, so nothing was linked" in refused.text
        assert (await bot.from_afar(MARK)).endswith(FOOTER)
        assert holding(tmp_path, MARK) == []


async def test_linked_chats_are_private_after_a_restart_wherever_it_was_said(
    tmp_path: Path,
) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.links()
        await bot.here.says("/private on")  # on a channel that ends with the process
    async with two_channels(tmp_path) as bot:
        bot.here.count, bot.afar.count = 3_000, 4_000
        assert "ended when the bot was restarted" in await bot.from_afar(f"{MARK} again")
        await bot.here.says("/private off")
        assert "Openly" in await bot.from_afar("Openly")
        assert holding(tmp_path, MARK) == []


async def test_an_owner_is_not_told_what_a_platform_says_of_a_private_answer(
    tmp_path: Path,
) -> None:
    async with two_channels(tmp_path) as bot:
        await bot.here.says("Hello")  # the owner, who is notified of a channel that fails
        await bot.from_afar("/private on")
        took = bot.afar.send

        async def refuse(outbound: Outbound) -> None:
            raise RuntimeError(f"can't be sent: {outbound.reply.text}")

        bot.afar.send = refuse  # type: ignore[method-assign]
        await bot.afar.writes(MARK, "ann", "ann")
        await until(lambda: any("does not work" in one.reply.text for one in bot.here.sent))
        assert MARK not in str(bot.here.sent)
        bot.afar.send = took  # type: ignore[method-assign]
        assert holding(tmp_path, MARK) == []


async def test_what_waited_is_not_part_of_the_next_private_conversation(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Hang("Half"), Say("Next.")]) as bot:
        await bot.says("/private on")
        await bot.writes("Go", id="go")
        await bot.writes(MARK, id="behind")
        await until(partial(has_asked, bot, 1))
        await bot.writes("/private off", id="off")
        await bot.writes("/private on", id="on")
        behind = (await bot.reply_to("behind")).reply
        assert "ended before this message was answered" in behind.text
        assert (await bot.says("Afresh")).text == f"Next.{FOOTER}"
        assert MARK not in str(bot.sent_to_model())


async def test_what_is_sent_right_behind_the_command_is_off_the_record(tmp_path: Path) -> None:
    """A channel may deliver a line before the previous one has been accepted, as the terminal
    does."""
    async with run_bot(tmp_path, [Say("Aye."), Say("Open.")]) as bot:
        lines = (("/private on", "on"), (MARK, "said"), ("/private off", "off"), ("Openly", "open"))
        await asyncio.gather(*(bot.writes(text, id=name) for text, name in lines[:2]))
        assert (await bot.reply_to("said")).reply.text == f"Aye.{FOOTER}"
        await asyncio.gather(*(bot.writes(text, id=name) for text, name in lines[2:]))
        assert (await bot.reply_to("open")).reply.text == "Open."
        assert MARK not in str(bot.sent_to_model())
        assert holding(tmp_path, MARK) == []


async def test_text_that_a_command_waits_for_is_not_taken_off_the_record(tmp_path: Path) -> None:
    waits = "your next message is used for it"
    async with run_bot(tmp_path, answer_at_random) as bot:
        await bot.says("Lisbn?")
        await bot.says("/edit t1")
        assert waits not in (await bot.says("/private on")).text
        assert (await bot.says(MARK)).text == f"re: {MARK}{FOOTER}"
        assert waits in (await bot.says("/private off")).text
        assert "Asked now instead of t1" in (await bot.says("Lisbon?")).text
        assert holding(tmp_path, MARK) == []
