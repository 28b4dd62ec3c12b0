"""Recent events, in memory alone, which `/status` shows: durations of answers, and failures. A
feature that needs more, such as metrics, has a module `monitoring.py` in its folder, with a
function `monitor(layers) -> Monitoring | None`."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from agent.models.base import ModelCall
from bot.settings import Layers
from channels.language import list_sentences
from channels.message import Address, Outbound, Problem
from channels.retry import MessageSkipped
from memory.context.change import ViewEvent
from memory.ledger import Spent
from memory.services import Redactor
from plugins.features import find_modules
from plugins.health import RecentFailure, RecentTimes, SlowTool

LEFT_OUT = "<…>"
LONGEST = 2_000
"""The maximum number of characters of a text in which known sentences are searched."""
_LEAST = 8
"""The minimum number of fixed letters for a sentence to be recognised."""
_DEEPEST = 3
_PLACE = re.compile(r"\{[^{}]*\}")
_NUMBER = re.compile(r"-?\d{1,5}(\.\d{1,6})?")


class Sentence(Struct, frozen=True):
    """The fixed pieces of a sentence, with a filled-in value between each two. `is_number` says at
    which places a number may be shown."""

    pieces: tuple[str, ...]
    is_number: tuple[bool, ...] = ()

    @property
    def letters(self) -> int:
        return sum(c.isalpha() for piece in self.pieces for c in piece)

    def match(self, text: str) -> list[str] | None:
        """Return the values at the places of a text; None if it is another sentence. Runs in time
        linear in the text, for any text."""
        first, *rest = self.pieces
        if not rest:
            return [] if text == first else None
        *middle, last = rest
        end = len(text) - len(last)
        if not text.startswith(first) or not text.endswith(last) or end < len(first):
            return None
        place, found = len(first), []
        for piece in middle:
            here = text.find(piece, place, end)
            if here < 0:
                return None
            found.append(text[place:here])
            place = here + len(piece)
        return [*found, text[place:end]]


@cache
def known_sentences() -> Sequence[Sentence]:
    """Return the bot's sentences to people, the one with the most letters first."""
    found = [Sentence(tuple(_PLACE.split(text))) for text in list_sentences()]
    return sorted((one for one in found if one.letters >= _LEAST), key=lambda one: -one.letters)


def mask_text(
    text: str, sentences: Iterable[Sentence], *, has_numbers: bool = False, depth: int = 0
) -> str:
    """Return a text without its filled-in values; LEFT_OUT for an unknown text."""
    if len(text) > LONGEST or depth > _DEEPEST:
        return LEFT_OUT
    for sentence in sentences:
        if (places := sentence.match(text)) is None:
            continue
        kinds = sentence.is_number or (False,) * len(places)
        shown = (
            place
            if is_number and has_numbers and _NUMBER.fullmatch(place)
            else mask_known(place, depth + 1)
            for place, is_number in zip(places, kinds, strict=True)
        )
        filled = zip(sentence.pieces, [*shown, ""], strict=True)
        return "".join(f"{piece}{place}" for piece, place in filled)
    return LEFT_OUT


@lru_cache(maxsize=4096)
def mask_known(text: str, depth: int = 0) -> str:
    """Return a sentence of the bot without its filled-in values; LEFT_OUT for any other text."""
    return mask_text(text, known_sentences(), depth=depth)


MOST_TIMES = 100
"""The maximum number of durations kept for each of answers, first words and tool calls."""
MOST_FAILURES = 20
"""The maximum number of kinds of failures kept, each with its count."""
LONGEST_SENTENCE = 300  # characters of a failure that are kept
Kind = tuple[str, ...]
"""The identity of a failure: the text of its log line, and the relevant filled-in values."""


class EndedTurn(Struct, frozen=True):
    """A turn that has ended on a channel, `seconds` after its message arrived, without the time
    spent waiting for a person. `problem` says why there is no answer ("": there is one),
    `is_stopped` that a person stopped it."""

    channel: str
    seconds: float
    steps: int
    problem: Problem = ""
    is_stopped: bool = False


class Workload(Protocol):
    """The current work: `sizes` by queue; `oldest` is how many seconds the oldest message has
    waited; `data` is the data folder; `reached` says for channels that know it whether they reach
    their platforms."""

    @property
    def data(self) -> Path: ...

    @property
    def sizes(self) -> Mapping[str, int]: ...

    @property
    def oldest(self) -> float: ...

    @property
    def reached(self) -> Mapping[str, bool]: ...


class OwnerAlerts(Protocol):
    """A receiver of faults that only an owner can fix; its methods never block."""

    def channel_down(self, channel: str, error: BaseException) -> None: ...

    def channel_unreachable(self, channel: str, error: BaseException) -> None: ...

    def reply_put_aside(self, outbound: Outbound) -> None: ...

    def model_refused(self, sentence: str, reported_at: Address | None) -> None: ...


class RecentActivity:
    """The listener for events in the bot; its methods never block, and return quickly. `alerts` are
    notified of faults that an owner must fix."""

    def __init__(self) -> None:
        self.alerts: list[OwnerAlerts] = []
        self._answers: deque[float] = deque(maxlen=MOST_TIMES)
        self._first_words: deque[float] = deque(maxlen=MOST_TIMES)
        self._tools: deque[tuple[str, float]] = deque(maxlen=MOST_TIMES)
        self.failures = FailureLog()

    def work_begun(self, work: Workload) -> None:
        """Note that the bot is assembled. A listener may keep only a weak reference to `work`."""

    def message_taken(self, channel: str, is_command: bool) -> None:
        """Note that a message is on disk."""

    def turn_ended(self, turn: EndedTurn) -> None:
        if not turn.problem and not turn.is_stopped:
            self._answers.append(turn.seconds)

    def tool_ended(self, name: str, seconds: float, is_error: bool) -> None:
        """Note that a tool call has ended; time spent waiting for a person is not counted."""
        self._tools.append((name, seconds))

    def model_called(self, call: ModelCall) -> None:
        if call.first is not None:
            self._first_words.append(call.first)

    def model_refused(self, sentence: str, reported_at: Address | None = None) -> None:
        """Note that a provider refused the key or the account. The sentence was the answer at
        `reported_at`; None: it was not sent, because another model answered or the request was for
        a summary."""
        for alert in self.alerts:
            alert.model_refused(sentence, reported_at)

    def spent(self, spent: Spent) -> None:
        """Note that a call to a model is in the ledger."""

    def view_changed(self, event: ViewEvent) -> None:
        """Note that an event has changed the context of a conversation."""

    def summary_failed(self) -> None:
        """Note that no model could write a requested summary."""

    def reply_sent(self, channel: str) -> None:
        """Note that a platform has received a reply."""

    def channel_failed(self, channel: str) -> None:
        """Note that a channel rejected a reply, could not reach its platform for a while, or has
        ended."""

    def channel_down(self, channel: str, error: BaseException) -> None:
        """Note that a channel has ended with an error, or rejected a reply."""
        self.channel_failed(channel)
        for alert in self.alerts:
            alert.channel_down(channel, error)

    def channel_unreachable(self, channel: str, error: BaseException) -> None:
        """Note that a channel could not reach its platform for a while, or has skipped a
        message."""
        if not isinstance(error, MessageSkipped):
            self.channel_failed(channel)
        for alert in self.alerts:
            alert.channel_unreachable(channel, error)

    def reply_put_aside(self, outbound: Outbound) -> None:
        """Note that a reply was put aside: the bot crashed or could not send it, time after
        time."""
        for alert in self.alerts:
            alert.reply_put_aside(outbound)

    @property
    def times(self) -> RecentTimes:
        slowest = max(self._tools, key=lambda one: one[1], default=None)
        return RecentTimes(
            len(self._answers),
            _median(self._answers),
            max(self._answers, default=0.0),
            _median(self._first_words),
            SlowTool(*slowest) if slowest else None,
        )


class FailureLog(logging.Handler):
    """A handler that keeps the newest warnings and errors of the log: the newest sentence of each
    kind, with its count. `redactor` removes secrets; `on_kept` is called for each record."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.redactor = Redactor()
        self.on_kept: Callable[[logging.LogRecord], None] = _ignore
        self._known: dict[Kind, RecentFailure] = {}

    def emit(self, record: logging.LogRecord) -> None:
        sentence = self._read(record)
        kind = kind_of(record)
        before = self._known.pop(kind, None)
        now = RecentFailure(record.created, sentence, 1)
        self._known[kind] = replace(now, times=before.times + 1) if before else now
        if len(self._known) > MOST_FAILURES:
            del self._known[next(iter(self._known))]
        self.on_kept(record)

    def _read(self, record: logging.LogRecord) -> str:
        text = " ".join(self.redactor.hide(record.getMessage()).split())
        error = record.exc_info[1] if record.exc_info else None
        why = f" ({type(error).__name__})" if error else ""
        return f"{text[:LONGEST_SENTENCE]}{why}"

    def since(self, moment: float) -> tuple[RecentFailure, ...]:
        """Return the failures that last happened after a moment, in seconds since 1970; the newest
        first."""
        return tuple(one for one in reversed(self._known.values()) if one.at >= moment)


def kind_of(record: logging.LogRecord) -> Kind:
    """Return the kind that a failure is counted under. Different filled-in names and numbers are
    the same kind; another sentence of the bot, or another class of error, is a different one."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    filled = [_kind_of_value(one) for one in arguments]
    if record.msg == "%s" and filled == [""]:
        filled = [record.getMessage()]
    error = record.exc_info[1] if record.exc_info else None
    return (str(record.msg), *filled, _class_of(error))


def _kind_of_value(value: object) -> str:
    known = mask_known(" ".join(str(value).split()))
    return _class_of(value) if known == LEFT_OUT else known


def _class_of(value: object) -> str:
    return type(value).__name__ if isinstance(value, BaseException) else ""


def _median(numbers: Collection[float]) -> float:
    """Return the lower median; 0 for no numbers. (`statistics` is slow to import.)"""
    return sorted(numbers)[(len(numbers) - 1) // 2] if numbers else 0.0


def _ignore(record: logging.LogRecord) -> None:
    """Ignore the record."""


class Monitoring(Struct, frozen=True):
    """The monitoring of a process: `recent` is notified of events; `pages` are ASGI applications
    that the web channel serves, by their paths."""

    recent: RecentActivity = field(default_factory=RecentActivity)
    pages: Mapping[str, Any] = {}

    @asynccontextmanager
    async def serving(self, *, has_page: bool) -> AsyncIterator[None]:
        """Serve the pages that have a port of their own in this context; `has_page` says that the
        web channel serves them. Raises ChannelError."""
        del has_page
        yield


def monitor(layers: Layers) -> Monitoring:
    """Return the monitoring of this process. Raises ChannelError."""
    for module in find_modules("monitoring"):
        found = module.monitor(layers)
        if found is not None:
            assert isinstance(found, Monitoring)
            return found
    return Monitoring()
