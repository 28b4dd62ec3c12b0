"""Answers that are read aloud: as the setting `voice.reply` says, where the channel can play them.

The text goes with the sound, so nothing is lost where there is none.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agent.models.base import ModelError
from agent.models.voice import LONGEST_SPEECH, Voice
from bot.spending import Spending
from channels.base import Channel, WithSound
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.record.offload import write_whole
from memory.record.store import StoreError

log = logging.getLogger(__name__)

_FENCED = re.compile(r"^(`{3,}|~{3,}).*?(^\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
# Bounded, since a model that says "[" without end must hold up nobody.
_LABEL = r"\[([^\[\]\n]{0,1000})\]\([^)\n]{0,2000}\)"
_PICTURE, _LINK = re.compile("!" + _LABEL), re.compile(_LABEL)
_ADDRESS = re.compile(r"https?://\S+")
_TABLE = re.compile(r"^[^\S\n]*\|.*$", re.MULTILINE)
_SPOKEN = re.compile(r"answer-t(\d{1,18})\.(?:ogg|mp3)")
_MARKS = re.compile(r"(^\s{0,3}(#{1,6}|>|[-*+]|\d+[.)])\s+)|[*_`~]{1,3}", re.MULTILINE)
# The lookbehind and the possessive quantifiers read each run of marks once.
_SENTENCE_END = re.compile(r"(?<![.!?。！？…])[.!?。！？…]++[\"'”’)]*+\s|\n")


def to_spoken(text: str) -> str:
    """Return the part of an answer that is read aloud: no code, no tables, no addresses; as much as
    one request takes, up to the end of a sentence."""
    for pattern, instead in (
        (_FENCED, "\n"),
        (_PICTURE, r"\1"),
        (_LINK, r"\1"),
        (_ADDRESS, ""),
        (_TABLE, ""),
        (_MARKS, ""),
    ):
        text = pattern.sub(instead, text)
    spoken = "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\n"))))
    if len(spoken) <= LONGEST_SPEECH:
        return spoken
    ends = [found.end() for found in _SENTENCE_END.finditer(spoken, 0, LONGEST_SPEECH)]
    return spoken[: ends[-1] if ends else LONGEST_SPEECH].rstrip()


class Mouth(Struct, frozen=True):
    """The voice of a conversation's answers: `when` is the setting `voice.reply`."""

    voice: Voice | None
    when: str
    name: str


class Speaking:
    """Has answers spoken; `mouth_for` is asked for each, `channels` are those that run."""

    def __init__(
        self,
        conversations: Conversations,
        mouth_for: Callable[[ConversationKey], Mouth],
        channels: Mapping[str, Channel],
        spending: Spending,
    ) -> None:
        self._conversations, self._mouth_for = conversations, mouth_for
        self._channels, self._spending = channels, spending

    def _form_of(self, channel: str) -> str:
        """Return in which form a channel plays sounds; "" where it plays none."""
        found: object = self._channels.get(channel)
        return found.sound if isinstance(found, WithSound) else ""

    def is_wanted(self, key: ConversationKey, channel: str, *, was_spoken_to: bool) -> bool:
        """Return whether an answer shall be read aloud there."""
        mouth = self._mouth_for(key)
        is_asked = mouth.when == "always" or (mouth.when == "same" and was_spoken_to)
        return is_asked and mouth.voice is not None and bool(self._form_of(channel))

    async def speak(
        self, key: ConversationKey, turn: int, text: str, channel: str, user: str = ""
    ) -> str:
        """The path of a file in which an answer to this user ("": an owner) is read aloud; "" where
        it can't be. It raises nothing: the text is there all the same."""
        mouth, form, spoken = self._mouth_for(key), self._form_of(channel), to_spoken(text)
        if mouth.voice is None or not spoken:
            return ""
        if not mouth.voice.is_free and self._spending.is_enough(key, user):
            return ""
        try:
            sound, spent = await mouth.voice.speak(spoken, mouth.name, form)
            conversation = await self._conversations.get(key)
            await conversation.context.pay(spent, turn)
            ending = "ogg" if form == "opus" else form
            file = conversation.folder / f"{ANSWER}{turn}.{ending}"
            await asyncio.to_thread(_write, file, sound)
        except (ModelError, OSError, StoreError) as error:
            log.warning("an answer was not read aloud: %s", error)
            return ""
        return str(file.absolute())


ANSWER = "answer-t"
"""The beginning of the name of a file in which the answer of a turn is read aloud; it stands in the
folder of its conversation, and goes with it."""


def list_spoken(folder: Path) -> dict[int, str]:
    """The files of a conversation in which answers are read aloud, by the number of the turn."""
    with suppress(OSError):  # nothing was written yet
        found = (_SPOKEN.fullmatch(path.name) for path in folder.iterdir())
        return {int(match[1]): match[0] for match in found if match}
    return {}


def _write(file: Path, sound: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, sound)
