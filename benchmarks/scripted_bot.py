"""`main.py` with the scripted model of the tests in place of a server: the cost of Parley alone.

python -m benchmarks.scripted_bot ARGUMENTS OF main.py
"""

from __future__ import annotations

import json
import sys

import main
from agent.models.base import ModelRequest, Usage
from agent.models.selection import Models
from tests.fakes.scripted_model import ScriptedModel

ANSWER = "The quick brown fox jumps over the lazy dog. " * 3


CHARACTERS = 4
"""Characters of a token, approximately."""


class QuietModel(ScriptedModel):
    """A model that always gives the same answer, reports the tokens it has read, and stores no
    requests."""

    def __init__(self) -> None:
        super().__init__(lambda request: ANSWER, usage=self._count)
        self._tools: tuple[object, int] = ((), 0)

    def _count(self, request: ModelRequest, text: str) -> Usage:
        if self._tools[0] is not request.tools:  # it usually stays the same
            self._tools = request.tools, len(json.dumps(request.tools))
        read = self._tools[1] + sum(len(message["content"]) for message in request.messages)
        return Usage(read // CHARACTERS, len(text) // CHARACTERS)

    async def reply(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.requests.clear()
        return await super().reply(*args, **kwargs)


if __name__ == "__main__":
    quiet = QuietModel()
    Models.of = lambda self, choice: quiet  # type: ignore[method-assign]
    sys.exit(main.main())
