"""The port to the model that distils the daily memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from memory.keys import ConversationKey
from memory.ledger import Spent


class NotAskedError(Exception):
    """The model gave no answer. The text is a sentence; `window` is the one that an error named, or
    0."""

    def __init__(self, sentence: str, window: int = 0) -> None:
        super().__init__(sentence)
        self.window = window


class DistillRequest(Struct, frozen=True):
    """A call to a model: the task, the material, and the model that is to be asked ("": the one
    that writes summaries), for a `person` with limits of their own ("": for nobody in particular).
    `on_spent` is called with what it cost, also where nothing came of it."""

    task: str
    text: str
    max_tokens: int
    key: ConversationKey
    model: str = ""
    person: str = ""
    on_spent: Callable[[Spent], None] = lambda spent: None


class Distiller(Protocol):
    """The port to a model."""

    def window(self, key: ConversationKey, model: str) -> int:
        """Its window, in tokens."""
        ...

    async def ask(self, request: DistillRequest) -> tuple[str, str]:
        """The answer, and the name of the model that gave it. Raises NotAskedError."""
        ...


class NoDistiller:
    """Stands where no model was given."""

    def window(self, key: ConversationKey, model: str) -> int:
        del key, model
        return 0

    async def ask(self, request: DistillRequest) -> tuple[str, str]:
        del request
        raise NotAskedError("There is no model that could distil the memory.")
