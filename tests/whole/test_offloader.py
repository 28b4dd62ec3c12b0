"""A plugin that stores the turns removed from the context: its possible faults, and its
notifications."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from channels.message import Attachment
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.requests import (
    answered,
    audience,
    compactions,
    events,
    results,
    settle,
    with_plugin,
)
from tests.whole.testbot import TestBot, run_bot

SHELF = """
import asyncio
import json
from pathlib import Path

from plugins.api import Tool, hookimpl, tool

HEARD = Path(__file__).with_name("heard.jsonl")


def note(*what):
    with HEARD.open("a") as file:
        file.write(json.dumps(what) + "\\n")


class Shelf:
    async def offload_context(self, session_id, msgs, **kwargs):
        note("context", session_id, sorted({entry.turn for entry in msgs}))
        CONTEXT

    async def offload_tool_result(self, session_id, tool_result, **kwargs):
        note("result", session_id, len(tool_result.text))
        RESULT

    FORGET


@tool
def words(number: int) -> str:
    '''Say a number of words.'''
    return " word" * number


@hookimpl
def parley_tools():
    return [words]


@hookimpl
def parley_offloader():
    return Shelf()
"""
AGENTSCOPE = """
import json
from pathlib import Path

from plugins.api import hookimpl, tool

HEARD = Path(__file__).with_name("heard.jsonl")


class S3Offloader:  # the example of AgentScope's documentation, but for the upload
    def __init__(self, bucket, prefix):
        self.bucket, self.prefix = bucket, prefix

    async def _upload(self, bucket, key, content):
        with HEARD.open("a") as file:
            file.write(json.dumps([key, content]) + "\\n")

    async def offload_context(self, session_id, msgs, **kwargs):
        key = f"{self.prefix}/sessions/{session_id}/context.jsonl"
        content = "\\n".join(m.model_dump_json() for m in msgs)
        await self._upload(self.bucket, key, content)
        return f"s3://{self.bucket}/{key}"

    async def offload_tool_result(self, session_id, tool_result, **kwargs):
        key = f"{self.prefix}/sessions/{session_id}/tool_result-{tool_result.id}.txt"
        await self._upload(self.bucket, key, tool_result.output)
        return f"s3://{self.bucket}/{key}"


@tool
def words(number: int) -> str:
    '''Say a number of words.'''
    return " word" * number


@hookimpl
def parley_tools():
    return [words]


@hookimpl
def parley_offloader():
    return S3Offloader("bucket", "here")
"""
CONTEXT = 'return f"shelf://context/{session_id}"'
RESULT = 'return "shelf://results/1"'
FORGET = """async def forget(self, session_id, turns, references, **kwargs):
        note("forget", session_id, turns and sorted(turns), references)
"""
SETTINGS: dict[str, Any] = {"agent_max_context_turns": 4, "context": {"tool_result_limit": 500}}


def shelf(
    folder: Path,
    context: str = CONTEXT,
    result: str = RESULT,
    forget: str = FORGET,
    extra: str = "",
) -> Path:
    code = SHELF.replace("CONTEXT", context).replace("RESULT", result).replace("FORGET", forget)
    return with_plugin(folder, code.replace("class Shelf:", f"class Shelf:{extra}"))


def heard(folder: Path, what: str = "") -> list[list[Any]]:
    file = folder / "data" / "plugins" / "heard.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line for line in map(json.loads, lines) if not what or line[0] == what]


def script(request: Received) -> Answer:
    if request.is_summary:
        return Say("They talked.")
    last = request.body["messages"][-1]
    is_asked = last["role"] == "user" and "Say it" in str(last["content"])
    return Say(calls=(Call("words", '{"number": 900}', "a"),)) if is_asked else Say("Yes. " * 30)


async def talk(bot: TestBot, count: int) -> None:
    for number in range(1, count + 1):
        await bot.says(f"question {number}")
        await settle(bot)


def sent(bot: TestBot) -> str:
    return json.dumps(answered(bot)[-1]["messages"])


@pytest.mark.parametrize(
    "way", ["def offload_context", "offload_context = 7\n\n    async def other"]
)
async def test_what_is_no_offloader_is_said_at_the_start_or_fails_alone(
    tmp_path: Path, way: str
) -> None:
    folder = shelf(tmp_path)
    file = folder / "extra.py"
    file.write_text(file.read_text().replace("async def offload_context", way))
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await talk(bot, 6)
        status = (await bot.says("/status")).text
        assert await compactions(bot)
    if "= 7" in way:
        assert "must return an object with a method offload_context" in status
        assert list(audience(tmp_path).glob("sessions/*/context.jsonl")), "the files serve"


async def test_a_second_one_is_left_out_by_name(tmp_path: Path) -> None:
    shelf(tmp_path)
    code = (tmp_path / "data" / "plugins" / "extra.py").read_text()
    with_plugin(tmp_path, code.replace("words", "others"), "second")
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        status = (await bot.says("/status")).text
    assert "second" in status
    assert "another plugin keeps what leaves the context already" in status


async def test_a_reference_is_told_by_one_event_and_the_beginning_stays_after_it(
    tmp_path: Path,
) -> None:
    shelf(tmp_path)
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await talk(bot, 11)
        cuts, told = await compactions(bot), await events(bot, "range")
        assert len(cuts) > len(told) == 1, "the same reference is told once"
        before = answered(bot)[-1]["messages"]
        assert "shelf://context/pipe/main" in sent(bot)
        assert "context.jsonl" not in sent(bot), "no file is promised where none is written"
        assert not list(audience(tmp_path).glob("sessions/*/context.jsonl"))
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await bot.says("And now?")
        assert answered(bot)[-1]["messages"][: len(before)] == before, "over a restart, too"


async def test_a_reference_to_each_part_is_told_as_it_comes(tmp_path: Path) -> None:
    shelf(tmp_path, 'return f"shelf://{max(entry.turn for entry in msgs)}"')
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await talk(bot, 12)
        newest = max(heard(tmp_path, "context")[-1][2])
        await bot.says("And now?")
        assert f"shelf://{newest}'" in sent(bot)


async def test_undo_takes_the_reference_back_with_its_cut_and_clear_too(tmp_path: Path) -> None:
    shelf(tmp_path)
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await talk(bot, 6)
        assert "shelf://" in sent(bot)
        cut = (await compactions(bot))[0]
        await bot.says("/context undo")
        await bot.says("And now?")
        assert "shelf://" not in sent(bot), cut
        await bot.says("/context clear")
        await bot.says("And now?")
        assert "shelf://" not in sent(bot)


async def test_what_it_offers_stands_in_the_prompt_and_nothing_beside_the_summary(
    tmp_path: Path,
) -> None:
    shelf(tmp_path, extra='\n    offers = "Ask the shelf for what has left."\n')
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await talk(bot, 7)
        assert "Ask the shelf" in answered(bot)[0]["messages"][0]["content"]
        assert "shelf://context" not in sent(bot)
        await bot.says("/config context.offload false")
        await bot.says("And now?")
        assert "Ask the shelf" not in sent(bot)


async def test_it_hears_what_was_taken_away_and_gets_it_back(tmp_path: Path) -> None:
    shelf(tmp_path)
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await bot.says("Say it.")
        await talk(bot, 6)
        left = [turn for line in heard(tmp_path, "context") for turn in line[2]]
        assert 1 in left
        await bot.says("/context drop t7")
        assert heard(tmp_path, "forget")[-1] == ["forget", "pipe/main", [7], []]
        await bot.says("/context clear")
        _, _, turns, references = heard(tmp_path, "forget")[-1]
        assert set(turns) >= set(left)
        assert references == ["shelf://results/1"]
        kept = len(heard(tmp_path, "result"))
        await bot.says("/context undo")
        assert set(heard(tmp_path, "context")[-1][2]) == set(left)
        assert len(heard(tmp_path, "result")) == kept + 1


async def test_it_hears_what_is_forgotten_also_where_it_keeps_nothing_now(tmp_path: Path) -> None:
    shelf(tmp_path)
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await bot.says("Say it.")
        await talk(bot, 6)
        await bot.says("/config context.offload false")
        told = (await bot.says("/forget t1 yes")).text
        assert "could not be deleted" not in told
        assert heard(tmp_path, "forget")[-1] == ["forget", "pipe/main", [1], ["shelf://results/1"]]
        await bot.says("/forget chat yes")
        assert heard(tmp_path, "forget")[-1] == ["forget", "pipe/main", None, []]


@pytest.mark.parametrize(
    "forget", ["", "async def forget(self, *what, **kwargs):\n        1 / 0\n"]
)
async def test_what_it_does_not_delete_is_said(tmp_path: Path, forget: str) -> None:
    shelf(tmp_path, forget=forget)
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await talk(bot, 6)
        reply = await bot.says("/forget t1 yes")
    assert "Some of it could not be deleted" in reply.text
    assert reply.data is not None
    assert reply.data["is_left"] is True


KINDS = {
    "ogg": (b"OggS\x00\x02" + b"\x00" * 22 + b"a voice", "audio/ogg"),
    "bin": (bytes(range(256)) * 4, "application/octet-stream"),
    "png": (b"\x89PNG\r\n\x1a\n picture", "image/png"),
}


async def test_files_are_stored_once_by_their_hash_which_names_a_picture_that_is_not_sent(
    tmp_path: Path,
) -> None:
    """The same picture is stored once, whatever its name. The model can request it by that name."""
    async with run_bot(tmp_path, script, {"context": {"max_images": 1}}) as bot:
        for name in ("one", "one", "again"):
            files = tuple(
                Attachment(f"{name}.{ending}", kind, content)
                for ending, (content, kind) in KINDS.items()
            )
            await bot.says("Look!", files=files)
        await bot.says("What is this?", files=(Attachment("x.png", "image/png", b"\x89PNG\r\n"),))
        (first, *_) = (m for m in answered(bot)[-1]["messages"] if m["role"] == "user")
    root = audience(tmp_path)
    contents = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    for ending, (content, _) in KINDS.items():
        copies = [file for file, held in contents.items() if held == content]
        assert copies == [root / "data" / f"{hashlib.sha256(content).hexdigest()}.{ending}"]
    assert "image_url" not in str(first)
    assert f"data/{hashlib.sha256(KINDS['png'][0]).hexdigest()}.png" in str(first)


async def test_the_example_of_agentscopes_documentation_runs_as_it_is(tmp_path: Path) -> None:
    with_plugin(tmp_path, AGENTSCOPE)
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await bot.says("Say it.")
        assert "s3://bucket/here/sessions/" in json.dumps(results(answered(bot)[-1]))
        await talk(bot, 6)
        await bot.says("And now?")
        assert "context.jsonl" in sent(bot)
    kept = {key.rsplit("/", 1)[1]: content for key, content in heard(tmp_path)}
    assert kept["tool_result-a.txt"] == " word" * 900
    said = [json.loads(line) for line in kept["context.jsonl"].splitlines()]
    assert all(line["role"] and "content" in line for line in said)
