"""CowAgent (formerly chatgpt-on-wechat): its workspace, `~/cow`, and its `config.json`.

Conversations are in an SQLite file: `memory/long-term/index.db` in the workspace, in older versions
`sessions/conversations.db`. A message's content is JSON, a text or blocks as Anthropic has them.
Memory is in `MEMORY.md`, `USER.md` and `memory/YYYY-MM-DD.md`; who it is, in `AGENT.md` or in
`SOUL.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any

from memory.messages import ToolCall
from memory.record.store import StoreError
from plugins.moving.reading import Archive, load_json
from plugins.moving.record.foreign import ForeignDatabase, TooLargeRow
from plugins.moving.source import (
    TOO_LARGE,
    ForeignChat,
    ForeignMessage,
    ForeignSetting,
    ImportedProfile,
    MovingError,
    Persona,
    SkippedItems,
    UnreadableChat,
    as_list,
    as_object,
    as_text,
    as_time,
)

_DATABASES = ("memory/long-term/index.db", "sessions/conversations.db")
_SELVES = ("AGENT.md", "SOUL.md")
_DAY = re.compile(r"(?:.*/)?memory/(\d{4}-\d\d-\d\d)\.md")
_BLANK = re.compile(r"[*_]?\*?[(（].*[)）]\*?[*_]?|[-*]\s*\*\*[^*]*\*\*[:：]\s*(?:\*[(（].*)?|---+")
"""Lines of its templates that nobody has filled in."""
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
"""The marks that its templates have around the names of things; a line of memory is shown as it
stands."""
COUNTERPARTS = {
    "agent_max_context_turns": "agent_max_context_turns",
    "agent_max_context_tokens": "agent_max_context_tokens",
    "agent_max_steps": "agent_max_steps",
    "request_timeout": "request_timeout",
}
"""Its settings, and what they are called here."""
_SECRET = re.compile(r"key|secret|token|password", re.IGNORECASE)
_NO_SECRET = frozenset({"agent_max_context_tokens", "conversation_max_tokens"})


class CowAgent:
    """A workspace, or the folder with the configuration; see `ForeignSource`. `skills` is where the
    bot has its own."""

    name = "CowAgent"

    def __init__(self, path: Path, skills: Path = Path("data/skills")) -> None:
        self.skipped = SkippedItems()
        self._skills = skills
        self._archive = Archive(path)
        names = self._archive.names
        there = [name for name in names if name in _DATABASES or name.endswith(".db")]
        found = [_open_database(self._archive, name) for name in there]
        self._databases = [
            one for one in found if one and one.has("messages", "session_id", "content")
        ]
        self._config = as_object(
            self._archive.json("config.json") if "config.json" in names else {}
        )
        is_workspace = {"MEMORY.md", *_SELVES} & {*names} or any(map(_DAY.fullmatch, names))
        if not (self._databases or is_workspace or self._config):
            raise MovingError(
                f"There is nothing of CowAgent in {path}; name its workspace (~/cow unless "
                "agent_workspace says otherwise), or the folder with its config.json."
            )

    def count(self) -> int:
        return sum(one.count("sessions") for one in self._databases)

    def chats(self) -> Iterator[ForeignChat | UnreadableChat]:
        for database in self._databases:
            columns = ("agent_id", "session_id", "channel_type", "title", "created_at", "pinned")
            order = ("created_at", "session_id")
            for row in database.rows("sessions", columns, order=order):
                is_whole = not isinstance(row, TooLargeRow)
                yield self._chat(database, row) if is_whole else UnreadableChat(TOO_LARGE)

    def _chat(self, database: ForeignDatabase, row: Mapping[str, Any]) -> ForeignChat:
        agent, session = as_text(row["agent_id"]), as_text(row["session_id"])
        wanted = {"session_id": row["session_id"], "agent_id": row["agent_id"]}
        columns = ("role", "content", "created_at")
        rows = database.rows("messages", columns, wanted, ("seq", "id"))
        title = as_text(row["title"])
        channel = as_text(row["channel_type"])
        return ForeignChat(
            f"{agent}/{session}" if agent else session,
            title or (f"{session} ({channel})" if channel not in ("", "web") else ""),
            tuple(said for one in rows for said in _read(one, self.skipped)),
            "pinned" if row["pinned"] else "",
            at=as_time(row["created_at"]),
        )

    def read_profile(self) -> ImportedProfile:
        own = ImportedProfile(days=self._days())
        for name in ("USER.md", "MEMORY.md"):
            own.memory += [_BOLD.sub(r"\1", line) for line in _filled_lines(self._text(name))]
        texts = [as_text(self._config.get("character_desc")).strip()]
        texts += [
            "\n".join(_filled_lines(self._text(name), keeps_headings=True)) for name in _SELVES
        ]
        if prompt := "\n\n".join(filter(None, texts)):
            own.personas.append(Persona("cowagent", "who CowAgent was", prompt))
        own.settings += self._settings()
        self._count_rest()
        return own

    def picture(self, name: str) -> bytes | None:
        return None

    def _text(self, name: str) -> str:
        text = self._archive.text(name) if name in self._archive.names else ""
        if text is None:
            self.skipped.add_unread_file()
        return text or ""

    def _days(self) -> dict[date, str]:
        found = {}
        for name in self._archive.names:
            if (match := _DAY.fullmatch(name)) and "/users/" not in f"/{name}":
                try:
                    day = date.fromisoformat(match[1])
                except ValueError:
                    continue
                text = re.sub(r"\A# Daily Memory: [\d-]+\s*", "", self._text(name)).strip()
                if text:
                    found[day] = text
        return found

    def _settings(self) -> list[ForeignSetting]:
        found = []
        for name, value in self._config.items():
            if name in COUNTERPARTS:
                found.append(ForeignSetting(name, COUNTERPARTS[name], value))
            elif name == "character_desc" or value in ("", None, [], False):
                continue
            elif _SECRET.search(name) and name not in _NO_SECRET:
                self.skipped.add(1, "key or token in config.json", "keys and tokens in config.json")
            elif name == "model" and isinstance(value, str):
                self.skipped.remarks.append(
                    f"Its model was {as_text(value)[:80]}: `python main.py init` sets up that or "
                    "another one, with its key."
                )
            else:
                self.skipped.add(1, "other setting in config.json", "other settings in config.json")
        return found

    def _count_rest(self) -> None:
        names = self._archive.names
        add = self.skipped.add
        others = {name.split("/")[2] for name in names if name.startswith("memory/users/")}
        own = "with a memory of their own (memory/users)"
        add(len(others), f"person {own}", f"people {own}")
        skills = sum(PurePosixPath(name).name == "SKILL.md" for name in names)
        there = f"(skills/: look through them, and copy them into {self._skills})"
        add(skills, f"skill {there}", f"skills {there}")
        knowledge = sum(name.startswith("knowledge/") for name in names)
        add(knowledge, "file of knowledge (knowledge/)", "files of knowledge (knowledge/)")
        if "scheduler/tasks.json" in names:
            tasks = self._archive.json("scheduler/tasks.json")
            listed = as_object(tasks).get("tasks", tasks)
            number = len(listed) if isinstance(listed, dict | list) else 1
            new = "(/remind and /job make new ones)"
            add(number, f"scheduled task {new}", f"scheduled tasks {new}")


def _open_database(archive: Archive, name: str) -> ForeignDatabase | None:
    """Return a database in the workspace; None for a file that only has the name of one, as
    anything may that an agent has put there. Raises MovingError and StoreError."""
    place = archive.place(name)
    if place is None:
        raise MovingError(f"{archive.path} is a ZIP; unpack it, and name the folder.")
    try:
        return ForeignDatabase(place)
    except StoreError:
        if name.endswith(_DATABASES):
            raise
        return None


_BLOCKS = {"text", "thinking", "redacted_thinking", "tool_use", "tool_result"}


def _read(row: Mapping[str, Any], skipped: SkippedItems) -> list[ForeignMessage]:
    """Return what a row of `messages` says; what can't be read of it is counted."""
    if isinstance(row, TooLargeRow):
        skipped.add_too_large("message", "messages")
        return []
    at, kept, role = as_time(row["created_at"]), as_text(row["content"]), row["role"]
    content = load_json(kept)
    if not isinstance(content, str | list):
        content = kept
    blocks = [as_object(one) for one in content] if isinstance(content, list) else []
    text = content if isinstance(content, str) else _texts(blocks)
    for kind in (as_text(one.get("type")) for one in blocks):
        if kind not in _BLOCKS:
            skipped.add_unread("content", kind)
    if role == "user":
        results = [_read_result(one, row) for one in blocks if one.get("type") == "tool_result"]
        return [*results, ForeignMessage("user", text, at)] if text.strip() else results
    if role != "assistant":
        skipped.add_unread("message", as_text(role))
        return []
    thoughts = [as_text(one.get("thinking")) for one in blocks if one.get("type") == "thinking"]
    calls = tuple(_read_call(one) for one in blocks if one.get("type") == "tool_use")
    reasoning = "\n\n".join(filter(None, thoughts))
    return [ForeignMessage("assistant", text, at, reasoning=reasoning, calls=calls)]


def _texts(blocks: list[Mapping[str, Any]]) -> str:
    return "\n\n".join(
        filter(None, (as_text(one.get("text")) for one in blocks if one.get("type") == "text"))
    )


def _read_call(block: Mapping[str, Any]) -> ToolCall:
    arguments = json.dumps(as_object(block.get("input")), ensure_ascii=False)
    return ToolCall(as_text(block.get("id")), as_text(block.get("name")), arguments)


def _read_result(block: Mapping[str, Any], row: Mapping[str, Any]) -> ForeignMessage:
    content = block.get("content")
    text = _texts([as_object(one) for one in as_list(content)]) or as_text(content)
    return ForeignMessage(
        "tool",
        text,
        as_time(row["created_at"]),
        call_id=as_text(block.get("tool_use_id")),
        tool="tool",
        is_error=block.get("is_error") is True,
    )


def _filled_lines(text: str, *, keeps_headings: bool = False) -> list[str]:
    """Return the lines that say something: not the titles and blanks of its templates."""
    found = []
    for line in text.splitlines():
        said = line.strip()
        if said and not _BLANK.fullmatch(said) and (keeps_headings or not said.startswith("#")):
            found.append(line.rstrip() if keeps_headings else said)
    return [] if all(one.lstrip().startswith("#") for one in found) else found
