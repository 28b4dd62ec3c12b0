"""The processes that are one bot, as `/status` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from channels.language import _, number_of
from plugins.wording import cell, count, duration, table


class ProcessInfo(Struct, frozen=True):
    """A process of the bot: `since` in seconds since 1970, `slices` how many it owns; one that is
    not heard of has given no sign of life for some seconds."""

    name: str
    role: str
    version: str
    since: float
    slices: int
    is_heard: bool


class ClusterInfo(Struct, frozen=True):
    """All of them. `unowned` is how many slices nobody has; `queued` and `longest` how many calls
    lie in all queues, and in the longest, that no process has in hand (None: the broker can't be
    asked); `lag` for how many seconds the oldest of the `unanswered` messages waits; `unsent` how
    many replies are not sent."""

    processes: tuple[ProcessInfo, ...]
    unowned: int
    queued: int | None
    longest: int | None
    unanswered: int
    lag: float
    unsent: int

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of those that are heard of."""
        return tuple(sorted({one.version for one in self.processes if one.is_heard}))


class ProcessesPort(Protocol):
    async def look(self) -> ClusterInfo | None:
        """Return the processes that are there, and what waits; None where one process is the bot.
        Raises StoreError."""
        ...


def describe(cluster: ClusterInfo, now: float) -> str:
    """Return a table of the processes, and what waits between them; `now` in seconds since 1970."""
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
    """Without what makes it differ from all that ever ran."""
    return name.rpartition("-")[0] or name


def _state(one: ProcessInfo, now: float) -> str:
    return duration(max(0.0, now - one.since)) if one.is_heard else "silent"
