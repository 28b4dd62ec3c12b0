"""Values in replies: their fields are inserted into sentences, and returned as data to programs.

A field with a tuple of numbers refers to turns: a sentence formats them ("t1 to t3"), data has
their names. A field with `tokens` in its name is an amount.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from channels.language import _
from memory.text.receipt import Receipt
from plugins.turn_names import ids
from plugins.wording import amount, amounts, format_turns

_PLACE = re.compile(r"\{(\w+)")
_SIZES = ("tokens_before", "tokens_after")


def as_data(value: Any) -> Any:
    """Return a value as JSON."""
    if isinstance(value, Receipt):
        return pick(value, "kept", "missing", "taken", "findings", of=value.total)
    if isinstance(value, Struct):
        return as_data(asdict(value))
    if isinstance(value, Mapping):
        return {name: as_data(one) for name, one in value.items()}
    if isinstance(value, tuple) and value and isinstance(value[0], int):
        return ids(value)
    if isinstance(value, list | tuple):
        return [as_data(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value


def pick(value: Struct, *names: str, **more: Any) -> dict[str, Any]:
    """Return these fields of a value as JSON, together with further entries."""
    data: dict[str, Any] = as_data({name: getattr(value, name) for name in names} | more)
    return data


def phrase(value: Struct, one: str, many: str = "", **more: Any) -> str:
    """Return a sentence filled with fields of a value; `many` is used if its first turns field has
    several turns."""
    names = [name for name in _PLACE.findall(one) if name not in more]
    fields = {name: getattr(value, name) for name in names}
    turns = next((field for field in fields.values() if isinstance(field, tuple)), ())
    values = {name: _say(name, field) for name, field in fields.items()}
    if set(_SIZES) <= values.keys():
        values |= zip(_SIZES, amounts(*(fields[name] for name in _SIZES)), strict=True)
    return _(many if many and len(turns) != 1 else one, **values, **more)


def _say(name: str, field: Any) -> Any:
    if isinstance(field, tuple):
        return format_turns(field)
    return amount(field) if "tokens" in name else field


def sentence_about(numbers: Sequence[int], one: str, many: str, **values: Any) -> str:
    """Return a sentence about these turns: `sentence_about((3,), "{turns} is pinned.", "{turns} are
    pinned.")`. The sentence for one turn may use {turn} if both sentences are identical in
    English."""
    named = format_turns(numbers)
    return _(one if len(numbers) == 1 else many, turns=named, turn=named, **values)
