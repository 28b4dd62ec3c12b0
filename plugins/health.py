"""The health of the bot, as `/status` shows it: recent events, processes, and channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Protocol

from msgspec import Struct

from channels.base import ChannelHealth
from channels.language import _, explain, figure, format_datetime, number_of
from plugins.wording import cell, count, duration, literal, table

SLOW = 5.0
"""Seconds from which a tool call is reported as slow."""
LONG = 2.0
"""Seconds from which a waiting message is reported."""
MOST_SHOWN = 5


class SlowTool(Struct, frozen=True):
    """The slowest of the recent tool calls, in seconds."""

    name: str
    seconds: float


class RecentTimes(Struct, frozen=True):
    """The times of the last `answers`, in seconds from message to answer; `first_word` is the
    median time until the models began (0: none was called)."""

    answers: int = 0
    median: float = 0.0
    slowest: float = 0.0
    first_word: float = 0.0
    tool: SlowTool | None = None


class RecentFailure(Struct, frozen=True):
    """A failure, and its count; `at` is the last time, in seconds since 1970."""

    at: float
    sentence: str
    times: int


class RecentInfo(Struct, frozen=True):
    """The recent times and failures, and the backlog besides the number of messages: the seconds
    that the oldest one has waited (`oldest`), the unsent replies, and the conversations whose
    summaries are being written. `failures` are the newest."""

    times: RecentTimes
    failures: tuple[RecentFailure, ...] = ()
    oldest: float = 0.0
    unsent: int = 0
    summaries: int = 0


class RecentPort(Protocol):
    def status(self) -> RecentInfo:
        """Return this process's figures of the last day."""
        ...


def describe_recent(recent: RecentInfo) -> list[str]:
    """Describe the backlog and slow operations, a line each; an empty list if there is nothing to
    report."""
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
    text = _(
        "Time per answer, of the last {answers}: half took at most {median}, the slowest "
        "{slowest}.",
        median=seconds(times.median),
        answers=figure(str(times.answers)),
        slowest=seconds(times.slowest),
    )
    if times.first_word:
        text += _(" Half began to appear within {first}.", first=seconds(times.first_word))
    if times.tool and times.tool.seconds >= SLOW:
        text += _(
            " The slowest tool was {tool}: {seconds}.",
            tool=literal(times.tool.name),
            seconds=seconds(times.tool.seconds),
        )
    return text


def describe_failures(failures: Sequence[RecentFailure], zone: tzinfo) -> str:
    """Describe the failures, newest first; "" without any."""
    if not failures:
        return ""
    lines = [_describe_failure(one, zone) for one in failures[:MOST_SHOWN]]
    more = _("`python main.py logs --level warning` shows all of it.")
    return "\n".join([_("Failures in the last 24 hours:"), "", *lines, "", more])


def _describe_failure(failure: RecentFailure, zone: tzinfo) -> str:
    time = f"{datetime.fromtimestamp(failure.at, zone):%H:%M}"
    text = literal(explain(failure.sentence))
    if failure.times == 1:
        return f"- {time}: {text}"
    return _("- {time}, {n} times: {said}", time=time, n=figure(str(failure.times)), said=text)


def seconds(number: float) -> str:
    """Return a duration: 0.2 s, 9.8 s, 45 s, 3 min; never 0."""
    return figure(f"{max(number, 0.1):.1f}") + " s" if number < 10 else duration(number)


class ProcessInfo(Struct, frozen=True):
    """A process of the bot: `since` is in seconds since 1970, `slices` the number that it owns.
    Without `is_heard`, it has sent no heartbeat for some seconds."""

    name: str
    role: str
    version: str
    since: float
    slices: int
    is_heard: bool


class ClusterInfo(Struct, frozen=True):
    """The processes of the bot. `unowned` is the number of slices without an owner. `queued` and
    `longest` are the numbers of calls in all queues, and in the longest, that no process is working
    on (None: the broker can't be reached). `lag` is the age in seconds of the oldest of the
    `unanswered` messages; `unsent` is the number of unsent replies."""

    processes: tuple[ProcessInfo, ...]
    unowned: int
    queued: int | None
    longest: int | None
    unanswered: int
    lag: float
    unsent: int

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of the processes with a heartbeat."""
        return tuple(sorted({one.version for one in self.processes if one.is_heard}))


class ProcessesPort(Protocol):
    async def status(self) -> ClusterInfo | None:
        """Return the processes and the backlog; None if the bot is one process. Raises
        StoreError."""
        ...


def describe_processes(cluster: ClusterInfo, now: float) -> str:
    """Return a table of the processes, and the backlog between them; `now` in seconds since
    1970."""
    rows = [(cell(_short(one.name)), _state(one, now), one.slices) for one in cluster.processes]
    return "\n\n".join(
        [
            table(("process", "up", "slices:"), rows),
            _("All run Parley {versions}.", versions=format_versions(cluster.versions))
            + (
                _(" Nobody owns {slices}.", slices=count(cluster.unowned, "slice"))
                if cluster.unowned
                else ""
            ),
            describe_queues(cluster),
            describe_backlog(cluster),
        ]
    )


def describe_queues(cluster: ClusterInfo) -> str:
    if cluster.queued is None:
        return _("The message broker can't be reached, so nobody knows what waits there.")
    longest = (
        _(", {longest} of them for one slice", longest=cluster.longest) if cluster.queued else ""
    )
    return _(
        "In the broker's queues: {calls}{longest}.",
        calls=count(cluster.queued, "call"),
        longest=longest,
    )


def describe_backlog(cluster: ClusterInfo) -> str:
    oldest = _(", the oldest for {lag}", lag=duration(cluster.lag)) if cluster.unanswered else ""
    return _(
        "Not answered yet: {messages}{oldest}. Not sent yet: {replies}.",
        messages=count(cluster.unanswered, "message"),
        oldest=oldest,
        replies=number_of(cluster.unsent, "{n} reply", "{n} replies"),
    )


def format_versions(versions: Sequence[str]) -> str:
    return _(" and ").join(versions) or _("of no version")


def _short(name: str) -> str:
    """Return a process's name without its unique suffix."""
    return name.rpartition("-")[0] or name


def _state(one: ProcessInfo, now: float) -> str:
    return duration(max(0.0, now - one.since)) if one.is_heard else "silent"


class ChannelsPort(Protocol):
    async def status(self) -> Mapping[str, ChannelHealth]:
        """Return the health of the channels that report it, by name."""
        ...


def describe_channels(channels: Mapping[str, ChannelHealth], zone: tzinfo) -> list[str]:
    """Return a line for each channel with a problem."""
    return [line for name, one in channels.items() for line in _describe_channel(name, one, zone)]


def _describe_channel(name: str, one: ChannelHealth, zone: tzinfo) -> list[str]:
    lines = []
    known = {
        "name": name,
        "time": format_datetime(one.since, zone),
        "why": literal(explain(one.reason)),
    }
    if one.state == "troubled":
        lines.append(
            _(
                "The channel {name} can't be reached since {time}, and is tried again: {why}",
                **known,
            )
        )
    if one.state == "down":
        lines.append(_("The channel {name} does not run, since {time}: {why}", **known))
    if one.forged:
        counted = number_of(one.forged, "{n} call", "{n} calls")
        lines.append(
            _(
                "{calls} to the webhook of {name} did not come from there, and were refused.",
                calls=counted,
                name=name,
            )
        )
    return lines
