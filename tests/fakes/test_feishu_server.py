"""The fake of Feishu's open platform refuses what the open platform refuses."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from channels.feishu.cards import card
from channels.kit.platform import Button, Post
from tests.fakes.feishu_server import APP_ID, MOST_EDITS, SECRET, FeishuServer

CHATS = "im/v1/messages?receive_id_type=chat_id"


def _message(content: str, chat: str = "oc_1") -> dict[str, Any]:
    return {"receive_id": chat, "msg_type": "interactive", "content": content}


def _card(*elements: dict[str, Any], schema: str = "2.0", is_shared: bool = True) -> str:
    body = {"elements": [*elements]}
    return json.dumps({"schema": schema, "config": {"update_multi": is_shared}, "body": body})


def _words(text: str) -> dict[str, str]:
    return {"tag": "markdown", "content": text}


async def test_a_message_is_refused() -> None:
    async with FeishuServer() as feishu:
        for body, code in [
            (_message("no JSON"), 230001),
            (_message(_card(_words("x" * 30_001))), 230025),
            (_message(_card(_words("x"), schema="1.0")), 230099),
            (_message(_card(_words("x"), is_shared=False)), 230099),
            (_message(_card(_words("![a](http://a.b/c.png)"))), 230099),
            (_message(_card(_words("| a |\n|---|\n| b |\n\n" * 6))), 230099),
            (_message(_card({"tag": "marquee"})), 230099),
            (_message(_card(_words("x")), "oc_unknown"), 230002),
            ({**_message(_card(_words("x"))), "uuid": "x" * 51}, 99992402),
            ({"receive_id": "oc_1", "msg_type": "image", "content": '{"image_key": "x"}'}, 230001),
        ]:
            feishu.chats["oc_1"] = "p2p"
            assert (await _ask(feishu, "POST", CHATS, body))["code"] == code, body
            assert not feishu.messages, body


async def test_a_card_is_taken_and_changed_five_times_a_second() -> None:
    async with FeishuServer() as feishu:
        feishu.chats["oc_1"] = "p2p"
        content = card(Post("**Hi**", (Button("Yes", "/yes"),)))
        sent = await _ask(feishu, "POST", CHATS, _message(content))
        path = f"im/v1/messages/{sent['data']['message_id']}"
        codes = [
            (await _ask(feishu, "PATCH", path, {"content": content}))["code"]
            for _ in range(MOST_EDITS + 1)
        ]
        assert codes == [0] * MOST_EDITS + [230020]


async def test_what_is_not_the_bots_own_or_taken_back_can_not_be_changed() -> None:
    async with FeishuServer() as feishu:
        ann = feishu.person("Ann")
        hers = ann.notes("text", {"text": "Hi"})
        body = {"content": card(Post("Hi"))}
        assert (await _ask(feishu, "PATCH", f"im/v1/messages/{hers}", body))["code"] == 230027
        assert (await _ask(feishu, "PATCH", "im/v1/messages/om_0", body))["code"] == 230011


async def test_a_wrong_app_gets_no_token() -> None:
    async with FeishuServer() as feishu, aiohttp.ClientSession() as session:
        for app_id, secret, code in [("cli_x", SECRET, 10003), (APP_ID, "x", 10014)]:
            body = {"app_id": app_id, "app_secret": secret}
            url = f"{feishu.base_url}/open-apis/auth/v3/tenant_access_token/internal"
            async with session.post(url, json=body) as answer:
                assert (await answer.json())["code"] == code, app_id


async def test_files_have_a_kind_and_a_size() -> None:
    for kind, size, code in [("zip", 9, 234001), ("stream", 0, 234010), ("stream", 9, 0)]:
        form = aiohttp.FormData({"file_type": kind, "file_name": "a"})
        form.add_field("file", bytes(size), filename="a")
        async with FeishuServer() as feishu:
            assert (await _ask(feishu, "POST", "im/v1/files", form))["code"] == code, kind


async def test_who_has_no_token_is_refused() -> None:
    async with FeishuServer() as feishu:
        found = await _ask(feishu, "GET", "bot/v3/info", None, token="t-unknown")
        assert found["code"] == 99991663


async def _ask(
    feishu: FeishuServer, method: str, path: str, body: Any, token: str = "t-test"
) -> Any:
    feishu.tokens.add("t-test")
    given = {"data" if isinstance(body, aiohttp.FormData) else "json": body} if body else {}
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{feishu.base_url}/open-apis/{path}"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, url, **given) as answer,
    ):
        return await answer.json()
