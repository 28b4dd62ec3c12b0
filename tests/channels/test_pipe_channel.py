"""The pipe alone, between two streams and a fake bot."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels import pipe
from channels.base import Accepted
from channels.line_streams import AHEAD, LONGEST, read_lines
from channels.message import Address, Inbound, Outbound, Reply
from channels.pipe import BadLine, Pipe, PipeClosed, inbound_of
from tests.fakes.fake_bot import FakeBot, deltas
from tests.waiting import PATIENCE

Json = dict[str, Any]

texts = st.text(max_size=50)
names = st.none() | texts | st.integers(-(2**63), 2**64 - 1)


def bot() -> FakeBot:
    return FakeBot(lambda text: deltas(f"re: {text}"))


def outbound(text: str, data: Json | None = None, own_id: object = 1) -> Outbound:
    return Outbound(1, Address("pipe", "main"), Reply(text, data), json.dumps(own_id))


async def spoken(source: bytes, is_jsonl: bool = True, with_bot: FakeBot | None = None) -> bytes:
    """Return the output of the pipe for this input."""
    target = io.BytesIO()
    await (with_bot or bot()).serve(Pipe(io.BytesIO(source), target, is_jsonl))
    return target.getvalue()


async def test_a_chat_whose_message_is_not_taken_in_holds_up_no_other() -> None:
    """Its messages wait in order, whichever process has the conversation."""
    gate, taken = asyncio.Event(), list[str]()

    class Slow(FakeBot):
        async def submit(self, inbound: Inbound) -> Accepted:
            if inbound.address.chat == "slow":
                await gate.wait()
            taken.append(inbound.text)
            if inbound.text == "b":
                gate.set()
            return await super().submit(inbound)

    said = [("slow", "a1"), ("slow", "a2"), ("quick", "b"), ("slow", "a3")]
    source = b"".join(json.dumps({"chat": c, "text": t}).encode() + b"\n" for c, t in said)
    async with asyncio.timeout(PATIENCE):
        await spoken(source, with_bot=Slow(lambda text: deltas(f"re: {text}")))
    assert taken == ["b", "a1", "a2", "a3"]


# Lines


@given(texts, names, names, names)
def test_every_message_becomes_what_it_says(text: str, chat: Any, user: Any, own_id: Any) -> None:
    line = json.dumps({"text": text, "chat": chat, "user": user, "id": own_id, "more": [1]})
    inbound = inbound_of(line)
    assert inbound.text == text
    assert inbound.address == Address(
        "pipe", "main" if chat is None else str(chat), user="" if user is None else str(user)
    )
    if own_id is not None:
        assert json.loads(inbound.id) == own_id


def test_messages_without_an_id_get_different_ones() -> None:
    ids = {inbound_of('{"text": ""}').id for _ in range(100)}
    assert len(ids) == 100


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)


@given(
    texts
    | values.map(json.dumps)
    | st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(("text", "chat", "user", "id", "attachments"), values),
    ).map(json.dumps)
)
def test_any_other_line_is_told_in_one_sentence(line: str) -> None:
    try:
        inbound_of(line)
    except BadLine as error:
        sentence = str(error)
        assert sentence.endswith((" so it was skipped.", " this line was skipped."))
        assert "\n" not in sentence


@given(st.lists(st.binary(max_size=30), max_size=5), st.booleans())
def test_no_bytes_whatever_break_it(lines: list[bytes], is_jsonl: bool) -> None:
    async def feed() -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await spoken(b"\n".join(lines), is_jsonl)

    asyncio.run(feed())


@given(texts, st.none() | st.dictionaries(texts, st.integers(-9, 9) | texts), names)
def test_every_reply_is_one_line_of_json(text: str, data: Json | None, own_id: object) -> None:
    target = io.BytesIO()
    asyncio.run(Pipe(io.BytesIO(), target, is_jsonl=True).send(outbound(text, data, own_id)))
    (line,) = target.getvalue().split(b"\n")[:-1]
    assert json.loads(line) == {
        "reply_to": own_id,
        "chat": "main",
        "turn": None,
        "text": text,
        "data": data,
    }


async def test_what_may_have_been_sent_before_is_marked() -> None:
    target = io.BytesIO()
    pipe = Pipe(io.BytesIO(), target, is_jsonl=True)
    again = Outbound(1, Address("pipe", "main"), Reply("x"), "1", "t3", is_resent=True)
    await pipe.send(again)
    line = json.loads(target.getvalue())
    assert line["resent"] is True
    assert line["turn"] == "t3"


async def test_messages_are_confirmed_before_they_are_answered_and_bad_lines_in_their_place() -> (
    None
):
    written = await spoken(b'{"text":"a","id":1}\nno\n\n{"text":"b","id":"1"}')
    lines = [json.loads(line) for line in written.splitlines()]
    accepted = [line for line in lines if "accepted" in line or "error" in line]
    assert [next(iter(line)) for line in accepted] == ["accepted", "error", "accepted"]
    replies = [(line["reply_to"], line["text"]) for line in lines if "reply_to" in line]
    assert replies == [(1, "re: a"), ("1", "re: b")]
    assert lines.index({"accepted": 1}) < next(i for i, x in enumerate(lines) if "reply_to" in x)


async def test_plain_lines_are_not_confirmed() -> None:
    assert await spoken(b"one\r\n\n  \ntwo", is_jsonl=False) == b"re: one\nre: two\n"


class Stranger(FakeBot):
    """A bot that accepts no message."""

    async def submit(self, inbound: Inbound) -> Accepted | None:  # type: ignore[override]
        return None


async def test_what_was_not_taken_in_is_not_confirmed() -> None:
    assert await spoken(b'{"text": "Hello"}\n', with_bot=Stranger(deltas)) == b""


# Streams that fail


class Broken(io.BytesIO):
    """A stream whose other end is closed."""

    def readline(self, size: int | None = -1, /) -> bytes:
        raise OSError("Input/output error")

    def flush(self) -> None:
        raise BrokenPipeError("Broken pipe")


async def test_an_input_that_fails_has_ended() -> None:
    await bot().serve(Pipe(Broken(), io.BytesIO(), is_jsonl=True))


@pytest.mark.parametrize("is_jsonl", [True, False])
async def test_an_output_that_fails_ends_it_though_the_input_goes_on(is_jsonl: bool) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source, os.fdopen(writer, "wb", buffering=0) as script:
        pipe = Pipe(source, Broken(), is_jsonl)
        listening = asyncio.create_task(pipe.listen(bot()))
        with pytest.raises(PipeClosed, match="can no longer be written"):
            await pipe.send(outbound("x"))
        with pytest.raises(PipeClosed, match="can no longer be written"):
            await asyncio.wait_for(listening, PATIENCE)
        script.write(b"\n")  # lets the reading thread notice that nothing listens


async def test_an_output_that_failed_before_anyone_listened_ends_it_too() -> None:
    pipe = Pipe(io.BytesIO(b'{"text": "x"}\n' * 5), Broken(), is_jsonl=True)
    with suppress(PipeClosed):
        await pipe.send(outbound("left over from the last time"))
    listener = bot()
    with pytest.raises(PipeClosed):
        await pipe.listen(listener)
    assert listener.submitted == []


async def test_a_reader_who_is_slow_holds_up_nothing_but_the_writing() -> None:
    reader, writer = os.pipe()
    long = "x" * 300_000  # more than a pipe holds
    with os.fdopen(reader, "rb") as ear, os.fdopen(writer, "wb") as target:
        pipe = Pipe(io.BytesIO(), target, is_jsonl=False)
        sending = [asyncio.create_task(pipe.send(outbound(text))) for text in (long, "after")]
        first = await asyncio.to_thread(ear.read, 10)
        assert not any(task.done() for task in sending)
        rest = await asyncio.to_thread(ear.read, len(long) - 10 + len("\nafter\n"))
        await asyncio.gather(*sending)
    assert first + rest == f"{long}\nafter\n".encode()


async def test_lines_keep_their_order_whether_the_pipe_has_room_for_them_or_not() -> None:
    reader, writer = os.pipe()
    texts = [f"{number} {'x' * (10_000 if number % 7 == 0 else 500)}" for number in range(300)]
    with os.fdopen(reader, "rb") as ear, os.fdopen(writer, "wb") as target:
        pipe = Pipe(io.BytesIO(), target, is_jsonl=False)
        sending = [asyncio.create_task(pipe.send(outbound(text))) for text in texts]
        await asyncio.sleep(0)  # each has written as much as the pipe can hold, or waits
        assert not all(task.done() for task in sending)
        for text in texts:
            assert await asyncio.to_thread(ear.readline) == f"{text}\n".encode()
        await asyncio.gather(*sending)
        await pipe.send(outbound("after"))  # now there is capacity again
        assert await asyncio.to_thread(ear.readline) == b"after\n"


class Endless(io.BytesIO):
    """An endless input; `lines` counts the lines read."""

    lines = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        self.lines += 1
        return b'{"text": "more"}\n'


class Patient(FakeBot):
    """A bot that accepts `most` messages, and then no more for now."""

    most = 10
    is_full = asyncio.Event()

    async def submit(self, inbound: Inbound) -> Accepted:
        if len(self.submitted) == self.most:
            self.is_full.set()
            await asyncio.Event().wait()
        self.submitted.append(inbound)
        return Accepted(inbound.id, is_new=True)


async def read_all(source: BinaryIO) -> list[bytes]:
    lines = read_lines(source)
    lines.start()
    return [line async for line in aiter_until_end(lines.next)]


async def aiter_until_end(of: Callable[[], Awaitable[bytes]]) -> AsyncIterator[bytes]:
    while line := await of():
        yield line


@given(st.lists(st.binary(max_size=4) | st.just(b"\n") | st.just(b"x" * 70_000), max_size=8))
def test_a_pipe_has_the_lines_of_a_file_however_they_come(pieces: list[bytes]) -> None:
    async def both() -> tuple[list[bytes], list[bytes]]:
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as source:
            reading = asyncio.create_task(read_all(source))
            with os.fdopen(writer, "wb", buffering=0) as script:
                for piece in pieces:
                    await asyncio.to_thread(script.write, piece)
            return await reading, await read_all(io.BytesIO(b"".join(pieces)))

    piped, filed = asyncio.run(both())
    assert piped == filed


async def test_of_a_line_that_is_too_long_the_beginning_is_kept() -> None:
    source = b"x" * (3 * LONGEST) + b"\nafter\n"
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb") as script:
            script.write(source)

    with os.fdopen(reader, "rb") as pipe:
        writing = asyncio.create_task(asyncio.to_thread(write))
        lines = await read_all(pipe)
        await writing
    assert [len(line) for line in lines] == [LONGEST + 1, len(b"after\n")]


async def test_no_more_is_read_from_a_pipe_than_there_is_room_for() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source, os.fdopen(writer, "wb", buffering=0) as script:
        os.set_blocking(writer, False)
        lines = read_lines(source)
        lines.start()
        line, written, idle = b"x" * 999 + b"\n", 0, 0
        while idle < 100:  # until nothing reads any longer
            more = script.write(line) or 0  # None if the pipe is full
            written += more
            idle = 0 if more else idle + 1
            await asyncio.sleep(0)
        room = 2 * 65_536 // len(line)  # in the pipe, and in the last piece
        assert AHEAD <= written // len(line) <= AHEAD + room
        for _ in range(AHEAD):
            assert await lines.next() == line
        assert await lines.next() == line
        lines.stop()
        assert await lines.next() == b""


async def test_no_more_is_read_than_can_be_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "PROMPT", 600.0)  # after it, messages are held, up to `HELD`
    source, full = Endless(), Patient(deltas)
    listening = asyncio.create_task(Pipe(source, io.BytesIO(), is_jsonl=True).listen(full))
    await full.is_full.wait()
    for _ in itertools.takewhile(lambda _: source.lines < AHEAD, itertools.count()):
        await asyncio.sleep(0)
    for _ in range(2_000):  # time enough to read thousands more
        await asyncio.sleep(0)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    assert source.lines <= AHEAD + full.most + 2
