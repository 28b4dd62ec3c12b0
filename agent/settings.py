"""This layer's own settings: the model, its instructions, and how long a turn may go on."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)
from pydantic.config import JsonDict

from agent.models.providers import PROVIDERS
from agent.models.quirks import FIXED, ProviderQuirks

TURN: JsonDict = {"holds": "from the next turn on"}
"""The time at which a change takes effect; the next step is meant where nothing is said."""

_NAME = r"(-|-?[^\s\p{C}-][^\s\p{C}]*)"  # what begins with -- is a flag that is not known
ModelName = Annotated[str, StringConstraints(pattern=f"^{_NAME}( {_NAME})*$", max_length=200)]


class BrainConfig(BaseModel):
    """The group `config` of a brain."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

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


class Brain(BaseModel):
    """The place of a model, and how it is asked (Digitorn's brain without the model's name).

    The default is the endpoint of OPENAI_BASE_URL, asked as it likes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    config: BrainConfig = BrainConfig()
    provider: Annotated[
        str,
        StringConstraints(pattern=r"^[^\s\p{C}]*$", max_length=100),
        AfterValidator(_check_provider),  # it looks at `config`, which therefore stands above
    ] = Field(
        default="",
        description="Who serves the model; empty means the endpoint that the bot uses otherwise.",
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
        description="How hard the model thinks before it answers, by Anthropic's protocol and the "
        "Responses API; empty leaves it to the model.",
        json_schema_extra=FIXED,
    )
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        default=None,
        description="How freely the model picks its words; null leaves it to the endpoint.",
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
        """Return whether the model is served at an endpoint of its own, or with a key of its
        own."""
        return bool(self.provider or self.config.base_url or self.config.api_key)


class SummaryWindow(BaseModel):
    """The group `context` of the brain for summaries."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_tokens: int = Field(
        default=0,
        ge=0,
        le=2_000_000,
        description="The context window of that model; 0 means the known one, or 128000 if none is "
        "known.",
        json_schema_extra={"unit": "tokens", **FIXED},
    )


class SummaryBrain(Brain):
    """The model that writes the summaries, whole; without a name it is the model that answers."""

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


class ToolSettings(BaseModel):
    """The section `tools`: how tools are offered, and which room they have. Features add to it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    offer: Literal["auto", "all", "lean", "none"] = Field(
        default="auto",
        description="How the model is told of its tools. all: with how each is called, in every "
        "request. lean: by their names; it looks up the rest when it needs one, which takes less "
        "of a small window, and sometimes one more step. auto: all, unless that takes more of the "
        "window than tools.share. Those of MCP servers are always looked up. none: it has no "
        "tools at all.",
        json_schema_extra={"here": True, **TURN},
    )
    share: float = Field(
        default=0.25,
        ge=0.01,
        le=1,
        allow_inf_nan=False,
        description="The share of the window that the tools may take before tools.offer auto only "
        "lists them.",
        json_schema_extra={"wants": "a number from 0.01 to 1", "here": True, **TURN},
    )
    shell_unboxed: bool = Field(
        default=False,
        description="Whether commands run without a sandbox where bubblewrap does not work; they "
        "can then do whatever the bot's account can.",
        json_schema_extra=FIXED,
    )
    files_quota: int = Field(
        default=2_000,
        ge=1,
        le=1_000_000,
        description="How much space a chat's files and pictures may take on the disk; once it is "
        "full, neither people nor the model can add any until some are deleted.",
        json_schema_extra={"unit": "MB", **TURN},
    )
    approve: Literal["ask", "never"] = Field(
        default="ask",
        description="Whether a person is asked before a tool runs a command or uses the network: "
        "ask shows exactly what will run; never runs it without asking.",
    )


class AgentSettings(BaseModel):
    """The settings that this layer adds at the top level."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: ModelName = Field(
        default="auto",
        description="The model that answers: embedded is the small one that comes with Parley; "
        "auto means embedded if neither OPENAI_API_KEY nor OPENAI_BASE_URL is set, "
        "otherwise the endpoint's usual one.",
        json_schema_extra={"wants": "a model's name, embedded or auto", "here": True, **TURN},
    )
    fallback_models: tuple[ModelName, ...] = Field(
        default=(),
        strict=False,  # lists become tuples; the names in them stay strict
        max_length=20,
        description="Models to try in turn when the one before fails; agent:NAME is the model of "
        "an agent in the configuration, wherever that is served. One that failed is not asked for "
        "a while; /status tells.",
        json_schema_extra={
            "wants": "a list of up to 20 names of models: a, b",
            "here": True,
            **TURN,
        },
    )
    system_prompt: str = Field(
        default="",
        max_length=100_000,
        description="What the model is told about itself and its work, ahead of the "
        "conversation; empty means Parley's own prompt. In the configuration it may "
        "also name a file: file:NAME, or a path that ends in .md or .txt.",
        json_schema_extra={"wants": "text of at most 100000 characters", "here": True, **TURN},
    )
    agent_max_steps: int = Field(
        default=15,
        ge=1,
        le=200,
        description="The most steps in one turn; a step is one reply of the model, however many "
        "tools it calls.",
        json_schema_extra={"unit": "steps", "here": True},
    )
    agent_max_calls: int = Field(
        default=50,
        ge=1,
        le=1_000,
        description="The most tool calls that are run in one step; the model is told that any "
        "others were not.",
        json_schema_extra={"unit": "calls", "here": True},
    )
    turn_timeout: int = Field(
        default=600,
        ge=5,
        le=86_400,
        description="A turn that takes longer is stopped; what was done so far is kept.",
        json_schema_extra={"unit": "seconds", "here": True, **TURN},
    )
    request_timeout: int = Field(
        default=120,
        ge=1,
        le=3_600,
        description="How long a request waits for the next piece of an answer; three times as "
        "long if the endpoint keeps signalling that it is alive.",
        json_schema_extra={"unit": "seconds", "here": True, **TURN},
    )
    brain: Brain = Brain()
    tools: ToolSettings = ToolSettings()
