"""The example conversation, as turns."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from memory.messages import Message

TITLE = "Example: a weekend in Lisbon"
_FILE = Path(__file__).with_suffix(".toml")


def read_example() -> Sequence[Sequence[Message]]:
    """Return the turns of the example: a question and its answer each."""
    written = tomllib.loads(_FILE.read_text("utf-8"))["turn"]
    return [
        (Message("user", one["question"]), Message("assistant", one["answer"])) for one in written
    ]
