"""Fixtures with the memory of a bot for the tests of this folder; a file may define its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.memory.harness import MemoryHarness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MemoryHarness]:
    harness = MemoryHarness(tmp_path)
    await harness.open()
    yield harness
    await harness.close()
