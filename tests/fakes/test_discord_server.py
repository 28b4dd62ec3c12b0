"""The fake of Discord refuses what Discord refuses."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.fakes.discord_gateway import GUILDS, MESSAGE_CONTENT
from tests.fakes.discord_markup import read, words
from tests.fakes.discord_server import APPLICATION, GENERAL, TOKEN, DiscordServer

HEADERS = {"User-Agent": "DiscordBot (https://example.org, 1)", "Authorization": f"Bot {TOKEN}"}
ROW = {"type": 1, "components": [{"type": 2, "style": 2, "label": "Yes", "custom_id": "y"}]}
IDENTITY = {"os": "linux", "browser": "test", "device": "test"}


@dataclass
class Caller:
    """A bot without an SDK."""

    server: DiscordServer
    session: aiohttp.ClientSession

    async def asks(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The status, and Discord's number of the error (0: none)."""
        url = f"{self.server.base_url}/api/v10/{path}"
        async with self.session.request(
            method, url, json=body, headers={**HEADERS, **headers}
        ) as answer:
            said = await answer.json() if answer.status != 204 else {}
            code = said.get("code", 0) if isinstance(said, dict) else 0
            return answer.status, code

    async def says(self, **body: Any) -> Any:
        return await self.asks("POST", f"channels/{GENERAL}/messages", body)


@asynccontextmanager
async def calling() -> AsyncIterator[Caller]:
    async with DiscordServer() as server, aiohttp.ClientSession() as session:
        yield Caller(server, session)


async def test_a_message_is_checked() -> None:
    async with calling() as caller:
        cases: list[Any] = [
            ({"content": "x" * 2000}, (200, 0)),
            ({"content": "x" * 2001}, (400, 50035)),
            ({"content": " \n"}, (400, 50006)),
            ({"content": "x", "nonce": "n" * 26}, (400, 50035)),
            ({"content": "x", "flags": 64}, (400, 50035)),
            (
                {"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["1"]}},
                (400, 50035),
            ),
            ({"content": "x", "components": [ROW, ROW]}, (400, 50035)),
            ({"content": "x", "components": [{"type": 1, "components": []}]}, (400, 50035)),
            ({"content": "x", "message_reference": {"message_id": "5"}}, (400, 50035)),
            (
                {
                    "content": "x",
                    "message_reference": {"message_id": "5", "fail_if_not_exists": False},
                },
                (200, 0),
            ),
        ]
        for body, answer in cases:
            assert await caller.says(**body) == answer, body


async def test_a_button_is_checked() -> None:
    async with calling() as caller:
        for button in [
            {"type": 2, "style": 2, "label": "x" * 81, "custom_id": "y"},
            {"type": 2, "style": 2, "label": "", "custom_id": "y"},
            {"type": 2, "style": 2, "label": "x", "custom_id": "y" * 101},
            {"type": 2, "style": 2, "label": "x", "custom_id": ""},
            {"type": 2, "style": 9, "label": "x", "custom_id": "y"},
        ]:
            rows = [{"type": 1, "components": [button]}]
            assert await caller.says(content="x", components=rows) == (400, 50035), button


async def test_who_calls_is_checked() -> None:
    async with calling() as caller:
        assert await caller.asks("GET", "users/@me") == (200, 0)
        assert (await caller.asks("GET", "users/@me", Authorization="Bot no"))[0] == 401
        assert (await caller.asks("GET", "users/@me", **{"User-Agent": "curl/8"}))[0] == 403
        assert (await caller.asks("GET", "no/such/path"))[0] == 404


async def test_places_and_messages_have_to_be_there() -> None:
    async with calling() as caller:
        ann = caller.server.person("Ann", 42)
        said = ann.says("Hello")
        path = f"channels/{ann.channel}/messages"
        assert await caller.asks("POST", "channels/5/messages", {"content": "x"}) == (404, 10003)
        assert await caller.asks("PATCH", f"{path}/5", {"content": "x"}) == (404, 10008)
        assert await caller.asks("PATCH", f"{path}/{said}", {"content": "x"}) == (403, 50005)
        assert await caller.asks("DELETE", f"{path}/5") == (404, 10008)
        assert await caller.asks("GET", f"{path}?limit=101") == (400, 50035)
        caller.server.blocked.add(ann.channel)
        assert await caller.asks("POST", path, {"content": "x"}) == (403, 50007)
        unknown = {"recipient_id": "77"}
        assert await caller.asks("POST", "users/@me/channels", unknown) == (400, 50033)


async def test_an_interaction_is_answered_once_and_in_time() -> None:
    async with calling() as caller:
        ann = caller.server.person("Ann", 42)
        described = {"name": "roll", "description": "Roll dice", "type": 1}
        await caller.asks("PUT", f"applications/{APPLICATION}/commands", [described])
        late, used = ann.uses("roll"), ann.uses("roll")
        caller.server.interactions[late].at -= 4

        def path(number: int) -> str:
            return f"interactions/{number}/{caller.server.interactions[number].token}/callback"

        answer = {"type": 4, "data": {"content": "6"}}
        assert await caller.asks("POST", path(late), answer) == (404, 10062)
        assert await caller.asks("POST", path(used), {"type": 6}) == (400, 50035)
        assert await caller.asks("POST", path(used), answer) == (200, 0)
        assert await caller.asks("POST", path(used), answer) == (400, 40060)
        token = caller.server.interactions[used].token
        original = f"webhooks/{APPLICATION}/{token}/messages/@original"
        assert await caller.asks("PATCH", original, {"content": "5"}) == (200, 0)
        caller.server.interactions[used].at -= 16 * 60
        assert await caller.asks("PATCH", original, {"content": "4"}) == (401, 50027)


async def test_commands_are_checked() -> None:
    async with calling() as caller:
        for command, status in [
            ({"name": "roll", "description": "x" * 100}, 200),
            ({"name": "Roll", "description": "x"}, 400),
            ({"name": "roll dice", "description": "x"}, 400),
            ({"name": "roll", "description": ""}, 400),
            ({"name": "roll", "description": "x" * 101}, 400),
            ({"name": "roll", "description": "x", "description_localizations": {"xx": "y"}}, 400),
            (
                {
                    "name": "roll",
                    "description": "x",
                    "options": [{"name": "A", "description": "x"}],
                },
                400,
            ),
        ]:
            path = f"applications/{APPLICATION}/commands"
            assert (await caller.asks("PUT", path, [command]))[0] == status, command
            assert (await caller.asks("PUT", path, [command, command]))[0] == 400, command
            assert (await caller.asks("PUT", path, [command] * 101)) == (400, 30032), command


def identify(**more: Any) -> dict[str, Any]:
    given = {"token": TOKEN, "intents": GUILDS, "properties": IDENTITY}
    return {"op": 2, "d": {**given, **more}}


async def test_the_gateway_closes_with_discords_codes() -> None:
    cases: list[Any] = [
        ([{"op": 99}], 4001),
        (["no JSON"], 4002),
        ([{"op": 3, "d": {}}], 4003),
        ([identify(token="no")], 4004),
        ([identify(), identify()], 4005),
        ([identify(), {"op": 6, "d": {}}], 4005),
        ([identify(intents=1 << 40)], 4013),
        ([identify(intents=MESSAGE_CONTENT)], 4014),
        ([{"op": 1, "d": None}] * 120, 4008),
    ]
    for sent, code in cases:
        async with calling() as caller:
            caller.server.gateway.portal = 0
            url = f"{caller.server.base_url}/gateway?v=10&encoding=json&compress=zlib-stream"
            async with caller.session.ws_connect(url) as ws:
                for one in sent:
                    await ws.send_str(one if isinstance(one, str) else json.dumps(one))
                async for _ in ws:
                    pass
                assert ws.close_code == code, sent


async def test_what_happened_comes_when_a_session_is_resumed() -> None:
    async with calling() as caller:
        ann = caller.server.person("Ann", 42)
        url = f"{caller.server.base_url}/gateway?v=10&encoding=json&compress=zlib-stream"
        async with caller.session.ws_connect(url) as ws:
            heard = unpacked(ws)
            assert (await anext(heard))["op"] == 10
            await ws.send_json(identify(intents=1 << 12))
            ready = await anext(heard)
            await ws.close(code=4000)
        ann.says("Said in the gap")
        resume = {"token": TOKEN, "session_id": ready["d"]["session_id"], "seq": 1}
        async with caller.session.ws_connect(url) as ws:
            heard = unpacked(ws)
            await anext(heard)
            await ws.send_json({"op": 6, "d": resume})
            assert (await anext(heard))["d"]["content"] == "Said in the gap"
            assert (await anext(heard))["t"] == "RESUMED"
        async with caller.session.ws_connect(url) as ws:
            heard = unpacked(ws)
            await anext(heard)
            await ws.send_json({"op": 6, "d": {**resume, "session_id": "gone"}})
            assert await anext(heard) == {"op": 9, "d": False}


async def unpacked(ws: aiohttp.ClientWebSocketResponse) -> AsyncIterator[dict[str, Any]]:
    stream = zlib.decompressobj()
    async for message in ws:
        yield json.loads(stream.decompress(message.data))


def test_its_markup_is_read_as_its_apps_read_it() -> None:
    for content, styles in [
        ("**a**", {"bold"}),
        ("__a__", {"underline"}),
        ("_a_", {"italic"}),
        ("*a*", {"italic"}),
        ("||a||", {"spoiler"}),
        ("~~a~~", {"strike"}),
        ("`a`", {"code"}),
        ("```a```", {"block"}),
        ("> a", {"quote"}),
        ("## a", {"heading2"}),
        ("-# a", {"subtext"}),
        ("<@5>", {"mention"}),
        ("https://a.b/", {"preview"}),
        ("<https://a.b/>", set()),
        (r"\*a\*", set()),
        ("#### a", set()),
    ]:
        assert {style for one in read(content) for style in one.styles} == styles, content


def test_a_masked_link_leads_somewhere() -> None:
    assert [one.href for one in read("[a](<https://a.b/c>)")] == ["https://a.b/c"]
    assert words("[a](relative)") == "[a](relative)"
