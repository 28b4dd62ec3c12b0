"""This layer's own settings: the model, its instructions, and how long a turn may go on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agent.models.brain import Brain
from memory.setting_notes import FIXED, TURN, StrictModel


class ToolSettings(StrictModel):
    """The section `tools`: how tools are offered, and their disk space. Features extend it."""

    offer: Literal["auto", "all", "lean", "none"] = Field(
        default="auto",
        description="Form in which the model gets its tools. all: with their parameters, in every "
        "request. lean: their names; it looks up the rest when it needs one, which takes less of "
        "a small window, and sometimes one more step. auto: all, unless that takes more of the "
        "window than tools.share. Those of MCP servers are always looked up. none: it has no "
        "tools at all.",
        json_schema_extra={"here": True, **TURN},
    )
    share: Annotated[float, Field(ge=0.01, le=1, allow_inf_nan=False)] = Field(
        default=0.25,
        description="The share of the window that the tools may take before tools.offer auto only "
        "lists them.",
        json_schema_extra={"wants": "a number from 0.01 to 1", "here": True, **TURN},
    )
    shell_unboxed: bool = Field(
        default=False,
        description="Run commands without a sandbox where bubblewrap does not work; they can then "
        "do whatever the bot's account can.",
        json_schema_extra=FIXED,
    )
    files_quota: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=2_000,
        description="Maximum disk space for a chat's files and pictures; once it is full, "
        "neither people nor the model can add any until some are deleted.",
        json_schema_extra={"unit": "MB", **TURN},
    )
    approve: Literal["ask", "never"] = Field(
        default="ask",
        description="Ask before a tool runs a command or uses the network: ask shows exactly what "
        "will run; never runs it without asking.",
    )


_NAME = r"(-|-?[^\s\p{C}-][^\s\p{C}]*)"  # what begins with -- is a flag that is not known
ModelName = Annotated[str, StringConstraints(pattern=f"^{_NAME}( {_NAME})*$", max_length=200)]


class AgentSettings(StrictModel):
    """The settings that this layer adds at the top level."""

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
        description="Models to try in turn when the previous one fails; agent:NAME is the model "
        "of that agent in the configuration, wherever it is served. A failed model is "
        "skipped for a while; /status shows which.",
        json_schema_extra={
            "wants": "a list of up to 20 names of models: a, b",
            "here": True,
            **TURN,
        },
    )
    system_prompt: str = Field(
        default="",
        max_length=100_000,
        description="System prompt: instructions to the model, before the conversation; empty "
        "means Parley's own. In the configuration it may also name a file: file:NAME, "
        "or a path that ends in .md or .txt.",
        json_schema_extra={"wants": "text of at most 100000 characters", "here": True, **TURN},
    )
    agent_max_steps: Annotated[int, Field(ge=1, le=200)] = Field(
        default=15,
        description="Maximum steps in one turn; a step is one reply of the model with all its "
        "tool calls.",
        json_schema_extra={"unit": "steps", "here": True},
    )
    agent_max_calls: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=50,
        description="Maximum tool calls that are run in one step; the model is told that further "
        "ones were not run.",
        json_schema_extra={"unit": "calls", "here": True},
    )
    turn_timeout: Annotated[int, Field(ge=5, le=86_400)] = Field(
        default=600,
        description="A turn that takes longer is stopped; what was done so far is kept.",
        json_schema_extra={"unit": "seconds", "here": True, **TURN},
    )
    request_timeout: Annotated[int, Field(ge=1, le=3_600)] = Field(
        default=120,
        description="Time limit for the next piece of an answer; three times as long if "
        "the endpoint keeps signalling that it is alive.",
        json_schema_extra={"unit": "seconds", "here": True, **TURN},
    )
    brain: Brain = Brain()
    tools: ToolSettings = ToolSettings()
