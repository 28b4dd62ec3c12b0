"""The settings of a brain: the endpoint of a model, and its parameters."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from agent.models.learnt import ProviderQuirks
from agent.models.providers import PROVIDERS
from memory.setting_notes import FIXED, StrictModel


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
    max_tokens: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="The longest a reply may be; 0 leaves it to the endpoint.",
        json_schema_extra={"unit": "tokens", **FIXED},
    )
    quirks: ProviderQuirks = ProviderQuirks()

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the model has an endpoint or a key of its own."""
        return bool(self.provider or self.config.base_url or self.config.api_key)


class SummaryWindow(StrictModel):
    """The group `context` of the brain for summaries."""

    max_tokens: int = Field(
        default=0,
        ge=0,
        le=2_000_000,
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
