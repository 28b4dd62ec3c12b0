"""Voice messages are transcribed before their turn begins, and answers are read aloud as the
setting `voice.reply` says.

A message is on disk before it is transcribed, and the transcript is stored with it at once. So in
any case it is transcribed once, and paid for at most once more. The text of an answer is sent with
the sound, so nothing is lost without a sound.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from agent.models.base import ModelAnswerBroken, ModelError, Usage
from agent.models.catalogue import cost_of
from agent.models.endpoint import OPENAI_URL, Endpoint
from bot.access import name_of
from bot.answers import TextToSpeech
from bot.app import Kernel
from bot.attachments import Stored, dump
from bot.received import Received
from bot.runtime import RuntimeConfig
from bot.settings.layers import Secrets
from bot.turns import SpeechToText
from channels.language import _, explain
from channels.message import clean_text
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.patterns import lazy
from memory.record import mailbox
from memory.record.database import Database
from memory.record.store import StoreError
from plugins.api import hookimpl
from plugins.voice.settings import VoiceSettings

if TYPE_CHECKING:
    from agent.models.sdk_client import SdkClient

log = logging.getLogger(__name__)


class _NotTranscribedError(Exception):
    """A voice message has no transcript. The text is a sentence with the reason and advice."""


class VoiceMessages:
    """The transcripts of voice messages (`bot.turns.SpeechToText`)."""

    def __init__(self, kernel: Kernel, voices: Voices) -> None:
        self._kernel, self._voices = kernel, voices

    def is_needed(self, received: Received) -> bool:
        """Return whether a file of a message was not transcribed yet."""
        if not any(map(_lacks_transcript, received.files)):
            return False
        return not received.text.strip() or bool(self._settings(received.key).model)

    def _settings(self, key: ConversationKey) -> VoiceSettings:
        return self._kernel.config.book.effective(key.id).section(VoiceSettings)

    async def transcribe(self, received: Received) -> tuple[Received, str]:
        """Return the message with its transcripts, and the reason why one is missing. Raises
        StoreError."""
        settings = self._settings(received.key)
        if not settings.model:
            return received, _(
                "I can't listen here, because no model is set for that. Your message is kept as a "
                "file. An owner can set one: /config voice.model whisper-1. Then send /retry, or "
                "put it in words."
            )
        voice = self._voices.of(received.key, settings.model)
        for number, file in enumerate(received.files):
            if not _lacks_transcript(file):
                continue
            try:
                received = await self._transcribe_one(received, number, voice, settings.language)
            except _NotTranscribedError as error:
                return received, str(error)
        return received, ""

    async def _transcribe_one(
        self, received: Received, number: int, voice: Voice, language: str
    ) -> Received:
        key, file = received.key, received.files[number]
        audio = await self._read(received, file, voice)
        try:
            text, spent = await voice.transcribe(audio, file.path, language)
        except ModelError as error:
            log.warning("a voice message was not heard: %s", error)
            raise _NotTranscribedError(
                _(
                    "Your voice message could not be transcribed: {reason} It is kept; "
                    "send /retry to try again, or write it instead.",
                    reason=explain(str(error)),
                )
            ) from error
        transcribed = replace(file, heard=" ".join(clean_text(text).split()))
        files = (*received.files[:number], transcribed, *received.files[number + 1 :])
        state = (await self._kernel.conversations.get(key)).context
        person = name_of(received.address)
        ledger = self._kernel.conversations.services.ledger

        def keep(db: Database) -> None:
            mailbox.keep_files(db, received.row, dump(files))
            ledger.insert(db, state.row, 0, spent, person)

        await self._kernel.store.write(keep)
        state.book(spent, person)
        if not transcribed.heard:
            raise _NotTranscribedError(
                _("I heard no words in your voice message. Please send it again.")
            )
        return replace(received, files=files)

    async def _read(self, received: Received, file: Stored, voice: Voice) -> bytes:
        """Return the bytes of a file that may be sent to the endpoint. Raises
        _NotTranscribedError."""
        person = self._kernel.access.identify(received.address)
        user = person.limited if person else ""
        if not voice.is_free and self._kernel.config.spending.is_enough(received.key, user):
            raise _NotTranscribedError(
                _(
                    "This month's spending limit is used up (/usage shows it), so your "
                    "voice message was not transcribed. It is kept; please write it instead."
                )
            )
        try:
            path = self._kernel.config.folder(received.key) / file.path
            audio = await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            log.warning("%s can't be read: %s", file.path, error)
            raise _NotTranscribedError(
                _("The file of your voice message is gone. Please send it again.")
            ) from error
        if not audio:
            raise _NotTranscribedError(_("Your voice message is empty. Please send it again."))
        return audio


_SOUNDS = frozenset({".aac", ".flac", ".m4a", ".mp3", ".oga", ".ogg", ".opus", ".wav"})


def _lacks_transcript(file: Stored) -> bool:
    """Return whether a file is a sound, by its sender's description, without a transcript."""
    kept = PurePosixPath(file.path)
    is_sound = file.media_type.startswith("audio/") or kept.suffix in _SOUNDS
    return is_sound and file.is_data and file.heard is None and not file.is_told


_FENCED = lazy(r"^(`{3,}|~{3,}).*?(^\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
# Bounded, since a model that writes "[" endlessly must not block other work.
_LABEL = r"\[([^\[\]\n]{0,1000})\]\([^)\n]{0,2000}\)"
_PICTURE, _LINK = re.compile("!" + _LABEL), re.compile(_LABEL)
_ADDRESS = lazy(r"https?://\S+")
_TABLE = lazy(r"^[^\S\n]*\|.*$", re.MULTILINE)
_MARKS = lazy(r"(^\s{0,3}(#{1,6}|>|[-*+]|\d+[.)])\s+)|[*_`~]{1,3}", re.MULTILINE)
# The lookbehind and the possessive quantifiers read each run of marks once.
_SENTENCE_END = lazy(r"(?<![.!?。！？…])[.!?。！？…]++[\"'”’)]*+\s|\n")


def to_spoken(text: str) -> str:
    """Return the part of an answer that is read aloud, without code, tables and URLs, up to the end
    of a sentence within the limit of a request."""
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


class SpokenAnswers:
    """Answers as sounds (`bot.answers.TextToSpeech`)."""

    def __init__(self, kernel: Kernel, voices: Voices) -> None:
        self._kernel, self._voices = kernel, voices

    def is_needed(self, key: ConversationKey, *, was_spoken_to: bool) -> bool:
        """Return whether answers are to be read aloud in this conversation."""
        settings = self._kernel.config.book.effective(key.id).section(VoiceSettings)
        is_asked = settings.reply == "always" or (settings.reply == "same" and was_spoken_to)
        return is_asked and bool(settings.speech_model)

    async def speak(
        self, key: ConversationKey, turn: int, text: str, form: str, user: str
    ) -> bytes:
        """Return the sound of an answer, or b"" if there is none. Errors are only logged, since the
        person has the text."""
        kernel, spoken = self._kernel, to_spoken(text)
        settings = kernel.config.book.effective(key.id).section(VoiceSettings)
        voice = self._voices.of(key, settings.speech_model)
        if not spoken or (not voice.is_free and kernel.config.spending.is_enough(key, user)):
            return b""
        try:
            sound, spent = await voice.speak(spoken, settings.speaker, form)
            conversation = await kernel.conversations.get(key)
            await conversation.context.pay(spent, turn)
        except (ModelError, StoreError) as error:
            log.warning("an answer was not read aloud: %s", error)
            return b""
        return sound


class VoiceFeature:
    """Both directions, with their shared endpoints."""

    def __init__(self, kernel: Kernel) -> None:
        self._voices = Voices(kernel.config, kernel.secrets)
        self._messages = VoiceMessages(kernel, self._voices)
        self._answers = SpokenAnswers(kernel, self._voices)

    @hookimpl
    def parley_speech_to_text(self) -> SpeechToText:
        return self._messages

    @hookimpl
    def parley_text_to_speech(self) -> TextToSpeech:
        return self._answers

    @hookimpl
    def parley_closing(self) -> Callable[[], Awaitable[None]]:
        return self._voices.close


@hookimpl
def parley_open(kernel: Kernel) -> VoiceFeature:
    return VoiceFeature(kernel)


# --- OpenAI's protocol: transcription (`/audio/transcriptions`), and speech ---------------

LONGEST_TRANSCRIPT = 100_000
"""The maximum of characters kept of a file's transcript."""
LONGEST_SPEECH = 4_096
"""The maximum of characters per speech request in the protocol."""
TRANSCRIPTION, SPEECH = "voice heard", "voice answered"
"""The names of these calls in the ledger."""
_TAKEN = frozenset(
    {".flac", ".mp3", ".mp4", ".mpeg", ".mpga", ".m4a", ".ogg", ".opus", ".wav", ".webm", ".aac"}
)
"""File name suffixes that endpoints know; for others, they inspect the content."""


class Rates(Struct, frozen=True):
    """The prices of voice without token prices, in US dollars: per minute transcribed, and per
    million characters spoken; 0: unknown."""

    minute: float = 0
    characters: float = 0


class Voice:
    """An endpoint for transcription or speech, with one model."""

    def __init__(self, endpoint: Endpoint, rates: Rates) -> None:
        self._endpoint, self._rates = endpoint, rates
        self._client: SdkClient | None = None

    @property
    def is_free(self) -> bool:
        """Return whether it is free: it is on this machine, and no price is set."""
        return self._endpoint.is_here and self._rates == Rates()

    async def transcribe(self, audio: bytes, path: str, language: str = "") -> tuple[str, Spent]:
        """Return the transcript of a file of this path, and its cost; `language` is a hint, as ISO
        639 code ("": detected). Raises ModelError."""
        fields = {"model": self._endpoint.model, "response_format": "json"}
        if language:
            fields["language"] = language
        answer = await self._connect().send_file(
            "/audio/transcriptions", fields, (_name_for(path), audio), self._endpoint.timeout
        )
        reply = answer if isinstance(answer, dict) else {}
        text = reply.get("text")
        if not isinstance(text, str):
            raise ModelAnswerBroken(
                f"{self._endpoint.shown_url} sent something that is no transcript. Check "
                f"{self._endpoint.setting}, and the model {self._endpoint.model!r}."
            )
        return text[:LONGEST_TRANSCRIPT], self._price(reply.get("usage"))

    async def speak(self, text: str, voice: str, form: str) -> tuple[bytes, Spent]:
        """Return the speech for at most LONGEST_SPEECH characters, in this format ("opus", "mp3"),
        and its cost. Raises ModelError."""
        body = {
            "model": self._endpoint.model,
            "input": text,
            "voice": voice,
            "response_format": form,
        }
        sound = await self._connect().read("/audio/speech", body, self._endpoint.timeout)
        if not sound or sound[:1] in b"{<":
            raise ModelAnswerBroken(
                f"{self._endpoint.shown_url} sent something that is no speech. Check "
                f"{self._endpoint.setting}, and the model {self._endpoint.model!r}."
            )
        rate = self._rates.characters
        cost = 0.0 if self.is_free else len(text) * rate / 1e6 if rate else None
        return sound, Spent(SPEECH, self._endpoint.model, 0, 0, 0, cost, is_reported=False)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    def _price(self, usage: object) -> Spent:
        """Return the ledger's row: priced by tokens if they are reported, otherwise by seconds."""
        reported: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
        prompt, output = (_count(reported.get(f"{kind}_tokens")) for kind in ("input", "output"))
        if prompt or output:
            cost = cost_of(self._endpoint.model, Usage(prompt, output), self._endpoint.base_url)
        else:
            minutes = _count(reported.get("seconds")) / 60
            cost = minutes * self._rates.minute if minutes and self._rates.minute else None
        cost = 0.0 if cost is None and self.is_free else cost
        return Spent(
            TRANSCRIPTION, self._endpoint.model, prompt, 0, output, cost, bool(prompt or output)
        )

    def _connect(self) -> SdkClient:
        if self._client is None:
            from agent.models.openai_client import open_client  # noqa: PLC0415 - slow import

            self._client = open_client(self._endpoint)
        return self._client


class Voices:
    """The voices in use; equal settings share one connected voice."""

    def __init__(self, config: RuntimeConfig, secrets: Secrets) -> None:
        self._config, self._secrets = config, secrets
        self._known: dict[tuple[Endpoint, Rates], Voice] = {}

    def of(self, key: ConversationKey, model: str) -> Voice:
        """Return the voice with this model for a conversation. The key from the environment is
        never sent to an address that is set for voice only."""
        settings = self._config.book.effective(key.id)
        own = settings.section(VoiceSettings)
        usual_key = "" if own.base_url else self._secrets.get("OPENAI_API_KEY", "")
        endpoint = Endpoint(
            model,
            own.base_url or self._secrets.get("OPENAI_BASE_URL", "") or OPENAI_URL,
            own.api_key or usual_key,
            timeout=settings.request_timeout,
            setting="voice.base_url" if own.base_url else "OPENAI_BASE_URL",
            key_name="voice.api_key" if own.base_url else "OPENAI_API_KEY",
        )
        rates = Rates(own.minute_price, own.speech_price)
        if (endpoint, rates) not in self._known:
            self._known[endpoint, rates] = Voice(endpoint, rates)
        return self._known[endpoint, rates]

    async def close(self) -> None:
        """Close the connections."""
        for voice in self._known.values():
            await voice.close()


def _count(value: object) -> int:
    """Return a number reported by an endpoint, rounded up; 0 if it is not plausible."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e8:
        return 0
    return math.ceil(value)


def _name_for(path: str) -> str:
    """Return the file name for the endpoint, whose suffix indicates the format."""
    suffix = PurePosixPath(path).suffix.lower()
    return f"voice{suffix if suffix in _TAKEN else '.ogg' if suffix == '.oga' else '.bin'}"
