"""An event with more parts than its platform ever sends is left out before the SDK makes values of
them; the largest that it sends is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import aiohttp
import httpx
import pytest

from benchmarks.hostile_events import DISCORD_MESSAGE, EVENTS
from channels.feishu import FeishuSettings
from channels.feishu.feishu import Feishu
from channels.kit.frames import check_parts
from channels.kit.platform import Platform
from channels.matrix.matrix import Matrix
from channels.retry import TROUBLE, patient
from channels.telegram.reading import readable
from channels.wecom import WeComSettings
from channels.wecom.wecom import WeCom
from channels.whatsapp import WhatsAppSettings
from channels.whatsapp.whatsapp import MetaSecrets, WhatsApp
from tests.tables import each_row

PERSON = {"id": 2, "is_bot": False, "first_name": "Ann"}
ENTITIES = [{"type": "text_mention", "offset": n, "length": 1, "user": PERSON} for n in range(100)]
KEYBOARD = {"inline_keyboard": [[{"text": "A", "callback_data": "a"}]] * 100}


def telegram(count: int = 100) -> dict[str, Any]:
    chat = {"id": -3, "type": "supergroup", "title": "G"}
    message = {"message_id": 4, "date": 1_700_000_000, "chat": chat, "from": PERSON}
    said = {**message, "text": "a" * 4_096, "entities": ENTITIES, "reply_markup": KEYBOARD}
    entities = ENTITIES * (count // 100)
    return {"update_id": 7, "message": {**said, "entities": entities, "reply_to_message": said}}


def discord(embeds: int) -> dict[str, Any]:
    embed = {"fields": [{"name": "a", "value": "b", "inline": False}] * 25}
    person = DISCORD_MESSAGE["author"]
    first = {**DISCORD_MESSAGE, "embeds": [embed] * 10, "mentions": [person] * 100}
    return {**first, "embeds": [embed] * embeds, "referenced_message": first}


def test_the_largest_that_there_is_is_read() -> None:
    assert readable(telegram()) == telegram()
    assert EVENTS["discord.incoming.heard"].read(discord(10))


def test_what_is_larger_is_left_out_and_confirmed() -> None:
    assert readable(telegram(1_000)) == {"update_id": 7}
    with pytest.raises(ValueError, match="parts"):
        EVENTS["discord.incoming.heard"].read(discord(200))


SHAPES: dict[str, Any] = {
    "a list": [[]] * 9,
    "a deep list": [[[[[[[[[[]]]]]]]]]],
    "objects": {str(n): {} for n in range(9)},
    "a list of objects": {"a": [{"b": 1}] * 8},
}


@each_row("what", SHAPES)
def test_objects_and_lists_are_counted_wherever_they_are(what: str) -> None:
    check_parts(SHAPES[what], 10)
    with pytest.raises(ValueError, match="more than 9"):
        check_parts(SHAPES[what], 9)


def test_other_values_are_no_parts() -> None:
    for value in ("a", 1, None, [1] * 99, {"a": "b"}):
        check_parts(value, 1)


@pytest.mark.parametrize(("asked", "heard"), [(None, TROUBLE + 1), (0.0, 0)])
async def test_somebody_hears_of_what_fails_for_long_but_not_where_the_platform_says_wait(
    asked: float | None, heard: int
) -> None:
    attempts, troubles = 0, list[BaseException]()

    async def attempt() -> str:
        nonlocal attempts
        attempts += 1
        if attempts <= 2 * TROUBLE:
            raise ConnectionError("not now")
        return "there"

    async def sleep(seconds: float) -> None:
        """Not in a test."""

    again = patient(lambda error: True, lambda error: asked, troubles.append, sleep)
    assert await again(attempt) == "there"
    assert len(troubles) == heard


PLATFORMS = (
    Matrix("https://matrix.example", "token"),
    WeCom(WeComSettings(bot_id="bot"), "secret"),
    Feishu(FeishuSettings(app_id="cli_1"), "secret"),
    WhatsApp(WhatsAppSettings(phone_id="1"), MetaSecrets("token", "secret", "word")),
)


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)
def test_a_file_that_is_gone_is_gone_and_one_that_is_out_of_reach_may_come(
    platform: Platform,
) -> None:
    for status, kind in ((403, "refused"), (410, "refused"), (429, "passing"), (502, "passing")):
        about: Any = SimpleNamespace(real_url="https://files.example/1")
        error: Exception = aiohttp.ClientResponseError(about, (), status=status)
        if platform.name == "whatsapp":
            request = httpx.Request("GET", "https://files.example/1")
            error = httpx.HTTPStatusError("no", request=request, response=httpx.Response(status))
        assert platform.explain(error).kind == kind, status


def test_a_connection_that_is_not_made_is_tried_again() -> None:
    about: Any = SimpleNamespace(real_url="wss://files.example/1")
    for platform in PLATFORMS[1:3]:
        refused = aiohttp.WSServerHandshakeError(about, (), status=404)
        assert platform.explain(refused).kind == "passing"
