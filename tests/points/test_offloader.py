"""What leaves the context and where it is kept: an offloader of one's own, bytes by their hash,
`compress_context()` by hand, and skills that are left out (points 23, 24 and 25)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from channels.message import Attachment
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.points.wire import (
    answered,
    audience,
    compactions,
    data,
    results,
    settle,
    summarised,
    with_plugin,
)
from tests.web.site import serving
from tests.whole.testbot import TestBot, run_bot

SHELF = """
from pathlib import Path

from plugins.api import hookimpl

KEPT = Path(__file__).with_name("kept.txt")


class Shelf:
    '''Any object of this shape is an offloader (AgentScope).'''

    async def offload_context(self, session_id, msgs, **kwargs):
        with KEPT.open("a") as file:
            file.write(f"context {session_id} {len(msgs)}\\n")
        return f"shelf://context/{session_id}"

    async def offload_tool_result(self, session_id, tool_result, **kwargs):
        with KEPT.open("a") as file:
            file.write(f"result {session_id}\\n")
        return "shelf://results/1"


@hookimpl
def parley_offloader():
    return Shelf()
"""
WORDS = """
from plugins.api import Tool, hookimpl, tool


@tool
def words(number: int) -> str:
    '''Say a number of words.'''
    return " word" * number


@hookimpl
def parley_tools() -> list[Tool]:
    return [words]
"""
FEW_TURNS = {"agent_max_context_turns": 4}


def talkative(request: Received) -> Answer:
    return Say("Yes. " * 30 if "tools" in request.body else "They talked.")


async def talk(bot: TestBot, count: int, words: int = 3) -> None:
    for number in range(1, count + 1):
        await bot.says(f"question {number}: " + "word " * words)
        await settle(bot)


# --- 23: an offloader of one's own ------------------------------------------------------------


async def test_a_plugin_keeps_what_leaves_in_place_of_the_files(tmp_path: Path) -> None:
    """Point 23: the hook `parley_offloader` returns an object of AgentScope's shape."""
    kept = with_plugin(tmp_path, SHELF) / "kept.txt"
    async with run_bot(tmp_path, talkative, FEW_TURNS) as bot:
        await talk(bot, 6)
        assert await compactions(bot)
    assert kept.is_file(), "the plugin's offloader was never asked"
    assert kept.read_text().startswith("context pipe/main ")
    assert not list(audience(tmp_path).glob("sessions/*/context.jsonl"))


async def test_the_marker_of_a_result_names_the_reference_of_the_offloader(tmp_path: Path) -> None:
    """Point 23: word for word, as AgentScope's document has it."""
    with_plugin(tmp_path, SHELF)
    with_plugin(tmp_path, WORDS, "words")

    def script(request: Received) -> Answer:
        is_asked = request.body["messages"][-1]["role"] == "user"
        return Say(calls=(Call("words", '{"number": 900}', "a"),)) if is_asked else Say("Seen.")

    async with run_bot(tmp_path, script, {"context": {"tool_result_limit": 500}}) as bot:
        await bot.says("Say it.")
        (sent,) = results(answered(bot)[-1])
    assert "word word" in sent
    assert sent.endswith(
        "\n<<<TRUNCATED>>>\n<system-reminder>The remaining content has been omitted for limited "
        "context. You can refer to the file in 'shelf://results/1' for the truncated content if "
        "needed.</system-reminder>"
    )


async def test_the_model_is_told_the_reference_to_what_left(tmp_path: Path) -> None:
    """Point 23: somewhere in the request that follows."""
    with_plugin(tmp_path, SHELF)
    async with run_bot(tmp_path, talkative, FEW_TURNS) as bot:
        await talk(bot, 7)
        sent = json.dumps(answered(bot)[-1]["messages"])
    assert "shelf://context/pipe/main" in sent


async def test_the_prompt_says_what_the_offloader_offers_and_not_what_another_would(
    tmp_path: Path,
) -> None:
    """Point 23: no `context.jsonl` is promised where none is written."""
    with_plugin(tmp_path, SHELF)
    async with run_bot(tmp_path, talkative, FEW_TURNS) as bot:
        await talk(bot, 7)
        sent = json.dumps(answered(bot)[-1]["messages"])
    assert "context.jsonl" not in sent


async def test_the_prompt_speaks_of_the_files_where_they_are_written(tmp_path: Path) -> None:
    """Point 23: the built-in offloader's."""
    async with run_bot(tmp_path, talkative, FEW_TURNS) as bot:
        await talk(bot, 7)
        sent = json.dumps(answered(bot)[-1]["messages"])
    assert "context.jsonl" in sent
    assert list(audience(tmp_path).glob("sessions/*/context.jsonl"))


# --- 23: bytes by their hash ------------------------------------------------------------------

OGG = b"OggS\x00\x02" + b"\x00" * 22 + b"a voice"
BYTES = bytes(range(256)) * 4


KINDS = {
    "ogg": (OGG, "audio/ogg"),
    "mp3": (b"ID3\x04\x00" + b"\x00" * 30, "audio/mpeg"),
    "bin": (BYTES, "application/octet-stream"),
}


async def test_sounds_and_other_bytes_are_stored_once_by_their_hash(tmp_path: Path) -> None:
    """Point 23: as `data/{sha256}.{ext}`, however often and by whatever name they come."""
    async with run_bot(tmp_path, talkative) as bot:
        for name in ("one", "one", "again"):
            files = tuple(
                Attachment(f"{name}.{ending}", kind, content)
                for ending, (content, kind) in KINDS.items()
            )
            await bot.says("Listen!", files=files)
    root = audience(tmp_path)
    contents = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    for ending, (content, _) in KINDS.items():
        copies = [file for file, held in contents.items() if held == content]
        assert copies == [root / "data" / f"{hashlib.sha256(content).hexdigest()}.{ending}"]


async def test_the_placeholder_of_a_picture_that_is_not_sent_names_its_file(tmp_path: Path) -> None:
    """Point 23: so that the model can ask for it, and a person can find it."""
    photos = [
        Attachment(f"{n}.png", "image/png", b"\x89PNG\r\n\x1a\n" + bytes([n])) for n in range(3)
    ]
    async with run_bot(tmp_path, talkative, {"context": {"max_images": 1}}) as bot:
        for number, photo in enumerate(photos):
            await bot.says(f"What is this, {number}?", files=(photo,))
        sent = answered(bot)[-1]["messages"]
    first = next(m["content"] for m in sent if "What is this, 0?" in str(m["content"]))
    name = f"data/{hashlib.sha256(photos[0].data).hexdigest()}.png"
    assert "image_url" not in str(first)
    assert name in str(first)


# --- 24: compress_context() by hand -----------------------------------------------------------

STRUCTURED = {"context": {"strategy": "structured", "max_tokens": 32_000}}
FIELDS = {
    "task_overview": "Count.",
    "current_state": "At eight.",
    "important_discoveries": "None.",
    "next_steps": "Go on.",
    "context_to_preserve": "The count.",
}


def in_fields(request: Received) -> Answer:
    if "tools" in request.body:
        return Say("Yes. " * 300)
    schema = request.body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    names = schema.get("properties", FIELDS)
    return Say(json.dumps({name: FIELDS.get(name, "Eight.") for name in names}))


async def compressed(bot: TestBot, **config: Any) -> str:
    """Ask for AgentScope's compress_context(), with one-off settings."""
    reply = await bot.says(f"/context compress {json.dumps(config) if config else ''}".strip())
    await settle(bot)
    return reply.text


async def test_compress_context_does_nothing_below_the_threshold(tmp_path: Path) -> None:
    """Point 24: it is safe to call at any time, and costs nothing then."""
    async with run_bot(tmp_path, in_fields, STRUCTURED) as bot:
        await talk(bot, 8)
        await compressed(bot)
        assert not await compactions(bot)
        assert not summarised(bot)


async def test_compress_context_below_the_threshold_says_so(tmp_path: Path) -> None:
    """Point 24: with the sizes that say why."""
    async with run_bot(tmp_path, in_fields, STRUCTURED) as bot:
        await talk(bot, 2)
        said = await compressed(bot)
    assert "25.6k" in said, "80 % of 32,000 is the threshold"
    assert "/context compress" not in said, "it is no unknown command"


async def test_compress_context_fires_at_a_one_off_trigger(tmp_path: Path) -> None:
    """Point 24: AgentScope's own example, at a lower ratio."""
    async with run_bot(tmp_path, in_fields, STRUCTURED) as bot:
        await talk(bot, 8)
        await compressed(bot, trigger_ratio=0.1, reserve_ratio=0.05)
        made, paid = await compactions(bot), summarised(bot)
    assert len(made) == 1
    assert made[0]["tokens_after"] < made[0]["tokens_before"]
    assert len(paid) == 1
    assert "response_format" in paid[0]


async def test_compress_context_keeps_what_the_one_off_reserve_says(tmp_path: Path) -> None:
    """Point 24: a larger reserve keeps more turns verbatim."""
    kept = []
    for number, reserve in enumerate((0.02, 0.09)):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with run_bot(folder, in_fields, STRUCTURED) as bot:
            await talk(bot, 10)
            # 0.15: system prompt, tools and the larger reserve fit below it together.
            await compressed(bot, trigger_ratio=0.15, reserve_ratio=reserve)
            assert await compactions(bot)
            kept.append(len((await data(bot, "/context json"))["turns"]))
    assert kept[0] < kept[1]


async def test_compress_context_obeys_a_one_off_prompt_schema_and_template(tmp_path: Path) -> None:
    """Point 24: all settings of AgentScope's ContextConfig that concern the summary."""
    schema = {"type": "object", "properties": {"total": {"type": "string"}}}
    async with run_bot(tmp_path, in_fields, STRUCTURED) as bot:
        await talk(bot, 8)
        await compressed(
            bot,
            trigger_ratio=0.1,
            reserve_ratio=0.05,
            compression_prompt="Say only how many.",
            summary_schema=schema,
            summary_template="The total is: {total}",
        )
        await bot.says("And now?")
        assert summarised(bot), "no summary was asked for"
        paid, sent = summarised(bot)[0], json.dumps(answered(bot)[-1]["messages"])
    assert "Say only how many." in json.dumps(paid["messages"])
    assert list(paid["response_format"]["json_schema"]["schema"]["properties"]) == ["total"]
    assert "The total is: Eight." in sent


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "too high": ({"trigger_ratio": 0.95}, "0.9"),
    "no number": ({"trigger_ratio": "much"}, "trigger_ratio"),
    "above the trigger": ({"trigger_ratio": 0.3, "reserve_ratio": 0.4}, "reserve_ratio"),
    "mistyped": ({"triger_ratio": 0.3}, "trigger_ratio"),
}


async def test_compress_context_refuses_one_off_settings_that_do_not_fit(tmp_path: Path) -> None:
    """Point 24: with the sentence that /config would say."""
    async with run_bot(tmp_path, in_fields, STRUCTURED) as bot:
        await talk(bot, 8)
        said = {how: await compressed(bot, **config) for how, (config, _) in UNFIT.items()}
        assert not await compactions(bot)
    for how, (_, named) in UNFIT.items():
        assert "does not know" not in said[how]
        assert named in said[how], how


async def test_compress_context_is_there_over_rest(tmp_path: Path) -> None:
    """Point 24: every control is a command, also as a POST."""
    async with serving(tmp_path, in_fields, STRUCTURED) as site:
        for number in range(8):
            await site.says(f"question {number}")
        config = json.dumps({"trigger_ratio": 0.1, "reserve_ratio": 0.05})
        status, reply = await site.post(
            "/api/sessions/main/commands/context", {"text": f"compress {config}"}
        )
        shown = await site.commands("/context history")
    assert status == 200, reply
    assert [event["kind"] for event in shown["data"]["events"]] == ["compact"]


# --- 25: skills that are left out -------------------------------------------------------------


def with_skill(folder: Path, place: str, name: str, file: str = "SKILL.md") -> None:
    skill = folder / "data" / "skills" / place
    skill.mkdir(parents=True)
    (skill / file).write_text(f"---\nname: {name}\ndescription: How to cook.\n---\nCook.\n")


async def status(folder: Path) -> str:
    async with run_bot(folder, talkative) as bot:
        await bot.says("Hello")
        return (await bot.says("/status")).text


async def test_a_skill_whose_name_is_taken_is_told_of(tmp_path: Path) -> None:
    """Point 25."""
    with_skill(tmp_path, "kitchen", "cooking")
    with_skill(tmp_path, "stove", "cooking")
    said = await status(tmp_path)
    assert "cooking" in said
    assert "kitchen" in said or "stove" in said


async def test_the_skill_that_is_one_too_many_is_told_of(tmp_path: Path) -> None:
    """Point 25: a hundred are read of one folder."""
    for number in range(101):
        with_skill(tmp_path, f"place-{number:03}", f"skill-{number:03}")
    said = await status(tmp_path)
    assert "100" in said
    assert "place-100" in said or "skill-100" in said


async def test_a_skill_whose_file_is_in_small_letters_is_told_of(tmp_path: Path) -> None:
    """Point 25: with the name that it should have."""
    with_skill(tmp_path, "kitchen", "cooking", file="skill.md")
    said = await status(tmp_path)
    assert "kitchen" in said
    assert "SKILL.md" in said


async def test_skills_that_are_all_there_are_no_trouble(tmp_path: Path) -> None:
    """Point 25: nothing is told of them."""
    with_skill(tmp_path, "kitchen", "cooking")
    assert "kitchen" not in await status(tmp_path)
