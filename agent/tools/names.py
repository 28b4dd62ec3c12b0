"""Names of tools as models write them: with the namespace of another API around them, with tokens
of a chat template behind them, with dashes, in another case. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from memory.patterns import lazy

_TOKEN = lazy(r"<\|.*", re.DOTALL)
"""A token of a template, and all behind it: `current_time<|channel|>commentary` (gpt-oss)."""
_NAMESPACE = lazy(r"^(?:functions?|default_api|tools?|api|mcp)\s*(?:\.|::|/|:)\s*", re.I)
"""`functions.` (OpenAI), `default_api.` (Gemini), `tool.`."""
_CALLED = lazy(r"\s*\(\s*\)?$")
_LONGEST = 200


def resolve_name(name: str, known: Collection[str]) -> str:
    """Return the real tool that a name means, where that is exactly one; the name as it is
    otherwise."""
    if name in known or len(name) > _LONGEST:
        return name
    bare = strip_name(name)
    if bare in known:
        return bare
    plain = _plain(bare)
    meant = [one for one in known if _plain(one) == plain] if plain else []
    return meant[0] if len(meant) == 1 else name


def strip_name(name: str) -> str:
    """Return a name without what stands around it."""
    bare = _TOKEN.sub("", name).strip(" \t\r\n\"'`")
    bare = _CALLED.sub("", bare)
    while (shorter := _NAMESPACE.sub("", bare)) != bare:
        bare = shorter
    return bare


def _plain(name: str) -> str:
    return name.replace("-", "_").casefold()
