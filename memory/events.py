"""The events in conversations, told to their listeners, and the answers that these may give.

The layers below the plugins emit; plugins listen (`parley_listeners` in `plugins/hookspecs.py`). A
listener that is slow or fails costs its own time-out and nothing else.
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
    """Something that happens now in the conversation of this key. `turn` is the running turn's
    number (0: none runs).

    `text` is what it is about: the question (turn_start), the reply (turn_end), the result
    (tool_end), the reason (pre_compact, error). `tool` and `arguments` are set for tools.
    """

    name: EventName
    key: ConversationKey
    turn: int = 0
    text: str = ""
    tool: str = ""
    arguments: str = ""
    is_error: bool = False


class Verdict(Struct, frozen=True):
    """The answer of listeners. `veto` says why this shall not happen ("": it may); only tool_start
    and pre_compact obey it. `inject` are notes that the model reads from its next step on."""

    veto: str = ""
    inject: tuple[str, ...] = ()

    def plus(self, other: Verdict) -> Verdict:
        """Both; the first veto counts."""
        return Verdict(self.veto or other.veto, self.inject + other.inject)


NOTHING = Verdict()


class Listener(Struct, frozen=True):
    """A listener to events. Lower priorities first; `timeout` in seconds for one event (None: the
    listener keeps its own time limit). `minds` says of an event whether the listener wants it at
    present."""

    name: str
    hear: Callable[[Event], Awaitable[Verdict | None]]
    priority: int = 100
    timeout: float | None = 5.0
    minds: Callable[[EventName], bool] = lambda name: True


class Events:
    """All listeners, in their order. The list may grow while features are opened."""

    def __init__(self, listeners: Sequence[Listener] = ()) -> None:
        self._given, self._sorted = listeners, tuple[Listener, ...]()

    def find_minding(self, name: EventName) -> list[Listener]:
        """Return the listeners that want to hear such an event; where none does, none need be
        made."""
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
        """Tell each listener (None: those that want to hear it), one after the other, and put
        together what they answer."""
        verdict = NOTHING
        for listener in self.find_minding(event.name) if listeners is None else listeners:
            verdict = verdict.plus(await _notify(listener, event))
        return verdict


async def _notify(listener: Listener, event: Event) -> Verdict:
    try:
        async with asyncio.timeout(listener.timeout):
            return _checked(await listener.hear(event))
    except TimeoutError:
        log.warning("%s took longer than %s s over %s", listener.name, listener.timeout, event.name)
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and is_stopped():
            raise
        log.exception("%s failed over %s", listener.name, event.name)
    return NOTHING


def _checked(answer: object) -> Verdict:
    """Return the answer of a listener, which is a Verdict with text in it, or None."""
    if answer is None:
        return NOTHING
    if not isinstance(answer, Verdict):
        raise TypeError(f"the answer {reprlib.repr(answer)} is no Verdict")
    said: Any = answer.inject
    inject = (said,) if isinstance(said, str) else tuple(said)
    if not all(isinstance(text, str) for text in (answer.veto, *inject)):
        raise TypeError(f"{reprlib.repr(answer)} has something else than text in it")
    return Verdict(_storable(answer.veto), tuple(map(_storable, inject)))


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
