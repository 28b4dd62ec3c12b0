"""kill -9 over the messengers, nine times; `python -m benchmarks.kills` does it 200 times."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import kills

KILLS = 3


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("channel", "seed"), [("telegram", 1), ("discord", 3), ("slack", 4)])
async def test_a_platform_that_redelivers_loses_nothing_and_gets_nothing_twice(
    tmp_path: Path, channel: str, seed: int
) -> None:
    figures = await kills.run(tmp_path, channel, KILLS, seed)
    assert figures.kills == KILLS
    assert figures.messages > KILLS
    assert figures.faults == 0, str(figures)


def test_what_is_counted_is_seen() -> None:
    figures = kills.Figures(lost=1)
    figures += kills.Figures(doubled=2, marked=3)
    assert figures.faults == 3
