"""Slack, over Socket Mode or the Events API. Nothing here imports its SDK."""

from __future__ import annotations

from collections.abc import Mapping

from channels.base import Channel, ChannelError
from channels.kit.messenger import Messenger
from channels.kit.registration import ChannelType
from channels.slack.settings import SlackSettings

NO_WAY_IN = (
    "Nothing would come from Slack: put SLACK_APP_TOKEN into .env for Socket Mode, or "
    "SLACK_SIGNING_SECRET for the Events API."
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
