"""The fake of WeCom's gateway refuses what the gateway refuses."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.fakes.wecom_server import BOT_ID, MOST_A_MINUTE, SECRET, WeComServer


def _markdown(text: str, chat: str = "ann") -> dict[str, Any]:
    return {"chatid": chat, "chat_type": 1, "msgtype": "markdown", "markdown": {"content": text}}


def _card(count: int, key: str = "/x", task: str = "t") -> dict[str, Any]:
    buttons = [{"text": "Yes", "key": key} for _ in range(count)]
    card: dict[str, Any] = {"card_type": "button_interaction", "main_title": {"title": "Choose"}}
    card |= {"button_list": buttons, "task_id": task}
    return {"chatid": "ann", "chat_type": 1, "msgtype": "template_card", "template_card": card}


def _stream(name: str, text: str, *, is_done: bool = False) -> dict[str, Any]:
    return {"msgtype": "stream", "stream": {"id": name, "content": text, "finish": is_done}}


async def test_what_is_pushed() -> None:
    async with wired() as (_, ask):
        for body, code in [
            (_markdown(""), 44004),
            (_markdown("x" * 20_481), 45002),
            (_markdown("中" * 7_000), 45002),
            (_markdown("Hi", "nobody"), 86003),
            ({**_markdown("Hi"), "chat_type": 7}, 86003),
            (_card(7), 40016),
            (_card(0), 40016),
            (_card(1, key="x" * 1_025), 40058),
            (_card(1, task=""), 40058),
            (
                {"chatid": "ann", "chat_type": 1, "msgtype": "file", "file": {"media_id": "x"}},
                40007,
            ),
            ({"chatid": "ann", "chat_type": 1, "msgtype": "poll", "poll": {}}, 40008),
            (_markdown("Hi"), 0),
            (_card(6), 0),
        ]:
            assert (await ask("aibot_send_msg", body))["errcode"] == code, body


async def test_a_stream_answers_a_message_until_it_is_finished() -> None:
    async with wired() as (wecom, ask):
        wecom.note("call-1", "m1", "ann")
        codes = [
            (await ask("aibot_respond_msg", _stream("s", "…", is_done=is_done), call))["errcode"]
            for call, is_done in (("call-0", False), ("call-1", False), ("call-1", True))
        ]
        late = await ask("aibot_respond_msg", _stream("s", "more"), "call-1")
        assert [*codes, late["errcode"]] == [846605, 0, 0, 846608]


async def test_a_chat_takes_so_much_a_minute() -> None:
    async with wired() as (_, ask):
        for _ in range(MOST_A_MINUTE):
            assert (await ask("aibot_send_msg", _markdown("Hi")))["errcode"] == 0
        assert (await ask("aibot_send_msg", _markdown("Hi")))["errcode"] == 45009


async def test_a_picture_has_a_size_and_a_digest() -> None:
    for size, digest, code in [
        (4, "", 40058),
        (10 * 2**20 + 1, "", 40058),
        (9, "x", 40058),
        (9, "", 0),
    ]:
        content = bytes(min(size, 9))
        true = hashlib.md5(content, usedforsecurity=False).hexdigest()
        about = {"type": "image", "filename": "a.png", "total_size": size, "total_chunks": 1}
        async with wired() as (_, ask):
            begun = await ask("aibot_upload_media_init", {**about, "md5": digest or true})
            if begun["errcode"]:
                assert begun["errcode"] == code, size
                return
            upload = {"upload_id": begun["body"]["upload_id"]}
            await ask(
                "aibot_upload_media_chunk", {**upload, "chunk_index": 0, "base64_data": "A" * 12}
            )
            assert (await ask("aibot_upload_media_finish", upload))["errcode"] == code, size


async def test_who_is_not_signed_in_can_do_nothing() -> None:
    for secret in ["", "wrong"]:
        async with wired(secret) as (wecom, ask):
            assert (await ask("aibot_send_msg", _markdown("Hi")))["errcode"] == 846609, secret
            assert not wecom.connections, secret


@asynccontextmanager
async def wired(secret: str = SECRET) -> AsyncIterator[Any]:
    """A connection, and what asks over it."""
    async with (
        WeComServer() as wecom,
        aiohttp.ClientSession() as session,
        session.ws_connect(wecom.url) as socket,
    ):
        wecom.known.add("ann")

        async def ask(command: str, body: Any, call: str = "c") -> Any:
            await socket.send_json({"cmd": command, "headers": {"req_id": call}, "body": body})
            return await socket.receive_json()

        await ask("aibot_subscribe", {"bot_id": BOT_ID, "secret": secret})
        yield wecom, ask
