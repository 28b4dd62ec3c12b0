"""The fake of the Cloud API refuses what the Cloud API refuses."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import aiohttp

from tests.fakes.whatsapp_server import PHONE_ID, TOKEN, WhatsAppServer

TO = {"messaging_product": "whatsapp", "recipient_type": "individual", "to": "4917100000001"}


def _text(body: str) -> dict[str, Any]:
    return {**TO, "type": "text", "text": {"body": body}}


def _buttons(*titles: str, body: str = "Sure?", id: str = "/yes") -> dict[str, Any]:
    replies = [
        {"type": "reply", "reply": {"id": f"{id}{n}", "title": t}} for n, t in enumerate(titles)
    ]
    content = {"type": "button", "body": {"text": body}, "action": {"buttons": replies}}
    return {**TO, "type": "interactive", "interactive": content}


def _list(count: int, title: str = "One") -> dict[str, Any]:
    rows = [{"id": f"/{n}", "title": title} for n in range(count)]
    action = {"button": "Choose", "sections": [{"title": "Choose", "rows": rows}]}
    content = {"type": "list", "body": {"text": "Which?"}, "action": action}
    return {**TO, "type": "interactive", "interactive": content}


async def test_a_message_is_refused() -> None:
    async with WhatsAppServer() as meta:
        for body, code in [
            (_text(""), 100),
            (_text("x" * 4097), 100),
            ({**_text("Hi"), "to": "+49 171"}, 131009),
            ({**_text("Hi"), "to": "DE.123"}, 131009),  # such an id goes into `recipient`
            ({**_text("Hi"), "colour": "red"}, 100),
            ({**_text("Hi"), "messaging_product": "mail"}, 100),
            ({**TO, "type": "text"}, 131008),
            ({**TO, "type": "reaction", "reaction": {}}, 131051),
            (_buttons("1", "2", "3", "4"), 131009),
            (_buttons("x" * 21), 100),
            (_buttons("Yes", "Yes"), 131009),
            (_buttons("Yes", id="x" * 256), 131009),
            (_buttons("Yes", body="x" * 1025), 100),
            (_list(11), 131009),
            (_list(1, "x" * 25), 100),
            ({**_list(1), "recipient_type": "group", "to": "Y2FwaV9ncm91cDoxNzA1NTU1MD"}, 131051),
            ({**TO, "type": "image", "image": {"id": "1"}}, 131009),
            (
                {**TO, "type": "template", "template": {"name": "x", "language": {"code": "en"}}},
                132001,
            ),
            ({"messaging_product": "whatsapp", "status": "read", "message_id": "wamid.x"}, 100),
        ]:
            status, error = await _send(meta, body)
            assert (status, error["error"]["code"]) == (400, code), body
            assert not meta.messages, body


async def test_a_wrong_token_and_a_wrong_number_are_refused() -> None:
    async with WhatsAppServer() as meta:
        assert (await _send(meta, _text("Hi"), token="old"))[1]["error"]["code"] == 190
        assert (await _send(meta, _text("Hi"), phone="1"))[1]["error"]["code"] == 100


async def test_files_have_a_type_and_a_size() -> None:
    for media_type, size, status in [
        ("text/markdown", 9, 400),
        ("image/png", 5 * 10**6 + 1, 400),
        ("image/png", 9, 200),
    ]:
        form = aiohttp.FormData({"messaging_product": "whatsapp"})
        form.add_field("file", BytesIO(bytes(size)), filename="a", content_type=media_type)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            WhatsAppServer() as meta,
            aiohttp.ClientSession(headers=headers) as session,
            session.post(f"{meta.base_url}/{PHONE_ID}/media", data=form) as answer,
        ):
            assert answer.status == status, media_type


async def _send(
    meta: WhatsAppServer, body: dict[str, Any], token: str = TOKEN, phone: str = PHONE_ID
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{meta.base_url}/{phone}/messages"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url, json=body) as answer,
    ):
        return answer.status, await answer.json()
