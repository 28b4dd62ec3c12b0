"""Claude Code: `~/.claude`, its folder `projects`, or one session.

The format is undocumented; these rules are from sessions written by @anthropic-ai/claude-code
2.1.332, and from Huntehhh/claude-code-chat `docs/claude-cli-jsonl-format.md` (2.0.74) and
alicoding/claude-parser `docs/JSONL-STRUCTURE.md` (1.0.83):

- `projects/SLUG/SESSION.jsonl` is a session; `agent-*.jsonl`, and lines with `isSidechain`, are of
  subagents.
- A line has a `type`. Those of `user` and `assistant` have a `message` as in Anthropic's API.
  Each has a `uuid` and names its parent (`parentUuid`; `logicalParentUuid` across a compaction).
  So do lines of other types, which are between them.
- A reply with several blocks is several lines with one `message.id`. Tool results are lines of
  `user`; those of parallel calls are on several branches.
- `isMeta`, `isCompactSummary` and `isVisibleInTranscriptOnly` mark text that no person wrote, the
  model `<synthetic>` text that no model wrote, such as errors. The program adds its own elements
  around a person's words.
- An `attachment` of the type `queued_command` is a message that a person sent while the model
  worked.
- A fork begins with the last compaction: the lines before are in the other session alone.
- `projects/SLUG/SESSION/tool-results/` has long results, whose beginning is in the session.
- Titles are lines `summary`, `ai-title` and `custom-title`; a `summary` may be of another session,
  to which its `leafUuid` belongs.
- `CLAUDE.md` has instructions, `projects/SLUG/memory/*.md` the memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct, field

from agent.models.shapes import as_mapping
from plugins.moving.source import (
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
)
from plugins.moving.turns import read_blocks
from plugins.moving.workspace import ForeignSource, Workspace

_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
"""The lines with a title of the session, and the field of each; later ones take precedence."""
_COMMAND = re.compile(r"<command-name>([^<]*)</command-name>")
_IS_COMMAND = re.compile(r"\s*<command-(?:name|message|args)>")
_ARGUMENTS = re.compile(r"<command-args>([^<]*)</command-args>")
_NOTE = re.compile(r"(?:[^/]+/){0,2}projects/[^/]+/memory/[^/]+\.md")
"""A memory file, with the two folders above it, since files of other programs have similar
names."""
_SHELL = re.compile(r"\s*<bash-input>(.*?)</bash-input>", re.DOTALL)
_MACHINE = (
    *("system-reminder", "task-notification", "command-message", "bash-stdout", "bash-stderr"),
    *("local-command-caveat", "local-command-stdout", "local-command-stderr"),
    *("ide_opened_file", "ide_selection", "ide_diagnostics"),
)
"""Elements that the program adds to a person's messages."""
_INTERRUPTED = re.compile(r"\s*\[Request interrupted by user[^\]\n]*\]\s*")
_NO_PERSON = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")


class ClaudeCode(ForeignSource):
    """The sessions of one person."""

    name = "Claude Code"
    levels = 6

    def __init__(self, path: Path, skills: Path = Path("data/skills")) -> None:
        super().__init__(path, skills)
        names = self._archive.names
        self._sessions = [
            one
            for one in names
            if one.endswith(".jsonl") and _is_in_project(one) and not _is_subagent(one)
        ]
        self._subagents = sum(one.endswith(".jsonl") and _is_subagent(one) for one in names)
        above = "/".join(path.absolute().parts[-2:])
        self._notes = [one for one in names if _NOTE.fullmatch(f"{above}/{one}")]
        if not (self._sessions or self._notes or "CLAUDE.md" in names):
            raise MovingError(
                f"There is no session of Claude Code in {path}; name its folder (~/.claude), or "
                "one of those in ~/.claude/projects."
            )

    def count(self) -> int:
        return len(self._sessions)

    def chats(self) -> Iterator[ForeignChat | UnreadableChat]:
        for name in self._sessions:
            session = _Session()
            for line in self._archive.lines(name):
                if isinstance(line, UnreadableChat):
                    yield line
                    break
                session.take(line)
            else:
                if session.is_none:
                    yield UnreadableChat("no lines in the shape that Claude Code writes")
                else:
                    yield session.as_chat(PurePosixPath(name).stem, self.skipped)

    def read_profile(self) -> ImportedProfile:
        own = ImportedProfile()
        files = Workspace(self._archive, self.skipped)
        if prompt := files.text("CLAUDE.md").strip():
            own.personas.append(Persona("claude-code", "instructions of Claude Code", prompt))
        for name in self._notes:
            own.memory += files.lines(name)
        files.name_skills(self._skills)
        add, names = self.skipped.add, self._archive.names
        for folder, one in (("commands", "command of its own"), ("agents", "subagent of its own")):
            found = [name for name in names if name.startswith(f"{folder}/")]
            add(len(found), f"{one} ({folder}/)", f"{one.replace(' of', 's of')} ({folder}/)")
        long = sum("/tool-results/" in name for name in names)
        add(
            long,
            "long result of a tool, but for its beginning",
            "long results of tools, but for their beginnings",
        )
        add(self._subagents, "session of a subagent", "sessions of subagents")
        self.skipped.add_files(
            [
                name
                for name in ("settings.json", ".credentials.json", "history.jsonl")
                if name in names
            ],
            "not read",
        )
        return own


def _is_in_project(name: str) -> bool:
    """Return whether a file may be a session: outside of the folder of the projects, and in
    plugins, other JSON-lines files exist."""
    parts = PurePosixPath(name).parts
    return (
        "projects" not in parts[1:]
        and (len(parts) <= 2 or parts[0] == "projects")
        and (parts[-1] != "history.jsonl")
    )


def _is_subagent(name: str) -> bool:
    return PurePosixPath(name).name.startswith("agent-") or "/subagents/" in name


class _Session(Struct):
    """A session that is read line by line. `_replies` has the parts of each reply."""

    _nodes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _replies: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    _reply_of: dict[str, tuple[str, int]] = field(default_factory=dict)
    _titles: dict[str, tuple[str, str]] = field(default_factory=dict)
    _last: str = ""
    _questions: int = 0
    _aside: int = 0
    _damaged: int = 0
    _is_fork: bool = False

    @property
    def is_none(self) -> bool:
        """Return whether no line belongs to a session."""
        return not (self._nodes or self._titles or self._aside)

    def take(self, line: Mapping[str, Any] | None) -> None:
        """Add a line; None is a damaged one."""
        if line is None:
            self._damaged += 1
            return
        line = _as_asked(line)
        kind, name = as_text(line.get("type")), as_text(line.get("uuid"))
        if kind in _TITLES and (title := as_text(line.get(_TITLES[kind]))):
            self._titles[kind] = title, as_text(line.get("leafUuid"))
        elif line.get("isSidechain") is True:
            self._aside += 1
        elif name:
            before = as_text(line.get("logicalParentUuid"))
            self._is_fork |= bool(before) and before not in self._nodes
            above = as_text(line.get("parentUuid")) or before
            kept = {key: line.get(key) for key in ("type", "message", "timestamp", *_NO_PERSON)}
            self._nodes[name] = {**kept, "above": above, "name": name}
            if kind in ("user", "assistant"):
                self._last = name
            self._questions += _is_question(line)
            if identity := as_text(as_mapping(line.get("message")).get("id")):
                self._reply_of[name] = identity, self._questions
                self._replies.setdefault(self._reply_of[name], []).append(name)

    def as_chat(self, identity: str, skipped: SkippedItems) -> ForeignChat:
        """Return its newest branch as a conversation."""
        path = find_path(self._nodes, self._last, "above", _time)
        taken = self._with_whole_replies([as_text(node["name"]) for node in path])
        by_id = {name: self._read(name, skipped) for name in self._nodes}
        results = {
            one.call_id: one for found in by_id.values() for one in found if one.role == "tool"
        }
        left = self._nodes.keys() - taken
        skipped.add_other_version(
            sum(any(one.role != "tool" for one in by_id[name]) for name in left)
        )
        skipped.add(self._aside, "message of a subagent", "messages of subagents")
        skipped.add_damaged_lines(self._damaged)
        skipped.add(self._is_fork, "beginning of a fork", "beginnings of forks")
        named = [self._titles[kind] for kind in reversed(_TITLES) if kind in self._titles]
        title = next((title for title, leaf in named if not leaf or leaf in self._nodes), "")
        messages = _pair((one for name in taken for one in by_id[name]), results)
        return ForeignChat(identity, title, tuple(messages))

    def _with_whole_replies(self, path: list[str]) -> Mapping[str, None]:
        """Return the path with all parts of each reply at the place of the first."""
        found: dict[str, None] = {}
        for name in path:
            parts = self._replies[self._reply_of[name]] if name in self._reply_of else [name]
            found.update(dict.fromkeys(parts))
        return found

    def _read(self, name: str, skipped: SkippedItems) -> list[ForeignMessage]:
        node = self._nodes[name]
        kind, message = as_text(node["type"]), as_mapping(node["message"])
        if kind not in ("user", "assistant") or any(node[mark] is True for mark in _NO_PERSON):
            return []
        if message.get("model") == "<synthetic>":
            return []
        found = read_blocks(kind, message.get("content"), as_time(node["timestamp"]), skipped)
        return [one for one in map(_as_said, found) if one is not None]


def _pair(
    messages: Iterable[ForeignMessage], results: Mapping[str, ForeignMessage]
) -> Iterator[ForeignMessage]:
    """Yield the messages, with parallel calls merged into one and each result after its call."""
    answered = set[str]()
    waiting: ForeignMessage | None = None
    for one in [*messages, None]:
        if one and one.role == "tool" and one.call_id in answered:
            continue
        if waiting and (one is None or one.role != "assistant"):
            yield waiting
            for call in waiting.calls:
                if call.id in results and call.id not in answered:
                    answered.add(call.id)
                    yield results[call.id]
            waiting = None
        if one is None or (one.role == "tool" and one.call_id in answered):
            continue
        if one.role != "assistant":
            yield one
        elif waiting is None:
            waiting = one
        else:
            waiting = _join(waiting, one)


def _join(first: ForeignMessage, second: ForeignMessage) -> ForeignMessage:
    return ForeignMessage(
        "assistant",
        "\n\n".join(filter(None, (first.text, second.text))),
        first.at,
        reasoning="\n\n".join(filter(None, (first.reasoning, second.reasoning))),
        calls=(*first.calls, *second.calls),
    )


def _as_said(message: ForeignMessage) -> ForeignMessage | None:
    """Return a person's message without the program's additions; None if nothing is left."""
    if message.role != "user":
        return message
    text = message.text
    if _IS_COMMAND.match(text) and (found := _COMMAND.search(text)):
        arguments = _ARGUMENTS.search(text)
        text = f"{found[1].strip()} {arguments[1].strip() if arguments else ''}".strip()
    elif found := _SHELL.match(text):
        text = f"!{found[1].strip()}"
    else:
        text = "" if _INTERRUPTED.fullmatch(text) else _drop_elements(text, _MACHINE)
    if not text.strip() and not message.pictures:
        return None
    return ForeignMessage("user", text, message.at, pictures=message.pictures)


def _drop_elements(text: str, names: Iterable[str]) -> str:
    """Return a text without the elements of these names at the beginning of a line."""
    for name in names:
        end = f"</{name}>"
        if end not in text:
            continue
        begins = re.compile(rf"^[ \t]*<{name}>", re.MULTILINE)
        kept = []
        *parts, rest = text.split(end)
        for part in parts:
            found = begins.search(part)
            kept.append(part[: found.start()] if found else part + end)
        text = "".join((*kept, rest)).strip()
    return text


def _as_asked(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message sent while the model worked as an ordinary question; other lines
    unchanged."""
    queued = as_mapping(line.get("attachment"))
    by = as_text(as_mapping(queued.get("origin")).get("kind"))
    is_person = queued.get("commandMode", "prompt") == "prompt" and by in ("", "human")
    if line.get("type") != "attachment" or queued.get("type") != "queued_command" or not is_person:
        return line
    return {**line, "type": "user", "message": {"role": "user", "content": queued.get("prompt")}}


def _is_question(line: Mapping[str, Any]) -> bool:
    """Return whether a line is a question: neither a reply nor tool results."""
    content = as_mapping(line.get("message")).get("content")
    blocks = content if isinstance(content, list) else []
    is_result = any(as_mapping(one).get("type") == "tool_result" for one in blocks)
    return line.get("type") == "user" and not is_result


def _time(node: Mapping[str, Any]) -> datetime | None:
    return as_time(node.get("timestamp"))
