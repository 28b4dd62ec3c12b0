"""The settings that users who are not owners may change in their conversations, with their bounds:
`users_may_set`.

An entry names a setting, and may bound it: `when_busy` (any value), `agent_max_steps 1..20`,
`turn_timeout ..600`, `model gpt-5-mini|gpt-5`, and `agent_max_context_turns down` (at most the
value without the users' own change). This module is pure; `SettingsStore` enforces the result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from memory.plain_text import plain_number

DOWN = "down"
_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)?\.\.(-?\d+(?:\.\d+)?)?")

HARMLESS = (
    "when_busy",
    "language",
    "agent_max_context_turns down",
    "agent_max_context_tokens down",
    "agent_max_steps down",
    "context.max_images down",
    "turn_timeout down",
    "memory.left_out",
)
"""The default: settings that make a conversation cheaper, or affect only its own users. The model
and the agent are excluded because they cost money; the system prompt, because an owner may have set
limits in it."""


class Permit(Struct, frozen=True):
    """The bounds within which one setting may be changed. `words` are the allowed values, if they
    are named; the numbers are inclusive; with `is_down` the value otherwise in force is the
    maximum."""

    key: str
    words: tuple[str, ...] = ()
    lowest: float = -math.inf
    highest: float = math.inf
    is_down: bool = False

    @property
    def is_numeric(self) -> bool:
        return self.is_down or self.lowest > -math.inf or self.highest < math.inf

    def allows(self, value: Any, usual: Any, zero_is_no_least: bool = False) -> bool:
        """Return whether this value may be set if `usual` is in force otherwise. With
        `zero_is_no_least`, 0 counts as greater than any other number."""
        if self.words:
            return all(one in self.words for one in (value if isinstance(value, list) else [value]))
        if not self.is_numeric:
            return True
        if not _is_number(value):
            return False
        if zero_is_no_least:
            value, usual = (number or math.inf for number in (value, usual))
        highest = usual if self.is_down and _is_number(usual) else self.highest
        return self.lowest <= value <= highest and (not self.is_down or _is_number(usual))

    def describe(self, usual: Any) -> str:
        """Return the allowed values, in words that complete "it must be"; "" for any valid
        value."""
        if self.words:
            return " or ".join(filter(None, (", ".join(self.words[:-1]), self.words[-1])))
        parts = [f"at least {plain_number(self.lowest)}"] if self.lowest > -math.inf else []
        if self.is_down:
            parts.append(f"at most {plain_number(usual)}, the value for everybody")
        elif self.highest < math.inf:
            parts.append(f"at most {plain_number(self.highest, 12)}")
        return " and ".join(parts)


def parse_permit(entry: str) -> Permit:
    """Return the parsed entry of `users_may_set`. Raises ValueError."""
    key, _, bound = entry.strip().partition(" ")
    bound = bound.strip()
    if not bound:
        return Permit(key)
    if bound == DOWN:
        return Permit(key, is_down=True)
    if found := _RANGE.fullmatch(bound):
        lowest, highest = (float(part) if part else None for part in found.groups())
        if lowest is None and highest is None:
            raise ValueError("a range without bounds")
        return Permit(
            key,
            lowest=-math.inf if lowest is None else lowest,
            highest=math.inf if highest is None else highest,
        )
    return Permit(key, words=tuple(word.strip() for word in bound.split("|") if word.strip()))


def permit_for(key: str, entries: Sequence[str]) -> Permit | None:
    """Return the last entry about a setting; None if users may not set it."""
    permits = [parse_permit(entry) for entry in entries]
    return next((permit for permit in reversed(permits) if permit.key == key), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
