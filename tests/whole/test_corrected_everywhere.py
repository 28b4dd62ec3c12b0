"""Nothing that the model reads, and no file that is written, has a value that a person ended:
summaries written before, while and after it was corrected, sections of daily files, and lines that
a model proposes. Generated: kinds of values in three languages, and summarisers that repeat the old
value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory.messages import Message
from tests.fakes.openai_server import Answer, Fail, Received, Say
from tests.whole.distilling import HERE, SETTINGS, remembered
from tests.whole.scenario import say_all
from tests.whole.testbot import TestBot, run_bot

CASES = [
    ("The dentist is on {}.", "no, it's {}", "12 March", "14 March"),
    ("The speaker is Doctor {}.", "not {1}, it's Doctor {0}", "Brandt", "Kessler"),
    ("The new sofa is {}.", "no, the sofa is {0}, not {1}", "green", "grey"),
    ("Der Zug fährt um {} Uhr.", "ich meinte {} Uhr", "7:45", "8:15"),
    ("Das Auto ist ein {}.", "mein Fehler, das Auto ist ein {}", "Toyota", "Mazda"),
    ("我们用{}部署。", "其实我们用{0}部署，不是{1}", "Jenkins", "Drone"),
    ("仓库地址是{}。", "是{0}，不是{1}", "git.acme.io/tools", "git.acme.io/infra"),
]
SUMMARIES: dict[str, Callable[[str, str, str], str]] = {
    "none": lambda said, old, new: "",
    "old": lambda said, old, new: f"- {said}",
    "both": lambda said, old, new: f"- {said}\n- {new} ({old})",
}
OTHERS = ("Tell me about tea.", "And about coffee?", "What is the weather like?")
LONG = "Leaves wither, are rolled, and dry; the rest is water and patience. " * 3


def cases() -> Iterator[tuple[str, str, str, str, str]]:
    for at, (said, corrects, old, new) in enumerate(CASES):
        kind = [*SUMMARIES][at % len(SUMMARIES)]
        yield said.format(old), corrects.format(new, old), old, new, kind


def read(bot: TestBot, *exact: str) -> str:
    """Return the last request, without messages that people or the bot said word for word."""
    texts = [str(message["content"]) for message in bot.sent_to_model()]
    return "\n".join(text for text in texts if not text.strip().endswith(exact))


@pytest.mark.parametrize(("said", "corrects", "old", "new", "kind"), [*cases()])
async def test_an_ended_value_is_read_and_written_nowhere(
    tmp_path: Path, said: str, corrects: str, old: str, new: str, kind: str
) -> None:
    def answer(request: Received) -> Answer:
        if request.is_summary:
            text = SUMMARIES[kind](said, old, new)
            return Say(text) if text else Fail(400, {"message": "there is no such model"})
        if request.is_distilling:
            line = {"do": "add", "text": said, "from": ["S1"], "important": False}
            return Say(json.dumps({"operations": [line]}))
        return Say(LONG if request.body["messages"][-1]["content"] in OTHERS else "All right.")

    async with run_bot(tmp_path, answer, SETTINGS) as bot:
        await say_all(bot, said, *OTHERS, "/context compact")
        await bot.app.conversations.flush()
        await bot.says(corrects)
        assert old not in read(bot, corrects), "a summary from before follows at once"
        for _ in range(2):
            await say_all(bot, *OTHERS, "/context compact")
            await bot.app.conversations.flush()
            await bot.says("And?")
            assert old not in read(bot, corrects)
            assert new in "\n".join(str(one["content"]) for one in bot.sent_to_model())
        await say_all(bot, "/memory distill", "/memory diff approve")
        assert old not in remembered(tmp_path)
        assert new in remembered(tmp_path)


async def test_a_section_that_is_written_later_has_the_value_in_force(tmp_path: Path) -> None:
    def answer(request: Received) -> Answer:
        return Say("The meeting is on 3 May." if request.is_summary else LONG)

    async with run_bot(tmp_path, answer, SETTINGS) as bot:
        await say_all(bot, "The meeting is on 3 May.", "no, it's on 4 May, not 3 May", *OTHERS)
        await bot.says("/context compact")
        await bot.app.conversations.flush()
        files = [*(tmp_path / "data").rglob("????-??-??.md")]
        assert files
        assert all("is on 3 May" not in one.read_text() for one in files)


async def test_a_summary_that_is_written_while_a_person_corrects_is_written_anew(
    tmp_path: Path,
) -> None:
    """A summary of earlier turns follows a correction in a later one, also if it was prepared."""

    def answer(request: Received) -> Answer:
        return Say("The meeting is on 3 May." if request.is_summary else LONG)

    async with run_bot(tmp_path, answer, {"agent_max_context_turns": 4}) as bot:
        await say_all(bot, "The meeting is on 3 May.", *OTHERS)
        await bot.app.conversations.flush()
        assert bot.server.summaries, "it is prepared"
        await say_all(bot, "no, the meeting is on 4 May, not 3 May", "Tell me of milk.")
        await bot.app.conversations.flush()
        await bot.says("And?")
        told = str(bot.sent_to_model()[1]["content"]).partition("</summary")[0]
        assert told
        assert "4 May" in told
        assert "3 May" not in told


async def test_turns_that_are_appended_correct_a_summary_too(tmp_path: Path) -> None:
    def answer(request: Received) -> Answer:
        return Say("The meeting is on 3 May." if request.is_summary else LONG)

    async with run_bot(tmp_path, answer) as bot:
        await say_all(bot, "The meeting is on 3 May.", *OTHERS, "/context compact")
        await bot.app.conversations.flush()
        conversation = await bot.app.conversations.get(HERE)
        said = [Message("user", "no, it's on 4 May, not 3 May"), Message("assistant", "Changed.")]
        await conversation.turns.append([said])
        await bot.says("And?")
        assert "The meeting is on 4 May" in read(bot)
        await bot.says("/context undo")
        await bot.says("And now?")
        assert "The meeting is on 3 May" in read(bot)


@pytest.mark.parametrize("is_summarised", [False, True])
@pytest.mark.parametrize(
    ("said", "old", "new"),
    [
        ("The sofa is green.", "the sofa is green", "the sofa is grey"),
        ("Der Zug fährt um 7:45 Uhr.", "7:45 Uhr", "8:15 Uhr"),
        ("我们用Jenkins部署。", "用Jenkins部署", "用Drone部署"),
    ],
)
async def test_a_value_that_a_command_ended_does_not_come_back(
    tmp_path: Path, said: str, old: str, new: str, is_summarised: bool
) -> None:
    """Neither in a later summary, nor in a line that a model proposes in the same minute."""

    def answer(request: Received) -> Answer:
        if request.is_summary:
            return Say(f"- {said}")
        if request.is_distilling:
            line = {"do": "add", "text": said, "from": ["S1"], "important": False}
            return Say(json.dumps({"operations": [line]}))
        return Say(LONG if request.body["messages"][-1]["content"] in OTHERS else "All right.")

    async with run_bot(tmp_path, answer, SETTINGS) as bot:
        await bot.says(said)
        if is_summarised:
            await say_all(bot, *OTHERS, "/context compact")
            await bot.app.conversations.flush()
        (yes,) = (await bot.says(f"/memory wrong {old} -> {new}")).actions
        await bot.says(yes.command)
        for _ in range(2):
            await say_all(bot, *OTHERS, "/context compact")
            await bot.app.conversations.flush()
            await bot.says("And?")
            assert old.casefold() not in read(bot).casefold()
            assert new.casefold() in read(bot).casefold()
        await say_all(bot, "/memory distill", "/memory diff approve")
        assert old.casefold() not in remembered(tmp_path).casefold()
        assert new.casefold() in remembered(tmp_path).casefold()


EDITS = [case for case in CASES if case[2] in ("12 March", "green", "7:45", "Toyota")]


def repeats(said: str) -> Callable[[Received], Answer]:
    """A model whose summaries repeat a sentence."""

    def answer(request: Received) -> Answer:
        if request.is_distilling:
            return Say('{"operations": []}')
        return Say(f"- {said}" if request.is_summary else LONG)

    return answer


def stored_in(folder: Path) -> str:
    """Return the stored corrections of the conversation's audience."""
    return next(folder.rglob(".corrected.json")).read_text()


async def distilled(bot: TestBot) -> str:
    """Distil, and return the sections that the model read ("": none was new)."""
    count = len(bot.server.requests)
    await bot.says("/memory distill")
    asked = [one for one in [*bot.server.requests][count:] if one.is_distilling]
    return str(asked[-1].body["messages"][-1]["content"]) if asked else ""


@pytest.mark.parametrize(("said", "old", "new"), [(a, c, d) for a, _, c, d in EDITS])
async def test_an_edited_summary_corrects_until_the_edit_is_undone(
    tmp_path: Path, said: str, old: str, new: str
) -> None:
    wrong, right = said.format(old), said.format(new)
    async with run_bot(tmp_path, repeats(wrong), SETTINGS) as bot:
        await say_all(bot, wrong, *OTHERS, "/context compact")
        await bot.app.conversations.flush()
        edited = await bot.says(f"/context summary edit s1 - {right}")
        read_now = await distilled(bot)
        assert new in read_now
        assert old not in read_now
        await say_all(bot, *OTHERS, "/context compact")
        await bot.app.conversations.flush()
        await bot.says("And?")
        assert old not in read(bot)
        undo = next(one.command for one in edited.actions if "undo" in one.command)
        await bot.says(undo)
        assert [one["is_undone"] for one in json.loads(stored_in(tmp_path))] == [True]


async def test_a_clear_and_a_later_correction_keep_an_earlier_one(tmp_path: Path) -> None:
    async with run_bot(tmp_path, repeats("The train leaves at 7:45."), SETTINGS) as bot:
        await say_all(bot, "/remember The train leaves at 7:45.", "The train leaves at 7:45.")
        await bot.says("No, the train leaves at 8:15, not 7:45.")
        await bot.says("/context clear")
        await say_all(bot, "The rent is 900 euros.", "No, the rent is 950 euros, not 900 euros.")
        await say_all(bot, *OTHERS, "/context compact")
        await bot.app.conversations.flush()
        await bot.says("And?")
        assert "8:15 (corrected in t2)" in read(bot)
        assert "7:45" not in read(bot)
        asked = await bot.says("/forget t2")
        await bot.says(next(one.command for one in asked.actions if "forget" in one.command))
        assert "The train leaves at 7:45." in remembered(tmp_path)
        assert "8:15" not in stored_in(tmp_path)


async def test_a_correction_that_comes_before_a_summary_is_in_place_reaches_it(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, repeats("The meeting is on 3 May."), SETTINGS) as bot:
        await say_all(bot, "The meeting is on 3 May.", *OTHERS)
        conversation = await bot.app.conversations.get(HERE)
        await bot.says("/context compact")
        await conversation.summary.list_numbers()
        await bot.says("No, the meeting is on 4 May, not 3 May.")
        await bot.app.conversations.flush()
        await bot.says("And?")
        summary = str(bot.sent_to_model()[1]["content"])
        assert "4 May" in summary
        assert "3 May" not in summary
