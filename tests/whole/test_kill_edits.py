"""kill -9 while a person edits the context: what was confirmed is there, and nothing else.

`python -m benchmarks.kills --edits 20` does it twenty times, at greater length, under four
strategies.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.whole.edit_duel import CONTEXTS, fight

pytestmark = pytest.mark.usefixtures("processes")

STEPS = 12


async def test_a_killed_bot_has_the_context_that_an_undisturbed_one_has(tmp_path: Path) -> None:
    assert await fight(tmp_path, 1, CONTEXTS["stubs"], STEPS) > STEPS // 6
