"""This layer's own settings: the model, its instructions, and how long a turn may go on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from agent.models.brain import Brain
from agent.tools.settings import ToolSettings
from memory.setting_notes import TURN, StrictModel

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
