"""What a person took out is out of the model's reach, and the bot's own words about a failure were
never within it (points 26 and 27; what a person takes away is away)."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Break, Call, Fail, Hang, Received, Say
from tests.points.wire import (
    answered,
    asks,
    audience,
    daily,
    data,
    results,
    settle,
    summarised,
    texts,
)
from tests.whole.testbot import TestBot, run_bot

NEEDLE = "xylophone"
FEW_TURNS = {"agent_max_context_turns": 4}


def model(request: Received) -> Answer:
    """Calls the tool that a question in JSON names, and answers everything else."""
    if "tools" not in request.body:
        return Say("They talked.")
    last = request.body["messages"][-1]
    asked = str(last["content"]).rpartition("\n\n")[2]
    if last["role"] == "user" and asked.startswith("{"):
        wanted = json.loads(asked)
        return Say(calls=(Call(wanted.pop("tool"), json.dumps(wanted), "look"),))
    return Say("Seen." if last["role"] == "tool" else "Yes.")


async def looks(bot: TestBot, tool: str, **arguments: Any) -> str:
    """What comes of a tool that the model calls."""
    await bot.says(json.dumps({"tool": tool, **arguments}))
    # A summary may have been asked for since, in the conversation itself.
    read = [body for body in answered(bot) if body["messages"][-1]["role"] == "tool"]
    return results(read[-1])[-1]


async def talk(bot: TestBot, *said: str) -> None:
    for text in said:
        await bot.says(text)
        await settle(bot)


# --- 26: the files of what left ---------------------------------------------------------------

SAID = (f"The {NEEDLE} is in the cellar.", "two", "three", "four", "five", "six")
LOOKS: dict[str, dict[str, Any]] = {
    "grep": {"pattern": NEEDLE},
    "read_file": {"path": "sessions/pipe%2Fmain/context.jsonl"},
    "context_search": {"mode": "search", "query": NEEDLE},
    "memory_search": {"query": f"Where is the {NEEDLE}?"},
}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "tool",
    ["grep", "read_file", "context_search", "memory_search"],
)
async def test_what_was_cleared_is_out_of_the_reach_of_every_tool(
    tmp_path: Path, tool: str
) -> None:
    """Point 26: it had left into the offloaded file before; an undo brings it back."""
    async with run_bot(tmp_path, model, FEW_TURNS) as bot:
        await talk(bot, *SAID)
        before = await looks(bot, tool, **LOOKS[tool])
        await bot.says("/context clear")
        cleared = await looks(bot, tool, **LOOKS[tool])
        await bot.says("/context undo")
        after = await looks(bot, tool, **LOOKS[tool])
    assert f"The {NEEDLE} is in the cellar." in before
    assert f"The {NEEDLE} is in the cellar." not in cleared
    assert f"The {NEEDLE} is in the cellar." in after


@pytest.mark.usefixtures("processes")
async def test_what_was_dropped_is_not_offloaded_afterwards(tmp_path: Path) -> None:
    """Point 26: a drop, and then a cut over the place where it was."""
    async with run_bot(tmp_path, model, FEW_TURNS) as bot:
        await talk(bot, *SAID[:2])
        await bot.says("/context drop t1")
        await talk(bot, "three", "four", "five", "six", "seven", "eight")
        found = await looks(bot, "grep", pattern=NEEDLE)
    assert list(audience(tmp_path).glob("sessions/*/context.jsonl")), "nothing left at all"
    assert f"The {NEEDLE}" not in found


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("line", ["/context clear", "/undo", "/context drop t2"])
async def test_what_was_taken_away_is_not_in_the_mirrored_files(tmp_path: Path, line: str) -> None:
    """Point 26: `context.json` and its lines, which the model can read and grep, too."""
    settings = {"context": {"context_files": True}}
    async with run_bot(tmp_path, model, settings) as bot:
        await talk(bot, "Hello", SAID[0])
        files = list(audience(tmp_path).glob("sessions/*/context.json"))
        assert SAID[0] in files[0].read_text(), "it is not mirrored at all"
        await bot.says(line)
        await settle(bot)
        found = await looks(bot, "grep", pattern=NEEDLE)
    assert SAID[0] not in found


@pytest.mark.usefixtures("processes")
async def test_the_whole_result_of_a_cleared_turn_is_out_of_reach(tmp_path: Path) -> None:
    """Point 26: `tool_result-….txt`."""
    (audience(tmp_path) / "files").mkdir(parents=True)
    long = "some words in a line\n" * 400 + f"{SAID[0]}\n"
    (audience(tmp_path) / "files" / "long.txt").write_text(long)
    settings = {"context": {"tool_result_limit": 500}}
    async with run_bot(tmp_path, model, settings) as bot:
        await looks(bot, "read_file", path="files/long.txt", limit=500)
        await settle(bot)
        kept = list(audience(tmp_path).glob("sessions/*/tool_result-*.txt"))
        (audience(tmp_path) / "files" / "long.txt").unlink()
        await bot.says("/context clear")
        found = await looks(bot, "grep", pattern=NEEDLE)
    assert kept, "nothing was kept of the result"
    assert SAID[0] not in found


@pytest.mark.usefixtures("processes")
async def test_a_turn_that_is_dropped_after_it_had_left_once_is_out_of_reach(
    tmp_path: Path,
) -> None:
    """Point 26: the cut was undone, so the file had it already."""
    async with run_bot(tmp_path, model, FEW_TURNS) as bot:
        await talk(bot, *SAID[:5])
        await bot.says("/context undo")
        said = (await bot.says("/context drop t1")).text
        found = await looks(bot, "grep", pattern=NEEDLE)
    assert "Dropped: t1" in said
    assert SAID[0] not in found


async def test_a_turn_that_was_taken_back_leaves_no_line_in_the_log(tmp_path: Path) -> None:
    """Point 26: under `slim`, when those beside it are folded."""
    settings = {"context": {"strategy": "slim", "full_turns": 1, "fold_turns": 1}}
    async with run_bot(tmp_path, model, settings) as bot:
        await talk(bot, "Hello", SAID[0])
        await bot.says("/undo")
        await talk(bot, "three", "four", "five")
        sent = json.dumps(answered(bot)[-1]["messages"])
    assert "[Context -- Activity Log]" in sent
    assert NEEDLE not in sent


# --- 26: both searches ------------------------------------------------------------------------


SEARCHES = ("context_search", "memory_search")


@pytest.mark.parametrize("line", ["/undo", "/retry", "/context drop t2"])
@pytest.mark.parametrize("tool", SEARCHES)
async def test_a_turn_that_was_taken_back_is_found_by_no_search_of_the_model(
    tmp_path: Path, line: str, tool: str
) -> None:
    """Point 26: until it is brought back. After `/retry` the question stands there anew, and the
    reply that was taken back does not."""
    asked = 0

    def script(request: Received) -> Answer:
        nonlocal asked
        if request.body["messages"][-1]["content"] == "Where is it?":
            asked += 1
            return Say(f"It is the {NEEDLE} in the cellar." if asked == 1 else "I don't know.")
        return model(request)

    async with run_bot(tmp_path, script) as bot:
        await talk(bot, "Hello", "Where is it?")
        await bot.says(line)
        await settle(bot)
        await talk(bot, "Hello again")
        found = await looks(bot, tool, **LOOKS[tool])
    assert f"It is the {NEEDLE}" not in found


async def test_a_turn_that_was_brought_back_is_found_again(tmp_path: Path) -> None:
    """Point 26."""
    async with run_bot(tmp_path, model) as bot:
        await talk(bot, "Hello", SAID[0])
        await bot.says("/undo")
        await bot.says("/context undo")
        await settle(bot)
        for tool in SEARCHES:
            assert SAID[0] in await looks(bot, tool, **LOOKS[tool])


async def test_a_person_finds_what_was_taken_back_and_sees_that_it_was(tmp_path: Path) -> None:
    """Point 26: both searches of a person."""
    async with run_bot(tmp_path, model) as bot:
        await talk(bot, "Hello", SAID[0])
        await bot.says("/undo")
        await settle(bot)
        found = [
            (await bot.says(f"{line} {NEEDLE}")).text
            for line in ("/context search", "/memory search")
        ]
    assert all("cellar" in text for text in found)
    assert all("dropped" in text or "taken back" in text for text in found)


async def test_what_was_taken_back_is_in_no_summary(tmp_path: Path) -> None:
    """Point 26: neither in what the model is asked to summarise, nor in the daily memory."""
    async with run_bot(tmp_path, model, FEW_TURNS) as bot:
        await talk(bot, "Hello", SAID[0])
        await bot.says("/undo")
        await talk(bot, "three", "four", "five", "six", "seven")
        asked = json.dumps([body["messages"] for body in summarised(bot)])
    assert "Hello" in asked, "nothing was summarised"
    assert NEEDLE not in asked
    assert NEEDLE not in daily(tmp_path)


@pytest.mark.parametrize("line", ["/undo", "/context clear", "/context drop t2"])
async def test_retention_adds_nothing_to_the_memory_that_a_person_took_away(
    tmp_path: Path, line: str
) -> None:
    """Point 26: the transcript goes, and what was put away with it goes unsaid."""
    async with run_bot(tmp_path, model) as bot:
        await talk(bot, "Hello", SAID[0])
        await bot.says(line)
        await settle(bot)
    with closing(sqlite3.connect(tmp_path / "data" / "parley.db")) as database, database:
        database.execute("UPDATE conversation SET active_at = 1, created_at = 1")
    async with run_bot(tmp_path, model) as bot:
        await bot.app.schedule.due()
        await bot.app.schedule.idle()
        assert (await data(bot, "/context json"))["stored_messages"] == 0, "it is not retired"
        asked = json.dumps([body["messages"] for body in summarised(bot)])
    assert NEEDLE not in asked + daily(tmp_path)


# --- 26: a search and its own results ---------------------------------------------------------


async def test_a_search_does_not_find_the_results_of_earlier_searches(tmp_path: Path) -> None:
    """Point 26: nested, they doubled each time."""
    async with run_bot(tmp_path, model) as bot:
        await talk(bot, SAID[0], "two", "three")
        found = [await looks(bot, "context_search", **LOOKS["context_search"]) for _ in range(6)]
    counts = [text.count("is in the cellar") for text in found]
    assert counts == [1] * 6


# --- 27: the bot's own words ------------------------------------------------------------------

REFUSED = Fail(401, {"message": "Incorrect API key provided.", "code": "invalid_api_key"})
FAILURES: dict[str, tuple[Answer, ...]] = {
    "a refused key": (REFUSED,),
    "a server that fails": (Fail(500, {"message": "Sorry."}, {"retry-after": "0"}),) * 3,
    "an answer that breaks off": (Break("It is "), Break("It is ")),
    "no such model": (Fail(404, {"message": "no such model", "code": "model_not_found"}),),
}


def failing(*failures: Answer) -> Any:
    """A model that fails at the second question, and answers the others."""
    left = list(failures)

    def answer(request: Received) -> Answer:
        if "tools" in request.body and request.body["messages"][-1]["content"] == "Well?" and left:
            return left.pop(0)
        return model(request)

    return answer


@pytest.mark.parametrize("failure", FAILURES)
async def test_an_error_of_the_bot_is_shown_to_the_person_and_never_to_the_model(
    tmp_path: Path, failure: str
) -> None:
    """Point 27: not in the next request, and in no later one."""
    async with run_bot(tmp_path, failing(*FAILURES[failure]), FEW_TURNS) as bot:
        await talk(bot, "Hello")
        shown = (await bot.says("Well?")).text
        await talk(bot, "And now?")
        sent = texts(answered(bot)[-1])
    sentence = shown.rpartition("(")[2].rstrip(")").rstrip(".")
    assert len(sentence) > 20, "the person was told"
    assert "And now?" in sent[-1]
    assert sentence not in "\n".join(sent)


@pytest.mark.parametrize("tool", SEARCHES)
async def test_an_error_of_the_bot_is_found_by_no_search_of_the_model(
    tmp_path: Path, tool: str
) -> None:
    """Point 27."""
    about = {"query": "refused the API key", "mode": "search"}
    if tool == "memory_search":
        del about["mode"]
    async with run_bot(tmp_path, failing(REFUSED)) as bot:
        await talk(bot, "Hello", "Well?", "And now?")
        found = await looks(bot, tool, **about)
    assert "OPENAI_API_KEY" not in found


@pytest.mark.usefixtures("processes")
async def test_an_error_of_the_bot_is_in_no_summary_and_in_no_file_for_the_model(
    tmp_path: Path,
) -> None:
    """Point 27: when its turn leaves."""
    async with run_bot(tmp_path, failing(REFUSED), FEW_TURNS) as bot:
        await talk(bot, "Hello", "Well?", "three", "four", "five", "six")
        asked = json.dumps([body["messages"] for body in summarised(bot)])
        found = await looks(bot, "grep", pattern="OPENAI_API_KEY")
    assert "Hello" in asked, "nothing was summarised"
    assert "OPENAI_API_KEY" not in asked + daily(tmp_path)
    assert "check OPENAI_API_KEY" not in found


async def test_what_streamed_before_a_stop_is_kept_without_the_bots_own_note(
    tmp_path: Path,
) -> None:
    """Point 27: what the model said is context, what the bot says about it is not."""
    async with run_bot(tmp_path, failing(Hang("It is in the cel"))) as bot:
        await talk(bot, "Hello")
        asking = await asks(bot, "Well?", "It is in the cel")
        await bot.says("/stop")
        shown = (await asking).text
        await bot.says("And now?")
        sent = [m["content"] for m in answered(bot)[-1]["messages"] if m["role"] == "assistant"]
    note = shown.removeprefix("It is in the cel").strip()
    assert shown.startswith("It is in the cel")
    assert note
    assert any("It is in the cel" in text for text in sent)
    assert not any(note in text for text in sent)
