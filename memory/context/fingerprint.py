"""What stands before the conversation in a request, in a few letters: so that a change of it, which
rewrites the beginning of the prompt, is seen and recorded (DESIGN.md, rule 4)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from memory.context.meter import PromptPrefix

PromptFingerprint = Mapping[str, str]
"""By what it is called in a sentence: the model, and digests of the system prompt and tools."""


def fingerprint(prefix: PromptPrefix, model: str) -> PromptFingerprint:
    """Of requests that begin with this prefix, for this model."""
    tools = json.dumps(prefix.tools, ensure_ascii=False)
    return {"model": model, "system prompt": _digest(prefix.system), "tools": _digest(tools)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def changed(before: PromptFingerprint, now: PromptFingerprint) -> str:
    """What has changed, in a sentence; "" where nothing has, or nothing was before."""
    names = [f"the {name}" for name in now if before and before.get(name) != now[name]]
    if not names:
        return ""
    verb = "were" if len(names) > 1 or names == ["the tools"] else "was"
    last = f" and {names[-1]}" if len(names) > 1 else names[0]
    return f"{', '.join(names[:-1])}{last} {verb} changed"
