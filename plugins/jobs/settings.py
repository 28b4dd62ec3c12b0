"""The section `jobs`: the limits of reminders and jobs, which run unattended."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from plugins.features import SettingsSection
from plugins.jobs.recurrence import is_quiet_span

_DOLLARS = "a number from 0 (no limit) to 1000"


def _check_span(text: str) -> str:
    if not is_quiet_span(text):
        raise ValueError("no hours")
    return text


class JobSettings(SettingsSection):
    """The settings of new jobs, and the quiet hours."""

    SECTION: ClassVar[str] = "jobs"
    most: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=50,
        description="Maximum number of unfinished reminders and jobs in one chat.",
        json_schema_extra={"unit": "jobs", "holds": "from the next job on"},
    )
    most_a_person: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=100,
        description="Maximum number of unfinished reminders and jobs of one person in all chats.",
        json_schema_extra={"unit": "jobs", "holds": "from the next job on"},
    )
    run_budget: Annotated[float, Field(ge=0, le=1_000, allow_inf_nan=False)] = Field(
        default=0.25,
        description="Budget of one run of a job; a run that reaches it ends and says so.",
        json_schema_extra={
            "wants": _DOLLARS,
            "unit": "US dollars",
            "holds": "from the next job on",
        },
    )
    day_budget: Annotated[float, Field(ge=0, le=1_000, allow_inf_nan=False)] = Field(
        default=1.0,
        description="Budget of all runs of one job on one day; once it is spent, the job "
        "pauses until the next day.",
        json_schema_extra={
            "wants": _DOLLARS,
            "unit": "US dollars",
            "holds": "from the next job on",
        },
    )
    max_steps: Annotated[int, Field(ge=1, le=200)] = Field(
        default=10,
        description="Maximum steps in one run of a job.",
        json_schema_extra={"unit": "steps", "holds": "from the next job on"},
    )
    hook_rate: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=30,
        description="Maximum number of calls of a hook's job over HTTP in a minute.",
        json_schema_extra={"unit": "calls", "holds": "at once"},
    )
    quiet_hours: Annotated[str, AfterValidator(_check_span)] = Field(
        default="",
        max_length=20,
        description="Hours of the day in which no job runs; jobs due in them run once, at their "
        "end. One-time reminders are not delayed.",
        json_schema_extra={
            "wants": "two times of the day like 22:00-07:00, or nothing",
            "here": True,
            "holds": "at once",
        },
    )
