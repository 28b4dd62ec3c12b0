"""The settings of the tools."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

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
