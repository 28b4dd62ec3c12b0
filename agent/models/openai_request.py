"""A request in the shape of OpenAI's chat-completions protocol, as one provider or another wants
it. Pure: the same request gives the same bytes, so that what was sent can be made again."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

Json = dict[str, Any]

CALL_IDS = "call_ids"
"""What a body says, as long as it is in the shape that all take, of how long ids of calls are."""
_LETTERS = string.ascii_letters + string.digits


def to_body(neutral: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body as it is sent. Where ids of calls must have so many letters and digits, those of
    other models' calls are replaced, each always by the same one."""
    length = neutral.get(CALL_IDS)
    if not length:
        return neutral
    body = {name: value for name, value in neutral.items() if name != CALL_IDS}
    return body | {"messages": [_with_ids(one, length) for one in neutral["messages"]]}


def _with_ids(message: Mapping[str, Any], length: int) -> Mapping[str, Any]:
    if calls := message.get("tool_calls"):
        own = [{**call, "id": shorten_id(call["id"], length)} for call in calls]
        return {**message, "tool_calls": own}
    if "tool_call_id" in message:
        return {**message, "tool_call_id": shorten_id(message["tool_call_id"], length)}
    return message


def shorten_id(call: str, length: int) -> str:
    """An id of so many letters and digits; one that is so stays as it is."""
    if re.fullmatch(f"[a-zA-Z0-9]{{{length}}}", call):
        return call
    number, letters = int.from_bytes(sha256(call.encode()).digest(), "big"), ""
    for _ in range(length):
        number, rest = divmod(number, len(_LETTERS))
        letters += _LETTERS[rest]
    return letters
