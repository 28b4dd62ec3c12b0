"""Voice by OpenAI's protocol: speech becomes text (`/audio/transcriptions`), text becomes speech
(`/audio/speech`). Most servers of one's own that speak the protocol have both, too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from agent.models.base import ModelAnswerBroken, Usage
from agent.models.catalogue import cost_of
from agent.models.endpoint import OPENAI_URL, Endpoint
from bot.runtime import RuntimeConfig
from bot.settings.layers import Secrets
from memory.keys import ConversationKey
from memory.ledger import Spent
from plugins.voice.settings import VoiceSettings

if TYPE_CHECKING:
    from agent.models.sdk_client import SdkClient

LONGEST_TRANSCRIPT = 100_000
"""Characters of what was heard in one file that are kept."""
LONGEST_SPEECH = 4_096
"""Characters that the protocol takes in one request for speech."""
HEARD, SPOKEN = "voice heard", "voice answered"
"""The names of these calls in the ledger."""
_TAKEN = frozenset(
    {".flac", ".mp3", ".mp4", ".mpeg", ".mpga", ".m4a", ".ogg", ".opus", ".wav", ".webm", ".aac"}
)
"""Ends of names that endpoints know; what else is sent may be anything, and they look at it."""


class Rates(Struct, frozen=True):
    """The rates of voice where the price list has no tokens for it, in US dollars: for a minute
    that is heard, and for a million characters that are spoken; 0: unknown."""

    minute: float = 0
    characters: float = 0


class Voice:
    """An endpoint that hears or speaks, with one model."""

    def __init__(self, endpoint: Endpoint, rates: Rates) -> None:
        self._endpoint, self._rates = endpoint, rates
        self._client: SdkClient | None = None

    @property
    def is_free(self) -> bool:
        """Return whether it costs nothing: it is on this machine, and nobody has set a price."""
        return self._endpoint.is_here and self._rates == Rates()

    async def transcribe(self, audio: bytes, path: str, language: str = "") -> tuple[str, Spent]:
        """Return what is said in a file of this path, and what it cost; `language` is a hint, as
        ISO 639 has it ("": it is found out). Raises ModelError."""
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
        """Speech for at most LONGEST_SPEECH characters, in this form ("opus", "mp3"), and what it
        cost. Raises ModelError."""
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
        return sound, Spent(SPOKEN, self._endpoint.model, 0, 0, 0, cost, is_reported=False)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    def _price(self, usage: object) -> Spent:
        """Return the ledger's row: by tokens where they are reported, else by the seconds."""
        reported: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
        prompt, said = (_count(reported.get(f"{kind}_tokens")) for kind in ("input", "output"))
        if prompt or said:
            cost = cost_of(self._endpoint.model, Usage(prompt, said), self._endpoint.base_url)
        else:
            minutes = _count(reported.get("seconds")) / 60
            cost = minutes * self._rates.minute if minutes and self._rates.minute else None
        cost = 0.0 if cost is None and self.is_free else cost
        return Spent(HEARD, self._endpoint.model, prompt, 0, said, cost, bool(prompt or said))

    def _connect(self) -> SdkClient:
        if self._client is None:
            from agent.models.openai_client import open_client  # noqa: PLC0415 - slow import

            self._client = open_client(self._endpoint)
        return self._client


class Voices:
    """The voices in use; the same settings give the same, already connected one."""

    def __init__(self, config: RuntimeConfig, secrets: Secrets) -> None:
        self._config, self._secrets = config, secrets
        self._known: dict[tuple[Endpoint, Rates], Voice] = {}

    def of(self, key: ConversationKey, model: str) -> Voice:
        """Return the voice with this model for a conversation. The key from the environment goes to
        no address that is set for voice alone."""
        settings = self._config.settings(key)
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
    """Return a number as an endpoint reports it, if it is one that can be."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e8:
        return 0
    return math.ceil(value)


def _name_for(path: str) -> str:
    """Return the name of the file for the endpoint: its end says of which kind it is."""
    suffix = PurePosixPath(path).suffix.lower()
    return f"voice{suffix if suffix in _TAKEN else '.ogg' if suffix == '.oga' else '.bin'}"
