"""The events in conversations, their listeners, and the listeners' answers.

The layers below the plugins emit; plugins listen (`parley_listeners` in `plugins/hookspecs.py`). A
listener that is slow or fails costs at most its own timeout.
"""

from __future__ import annotations

import asyncio
import logging
import reprlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from memory.keys import ConversationKey
from memory.tasks import is_stopped

log = logging.getLogger(__name__)

EventName = Literal[
    "session_start",
    "turn_start",
    "tool_start",
    "tool_end",
    "pre_compact",
    "turn_end",
    "error",
    "session_end",
]


class Event(Struct, frozen=True):
    """An event in the conversation of this key. `turn` is the running turn's number (0: none runs).

    `text` is its subject: the question (turn_start), the reply (turn_end), the result (tool_end),
    the reason (pre_compact, error). `tool` and `arguments` are set for tools.
    """

    name: EventName
    key: ConversationKey
    turn: int = 0
    text: str = ""
    tool: str = ""
    arguments: str = ""
    is_error: bool = False


class Verdict(Struct, frozen=True):
    """The combined answer of listeners. `veto` is the reason to prevent the action ("": none); only
    tool_start and pre_compact obey it. `inject` are notes that the model reads from its next step
    on."""

    veto: str = ""
    inject: tuple[str, ...] = ()

    def plus(self, other: Verdict) -> Verdict:
        """Combine two verdicts; the first veto counts."""
        return Verdict(self.veto or other.veto, self.inject + other.inject)


NOTHING = Verdict()


class Listener(Struct, frozen=True):
    """A listener to events. Lower priorities run first; `timeout` is in seconds per event (None:
    the listener has its own limit). `minds` returns whether the listener currently wants an
    event."""

    name: str
    hear: Callable[[Event], Awaitable[Verdict | None]]
    priority: int = 100
    timeout: float | None = 5.0
    minds: Callable[[EventName], bool] = lambda name: True


class Events:
    """All listeners, in order. The list may grow while features are opened."""

    def __init__(self, listeners: Sequence[Listener] = ()) -> None:
        self._given, self._sorted = listeners, tuple[Listener, ...]()

    def find_interested(self, name: EventName) -> list[Listener]:
        """Return the listeners that want such an event; without any, the event need not be made."""
        if len(self._sorted) != len(self._given):
            self._sorted = tuple(sorted(self._given, key=lambda listener: listener.priority))
        minding = []
        for listener in self._sorted:
            try:
                if listener.minds(name):
                    minding.append(listener)
            except Exception:
                asked = "%s failed when asked whether it wants to hear %s"
                log.exception(asked, listener.name, name)
        return minding

    async def emit(self, event: Event, listeners: Sequence[Listener] | None = None) -> Verdict:
        """Call each listener (None: those that want the event), in order, and combine their
        answers."""
        verdict = NOTHING
        for listener in self.find_interested(event.name) if listeners is None else listeners:
            answer = await _notify(listener, event)
            verdict = answer if verdict is NOTHING else verdict.plus(answer)
        return verdict


async def _notify(listener: Listener, event: Event) -> Verdict:
    try:
        async with asyncio.timeout(listener.timeout):
            answer = await listener.hear(event)
            return NOTHING if answer is None else _checked(answer)
    except TimeoutError:
        log.warning("%s took longer than %s s over %s", listener.name, listener.timeout, event.name)
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and is_stopped():
            raise
        log.exception("%s failed over %s", listener.name, event.name)
    return NOTHING


def _checked(answer: object) -> Verdict:
    """Return the answer of a listener; check that it is a Verdict of texts."""
    if not isinstance(answer, Verdict):
        raise TypeError(f"the answer {reprlib.repr(answer)} is no Verdict")
    injected: Any = answer.inject
    inject = (injected,) if isinstance(injected, str) else tuple(injected)
    if not all(isinstance(text, str) for text in (answer.veto, *inject)):
        raise TypeError(f"{reprlib.repr(answer)} has something else than text in it")
    return Verdict(_storable(answer.veto), tuple(map(_storable, inject)))


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
