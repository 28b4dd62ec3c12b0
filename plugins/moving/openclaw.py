"""OpenClaw: its folder, `~/.openclaw`, or a workspace.

Rules from the package openclaw 2026.9.6 (openclaw/openclaw): `docs/reference/database-schemas`,
`docs/reference/session-management-compaction`, `docs/concepts/agent-workspace.md`,
`docs/automation/cron-jobs`, and `src/config/sessions/transcript-tree.ts`:

- `agents/AGENT/agent/openclaw-agent.sqlite` has sessions (`session_windows`, named by
  `session_nodes`) and their `transcript_events`, as JSON or packed by zstd. Older versions (to
  2026.7.1) have `agents/AGENT/sessions/SESSION.jsonl` with the same events, and `sessions.json`.
- Events are a tree by `id` and `parentId`; the last is the leaf, unless one of the type `leaf`
  chooses another (`targetId`), or it was appended beside (`appendMode`).
- An event `message` has a role `user`, `assistant` or `toolResult`, and blocks of the types `text`,
  `thinking`, `toolCall` and `image`. All others say what the program did.
- Around a person's words stand where they came from, and when (`openclaw_session.py`). The
  heartbeat asks in a person's place, and is answered `HEARTBEAT_OK`; `NO_REPLY` is no answer
  either. What was sent to a channel is there once more, from the model `delivery-mirror`.
- Session keys with `:subagent:` and `:cron:` are of subagents and of scheduled tasks.
- `state/openclaw.sqlite` has `cron_jobs`; older versions have `cron/jobs.json`.
- Beside a session lie `.trajectory.jsonl`, and copies of it from before a compaction,
  `.checkpoint.UUID.jsonl`; `.reset.TIME` is one that was left, packed by zstd in newer versions
  (`.zst`): `src/config/sessions/artifacts.ts`.
- Files that a person has sent lie in `media/inbound/`; the message has a line for each.
- `openclaw.json`, `credentials/` and auth profiles have keys; they are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from agent.models.shapes import as_list, as_mapping
from memory.record.store import StoreError
from plugins.moving.openclaw_session import ClawSession
from plugins.moving.reading import MOST_PICTURE, load_json, unpack
from plugins.moving.record import ForeignDatabase, TooLargeRow
from plugins.moving.source import (
    TOO_LARGE,
    ForeignChat,
    ImportedProfile,
    MovingError,
    Persona,
    UnreadableChat,
    as_text,
    as_time,
    standing_of,
)
from plugins.moving.workspace import ForeignSource, Workspace, read_openclaw_job

_DATABASE = re.compile(r"(?:agents/[^/]+/)?(?:agent/)?openclaw-agent\.sqlite")
_SESSION = re.compile(r"(?:agents/[^/]+/)?(?:sessions/)?([^/]+?)\.jsonl(?:\.reset\.[^/]*)?")
_COPY = re.compile(
    r"\.(?:trajectory|checkpoint\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$"
)
"""Files next to a session that repeat parts of it."""
_WORKSPACE = re.compile(r"workspace[^/]*/")
_OF_OTHERS = re.compile(r"state\.db$|memories/|projects/|memory/long-term/|AGENT\.md$")
"""Files of Hermes and CowAgent, some of which have the same names."""
_STATE, _JOBS = "state/openclaw.sqlite", "cron/jobs.json"
_SELVES = ("SOUL.md", "IDENTITY.md")
_NOT_TAKEN = ("AGENTS.md", "TOOLS.md", "HEARTBEAT.md", "BOOT.md", "BOOTSTRAP.md")
_OWN = re.compile(r"agent:[^:]*:")
_OTHERS = {
    ":subagent:": ("session of a subagent", "sessions of subagents"),
    ":cron:": ("run of a scheduled task", "runs of scheduled tasks"),
}
_MOST_EVENT = 4_194_304  # maximum bytes of a decompressed event


class OpenClaw(ForeignSource):
    """The folder of one installation."""

    name = "OpenClaw"

    def __init__(self, path: Path, skills: Path = Path("data/skills")) -> None:
        super().__init__(path, skills)
        names = self._archive.names
        self._databases = [
            found for name in names if _DATABASE.fullmatch(name) and (found := self._open(name))
        ]
        self._sessions = [
            name for name in names if _SESSION.fullmatch(name) and not _COPY.search(name)
        ]
        marks = (*_SELVES, "AGENTS.md", "MEMORY.md", "USER.md")
        roots = {name[: -len(mark)] for mark in marks for name in names if name.endswith(mark)}
        is_others = any(_OF_OTHERS.match(name) for name in names)
        self._workspaces = sorted(
            at for at in roots if _WORKSPACE.fullmatch(at) or not (at or is_others)
        )
        files = [*self._sessions, *({_STATE, _JOBS} & {*names})]
        if is_others:
            files = [name for name in files if name.startswith(("agents/", "state/"))]
        kept = (self._databases, self._workspaces, files)
        if not any(kept):
            raise MovingError(
                f"There is no session and no workspace of OpenClaw in {path}; name its folder "
                "(~/.openclaw), or a workspace."
            )

    def _open(self, name: str) -> ForeignDatabase | None:
        found = self._open_database(name)
        return found if found.has("transcript_events", "session_id", "seq") else None

    def count(self) -> int:
        return sum(one.count("session_windows") for one in self._databases) + len(self._sessions)

    def chats(self) -> Iterator[ForeignChat | UnreadableChat]:
        known = set[str]()
        for database in self._databases:
            named = _read_nodes(database)
            columns = ("session_id", "session_key", "display_name", "created_at")
            table = "session_windows" if "session_windows" in database.columns else "sessions"
            for row in database.rows(table, columns, {}, ("created_at", "session_id")):
                if isinstance(row, TooLargeRow):
                    yield UnreadableChat(TOO_LARGE)
                    continue
                identity = as_text(row["session_id"])
                known.add(identity)
                entry = {**row, **named.get(identity, {})}
                events = self._read_events(database, identity)
                yield from self._as_chat(identity, entry, events, is_kept=True)
        entries = self._read_index()
        for name in self._sessions:
            match = _SESSION.fullmatch(name)
            identity = match[1] if match else name
            if identity in known:
                continue
            if ".reset." not in name:  # the session before a reset has the same name
                known.add(identity)
            named_so = identity if ".reset." not in name else f"{PurePosixPath(name).name}"
            yield from self._as_chat(
                named_so, entries.get(identity, {}), self._archive.lines(name), is_kept=False
            )

    def _as_chat(
        self, identity: str, entry: Mapping[str, Any], events: Iterable[Any], *, is_kept: bool
    ) -> Iterator[ForeignChat | UnreadableChat]:
        """Yield the conversation of one session; none if it is not a person's."""
        key = as_text(entry.get("session_key"))
        if other := next((what for part, what in _OTHERS.items() if part in key), None):
            self.skipped.add(1, *other)
            return
        transcript = ClawSession()
        for event in events:
            if isinstance(event, UnreadableChat):
                yield event
                return
            transcript.take(event)
        if not (transcript.is_one or is_kept):
            yield UnreadableChat("no events in the shape that OpenClaw writes")
            return
        names = (entry.get(one) for one in ("label", "display_name", "displayName"))
        place = _OWN.sub("", key, count=1)
        title = next(filter(None, map(as_text, names)), "" if place == "main" else place)
        yield ForeignChat(
            identity,
            title,
            tuple(transcript.messages(self.skipped)),
            standing_of(
                is_archived=entry.get("archived_at") or entry.get("archivedAt"),
                is_pinned=entry.get("pinned_at") or entry.get("pinnedAt"),
            ),
            at=transcript.begun or as_time(entry.get("created_at")),
        )

    def _read_events(self, database: ForeignDatabase, identity: str) -> Iterator[Any]:
        columns = ("event_json", "event_zstd")
        for row in database.rows("transcript_events", columns, {"session_id": identity}, ("seq",)):
            packed = row["event_zstd"]
            kept = unpack(packed, _MOST_EVENT) if isinstance(packed, bytes) else row["event_json"]
            event = load_json(kept)
            yield event if isinstance(event, dict) else None
        cold = {"session_id": identity}
        for row in database.rows("session_transcript_cold_archives", ("archive_name",), cold):
            what = "packed away (openclaw restores one that is opened there)"
            self.skipped.add(bool(row), f"session that is {what}", f"sessions that are {what}")

    def _read_index(self) -> dict[str, Mapping[str, Any]]:
        """Return the session index of older versions, by session id."""
        found: dict[str, Mapping[str, Any]] = {}
        for name in self._archive.names:
            if name.endswith("sessions.json"):
                for key, entry in as_mapping(self._archive.json(name)).items():
                    identity = as_text(as_mapping(entry).get("sessionId"))
                    found[identity] = {**as_mapping(entry), "session_key": key}
        return found

    def read_profile(self) -> ImportedProfile:
        own = ImportedProfile()
        names = self._archive.names
        for at in self._workspaces:
            files = Workspace(self._archive, self.skipped, at)
            for name in ("USER.md", "MEMORY.md", "memory.md"):
                own.memory += files.lines(name)
            days = files.days()
            joined = {
                day: "\n\n".join(filter(None, (own.days.get(day), text)))
                for day, text in days.items()
            }
            own.days = {**own.days, **joined}
            if prompt := "\n\n".join(filter(None, map(files.page, _SELVES))):
                agent = at.strip("/").removeprefix("workspace").strip("-")
                name = f"openclaw-{agent}" if agent else "openclaw"
                own.personas.append(Persona(name, "who OpenClaw was", prompt))
            left = [f"{at}{name}" for name in _NOT_TAKEN if f"{at}{name}" in names]
            self.skipped.add_files(left, "instructions for OpenClaw itself")
            files.name_skills(self._skills)
        if not {"", "skills/"} & {*self._workspaces}:
            Workspace(self._archive, self.skipped, "skills/").name_skills(self._skills)
        for job in self._read_jobs():
            own.schedules += read_openclaw_job(job, self.skipped)
        kept = [name for name in ("openclaw.json", ".env") if name in names]
        self.skipped.add_files(kept, "not read")
        deleted = sum(".jsonl.deleted." in name for name in names)
        self.skipped.add(deleted, "session that was deleted there", "sessions deleted there")
        return own

    def _read_jobs(self) -> Iterator[Mapping[str, Any]]:
        if self._archive.has(_JOBS):
            jobs = as_mapping(self._archive.json(_JOBS))
            yield from map(as_mapping, as_list(jobs.get("jobs")))
        place = self._archive.place(_STATE)
        if place is None:
            return
        try:
            rows = ForeignDatabase(place).rows("cron_jobs", ("name", "job_json"))
            for row in rows:
                job = as_mapping(load_json(row["job_json"] or ""))
                yield {**job, "name": as_text(job.get("name")) or as_text(row["name"])}
        except StoreError as error:
            self.skipped.remarks.append(f"Scheduled tasks: {error}")

    def picture(self, name: str) -> bytes | None:
        if self._archive.has(name):
            return self._archive.read(name, MOST_PICTURE)
        return super().picture(name)


def _read_nodes(database: ForeignDatabase) -> dict[str, Mapping[str, Any]]:
    """Return the names of sessions, by the ids of the current ones."""
    columns = ("current_session_id", "label", "display_name", "pinned_at", "archived_at")
    return {
        as_text(row["current_session_id"]): {key: value for key, value in row.items() if value}
        for row in database.rows("session_nodes", columns)
    }
