"""Skills: instructions for certain tasks. The model gets their names, and reads the rest when it
needs it.

A skill is a folder with a `SKILL.md` that begins with YAML front matter: its `name` and its
`description`. An audience's own skills are in its `skills/`, shared ones in the data folder's.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from agent.tools.workspace import open_file, plain_errors

log = logging.getLogger(__name__)

FOLDER = "skills"
FILE = "SKILL.md"
LONGEST_MATTER = 8_000
"""The maximum bytes of a skill's front matter."""
LONGEST_BODY = 100_000
"""The maximum bytes of a skill that are shown to the model."""
MOST = 100
"""The maximum number of skills read from one folder."""
_LONGEST = {"name": 64, "description": 1_024}  # characters, the usual limits


class SkillError(Exception):
    """Raised for a skill that can't be used; the text completes "it was left out: …"."""


class Skill(Struct, frozen=True):
    """A skill: its name and description for the model, and the place of the rest: `file` is below
    `root`."""

    name: str
    description: str
    root: Path
    file: Path

    def text(self) -> str:
        """Return the instructions, without the front matter. Raises ToolError."""
        with plain_errors(self.name), open_file(self.root, self.file) as file:
            content = file.read(LONGEST_BODY + 1)
        body = content[:LONGEST_BODY].decode("utf-8", "replace")
        rest = "\n[The skill goes on; only its beginning is shown.]"
        return _split_front_matter(body)[1].strip() + (rest if len(content) > LONGEST_BODY else "")


class Library:
    """The skills on disk. Each is parsed once, and again when its file has changed."""

    def __init__(self, shared: Path) -> None:
        """Set the folder that contains the shared `skills/`."""
        self._shared = shared
        self._known: dict[str, tuple[tuple[int, int, int], Skill | SkillError]] = {}

    def of(self, workspace: Path) -> tuple[Skill, ...]:
        """Return the skills of an audience, by name; its own override shared ones of the same name.
        It is fast, since it is called at every step: one stat per file."""
        found = [
            skill
            for root in (self._shared, workspace)
            if os.path.isdir(f"{root}/{FOLDER}")  # rarely
            for skill in self._in(root)
        ]
        by_name = {skill.name: skill for skill in found}
        return tuple(by_name[name] for name in sorted(by_name))

    def describe_left_out(self, workspace: Path) -> tuple[str, ...]:
        """Describe the contents of these folders that are not valid skills, in a sentence each."""
        return (*self._iter_left_out(self._shared), *self._iter_left_out(workspace))

    def _in(self, root: Path) -> Iterator[Skill]:
        folder = f"{root}/{FOLDER}"
        for name in _names(folder)[:MOST]:
            file = f"{folder}/{name}/{FILE}"
            with suppress(OSError):  # a folder without a skill, or a deleted one
                skill = self._read(root, file, os.lstat(file))
                if isinstance(skill, Skill):
                    yield skill

    def _iter_left_out(self, root: Path) -> Iterator[str]:
        folder = f"{root}/{FOLDER}"
        names = _names(folder)
        taken = {skill.name: skill.file for skill in self._in(root)}
        for name in names[:MOST]:
            file = f"{folder}/{name}/{FILE}"
            try:
                skill = self._read(root, file, os.lstat(file))
            except OSError:
                if wrong := [other for other in _names(f"{folder}/{name}") if _is_nearly(other)]:
                    yield f"{folder}/{name}/{wrong[0]} is not read as a skill; rename it to {FILE}."
                continue
            if isinstance(skill, SkillError):
                yield f"The skill {file} was left out: {skill}."
            elif taken[skill.name] != skill.file:
                yield (
                    f"The skill {file} was left out: {taken[skill.name]} is also "
                    f"named {skill.name!r}; rename one of them."
                )
        if more := names[MOST:]:
            shown = ", ".join(more[:5]) + (", …" if len(more) > 5 else "")
            yield f"{folder} holds {len(names)} skills, and {MOST} are read; left out: {shown}."

    def _read(self, root: Path, file: str, status: os.stat_result) -> Skill | SkillError:
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._known.get(file)
        if known is None or known[0] != version:
            known = self._known[file] = (version, _load(root, Path(file), status))
        return known[1]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # no skills here
        return []


def _is_nearly(name: str) -> bool:
    return name.lower() == FILE.lower()


def _load(root: Path, file: Path, status: os.stat_result) -> Skill | SkillError:
    """Return the skill in a file, or the reason why it can't be used, which is logged."""
    try:
        if not stat.S_ISREG(status.st_mode):
            raise SkillError("it is not a regular file")
        with open_file(root, file) as stream:
            start = stream.read(LONGEST_MATTER + 1)
        fields = front_matter(start.decode("utf-8", "replace"))
        return Skill(_line(fields, "name"), _line(fields, "description"), root, file)
    except (SkillError, OSError) as error:
        log.warning("The skill %s was left out: %s.", file, error)
        return SkillError(str(error))


def front_matter(text: str) -> dict[str, Any]:
    """Return the fields at the beginning of a `SKILL.md`. Raises SkillError."""
    matter, _ = _split_front_matter(text)
    if not matter:
        lines = f"two lines --- within its first {LONGEST_MATTER:,} bytes"
        raise SkillError(f"it does not begin with YAML between {lines}")
    try:
        _refuse_aliases(matter)
        fields = yaml.safe_load(matter)
    except Exception as error:  # noqa: BLE001 - a tag like !!timestamp may raise any error
        reason = str(error).split("\n", 1)[0] or type(error).__name__
        raise SkillError(f"its front matter is not valid YAML ({reason})") from None
    if not isinstance(fields, dict):
        raise SkillError("its front matter has no fields; it needs name: and description:")
    return fields


def _split_front_matter(text: str) -> tuple[str, str]:
    """Return front matter and body; "" and the whole text if there is no front matter."""
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    if not lines or lines[0].rstrip() != "---":
        return "", text
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return "".join(lines[1:number]), "".join(lines[number + 1 :])
    return "", text


def _refuse_aliases(matter: str) -> None:
    """Raise ValueError for YAML aliases, by which a few lines can expand to billions; skills don't
    need them."""
    if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(matter)):
        raise ValueError("it has aliases")


def _line(fields: dict[str, Any], name: str) -> str:
    """Return a field as one line, which can't imitate another part of the prompt."""
    value = fields.get(name)
    line = (
        " ".join(value.encode(errors="replace").decode().split()) if isinstance(value, str) else ""
    )
    if not line:
        raise SkillError(f"it has no {name}")
    if len(line) > _LONGEST[name]:
        raise SkillError(f"its {name} is longer than {_LONGEST[name]:,} characters")
    return line


def format_skills(skills: Sequence[Skill]) -> str:
    """Return the skills formatted for the system prompt; "" without any."""
    if not skills:
        return ""
    lines = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)
    return (
        "You have skills: instructions for certain tasks. When one fits what is asked, read it "
        f"with read_skill before you begin, and follow it.\n{lines}"
    )
