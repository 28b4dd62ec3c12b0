"""WhatsApp, by Meta's Cloud API: the registration of the channel. The SDK is imported when one is
made."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from channels.base import Channel
from channels.kit.messenger import Messenger
from channels.kit.registration import ChannelType
from channels.settings import StrictSettings

TOKEN, APP_SECRET, VERIFY_TOKEN = "WHATSAPP_TOKEN", "WHATSAPP_APP_SECRET", "WHATSAPP_VERIFY_TOKEN"


class WhatsAppSettings(StrictSettings):
    """The object `channels.whatsapp`."""

    phone_id: str = Field(
        pattern=r"^\d{1,32}$",
        description="The id of the phone number, not the number itself; from WhatsApp > API Setup.",
    )
    template: str = Field(
        default="",
        max_length=512,
        description="The name of an approved template without places to fill in. It is sent to "
        "whoever has not written for 24 hours and for whom something waits; empty means that it "
        "waits until they write.",
    )
    template_language: str = Field(
        default="en_US", max_length=16, description="The language of that template."
    )
    base_url: str = Field(
        default="https://graph.facebook.com/v26.0",
        pattern=r"^https?://",
        description="The address of the Graph API, with its version.",
    )


def _make(settings: WhatsAppSettings, secrets: Mapping[str, str]) -> Channel:
    from channels.whatsapp.whatsapp import MetaSecrets, WhatsApp  # noqa: PLC0415 - the SDK, only where it is used

    return Messenger(
        WhatsApp(settings, MetaSecrets(secrets[TOKEN], secrets[APP_SECRET], secrets[VERIFY_TOKEN]))
    )


CHANNEL = ChannelType(
    name="whatsapp",
    make=_make,
    settings=WhatsAppSettings,
    secrets=(TOKEN, APP_SECRET, VERIFY_TOKEN),
    packages=("pywa",),
    is_called=True,
    requirements="channels/whatsapp/requirements.txt",
)
