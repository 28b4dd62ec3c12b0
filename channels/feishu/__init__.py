"""Feishu, and Lark outside of China: the registration of the channel."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from channels.base import Channel
from channels.kit.messenger import Messenger
from channels.kit.registration import ChannelType
from channels.settings import StrictSettings

SECRET = "FEISHU_APP_SECRET"


class FeishuSettings(StrictSettings):
    """The object `channels.feishu`."""

    app_id: str = Field(
        pattern=r"^cli_\w{1,64}$",
        description="The App ID of your custom app, from Credentials & Basic Info.",
    )
    base_url: str = Field(
        default="https://open.feishu.cn",
        pattern=r"^https?://",
        description="The address of the open platform: Feishu's, or https://open.larksuite.com.",
    )


def _make(settings: FeishuSettings, secrets: Mapping[str, str]) -> Channel:
    from channels.feishu.feishu import Feishu  # noqa: PLC0415 - only where it is used

    return Messenger(Feishu(settings, secrets[SECRET]))


CHANNEL = ChannelType(name="feishu", make=_make, settings=FeishuSettings, secrets=(SECRET,))
