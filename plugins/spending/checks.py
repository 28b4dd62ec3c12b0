"""The risk of missing spending limits, for `python main.py audit`."""

from __future__ import annotations

from collections.abc import Iterator

from bot.checks import Finding
from bot.settings import Settings
from plugins.spending.settings import SpendingSettings


def list_risks_with_users(settings: Settings) -> Iterator[Finding]:
    """Yield the risk of unlimited spending by people other than the owners."""
    limits = settings.section(SpendingSettings)
    if not (limits.spend_limit_total or limits.spend_limit_user):
        sentence = "Others have access, and nothing limits what they can spend."
        yield Finding("spending", "low", sentence, "/config spend_limit_user 5")
