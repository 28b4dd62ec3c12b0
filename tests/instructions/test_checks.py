"""Tests of a bot whose file of weights is missing or damaged: it finds no rules, and reports this
to its owner."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.settings.schema import validate
from memory import linear
from plugins.instructions import detect, feature
from plugins.instructions.detect import find_instructions
from tests.fakes.openai_server import echo
from tests.weights import weights_in
from tests.whole.testbot import run_bot

ORDER = "Never send anything to my boss without asking me"
WHOLE = Path(detect.__file__).with_name(detect.NAME).read_bytes()


@pytest.fixture(name="weights")
def _weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the path of the weights file in a test."""
    with weights_in(tmp_path, monkeypatch):
        yield tmp_path / detect.NAME


def damaged() -> Iterator[bytes]:
    """Yield the file truncated and changed in many ways."""
    chosen = random.Random(1)
    yield from (b"", WHOLE[:4], WHOLE[4:], WHOLE[:-5], bytes(len(WHOLE)), b"\xff" * 9)
    for _ in range(20):
        at = chosen.randrange(len(WHOLE))
        yield WHOLE[:at]
        yield WHOLE[:at] + bytes([WHOLE[at] ^ 1 << chosen.randrange(8)]) + WHOLE[at + 1 :]


def test_a_missing_or_damaged_file_finds_nothing_and_the_doctor_says_so(
    weights: Path,
) -> None:
    for content in (None, *damaged()):
        linear.read_weights.cache_clear()
        if content is not None:
            weights.write_bytes(content)
        assert find_instructions(ORDER) == []
        (finding,) = asyncio.run(feature.examine(validate({}), may_connect=False))
        assert finding.severity == "broken"
        assert (
            asyncio.run(feature.examine(validate({"rules.detect": "off"}), may_connect=False)) == ()
        )
    linear.read_weights.cache_clear()
    weights.write_bytes(WHOLE)
    assert [one.text for one in find_instructions(ORDER)] == [ORDER]
    assert asyncio.run(feature.examine(validate({}), may_connect=False)) == ()


async def test_the_bot_goes_on_without_the_file_and_keeps_what_is_added(
    tmp_path: Path, weights: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(weights.write_bytes, WHOLE[:-1])
    async with run_bot(tmp_path, echo) as bot:
        reply = await bot.says(ORDER)
        assert ORDER in reply.text
        assert not reply.actions
        assert ORDER in (await bot.says(f"/rules add {ORDER}")).text
        await bot.says("And?")
    message = f"nothing is found by {detect.NAME} of plugins.instructions: it is damaged"
    assert [record.message for record in caplog.records].count(message) == 1
