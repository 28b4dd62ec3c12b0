"""Tells people of cuts: that one waits for their word, or that one was made."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from bot.delivery import Delivery
from bot.sending import address_of
from memory.keys import ConversationKey
from memory.record import mailbox
from memory.record.store import Store, StoreError
from memory.services import CutNotice
from plugins.api import InForce
from plugins.builtin.context.approval import describe
from plugins.builtin.context.receipts import add_in_force

log = logging.getLogger(__name__)


class CutNotices:
    """Puts them to the chat of the conversation, where somebody wrote last."""

    def __init__(self, store: Store, delivery: Delivery, in_force: Sequence[InForce] = ()) -> None:
        self._store, self._delivery, self._in_force = store, delivery, in_force

    async def tell(self, key: ConversationKey, notice: CutNotice) -> None:
        """Tell the people in a conversation of a cut; one they can't be told of is in the log and
        in `/context`."""
        try:
            place = await self._store.read(lambda db: mailbox.last_place(db, key.id))
            if place is None:
                log.info("%s: nobody is there to be told of a cut", key.id)
                return
            with self._delivery.speaking_to(address_of(place), key.id):
                said = add_in_force(describe(notice), key, self._in_force)
            await self._delivery.tell(address_of(place), said.text, said.actions)
        except StoreError:
            log.exception("%s: nobody could be told of a cut", key.id)
