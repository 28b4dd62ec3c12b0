"""Numbers that people are shown stand in plain digits, however small or large they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.settings.schema import SETTINGS
from channels.language import LANGUAGES, _, speaking
from memory.numerals import plain_json, plain_number
from tests.fakes.openai_server import echo
from tests.whole.testbot import run_bot

SCIENTIFIC = re.compile(r"\d[eE][+-]?\d")
TINY = ("0.0000001", "0.00001234", "0.1", "99999")


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(1e-07)
@example(1e22)
@example(0.0)
@example(-0.25)
def test_a_number_is_written_in_digits_and_reads_as_the_same(value: float) -> None:
    written = plain_number(value)
    assert not SCIENTIFIC.search(written)
    assert float(written) == value
    assert not SCIENTIFIC.search(plain_json({"a": [value, {"b": value}]}))


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(LANGUAGES))
@example(1e-07, "de")
def test_a_number_in_a_sentence_is_written_in_digits(value: float, language: str) -> None:
    with speaking(language):
        for said in (_("{n:g} minutes", n=value), _("{n} entry", n=value)):
            assert not SCIENTIFIC.search(said)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_no_setting_is_shown_in_scientific_notation(tmp_path: Path, language: str) -> None:
    numbers = [key for key, one in SETTINGS.items() if one.wants.startswith("a number ")]
    assert len(numbers) > 10
    async with run_bot(tmp_path, echo, {"language": language}) as bot:
        for key in numbers:
            for value in TINY:
                said = await bot.says(f"/config {key} {value}")
                assert not SCIENTIFIC.search(said.text), said.text
                if said.problem != "command_refused":
                    assert not SCIENTIFIC.search((await bot.says(f"/config {key}")).text)
        for line in ("/config", "/config spend_limit_chat 0.0000001"):
            assert not SCIENTIFIC.search((await bot.says(line)).text)
        await bot.says("Hi")
        for line in ("Hi again", "/usage", "/status", "/context", "/context compact"):
            assert not SCIENTIFIC.search((await bot.says(line)).text)
