"""Trying again: who hears of it, and when."""

from __future__ import annotations

import pytest

from channels.retry import TROUBLE, patient


@pytest.mark.parametrize(("asked", "heard"), [(None, TROUBLE + 1), (0.0, 0)])
async def test_somebody_hears_of_what_fails_for_long_but_not_where_the_platform_says_wait(
    asked: float | None, heard: int
) -> None:
    attempts, troubles = 0, list[BaseException]()

    async def attempt() -> str:
        nonlocal attempts
        attempts += 1
        if attempts <= 2 * TROUBLE:
            raise ConnectionError("not now")
        return "there"

    async def sleep(seconds: float) -> None:
        """Not in a test."""

    again = patient(lambda error: True, lambda error: asked, troubles.append, sleep)
    assert await again(attempt) == "there"
    assert len(troubles) == heard
