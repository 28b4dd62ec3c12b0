"""The memory of a bot, for the tests of this folder; a file may have one of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.memory.rooms import Lodge


@pytest.fixture
async def lodge(tmp_path: Path) -> AsyncIterator[Lodge]:
    lodge = Lodge(tmp_path)
    await lodge.open()
    yield lodge
    await lodge.close()
