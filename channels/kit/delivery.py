"""The delivery of a reply: its messages, its pictures, its choices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from channels.kit.choices import Card, Cards, Choices, make_buttons, number, spell_out
from channels.kit.pace import ChatRateLimit
from channels.kit.platform import Button, Location, Media, Platform, Post
from channels.language import _
from channels.message import Action, Reply
from channels.splitting import split

log = logging.getLogger(__name__)

_FILE = "answer.md"
_LONGEST_CAPTION = 600
"""Characters of a long reply that are shown below the file that contains it."""
_IN_A_FILE = (
    "This reply is too long for a message ({characters:,} characters), so it is in this file."
)


def pieces(platform: Platform, text: str, *, is_plain: bool = False) -> list[str]:
    """Return a text in pieces of one message each; an empty list if there would be too many. It
    uses CPU for a while: call it in a thread."""
    traits, most = platform.traits, platform.traits.most_parts
    if platform.has_files and len(text) > 2 * most * traits.longest:
        return []
    length = platform.plain_length if is_plain else platform.length
    parts = split(text, traits.longest, length)
    if not platform.has_files:
        return list(parts)
    first = list(islice(parts, most + 1))
    return first if len(first) <= most else []


class _Letter(Struct, frozen=True):
    """A reply to be sent: its text in parts, or as a file if there are no parts."""

    text: str
    parts: Sequence[str]
    buttons: tuple[Button, ...]
    is_plain: bool
    once: str


class MessageSender:
    """The sender of replies over a platform."""

    def __init__(self, platform: Platform, pace: ChatRateLimit) -> None:
        self.platform, self.pace = platform, pace
        self.choices: Choices | None = None
        self.cards: Cards | None = None

    async def deliver(
        self,
        place: Location,
        reply: Reply,
        draft: str = "",
        *,
        is_plain: bool = False,
        once: str = "",
        is_private: bool = False,
    ) -> None:
        """Send a reply, in place of its draft (a message's id) if there is one. Return once the
        platform has all of it, or reports that the chat can no longer be reached. `once` is a name
        of the reply, the same on a resend. `is_private`: the reply is off the record."""
        traits = self.platform.traits
        # While a command waits for text, a number is text.
        is_numbered = not traits.longest_button and reply.form is None
        more = number(reply.actions) if is_numbered else spell_out(reply.actions, traits)
        text = "\n\n".join(filter(None, (reply.text, more)))
        if not text.strip():
            text = _("(This reply has no text.)")
        parts = await asyncio.to_thread(pieces, self.platform, text, is_plain=is_plain)
        letter = _Letter(text, parts, make_buttons(reply.actions, traits), is_plain, once)
        try:
            if not traits.longest_button and self.choices:
                await self.choices.offer(place, reply.actions if is_numbered else ())
            last = await self._deliver(place, letter, draft, reply)
            if letter.parts and traits.can_edit and self.cards:
                asked = letter.parts[-1].removesuffix(more).rstrip()
                await self.cards.note(place, last, asked, reply.actions, is_private=is_private)
        except Exception as error:
            if self.pace.failure_of(error).kind != "gone":
                raise
            log.warning("a reply to %s/%s was dropped: %s", self.platform.name, place.chat, error)

    async def _deliver(self, place: Location, letter: _Letter, draft: str, reply: Reply) -> str:
        """Send it; return the id of the message with its choices."""
        last = ""
        if not letter.parts:
            last = await self._send_file(place, letter)
            if draft:
                await self.delete_message(place, draft)
        for index, part in enumerate(letter.parts):
            buttons = letter.buttons if index == len(letter.parts) - 1 else ()
            name = letter.once and f"{letter.once}.{index}"
            post = Post(part, buttons, letter.is_plain, once=name)
            if index == 0 and draft and await self._edit(place, draft, post):
                last = draft
            else:
                last = await self._post(place if index == 0 else _further(place), post)
        await self._note_question(place, last, reply.actions)
        if not self.platform.has_files:
            return last
        for image in reply.images:
            await self._send_media(_further(place), "picture", Path(image))
        if reply.sound:
            await self._send_media(_further(place), "voice", Path(reply.sound))
        return last

    async def show_answer(self, place: Location, message: str, card: Card) -> None:
        """Edit a message with a question to show the answer, with retries; not every platform lets
        every message be edited."""
        traits, text = self.platform.traits, card.text
        if self.platform.length(text) > traits.longest:
            text = text.rpartition("\n\n")[0]
        post = Post(text, make_buttons(card.actions, traits))
        try:
            await self.pace.send(place, lambda: self.platform.edit(place, message, post))
        except Exception as error:  # noqa: BLE001 - an SDK may raise anything
            log.info("the answered question of %s was not edited: %s", self.platform.name, error)

    async def _note_question(
        self, place: Location, message: str, actions: Sequence[Action]
    ) -> None:
        if actions and self.choices:
            await self.choices.ask(place, message, actions)

    async def delete_message(self, place: Location, message: str) -> None:
        """Delete one of the bot's messages, if that is possible now."""
        with suppress(Exception):
            await self.pace.try_once(place, lambda: self.platform.delete(place, message))

    async def _send_file(self, place: Location, letter: _Letter) -> str:
        """Send the whole text in one file, with a caption that says so and has its first words."""
        text = _(_IN_A_FILE, characters=len(letter.text))
        caption = f"{text}\n\n{letter.text[:_LONGEST_CAPTION].rstrip()} …"
        content = letter.text.encode("utf-8", "replace")
        media = Media("document", _FILE, content, caption, "text/markdown", letter.buttons)
        return await self.pace.send(place, lambda: self.platform.upload(place, media))

    async def _post(self, place: Location, post: Post) -> str:
        try:
            return await self.pace.send(place, lambda: self.platform.post(place, post))
        except Exception as error:
            if post.is_plain or self.pace.failure_of(error).kind != "refused":
                raise
            log.warning("a reply's markup is refused, so it goes as plain text: %s", error)
            plain = replace(post, is_plain=True)
            return await self.pace.send(place, lambda: self.platform.post(place, plain))

    async def _edit(self, place: Location, draft: str, post: Post) -> bool:
        """Replace the draft by the final text; return False if that is impossible."""
        for one in (post, replace(post, is_plain=True)):
            try:
                await self.pace.send(place, lambda one=one: self.platform.edit(place, draft, one))  # type: ignore[misc]
            except Exception as error:
                if self.pace.failure_of(error).kind not in ("refused", "gone"):
                    raise
                log.info("the draft was not replaced: %s", error)
            else:
                return True
        return False

    async def _send_media(self, place: Location, kind: str, path: Path) -> None:
        """Send a picture or a voice message. A picture that the platform refuses is sent as a file;
        for a refused voice message the text is enough."""
        try:
            media = await asyncio.to_thread(
                Media.read, "picture" if kind == "picture" else "voice", path
            )
        except OSError as error:
            log.warning("the file %s can't be read: %s", path, error)
            return
        try:
            await self.pace.send(place, lambda: self.platform.upload(place, media))
        except Exception as error:
            if self.pace.failure_of(error).kind != "refused":
                raise
            log.warning("%s refuses a %s: %s", self.platform.name, kind, error)
            if kind == "picture":
                document = replace(media, kind="document")
                await self.pace.send(place, lambda: self.platform.upload(place, document))


def _further(place: Location) -> Location:
    """Return the place without the message that is answered: only the first message names it."""
    return replace(place, message="")
