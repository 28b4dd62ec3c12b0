"""CowAgent (formerly chatgpt-on-wechat): its workspace, `~/cow`, and its `config.json`.

Conversations are in an SQLite file: `memory/long-term/index.db` in the workspace, in older versions
`sessions/conversations.db`. A message's content is JSON, a text or blocks in Anthropic's format.
Memory is in `MEMORY.md`, `USER.md` and `memory/YYYY-MM-DD.md`; the persona is in `AGENT.md` or in
`SOUL.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.models.shapes import as_mapping
from memory.record.store import StoreError
from plugins.moving.reading import load_json
from plugins.moving.record import ForeignDatabase, TooLargeRow
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
    as_text,
    as_time,
    standing_of,
)
from plugins.moving.turns import read_blocks
from plugins.moving.workspace import DAY, ForeignSource, Workspace

_DATABASES = ("memory/long-term/index.db", "sessions/conversations.db")
_SELVES = ("AGENT.md", "SOUL.md")
_OF_OTHERS = re.compile(
    r"(?:workspace[^/]*/)?(?:AGENTS|IDENTITY|TOOLS|HEARTBEAT|BOOTSTRAP)\.md$|openclaw\.json$"
    r"|agents/[^/]+/(?:agent|sessions)/|cron/jobs\.json$|state\.db$"
)
"""Files of OpenClaw and Hermes, which also have a SOUL.md and daily memory files."""
COUNTERPARTS = {
    "agent_max_context_turns": "agent_max_context_turns",
    "agent_max_context_tokens": "agent_max_context_tokens",
    "agent_max_steps": "agent_max_steps",
    "request_timeout": "request_timeout",
}
"""Its settings, with our names for them."""
_SECRET = re.compile(r"key|secret|token|password", re.IGNORECASE)
_NO_SECRET = frozenset({"agent_max_context_tokens", "conversation_max_tokens"})


class CowAgent(ForeignSource):
    """A workspace, or the folder with the configuration."""

    name = "CowAgent"

    def __init__(self, path: Path, skills: Path = Path("data/skills")) -> None:
        super().__init__(path, skills)
        self._files = Workspace(self._archive, self.skipped)
        names = self._archive.names
        there = [name for name in names if name in _DATABASES or name.endswith(".db")]
        found = [self._try_database(name) for name in there]
        self._databases = [one for one in found if one and one.has("sessions", "session_id")]
        self._config = as_mapping(
            self._archive.json("config.json") if "config.json" in names else {}
        )
        is_workspace = {"MEMORY.md", *_SELVES} & {*names} or any(map(DAY.fullmatch, names))
        is_other = not self._databases and any(map(_OF_OTHERS.match, names))
        if is_other or not (self._databases or is_workspace or self._config):
            raise MovingError(
                f"There is nothing of CowAgent in {path}; name its workspace (~/cow unless "
                "agent_workspace says otherwise), or the folder with its config.json."
            )

    def _try_database(self, name: str) -> ForeignDatabase | None:
        """Return a database in the workspace; None for another file of such a name, which an agent
        may have created. Raises MovingError and StoreError."""
        try:
            return self._open_database(name)
        except StoreError:
            if name.endswith(_DATABASES):
                raise
            return None

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
            tuple(message for one in rows for message in _read(one, self.skipped)),
            standing_of(is_archived=False, is_pinned=row["pinned"]),
            at=as_time(row["created_at"]),
        )

    def read_profile(self) -> ImportedProfile:
        own = ImportedProfile(days=self._files.days())
        for name in ("USER.md", "MEMORY.md"):
            own.memory += self._files.lines(name)
        texts = [as_text(self._config.get("character_desc")).strip()]
        texts += [self._files.page(name) for name in _SELVES]
        if prompt := "\n\n".join(filter(None, texts)):
            own.personas.append(Persona("cowagent", "who CowAgent was", prompt))
        own.settings += self._settings()
        self._count_rest()
        return own

    def picture(self, name: str) -> bytes | None:
        return None

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
        self._files.name_skills(self._skills)
        knowledge = sum(name.startswith("knowledge/") for name in names)
        add(knowledge, "file of knowledge (knowledge/)", "files of knowledge (knowledge/)")
        if "scheduler/tasks.json" in names:
            tasks = self._archive.json("scheduler/tasks.json")
            listed = as_mapping(tasks).get("tasks", tasks)
            number = len(listed) if isinstance(listed, dict | list) else 1
            new = "(/remind and /job make new ones)"
            add(number, f"scheduled task {new}", f"scheduled tasks {new}")


def _read(row: Mapping[str, Any], skipped: SkippedItems) -> list[ForeignMessage]:
    """Return the messages in a row of `messages`; unreadable parts are counted."""
    if isinstance(row, TooLargeRow):
        skipped.add_too_large("message", "messages")
        return []
    kept, role = as_text(row["content"]), as_text(row["role"])
    content = load_json(kept)
    if not isinstance(content, str | list):
        content = kept
    return read_blocks(role, content, as_time(row["created_at"]), skipped)
