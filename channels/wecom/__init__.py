"""WeCom (企业微信), as an AI bot of its own: the registration of the channel."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from channels.base import Channel
from channels.kit.messenger import Messenger
from channels.kit.registration import ChannelType
from channels.settings import StrictSettings

SECRET = "WECOM_SECRET"


class WeComSettings(StrictSettings):
    """The object `channels.wecom`."""

    bot_id: str = Field(
        min_length=1,
        max_length=128,
        description="The Bot ID, from the settings of the AI bot, API mode, long connection.",
    )
    url: str = Field(
        default="wss://openws.work.weixin.qq.com",
        pattern=r"^wss?://",
        description="The address of WeCom's long connections.",
    )


def _make(settings: WeComSettings, secrets: Mapping[str, str]) -> Channel:
    from channels.wecom.wecom import WeCom  # noqa: PLC0415 - only where it is used

    return Messenger(WeCom(settings, secrets[SECRET]))


CHANNEL = ChannelType(
    name="wecom",
    make=_make,
    settings=WeComSettings,
    secrets=(SECRET,),
    packages=("cryptography",),
    requirements="channels/wecom/requirements.txt",
)
