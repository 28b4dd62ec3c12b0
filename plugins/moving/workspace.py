"""The base of all programs that people move from, an archive of their files, and a workspace as
agents have it: `MEMORY.md`, `USER.md`, a file for each day, who the agent is, and skills.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path, PurePosixPath

from plugins.moving.blocks import decode_picture
from plugins.moving.reading import LEVELS, Archive
from plugins.moving.record import ForeignDatabase
from plugins.moving.source import (
    ForeignChat,
    ImportedProfile,
    MovingError,
    SkippedItems,
    UnreadableChat,
)

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
        said = line.strip()
        if said and not _BLANK.fullmatch(said) and (keeps_headings or not said.startswith("#")):
            found.append(line.rstrip() if keeps_headings else said)
    return [] if all(one.lstrip().startswith("#") for one in found) else found
