"""The selection of the model that answers: from names in the settings to connected models."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from agent.models.base import (
    AccountRefused,
    Model,
    ModelError,
    ModelRefused,
    ModelReply,
    ModelRequest,
    OnCalled,
    OnDelta,
    uncalled,
)
from agent.models.brain import PROVIDERS, Brain
from agent.models.embedded import EmbeddedModel, EmbeddedServer
from agent.models.endpoint import (
    ANTHROPIC,
    COMPATIBLE,
    INSTALL_ANTHROPIC,
    OPENAI_URL,
    RESPONSES,
    Endpoint,
    Protocol,
    is_anthropic_installed,
)
from agent.models.fallback import Cooldowns, FallbackModel
from agent.models.learnt import LearntModels, ModelFacts
from agent.models.listed import ListedModel
from agent.models.openai import OpenAIModel
from agent.models.served import EndpointModel

log = logging.getLogger(__name__)

AUTO = "auto"
EMBEDDED = "embedded"
USUAL = "gpt-5-mini"
"""The model that `auto` means at OpenAI's own endpoint, or if an endpoint lists no models."""
LISTING_TIMEOUT = 10.0
OF_AGENT = "agent:"
"""The prefix of an agent's name in a list of fallbacks: its model answers, at its own endpoint."""


class ModelChoice(Struct, frozen=True):
    """The settings' choice of models. `timeout` is in seconds, between two pieces of an answer;
    `brain` is their endpoint, and `group` the name of its settings group."""

    model: str
    fallbacks: tuple[str, ...]
    timeout: float
    brain: Brain
    group: str = "the agent's brain"

    @property
    def is_agents(self) -> bool:
        """Return whether it is an agent's model, wherever that is served."""
        return self.model.startswith(OF_AGENT)

    @property
    def alone(self) -> tuple[ModelChoice, ...]:
        """The choice without fallbacks, for each of its models."""
        names = dict.fromkeys((self.model, *self.fallbacks))
        return tuple(replace(self, model=name, fallbacks=()) for name in names)


class Credentials(Struct, frozen=True):
    """The address of the models, and its key; both from the environment or `.env` alone.

    `keys` has the values for other providers, by their names in the environment.
    """

    api_key: str = ""
    base_url: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the address without the keys, which must not get into a log."""
        return f"Credentials({self.base_url!r})"

    @property
    def are_given(self) -> bool:
        return bool(self.api_key or self.base_url)


class ModelEndpoint(Struct, frozen=True):
    """The endpoint of a brain's model; `missing` names a required environment variable that is not
    set: a key, or a part of the address."""

    base_url: str
    api_key: str
    is_free: bool = False
    missing: str = ""

    def __repr__(self) -> str:
        """Return the fields without the key, which must not get into a log."""
        return f"ModelEndpoint({self.base_url!r}, missing={self.missing!r})"


def place_of(brain: Brain, given: Credentials) -> ModelEndpoint:
    """Return the endpoint of a brain's model: at its own address, its provider's, or the general
    one.

    A key from the environment is sent to an address other than its provider's only if the brain
    names both.
    """
    own = brain.config
    if own.base_url and brain.provider not in PROVIDERS:
        return ModelEndpoint(own.base_url, own.api_key, bool(brain.quirks.local))
    usual = _default_endpoint(brain.provider, given)
    return ModelEndpoint(
        own.base_url or usual.base_url,
        own.api_key or usual.api_key,
        usual.is_free if brain.quirks.local is None else brain.quirks.local,
        "" if own.base_url or own.api_key else usual.missing,
    )


def _default_endpoint(provider: str, given: Credentials) -> ModelEndpoint:
    if provider in ("", "openai"):
        missing = "" if given.are_given else "OPENAI_API_KEY"
        return ModelEndpoint(given.base_url or OPENAI_URL, given.api_key, missing=missing)
    known = PROVIDERS[provider]
    wanted = (*known.variables, *filter(None, [known.key_name]))
    missing = next((name for name in wanted if not given.keys.get(name)), "")
    key = given.keys.get(known.key_name, "")
    return ModelEndpoint(known.address(given.keys), key, known.is_free, missing)


UNCACHED = (
    "Claude is asked through Anthropic's OpenAI-compatible layer, which caches nothing: every "
    "request is paid in full. Its own protocol is installed by one line: "
    f"`{INSTALL_ANTHROPIC}`; then restart the bot."
)


def protocol_of(brain: Brain) -> Protocol:
    """Return the protocol for a brain's model."""
    if brain.backend != "auto":
        return brain.backend
    known = PROVIDERS.get(brain.provider)
    return known.speaks if known else COMPATIBLE


def connect(
    endpoint: Endpoint, protocol: Protocol, learnt: ModelFacts | None = None
) -> EndpointModel:
    """Return the model behind an endpoint, asked by this protocol if its SDK is installed; no loop
    needs to run. `learnt` are its known facts (None: none, and none are kept)."""
    if protocol == ANTHROPIC and is_anthropic_installed():
        from agent.models.anthropic import AnthropicModel  # noqa: PLC0415 - an extra

        return AnthropicModel(replace(endpoint, protocol="Anthropic's API"), learnt)
    return OpenAIModel(endpoint, learnt, by_responses=protocol == RESPONSES)


class Models:
    """The models in use; the same choice gives the same, already connected ones. `on_refused` is
    called for a refused key or account that is not otherwise reported, since another model
    answered; `on_called` at each request's end. `agent` returns an agent's model for a fallback
    (None: there is no such agent)."""

    def __init__(
        self,
        credentials: Credentials,
        agent: Callable[[str], ModelChoice | None] = lambda name: None,
        on_refused: Callable[[str], None] = lambda sentence: None,
        on_called: OnCalled = uncalled,
    ) -> None:
        self._credentials, self.agent = credentials, agent
        self.on_refused, self._on_called = on_refused, on_called
        self._rests = Cooldowns()
        self.learnt = LearntModels()
        self._embedded = EmbeddedServer()
        self._embedded.on_called = on_called
        self._single: dict[ModelChoice, Model] = {}
        self._chosen: dict[tuple[ModelChoice, ...], Model] = {}
        self._left: list[Model] = []  # running turns may still ask them
        self._lists = ModelLists()

    def take(self, credentials: Credentials) -> None:
        """Use these credentials from now on, and retry models that were refused without them."""
        self._credentials, self._rests = credentials, Cooldowns()
        self._left += self._single.values()
        self._single, self._chosen = {}, {}

    def of(self, choice: ModelChoice) -> Model:
        """Return the model of this choice, followed by its fallbacks."""
        chain = tuple(self.chain(choice))
        if chain not in self._chosen:
            models = [self._one(single) for single in chain]
            self._chosen[chain] = (
                FallbackModel(models, self._report_model, self._rests) if models[1:] else models[0]
            )
        return self._chosen[chain]

    def chain(self, choice: ModelChoice) -> list[ModelChoice]:
        """Return each model of a choice, in turn; a fallback agent is replaced by its model."""
        first, *others = choice.alone
        return list(dict.fromkeys((first, *(self._agents_model(one) or one for one in others))))

    def _agents_model(self, choice: ModelChoice) -> ModelChoice | None:
        name = choice.model.removeprefix(OF_AGENT)
        own = self.agent(name) if name != choice.model else None
        return own and replace(own, fallbacks=(), timeout=choice.timeout)

    def resting(self, choice: ModelChoice) -> list[tuple[str, str, float]]:
        """Return the paused models of a choice: name, reason, and remaining seconds."""
        chain = self.chain(choice)
        models = [self._one(single) for single in chain] if chain[1:] else []
        rests = [(model, self._rests.of(model)) for model in models]
        return [
            (model.name, rest.why, self._rests.seconds_left(rest)) for model, rest in rests if rest
        ]

    def where(self, choice: ModelChoice) -> str:
        """Return a description of where the chosen model runs."""
        if self.uses_embedded(choice):
            return "it runs on this machine, needs no key, and is small"
        url = self._endpoint(choice).shown_url
        return "OpenAI's endpoint" if url == OPENAI_URL else url

    def uses_embedded(self, choice: ModelChoice) -> bool:
        """Return whether the embedded model answers first."""
        is_given = self._credentials.are_given or choice.brain.is_elsewhere
        return choice.model == EMBEDDED or (choice.model == AUTO and not is_given)

    def why_not(self, choice: ModelChoice) -> str:
        """Return why a choice's model can't be asked at all, in a sentence, or ""."""
        model = self._one(replace(choice, fallbacks=()))
        return model.sentence if isinstance(model, _UnavailableModel) else ""

    def fallback_in_use(self, choice: ModelChoice) -> str:
        """Return the name of the fallback that is asked first now; "" if it is the configured
        model."""
        chain = [self._one(single) for single in self.chain(choice)]
        awake = next((one for one in chain if not self._rests.of(one)), chain[0])
        return "" if awake is chain[0] else awake.name

    def list_learnt(self, choice: ModelChoice) -> list[tuple[str, ModelFacts]]:
        """Return the facts learnt about each model of a choice, by its name."""
        models = [self._one(single) for single in self.chain(choice)]
        return [(one.name, one.learnt) for one in map(find_served, models) if one is not None]

    async def list_models(self, brain: Brain) -> list[ListedModel]:
        """Return the models that this brain's endpoint lists, possibly from the cache. Raises
        ModelError."""
        choice = ModelChoice("", (), LISTING_TIMEOUT, brain)  # a list needs no model
        if missing := place_of(brain, self._credentials).missing:
            raise ModelRefused(_require_model(missing))
        endpoint = self._endpoint(choice)
        return await self._lists.of(endpoint, lambda: connect(endpoint, protocol_of(brain)))

    async def start_embedded(self, on_progress: Callable[[str], None]) -> None:
        """Load the embedded model before its first request. Raises ModelError."""
        await self._embedded.start(on_progress)

    async def close(self) -> None:
        for model in (*self._single.values(), *self._left):
            await model.close()
        await self._embedded.close()
        await self.learnt.close()

    def _one(self, choice: ModelChoice) -> Model:
        if choice not in self._single:
            self._single[choice] = self._connect(choice)
        return self._single[choice]

    def _connect(self, choice: ModelChoice) -> Model:
        if self.uses_embedded(choice):
            brain = choice.brain
            return EmbeddedModel(self._embedded, brain.temperature, brain.max_tokens)
        if choice.is_agents:
            return _UnavailableModel(choice.model, _require_agent(choice.model))
        place = place_of(choice.brain, self._credentials)
        if place.missing:
            is_key = any(place.missing == one.key_name for one in PROVIDERS.values())
            problem = (
                _require_key(choice.model, place.missing)
                if is_key
                else _require_model(place.missing)
            )
            return _UnavailableModel(choice.model, problem)
        if choice.brain.backend == ANTHROPIC and not is_anthropic_installed():
            return _UnavailableModel(choice.model, _require_sdk(choice.model))
        if choice.model != AUTO:
            return self._connect_to_server(choice)
        if place.base_url == OPENAI_URL:
            return self._connect_to_server(replace(choice, model=USUAL))
        return _FirstListedModel(lambda name: self._connect_to_server(replace(choice, model=name)))

    def _connect_to_server(self, choice: ModelChoice) -> EndpointModel:
        if advice := self.advise(choice):
            log.warning("%s", advice)
        endpoint = self._endpoint(choice)
        learnt = self.learnt.of(endpoint.shown_url, endpoint.model)
        made = connect(endpoint, protocol_of(choice.brain), learnt)
        made.on_called = self._on_called
        return made

    def advise(self, choice: ModelChoice) -> str:
        """Return advice for lower costs of a choice's models, in a sentence, or ""."""
        at = choice.brain.provider, self._endpoint(choice).base_url
        is_theirs = at == ("anthropic", PROVIDERS["anthropic"].base_url)
        is_asked_so = protocol_of(choice.brain) == ANTHROPIC and is_anthropic_installed()
        is_embedded = self.uses_embedded(choice)
        return UNCACHED if is_theirs and not is_asked_so and not is_embedded else ""

    def _report_model(self, name: str, error: ModelError) -> None:
        log.warning("%s answered, because the first model failed: %s", name, error)
        if isinstance(error, AccountRefused):
            self.on_refused(str(error))

    def _endpoint(self, choice: ModelChoice) -> Endpoint:
        brain, place = choice.brain, place_of(choice.brain, self._credentials)
        return Endpoint(
            choice.model,
            place.base_url,
            place.api_key,
            timeout=choice.timeout,
            is_free=place.is_free,
            temperature=brain.temperature,
            max_tokens=brain.max_tokens,
            setting=_name_setting(choice),
            provider=brain.provider,
            key_name=_name_key(choice),
            effort=brain.effort,
            quirks=brain.quirks.given,
        )


def _name_setting(choice: ModelChoice) -> str:
    """Return the name of the setting with the address of a choice's models."""
    if choice.brain.config.base_url:
        return f"{choice.group}.config.base_url"
    is_usual = choice.brain.provider in ("", "openai")
    return "OPENAI_BASE_URL" if is_usual else f"{choice.group}.provider"


def _require_key(model: str, key_name: str) -> str:
    is_own = key_name == "OPENAI_API_KEY"
    key = f"{key_name}{' (or OPENAI_BASE_URL for an endpoint of your own)' * is_own}"
    instead = ", or say /config model auto for the demo model" * is_own
    return (
        f"The model {model!r} needs a key: put {key} into the environment, or into a file "
        f".env beside config.json, and restart the bot{instead}."
    )


def _require_model(name: str) -> str:
    return (
        f"{name} is missing: put it into the environment, or into a file .env beside config.json, "
        "and restart the bot."
    )


def _require_agent(name: str) -> str:
    return (
        f"{name!r} is no model: in `fallback_models`, agent:NAME stands for the model of an agent "
        "in the configuration; /agent shows them all."
    )


def _require_sdk(model: str) -> str:
    return (
        f"The model {model!r} is to be asked by Anthropic's protocol, which is not installed: run "
        f"`{INSTALL_ANTHROPIC}`, and restart the bot."
    )


def _name_key(choice: ModelChoice) -> str:
    """Return the name of the setting with the key of a choice's models."""
    if choice.brain.config.api_key:
        return f"{choice.group}.config.api_key"
    known = PROVIDERS.get(choice.brain.provider)
    return known.key_name if known and known.key_name else "OPENAI_API_KEY"


class _UnavailableModel(Model):
    """A model that can't be asked, because something is missing; `sentence` says what."""

    window, provider, takes_tools, sees, is_free, name = 0, "", True, True, False, ""

    def __init__(self, name: str, sentence: str) -> None:
        self.name, self.sentence = name, sentence

    async def ready(self) -> None:
        """Do nothing."""

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        raise ModelRefused(self.sentence)

    async def close(self) -> None:
        """Do nothing."""


class ModelLists:
    """The lists of models by endpoint, cached for `FRESH` seconds; concurrent callers share one
    request. `clock` returns seconds."""

    FRESH = 600.0
    MOST = 50  # endpoints

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Endpoint, tuple[float, list[ListedModel]]] = {}
        self._asking: dict[Endpoint, asyncio.Lock] = {}

    async def of(
        self, endpoint: Endpoint, connect: Callable[[], EndpointModel]
    ) -> list[ListedModel]:
        """Return the models that this endpoint lists. Raises ModelError, and retries at the next
        call."""
        async with self._asking.setdefault(endpoint, asyncio.Lock()):
            since, listed = self._known.get(endpoint, (-math.inf, []))
            if self._clock() - since > self.FRESH:
                model = connect()
                try:
                    listed = await model.list_models()
                finally:
                    await model.close()
                if len(self._known) >= self.MOST:
                    self._known.clear()
                self._known[endpoint] = self._clock(), listed
            return listed


def find_served(model: Model) -> EndpointModel | None:
    """Return the model as one at an endpoint; None if it is not one, or not found yet."""
    if isinstance(model, _FirstListedModel):
        return model.found
    return model if isinstance(model, EndpointModel) else None


class _FirstListedModel(Model):
    """`auto` at a custom endpoint: the first model that it lists, found before the first turn;
    `USUAL` if it lists none."""

    takes_tools, sees, is_free = True, True, False

    def __init__(self, served: Callable[[str], EndpointModel]) -> None:
        self._served = served
        self.found: EndpointModel | None = None
        self._finding = asyncio.Lock()

    @property
    def name(self) -> str:
        return self.found.name if self.found else AUTO

    @property
    def window(self) -> int:
        return self.found.window if self.found else 0

    @property
    def provider(self) -> str:
        return self.found.provider if self.found else ""

    @property
    def revision(self) -> int:
        return 1 + self.found.revision if self.found else 0

    async def ready(self) -> None:
        await (await self._model()).ready()

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        return await (await self._model()).reply(request, on_delta)

    async def _model(self) -> EndpointModel:
        async with self._finding:
            if self.found is None:
                self.found = await self._find()
        return self.found

    async def _find(self) -> EndpointModel:
        usual = self._served(USUAL)
        name = await usual.first_listed_model()
        if name is None or name == USUAL:
            return usual
        await usual.close()
        return self._served(name)

    async def close(self) -> None:
        if self.found is not None:
            await self.found.close()
