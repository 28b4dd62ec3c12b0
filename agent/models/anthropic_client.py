"""Anthropic's SDK in front of an endpoint; imported at the first request, and an extra."""

from __future__ import annotations

import re

from anthropic import (
    NOT_GIVEN,
    APIConnectionError,
    APIError,
    APIStatusError,
    AsyncAnthropic,
    DefaultAioHttpClient,
)

from agent.models.endpoint import Endpoint
from agent.models.sdk_client import Sdk, SdkClient, TimedClient

_SDK = Sdk(
    error=APIError,
    status_error=APIStatusError,
    connection_error=APIConnectionError,
    not_given=NOT_GIVEN,
    path="/v1/messages",
    end=re.compile(rb'.{0,18}"message_stop"', re.DOTALL),
)


class _TimedAnthropic(TimedClient, DefaultAioHttpClient):
    """The SDK's transport, with limits."""


def open_client(endpoint: Endpoint) -> SdkClient:
    """Return a client for this endpoint. Raises ModelRefused for an invalid address."""
    return SdkClient(
        endpoint,
        _SDK,
        _TimedAnthropic(endpoint),
        lambda known: AsyncAnthropic(
            base_url=endpoint.base_url.rstrip("/").removesuffix("/v1"),
            open_telemetry=False,  # messages are private
            **known,
        ),
    )
