"""Off the record: nothing of a private conversation reaches the disk, or the model afterwards."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.openai_server import Say
from tests.whole.testbot import run_bot


def holding(folder: Path, word: str) -> list[str]:
    """All files under a folder whose bytes hold this word, or whose names do."""
    found = [one for one in folder.rglob("*") if one.is_file()]
    return [
        str(one.relative_to(folder))
        for one in found
        if word.encode() in one.read_bytes() or word in one.name
    ]


async def test_what_is_said_off_the_record_is_on_no_disk_and_in_no_later_request(
    tmp_path: Path,
) -> None:
    script = [Say("Hello."), Say("Aye, zebra-4711."), Say("Still here."), Say("Back.")]
    async with run_bot(tmp_path, script) as bot:
        await bot.says("An open word")
        begun = await bot.says("/private on")
        assert begun.text.startswith("**Off the record.**")
        said = await bot.says("My word is zebra-4711")
        assert said.text == "Aye, zebra-4711.\n\n*Off the record: nothing of this is kept.*"
        assert "An open word" not in str(bot.sent_to_model())
        await bot.says("And again")
        assert "zebra-4711" in str(bot.sent_to_model())
        ended = await bot.says("/private off")
        assert "The private conversation (2 turns) is forgotten" in ended.text
        await bot.says("Open again")
        assert "zebra-4711" not in str(bot.sent_to_model())
        assert "An open word" in str(bot.sent_to_model())
        assert holding(tmp_path, "zebra-4711") == []
        assert holding(tmp_path, "An open word") != []
