"""Hermes Agent: its folder, `~/.hermes`, or that of a profile in it.

Rules from hermes-agent 0.19.0 (NousResearch/hermes-agent: `hermes_state.py`, `cron/jobs.py`,
`tools/memory_tool.py`, `agent/context_compressor.py`), checked with sessions that its `SessionDB`
wrote:

- `state.db` has `sessions` and `messages`, in the order of their ids. Content other than text is
  JSON after a mark, and calls are in the format of OpenAI's API.
- Rows with `_compressed_summary` are summaries (of 2026.9). Rows with certain `display_kind`s were
  written by the program in a person's place (`agent/message_metadata.py`).
- For a row that is not `active`, `compacted` says whether it was summarised or undone.
- A compaction writes the beginning and the end of the messages again, around a summary: into the
  same session, or into one whose parent ended by `compression`.
- Other sessions with a parent are of subagents, except for those that `/branch` created.
- Older versions kept `sessions/SESSION.jsonl`, and `sessions/session_SESSION.json`.
- `memories/MEMORY.md` and `USER.md` have entries separated by a line with §, `SOUL.md` the persona,
  `cron/jobs.json` tasks. `.env`, `auth.json` and `config.yaml` have keys, and are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from agent.models.shapes import as_list, as_mapping
from memory.messages import ToolCall
from plugins.moving.hermes_text import (
    drop_notes,
    is_of_program,
    is_summary,
    place_below,
    split_summary,
)
from plugins.moving.reading import MOST_PICTURE, load_json
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
    standing_of,
)
from plugins.moving.workspace import ForeignSource, Workspace, read_hermes_job

_DATABASE, _JOBS = "state.db", "cron/jobs.json"
_JSON = "\x00json:"
_SUMMARY = ForeignMessage("assistant", "[CONTEXT SUMMARY]")
_MOST_CHAIN = 1_000  # sessions that form one conversation
_MOST_COPIED = 1_000  # messages repeated by a compaction
_COLUMNS = (
    *("role", "content", "tool_calls", "tool_call_id", "tool_name", "timestamp"),
    *("reasoning", "reasoning_content", "active", "compacted"),
    *("_compressed_summary", "display_kind"),
)
_NO_PERSON = re.compile(
    r"hidden|internal_notification|process_complete|model_switch|auto_continue|delegation_\w+"
)

Row = Mapping[str, Any]


class Hermes(ForeignSource):
    """The folder of one profile."""

    name = "Hermes"

    def __init__(self, path: Path, skills: Path = Path("data/skills")) -> None:
        super().__init__(path, skills)
        self._files = Workspace(self._archive, self.skipped)
        names = self._archive.names
        database = _DATABASE if _DATABASE in names else ""
        if path.is_file() and len(names) == 1 and names[0].endswith(".db"):
            database = names[0]
        self._database = self._open_database(database) if database else None
        if self._database and not self._database.has("messages", "session_id", "role", "content"):
            raise MovingError(f"{path} is no database of Hermes: it has no table of messages.")
        self._older = [
            name
            for name in names
            if name.startswith("sessions/") and name.endswith((".jsonl", ".json"))
        ]
        if not (self._database or self._older or "memories/MEMORY.md" in names):
            raise MovingError(
                f"There is no {_DATABASE} of Hermes in {path}; name its folder (~/.hermes, or "
                "~/.hermes/profiles/NAME)."
            )

    def count(self) -> int:
        return self._database.count("sessions") if self._database else len(self._older)

    def chats(self) -> Iterator[ForeignChat | UnreadableChat]:
        known = set[str]()
        if self._database:
            sessions: dict[str, Row] = {}
            shown = ("title", "started_at", "archived", "pinned")
            columns = ("id", "source", "parent_session_id", "end_reason", "model_config", *shown)
            for row in self._database.rows("sessions", columns, {}, ("id",)):
                if isinstance(row, TooLargeRow):
                    yield UnreadableChat(TOO_LARGE)
                else:
                    sessions[as_text(row["id"])] = row
            known = {*sessions}
            for chain in _find_chains(sessions, self.skipped):
                yield self._chat(self._database, [sessions[name] for name in chain])
        for name in self._older:
            identity = PurePosixPath(name).stem.removeprefix("session_")
            if identity not in known and not name.endswith("sessions.json"):
                known.add(identity)
                yield self._older_chat(name, identity)

    def _chat(self, database: ForeignDatabase, chain: Sequence[Row]) -> ForeignChat:
        messages: list[ForeignMessage] = []
        for session in chain:
            for row in database.rows("messages", _COLUMNS, {"session_id": session["id"]}, ("id",)):
                if isinstance(row, TooLargeRow):
                    self.skipped.add_too_large("message", "messages")
                elif row["active"] in (1, None) or row["compacted"]:
                    messages += self._read(row)
                else:
                    self.skipped.add(1, "message that was taken back", "messages taken back")
        titles = [as_text(one["title"]) for one in chain]
        first = chain[0]
        return ForeignChat(
            as_text(first["id"]),
            next(filter(None, reversed(titles)), ""),
            tuple(unfold(messages)),
            standing_of(is_archived=chain[-1]["archived"], is_pinned=chain[-1]["pinned"]),
            at=as_time(first["started_at"]),
        )

    def _older_chat(self, name: str, identity: str) -> ForeignChat | UnreadableChat:
        found: list[Any] = []
        title = ""
        if name.endswith(".jsonl"):
            found = list(self._archive.lines(name))
            self.skipped.add_damaged_lines(found.count(None))
        else:
            entry = as_mapping(next(self._archive.entries(name), None))
            found, title = as_list(entry.get("messages")), as_text(entry.get("title"))
        if found and isinstance(found[-1], UnreadableChat):
            return found[-1]
        rows = [one for one in found if isinstance(one, dict) and as_text(one.get("role"))]
        if not rows:
            return UnreadableChat("no messages in the shape that Hermes writes")
        messages = [message for row in rows for message in self._read(row)]
        return ForeignChat(identity, title, tuple(unfold(messages)))

    def read_profile(self) -> ImportedProfile:
        own = ImportedProfile()
        for name in ("memories/USER.md", "memories/MEMORY.md"):
            entries = self._files.text(name).replace("\r\n", "\n").split("\n§\n")
            own.memory += [" ".join(one.split()) for one in entries if one.strip()]
        if prompt := self._files.page("SOUL.md").strip():
            own.personas.append(Persona("hermes", "who Hermes was", prompt))
        if self._archive.has(_JOBS):
            jobs = as_mapping(self._archive.json(_JOBS))
            for job in map(as_mapping, as_list(jobs.get("jobs"))):
                own.schedules += read_hermes_job(job, self.skipped)
        Workspace(self._archive, self.skipped, "skills/").name_skills(self._skills)
        names = self._archive.names
        self.skipped.add_files(
            [name for name in ("config.yaml", ".env", "auth.json") if name in names], "not read"
        )
        profiles = {one.split("/")[1] for one in names if one.startswith("profiles/")}
        for name in sorted(profiles)[:10]:
            self.skipped.remarks.append(
                f"Its profile {name[:60]} is a folder of its own: import profiles/{name[:60]}, too."
            )
        return own

    def _read(self, row: Row) -> list[ForeignMessage]:
        text, pictures = self._read_content(row.get("content"))
        has_summary, text = split_summary(text) if row.get("role") != "tool" else (False, text)
        if not has_summary:
            if row.get("_compressed_summary"):
                return [_SUMMARY]
            return self._read_part(row, text, pictures)
        is_more = bool(text or row.get("tool_calls"))
        return [_SUMMARY, *(self._read_part(row, text, pictures) if is_more else ())]

    def _read_content(self, content: object) -> tuple[str, list[str]]:
        """Return the text and the pictures of a message."""
        if isinstance(content, str) and content.startswith(_JSON):
            content = load_json(content.removeprefix(_JSON))
        parts = [as_mapping(one) for one in as_list(content)]
        pictures = [as_text(as_mapping(one.get("image_url")).get("url")) for one in parts]
        for part in parts:
            if part.get("type") not in ("text", "image_url"):
                self.skipped.add_unread("content", as_text(part.get("type")))
        texts = filter(None, (as_text(one.get("text")) for one in parts))
        return as_text(content) or "\n\n".join(texts), pictures

    def _read_part(self, row: Row, text: str, pictures: Sequence[str]) -> list[ForeignMessage]:
        role, at = as_text(row.get("role")), as_time(row.get("timestamp"))
        if role == "user":
            if is_of_program(text) or _NO_PERSON.fullmatch(as_text(row.get("display_kind"))):
                self.skipped.add_some(1, "message", "that Hermes wrote in a person's place")
                return []
            return [self._read_question(text, pictures, at)]
        if role == "tool":
            identity, tool = as_text(row.get("tool_call_id")), as_text(row.get("tool_name"))
            tool = tool or as_text(row.get("name")) or "tool"
            return [ForeignMessage("tool", text, at, call_id=identity, tool=tool)]
        if role == "assistant":
            calls = row.get("tool_calls")
            listed = as_list(load_json(calls) if isinstance(calls, str) else calls)
            reasoning = as_text(row.get("reasoning")) or as_text(row.get("reasoning_content"))
            made = tuple(map(_read_call, map(as_mapping, listed)))
            return [ForeignMessage("assistant", text, at, reasoning=reasoning, calls=made)]
        if role not in ("system", "session_meta"):
            self.skipped.add_unread("message", role)
        return []

    def _read_question(
        self, text: str, pictures: Sequence[str], at: datetime | None
    ) -> ForeignMessage:
        """Return a person's message; of its pictures in files, those that Hermes still has."""
        text, paths, files = drop_notes(text)
        found = [place_below(path, frozenset(self._archive.names)) for path in paths]
        files += found.count("")
        self.skipped.add(files, "file that was attached", "files that were attached")
        return ForeignMessage("user", text, at, pictures=tuple(filter(None, (*pictures, *found))))

    def picture(self, name: str) -> bytes | None:
        if self._archive.has(name):
            return self._archive.read(name, MOST_PICTURE)
        return super().picture(name)


def _read_call(call: Mapping[str, Any]) -> ToolCall:
    asked = as_mapping(call.get("function"))
    return ToolCall(
        as_text(call.get("id")), as_text(asked.get("name")), as_text(asked.get("arguments"))
    )


def _find_chains(sessions: Mapping[str, Row], skipped: SkippedItems) -> list[list[str]]:
    """Return the sessions that are conversations, each with those that continue it after a
    compaction."""
    following: dict[str, list[str]] = {}
    roots = []
    for name, row in sessions.items():
        parent = as_text(row["parent_session_id"])
        marks = as_mapping(load_json(row["model_config"] or ""))
        above = sessions.get(parent)
        is_branch = bool(marks.get("_branched_from")) or (
            above is not None and above["end_reason"] == "branched"
        )
        if as_text(row["source"]) == "cron":
            skipped.add(1, "run of a scheduled task", "runs of scheduled tasks")
        elif marks.get("_delegate_from") or (
            above is not None and not is_branch and above["end_reason"] != "compression"
        ):
            skipped.add(1, "session of a subagent", "sessions of subagents")
        elif above is not None and not is_branch:
            following.setdefault(parent, []).append(name)
        else:
            roots.append(name)
    found: list[list[str]] = []
    known = set[str]()
    # A session may be continued twice; of those in a cycle, which only damage causes, none is a
    # root.
    for root in (*roots, *(name for names in following.values() for name in names)):
        chain: list[str] = []
        name = root
        while name and name not in known and len(chain) < _MOST_CHAIN:
            known.add(name)
            chain.append(name)
            name = next(iter(following.get(name, ())[-1:]), "")
        if chain:
            found.append(chain)
    return found


def unfold(messages: Sequence[ForeignMessage]) -> list[ForeignMessage]:
    """Return the messages without summaries, and without the messages repeated around them."""
    unfolded: list[ForeignMessage] = []
    parts: list[list[ForeignMessage]] = [[]]
    for message in messages:
        if message.role != "tool" and is_summary(message.text):
            parts.append([])
        else:
            parts[-1].append(message)
    for number, part in enumerate(parts, 1):
        unfolded += part[_count_copied(unfolded, part) :]
        if number < len(parts):
            del unfolded[len(unfolded) - _count_head(unfolded) :]
    return unfolded


def _count_head(messages: Sequence[ForeignMessage]) -> int:
    """Return the number of messages at the end that are also at the beginning: the head that a
    compaction repeats before its summary."""
    signs = [*map(_sign, messages[-_MOST_COPIED:])]
    first = [*map(_sign, messages[: min(len(messages) // 2, _MOST_COPIED)])]
    return next((n for n in range(len(first), 0, -1) if signs[-n:] == first[:n]), 0)


def _count_copied(messages: Sequence[ForeignMessage], following: Sequence[ForeignMessage]) -> int:
    """Return the number of messages at the beginning of a list that a compaction has copied from
    the end of another: in their order, up to its last one, but not all of them. If none of them is
    a question, the last question was repeated, too, so that there is one."""
    signs = [*map(_sign, messages[-_MOST_COPIED:])]
    copies = [*map(_sign, following[:_MOST_COPIED])]
    rest, found = iter(signs), 0
    for number, sign in enumerate(copies, 1):
        if sign not in rest:  # goes on after the previous one that was found
            break
        found = number if sign == signs[-1] else found
    if any(one.role == "user" for one in following[:found]) or found == len(following):
        return found
    asked = next((one for one in reversed(messages) if one.role == "user"), None)
    return found + bool(found and asked and copies[found : found + 1] == [_sign(asked)])


def _sign(message: ForeignMessage) -> object:
    """Return the key that identifies a copy: its pictures were removed, and the results of its
    tools shortened."""
    calls = tuple(call.id for call in message.calls)
    return (message.role, message.call_id or message.text, calls)
