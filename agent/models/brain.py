"""The settings of a brain, which is the endpoint of a model with its parameters; and the providers
that are known by name, from `providers.toml`: address, key, and differences."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import orjson
from msgspec import Struct
from msgspec.structs import replace
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from agent.models.endpoint import COMPATIBLE, Protocol, Quirks
from agent.models.learnt import ProviderQuirks
from memory.patterns import lazy
from memory.setting_notes import FIXED, StrictModel

_FILE = Path(__file__).with_name("providers.toml")
_NAME = lazy(r"\{(\w+)\}")


class Provider(Struct, frozen=True):
    """A provider. `key_name` is the name of its key in the environment, "" if it must have none;
    `base_url` may contain such names too, in braces; `title` is its display name. `speaks` is the
    protocol to use if it is installed. `providers.toml` explains the rest."""

    base_url: str
    key_name: str
    is_free: bool = False
    speaks: Protocol = COMPATIBLE
    host: str = ""
    lists: bool = True
    prefix: str = ""
    hides: str = ""
    window: tuple[str, ...] = ()
    cache_key: str = ""
    call_ids: int = 0
    thoughts: str = ""
    responses: str = ""
    without: tuple[str, ...] = ()
    extra: str = ""
    empty_content: bool = False
    max_tokens: str = ""
    largest_body: int = 0
    takes_tools: bool = True
    sees: bool = True
    title: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of the environment variables that its address needs."""
        return tuple(_NAME.findall(self.base_url))

    def address(self, given: Mapping[str, str]) -> str:
        """Return its address, with the environment's values filled in."""
        return _NAME.sub(lambda name: given.get(name[1], "").rstrip("/"), self.base_url)

    def is_at(self, host: str) -> bool:
        """Return whether this host is the provider's; a local server has none."""
        return not self.is_free and any(fnmatchcase(host, one) for one in self.host.split())

    def may_chat(self, name: str) -> bool:
        """Return whether a model in its list may be a chat model."""
        return not (self.hides and re.search(self.hides, name, re.IGNORECASE))

    def wants_responses(self, name: str) -> bool:
        """Return whether it serves a model by the Responses API alone."""
        return bool(self.responses) and re.fullmatch(self.responses, name) is not None

    def trim(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request's body without parameters that this provider refuses, with those that
        each request needs, and with the maximum length under the required name."""
        extra: dict[str, Any] = orjson.loads(self.extra) if self.extra else {}
        kept = {name: value for name, value in body.items() if name not in self.without}
        kept = {**extra, **kept} if extra else kept
        if self.max_tokens and "max_tokens" in kept:
            kept[self.max_tokens] = kept.pop("max_tokens")
        return kept


NOBODY = Provider("", "")
"""The unknown provider, without any differences."""


def _read(entry: Mapping[str, Any]) -> Provider:
    return Provider(
        entry["base_url"],
        entry["key"],
        is_free=entry.get("local", False),
        speaks=entry.get("speaks", COMPATIBLE),
        host=entry.get("host") or urlsplit(entry["base_url"]).hostname or "",
        lists=entry.get("lists", True),
        prefix=entry.get("prefix", ""),
        hides=entry.get("hides", ""),
        window=tuple(entry.get("window", ())),
        cache_key=entry.get("cache_key", ""),
        call_ids=entry.get("call_ids", 0),
        thoughts=entry.get("thoughts", ""),
        responses=entry.get("responses", ""),
        without=tuple(entry.get("without", ())),
        extra=entry.get("extra", ""),
        empty_content=entry.get("empty_content", False),
        max_tokens=entry.get("max_tokens", ""),
        largest_body=entry.get("largest_body", 0),
        takes_tools=entry.get("takes_tools", True),
        sees=entry.get("sees", True),
        title=entry["title"],
    )


PROVIDERS: Mapping[str, Provider] = {
    name: _read(entry) for name, entry in tomllib.loads(_FILE.read_text("utf-8")).items()
}


@lru_cache(maxsize=256)
def find_provider(name: str, base_url: str, quirks: Quirks = ()) -> Provider:
    """Return the provider with this name in the settings, or, without a name, at this address, with
    the configured `quirks` applied."""
    known = _find(name, base_url)
    fields = {_FIELDS.get(name, name): value for name, value in quirks}
    return replace(known, **fields) if fields else known


def _find(name: str, base_url: str) -> Provider:
    if name:
        return PROVIDERS.get(name, NOBODY)
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        host = ""
    return next((known for known in PROVIDERS.values() if known.is_at(host)), NOBODY)


_FIELDS = {"local": "is_free"}
"""Fields of `Provider` that have another name in `providers.toml` and in the settings."""


class BrainConfig(StrictModel):
    """The group `config` of a brain."""

    api_key: Annotated[str, StringConstraints(pattern=r"^[^\s\p{C}]*$", max_length=1_000)] = Field(
        default="",
        repr=False,
        description="The key for the endpoint; empty means the provider's usual one from the "
        "environment.",
        json_schema_extra={
            "wants": "{{secret.NAME}}, with NAME in the environment or .env",
            **FIXED,
        },
    )
    base_url: Annotated[
        str, StringConstraints(pattern=r"^(https?://[^\s\p{C}]+)?$", max_length=1_000)
    ] = Field(
        default="",
        description="The address of the endpoint; empty means the provider's own.",
        json_schema_extra={"wants": "an address with http:// or https://", **FIXED},
    )


def _check_provider(provider: str, info: ValidationInfo) -> str:
    config = info.data.get("config")
    if provider and provider not in PROVIDERS and config and not config.base_url:
        raise ValueError("nobody knows where it is")
    return provider


class Brain(StrictModel):
    """The endpoint of a model, and its parameters (Digitorn's brain without the model's name).

    The default is the endpoint of OPENAI_BASE_URL, with its own default parameters.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    config: BrainConfig = BrainConfig()
    provider: Annotated[
        str,
        StringConstraints(pattern=r"^[^\s\p{C}]*$", max_length=100),
        AfterValidator(_check_provider),  # it reads `config`, which must therefore come first
    ] = Field(
        default="",
        description="The provider of the model; empty means the bot's usual endpoint.",
        json_schema_extra={
            "wants": f"one of {', '.join(PROVIDERS)}, or any name with a config.base_url",
            "near": list(PROVIDERS),
            **FIXED,
        },
    )
    backend: Literal["auto", "openai_compat", "openai_responses", "anthropic"] = Field(
        default="auto",
        description="The protocol of the endpoint. auto: OpenAI's chat completions, which nearly "
        "all speak, its Responses API for models that want it, and Anthropic's own for the "
        "provider anthropic.",
        json_schema_extra=FIXED,
    )
    effort: Literal["", "low", "medium", "high", "xhigh", "max"] = Field(
        default="",
        description="Thinking effort of the model before it answers, by Anthropic's protocol and "
        "the Responses API; empty leaves it to the model.",
        json_schema_extra=FIXED,
    )
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        default=None,
        description="Sampling temperature of the model; null leaves it to the endpoint.",
        json_schema_extra={"wants": "a number from 0 to 2, or null", **FIXED},
    )
    max_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=0,
        description="Maximum length of a reply; 0 leaves it to the endpoint.",
        json_schema_extra={"unit": "tokens", **FIXED},
    )
    quirks: ProviderQuirks = ProviderQuirks()

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the model has an endpoint or a key of its own."""
        return bool(self.provider or self.config.base_url or self.config.api_key)


class SummaryWindow(StrictModel):
    """The group `context` of the brain for summaries."""

    max_tokens: Annotated[int, Field(ge=0, le=2_000_000)] = Field(
        default=0,
        description="The context window of that model; 0 means the known one, or 128000 if none is "
        "known.",
        json_schema_extra={"unit": "tokens", **FIXED},
    )


class SummaryBrain(Brain):
    """The complete settings of the model that writes the summaries; without a name it is the model
    that answers."""

    model: Annotated[
        str, StringConstraints(pattern=r"^([^\s\p{C}]+( [^\s\p{C}]+)*)?$", max_length=200)
    ] = Field(
        default="",
        description="The model that writes the summaries; empty means the one that answers.",
        json_schema_extra={"wants": "a model's name", **FIXED},
    )
    context: SummaryWindow = SummaryWindow()

    @model_validator(mode="after")
    def _names_a_model(self) -> Self:
        if self.is_elsewhere and not self.model:
            raise ValueError("summary_brain names a provider but no model; name one.")
        return self
