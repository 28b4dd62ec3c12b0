"""The check of spending limits, for `python main.py doctor` and its audit."""

from __future__ import annotations

from collections.abc import Sequence

from bot.checks import Finding
from bot.settings import Settings
from plugins.spending.settings import SpendingSettings


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Return nothing: without limits the bot runs well."""
    del settings, may_connect
    return ()


def find_risks(settings: Settings, has_users: bool) -> Sequence[Finding]:
    """Return what is a risk where others than the owners are let in."""
    limits = settings.section(SpendingSettings)
    if not has_users or limits.spend_limit_total or limits.spend_limit_user:
        return ()
    sentence = "Others are let in, and nothing limits what they can spend."
    return (Finding("spending", False, sentence, "/config spend_limit_user 5"),)
