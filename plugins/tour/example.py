"""The example conversation, as turns, in each language."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from channels.language import ENGLISH
from memory.messages import Message

TITLE = "Example: a weekend in Lisbon"


def read_example(language: str = ENGLISH) -> Sequence[Sequence[Message]]:
    """Return the turns of the example, a question and its answer each: in a language, or in English
    where nobody has written them in it."""
    here = Path(__file__)
    file = here.with_suffix(f".{language}.toml")
    known = file if file.exists() else here.with_suffix(".toml")
    written = tomllib.loads(known.read_text("utf-8"))["turn"]
    return [
        (Message("user", one["question"]), Message("assistant", one["answer"])) for one in written
    ]
