"""The neutral body of a request and its history, as long as it is in the shape that all protocols
have in common; and that history as a protocol's own request is made of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from agent.models.history import inspect, join_system, merge_system, normalize, spell_out
from memory.messages import RequestExtras

CALL_IDS, THOUGHTS, EMPTY = "call_ids", "thoughts", "empty_content"
"""The keys of a neutral body: how many letters and digits the id of a call has, in which field
thoughts go back, and whether the content of a message that only calls tools is "", not null."""
EVERYWHERE = "thoughts_everywhere"
"""The key that says whether answers have the field of thoughts, too."""
OWN = (
    *("protocol", "messages", "tools", "is_once", "without_thoughts"),
    *("no_system", "one_system", "signer", CALL_IDS, THOUGHTS, EVERYWHERE, EMPTY),
)
"""The keys that are no parameter of any protocol, or are put in their place by each."""
_SIGNED = "by:"


def sign(thoughts: str, signer: str) -> str:
    """Return thoughts with the mark of the model that made them: no other can read what is signed
    or encrypted."""
    return f"{_SIGNED}{signer}\n{thoughts}" if thoughts and signer else thoughts


def signer_of(provider: str, model: str) -> str:
    """Return the mark of a model at a provider."""
    return sha256(f"{provider}\0{model}".encode()).hexdigest()[:12]


def _own_thoughts(thoughts: str, signer: str) -> str:
    """Return thoughts that this model has made, or that carry no mark; "" for those of others."""
    if not thoughts.startswith(_SIGNED):
        return thoughts
    mark, _, own = thoughts.partition("\n")
    return own if mark == _SIGNED + signer else ""


def read_history(
    neutral: Mapping[str, Any], beside: RequestExtras
) -> tuple[Sequence[Mapping[str, Any]], RequestExtras]:
    """Return the messages of a body, with calls as every protocol takes them, and what stands
    beside them that may be sent to this model."""
    messages: Sequence[Mapping[str, Any]] = normalize(neutral["messages"])
    if not neutral.get("tools"):
        # Claude's API refuses calls of tools that it is not told of, and templates of models
        # without tools know no results.
        messages = spell_out(messages)
    if neutral.get("no_system"):
        messages = join_system(messages)
    elif neutral.get("one_system"):
        messages = merge_system(messages)
    if neutral.get("without_thoughts"):
        beside = replace(beside, thoughts={}, reasoning={})
    elif beside.thoughts:
        signer = str(neutral.get("signer", ""))
        own = {call: _own_thoughts(one, signer) for call, one in beside.thoughts.items()}
        beside = replace(beside, thoughts={call: one for call, one in own.items() if one})
    return inspect("calls", messages), beside
