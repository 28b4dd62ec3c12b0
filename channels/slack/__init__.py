"""Slack, over Socket Mode or the Events API. This module does not import its SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from channels.base import Channel, ChannelError
from channels.kit.messenger import Messenger
from channels.kit.registration import ChannelType
from channels.settings import StrictSettings

NO_WAY_IN = (
    "Nothing would come from Slack: put SLACK_APP_TOKEN into .env for Socket Mode, or "
    "SLACK_SIGNING_SECRET for the Events API."
)


class SlackSettings(StrictSettings):
    """The settings of Slack. `threads` says where an answer opens a thread, which is a conversation
    of its own: in channels, everywhere (also in private, as Slack's Agent view requires), or
    nowhere."""

    threads: Literal["channels", "everywhere", "nowhere"] = "channels"
    base_url: Annotated[str, Field(pattern=r"^(https://|http://(127\.0\.0\.1|localhost)[:/])")] = (
        "https://slack.com/api/"
    )


def _make(settings: SlackSettings, secrets: Mapping[str, str]) -> Channel:
    if not {"SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET"} & {*secrets}:
        raise ChannelError(NO_WAY_IN)
    from channels.slack.platform import Slack  # noqa: PLC0415 - the SDK is an extra

    return Messenger(Slack(settings, secrets))


CHANNEL = ChannelType(
    name="slack",
    make=_make,
    settings=SlackSettings,
    secrets=("SLACK_BOT_TOKEN",),
    may_have=("SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET"),
    packages=("slack-bolt", "slack-sdk"),
    requirements="channels/slack/requirements.txt",
)
