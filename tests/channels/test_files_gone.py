"""A file that its platform does not have any more is not asked for again and again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import aiohttp
import httpx
import pytest

from channels.feishu import FeishuSettings
from channels.feishu.feishu import Feishu
from channels.kit.platform import Platform
from channels.matrix.matrix import Matrix
from channels.wecom import WeComSettings
from channels.wecom.wecom import WeCom
from channels.whatsapp import WhatsAppSettings
from channels.whatsapp.whatsapp import MetaSecrets, WhatsApp

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
