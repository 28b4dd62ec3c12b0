"""Open WebUI: its export of chats (JSON), or its database `webui.db` with `uploads/` next to it.

A chat is a tree, like ChatGPT's: `history.messages` by their ids, and `history.currentId`. The
model's reasoning and the tool calls are in its text, in `<details>`. Newer versions also keep them
in `output`, and write results between the tags, where older ones had an attribute
(`serialize_output` in open-webui/open-webui `backend/open_webui/utils/middleware.py`).
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from agent.models.shapes import as_list, as_mapping
from memory.messages import ToolCall
from plugins.moving.reading import MOST_PICTURE, Archive, load_json
from plugins.moving.record import ForeignDatabase, TooLargeRow
from plugins.moving.source import (
    TOO_LARGE,
    ForeignChat,
    ForeignMessage,
    ImportedProfile,
    MovingError,
    Persona,
    SkippedItems,
    UnreadableChat,
    as_text,
    as_time,
    find_path,
    name_by_beginning,
    read_each,
    standing_of,
)
from plugins.moving.turns import decode_picture
from plugins.moving.workspace import ForeignSource

DATABASE = "webui.db"
_OPENING = '<details type="'
_CLOSING = "</details>"
_ATTRIBUTE = re.compile(r'\b(id|name|arguments|result|output)="([^"]*)"')
_FENCE = re.compile(r"\A```\w*\n(.*)\n```\Z", re.DOTALL)
_CODE = "code_interpreter"
_SUMMARY = re.compile(r"<summary>[^<]*</summary>")
_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_OTHER_TABLES = {
    "prompt": ("prompt by a slash command", "prompts by a slash command"),
    "tool": ("tool in Python", "tools in Python"),
    "function": ("function in Python", "functions in Python"),
    "knowledge": ("collection of knowledge", "collections of knowledge"),
    "note": ("note", "notes"),
    "folder": ("folder of chats", "folders of chats"),
    "channel": ("channel", "channels"),
    "feedback": ("thumb up or down", "thumbs up or down"),
    "automation": ("automation", "automations"),
}


class OpenWebUi(ForeignSource):
    """Either of them. `user` is whose things are meant, where several people
    have some."""

    name = "Open WebUI"

    def __init__(self, path: Path, skills: Path = Path(), *, user: str = "") -> None:
        super().__init__(path, skills)
        names = self._archive.names
        database = self._archive.find(DATABASE) or next(
            (name for name in names if name.endswith((".db", ".sqlite", ".sqlite3"))), ""
        )
        self._database: _WebUiDatabase | None = None
        self._exports = [name for name in names if name.endswith(".json")]
        self._files = self._archive
        if database:
            opened = self._open_database(database)
            self._database = _WebUiDatabase(opened, user, self.skipped)
            self._files = Archive(opened.path.parent) if path.is_file() else self._archive
        elif user:
            raise MovingError(
                f"--user is for {DATABASE}: a JSON file of Open WebUI has no names in it. Leave it "
                "out, or name the database."
            )
        elif not self._exports:
            raise MovingError(
                f"There is no {DATABASE} and no JSON file in {path}; name the database (in the "
                "folder data/ of Open WebUI), or what Settings, Data controls, Export chats saves."
            )
        self._uploads = {
            PurePosixPath(name).name.split("_", 1)[0]: name
            for name in self._files.names
            if "uploads/" in f"/{name}"
        }

    def count(self) -> int:
        return (
            self._database.count() if self._database else self._archive.count_entries(self._exports)
        )

    def chats(self) -> Iterator[ForeignChat | UnreadableChat]:
        if self._database:
            for row in self._database.chats():
                is_whole = not isinstance(row, TooLargeRow)
                yield self._chat(row) if is_whole else UnreadableChat(TOO_LARGE)
            return
        for entry in read_each(self._exports, self._archive.entries, self.skipped):
            if isinstance(entry, UnreadableChat):
                yield entry
            elif len(self._exports) == 1 or _may_be_chat(entry):
                yield self._chat(as_mapping(entry))

    def read_profile(self) -> ImportedProfile:
        return self._database.read_profile() if self._database else ImportedProfile()

    def picture(self, name: str) -> bytes | None:
        if name.startswith("data:"):
            return decode_picture(name)
        parts = re.split(r"[/?]", name)
        file = next((self._uploads[one] for one in parts if one in self._uploads), "")
        return self._files.read(file, MOST_PICTURE) if file else None

    def _chat(self, row: Mapping[str, Any]) -> ForeignChat | UnreadableChat:
        chat = as_mapping(row.get("chat")) or row
        history = as_mapping(chat.get("history"))
        nodes = as_mapping(history.get("messages"))
        if nodes:
            path = find_path(nodes, _find_last(nodes, history, row, chat), "parentId", _time)
            versions = "(edits, retries)"
            self.skipped.add(
                len(nodes) - len(path),
                f"message of another version {versions}",
                f"messages of other versions {versions}",
            )
        else:
            path = [as_mapping(one) for one in as_list(chat.get("messages"))]
        if not any(as_text(node.get("role")) for node in path):
            return UnreadableChat("no messages in the shape that Open WebUI exports")
        params = as_mapping(chat.get("params"))
        for node in path:
            self._count_left_out(node)
        messages = tuple(message for node in path for message in _read(node))
        title = as_text(row.get("title")) or as_text(chat.get("title"))
        return ForeignChat(
            as_text(row.get("id"))
            or as_text(chat.get("id"))
            or name_by_beginning(as_text(path[0].get("id")), title, messages),
            title,
            messages,
            standing_of(is_archived=row.get("archived"), is_pinned=row.get("pinned")),
            as_text(params.get("system")) or as_text(chat.get("system")),
            as_time(row.get("created_at")) or as_time(chat.get("timestamp")),
        )

    def _count_left_out(self, message: Mapping[str, Any]) -> None:
        """Count the parts of a message other than text and pictures."""
        files = [as_mapping(one) for one in as_list(message.get("files"))]
        pictures = sum(map(_is_picture, files))
        number = len(files) - pictures
        self.skipped.add(number, "file that was attached", "files that were attached")
        if message.get("role") == "assistant":
            self.skipped.add_some(pictures, "picture", "that the model had made")
        for item in _output(message):
            if item.get("type") not in _OUTPUTS:
                self.skipped.add_unread("content", as_text(item.get("type")))
        for part in map(as_mapping, as_list(message.get("content"))):
            if not ("text" in part or part.get("image_url")):
                self.skipped.add_unread("content", as_text(part.get("type")))
        if message.get("role") not in ("user", "assistant"):
            self.skipped.add_unread("message", as_text(message.get("role")))


class _WebUiDatabase:
    """The database. The person whose chats are imported must be unambiguous, since it may have
    several."""

    def __init__(self, database: ForeignDatabase, user: str, skipped: SkippedItems) -> None:
        self._database, self._skipped, path = database, skipped, database.path
        if not self._database.has("chat", "id", "chat"):
            raise MovingError(f"{path} is no database of Open WebUI: it has no table of chats.")
        users = {
            as_text(row["id"]): (as_text(row["email"]), as_text(row["name"]))
            for row in self._database.rows("user", ("id", "email", "name"))
        }
        wanted = {one for one, called in users.items() if user and user in (one, *called)} or (
            {*users} if not user else set()
        )
        if len(wanted) != 1 and (users or user):
            names = ", ".join(sorted(email or name for email, name in users.values()))
            raise MovingError(
                f"Several people have chats in {path} ({names[:300]}); say whose are yours with "
                "--user NAME."
                if not user
                else f"Nobody, or more than one, is called {user} in {path}; there are: "
                f"{names[:300]}."
            )
        self._mine = {"user_id": next(iter(wanted))} if wanted else {}

    def count(self) -> int:
        return sum(1 for _ in self._database.rows("chat", ("id",), self._mine))

    def chats(self) -> Iterator[dict[str, Any]]:
        shown = ("archived", "pinned", "current_message_id", "meta")
        columns = ("id", "title", "chat", "created_at", *shown)
        for row in self._database.rows("chat", columns, self._mine, ("created_at", "id")):
            if isinstance(row, TooLargeRow):
                yield row
                continue
            if as_mapping(load_json(row["meta"] or "")).get("internal") is True:
                what = "that Open WebUI had with itself (of notes and subtasks)"
                self._skipped.add_some(1, "chat", what)
                continue
            chat = as_mapping(load_json(row["chat"] or ""))
            history = as_mapping(chat.get("history"))
            if not history.get("messages") and not chat.get("messages"):
                chat = {**chat, "history": {**history, "messages": self._messages(row["id"])}}
            yield {**row, "chat": chat}

    def _messages(self, chat: object) -> dict[str, Any]:
        """Return the messages of a chat from a separate table, as in newer versions."""
        columns = ("id", "role", "parent_id", "content", "output", "files", "created_at")
        found = {}
        for row in self._database.rows("chat_message", columns, {"chat_id": chat}):
            if isinstance(row, TooLargeRow):
                self._skipped.add_too_large("message", "messages")
                continue
            name = as_text(row["id"]).removeprefix(f"{chat}-")
            content = load_json(row["content"] or "null")
            found[name] = {
                "id": name,
                "role": row["role"],
                "parentId": row["parent_id"],
                "content": row["content"] if content is None else content,
                "output": load_json(row["output"] or "null"),
                "files": load_json(row["files"] or "null"),
                "timestamp": row["created_at"],
            }
        return found

    def read_profile(self) -> ImportedProfile:
        own = ImportedProfile()
        columns = ("content", "created_at")
        for row in self._database.rows("memory", columns, self._mine, ("created_at",)):
            if isinstance(row, TooLargeRow):
                self._skipped.add_too_large("part of memory", "parts of memory")
            own.memory += [line.strip() for line in as_text(row["content"]).splitlines()]
        for row in self._database.rows("model", ("id", "name", "params", "meta")):
            if isinstance(row, TooLargeRow):
                self._skipped.add_too_large("persona", "personas")
            prompt = as_text(as_mapping(load_json(row["params"] or "")).get("system")).strip()
            name = _NAME.sub("-", as_text(row["id"]) or as_text(row["name"])).strip("-")[:64]
            about = as_text(as_mapping(load_json(row["meta"] or "")).get("description"))
            if prompt and name:
                own.personas.append(Persona(name, about or as_text(row["name"]), prompt))
        for table, what in _OTHER_TABLES.items():
            self._skipped.add(self._database.count(table), *what)
        if self._database.count("config"):
            self._skipped.remarks.append(
                "Its settings (connections, keys, models) are not taken: `python main.py init` "
                "sets up a model."
            )
        return own


def _find_last(nodes: Mapping[str, Any], *sources: Mapping[str, Any]) -> str:
    """Return the message that was shown last, which newer versions store outside of the messages
    (`get_current_message_id` in open-webui/open-webui `backend/open_webui/models/chats.py`)."""
    names = ("currentId", "current_message_id", "branchPointMessageId")
    found = (as_text(one.get(name)) for one in sources for name in names)
    return next((name for name in found if name in nodes), "")


def _may_be_chat(entry: object) -> bool:
    """Return whether an entry is a chat, or too damaged to tell; other files may be next to an
    export."""
    return not isinstance(entry, dict) or not {"chat", "history", "messages"}.isdisjoint(entry)


def _time(message: Mapping[str, Any]) -> datetime | None:
    return as_time(message.get("timestamp"))


def _read(message: Mapping[str, Any]) -> list[ForeignMessage]:
    at, content = as_time(message.get("timestamp")), message.get("content")
    files = map(as_mapping, as_list(message.get("files")))
    pictures = [as_text(one.get("url") or one.get("id")) for one in files if _is_picture(one)]
    if isinstance(content, list):
        parts = [as_mapping(part) for part in content]
        pictures += [as_text(as_mapping(part.get("image_url")).get("url")) for part in parts]
        text = "\n\n".join(filter(None, (as_text(part.get("text")) for part in parts)))
    else:
        text = as_text(content)
    if message.get("role") == "user":
        return [ForeignMessage("user", text, at, pictures=tuple(filter(None, pictures)))]
    if message.get("role") != "assistant":
        return []
    messages: list[ForeignMessage] = []
    for kind, piece in _split(text):
        messages += _read_piece(kind, piece, message)
    return messages or [one for item in _output(message) for one in _read_output(item, at)]


def _is_picture(file: Mapping[str, Any]) -> bool:
    return file.get("type") == "image" or as_text(file.get("content_type")).startswith("image/")


_OUTPUTS = ("message", "reasoning", "function_call", "function_call_output")


def _output(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the items of the Responses API in `output`, if there is no text: a text has the same
    content, and may have been edited."""
    content = message.get("content")
    is_told = content if isinstance(content, list) else as_text(content).strip()
    return [] if is_told else [as_mapping(one) for one in as_list(message.get("output"))]


def _read_output(item: Mapping[str, Any], at: datetime | None) -> list[ForeignMessage]:
    kind, identity = item.get("type"), as_text(item.get("call_id"))
    if kind == "function_call":
        made = item.get("arguments")
        arguments = made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)
        call = ToolCall(identity, as_text(item.get("name")), arguments)
        return [ForeignMessage("assistant", at=at, calls=(call,))]
    if kind == "function_call_output":
        text = as_text(item.get("output")) or _join(item.get("output"))
        return [ForeignMessage("tool", text, at, call_id=identity, tool="tool")]
    text = _join(item.get("summary")) or _join(item.get("content"))
    if kind == "reasoning":
        return [ForeignMessage("assistant", at=at, reasoning=text)] if text else []
    return [ForeignMessage("assistant", text, at)] if text and kind == "message" else []


def _join(parts: object) -> str:
    texts = (as_text(as_mapping(part).get("text")).strip() for part in as_list(parts))
    return "\n\n".join(filter(None, texts))


def _split(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text as (kind, piece): "" for plain text, or the type of a `<details>`
    element with its content."""
    at = 0
    while (start := text.find(_OPENING, at)) >= 0:
        end = text.find(_CLOSING, start)
        if end < 0:
            break
        yield "", text[at:start]
        kind, _, rest = text[start + len(_OPENING) : end].partition('"')
        yield kind, rest
        at = end + len(_CLOSING)
    yield "", text[at:]


def _read_piece(kind: str, piece: str, message: Mapping[str, Any]) -> list[ForeignMessage]:
    at = as_time(message.get("timestamp"))
    if not kind:
        return [ForeignMessage("assistant", piece.strip(), at)] if piece.strip() else []
    tag, _, body = piece.partition(">")
    body = html.unescape(_SUMMARY.sub("", body, count=1)).strip()
    if kind in ("tool_calls", _CODE):
        return _read_call(kind, tag, body, at)
    text = "\n".join(line.removeprefix(">").removeprefix(" ") for line in body.splitlines())
    if kind == "reasoning":
        return [ForeignMessage("assistant", at=at, reasoning=text)] if text else []
    return [ForeignMessage("assistant", text, at)] if text else []


def _read_call(kind: str, tag: str, body: str, at: datetime | None) -> list[ForeignMessage]:
    """Return a call and its result, which is an attribute or between the tags."""
    attributes = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(tag)}
    if kind == _CODE:
        found = _FENCE.match(body)
        arguments = json.dumps({"code": found[1] if found else body}, ensure_ascii=False)
        call = ToolCall(attributes.get("id", ""), _CODE, arguments)
        result = attributes.get("output", "")
    else:
        call = ToolCall(
            attributes.get("id", ""),
            attributes.get("name", ""),
            _plain(attributes.get("arguments", "")),
        )
        result = _plain(attributes.get("result") or body)
    asked = ForeignMessage("assistant", at=at, calls=(call,))
    if 'done="false"' in tag and not result:
        return [asked]
    return [asked, ForeignMessage("tool", result, at, call_id=call.id, tool=call.name)]


def _plain(value: str) -> str:
    """Decode a text that may be encoded as a JSON string."""
    try:
        data = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return data if isinstance(data, str) else value
