"""Tests of the calibration of the meter by a provider's reports and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory.calibration import Calibration, KnownModels
from memory.context.meter import PrefixTokens
from memory.context.settings import Limits
from memory.context.view import View
from memory.record.store import Store

pytestmark = pytest.mark.databases

SET = Limits().but(model="a", window=128_000)


def sent(raw: int) -> View:
    """Return a request of this many raw tokens."""
    return View((), (), PrefixTokens(raw // 2, raw - raw // 2))


@pytest.fixture
async def calibration(tmp_path: Path) -> AsyncIterator[Calibration]:
    store = await Store.open(tmp_path / "parley.db")
    yield Calibration(store, KnownModels())
    await store.close()


async def test_a_window_below_what_was_accepted_lately_is_believed_when_it_is_named_again(
    calibration: Calibration,
) -> None:
    assert await calibration.learn(sent(20_000), 20_000, "a")
    calibration.accept_refusal(sent(4_000), SET, 16_000)
    assert calibration.window(SET) == 128_000
    calibration.accept_refusal(sent(4_000), SET, 16_000)
    assert calibration.window(SET) == 16_000


async def test_a_window_that_holds_no_prompt_is_never_believed(calibration: Calibration) -> None:
    for _ in range(5):
        calibration.accept_refusal(sent(2_000), SET, 3_000)
    assert calibration.window(SET) == 128_000
    assert calibration.ratio("a") == 1.0


async def test_however_often_it_is_refused_the_meter_is_scaled_within_bounds(
    calibration: Calibration,
) -> None:
    for _ in range(9):
        calibration.accept_refusal(sent(8_000), SET, 20_000)
    assert 1.0 < calibration.ratio("a") < 2.0
    assert calibration.models.ratio("a") == 1.0, "no other conversation feels it"
    assert await calibration.learn(sent(8_000), 8_400, "a")
    assert calibration.ratio("a") == pytest.approx(1.05), "a report is a fact"


async def test_a_report_that_does_not_grow_with_the_request_is_of_a_prompt_that_was_cut(
    calibration: Calibration,
) -> None:
    assert await calibration.learn(sent(4_000), 4_000, "a")
    assert not await calibration.learn(sent(6_000), 4_090, "a")
    assert calibration.ratio("a") == 1.0


async def test_another_vocabulary_is_no_cut(calibration: Calibration) -> None:
    assert await calibration.learn(sent(4_000), 2_400, "a")
    assert calibration.ratio("a") == pytest.approx(0.6)
