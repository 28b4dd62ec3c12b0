"""The recent events of the bot, as `/status` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Protocol

from msgspec import Struct

from channels.language import _, explain, figure, number_of
from plugins.wording import count, duration, literal

SLOW = 5.0
"""Seconds from which on a tool is worth a word."""
LONG = 2.0
"""Seconds from which on it is worth a word that a message waits."""
MOST_SHOWN = 5


class SlowTool(Struct, frozen=True):
    """The longest of the last tool calls, in seconds."""

    name: str
    seconds: float


class RecentTimes(Struct, frozen=True):
    """The time that the last `answers` took, in seconds from message to answer; `first_word` is how
    long the models took to begin, half of the time (0: none was asked)."""

    answers: int = 0
    median: float = 0.0
    slowest: float = 0.0
    first_word: float = 0.0
    tool: SlowTool | None = None


class RecentFailure(Struct, frozen=True):
    """A failure, and how often it came; `at` is the last time, in seconds since 1970."""

    at: float
    sentence: str
    times: int


class RecentInfo(Struct, frozen=True):
    """The recent times and failures, and what waits besides messages: the seconds for which the
    oldest of those does, replies that are not sent, and conversations whose summaries are being
    written. `failures` are the newest."""

    times: RecentTimes
    failures: tuple[RecentFailure, ...] = ()
    oldest: float = 0.0
    unsent: int = 0
    summaries: int = 0


class RecentPort(Protocol):
    def look(self) -> RecentInfo:
        """Return what this process knows of the last day."""
        ...


def describe_recent(recent: RecentInfo) -> list[str]:
    """Describe what waits, and what is slow, a line each; nothing where there is nothing to
    tell."""
    return [*filter(None, (_describe_waiting(recent), _describe_times(recent.times)))]


def _describe_waiting(recent: RecentInfo) -> str:
    parts = (
        _("the oldest message for {seconds}", seconds=duration(recent.oldest))
        if recent.oldest >= LONG
        else "",
        number_of(recent.unsent, "{n} reply not sent yet", "{n} replies not sent yet")
        if recent.unsent
        else "",
        _("summaries of {chats}", chats=count(recent.summaries, "chat"))
        if recent.summaries
        else "",
    )
    what = "; ".join(filter(None, parts))
    return _("Waiting: {what}.", what=what) if what else ""


def _describe_times(times: RecentTimes) -> str:
    if not times.answers:
        return ""
    said = _(
        "Lately, half of the answers came within {median}; the slowest of {answers} took "
        "{slowest}.",
        median=seconds(times.median),
        answers=figure(str(times.answers)),
        slowest=seconds(times.slowest),
    )
    if times.first_word:
        said += _(
            " Half of the time, the model began within {first}.", first=seconds(times.first_word)
        )
    if times.tool and times.tool.seconds >= SLOW:
        said += _(
            " The slowest tool was {tool}: {seconds}.",
            tool=literal(times.tool.name),
            seconds=seconds(times.tool.seconds),
        )
    return said


def describe_failures(failures: Sequence[RecentFailure], zone: tzinfo) -> str:
    """Describe what failed, the newest first; "" where nothing did."""
    if not failures:
        return ""
    lines = [_describe_failure(one, zone) for one in failures[:MOST_SHOWN]]
    more = _("`python main.py logs --level warning` shows all of it.")
    return "\n".join([_("What failed in the last day:"), "", *lines, "", more])


def _describe_failure(failure: RecentFailure, zone: tzinfo) -> str:
    time = f"{datetime.fromtimestamp(failure.at, zone):%H:%M}"
    said = literal(explain(failure.sentence))
    if failure.times == 1:
        return f"- {time}: {said}"
    return _("- {time}, {n} times: {said}", time=time, n=figure(str(failure.times)), said=said)


def seconds(number: float) -> str:
    """0.2 s, 9.8 s, 45 s, 3 min."""
    return figure(f"{number:.1f}") + " s" if number < 10 else duration(number)
