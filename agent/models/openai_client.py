"""OpenAI's SDK in front of an endpoint; imported at the first request."""

from __future__ import annotations

from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    AsyncOpenAI,
    AsyncStream,
    DefaultAioHttpClient,
    RequestOptions,
)

from agent.models.endpoint import Endpoint
from agent.models.sdk_client import Patient, Sdk, SdkClient

_SDK = Sdk(
    error=APIError,
    status_error=APIStatusError,
    connection_error=APIConnectionError,
    stream=AsyncStream[object],
    request_options=RequestOptions,
    path="/chat/completions",
    is_end=lambda data: data.startswith(b"[DONE]"),
)


class _PatientOpenAI(Patient, DefaultAioHttpClient):
    """The SDK's transport, bounded."""


def open_client(endpoint: Endpoint) -> SdkClient:
    """A client for this endpoint. Raises ModelRefused for an address that is none."""
    return SdkClient(
        endpoint,
        _SDK,
        lambda known: AsyncOpenAI(
            base_url=endpoint.base_url, http_client=_PatientOpenAI(endpoint), **known
        ),
    )
