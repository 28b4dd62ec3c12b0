"""The settings of spending limits."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from plugins.features import SettingsSection

_DOLLARS = "a number from 0 (no limit) to 100000"


class SpendingSettings(SettingsSection):
    """The limits of a calendar month, and the cheaper model near them."""

    spend_limit_chat: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] = Field(
        default=0,
        description="Budget of one conversation for a calendar month; once it is spent, no "
        "message is sent to a model that costs money.",
        json_schema_extra={"wants": _DOLLARS, "unit": "US dollars"},
    )
    spend_limit_user: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] = Field(
        default=0,
        description="Budget of each user, except owners, for a calendar month, in all "
        "conversations together.",
        json_schema_extra={"wants": _DOLLARS, "unit": "US dollars"},
    )
    spend_limit_total: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] = Field(
        default=0,
        description="Budget of all conversations together for a calendar month.",
        json_schema_extra={"wants": _DOLLARS, "unit": "US dollars"},
    )
    spend_soft_limit: Annotated[int, Field(ge=1, le=100)] = Field(
        default=80,
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
