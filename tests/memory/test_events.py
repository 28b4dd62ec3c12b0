"""Events: their listeners, the order of these, and a listener's power over a turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from memory.events import Event, EventName, Events, Listener, Verdict
from memory.keys import ConversationKey
from memory.messages import Message, ToolCall
from tests.memory.harness import MemoryHarness


def hearing(
    heard: list[str], name: str = "ear", verdict: Verdict | None = None, priority: int = 100
) -> Listener:
    """Return a listener that records its events."""

    async def handle(event: Event) -> Verdict | None:
        heard.append(f"{name}: {event.name} t{event.turn} {event.text}".strip())
        return verdict

    return Listener(name, handle, priority)


async def harness_with(folder: Path, *listeners: Listener) -> MemoryHarness:
    harness = MemoryHarness(folder, events=Events(listeners))
    await harness.open()
    return harness


async def test_a_session_begins_once_and_ends_when_the_bot_stops(tmp_path: Path) -> None:
    heard: list[str] = []
    harness = await harness_with(tmp_path, hearing(heard))
    conversation = await harness.conversation()
    for text in ("Hello", "Bye"):
        turn = await conversation.turns.open(text)
        await turn.begin()
        await turn.record(Message("assistant", "Yes."))
        await turn.notify("turn_end", "Yes.")
    await harness.close()
    assert heard == [
        "ear: session_start t1",
        "ear: turn_start t1 Hello",
        "ear: turn_end t1 Yes.",
        "ear: turn_start t2 Bye",
        "ear: turn_end t2 Yes.",
        "ear: session_end t0",
    ]


async def test_a_turn_that_goes_on_has_begun_already(tmp_path: Path) -> None:
    heard: list[str] = []
    harness = await harness_with(tmp_path, hearing(heard))
    turn = await (await harness.conversation()).turns.open("Look!", inbox=1)
    await turn.record(Message("assistant", "", (ToolCall("c", "look", "{}"),)))
    await harness.restart()
    again = await (await harness.conversation()).turns.open("Look!", inbox=1)
    await again.begin()
    await harness.close()
    assert again.number == turn.number
    assert heard == []


async def test_listeners_hear_by_priority_and_the_first_veto_counts(tmp_path: Path) -> None:
    heard: list[str] = []
    late = hearing(heard, "late", Verdict("no", ("b",)), 200)
    early = hearing(heard, "early", Verdict("never", ("a",)), 1)
    picky = Listener("picky", hearing(heard, "picky").hear, minds=lambda name: name == "tool_end")
    harness = await harness_with(tmp_path, late, early, picky)
    turn = await (await harness.conversation()).turns.open("Hello")
    call = ToolCall("c", "look", "{}")
    verdict = await turn.notify("tool_start", call=call)
    await turn.notify("tool_end", "done", call, is_error=True)
    await harness.close()
    assert verdict == Verdict("never", ("a", "b"))
    assert heard[:2] == ["early: tool_start t1", "late: tool_start t1"]
    assert [one for one in heard if one.startswith("picky")] == ["picky: tool_end t1 done"]


async def test_what_listeners_say_stands_behind_the_question(tmp_path: Path) -> None:
    harness = await harness_with(tmp_path, hearing([], verdict=Verdict(inject=("Be brief.",))))
    turn = await (await harness.conversation()).turns.open("Hello")
    await turn.begin()
    await harness.close()
    assert [(e.message.role, e.message.text) for e in turn.entries] == [
        ("user", "Hello"),
        ("note", "Be brief."),  # at the start of the session
        ("note", "Be brief."),  # at the start of the turn
    ]


async def test_a_listener_that_fails_or_sleeps_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(event: Event) -> Verdict:
        raise OSError("broken")

    async def sleeps(event: Event) -> Verdict:
        await asyncio.Event().wait()
        raise AssertionError

    heard: list[str] = []
    harness = await harness_with(
        tmp_path,
        Listener("bad", fails),
        Listener("slow", sleeps, timeout=0.01),
        hearing(heard, verdict=Verdict(inject=("x",))),
    )
    turn = await (await harness.conversation()).turns.open("Hello")
    assert (await turn.notify("turn_start", "Hello")).inject == ("x",)
    await harness.close()
    assert "bad failed over turn_start" in caplog.text
    assert "slow took longer than 0.01 s over turn_start" in caplog.text


NONSENSE: list[object] = [
    *(5, True, "veto", {"veto": "no"}, object(), Verdict, ("a", ())),
    *(Verdict(veto=5), Verdict(veto=None), Verdict(inject=5), Verdict(inject=(5,))),  # type: ignore[arg-type]
    *(RuntimeError("x"), asyncio.CancelledError(), SystemExit(3), TimeoutError()),
]


async def test_nonsense_of_a_listener_costs_what_it_says_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = iter(NONSENSE)

    async def handle(event: Event) -> Verdict:
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]

    def fails(name: EventName) -> bool:
        raise OSError("broken")

    good = hearing([], verdict=Verdict("no", ("x",)))
    events = Events([Listener("bad", handle, 1), good, Listener("worse", handle, minds=fails)])
    event = Event("turn_start", ConversationKey("pipe/main", "pipe-main"))
    for number, _nonsense in enumerate(NONSENSE, 1):
        assert events.find_interested("turn_start")
        assert await events.emit(event) == Verdict("no", ("x",))
        assert sum("bad " in record.getMessage() for record in caplog.records) == number
    listed = Verdict("", ["a", "b"])  # type: ignore[arg-type]
    one = Verdict(inject="a\ud800")  # type: ignore[arg-type]
    lists = Events([hearing([], verdict=listed), hearing([], verdict=one)])
    assert await lists.emit(event) == Verdict("", ("a", "b", "a?"))


async def test_a_turn_that_is_stopped_while_a_listener_hears_is_stopped() -> None:
    hears = asyncio.Event()

    async def handle(event: Event) -> None:
        hears.set()
        await asyncio.Event().wait()

    key = ConversationKey("pipe/main", "pipe-main")
    telling = asyncio.create_task(Events([Listener("slow", handle)]).emit(Event("error", key)))
    await hears.wait()
    telling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await telling


async def test_the_end_of_a_session_keeps_no_one_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleeps(event: Event) -> None:
        if event.name == "session_end":
            await asyncio.Event().wait()

    monkeypatch.setattr("memory.conversations.FAREWELL", 0.05)
    harness = await harness_with(tmp_path, Listener("slow", sleeps, timeout=None))
    await (await (await harness.conversation()).turns.open("Hello")).begin()
    await harness.close()
