"""The settings of spending limits."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from plugins.features import SettingsSection

_DOLLARS = "a number from 0 (no limit) to 100000"


class SpendingSettings(SettingsSection):
    """The limits of a calendar month, and the cheaper model near them."""

    spend_limit_chat: float = Field(
        default=0,
        ge=0,
        le=100_000,
        allow_inf_nan=False,
        description="Budget of one chat for a calendar month; once it is spent, no message "
        "is sent to a model that costs money.",
        json_schema_extra={"wants": _DOLLARS, "unit": "US dollars"},
    )
    spend_limit_user: float = Field(
        default=0,
        ge=0,
        le=100_000,
        allow_inf_nan=False,
        description="Budget of each user, except owners, for a calendar month, in all chats "
        "together.",
        json_schema_extra={"wants": _DOLLARS, "unit": "US dollars"},
    )
    spend_limit_total: float = Field(
        default=0,
        ge=0,
        le=100_000,
        allow_inf_nan=False,
        description="Budget of all chats together for a calendar month.",
        json_schema_extra={"wants": _DOLLARS, "unit": "US dollars"},
    )
    spend_soft_limit: int = Field(
        default=80,
        ge=1,
        le=100,
        description="Part of a spending limit from which the cheaper model of spend_soft_model "
        "answers.",
        json_schema_extra={"unit": "percent", "holds": "from the next turn on"},
    )
    spend_soft_model: Annotated[
        str, StringConstraints(pattern=r"^([^\s\p{C}]+( [^\s\p{C}]+)*)?$", max_length=200)
    ] = Field(
        default="",
        description="The model that answers once a spending limit is nearly reached, until the "
        "month ends; agent:NAME is the model of that agent, embedded costs nothing. "
        "Empty: the model does not change.",
        json_schema_extra={"wants": "a model's name", "holds": "from the next turn on"},
    )
