"""Recent events, in memory alone: how long answers took, and what failed. `/status` tells them; a
feature that wants more than that, such as metrics, hears the same by overriding `RecentActivity`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent.models.base import ModelCall
from bot.sentences import LEFT_OUT, mask_known
from channels.message import Address, Outbound, Problem
from channels.retry import MessageLeftOut
from memory.context.change import ViewEvent
from memory.ledger import Spent
from plugins.health import RecentFailure, RecentTimes, SlowTool

MOST_TIMES = 100
"""Answers, first words and tool calls of which the times are known."""
MOST_FAILURES = 20
"""Kinds of failures that are known, each with how often it happened."""
LONGEST_SENTENCE = 300  # characters of a failure that are kept
Kind = tuple[str, ...]
"""The identity of a failure: the text of its log line, and what was filled in that matters."""


class EndedTurn(Struct, frozen=True):
    """A turn that has ended on a channel, `seconds` after its message had come, without what it
    waited for a person. `problem` says why there is no answer ("": there is one), `is_stopped` that
    a person did not want it."""

    channel: str
    seconds: float
    steps: int
    problem: Problem = ""
    is_stopped: bool = False


class Workload(Protocol):
    """The work that waits or is under way at this moment: `sizes` by queue, `oldest` for how many
    seconds a message waits; `data` is the data folder, `reached` says of channels that know it
    whether they reach their platforms."""

    @property
    def data(self) -> Path: ...

    @property
    def sizes(self) -> Mapping[str, int]: ...

    @property
    def oldest(self) -> float: ...

    @property
    def reached(self) -> Mapping[str, bool]: ...


class OwnerAlerts(Protocol):
    """Tells an owner what only an owner can mend; nothing here waits."""

    def channel_down(self, channel: str, error: BaseException) -> None: ...

    def channel_unreachable(self, channel: str, error: BaseException) -> None: ...

    def reply_put_aside(self, outbound: Outbound) -> None: ...

    def model_refused(self, sentence: str, heard_at: Address | None) -> None: ...


class RecentActivity:
    """Hears what happens in the bot; nothing here waits, or takes long. `alerts` hear of what an
    owner has to mend."""

    def __init__(self) -> None:
        self.alerts: list[OwnerAlerts] = []
        self._answers: deque[float] = deque(maxlen=MOST_TIMES)
        self._first_words: deque[float] = deque(maxlen=MOST_TIMES)
        self._tools: deque[tuple[str, float]] = deque(maxlen=MOST_TIMES)
        self.failures = FailureLog()

    def work_begun(self, work: Workload) -> None:
        """Note that the bot is assembled; it is not kept from going by whoever looks at its
        work."""

    def message_taken(self, channel: str, is_command: bool) -> None:
        """Note that a message is on disk."""

    def turn_ended(self, turn: EndedTurn) -> None:
        if not turn.problem and not turn.is_stopped:
            self._answers.append(turn.seconds)

    def tool_ended(self, name: str, seconds: float, is_error: bool) -> None:
        """Note that a tool call has ended; what it waited for a person is not counted."""
        self._tools.append((name, seconds))

    def model_called(self, call: ModelCall) -> None:
        if call.first is not None:
            self._first_words.append(call.first)

    def model_refused(self, sentence: str, heard_at: Address | None = None) -> None:
        """Note that a provider refused the key or the account; the sentence was the answer at an
        address (None: no answer said it, since another model answered, or a summary was wanted)."""
        for alert in self.alerts:
            alert.model_refused(sentence, heard_at)

    def spent(self, spent: Spent) -> None:
        """Note that a call to a model is in the ledger."""

    def view_changed(self, event: ViewEvent) -> None:
        """Note that an event has changed what the model sees of a conversation."""

    def summary_failed(self) -> None:
        """No model has written a summary that was wanted."""

    def reply_sent(self, channel: str) -> None:
        """Note that a platform has a reply."""

    def channel_failed(self, channel: str) -> None:
        """Note that a channel took no reply, could not reach its platform for a while, or has
        ended."""

    def channel_down(self, channel: str, error: BaseException) -> None:
        """Note that a channel has ended with an error, or took no reply."""
        self.channel_failed(channel)
        for alert in self.alerts:
            alert.channel_down(channel, error)

    def channel_unreachable(self, channel: str, error: BaseException) -> None:
        """Note that a channel could not reach its platform for a while, or has left a message
        out."""
        if not isinstance(error, MessageLeftOut):
            self.channel_failed(channel)
        for alert in self.alerts:
            alert.channel_unreachable(channel, error)

    def reply_put_aside(self, outbound: Outbound) -> None:
        """Note that a reply was tried again and again, and each time the bot broke or could not
        send it."""
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
    """Keeps the newest warnings and errors of the log: one sentence for each kind, the newest, with
    how often that happened. `mask` takes secrets out, `on_kept` hears of each."""

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        super().__init__(logging.WARNING)
        self.mask = mask
        self.on_kept: Callable[[logging.LogRecord], None] = _unheard
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
        said = " ".join(self.mask(record.getMessage()).split())
        error = record.exc_info[1] if record.exc_info else None
        why = f" ({type(error).__name__})" if error else ""
        return f"{said[:LONGEST_SENTENCE]}{why}"

    def since(self, moment: float) -> tuple[RecentFailure, ...]:
        """Return the failures whose last time was after a moment, in seconds since 1970; the newest
        first."""
        return tuple(one for one in reversed(self._known.values()) if one.at >= moment)


def kind_of(record: logging.LogRecord) -> Kind:
    """By which failures are one. Names and numbers that were filled in make no other kind; another
    sentence of the bot does, and so does another class of error."""
    told = record.args if isinstance(record.args, tuple) else ()
    filled = [_kind_of_value(one) for one in told]
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
    """Half of them are at most as large; 0 for none. (`statistics` is slow to import.)"""
    return sorted(numbers)[(len(numbers) - 1) // 2] if numbers else 0.0


def _unheard(record: logging.LogRecord) -> None:
    """Nobody counts them."""
