"""Webhooks: programs that call a job by its name. They authenticate with the hook's own secret, or
like GitHub with a signature made with it. Tokens and cookies are not accepted."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from channels.base import Bot
from channels.message import HookCall, NotCompleted
from channels.web.guard import bearer_of
from channels.web.operations import Operation, Parameter, Problem, as_json, make_problem, read_body
from channels.web.shapes import NAME, HookState
from plugins.jobs.calls import HookCalls

LARGEST = 1_000_000
"""The maximum size of a call's body in bytes."""
DELIVERIES = ("Idempotency-Key", "Webhook-Id", "X-GitHub-Delivery", "X-Gitlab-Event-UUID")
"""The headers with a caller's id for a call, so that a repeated call is recognised."""
SIGNATURE = "X-Hub-Signature-256"
REFUSED = (
    "This needs the hook's secret: send it as “Authorization: Bearer …”, or sign the body with it "
    f"as GitHub does ({SIGNATURE})."
)


def hook_operations(bot: Bot, calls: HookCalls) -> Sequence[Operation]:
    """Return the operation that calls a hook."""

    async def call_hook(request: Request) -> Response:
        headers = request.headers
        content = await read_body(request, LARGEST, "send what the job needs to know")
        call = HookCall(
            request.path_params["name"],
            content,
            bearer_of(headers) or "",
            headers.get(SIGNATURE, ""),
            next((headers[name][:500] for name in DELIVERIES if headers.get(name)), ""),
        )
        if not await calls.opens(call):
            raise Problem(401, REFUSED)
        try:
            is_new = await calls.call(bot, call)
        except NotCompleted as error:
            raise make_problem(error.problem, str(error), error.retry_after) from None
        return as_json({"status": "accepted" if is_new else "known"}, 202 if is_new else 200)

    name = Parameter("name", "path", "The hook's name.", {"type": "string", "pattern": NAME})
    delivery = Parameter(
        DELIVERIES[0],
        "header",
        "The caller's name for this call; what comes again under it is taken once.",
        {"type": "string"},
    )
    return (
        Operation(
            "POST",
            "/api/hooks/{name}",
            "Call the job of a hook with this body, which is JSON or text.",
            call_hook,
            gives=HookState,
            accepts=HookState,
            parameters=(name, delivery),
            problems=(401, 403, 413, 429, 503),
            is_open=True,
            takes_anything=True,
        ),
    )
