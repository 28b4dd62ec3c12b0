"""The section `metrics`. The token is not a setting: it is in .env as PARLEY_METRICS_TOKEN."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from channels.settings import START
from plugins.features import SettingsSection


class MetricsSettings(SettingsSection):
    """The settings of metrics: whether they are served, and where."""

    SECTION: ClassVar[str] = "metrics"
    enabled: bool = Field(
        default=False,
        description="Serve metrics for Prometheus at /metrics of the web server, with "
        "PARLEY_METRICS_TOKEN or the page's token, or from this machine where there is none "
        '(documentation: "Watching the bot").',
        json_schema_extra={"wants": "true or false", **START},
    )
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=0,
        description="A port of its own for /metrics, for processes that serve no page; 0 means "
        "that there is none.",
        json_schema_extra=START,
    )
    host: Annotated[str, StringConstraints(pattern=r"^[^\s\p{C}]+$", max_length=255)] = Field(
        default="127.0.0.1",
        description="The address at which that port listens; any other than this machine's own "
        "needs a token.",
        json_schema_extra={"wants": "an address or a host's name", **START},
    )
