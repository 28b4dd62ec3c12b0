"""The fields of a `structured` summary: their schema, and the parsing and rendering of an
answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from memory.patterns import lazy

FIELDS = {
    "task_overview": "The person's requests, what counts as success, and constraints",
    "current_state": "What is done so far: files and data made, changed or read, results",
    "important_discoveries": "Facts, decisions with reasons, errors and how they were solved",
    "next_steps": "What is to be done next, in order, and what stands in its way",
    "context_to_preserve": "Preferences, names, numbers, dates, promises, domain details",
}
"""AgentScope's five fields."""
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        name: {"type": "string", "description": meaning} for name, meaning in FIELDS.items()
    },
    "required": list(FIELDS),
    "additionalProperties": False,
}
TEMPLATE = "\n\n".join(f"# {name.replace('_', ' ').capitalize()}\n{{{name}}}" for name in FIELDS)
"""The template for the fields in the context; `summary_template` may override it."""

_DIARY = "diary_of_what_followed"
_NEW = (
    "For a diary in which the earlier summary stands already: what followed alone, with its names, "
    "numbers, decisions and results, and nothing that only the earlier summary tells of"
)
_PLACE = lazy(r"\{([^{}\n]{1,200})\}")
_JSON = lazy(r"(```\w*\s*)?[\[{]")
_LONGEST = 100_000
"""The maximum number of characters of a summary's fields together; a summary that exceeds its
tokens is not used anyway."""


def schema(text: str) -> Mapping[str, Any]:
    """Return the schema from the settings (which validate it), or AgentScope's."""
    own: Mapping[str, Any] = json.loads(text) if text else SCHEMA
    return own


def with_diary(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a summary that continues another: with one more field, for its new
    part."""
    properties = fields.get("properties", {})
    if _DIARY in properties:
        return fields
    diary = {"type": "string", "description": _NEW}
    more = {"required": [*fields["required"], _DIARY]} if "required" in fields else {}
    return {**fields, "properties": {**properties, _DIARY: diary}, **more}


def split_answer(answer: str) -> tuple[str, str] | None:
    """Return the fields of such an answer, as JSON, and its new part; None if it has no such
    field."""
    found = _object(answer)
    if found is None or _DIARY not in found:
        return None
    try:
        diary = _as_words(found.pop(_DIARY)).strip()
        return json.dumps(found, ensure_ascii=False), diary
    except (ValueError, RecursionError):
        return None


def template_error(template: str, schema_text: str) -> str:
    """Return the fault of a template for summaries of this schema, as a sentence; "" for none."""
    if not template:
        return ""
    fields = list(schema(schema_text)["properties"])
    places = _PLACE.findall(template)
    known = ", ".join(f"{{{name}}}" for name in fields)
    if unknown := [f"{{{place}}}" for place in places if place not in fields]:
        return f"context.summary_template names {unknown[0]}; the fields are {known}."
    if not places:
        return f"context.summary_template shows no field of the summary; name some of {known}."
    return ""


def render(answer: str, template: str = "") -> str:
    """Return a model's answer in the form used in the context; "" if it has no content, or is
    truncated JSON. An answer in prose instead of JSON is returned unchanged: better than none."""
    fields = _fields(answer)
    if fields is None:
        return "" if _JSON.match(answer.strip()) else answer.strip()
    if not any(fields.values()):
        return ""
    shown = template or TEMPLATE
    if any(fields.get(place) for place in _PLACE.findall(shown)):
        return _fill(shown, dict.fromkeys(FIELDS, "") | fields).strip()
    # The person's own fields without a template, or a template that shows none of the fields.
    return "\n\n".join(f"# {name}\n{content}" for name, content in fields.items() if content)


def _fill(template: str, fields: Mapping[str, str]) -> str:
    """Return a template with its fields filled in, each place once: the text of a field is not a
    template. Text beyond the length of any summary is truncated."""
    left = _LONGEST

    def value(place: re.Match[str]) -> str:
        nonlocal left
        if place[1] not in fields:
            return place[0]
        text = fields[place[1]][:left]
        left -= len(text)
        return text

    return _PLACE.sub(value, template)


def _fields(answer: str) -> dict[str, str] | None:
    """Return the fields of a structured answer, in words."""
    found = _object(answer)
    try:
        return found and {name: _as_words(value).strip() for name, value in found.items()}
    except (ValueError, RecursionError):
        return None


def _object(answer: str) -> dict[str, Any] | None:
    """Return the JSON object in an answer, also if text or a code fence is around it."""
    start, end = answer.find("{"), answer.rfind("}")
    try:
        found = json.loads(answer[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _as_words(value: Any) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, list):
        return "\n".join(f"- {words}" for words in map(_as_words, value) if words.strip())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
