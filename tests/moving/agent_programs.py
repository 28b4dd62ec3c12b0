"""Folders of OpenClaw, Hermes and Claude Code, created here in the formats that were observed in
runs of OpenClaw 2026.9.6, hermes-agent 0.19.0 and Claude Code 2.1.197."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.moving.other_programs import BEGUN

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress

__all__ = ["compress"]

Json = dict[str, Any]
SECRET = "sk-very-secret"


def iso(number: int) -> str:
    """Return the time of a message, in the format of both."""
    return f"2023-11-14T22:{14 + number // 60:02}:{number % 60:02}.000Z"


# --- OpenClaw --------------------------------------------------------------------------------


def claw_events(messages: Sequence[Json]) -> list[Json]:
    """Return the events of a session: each message follows the previous one by default."""
    found: list[Json] = [
        {"type": "session", "version": 4, "id": "s1", "timestamp": iso(0), "cwd": "/home/ann"},
        {"type": "model_change", "provider": "p", "modelId": "m", "id": "e0", "parentId": None},
    ]
    for number, message in enumerate(messages, 1):
        event = {"type": "message", "id": f"e{number}", "parentId": f"e{number - 1}"}
        found.append({**event, "timestamp": iso(number), "message": message})
    return found


GOATS: list[Json] = [
    {"role": "user", "content": "Where is Casa Amarela?", "timestamp": 1_700_000_060_000},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Look."},
            {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "notes.txt"}},
            {"type": "toolCall", "id": "c2", "name": "read", "arguments": {"path": "map.txt"}},
        ],
    },
    {"role": "toolResult", "toolCallId": "c2", "toolName": "read", "content": "a map"},
    {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "read",
        "content": [{"type": "text", "text": "casa amarela is yellow"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "In Lisbon."}]},
]


def write_claw_lines(folder: Path, events: Sequence[Json], name: str = "s1") -> Path:
    """Write a session as versions up to 2026.7.1 stored it."""
    place = folder / "agents" / "main" / "sessions"
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{name}.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    index = {"agent:main:telegram:direct:7": {"sessionId": name, "displayName": "Hotel"}}
    (place / "sessions.json").write_text(json.dumps(index))
    return path


def write_claw_database(
    folder: Path, events: Sequence[Json], key: str = "agent:main:main", name: str = "s1"
) -> Path:
    """Write a session to the current database; every second event is compressed, as long ones
    are."""
    path = folder / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            """CREATE TABLE IF NOT EXISTS session_nodes (session_key TEXT NOT NULL PRIMARY KEY,
                current_session_id TEXT NOT NULL, entry_json TEXT NOT NULL, label TEXT,
                display_name TEXT, pinned_at INTEGER, archived_at INTEGER) STRICT;
            CREATE TABLE IF NOT EXISTS session_windows (session_id TEXT NOT NULL PRIMARY KEY,
                session_key TEXT NOT NULL, created_at INTEGER NOT NULL, display_name TEXT) STRICT;
            CREATE TABLE IF NOT EXISTS transcript_events (session_id TEXT NOT NULL,
                seq INTEGER NOT NULL, event_json TEXT, created_at INTEGER NOT NULL,
                event_zstd BLOB, PRIMARY KEY (session_id, seq)) STRICT;"""
        )
        node = (key, name, "{}", "Hotel", 1)
        database.execute("INSERT INTO session_nodes VALUES (?, ?, ?, NULL, ?, ?, NULL)", node)
        at = int(BEGUN * 1_000)
        database.execute("INSERT INTO session_windows VALUES (?, ?, ?, NULL)", (name, key, at))
        for seq, event in enumerate(events):
            text = json.dumps(event)
            packed = compress(text.encode()) if seq % 2 else None
            database.execute(
                "INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?)",
                (name, seq, None if packed else text, at, packed),
            )
    return path


def write_claw_workspace(folder: Path, jobs: Sequence[Json] = ()) -> None:
    """Write everything in the folder except sessions."""
    place = folder / "workspace"
    (place / "memory").mkdir(parents=True)
    (place / "skills" / "milking").mkdir(parents=True)
    (place / "skills" / "milking" / "SKILL.md").write_text("# Milking")
    (place / "SOUL.md").write_text("# SOUL.md\n\nYou are Bessie, a friendly cow.\n")
    (place / "AGENTS.md").write_text("# AGENTS.md\n\nUse the tool exec.\n")
    (place / "MEMORY.md").write_text("# Memory\n\n- Ann keeps two goats\n")
    (place / "USER.md").write_text(
        "# USER.md - User Model\n\nStore stable preferences.\n\n```md\n- Prefer examples.\n```\n\n"
        "## Directives\n\nReplace the example.\n\n<!-- observed: YYYY-MM-DD | status: active -->\n"
        "\n- Prefer ...\n\n<!-- observed: 2026-01-01 | status: superseded -->\n\n- Ann likes tea\n"
        "\n<!-- observed: 2026-02-01 | status: active -->\n\n- Ann likes coffee\n\n## Related\n\n"
        "- [Agent workspace](/concepts)\n"
    )
    (place / "memory" / "2026-03-01-cheese.md").write_text("- Ann sold a cheese\n")
    (folder / "openclaw.json").write_text(json.dumps({"apiKey": SECRET}))
    (folder / "cron").mkdir()
    (folder / "cron" / "jobs.json").write_text(json.dumps({"version": 1, "jobs": [*jobs]}))


# --- Hermes ----------------------------------------------------------------------------------


def write_hermes(
    folder: Path, messages: Sequence[Json], session: Json | None = None, name: str = "h1"
) -> Path:
    """Write a session to `state.db`; a message may have `active` and `compacted`."""
    path = folder / "state.db"
    row = {"title": "Hotel", "source": "cli", "parent": None, "reason": None, "marks": None}
    row |= session or {}
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            """CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL,
                model_config TEXT, parent_session_id TEXT, started_at REAL NOT NULL,
                end_reason TEXT, title TEXT);
            CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY AUTOINCREMENT,
                session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT, tool_call_id TEXT,
                tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, reasoning TEXT,
                active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0);"""
        )
        database.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)",
            (name, row["source"], row["marks"], row["parent"], BEGUN, row["reason"], row["title"]),
        )
        for number, one in enumerate(messages):
            content, calls = one.get("content"), one.get("tool_calls")
            if isinstance(content, list):
                content = "\x00json:" + json.dumps(content)
            database.execute(
                """INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls,
                    tool_name, timestamp, active, compacted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    *(name, one["role"], content, one.get("tool_call_id")),
                    *(json.dumps(calls) if calls else None, one.get("tool_name"), BEGUN + number),
                    *(one.get("active", 1), one.get("compacted", 0)),
                ),
            )
    return path


def write_hermes_rest(folder: Path, jobs: Sequence[Json] = ()) -> None:
    """Write everything in the folder except sessions."""
    for name in ("memories", "cron", "skills/farm/milking", "profiles/work"):
        (folder / name).mkdir(parents=True)
    (folder / "memories" / "MEMORY.md").write_text("Ann keeps\ntwo goats\n§\nThe barn is red")
    (folder / "SOUL.md").write_text("You are Bessie.")
    (folder / "config.yaml").write_text(f"api_key: {SECRET}\n")
    (folder / "skills" / "farm" / "milking" / "SKILL.md").write_text("# Milking")
    (folder / "profiles" / "work" / "SOUL.md").write_text("You work.")
    (folder / "cron" / "jobs.json").write_text(json.dumps({"jobs": [*jobs]}))


# --- Claude Code -----------------------------------------------------------------------------


def claude_line(name: str, above: str | None, role: str, content: Any, **more: Any) -> Json:
    """Return a line of a session."""
    message: Json = {"role": role, "content": content}
    if identity := more.pop("reply", None):
        message["id"] = identity
    number = more.pop("at", 0)
    line = {"parentUuid": above, "isSidechain": False, "type": role, "message": message}
    return {**line, "uuid": name, "timestamp": iso(number), "sessionId": "s1", **more}


def use(identity: str, name: str = "Read") -> list[Json]:
    """Return the block of a call."""
    return [{"type": "tool_use", "id": identity, "name": name, "input": {"file_path": "a"}}]


def result(identity: str, text: str) -> list[Json]:
    """Return the block of a tool's result."""
    return [{"type": "tool_result", "tool_use_id": identity, "content": text}]


def write_claude(folder: Path, lines: Sequence[Json | str], name: str = "s1") -> Path:
    """Write a session of one project, and instructions."""
    place = folder / "projects" / "-home-ann"
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{name}.jsonl"
    path.write_text("".join(f"{x if isinstance(x, str) else json.dumps(x)}\n" for x in lines))
    (folder / ".credentials.json").write_text(json.dumps({"token": SECRET}))
    (folder / "settings.json").write_text(json.dumps({"env": {"ANTHROPIC_API_KEY": SECRET}}))
    return path
