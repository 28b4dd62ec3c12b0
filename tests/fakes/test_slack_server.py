"""The fake Slack refuses what Slack refuses."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from tests.fakes.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer


async def call(slack: SlackServer, method: str, token: str = BOT_TOKEN, **body: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{slack.url}/api/{method}", json=body, headers=headers) as response,
    ):
        return await response.json()


def rich(*elements: Any) -> list[dict[str, Any]]:
    section = {"type": "rich_text_section", "elements": list(elements)}
    return [{"type": "rich_text", "elements": [section]}]


def buttons(*given: dict[str, Any]) -> list[dict[str, Any]]:
    label = {"type": "plain_text", "text": "Go"}
    made = [
        {"type": "button", "action_id": f"a{n}", "text": label, **one}
        for n, one in enumerate(given)
    ]
    return [{"type": "actions", "elements": made}]


async def test_it_refuses_messages() -> None:
    async with SlackServer() as slack:
        cases: list[Any] = [
            ({"text": " \n"}, "no_text"),
            ({"text": "x", "channel": "C9"}, "channel_not_found"),
            ({"text": "x", "channel": "C2"}, "not_in_channel"),
            ({"text": "x", "thread_ts": "1.1"}, "thread_not_found"),
            ({"blocks": rich()}, "invalid_blocks"),
            ({"blocks": rich({"type": "text", "text": ""})}, "invalid_blocks"),
            ({"blocks": rich({"type": "text", "text": "x", "bold": True})}, "invalid_blocks"),
            (
                {"blocks": rich({"type": "text", "text": "x", "style": {"big": True}})},
                "invalid_blocks",
            ),
            ({"blocks": rich({"type": "link", "url": "a/b", "text": "x"})}, "invalid_blocks"),
            ({"blocks": rich(*[{"type": "text", "text": "x" * 700}] * 20)}, "msg_blocks_too_long"),
            ({"blocks": [{"type": "rich_text", "elements": []}]}, "invalid_blocks"),
            ({"blocks": [{"type": "poll"}]}, "invalid_blocks"),
            ({"blocks": rich({"type": "text", "text": "x"}) * 51}, "invalid_blocks"),
            ({"blocks": buttons({"value": "x" * 2_001})}, "invalid_blocks"),
            (
                {"blocks": buttons({"text": {"type": "plain_text", "text": "x" * 76}})},
                "invalid_blocks",
            ),
            ({"blocks": buttons({"action_id": "a1"}, {})}, "invalid_blocks"),
            ({"blocks": buttons(*[{}] * 26)}, "invalid_blocks"),
            ({"text": "hello"}, ""),
        ]
        for body, error in cases:
            slack.channel("C1")
            slack.channel("C2", joined=False)
            answer = await call(slack, "chat.postMessage", **{"channel": "C1", **body})
            assert answer.get("error", "") == error, body
            assert answer["ok"] is not bool(error), body


async def test_it_refuses_changes_of_what_is_not_the_bots_or_too_long() -> None:
    async with SlackServer() as slack:
        ann = slack.person("Ann")
        said, place = ann.says("Hi"), {"channel": ann.dm}
        posted = await call(slack, "chat.postMessage", text="Hello", **place)
        for ts, text, error in (
            (said.ts, "x", "cant_update_message"),
            ("1.1", "x", "message_not_found"),
            (posted["ts"], "x" * 4_001, "msg_too_long"),
        ):
            answer = await call(slack, "chat.update", ts=ts, text=text, **place)
            assert answer["error"] == error
        deleted = await call(slack, "chat.delete", ts=said.ts, **place)
        assert deleted["error"] == "cant_delete_message"


async def test_it_refuses_tokens_and_methods() -> None:
    async with SlackServer() as slack:
        for method, token, error in [
            ("auth.test", "", "not_authed"),
            ("auth.test", "xoxb-other", "invalid_auth"),
            ("auth.test", APP_TOKEN, "not_allowed_token_type"),
            ("apps.connections.open", BOT_TOKEN, "not_allowed_token_type"),
            ("chat.post", BOT_TOKEN, "unknown_method"),
        ]:
            assert (await call(slack, method, token))["error"] == error, method


async def test_what_the_manifest_does_not_allow_is_refused_by_name() -> None:
    async with SlackServer() as slack:
        slack.scopes.remove("users:read")
        ann = slack.person("Ann")
        answer = await call(slack, "users.info", user=ann.id)
        assert (answer["error"], answer["needed"]) == ("missing_scope", "users:read")


async def test_a_ticket_is_for_one_connection_and_there_are_ten_at_most() -> None:
    async with SlackServer() as slack, aiohttp.ClientSession() as session:
        opened = await call(slack, "apps.connections.open", APP_TOKEN)
        async with session.ws_connect(opened["url"]) as first:
            assert (await first.receive_json())["type"] == "hello"
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(opened["url"])
            sockets = []
            for number in range(2, 12):
                again = await call(slack, "apps.connections.open", APP_TOKEN)
                sockets.append(await session.ws_connect(again["url"]))
                greeting = await sockets[-1].receive_json()
                assert greeting["type"] == ("hello" if number < 11 else "disconnect")
