"""The sentence about a request that has not the shape it should have: a plain one, about its first
fault."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

_ALTERNATIVES = re.compile(r"str|int|float|bool|(dict|tuple|list)\[.*|constrained-.*")
"""The names by which pydantic says, within a place, which of several kinds of value was tried
there."""
_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_BOUNDS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "too_short": "must not be empty",
    "too_long": "has more than {max_length:,} entries",
    "string_too_short": "must not be empty",
    "string_too_long": "may have at most {max_length:,} characters",
    "string_pattern_mismatch": "has characters that it may not have, or too many",
    "literal_error": "must be {expected}",
    "base64_decode": "must be base64",
    "missing": "is missing",
    "extra_forbidden": "is not known here",
}


def explain_misfit(error: ValidationError) -> str:
    """Return the sentence."""
    faults = error.errors(include_url=False, include_input=False)
    if faults[0]["type"] == "json_invalid":
        return f"The body is not valid JSON: {faults[0]['ctx']['error']}."
    first = _place(faults[0]["loc"])
    # Where several kinds of value would do, the one that came furthest is the one that was meant.
    inner = [_place(f["loc"]) for f in faults if _place(f["loc"])[: len(first)] == first]
    place = next((one for one in inner if len(one) > len(first)), first)
    there = [fault for fault in faults if _place(fault["loc"]) == place]
    return f"{'.'.join(place) or 'The body'} {_describe(there)}."


def _place(loc: Sequence[int | str]) -> tuple[str, ...]:
    return tuple(str(one) for one in loc if not _ALTERNATIVES.fullmatch(str(one)))


def _describe(faults: Sequence[Mapping[str, Any]]) -> str:
    kinds = dict.fromkeys(_KINDS[f["type"]] for f in faults if f["type"] in _KINDS)
    if too_long := [fault for fault in faults if fault["type"] == "too_long"]:
        faults = too_long  # what comes of another kind that would do as well helps nobody
    elif kinds:
        return f"must be {' or '.join(kinds)}"
    words = _BOUNDS.get(faults[0]["type"], "can't be used as it is")
    return words.format(**faults[0].get("ctx", {}))
