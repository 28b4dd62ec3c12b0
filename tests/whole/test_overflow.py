"""A request larger than the model's window: the content of the retry, the notice to the person, the
amount clipped, and the learned window."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import (
    Answer,
    Call,
    Fail,
    Received,
    Say,
    llama_overflow,
    openai_overflow,
)
from tests.whole.requests import (
    answered,
    answering,
    audience,
    content,
    events,
    has_results,
    in_order,
    last_asked,
    looks,
    put_file,
    results,
    state,
    steps,
    talk,
    whole,
    with_plugin,
)
from tests.whole.testbot import TestBot, run_bot

GOAL = "Plan the garden of aunt Walburga."
LONG_TURNS = [f"{number} " + "word " * 700 for number in range(4)]
NOTES = "\n".join(f"note {number}" for number in range(40))


def refusing(times: int, window: int = 10_000) -> Callable[[Received], Answer]:
    """Refuse the turn that asks for "the last" this many times, and otherwise answer "Fine." A
    question that begins with "look" or ends with "notes" reads a file first."""
    left = times

    def reply(request: Received) -> Answer:
        nonlocal left
        asked = last_asked(request)
        reads = asked.startswith("look") or asked.endswith("notes")
        if reads and not has_results(request):
            return looks(request, "notes.txt")
        if left and asked.startswith("the last"):
            left -= 1
            return openai_overflow(window + 500, window)
        return Say("Fine.")

    return answering(reply)


def context(**settings: Any) -> dict[str, Any]:
    return {"context": {"max_tokens": 10_000, "output_reserved": 500, **settings}}


async def heard_in(bot: TestBot, line: str) -> str:
    """Return everything that the person gets for a line: the reply and the notices."""
    before = len(bot.sent)
    await talk(bot, line)
    return "\n".join(outbound.reply.text for outbound in bot.sent[before:])


# --- the retry ---


@pytest.mark.parametrize("strategy", ["truncate", "summarize"])
async def test_the_retry_between_two_tool_calls_holds_the_goal_and_the_tools_of_what_left(
    tmp_path: Path, strategy: str
) -> None:
    put_file(tmp_path, "notes.txt", NOTES)
    async with run_bot(tmp_path, refusing(1), context(strategy=strategy)) as bot:
        await talk(bot, GOAL, "look", *LONG_TURNS)
        await talk(bot, "the last word about my notes", "and now?")
        refused, retry, after = steps(bot)[-3:]
    assert retry[-1]["role"] == refused[-1]["role"] == "tool"
    people = [content(message) for message in retry if message["role"] == "user"]
    assert GOAL not in people, "the turn itself has left"
    assert GOAL in whole(retry)
    notes = "\n".join(content(m) for m in after[1:] if m["role"] == "system")
    for word in ("read_file", "notes.txt", "native"):
        assert word in notes
    assert "memory" in notes.replace("memory_search", "").lower()


MARK = """
from pathlib import Path

from plugins.api import Tool, hookimpl, tool

RUNS = Path(__file__).with_name("runs.txt")


@tool
def mark(one: int, two: int) -> str:
    '''Mark something.'''
    with RUNS.open("a") as file:
        file.write("run\\n")
    return "marked"


@hookimpl
def parley_tools() -> list[Tool]:
    return [mark]
"""


async def test_a_call_is_the_same_after_an_overflow_however_its_arguments_are_written(
    tmp_path: Path,
) -> None:
    runs = with_plugin(tmp_path, MARK) / "runs.txt"
    script = in_order(
        *(Say("Yes. " * 300),) * 3,
        Say(calls=(Call("mark", '{"one": 1, "two": 2}', "a"),)),
        openai_overflow(130_000, 128_000),
        Say(calls=(Call("mark", '{"two":2,"one":1}', "b"),)),
        Say("Done."),
    )
    async with run_bot(tmp_path, script) as bot:
        await talk(bot, *(f"question {number}" for number in range(3)))
        assert (await bot.says("Mark it.")).text.startswith("Done.")
        sent = results(answered(bot)[-1])
    assert sent == ["marked", "marked"]
    assert runs.read_text() == "run\n", "the tool ran twice because of an overflow"


def overflowing_work(request: Received) -> Answer:
    """`work` reads a file in each of four steps, and the request with the fourth result is refused
    the first time; everything else is answered at once."""
    roles = [message["role"] for message in request.body["messages"]]
    if not last_asked(request).startswith("work"):
        return Say("Done.")
    if roles[::-1].index("user") < 8:
        return looks(request, "long.txt")
    asked = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
    is_first = any("hello hello" in text for text in asked)  # a recap mentions it afterwards
    return openai_overflow(10_500, 10_000) if is_first else Say("Worked.")


@pytest.mark.parametrize("strategy", ["truncate", "summarize"])
async def test_after_an_overflow_in_mid_turn_the_next_cuts_free_something_and_are_paid_once(
    tmp_path: Path, strategy: str
) -> None:
    """With `keep_recent` the turn's question is removed first (Digitorn's safe split). Its summary
    covers the whole turn, so that the rest is removed later without another call."""
    lines = "".join(f"line {n} of the long file that is read\n" for n in range(110))
    put_file(tmp_path, "long.txt", lines[:1_800])
    async with run_bot(tmp_path, answering(overflowing_work), context(strategy=strategy)) as bot:
        await talk(bot, "hello " * 800, "work, please")
        before = len(bot.server.summaries)
        await talk(bot, "and now? " + "word " * 3_800, "and then?", "and what else?", "and last?")
        overflow, *later = await events(bot)
        paid = [whole(r.body["messages"]) for r in bot.server.summaries[before:]]
    assert overflow["actor"] == "emergency"
    assert [e for e in later if e["tokens_after"] >= e["tokens_before"]] == []
    assert sum("[t2]" in text for text in paid) == (strategy == "summarize")


# --- the person is told ---


async def test_the_person_hears_what_left_by_an_overflow_why_and_how_to_get_it_back(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, refusing(2), context(strategy="summarize")) as bot:
        await talk(bot, *LONG_TURNS)
        before = (await state(bot))["turns"]
        heard = await heard_in(bot, "the last word")
        left = set(before) - set((await state(bot))["turns"])
    assert left, "something has left"
    assert "t1" in heard, "what"
    assert "window" in heard or "too long" in heard, "why"
    assert "/context undo" in heard, "how to get it back"


async def test_an_emergency_before_anything_is_sent_tells_the_person_too(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(0), context(strategy="full")) as bot:
        for number in range(1, 9):
            heard = await heard_in(bot, f"{number} " + "word " * 1_500)
            left = [turn for event in await events(bot) for turn in event["turns"]]
            if left:
                break
    assert left, "something has left"
    assert "/context undo" in heard


async def test_the_person_hears_that_their_own_text_was_clipped(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(0), context()) as bot:
        heard = await heard_in(bot, "word " * 12_000)
        received = content(steps(bot)[-1][-1])
    assert "left out here" in received, "it was clipped"
    assert heard.strip() != "Fine."


async def test_when_nothing_is_left_to_clear_nobody_is_told_to_clear(tmp_path: Path) -> None:
    async with run_bot(tmp_path, refusing(9), context()) as bot:
        await talk(bot, *LONG_TURNS)
        heard = await heard_in(bot, "the last word")
        turns = (await state(bot))["turns"]
    assert len(turns) <= 1, "nothing but this turn is in context"
    assert "Fine." not in heard
    assert "/context clear" not in heard


# --- clips ---


async def test_a_message_that_the_provider_finds_just_too_long_loses_only_a_little(
    tmp_path: Path,
) -> None:
    settings = {"context": {"max_tokens": 20_000, "strategy": "full"}}
    async with run_bot(tmp_path, refusing(1, window=16_000), settings) as bot:
        await talk(bot, "the last word " + "word " * 13_000)
        received = content(steps(bot)[-1][-1])
    assert len(received) > 40_000


async def test_calls_that_are_longer_than_the_window_are_run_and_shortened(tmp_path: Path) -> None:
    written = "word " * 5_000

    def reply(request: Received) -> Answer:
        if has_results(request) or "write" not in last_asked(request):
            return Say("Written.")
        files = (json.dumps({"path": f"{n}.txt", "content": written}) for n in range(20))
        return Say(calls=tuple(Call("write_file", one, f"c{n}") for n, one in enumerate(files)))

    async with run_bot(tmp_path, answering(reply), context()) as bot:
        heard = await heard_in(bot, "write it")
        shown = [call for m in steps(bot)[-1] for call in m.get("tool_calls", ())]
        assert await talk(bot, "and now?") == "Written."
    assert heard.startswith("Written.")
    assert "the model's own tool calls were too long and were shortened" in heard
    assert len(shown) == 20
    arguments = [json.loads(call["function"]["arguments"]) for call in shown]
    assert all("left out here" in one["shortened"] for one in arguments)
    assert (audience(tmp_path) / "files" / "0.txt").read_text() == written


async def test_calls_are_left_alone_where_shorter_results_are_enough(tmp_path: Path) -> None:
    def reply(request: Received) -> Answer:
        read = sum(m["role"] == "tool" for m in request.body["messages"])
        note = json.dumps({"path": "own.txt", "content": "mine " * 200})
        if read == 0:
            return Say(calls=(Call("write_file", note, "w"),))
        return looks(request, "notes.txt", 3) if read == 1 else Say("Read.")

    put_file(tmp_path, "notes.txt", "\n".join(["note " * 900] * 40))
    async with run_bot(tmp_path, answering(reply), context()) as bot:
        assert (await talk(bot, "look")).startswith("Read.")
        arguments = str([m.get("tool_calls") for m in steps(bot)[-1]])
    assert "mine " * 200 in arguments


# --- a learned window ---


async def test_a_learned_window_is_shown_as_learned_and_forgotten_with_the_model_or_the_setting(
    tmp_path: Path,
) -> None:
    changes = {"/model gpt-4o": 128_000, "/config context.max_tokens 60000": 60_000}
    for number, (line, window) in enumerate(changes.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with run_bot(folder, refusing(1, window=16_000), {}) as bot:
            await talk(bot, "the last word " + "word " * 18_000)
            assert (await state(bot))["window"] == 16_000, "it is believed"
            assert "learned" in (await bot.says("/context")).text
            await talk(bot, line)
            assert (await state(bot))["window"] == window


@pytest.mark.parametrize("strategy", ["trim", "slim", "full", "truncate", "structured"])
@pytest.mark.parametrize("window", [2_600, 4_000])
async def test_results_are_shortened_for_a_window_that_nobody_names(
    tmp_path: Path, strategy: str, window: int
) -> None:
    """The bot assumes 128,000 tokens, so that no request is too long by the meter."""
    put_file(tmp_path, "notes.txt", "a long line of notes " * 300)

    def reply(request: Received) -> Answer:
        messages = request.body["messages"]
        asked = max(n for n, message in enumerate(messages) if message["role"] == "user")
        read = sum(message["role"] == "tool" for message in messages[asked:])
        if "look" in content(messages[asked]) and read < 3:
            line = json.dumps({"path": "notes.txt", "offset": 1, "limit": 10 + read})
            return Say(calls=(Call("read_file", line, f"c{read}"),))
        return Say("Fine.")

    def too_long(sent: int, window: int) -> Fail:
        return Fail(400, {"message": "Too many tokens."})

    settings = {"context": {"strategy": strategy}}
    async with run_bot(
        tmp_path, answering(reply), settings, window=window, overflow=too_long
    ) as bot:
        await bot.says("Hello")
        refusals = []
        for line in ("look at it", "look again", "look once more"):
            before = bot.server.refused
            reply_heard = await heard_in(bot, line)
            assert reply_heard.startswith("Fine."), reply_heard
            assert "long tool results were shortened" in reply_heard
            assert len(results(answered(bot)[-1])) >= 3, "none was read anew"
            refusals.append(bot.server.refused - before)
        assert sum(refusals) < 5, "what was refused is not tried again and again"


async def test_a_short_question_that_is_refused_as_too_long_is_not_sent_again(
    tmp_path: Path,
) -> None:
    def too_long(sent: int, window: int) -> Fail:
        return Fail(400, {"message": "Too many tokens."})

    async with run_bot(tmp_path, answering(lambda _: Say("")), window=1, overflow=too_long) as bot:
        assert "longer than the context window" in await heard_in(bot, "Hello")
        assert bot.server.refused == 1


async def transcript(bot: TestBot) -> list[tuple[int, str]]:
    rows = await bot.app.store.read(
        lambda db: db.execute_sql(
            "SELECT turn, text FROM message WHERE role != 'tool' ORDER BY seq"
        ).fetchall()
    )
    return [(turn, text) for turn, text in rows]


@pytest.mark.parametrize(
    ("count", "overflow"), [(1, openai_overflow), (3, llama_overflow), (8, openai_overflow)]
)
async def test_a_model_that_overflows_again_and_again_ends_the_turn(
    tmp_path: Path, count: int, overflow: Callable[[int, int], Fail]
) -> None:
    refusals = 0

    def script(request: Received) -> Answer:
        nonlocal refusals
        if request.is_summary:
            return Say("They talked.")
        if "the last one" in str(request.body["messages"][-1]["content"]) and refusals < count:
            refusals += 1
            return overflow(120_000, 100_000)
        return Say("Fine.")

    async with run_bot(tmp_path, script, {"agent_max_context_turns": 10}) as bot:
        for number in range(6):
            await bot.says(f"question {number}")
        reply = await bot.says("the last one")
        assert reply.text.startswith("Fine.") or "context window" in reply.text
        assert refusals <= 5, "the number of attempts is bounded"
        assert (await bot.says("and now?")).text == "Fine."
        kept = await transcript(bot)
    assert [text for _, text in kept][:2] == ["question 0", "Fine."]
    assert len(kept) == 16
