"""The official SDK at work: a request goes out, plain chunks come in, failures are `ModelError`s.

Importing the SDK takes half a second, so `openai` imports this module at its first request.

`post` is the SDK's own door for requests outside of its typed models. Key, headers, retries and
time-outs are the SDK's all the same, but pydantic walks through neither messages nor chunks: 20
messages answered in 20 chunks cost 1.0 ms of CPU instead of 5.2 with `create(messages=…)`, and
2,000 cost 2.6 instead of 229. Of the 1.0, the default transport would make 1.6.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx2  # the SDK's HTTP library; its errors come through while a body is read
import orjson
from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    AsyncOpenAI,
    AsyncStream,
    DefaultAioHttpClient,
    RequestOptions,
    Timeout,
)

from agent.models import failures
from agent.models.base import ModelError
from agent.models.endpoint import Endpoint

CONNECT_TIMEOUT = 10.0
_BRIEFLY = RequestOptions(timeout=10.0, max_retries=0)


class Client:
    """One endpoint behind the SDK. No loop needs to run when it is made."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Raises ModelRefused for an address that is none."""
        self._endpoint = endpoint
        try:
            self._sdk = AsyncOpenAI(
                base_url=endpoint.base_url,
                api_key=endpoint.api_key or "none",  # the SDK insists; keyless servers don't care
                timeout=Timeout(endpoint.timeout, connect=min(endpoint.timeout, CONNECT_TIMEOUT)),
                max_retries=endpoint.max_retries,
                default_headers=_headers(endpoint),
                http_client=DefaultAioHttpClient(),
            )
        except httpx2.InvalidURL:
            raise failures.unsendable(endpoint) from None

    async def close(self) -> None:
        await self._sdk.close()

    async def listed(self) -> object:
        """What `GET /models` answers, as it came. Raises ModelError."""
        try:
            return await self._sdk.get("/models", cast_to=object, options=_BRIEFLY)
        except (APIError, ValueError) as error:
            raise self._failure(error) from None

    async def chunks(self, body: Mapping[str, Any]) -> AsyncGenerator[object, None]:
        """The chunks of an answer, parsed but not checked. Raises ModelError.

        An answer that is one JSON object is one chunk.
        """
        async with await self._open(body) as stream:
            try:
                if _is_document(stream.response):
                    yield self._document(await stream.response.aread(), _kind(stream.response))
                    return
                async for chunk in stream:
                    yield chunk
            except (APIError, httpx2.HTTPError, ValueError) as error:
                raise self._break(error) from None

    async def _open(self, body: Mapping[str, Any]) -> AsyncStream[object]:
        try:
            return await self._sdk.post(
                "/chat/completions",
                content=orjson.dumps(body, default=dict),
                cast_to=object,
                stream=True,
                stream_cls=AsyncStream[object],
            )
        except (APIError, ValueError) as error:
            raise self._failure(error) from None

    def _document(self, content: bytes, kind: str) -> object:
        """An answer that came in one piece."""
        try:
            value = orjson.loads(content)
        except ValueError:
            raise failures.not_the_protocol(self._endpoint, kind) from None
        if isinstance(value, dict) and value.get("error"):
            raise failures.error_in_answer(self._endpoint, value["error"])
        return value

    def _failure(self, error: Exception) -> ModelError:
        """The error of a request to which no answer began."""
        if isinstance(error, APIStatusError):
            wait = error.response.headers.get("retry-after", "")
            return failures.refusal(self._endpoint, error.status_code, error.response.text, wait)
        if not isinstance(error, APIConnectionError):
            return failures.unsendable(self._endpoint)
        if _is_silence(error):
            return failures.silent(self._endpoint)
        return failures.unreachable(self._endpoint)

    def _break(self, error: Exception) -> ModelError:
        """The error of an answer that had begun."""
        if isinstance(error, APIError) and not isinstance(error, APIConnectionError):
            return failures.error_in_answer(self._endpoint, error.body)
        if _is_silence(error):
            return failures.fell_silent(self._endpoint)
        return failures.broke_off(self._endpoint)


def _headers(endpoint: Endpoint) -> dict[str, str]:
    # llama.cpp's server closes its connection after a stream without a word, and a request sent on
    # it just then fails. Without TLS a new connection costs 0.3 ms, so none is used twice.
    return {"Connection": "close"} if endpoint.base_url.startswith("http://") else {}


def _is_silence(error: Exception) -> bool:
    # The SDK's aiohttp transport calls a refused connection a time-out too; the cause knows better.
    return any(isinstance(one, httpx2.ReadTimeout) for one in (error, error.__cause__))


def _kind(response: httpx2.Response) -> str:
    return response.headers.get("content-type", "").lower()


def _is_document(response: httpx2.Response) -> bool:
    return _kind(response).startswith(("application/json", "text/html"))
