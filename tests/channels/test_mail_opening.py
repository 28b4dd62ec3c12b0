"""Tests of how a mail is opened: its head first, and in a separate process if it is not small."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.msgpack import encode
from msgspec.structs import replace

from benchmarks.hostile_mail import MAILS
from bot.attachments import run_limited
from channels.base import Bot, UnreadableError
from channels.mail import MailSettings
from channels.mail.mail import Mail, _to_incoming, is_small, open_letter
from channels.mail.reading import read
from channels.retry import MessageSkipped
from tests.tables import each_row


@each_row("end", [b"\r\n", b"\n", b"\r"])
def test_of_a_message_of_too_many_parts_the_head_is_read(end: bytes) -> None:
    head = b"From: ann@example.org\nContent-Type: multipart/mixed; boundary=a\n\n"
    found = read((head + b"--a\n\n" * 1_000).replace(b"\n", end), "<f@imap>", "bot@e.org")
    assert found.sender == "ann@example.org"
    heard, contents = _to_incoming(found)
    assert ([file.name for file in heard.files], contents) == (["the message"], {})


def _bot_with_state(texts: dict[str, str]) -> Any:
    async def get(_channel: str, name: str) -> str:
        return texts.get(name, "")

    async def put(_channel: str, name: str, text: str) -> None:
        texts[name] = text

    state, told = SimpleNamespace(get=get, set=put), list[BaseException]()
    bot = SimpleNamespace(
        state=state,
        admits=lambda _address: True,
        trouble=lambda _channel, error: told.append(error),
        told=told,
    )
    return SimpleNamespace(bot=bot)


async def test_a_message_that_ends_the_process_is_not_read_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = []

    def die(_bot: Any, raw: bytes, *_others: Any) -> None:
        begun.append(raw)
        raise KeyboardInterrupt  # as after a kill, no more code runs

    async def run(work: Any, *given: Any) -> Any:
        return work(*given)

    monkeypatch.setattr("channels.mail.mail.open_letter", die)
    handler = _bot_with_state({})
    inbox: Any = SimpleNamespace(validity=1, fetch_head=lambda _uid: b"From: a@b")
    for _start in range(5):
        made = Mail(MailSettings(address="bot@example.org", verified_by="mx.example.net"), "")
        with suppress(KeyboardInterrupt):
            await made._handle_letter(handler, inbox, run, 7)
            break  # the next message is read
    assert len(begun) == 2
    (told,) = handler.bot.told
    assert isinstance(told, MessageSkipped), "an owner hears of it"


async def test_a_connection_that_breaks_is_not_counted_as_an_end_of_the_process() -> None:
    async def run(work: Any, *given: Any) -> Any:
        return work(*given)

    def end_early(_uid: int) -> None:
        raise ConnectionResetError

    handler, head = _bot_with_state({}), b"From: ann@example.org\r\nSubject: Hi\r\n\r\n"
    inbox: Any = SimpleNamespace(validity=1, fetch_head=lambda _uid: head, fetch=end_early)
    made = Mail(MailSettings(address="bot@example.org", verified_by="mx.example.net"), "")
    made._may_be_read = lambda *_given: True  # type: ignore[method-assign]
    for _time in range(5):
        with pytest.raises(ConnectionResetError):
            await made._handle_letter(handler, inbox, run, 7)
    assert handler.bot.told == []


async def test_of_a_stranger_only_the_head_is_fetched() -> None:
    async def run(work: Any, *given: Any) -> Any:
        return work(*given)

    texts: dict[str, str] = {}
    head = b"From: eve@example.org\r\nSubject: Hi\r\n\r\n"
    inbox: Any = SimpleNamespace(validity=1, fetch_head=lambda _uid: head)
    made = Mail(MailSettings(address="bot@example.org", verified_by="mx.example.net"), "")
    await made._handle_letter(_bot_with_state(texts), inbox, run, 7)
    assert not any(texts.values()), "nothing is kept of it"


@each_row("what", sorted(MAILS)[::97])
def test_hostile_mails_are_read(what: str) -> None:
    raw = MAILS[what](3_000)
    bot: Any = SimpleNamespace(run_limited=lambda _script, *given: encode(read(*given)))
    found = open_letter(bot, raw, "<f@imap>", "bot@example.org")
    assert found is None or found.id


LARGE = {
    "a long text": b"From: Ann <ann@example.org>\r\nSubject: Tea\r\n\r\n"
    + b"a word \xff\r\n" * 5_000,
    "many files": MAILS["parts of b'A'"](100_000),
    "broken Unicode": b"From: ann@example.org\r\nContent-Type: text/plain; charset=utf-7\r\n\r\n"
    + b"+2AA-\r\n" * 5_000,
}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("what", LARGE)
def test_a_process_reads_what_is_not_small_as_it_is_read_here(what: str) -> None:
    raw, bot = LARGE[what], cast(Bot, SimpleNamespace(run_limited=run_limited))
    assert not is_small(raw)
    here = read(raw, "<f@imap>", "bot@example.org")
    there = open_letter(bot, raw, "<f@imap>", "bot@example.org")
    assert there is not None
    assert replace(there, at=here.at) == here


@pytest.mark.usefixtures("processes")
def test_what_takes_more_than_it_may_is_known_from_what_fails(tmp_path: Path) -> None:
    ways = {
        "b''.ljust(1 << 40)": True,
        "signal.raise_signal(signal.SIGXCPU)": True,
        "signal.raise_signal(signal.SIGKILL)": True,
        "1 / 0": False,
    }
    for code, takes_too_much in ways.items():
        script = tmp_path / "script.py"
        script.write_text(f"import signal\n{code}")
        with pytest.raises(UnreadableError) as failure:
            run_limited(script, b"")
        assert failure.value.takes_too_much == takes_too_much, code
    assert "ZeroDivisionError" in str(failure.value)


async def test_of_a_mail_that_takes_too_much_the_head_is_answered() -> None:
    heard, handler = [], _bot_with_state({})
    verified = b"Authentication-Results: mx.example.net; dkim=pass header.d=example.org\r\n"
    head = verified + b"From: ann@example.org\r\nMessage-ID: <1@x>\r\n\r\n"

    async def take(events: Any) -> None:
        heard.extend(events)

    async def run(work: Any, *given: Any) -> Any:
        return work(*given)

    def refuse(*_: Any) -> bytes:
        raise UnreadableError("takes too much", takes_too_much=True)

    handler.bot.run_limited, handler.take = refuse, take
    inbox: Any = SimpleNamespace(
        validity=1,
        fetch_head=lambda _uid: head,
        fetch=lambda _uid: (head + b"a" * 20_000, True),
    )
    made = Mail(MailSettings(address="bot@example.org", verified_by="mx.example.net"), "")
    await made._handle_letter(handler, inbox, run, 7)
    (one,) = heard
    assert [file.name for file in one.files] == ["the message"]


def test_a_fault_of_this_machine_leaves_no_mail_out() -> None:
    def refuse(*handed: object) -> bytes:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    bot = cast(Bot, SimpleNamespace(run_limited=refuse))
    raw = b"From: ann@example.org\r\nSubject: Hi\r\n\r\n" + b"word " * 10_000
    with pytest.raises(BlockingIOError):
        open_letter(bot, raw, "<f@imap>", "bot@example.org")
