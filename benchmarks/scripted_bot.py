"""`main.py` with the scripted model of the tests in place of a server: what Parley alone costs.

python -m benchmarks.scripted_bot ARGUMENTS OF main.py
"""

from __future__ import annotations

import sys

import main
from agent.models.base import Usage
from agent.models.selection import Models
from tests.fakes.scripted_model import ScriptedModel

ANSWER = "The quick brown fox jumps over the lazy dog. " * 3


class QuietModel(ScriptedModel):
    """Says the same to all, and keeps nothing of what it was asked."""

    def __init__(self) -> None:
        super().__init__(lambda request: ANSWER, usage=lambda request, text: Usage(1_000, 40))

    async def reply(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.requests.clear()
        return await super().reply(*args, **kwargs)


if __name__ == "__main__":
    quiet = QuietModel()
    Models.of = lambda self, choice: quiet  # type: ignore[method-assign]
    sys.exit(main.main())
