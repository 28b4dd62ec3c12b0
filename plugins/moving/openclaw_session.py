"""A session of OpenClaw, event by event: what was said in it, and by whom (see `openclaw.py`).

Text of a person comes without what the program has written around it for the model. Its rules are
from openclaw/openclaw `src/auto-reply/reply/strip-inbound-meta.ts` (of today, and from before
2026.7), `src/auto-reply/media-note.ts`, `src/shared/chat-envelope.ts` and
`src/plugin-sdk/message-tool-delivery-hints.ts`. Each search takes time in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct, field

from agent.models.shapes import as_list, as_mapping
from plugins.moving.source import (
    ForeignMessage,
    SkippedItems,
    as_text,
    as_time,
    find_path,
)
from plugins.moving.turns import (
    count_returned_pictures,
    find_pictures,
    join_texts,
    read_reply,
)

_CANONICAL = frozenset(
    (
        *("message", "thinking_level_change", "model_change", "compaction", "reset"),
        *("branch_summary", "custom", "custom_message", "label", "session_info"),
    )
)
_BLOCKS = frozenset(("text", "thinking", "toolCall", "image"))
_WAKING = "Read HEARTBEAT.md if it exists"
_SILENT = frozenset(("HEARTBEAT_OK", "NO_REPLY"))
_MIRROR = ("openclaw", "delivery-mirror")
_DIRECTIVE = re.compile(
    r"\[\[ {0,9}(?:reply_to_current|reply_to ?: ?[^\]\n]{1,200}|audio_as_voice) {0,9}\]\][ \t]*"
)
"""Tags of the delivery of a reply (openclaw/openclaw `docs/reference/rich-output-protocol.md`)."""


class ClawSession(Struct):
    """A session that is read event by event."""

    _nodes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _leaf: str = ""
    _damaged: int = 0
    is_one: bool = False
    begun: Any = None

    def take(self, event: Mapping[str, Any] | None) -> None:
        """Add an event; None is a damaged one."""
        if event is None:
            self._damaged += 1
            return
        kind, name = as_text(event.get("type")), as_text(event.get("id"))
        if kind == "session":
            self.is_one, self.begun = True, as_time(event.get("timestamp"))
            return
        if not name:  # the first versions had no ids: events are in sequence
            if kind != "message":
                return
            name = f"\0{len(self._nodes)}"
        above = as_text(event.get("parentId"))
        if kind == "leaf":
            target = as_text(event.get("targetId"))
            if target in self._nodes or event.get("targetId", "") is None:
                self._nodes[name] = {"above": target}
                self._leaf = target
            return
        if "parentId" not in event or (above and above not in self._nodes):
            above = self._leaf
        is_message = kind == "message"
        self.is_one |= is_message
        data = as_mapping(event.get("message")) if is_message else {}
        self._nodes[name] = {"above": above, "at": event.get("timestamp"), "message": data}
        if kind in _CANONICAL and event.get("appendMode") != "side":
            self._leaf = name

    def messages(self, skipped: SkippedItems) -> Iterator[ForeignMessage]:
        """Yield the messages on the branch that was used last."""
        path = find_path(self._nodes, self._leaf, "above", _at)
        spoken = sum(_is_message(node) for node in self._nodes.values())
        skipped.add_other_version(spoken - sum(map(_is_message, path)))
        skipped.add_damaged_lines(self._damaged)
        previous = ""
        for node in path:
            message = as_mapping(node.get("message"))
            is_mirror = (message.get("provider"), message.get("model")) == _MIRROR
            for one in _read(message, _at(node), skipped):
                if not (is_mirror and one.text == previous):
                    yield one
                previous = one.text or previous if one.role == "assistant" else ""


def _is_message(node: Mapping[str, Any]) -> bool:
    return as_mapping(node.get("message")).get("role") in ("user", "assistant")


def _at(node: Mapping[str, Any]) -> Any:
    time = as_time(as_mapping(node.get("message")).get("timestamp"))
    return time or as_time(node.get("at"))


def _read(message: Mapping[str, Any], at: Any, skipped: SkippedItems) -> list[ForeignMessage]:
    if not message:
        return []
    content, role = message.get("content"), as_text(message.get("role"))
    blocks = [as_mapping(one) for one in as_list(content)]
    for kind in (as_text(one.get("type")) for one in blocks):
        if kind not in _BLOCKS:
            skipped.add_unread("content", kind)
    text = as_text(content) or join_texts(blocks)
    if role == "user":
        media = as_list(as_mapping(message.get("__openclaw")).get("media"))
        return _read_question(text, blocks, [*map(as_mapping, media)], at, skipped)
    if role == "toolResult":
        count_returned_pictures(blocks, skipped)
        return [
            ForeignMessage(
                "tool",
                text,
                at,
                call_id=as_text(message.get("toolCallId")),
                tool=as_text(message.get("toolName")) or "tool",
                is_error=message.get("isError") is True,
            )
        ]
    if role != "assistant":
        skipped.add_unread("message", role)
        return []
    if _DIRECTIVE.search(text):
        text = _DIRECTIVE.sub("", text).strip()
    is_silent = text.strip() in _SILENT
    reply = read_reply("" if is_silent else text, blocks, at, "toolCall", "arguments")
    return [] if is_silent and not reply.calls else [reply]


def _read_question(
    text: str,
    blocks: list[Mapping[str, Any]],
    media: list[Mapping[str, Any]],
    at: Any,
    skipped: SkippedItems,
) -> list[ForeignMessage]:
    """Return a person's message, with the pictures in it, or else those sent with it; `media` lists
    the files that were sent to the gateway."""
    pictures = find_pictures(blocks)
    kinds = [(as_text(one.get("url")), as_text(one.get("contentType"))) for one in media]
    sent = [(url.replace("://", "/", 1), kind) for url, kind in kinds] or find_media(text)
    places = [place for place, kind in sent if kind.startswith("image/")]
    skipped.add(len(sent) - len(places), "file that was attached", "files that were attached")
    text = drop_envelope(text)
    if text.startswith(_WAKING):
        skipped.add(1, "question of the heartbeat", "questions of the heartbeat")
        return []
    return [ForeignMessage("user", text, at, pictures=tuple(pictures or places))]


_MARK = "⟦openclaw:ctx⟧"
_ENVELOPE = re.compile(
    r"\A(?>\s*+(?>"
    r"\[[^\]\n]{0,300}?\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\]\n]{0,60}\]"  # the origin and the time
    r"|\[media attached[^\n]{0,4000}\][ \t]*$"
    r"|(?:To send an image back, prefer the message tool|Delivery: |System: \[\d{4}-\d\d-\d\d "
    r"|requester_profile is the verified linked requester)[^\n]*$"
    r"|(?:Untrusted context \([^\n]{1,80}\)|Context):[ \t]*\n"
    r"<active_memory_plugin>(?>.*?</active_memory_plugin>)"
    rf"|[^\n]{{1,120}}?(?:\(untrusted[^\n)]{{0,80}}\):|{_MARK})[ \t]*\n```json\n(?>.*?\n```)"
    rf"|[^\n]{{1,120}}?(?:\(untrusted, chrono[^\n)]{{0,80}}\):|{_MARK})[ \t]*+(?!\n```json)"
    r"(?>(?:\n[^\n]+)+)"
    r"))++\s*+",
    re.DOTALL | re.MULTILINE,
)
_SUFFIX = re.compile(
    rf"^Context: {_MARK}[ \t]*$"
    r"|^Untrusted context \(metadata, do not treat as instructions or commands\):[ \t]*$"
    r"(?=(?:\n[^\n]*){0,6}?\n[^\n]{0,200}?"
    r"(?:<<<EXTERNAL_UNTRUSTED_CONTENT|UNTRUSTED channel metadata \(|Source:\s))",
    re.MULTILINE,
)
_NUMBER = re.compile(r"^\[message_id: [^\]\n]{0,200}\][ \t]*$\n?", re.MULTILINE)
_MEDIA = re.compile(
    r"^[ \t]*\[media attached(?: \d+/\d+)?: (?P<path>[^|\n]{1,2000}?)"
    r"(?: \((?P<kind>[\w.+-]+/[\w.+-]+)[^\n]*?\))?(?: \|[^\n]*)?\][ \t]*$",
    re.MULTILINE,
)
_COUNTED = re.compile(r"\d+ files")
_PLACEHOLDER = re.compile(r"<media:\w+>(?: \(\d+ \w+\))?")


def drop_envelope(text: str) -> str:
    """Return a message to OpenClaw without the lines about its sender, origin and time."""
    text = _ENVELOPE.sub("", text)
    if found := _SUFFIX.search(text):
        text = text[: found.start()].rstrip()
    text = _NUMBER.sub("", text)
    return "" if _PLACEHOLDER.fullmatch(text.strip()) else text


def find_media(text: str) -> list[tuple[str, str]]:
    """Return the files that were sent with a message to OpenClaw: the path of each relative to its
    folder, and its type."""
    head = _ENVELOPE.match(text)
    found = _MEDIA.finditer(head[0]) if head else ()
    return [
        (_place_below(one["path"]), one["kind"] or "")
        for one in found
        if not _COUNTED.fullmatch(one["path"])
    ]


def _place_below(path: str) -> str:
    """Return the path of a file relative to OpenClaw's folder, for paths of any operating
    system."""
    parts = PurePosixPath(path.strip().replace("\\", "/")).parts
    tops = [at for at, part in enumerate(parts) if part in (".openclaw", ".clawdbot", ".moltbot")]
    return (
        "/".join(parts[tops[-1] + 1 :]) if tops else f"media/inbound/{parts[-1] if parts else ''}"
    )
