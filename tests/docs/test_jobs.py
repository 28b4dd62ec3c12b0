"""The page on reminders and jobs: its examples are understood as they stand."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine

from tests.docs.pages import example
from tests.whole.house import living

LINES = example("jobs.md", "text").splitlines()


@pytest.mark.parametrize("line", LINES)
async def test_an_example_is_understood(tmp_path: Path, line: str) -> None:
    with time_machine.travel(datetime(2026, 11, 23, 12, tzinfo=UTC), tick=True):
        async with living(tmp_path, settings={"timezone": "Europe/Berlin"}) as house:
            answer = (await house.says(line)).text
            assert " 1 is set: " in answer
            assert "(Europe/Berlin)" in answer
