"""OpenAI's SDK in front of an endpoint; imported at the first request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from agent.models.endpoint import Endpoint
from agent.models.plain_chunk import read_plain
from agent.models.sdk_client import Patient, Sdk, SdkClient
from agent.models.sdk_types import left_out

with left_out("openai.types"):
    from openai import (
        APIConnectionError,
        APIError,
        APIStatusError,
        AsyncOpenAI,
        DefaultAioHttpClient,
        RequestOptions,
    )

_SDK = Sdk(
    error=APIError,
    status_error=APIStatusError,
    connection_error=APIConnectionError,
    request_options=RequestOptions,
    path="/chat/completions",
    end=re.compile(rb'[ "\t]*\[done\]', re.IGNORECASE),
    read_plain=read_plain,
)
_RESPONSES = replace(
    _SDK,
    path="/responses",
    read_plain=None,
    last=re.compile(rb'.{0,44}"response\.(?:completed|incomplete)"', re.DOTALL),
    find_error=lambda event: _find_error(event),
)


def _find_error(event: Mapping[str, Any]) -> object:
    """Return the error that an event of the Responses API tells of; None where it is another
    one."""
    match event:
        case {"type": "error"}:
            return event
        case {"type": "response.failed", "response": {"error": error}} if error:
            return error
    return event.get("error")


class _PatientOpenAI(Patient, DefaultAioHttpClient):
    """The SDK's transport, bounded."""


def open_client(endpoint: Endpoint, *, by_responses: bool = False) -> SdkClient:
    """Return a client for this endpoint, by chat completions or `by_responses`. Raises ModelRefused
    for an address that is none."""
    return SdkClient(
        endpoint,
        _RESPONSES if by_responses else _SDK,
        _PatientOpenAI(endpoint),
        lambda known: AsyncOpenAI(base_url=endpoint.base_url, **known),
    )
