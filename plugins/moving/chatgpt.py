"""ChatGPT's export: `conversations.json`, as a file or in the ZIP that is sent by mail.

Each conversation is a tree, since questions can be edited and answers regenerated: `mapping` has
its nodes, and `current_node` is the end of the branch that was shown last. Newer exports have
several files, `conversations-000.json` and so on, listed in `export_manifest.json`
(danny-avila/LibreChat `packages/api/src/import`, its issue 15229). Custom instructions are in the
`metadata` of a message that no person wrote, and since 2024 in its content, surrounded by words for
the model.

Citation marks point to the sources of a text, which are not in the export. They are enclosed in
private-use characters, and have a kind and fields. In most, the fields are positions in a search
result; the marks of links and entities contain words that belong to the sentence. Some programs
remove the private-use characters, and leave the kind and the positions as a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from agent.models.shapes import as_list, as_mapping
from memory.messages import PICTURE, ToolCall
from plugins.moving.reading import MOST_PICTURE, Archive
from plugins.moving.source import (
    ForeignChat,
    ForeignMessage,
    ForeignRole,
    ImportedProfile,
    MovingError,
    Persona,
    UnreadableChat,
    as_text,
    as_time,
    find_path,
    name_by_beginning,
    name_some,
    read_each,
    standing_of,
)
from plugins.moving.workspace import ForeignSource

_BEGIN, _END, _NEXT = "\ue200", "\ue201", "\ue202"
_MARK = re.compile(rf"[ \t]?{_BEGIN}([^{_BEGIN}{_END}]*){_END}")
_PRIVATE = re.compile("[\ue200-\ue20f]")
_STRIPPED = re.compile(r"[ \t]?\b(?:file)?cite(?:turn\d+[a-z]+\d+)+(?:L\d+-L\d+)?")
_BRACKETS = re.compile(r"[ \t]?【(?:\d+(?::\d+)?†[^【】]{0,200}|oaicite:\d+)】")
_REFERENCE = re.compile(r"[ \t]?:contentReference\[oaicite:\d+\]\{index=\d+\}")


def without_citations(text: str) -> str:
    """Return the text without citation marks, but with the words in them."""
    text = _PRIVATE.sub("", _MARK.sub(_read_mark, text))
    for marks in (_STRIPPED, _BRACKETS, _REFERENCE):
        text = marks.sub("", text)
    return text


def _read_mark(found: re.Match[str]) -> str:
    kind, *fields = found[1].split(_NEXT)
    words = ""
    if kind in ("url", "link_title") and fields:
        words = fields[0]
    elif kind == "entity" and fields:
        try:
            named = json.loads(fields[0])
        except (ValueError, RecursionError):
            named = None
        if isinstance(named, list) and len(named) > 1 and isinstance(named[1], str):
            words = named[1]
    gap = found[0][0] if words and found[0][0] != _BEGIN else ""
    return f"{gap}{words}"


_PART = re.compile(r"conversations(-\d+)?\.json", re.IGNORECASE)
_NUMBERED_PART = re.compile(r"conversations-(\d+)\.json")
_MANIFEST = "export_manifest.json"
_POINTER = re.compile(r"(?:file-service|sediment)://([\w.-]+)")
_NUMBERED = re.compile(r"^\s*(?:\d+\.\s*)?(?:\[[\d-]+\]\.?\s*)?")
_MEMORY_TOOL = "bio"
_PICTURE_PART = "image_asset_pointer"
_TEXT_KINDS = {"text", "multimodal_text", "code", "execution_output", "system_error"} | {
    *("tether_quote", "tether_browsing_display", "thoughts", "reasoning_recap")
}
"""The known kinds of content; any other one without text is reported."""
_SAID_KINDS = ("text", "multimodal_text")
_RECORDED = {
    "audio_asset_pointer": ("recording", "recordings"),
    "real_time_user_audio_video_asset_pointer": ("recording", "recordings"),
    "video_container_asset_pointer": ("video", "videos"),
}
_OTHER_FILES = {
    "message_feedback.json": "thumbs up or down",
    "shared_conversations.json": "links to conversations that were shared",
    "user.json": "the account",
}
_READ_ELSEWHERE = frozenset((*_OTHER_FILES, _MANIFEST, "conversation_asset_file_names.json"))


class ChatGpt(ForeignSource):
    """The export."""

    name = "ChatGPT"

    def __init__(self, path: Path, skills: Path = Path()) -> None:
        super().__init__(path, skills)
        self._own = ImportedProfile()
        names = self._archive.names
        self._parts = [one for one in names if _PART.fullmatch(PurePosixPath(one).name)]
        if not self._parts and len(names) == 1 and names[0].endswith(".json"):
            self._parts = [names[0]]
        if not self._parts and (inner := [one for one in names if one.lower().endswith(".zip")]):
            raise MovingError(
                f"There is no conversations.json in {path}, but another ZIP ({name_some(inner)}): "
                "take it out, and name that one."
            )
        if not self._parts:
            raise MovingError(
                f"There is no conversations.json in {path}; name the ZIP that ChatGPT has mailed "
                "(Settings, Data controls, Export data), or the folder that it was unpacked into."
            )
        self._beside = self._find_picture_folder()
        files = (one for one in self._beside.names if not one.endswith((".json", ".html")))
        self._pictures = {_stem(one): one for one in files}

    def _find_picture_folder(self) -> Archive:
        """Return the archive with the pictures: the folder of a JSON file, if only that was
        named."""
        path = self._archive.path
        try:
            return Archive(path.parent) if self._archive.place(path.name) else self._archive
        except MovingError:  # a folder with too many other files
            return self._archive

    def count(self) -> int:
        return self._archive.count_entries(self._parts)

    def chats(self) -> Iterator[ForeignChat | UnreadableChat]:
        for entry in read_each(self._parts, self._archive.entries, self.skipped):
            yield entry if isinstance(entry, UnreadableChat) else self._chat(entry)

    def read_profile(self) -> ImportedProfile:
        for name, what in _OTHER_FILES.items():
            if self._archive.find(name):
                self.skipped.add(1, f"file with {what} ({name})")
        self._report_missing_parts()
        folders = {PurePosixPath(one).parent for one in self._parts}
        rest = [
            PurePosixPath(one).name
            for one in self._archive.names
            if PurePosixPath(one).parent in folders
            and one.endswith(".json")
            and one not in self._parts
            and PurePosixPath(one).name not in _READ_ELSEWHERE
        ]
        self.skipped.add_files(rest, "not read")
        return self._own

    def _report_missing_parts(self) -> None:
        """Report files with conversations that are missing: a ZIP may be one of several."""
        if self._archive.path.is_file() and len(self._archive.names) == 1:
            return  # one file was named on purpose
        there = {PurePosixPath(one).name for one in self._parts}
        numbers = [found[1] for found in map(_NUMBERED_PART.fullmatch, there) if found]
        last = max(map(int, numbers), default=-1)
        wanted = {f"conversations-{n:0{len(numbers[0])}}.json" for n in range(min(last, 10_000))}
        if manifest := self._archive.find(_MANIFEST):
            logical = as_mapping(as_mapping(self._archive.json(manifest)).get("logical_files"))
            named = as_mapping(logical.get("conversations.json")).get("files")
            wanted |= {PurePosixPath(as_text(one)).name for one in as_list(named)}
        if missing := sorted(wanted - there - {""}):
            self.skipped.remarks.append(
                f"The export is incomplete: {name_some(missing)} should be in it; import the other "
                "parts, too, or export again."
            )

    def picture(self, name: str) -> bytes | None:
        file = self._pictures.get(name)
        return self._beside.read(file, MOST_PICTURE) if file else None

    def _chat(self, entry: object) -> ForeignChat | UnreadableChat:
        data = as_mapping(entry)
        nodes = as_mapping(data.get("mapping"))
        said = [one for one in map(_message_of, nodes.values()) if one]
        if not nodes or (said and not any(as_mapping(one.get("author")) for one in said)):
            return UnreadableChat("no messages in the shape that ChatGPT exports")
        path = find_path(nodes, as_text(data.get("current_node")), "parent", _time)
        messages = [found for node in path for found in self._read(as_mapping(node.get("message")))]
        others = sum(_is_message(as_mapping(node)) for node in nodes.values())
        others -= sum(map(_is_message, path))
        versions = "(edited questions, retries)"
        self.skipped.add(
            max(0, others),
            f"message of another version {versions}",
            f"messages of other versions {versions}",
        )
        identity = as_text(data.get("conversation_id")) or as_text(data.get("id"))
        title = as_text(data.get("title"))
        return ForeignChat(
            identity or name_by_beginning(min(nodes), title, messages),
            title,
            tuple(messages),
            standing_of(
                is_archived=data.get("is_archived") is True,
                is_pinned=data.get("is_starred") is True or data.get("pinned_time"),
            ),
            at=as_time(data.get("create_time")),
        )

    def _read(self, message: Mapping[str, Any]) -> list[ForeignMessage]:
        author = as_mapping(message.get("author"))
        content, role = as_mapping(message.get("content")), as_text(author.get("role"))
        kind = as_text(content.get("content_type"))
        beside = as_mapping(message.get("metadata"))
        is_context = kind in ("user_editable_context", "model_editable_context")
        if is_context or beside.get("is_user_system_message") is True:
            self._import_context(content, as_mapping(beside.get("user_context_message_data")))
            return []
        is_hidden = beside.get("is_visually_hidden_from_conversation") is True
        roles: dict[str, ForeignRole] = {"user": "user", "assistant": "assistant", "tool": "tool"}
        if is_hidden or role not in roles:
            if not is_hidden and role != "system" and self._text(content).strip():
                self.skipped.add_unread("message", role)
            return []
        at, text = as_time(message.get("create_time")), self._text(content)
        if role != "user":
            text = without_citations(text)
        self._count_left_out(message, content, text)
        if kind in ("thoughts", "reasoning_recap"):
            return [ForeignMessage("assistant", at=at, reasoning=text)] if text else []
        if role != "user":
            found = self._count_made(content)
            text = "\n\n".join(filter(None, (text, *[PICTURE] * found)))
        if role == "tool":
            tool = as_text(author.get("name")) or "tool"
            is_error = kind == "system_error"
            return [ForeignMessage("tool", text, at, tool=tool, is_error=is_error)]
        recipient = as_text(message.get("recipient")) or "all"
        if role == "assistant" and recipient != "all":
            if recipient == _MEMORY_TOOL and text.strip():
                self._remember(text)
            call = ToolCall(as_text(message.get("id")), recipient, _arguments(text))
            return [ForeignMessage("assistant", at=at, calls=(call,))]
        pictures = tuple(_find_pictures(content)) if role == "user" else ()
        return [ForeignMessage(roles[role], text, at, pictures=pictures)]

    def _text(self, content: Mapping[str, Any]) -> str:
        """Return the text of a message of any kind; in place of a picture, its name."""
        if thoughts := as_list(content.get("thoughts")):
            steps = [as_mapping(one) for one in thoughts]
            return "\n\n".join(
                as_text(one.get("content")) or as_text(one.get("summary")) for one in steps
            )
        pieces = [_text_of_part(part) for part in as_list(content.get("parts"))]
        for name in ("text", "result", "content"):
            pieces.append(as_text(content.get(name)))
        return "\n\n".join(piece for piece in pieces if piece.strip())

    def _count_left_out(
        self, message: Mapping[str, Any], content: Mapping[str, Any], text: str
    ) -> None:
        """Count the parts of a message other than text and pictures: files, sounds, and new
        kinds."""
        pictures = {_stem(one) for one in _find_pictures(content)}
        for file in map(
            as_mapping, as_list(as_mapping(message.get("metadata")).get("attachments"))
        ):
            if _stem(as_text(file.get("id"))) not in pictures:
                self.skipped.add(1, "file that was attached", "files that were attached")
        parts = [one for one in as_list(content.get("parts")) if isinstance(one, dict)]
        for part in parts:
            kind = as_text(part.get("content_type")) or as_text(part.get("type"))
            if kind in _RECORDED:
                self.skipped.add(1, *_RECORDED[kind])
            elif kind != _PICTURE_PART and not _text_of_part(part).strip():
                self.skipped.add_unread("content", kind)
        if not text.strip() and not parts and content.get("content_type") not in _TEXT_KINDS:
            self.skipped.add_unread("content", as_text(content.get("content_type")))

    def _count_made(self, content: Mapping[str, Any]) -> int:
        """Return the number of pictures in the text of the model or a tool."""
        found = sum(1 for _ in _find_pictures(content))
        self.skipped.add_some(found, "picture", "that the model had made")
        return found

    def _import_context(self, content: Mapping[str, Any], typed: Mapping[str, Any]) -> None:
        """Import custom instructions, and the model's memory about the person."""
        pairs = ("about_user_message", "user_profile"), ("about_model_message", "user_instructions")
        found = (
            as_text(typed.get(as_typed)).strip() or _unwrap(as_text(content.get(as_told)))
            for as_typed, as_told in pairs
        )
        prompt = "\n\n".join(filter(None, found))
        if prompt and prompt not in {one.prompt for one in self._own.personas}:
            number = len(self._own.personas) + 1
            name = f"chatgpt-{number}" if number > 1 else "chatgpt"
            about = "custom instructions of ChatGPT"
            self._own.personas.append(Persona(name, about, prompt))
        for line in as_text(content.get("model_set_context")).splitlines():
            if item := _NUMBERED.sub("", line).strip():
                self._remember(item)

    def _remember(self, text: str) -> None:
        for line in text.splitlines():
            if (item := line.strip()) and item not in self._own.memory:
                self._own.memory.append(item)


def _unwrap(text: str) -> str:
    """Return custom instructions without the introduction for the model."""
    content = text.strip()
    if content.startswith("The user provided") and content.endswith("```"):
        content = content.partition("```")[2].removesuffix("```")
    return content.strip()


def _time(node: Mapping[str, Any]) -> datetime | None:
    return as_time(as_mapping(node.get("message")).get("create_time"))


def _message_of(node: object) -> Mapping[str, Any]:
    """Return the message of a node. Other programs have such trees, but without authors."""
    return as_mapping(as_mapping(node).get("message"))


def _is_message(node: Mapping[str, Any]) -> bool:
    """Return whether a node is a message of a person or the model."""
    message = as_mapping(node.get("message"))
    content = as_mapping(message.get("content"))
    is_spoken = as_mapping(message.get("author")).get("role") in ("user", "assistant")
    is_hidden = as_mapping(message.get("metadata")).get("is_visually_hidden_from_conversation")
    return is_spoken and is_hidden is not True and content.get("content_type") in _SAID_KINDS


def _text_of_part(part: object) -> str:
    return part if isinstance(part, str) else as_text(as_mapping(part).get("text"))


def _find_pictures(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the pictures that a message refers to."""
    for part in map(as_mapping, as_list(content.get("parts"))):
        if part.get("content_type") == _PICTURE_PART:
            found = _POINTER.match(as_text(part.get("asset_pointer")))
            yield _stem(found[1]) if found else ""


def _stem(name: str) -> str:
    """Return the part of a name that identifies a file: "file-Abc123" for
    "file-Abc123-holiday.png"."""
    base = PurePosixPath(name).name
    found = re.match(r"file[-_][A-Za-z0-9]+", base)
    return found[0] if found else base


def _arguments(text: str) -> str:
    """Return the arguments of a tool call as a JSON object."""
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    return text if is_object else json.dumps({"input": text}, ensure_ascii=False)
