"""The report of an import or its rehearsal."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bot.paragraphs import count
from channels.language import format_date
from plugins.moving.importer import ImportResult
from plugins.moving.workspace import ForeignSource

_MOST, _LONGEST = 10, 80  # maximum names of a kind, and characters of each
_REASONS = 3  # maximum reasons for unreadable conversations


def describe(
    result: ImportResult,
    source: ForeignSource,
    options: argparse.Namespace,
    agents: Sequence[str],
) -> str:
    """Return the report of an import."""
    would = options.dry_run
    lines = [f"{'Would import' if would else 'Imported'} from {source.name}:"]
    lines += [f"  {line}" for line in _describe_chats(result, _where(options))]
    lines += [f"  {line}" for line in _describe_memory(result, options)]
    lines += [f"  {line}" for line in _describe_settings(result, options, agents)]
    if rest := [*_describe_rest(result, source)]:
        lines += ["Not taken:", *(f"  {line}" for line in rest)]
    if would:
        lines.append("Nothing was written. The same command without --dry-run imports it.")
    elif result.turns:
        lines.append(_describe_destination(options))
    return "\n".join(lines)


def _describe_chats(result: ImportResult, where: str) -> list[str]:
    lines = []
    if result.turns and result.first and result.last:
        span = f"{format_date(result.first)} to {format_date(result.last)}"
        lines.append(
            f"{_count_chats(result)}, {where}: {count(result.turns, 'turn')}, "
            f"{count(result.messages, 'message')}, {span}"
        )
    if result.known:
        lines.append(f"already imported, unchanged: {count(result.known, 'conversation')}")
    if result.pictures:
        lines.append(count(result.pictures, "picture"))
    return lines or ["no new conversation"]


def _count_chats(result: ImportResult) -> str:
    """Return a text like "2 conversations, and 1 that had grown"."""
    if not result.grown:
        return count(result.new, "conversation")
    if not result.new:
        return f"{count(result.grown, 'conversation')} that had grown"
    return f"{count(result.new, 'conversation')}, and {result.grown:,} that had grown"


def describe_nothing(result: ImportResult, source: ForeignSource, path: Path) -> str:
    """Return the reason why nothing could be read."""
    if not result.unreadable:
        return f"Nothing in {path} can be imported: nothing of {source.name} is in it."
    reasons = Counter(result.unreadable).most_common(_REASONS)
    sentences = (f"{count(n, 'conversation')} can't be read: {why}." for why, n in reasons)
    return f"Nothing in {path} can be imported. {' '.join(sentences)}"


def _describe_memory(result: ImportResult, options: argparse.Namespace) -> list[str]:
    lines = []
    chat = "its chats" if options.source == "parley" else f"the chat {options.to}/main"
    if result.memory:
        waits = f"; {_wait(result.memory)} there for your approval: /memory diff"
        text = f"{count(result.memory, 'line')} of memory, for {chat}"
        lines.append(text if options.mine else f"{text}{waits}")
    if result.days:
        waits = f"; {_wait(result.days)} there: /memory pending"
        text = f"{count(result.days, 'part')} of daily memory, for {chat}"
        lines.append(text if options.mine else f"{text}{waits}")
    if result.schedules:
        text = f"{count(result.schedules, 'scheduled task')}, for {chat}"
        lines.append(f"{text}; paused: /jobs there lists them, and /jobs resume N starts one")
    for (noun, where), number in result.carried.items():
        text = f"{count(number, noun)}, for its chats"
        lines.append(text if options.mine else f"{text}; {_wait(number)} there: {where}")
    return lines


def _wait(number: int) -> str:
    return "it waits" if number == 1 else "they wait"


def _describe_settings(
    result: ImportResult, options: argparse.Namespace, agents: Sequence[str]
) -> list[str]:
    is_left = not options.with_settings
    more = "; only with --with-settings" if is_left else ""
    lines = []
    if agents:
        verb = "would become" if is_left or options.dry_run else "became"
        what = f"persona that {verb} an agent", f"personas that {verb} agents"
        lines.append(f"{count(len(agents), *what)} (/agent NAME): {_few(agents)}{more}")
    if result.settings:
        is_set = not (is_left or options.dry_run)
        what = (
            ("setting that was set", "settings that were set")
            if is_set
            else ("setting that has a counterpart", "settings that have a counterpart")
        )
        lines.append(f"{count(len(result.settings), *what)}: {_few(result.settings)}{more}")
    return lines


def _describe_rest(result: ImportResult, source: ForeignSource) -> list[str]:
    lines = [count(number, *what) for what, number in sorted(source.skipped.counts.items())]
    reasons = Counter(result.unreadable).most_common(_REASONS)
    lines += [f"{count(n, 'conversation')} that can't be read: {why}" for why, n in reasons]
    if result.apart:
        lines.append(f"{count(result.apart, 'conversation')} that continued differently here")
    if result.empty:
        lines.append(f"{count(result.empty, 'conversation')} in which nothing was said")
    if result.lacking:
        lack = "not there, or too large"
        lines.append(count(result.lacking, f"picture that is {lack}", f"pictures that are {lack}"))
    return [*lines, *source.skipped.remarks]


def _where(options: argparse.Namespace) -> str:
    return "where they were" if options.source == "parley" else f"into {options.to}"


def _describe_destination(options: argparse.Namespace) -> str:
    if options.source == "parley":
        return "Each is where it was: in its chat, on its channel."
    if options.to == "terminal":
        return "Look at them with python main.py, and /resume there."
    return "Look at them with python main.py --web: they are in the list of conversations."


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    shown = [" ".join(name.split())[:_LONGEST] for name in names[:_MOST]]
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
