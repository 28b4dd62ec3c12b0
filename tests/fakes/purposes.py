"""The purpose of a request that reached a fake endpoint, found by Parley's wording: a turn, or
background work, which may be sent at any time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from memory.context.summary import TASKS, behind
from plugins.memory.operations import TASK
from plugins.titles.feature import TASK as TITLE_TASK

Purpose = Literal["turn", "summary", "memory", "title"]

_BEHIND, _ = behind("\0").split("\0")
_FITS = "Answer with one JSON object that fits this JSON Schema: "


def purpose_of(body: Mapping[str, Any]) -> Purpose:
    """Return the purpose of a request, in any of the protocols. The summary of a structure is
    recognised by that structure, since a person may word its task."""
    messages = body.get("messages") or body.get("input") or [{}]
    system = body.get("system") or body.get("instructions") or messages[0].get("content")
    task, asked = text_of(system), text_of(messages[-1].get("content"))
    if task.startswith(TASK):
        return "memory"
    if task.startswith(TITLE_TASK):
        return "title"
    form = body.get("response_format", {}).get("json_schema", {})
    is_structured = form.get("name") == "answer" or _FITS in task
    if is_structured or task.startswith(tuple(TASKS.values())) or _BEHIND in asked:
        return "summary"
    return "turn"


def text_of(content: object) -> str:
    """Return the text of a message, or of its parts."""
    if not isinstance(content, list):
        return str(content or "")
    return "\n".join(str(part.get("text", "")) for part in content)
