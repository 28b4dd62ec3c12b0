"""The check of the search by meaning, for `python main.py doctor`."""

from __future__ import annotations

from collections.abc import Sequence

from bot.checks import Finding
from bot.settings import Settings
from plugins.recall.feature import is_installed
from plugins.recall.settings import SearchSettings

NAME = "Search by meaning"


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Check that the packages for the setting are installed."""
    del may_connect
    if not settings.section(SearchSettings).semantic:
        return ()
    if not is_installed():
        advice = "Run: python main.py add semantic"
        return (Finding(NAME, "broken", "The packages of search.semantic are missing.", advice),)
    return (Finding(NAME, "ok", "Its model is installed."),)
