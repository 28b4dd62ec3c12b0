"""This room's own settings: the model, its instructions, and how long a turn may go on."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

TURN: JsonDict = {"holds": "from the next turn on"}
"""When a change takes effect; the next step is meant where nothing is said."""

ModelName = Annotated[
    str, StringConstraints(pattern=r"^[^\s\p{C}]+( [^\s\p{C}]+)*$", max_length=200)
]


class AgentSettings(BaseModel):
    """What this room adds at the top level."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: ModelName = Field(
        default="auto",
        description="The model that answers; embedded is the small one that comes with Parley, "
        "auto takes it while neither OPENAI_API_KEY nor OPENAI_BASE_URL is set, else the "
        "endpoint's usual one.",
        json_schema_extra={"wants": "a model's name, embedded or auto", "here": True, **TURN},
    )
    fallback_models: tuple[ModelName, ...] = Field(
        default=(),
        strict=False,  # lists become tuples; the names in them stay strict
        max_length=20,
        description="Models that are asked in turn when the one before them fails.",
        json_schema_extra={"wants": "up to 20 names of models: a, b", "here": True, **TURN},
    )
    system_prompt: str = Field(
        default="",
        max_length=100_000,
        description="Who the model is and how it works, told to it before the conversation; empty "
        "for Parley's own words. The configuration may also name a file: file:NAME, or a path "
        "that ends in .md or .txt.",
        json_schema_extra={"wants": "text of at most 100000 characters", "here": True, **TURN},
    )
    agent_max_steps: int = Field(
        default=15,
        ge=1,
        le=200,
        description="Most steps in one turn; a step is one reply of the model, "
        "however many tools it calls.",
        json_schema_extra={"unit": "steps", "here": True},
    )
    turn_timeout: int = Field(
        default=600,
        ge=5,
        le=86_400,
        description="A turn that takes longer is ended, with what was done so far kept.",
        json_schema_extra={"unit": "seconds", "here": True, **TURN},
    )
    request_timeout: int = Field(
        default=120,
        ge=1,
        le=3_600,
        description="How long one request waits for the next piece of an answer.",
        json_schema_extra={"unit": "seconds", "here": True, **TURN},
    )
