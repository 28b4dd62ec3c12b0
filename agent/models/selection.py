"""Which model answers: from names in the settings to models that are ready to be asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from agent.models.base import Model, ModelError, ModelRefused, ModelReply, ModelRequest, OnDelta
from agent.models.embedded import EmbeddedModel
from agent.models.fallback import FallbackModel
from agent.models.openai import OPENAI_URL, Endpoint, OpenAIModel

log = logging.getLogger(__name__)

AUTO = "auto"
EMBEDDED = "embedded"
USUAL = "gpt-5-mini"
"""What `auto` means at OpenAI's own endpoint, or where an endpoint lists no models."""
LISTING_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Choice:
    """What the settings say about models. `timeout` in seconds, between two pieces of an answer."""

    model: str
    fallbacks: tuple[str, ...]
    timeout: float


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where models are served, and the key to it; both from the environment or `.env` alone."""

    api_key: str = ""
    base_url: str = ""

    def __repr__(self) -> str:
        return f"Credentials(base_url={self.base_url!r})"

    @property
    def are_given(self) -> bool:
        return bool(self.api_key or self.base_url)


class Models:
    """The models in use; the same choice gives the same, already connected ones."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._embedded = EmbeddedModel()
        self._single: dict[tuple[str, float], Model] = {}
        self._chosen: dict[Choice, Model] = {}

    def of(self, choice: Choice) -> Model:
        """The model that this choice means, with its fallbacks behind it."""
        if choice not in self._chosen:
            names = (choice.model, *choice.fallbacks)
            models = [self._one(name, choice.timeout) for name in dict.fromkeys(names)]
            self._chosen[choice] = models[0] if len(models) == 1 else FallbackModel(models, _tell)
        return self._chosen[choice]

    def where(self, choice: Choice) -> str:
        """Where the chosen model runs, in words."""
        if self._is_embedded(choice.model):
            return "embedded: it runs on this machine, needs no key, and is small"
        return self._credentials.base_url or "OpenAI's endpoint"

    def uses_embedded(self, choice: Choice) -> bool:
        """Whether the embedded model answers first."""
        return self._is_embedded(choice.model)

    async def listed(self) -> list[str]:
        """The models that the endpoint lists. Raises ModelError."""
        endpoint = self._served(USUAL, timeout=LISTING_TIMEOUT)
        try:
            return await endpoint.listed_models()
        finally:
            await endpoint.close()

    async def start_embedded(self, on_progress: Callable[[str], None]) -> None:
        """Load the embedded model ahead of its first question; raises ModelError."""
        await self._embedded.start(on_progress)

    async def close(self) -> None:
        for model in (*self._single.values(), self._embedded):
            await model.close()

    def _is_embedded(self, name: str) -> bool:
        return name == EMBEDDED or (name == AUTO and not self._credentials.are_given)

    def _one(self, name: str, timeout: float) -> Model:
        if self._is_embedded(name):
            return self._embedded
        if (name, timeout) not in self._single:
            self._single[name, timeout] = self._connected(name, timeout)
        return self._single[name, timeout]

    def _connected(self, name: str, timeout: float) -> Model:
        if not self._credentials.are_given:
            return _KeyMissing(name)
        if name != AUTO:
            return self._served(name, timeout)
        if not self._credentials.base_url:
            return self._served(USUAL, timeout)
        return _FirstListed(lambda name: self._served(name, timeout))

    def _served(self, name: str, timeout: float) -> OpenAIModel:
        given = self._credentials
        return OpenAIModel(
            Endpoint(name, given.base_url or OPENAI_URL, given.api_key, timeout=timeout)
        )


def _tell(name: str, error: ModelError) -> None:
    log.warning("%s answered, because the first model failed: %s", name, error)


class _KeyMissing:
    """A model that can't be asked, because nothing says where it is served."""

    window, takes_tools, sees, is_free = 0, True, True, False

    def __init__(self, name: str) -> None:
        self.name = name

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        raise ModelRefused(
            f"The model {self.name!r} needs a key: put OPENAI_API_KEY (or OPENAI_BASE_URL for an "
            "endpoint of your own) into the environment or a file .env beside config.json and "
            "start the bot again, or say /config model auto for the embedded model."
        )

    async def close(self) -> None:
        """Nothing is open."""


class _FirstListed:
    """`auto` at an endpoint of one's own: the first model that it lists, found at the first
    request; `USUAL` where it lists none."""

    window, takes_tools, sees, is_free = 0, True, True, False

    def __init__(self, served: Callable[[str], OpenAIModel]) -> None:
        self._served = served
        self._found: OpenAIModel | None = None
        self._finding = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._found.name if self._found else AUTO

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        async with self._finding:
            if self._found is None:
                self._found = await self._find()
        return await self._found.reply(request, on_delta)

    async def _find(self) -> OpenAIModel:
        usual = self._served(USUAL)
        name = await usual.first_listed_model()
        if name is None or name == USUAL:
            return usual
        await usual.close()
        return self._served(name)

    async def close(self) -> None:
        if self._found is not None:
            await self._found.close()
