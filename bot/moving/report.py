"""What an import did, or would do, in words."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

from bot.moving.arrival import Arrived
from bot.moving.source import ForeignSource

_MOST, _LONGEST = 10, 80  # things of a kind that are named, and characters of each


def describe(
    arrived: Arrived,
    source: ForeignSource,
    options: argparse.Namespace,
    agents: Sequence[str],
) -> str:
    """The report."""
    would = options.dry_run
    lines = [f"{'Would import' if would else 'Imported'} from {source.name}:"]
    lines += [f"  {line}" for line in _describe_chats(arrived, _where(options))]
    lines += [f"  {line}" for line in _describe_memory(arrived, options)]
    lines += [f"  {line}" for line in _describe_settings(arrived, options, agents)]
    if rest := [*_describe_rest(arrived, source)]:
        lines += ["Not taken:", *(f"  {line}" for line in rest)]
    if would:
        lines.append("Nothing was written. The same command without --dry-run brings it in.")
    elif arrived.turns:
        lines.append(_say_where(options))
    return "\n".join(lines)


def _describe_chats(arrived: Arrived, where: str) -> list[str]:
    lines = []
    if arrived.turns and arrived.first and arrived.last:
        span = f"{arrived.first:%Y-%m-%d} to {arrived.last:%Y-%m-%d}"
        grown = f", and {_count(arrived.grown, 'one')} that had grown" if arrived.grown else ""
        lines.append(
            f"{_count(arrived.new, 'conversation')}{grown}, {where}: "
            f"{_count(arrived.turns, 'turn')}, {_count(arrived.messages, 'message')}, {span}"
        )
    if arrived.known:
        lines.append(f"here already, as they are: {_count(arrived.known, 'conversation')}")
    if arrived.pictures:
        lines.append(_count(arrived.pictures, "picture"))
    return lines or ["no conversation that is new"]


def _describe_memory(arrived: Arrived, options: argparse.Namespace) -> list[str]:
    lines = []
    chat = "its chats" if options.source == "parley" else f"the chat {options.to}/main"
    if arrived.memory:
        waits = "" if options.mine else "; they wait there for your word: /memory diff"
        lines.append(f"{_count(arrived.memory, 'line')} of memory, for {chat}{waits}")
    if arrived.days:
        waits = "" if options.mine else "; they wait there: /memory pending"
        lines.append(f"{_count(arrived.days, 'part')} of daily memory, for {chat}{waits}")
    return lines


def _describe_settings(
    arrived: Arrived, options: argparse.Namespace, agents: Sequence[str]
) -> list[str]:
    is_left = not options.with_settings
    lines = []
    if agents:
        verb = "would become agents" if is_left or options.dry_run else "became agents"
        lines.append(f"personas that {verb} (/agent NAME): {_few(agents)}")
    if arrived.settings:
        verb = "that have a counterpart" if is_left or options.dry_run else "that were set"
        lines.append(f"settings {verb}: {_few(arrived.settings)}")
    if is_left and lines:
        lines.append("neither is taken without --with-settings")
    return lines


def _describe_rest(arrived: Arrived, source: ForeignSource) -> list[str]:
    lines = [f"{number:,} {what}" for what, number in sorted(source.remains.counts.items())]
    if arrived.unreadable:
        reasons = Counter(arrived.unreadable).most_common(3)
        lines += [f"{_count(n, 'conversation')} that can't be read: {why}" for why, n in reasons]
    if arrived.apart:
        lines.append(
            f"{_count(arrived.apart, 'conversation')} that went on here in another way than there"
        )
    if arrived.empty:
        lines.append(f"{_count(arrived.empty, 'conversation')} in which nothing was said")
    if arrived.lacking:
        lines.append(f"{_count(arrived.lacking, 'picture')} that are not there, or too large")
    return [*lines, *source.remains.remarks]


def _where(options: argparse.Namespace) -> str:
    return "where they were" if options.source == "parley" else f"into {options.to}"


def _say_where(options: argparse.Namespace) -> str:
    if options.source == "parley":
        return "Each stands where it was: in its chat, on its channel."
    if options.to == "terminal":
        return "Look at them with python main.py, and /resume there."
    return "Look at them with python main.py --web: they stand in the list beside the page."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    shown = [" ".join(name.split())[:_LONGEST] for name in names[:_MOST]]
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
