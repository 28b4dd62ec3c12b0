"""Mail, by IMAPClient and aiosmtplib."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, StringConstraints

from channels.base import Channel
from channels.kit.registration import ChannelType
from channels.settings import START, StrictSettings

PASSWORD = "MAIL_PASSWORD"

_Host = Annotated[str, StringConstraints(pattern=r"^[^\s\p{C}/@]*$", max_length=255)]


class MailSettings(StrictSettings):
    """The settings in the configuration under `channels.mail`."""

    address: Annotated[str, StringConstraints(pattern=r"^[^\s\p{C}@<>]+@[^\s\p{C}@<>]+$")] = Field(
        max_length=254,
        description="The bot's own address.",
        json_schema_extra={"wants": "an address like bot@example.org", **START},
    )
    verified_by: _Host = Field(
        min_length=1,
        description="The server that checks who has sent a message: the name with which "
        "Authentication-Results begins in the mail that you receive. What it did not verify is "
        "not read.",
        json_schema_extra={"wants": "a server's name: mx.example.org", **START},
    )
    imap: _Host = Field(
        default="",
        description="The server from which mail is fetched, with a port where it is not 993; "
        "empty means imap. and the address's domain.",
        json_schema_extra={"wants": "a server's name: imap.example.org", **START},
    )
    smtp: _Host = Field(
        default="",
        description="The server over which mail is sent, with a port where it is not 465; empty "
        "means smtp. and the address's domain.",
        json_schema_extra={"wants": "a server's name: smtp.example.org", **START},
    )
    user: str = Field(
        default="",
        max_length=254,
        description="The name to sign in with; empty means the address.",
        json_schema_extra=START,
    )
    folder: str = Field(
        default="INBOX",
        min_length=1,
        max_length=200,
        description="The folder that is read.",
        json_schema_extra=START,
    )
    answers_strangers: bool = Field(
        default=False,
        description="Send a code to somebody whom the bot does not know, to get access "
        "with; without it, their mail is left unanswered.",
        json_schema_extra={"wants": "true or false", **START},
    )


def _make(settings: MailSettings, secrets: Mapping[str, str]) -> Channel:
    from channels.kit.messenger import Messenger  # noqa: PLC0415 - only where it runs
    from channels.mail.mail import Mail  # noqa: PLC0415 - its clients are an extra

    return Messenger(Mail(settings, secrets[PASSWORD]))


CHANNEL = ChannelType(
    "mail",
    _make,
    MailSettings,
    secrets=(PASSWORD,),
    packages=("IMAPClient", "aiosmtplib"),
    requirements="channels/mail/requirements.txt",
)
