"""The stages, by the name of the channel; each module is imported when it is needed."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module

import pytest
from _pytest.mark import ParameterSet

from tests.channels.contract.stage import Ability, Stage

STAGES: dict[str, str] = {
    "discord": "tests.channels.contract.discord_stage:DiscordStage",
    "letters": "tests.channels.contract.letters_stage:LettersStage",
    "slack": "tests.channels.contract.slack_stage:SlackStage",
    "slack by calls": "tests.channels.contract.slack_stage:SlackCallsStage",
    "mail": "tests.channels.contract.mail_stage:MailStage",
    "matrix": "tests.channels.contract.matrix_stage:MatrixStage",
    "telegram": "tests.channels.contract.telegram_stage:TelegramStage",
    "whatsapp": "tests.channels.contract.whatsapp_stage:WhatsAppStage",
    "feishu": "tests.channels.contract.feishu_stage:FeishuStage",
    "wecom": "tests.channels.contract.wecom_stage:WeComStage",
}
"""Module and class; importers of this module may add more."""
SERVERS = ("mail", "matrix")
"""The stages whose platforms are real servers."""


def list_stages(wanted: Collection[Ability], names: Collection[str]) -> list[ParameterSet]:
    """Return the stages of these names that can do this, each as a parameter that makes one; a
    platform whose SDK is not installed is skipped with the reason."""
    found = []
    for name, place in STAGES.items():
        if name not in names:
            continue
        module, _, kind = place.partition(":")
        try:
            stage: type[Stage] = getattr(import_module(module), kind)
        except ModuleNotFoundError as error:
            reason = f"{error.name} is not installed: pip install -r tests/requirements.txt"
            found.append(pytest.param(None, id=name, marks=pytest.mark.skip(reason=reason)))
        else:
            if {*wanted} <= {*stage.can}:
                found.append(pytest.param(stage, id=name))
    return found
