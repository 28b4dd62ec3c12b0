"""The faults of a rule, as sentences that name the place and what was probably meant."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ValidationError

from plugins.features import Fault, SettingFaults

Place = tuple[str | int, ...]

_TYPED = ("condition", "action")


class RuleFaults(SettingFaults):
    """Rules that can't be taken."""

    SETTING: ClassVar[str] = "hooks"


def faults_of(error: ValidationError, rule: type[BaseModel]) -> list[Fault]:
    """Return a fault for each thing that pydantic found in a list of rules."""
    fields = dict(_models(rule))
    found = error.errors(include_url=False)
    # A list whose items are all wrong is called too short as well.
    return [_fault(f, fields) for f in found if f["type"] != "too_short" or not f["input"]]


def _models(model: type[BaseModel]) -> Iterator[tuple[str, Collection[str]]]:
    """("", fields of a rule), and (type, fields) of each condition and action."""
    yield "", list(model.model_fields)
    for field in ("condition", "action"):
        for kind in members(model.model_fields[field].annotation):
            (name,) = get_args(kind.model_fields["type"].annotation)
            yield name, list(kind.model_fields)


def members(union: Any) -> Iterator[type[BaseModel]]:
    for part in get_args(union):
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield part
        else:
            yield from members(part)


def _fault(found: Any, fields: dict[str, Collection[str]]) -> Fault:
    place, kind = _place(found["loc"])
    written, about = found["input"], found.get("ctx", {})
    match found["type"]:
        case "extra_forbidden":
            return Fault(place, f"is not known{_suggest(place[-1], fields[kind])}")
        case "missing":
            return Fault(place[:-1], f"has no {place[-1]}; add it.")
        case "union_tag_invalid":
            types = [name.strip(" '") for name in about["expected_tags"].split(",")]
            return Fault(place, f"has the type {about['tag']!r}{_suggest(about['tag'], types)}")
        case "union_tag_not_found" | "model_type" | "model_attributes_type" | "dict_type":
            return Fault(place, f"is {quote(written)}; it needs fields, first of all a type.")
        case "literal_error":
            words = [word for word in _words(about["expected"]) if word]
            return Fault(place, f"is {quote(written)}{_suggest(written, words)}")
        case "value_error":
            return Fault(place, f"{about['error']}.")
    reason = found["msg"][:1].lower() + found["msg"][1:]
    return Fault(place, f"is {quote(written)}; {reason.replace('input should', 'it should')}.")


def _place(loc: Place) -> tuple[Place, str]:
    """Return the place of a fault as a person sees it, without the types that pydantic puts
    between, and the last of these."""
    place: list[str | int] = []
    kind, is_typed = "", False
    for part in loc:
        if is_typed and isinstance(part, str):
            kind, is_typed = part, False
            continue
        place.append(" ".join(part.split()) if isinstance(part, str) else part)
        is_typed = part in _TYPED if isinstance(part, str) else len(place) > 1
    return tuple(place), kind


def _words(expected: str) -> list[str]:
    """Return ["a", "b", "c"] for "'a', 'b' or 'c'"."""
    return expected.replace(" or ", ", ").replace("'", "").split(", ")


def _suggest(word: Any, words: Collection[str]) -> str:
    """Return the end of a sentence about a word that is none of these."""
    near = difflib.get_close_matches(str(word)[:100].lower(), words, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; it must be one of {', '.join(words)}."


def quote(value: Any) -> str:
    """Return what was written, on one line and not too long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"
