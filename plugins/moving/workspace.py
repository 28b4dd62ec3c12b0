"""The base of all programs that people move from, an archive of their files, and a workspace as
agents have it (`MEMORY.md`, a file for each day, skills); and scheduled tasks of OpenClaw 2026.9.6
and Hermes 0.19.0, imported as jobs that are paused until a person resumes them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent.models.shapes import as_mapping
from bot.app import App
from channels.message import Address, clean_text
from memory.keys import ConversationKey
from plugins.api import CommandError
from plugins.jobs.orders import JobOrders
from plugins.jobs.record import NewJob
from plugins.jobs.recurrence import RuleError, check
from plugins.moving.reading import LEVELS, Archive
from plugins.moving.record import ForeignDatabase
from plugins.moving.source import (
    ForeignChat,
    ForeignSchedule,
    ImportedProfile,
    MovingError,
    SkippedItems,
    UnreadableChat,
    as_text,
    as_time,
)
from plugins.moving.turns import decode_picture

DAY = re.compile(r"(?:.*/)?memory/(\d{4}-\d\d-\d\d)(?:-[\w-]+)?\.md")
_BLANK = re.compile(
    r"[*_]?\*?[(（].*[)）]\*?[*_]?"
    r"|[-*]\s*\*\*(?:[^*]*\*\*[:：]|[^*]*[:：]\*\*)\s*(?:[*_][(（].*)?"
    r"|---+|```\w*"
)
"""Lines of templates that were never filled in."""
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
"""The marks around names in templates; a line of memory is shown as plain text."""
_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
_OLD = re.compile(r"<!--[^>]*(?:\bstatus:\s*superseded\b|YYYY-MM-DD)[^>]*-->\s*[^\n]*")
"""A line of memory below a comment that marks it as outdated or as part of a template."""
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_DIRECTIVES = re.compile(r"^## Directives$(.*?)(?:^## |\Z)", re.DOTALL | re.MULTILINE)
"""The part of OpenClaw's `USER.md` with facts about the person; the rest describes its format."""
_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_MOST_SKILLS = 20  # named in the report


class ForeignSource:
    """The data of another program, as people call it by `name`; `skills` is where the bot has its
    own. `skipped` fills up as things are read. All of it may raise MovingError."""

    name: str
    levels = LEVELS

    def __init__(self, path: Path, skills: Path = Path("data/skills")) -> None:
        self.skipped, self._skills = SkippedItems(), skills
        self._archive = Archive(path, self.levels)

    def count(self) -> int:
        """Return the number of conversations, if it is quickly available; else 0."""
        return 0

    def chats(self) -> Iterator[ForeignChat | UnreadableChat]:
        """Return the conversations, one after the other."""
        return iter(())

    def read_profile(self) -> ImportedProfile:
        """Return the other data. Called after `chats`, since some of it is in the conversations."""
        return ImportedProfile()

    def picture(self, name: str) -> bytes | None:
        """Return the bytes of a picture; None if it does not exist, or is too large."""
        return decode_picture(name)

    def _open_database(self, name: str) -> ForeignDatabase:
        """Return a database in the archive. Raises MovingError and StoreError."""
        place = self._archive.place(name)
        if place is None:
            raise MovingError(f"{self._archive.path} is a ZIP; unpack it, and name the folder.")
        return ForeignDatabase(place)


class Workspace:
    """The workspaces in an archive: one at its top, or in folders of it (`at`)."""

    def __init__(self, archive: Archive, skipped: SkippedItems, at: str = "") -> None:
        self._archive, self._skipped, self._at = archive, skipped, at

    def text(self, name: str) -> str:
        """Return the text of a file; "" if there is none, or it can't be read."""
        place = f"{self._at}{name}"
        text = self._archive.text(place) if self._archive.has(place) else ""
        if text is None:
            self._skipped.add_unread_file()
        return text or ""

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file that are to be remembered."""
        text = _MATTER.sub("", self.text(name).replace("\r\n", "\n"))
        text = _COMMENT.sub("", _OLD.sub("", _FENCED.sub("", text)))
        if found := _DIRECTIVES.search(text):
            text = "\n".join(one for one in found[1].splitlines() if one.startswith(("-", "*")))
        return [_BOLD.sub(r"\1", line) for line in _filled_lines(text, keeps_headings=False)]

    def page(self, name: str) -> str:
        """Return the text of a file, without the blanks of its template."""
        return "\n".join(_filled_lines(_COMMENT.sub("", self.text(name)), keeps_headings=True))

    def days(self) -> dict[date, str]:
        """Return the notes of days; those of one day are joined."""
        found: dict[date, str] = {}
        for name in self._names():
            if (match := DAY.fullmatch(name)) and "/users/" not in f"/{name}":
                try:
                    day = date.fromisoformat(match[1])
                except ValueError:
                    continue
                text = re.sub(r"\A# Daily Memory: [\d-]+\s*", "", self.text(name)).strip()
                if text:
                    found[day] = "\n\n".join(filter(None, (found.get(day), text)))
        return found

    def name_skills(self, skills: Path) -> None:
        """Count the skills, and name them in the report; `skills` is the bot's own folder of
        skills."""
        files = [PurePosixPath(name) for name in self._names()]
        found = sorted({file.parent.name for file in files if file.name == "SKILL.md"})
        there = f"(skills/: look through them, and copy them into {skills})"
        self._skipped.add_some(len(found), "skill", there)
        if found:
            more = f" and {len(found) - _MOST_SKILLS} more" if len(found) > _MOST_SKILLS else ""
            self._skipped.remarks.append(f"Its skills: {', '.join(found[:_MOST_SKILLS])}{more}.")

    def _names(self) -> Iterator[str]:
        for name in self._archive.names:
            if name.startswith(self._at):
                yield name.removeprefix(self._at)


def _filled_lines(text: str, *, keeps_headings: bool) -> list[str]:
    """Return the lines with content, without the titles and blanks of templates."""
    found = []
    for line in text.splitlines():
        content = line.strip()
        if (
            content
            and not _BLANK.fullmatch(content)
            and (keeps_headings or not content.startswith("#"))
        ):
            found.append(line.rstrip() if keeps_headings else content)
    return [] if all(one.lstrip().startswith("#") for one in found) else found


_FIELDS = re.compile(r"\S+(?: +\S+){4}")
_MOST_NAMED, _LONGEST_NAME = 20, 60
_OWN_JOBS = ("heartbeat:", "memory-core:", "skill-collection-review:")
"""Beginnings of the keys under which OpenClaw declares jobs that nobody asked for."""


def read_openclaw_job(job: Mapping[str, Any], skipped: SkippedItems) -> list[ForeignSchedule]:
    """Return a job of OpenClaw as a task; none, and a remark, if it has no counterpart."""
    schedule, payload = as_mapping(job.get("schedule")), as_mapping(job.get("payload"))
    made = ForeignSchedule(
        as_text(job.get("name")) or as_text(job.get("id")),
        as_text(payload.get("message")) or as_text(payload.get("text")),
    )
    is_own = as_text(job.get("declarationKey")).startswith(_OWN_JOBS)
    if is_own or payload.get("kind") == "heartbeat":
        skipped.add(1, "scheduled task of OpenClaw's own", "scheduled tasks of OpenClaw's own")
        return []
    zone = as_text(schedule.get("tz"))
    match schedule.get("kind"):
        case "cron":
            return _cron(made, as_text(schedule.get("expr")), zone, skipped)
        case "every":
            begun = schedule.get("anchorMs") or job.get("createdAtMs")
            return _every(made, schedule.get("everyMs"), 1_000, begun, skipped)
        case "at":
            return _once(made, schedule.get("at") or schedule.get("atMs"), skipped)
    return _refuse(made, "it comes at no time", skipped)


def read_hermes_job(job: Mapping[str, Any], skipped: SkippedItems) -> list[ForeignSchedule]:
    """Return a job of Hermes as a task; none, and a remark, if it has no counterpart."""
    schedule = as_mapping(job.get("schedule"))
    made = ForeignSchedule(
        as_text(job.get("name")) or as_text(job.get("id")), as_text(job.get("prompt"))
    )
    if job.get("no_agent") is True:
        return _refuse(made, "it runs a script", skipped)
    match schedule.get("kind"):
        case "cron":
            return _cron(made, as_text(schedule.get("expr")), "", skipped)
        case "interval":
            return _every(made, schedule.get("minutes"), 1 / 60, job.get("created_at"), skipped)
        case "once":
            return _once(made, schedule.get("run_at"), skipped)
    return _refuse(made, "it comes at no time", skipped)


async def create_jobs(
    app: App | None,
    address: Address,
    key: ConversationKey,
    found: Sequence[ForeignSchedule],
    skipped: SkippedItems,
    *,
    is_rehearsal: bool,
) -> int:
    """Create jobs for tasks in a chat, and return the number of new ones. Tasks that can't be jobs
    are reported."""
    imported = set[tuple[object, ...]]()
    orders = app.features.services.get(JobOrders) if app else None
    zone = app.config.zone() if app else None
    home = zone.key if isinstance(zone, ZoneInfo) else "UTC"
    for one in found:
        new = NewJob("prompt", clean_text(one.text), one.rule, one.anchor, one.zone or home)
        try:
            check_time(new)
            is_new = True
            if isinstance(orders, JobOrders):
                is_new = await orders.import_entry(address, key, new, is_rehearsal=is_rehearsal)
            if is_new:  # of equal ones, a rehearsal does not see that the first was stored
                imported.add((new.text.strip(), new.rule, 0.0 if new.rule else new.anchor))
        except (CommandError, RuleError) as error:
            _refuse(one, str(error), skipped)
    return len(imported)


def check_time(new: NewJob) -> None:
    """Raise RuleError for a task that is never due, or too often."""
    now = time.time()
    if new.rule:
        check(new.rule, ZoneInfo(new.zone), now)
    elif new.anchor <= now:
        raise RuleError("its time has passed")


def _cron(
    made: ForeignSchedule, fields: str, zone: str, skipped: SkippedItems
) -> list[ForeignSchedule]:
    fields = " ".join(fields.split())
    if not _FIELDS.fullmatch(fields):
        return _refuse(made, "its time is not five fields of crontab", skipped)
    try:
        ZoneInfo(zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return _refuse(made, "its time zone is not known here", skipped)
    return _with_text(made, f"cron {fields}", 0.0, zone, skipped)


def _every(
    made: ForeignSchedule, number: object, parts: float, begun: object, skipped: SkippedItems
) -> list[ForeignSchedule]:
    """Return the task with an interval; `parts` is the number of the unit's parts in a second."""
    seconds = number / parts if isinstance(number, int | float) and abs(number) < 1e15 else 0
    if not 60 <= seconds <= 1e10:
        return _refuse(made, "it comes too often, or never", skipped)
    at = as_time(begun)
    return _with_text(made, f"every {int(seconds)}", at.timestamp() if at else 0.0, "", skipped)


def _once(made: ForeignSchedule, value: object, skipped: SkippedItems) -> list[ForeignSchedule]:
    at = as_time(value)
    if at is None or at.timestamp() <= time.time():
        return _refuse(made, "its time has passed", skipped)
    return _with_text(made, "", at.timestamp(), "", skipped)


def _with_text(
    made: ForeignSchedule, rule: str, anchor: float, zone: str, skipped: SkippedItems
) -> list[ForeignSchedule]:
    if not made.text.strip():
        return _refuse(made, "it asks the model nothing", skipped)
    return [ForeignSchedule(made.name, made.text, rule, anchor, zone)]


def _refuse(one: ForeignSchedule, why: str, skipped: SkippedItems) -> list[ForeignSchedule]:
    """Report a task that was not imported, by its name; after many, only their number."""
    name = " ".join(clean_text(one.name).split())[:_LONGEST_NAME] or "without a name"
    sentence = f"The scheduled task {name}: {why.rstrip('.')}."
    if sum(remark.startswith("The scheduled task ") for remark in skipped.remarks) < _MOST_NAMED:
        skipped.remarks.append(sentence)
    else:
        skipped.add(1, "more scheduled task", "more scheduled tasks")
    return []
