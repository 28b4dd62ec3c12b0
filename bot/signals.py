"""Events within the bot, which decouple its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """An event with any number of listeners, called in the order in which they were connected."""

    def __init__(self) -> None:
        self._listeners: list[Callable[P, object]] = []

    def connect(self, hear: Callable[P, object]) -> None:
        self._listeners.append(hear)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for hear in self._listeners:
            hear(*args, **kwargs)
