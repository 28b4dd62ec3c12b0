"""The fake Bot API refuses what Telegram refuses."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from tests.fakes.telegram_server import TOKEN, TelegramServer

LINK = {"type": "text_link", "offset": 0, "length": 2, "url": "javascript:alert(1)"}


async def call(server: TelegramServer, method: str, token: str = TOKEN, **body: Any) -> Any:
    form = {name: v if isinstance(v, str) else json.dumps(v) for name, v in body.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.base_url}/bot{token}/{method}", data=form) as response,
    ):
        return await response.json()


async def test_it_refuses() -> None:
    async with TelegramServer() as server:
        cases: list[Any] = [
            ("sendMessage", {"text": " \n"}, "message text is empty"),
            ("sendMessage", {"text": "😀" * 2049}, "message is too long"),
            ("sendMessage", {"text": "<b>x", "parse_mode": "HTML"}, "<b> is not closed"),
            ("sendMessage", {"text": "<x>y</x>", "parse_mode": "HTML"}, "unsupported start tag"),
            ("sendMessage", {"text": "x", "parse_mode": "Rich"}, "unsupported parse_mode"),
            (
                "sendMessage",
                {"text": "hi", "entities": [{"type": "bold", "offset": 1, "length": 2}]},
                "ENTITY_BOUNDS_INVALID",
            ),
            (
                "sendMessage",
                {"text": "😀", "entities": [{"type": "bold", "offset": 0, "length": 1}]},
                "half a character",
            ),
            ("sendMessage", {"text": "hi", "entities": [LINK]}, "wrong url"),
            (
                "sendMessage",
                {
                    "text": "x",
                    "reply_markup": {
                        "inline_keyboard": [[{"text": "x", "callback_data": "y" * 65}]]
                    },
                },
                "BUTTON_DATA_INVALID",
            ),
            ("sendMessage", {"text": "x", "message_thread_id": 9}, "message thread not found"),
            ("sendMessage", {"text": "x", "chat_id": 9}, "chat not found"),
            (
                "sendMessage",
                {"text": "x", "reply_parameters": {"message_id": 9}},
                "replied not found",
            ),
            ("editMessageText", {"text": "x", "message_id": 9}, "message to edit not found"),
            ("deleteMessage", {"message_id": 9}, "message to delete not found"),
            ("answerCallbackQuery", {"callback_query_id": "9"}, "query is too old"),
            ("getFile", {"file_id": "nothing"}, "invalid file_id"),
            (
                "setMyCommands",
                {"commands": [{"command": "No", "description": "x"}]},
                "COMMAND_INVALID",
            ),
            ("setWebhook", {"url": "http://x.y"}, "HTTPS URL must be provided"),
            ("sendDance", {}, "Not Found"),
        ]
        for method, body, words in cases:
            server.person("Ann", 42)
            answer = await call(server, method, **{"chat_id": 42, **body})
            assert not answer["ok"], method
            assert words in answer["description"], method


async def test_it_refuses_a_wrong_token_an_edit_that_changes_nothing_and_a_flood() -> None:
    async with TelegramServer() as server:
        server.person("Ann", 42)
        assert (await call(server, "getMe", token="1:x"))["error_code"] == 401
        sent = (await call(server, "sendMessage", chat_id=42, text="x"))["result"]
        same = {"chat_id": 42, "message_id": sent["message_id"], "text": "x"}
        assert "not modified" in (await call(server, "editMessageText", **same))["description"]
        server.allowance[42] = 0
        flood = await call(server, "sendMessage", chat_id=42, text="y")
        assert (flood["error_code"], flood["parameters"]) == (429, {"retry_after": 7})
        assert (await call(server, "sendMessage", chat_id=42, text="y"))["ok"]
