"""Voice messages become text, before their turn begins.

A message is on disk before it is heard, and what was heard is put beside it at once: whatever
happens, it is heard once, and paid for once more at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent.models.base import ModelError
from agent.models.voice import Voice
from bot.access import Access, name_of
from bot.attachments import Stored, dump, is_sound
from bot.received import Received
from bot.spending import Spending
from channels.language import _, explain
from channels.message import clean_text
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.record import mailbox
from memory.record.database import Database

log = logging.getLogger(__name__)


class _NotHeardError(Exception):
    """A voice message could not be heard. The text is a sentence that says why, and what to do."""


class Ears(Struct, frozen=True):
    """The model that hears a conversation's voice messages: `voice` is None where nothing was set
    for that; `language` is the hint."""

    voice: Voice | None
    language: str = ""


class Hearing:
    """Has voice messages transcribed; `ears_for` is asked for each message."""

    def __init__(
        self,
        conversations: Conversations,
        ears_for: Callable[[ConversationKey], Ears],
        folder_of: Callable[[ConversationKey], Path],
        spending: Spending,
        access: Access,
    ) -> None:
        self._conversations, self._ears_for = conversations, ears_for
        self._folder_of, self._spending, self._access = folder_of, spending, access

    def is_wanted(self, received: Received) -> bool:
        """Return whether there is something in a message that was not heard yet."""
        if not any(map(_is_unheard, received.files)):
            return False
        return not received.text.strip() or self._ears_for(received.key).voice is not None

    async def hear(self, received: Received) -> tuple[Received, str]:
        """The message with what is said in it, which is on disk by then; and why not all of it was
        heard, in a sentence ("": it was). Raises StoreError."""
        ears = self._ears_for(received.key)
        if ears.voice is None:
            return received, _(
                "I can't listen here, because no model is set for that. Your message is kept as a "
                "file. An owner can set one: /config voice.model whisper-1. Then send /retry, or "
                "put it in words."
            )
        for number, file in enumerate(received.files):
            if not _is_unheard(file):
                continue
            try:
                received = await self._hear_one(received, number, ears.voice, ears.language)
            except _NotHeardError as error:
                return received, str(error)
        return received, ""

    async def _hear_one(
        self, received: Received, number: int, voice: Voice, language: str
    ) -> Received:
        key, file = received.key, received.files[number]
        audio = await self._read(received, file, voice)
        try:
            text, spent = await voice.hear(audio, file.path, language)
        except ModelError as error:
            log.warning("a voice message was not heard: %s", error)
            raise _NotHeardError(
                _(
                    "Your voice message could not be heard: {reason} It is kept; send /retry to "
                    "try again, or put it in words.",
                    reason=explain(str(error)),
                )
            ) from error
        heard = replace(file, heard=" ".join(clean_text(text).split()))
        files = (*received.files[:number], heard, *received.files[number + 1 :])
        state = (await self._conversations.get(key)).context
        ledger = self._conversations.services.ledger
        person = name_of(received.address)

        def keep(db: Database) -> None:
            mailbox.keep_files(db, received.row, dump(files))
            ledger.insert(db, state.row, 0, spent, person)

        await self._conversations.services.store.write(keep)
        state.book(spent, person)
        if not heard.heard:
            raise _NotHeardError(
                _("Nothing was said in your voice message, as far as I can hear. Send it again?")
            )
        return replace(received, files=files)

    async def _read(self, received: Received, file: Stored, voice: Voice) -> bytes:
        """The bytes of a file that may be heard. Raises _NotHeardError."""
        person = self._access.identify(received.address)
        user = person.limited if person else ""
        if not voice.is_free and self._spending.is_enough(received.key, user):
            raise _NotHeardError(
                _(
                    "This month's spending limit is used up (/usage shows it), so your voice "
                    "message was not heard. It is kept; please put it in words."
                )
            )
        try:
            path = self._folder_of(received.key) / file.path
            audio = await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            log.warning("%s can't be read: %s", file.path, error)
            raise _NotHeardError(
                _("The file of your voice message is gone. Please send it again.")
            ) from error
        if not audio:
            raise _NotHeardError(_("Your voice message is empty. Please send it again."))
        return audio


def _is_unheard(file: Stored) -> bool:
    return is_sound(file) and file.heard is None and not file.is_told
