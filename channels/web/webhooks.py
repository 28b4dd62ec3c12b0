"""The webhooks that messengers call: each at /webhooks/NAME. Each platform proves by its own
signature that a call comes from it; neither a token nor a cookie helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from channels.base import Bot, WebhookCall, WithWebhook
from channels.web.operations import Problem, guard_errors, read_body

LARGEST = 1_000_000
"""Bytes of a call."""


def webhook_route(bot: Bot, channels: Callable[[], Mapping[str, WithWebhook]]) -> Route:
    """Return the one route; whose it is says the last part of the path."""

    async def call(request: Request) -> Response:
        name = request.path_params["name"]
        channel = channels().get(name)
        if channel is None:
            raise Problem(404, "No channel of this name is called here.")
        headers = {key.lower(): value for key, value in request.headers.items()}
        if not channel.expects(headers):
            return Response(status_code=401)
        body, is_too_large = b"", False
        try:
            body = await read_body(request, LARGEST, "the platform sends no more than that")
        except Problem:
            is_too_large = True
        came = WebhookCall(request.method, headers, dict(request.query_params), body, is_too_large)
        answer = await channel.call(bot, came)
        return Response(answer.body, answer.status, media_type=answer.media_type)

    return Route("/webhooks/{name}", guard_errors(call), methods=["GET", "POST", "HEAD"])
