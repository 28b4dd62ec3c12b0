"""Offers of features after a person has changed the last turn of a conversation."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from channels.message import Reply
from memory.conversation import Conversation
from memory.keys import ConversationKey
from plugins.api import Ask

log = logging.getLogger(__name__)


async def with_offers(reply: Reply, ask: Ask, key: ConversationKey, turn: int | None) -> Reply:
    """Return a reply after which a conversation ends with this turn (None: a chat has returned to
    it unchanged), extended by the features' offers. An offer that fails is skipped."""
    for offer in ask.bot.offers:
        try:
            found = await offer(ask, key, turn)
            reply = reply if found is None else _add(reply, found)
        except Exception:
            log.exception("an offer failed")
    return reply


def _add(reply: Reply, offered: Reply) -> Reply:
    return replace(
        reply,
        text=f"{reply.text}\n\n{offered.text}",
        data={**(reply.data or {}), **(offered.data or {})},
        actions=(*reply.actions, *offered.actions),
    )


def numbers_in_context(conversation: Conversation) -> list[int]:
    """Return the turns in context, and those that a range summary covers."""
    view = conversation.context.view()
    numbers = [turn.number for turn in view.whole]
    return [*numbers, *(turn for one in view.layout.ranges for turn in one.turns)]
