"""Names of conversations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """Who a conversation belongs to.

    `id` names the conversation ("telegram/42", "pipe/main"); `audience` names the people who may
    read what is remembered of it, and is a folder's name under `data/audiences/`.
    """

    id: str
    audience: str
