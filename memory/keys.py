"""Names of conversations."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from urllib.parse import quote

_LONGEST = 150  # characters of a name, which leaves room for what stands before and after it


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """Who a conversation belongs to.

    `id` names the conversation ("telegram/42", "pipe/main"); `audience` names the people who may
    read what is remembered of it, and is a folder's name under `data/audiences/`.
    """

    id: str
    audience: str


def file_name(identity: str) -> str:
    """A file's name for any identity: no two have the same one, and none leads out of a folder.

    Names that are too long, hidden or none carry a hash after a tilde, which no other has.
    """
    raw = identity.encode("utf-8", "surrogatepass")
    name = quote(raw, safe="")
    if 0 < len(name) <= _LONGEST and "~" not in name and name.strip(".") == name:
        return name
    return f"{name.strip('.')[:60]}~{hashlib.sha256(raw).hexdigest()}"
