"""If the weights for corrections are missing or damaged, the bot finds none, and doctor reports
it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.settings.schema import validate
from memory.corrections import score as correction_score
from memory.corrections.finder import find_corrections
from plugins.memory import feature
from tests.weights import weights_in

SAID = ("We meet on 3 May.", "We meet on 4 May now.")
WHOLE = Path(correction_score.__file__).with_name(correction_score.WEIGHTS).read_bytes()


@pytest.fixture(name="weights")
def _weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The path of the file with the weights in a test."""
    with weights_in(tmp_path, monkeypatch):
        yield tmp_path / correction_score.WEIGHTS


@pytest.mark.parametrize("content", [None, b"", WHOLE[:-1], WHOLE])
def test_the_doctor_looks_for_the_weights(weights: Path, content: bytes | None) -> None:
    if content is not None:
        weights.write_bytes(content)
    findings = asyncio.run(feature.examine(validate({}), may_connect=False))
    found = [(one.old, one.new) for one in find_corrections(SAID)]
    if content == WHOLE:
        assert not findings
        assert found == [("3 May", "4 May")]
    else:
        assert [one.severity for one in findings] == ["broken"]
        assert not found
