"""Daily memory files: `memory/YYYY-MM-DD.md` in an audience's folder.

A section a summary, under a heading with time, conversation and turns. Sections are appended in
one write; each carries the number of its job, so that a job that is done again after a crash is
not written twice.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from memory.keys import ConversationKey


@dataclass(frozen=True, slots=True)
class Section:
    """One entry of a daily file: `at` in the bot's time zone, `turns` as words."""

    key: ConversationKey
    at: datetime
    turns: str
    text: str
    job: int


def folder(data: Path, audience: str) -> Path:
    """Where an audience's daily files are."""
    return data / "audiences" / audience / "memory"


def append(data: Path, section: Section) -> Path:
    """Add a section to the day's file, unless it is there; on disk when this returns."""
    path = folder(data, section.key.audience) / f"{section.at:%Y-%m-%d}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    mark = f"<!-- job {section.job} -->"
    if any(mark in file.read_text("utf-8", "replace") for file in _recent(path.parent)):
        return path
    heading = f"## {section.at:%H:%M} · {_unmarked(section.key.id)} · {section.turns} {mark}"
    block = f"{heading}\n\n{_unmarked(section.text)}\n\n".encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, block)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return path


def _unmarked(text: str) -> str:
    """Text in which nothing passes for a mark of ours, whoever wrote it."""
    return text.strip().replace("<!--", "&lt;!--")


def _recent(folder_: Path) -> list[Path]:
    """The two newest files: a job done again after midnight finds its section in the older one."""
    return sorted(folder_.glob("????-??-??.md"))[-2:]


def days(data: Path, audience: str) -> list[date]:
    """The days that have a file, oldest first."""
    files = sorted(folder(data, audience).glob("????-??-??.md"))
    found = []
    for file in files:
        try:
            found.append(date.fromisoformat(file.stem))
        except ValueError:
            continue  # a person's own file beside ours
    return found


def read(data: Path, audience: str, day: date) -> str:
    """A day's file, "" where there is none."""
    path = folder(data, audience) / f"{day.isoformat()}.md"
    return path.read_text("utf-8", errors="replace") if path.is_file() else ""
