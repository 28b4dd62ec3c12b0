"""The data of other programs, in their formats: created here from public information.

`ChatGptExport`, `write_webui_database` and `write_cow_workspace` make files like theirs.
"""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

Json = dict[str, Any]
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
BEGUN = 1_700_000_000.0
"""2023-11-14 22:13:20 UTC, the time of each first message; each next one is 60 s later."""

# --- ChatGPT ---------------------------------------------------------------------------------


def gpt_message(role: str, content: Json | str, **more: Any) -> Json:
    """Return a message as ChatGPT exports it; a text becomes content of that kind."""
    if isinstance(content, str):
        content = {"content_type": "text", "parts": [content]}
    name = more.pop("tool", None)
    return {
        "author": {"role": role, "name": name, "metadata": {}},
        "content": content,
        "status": "finished_successfully",
        "weight": 1.0,
        "metadata": {},
        "recipient": "all",
        **more,
    }


def gpt_conversation(identity: str, title: str, messages: Sequence[Json], **more: Any) -> Json:
    """Return a conversation without other versions: the root, and one message after the other."""
    mapping: Json = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    last = "root"
    for number, message in enumerate(messages):
        name = f"{identity}-{number}"
        said = {"id": name, "create_time": BEGUN + 60 * number, **message}
        mapping[last]["children"].append(name)
        mapping[name] = {"id": name, "message": said, "parent": last, "children": []}
        last = name
    return {
        "title": title,
        "create_time": BEGUN,
        "update_time": BEGUN + 60 * len(messages),
        "mapping": mapping,
        "current_node": last,
        "conversation_id": identity,
        "id": identity,
        "is_archived": False,
        **more,
    }


def write_gpt_zip(path: Path, conversations: Sequence[Json], files: Mapping[str, bytes]) -> Path:
    """Write the ZIP file that the user gets by mail."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(conversations))
        archive.writestr("user.json", json.dumps({"id": "user-1", "email": "ann@example.org"}))
        archive.writestr("chat.html", "<html></html>")
        for name, content in files.items():
            archive.writestr(name, content)
    return path


# --- Open WebUI ------------------------------------------------------------------------------


def webui_chat(identity: str, title: str, messages: Sequence[Json], **more: Any) -> Json:
    """Return a chat as Open WebUI exports it: its messages in order, given as (role, content)."""
    nodes: Json = {}
    last: str | None = None
    for number, message in enumerate(messages):
        name = f"{identity}-{number}"
        said = {"timestamp": int(BEGUN) + 60 * number, "childrenIds": [], **message}
        nodes[name] = {"id": name, "parentId": last, **said}
        if last:
            nodes[last]["childrenIds"].append(name)
        last = name
    params = more.pop("params", {})
    chat = {
        "title": title,
        "models": ["llama3.2"],
        "params": params,
        "history": {"messages": nodes, "currentId": last},
        "messages": list(nodes.values()),
        "timestamp": int(BEGUN) * 1_000,
    }
    return {
        "id": identity,
        "user_id": "u-ann",
        "title": title,
        "chat": chat,
        "created_at": int(BEGUN),
        "updated_at": int(BEGUN),
        "archived": False,
        "pinned": False,
        **more,
    }


def write_webui_database(
    folder: Path,
    chats: Sequence[Json],
    users: Sequence[tuple[str, str, str]] = (("u-ann", "Ann", "ann@example.org"),),
    memories: Sequence[str] = (),
    models: Sequence[tuple[str, str, str]] = (),
) -> Path:
    """Write `webui.db` in a folder, with the relevant columns of Open WebUI's tables."""
    path = folder / "webui.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            """CREATE TABLE user (id VARCHAR NOT NULL, name VARCHAR NOT NULL, email VARCHAR,
                role VARCHAR, created_at INTEGER);
            CREATE TABLE chat (id VARCHAR NOT NULL, user_id VARCHAR NOT NULL, title TEXT NOT NULL,
                share_id TEXT, archived INTEGER NOT NULL, created_at BIGINT, updated_at BIGINT,
                chat JSON, pinned BOOLEAN, meta JSON DEFAULT '{}', folder_id TEXT);
            CREATE TABLE memory (id VARCHAR, user_id VARCHAR, content TEXT, updated_at BIGINT,
                created_at BIGINT);
            CREATE TABLE model (id TEXT, user_id TEXT, base_model_id TEXT, name TEXT, meta TEXT,
                params TEXT, is_active BOOLEAN);
            CREATE TABLE prompt (id INTEGER, command VARCHAR, content TEXT);
            CREATE TABLE config (id INTEGER, data JSON);
            INSERT INTO prompt VALUES (1, '/tidy', 'Tidy this up');
            INSERT INTO config VALUES (1, '{"openai": {"api_keys": ["sk-secret"]}}');"""
        )
        database.executemany("INSERT INTO user (id, name, email) VALUES (?, ?, ?)", users)
        for chat in chats:
            columns = ("id", "user_id", "title", "archived", "created_at", "updated_at", "pinned")
            names = ", ".join(columns)
            database.execute(
                f"INSERT INTO chat ({names}, chat) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*(chat[name] for name in columns), json.dumps(chat["chat"])),
            )
        for number, text in enumerate(memories):
            row = (f"m{number}", "u-ann", text, BEGUN, BEGUN + number)
            database.execute("INSERT INTO memory VALUES (?, ?, ?, ?, ?)", row)
        for name, about, prompt in models:
            meta, params = json.dumps({"description": about}), json.dumps({"system": prompt})
            database.execute(
                "INSERT INTO model VALUES (?, 'u-ann', 'llama3.2', ?, ?, ?, 1)",
                (name, name, meta, params),
            )
    return path


# --- CowAgent --------------------------------------------------------------------------------


def write_cow_database(path: Path, sessions: Mapping[str, Sequence[tuple[str, Any]]]) -> Path:
    """Write a database of sessions, by their ids, each with its messages as (role, content)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            """CREATE TABLE sessions (session_id TEXT PRIMARY KEY, channel_type TEXT NOT NULL,
                title TEXT NOT NULL DEFAULT '', context_start_seq INTEGER NOT NULL DEFAULT 0,
                created_at INTEGER NOT NULL, last_active INTEGER NOT NULL,
                msg_count INTEGER NOT NULL DEFAULT 0);
            CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
                seq INTEGER NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL,
                created_at INTEGER NOT NULL, extras TEXT NOT NULL DEFAULT '',
                UNIQUE (session_id, seq));"""
        )
        for session, messages in sessions.items():
            row = (session, "web", "", int(BEGUN), int(BEGUN), len(messages))
            database.execute(
                """INSERT INTO sessions (session_id, channel_type, title, created_at, last_active,
                    msg_count) VALUES (?, ?, ?, ?, ?, ?)""",
                row,
            )
            for seq, (role, content) in enumerate(messages):
                database.execute(
                    "INSERT INTO messages (session_id, seq, role, content, created_at) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (session, seq, role, json.dumps(content, ensure_ascii=False), BEGUN + 60 * seq),
                )
    return path


def write_cow_workspace(
    folder: Path, sessions: Mapping[str, Sequence[tuple[str, Any]]], config: Json | None = None
) -> Path:
    """Write a workspace (`~/cow`): the database, the memory, and the agent's identity."""
    write_cow_database(folder / "memory" / "long-term" / "index.db", sessions)
    (folder / "MEMORY.md").write_text(
        "# MEMORY.md - 长期记忆\n\n---\n\n- Ann keeps two goats\n", "utf-8"
    )
    (folder / "USER.md").write_text(
        "# USER.md - 用户基本信息\n\n- **姓名**: Ann\n- **职业**: *(可选)*\n- **微信**: \n", "utf-8"
    )
    (folder / "AGENT.md").write_text("# AGENT.md\n\nYou are Bessie, a friendly cow.\n", "utf-8")
    (folder / "memory" / "2026-03-01.md").write_text(
        "# Daily Memory: 2026-03-01\n\n## Trimmed Context (10:00)\n\n- Ann sold a cheese\n", "utf-8"
    )
    (folder / "skills" / "milking").mkdir(parents=True)
    (folder / "skills" / "milking" / "SKILL.md").write_text("# Milking", "utf-8")
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder
