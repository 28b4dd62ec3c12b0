"""The risks of the web tools, for `python main.py audit`."""

from __future__ import annotations

from collections.abc import Iterator

from bot.checks import Finding
from bot.settings import Settings
from plugins.web_tools.settings import WebToolSettings


def list_risks(settings: Settings) -> Iterator[Finding]:
    """Yield the tools that are on, as risks."""
    tools = settings.section(WebToolSettings)
    if tools.web_fetch:
        yield Finding(
            "web tools", "note", "The model may ask to read pages.", "/config tools.web_fetch false"
        )
    if tools.can_search:
        yield Finding(
            "web tools",
            "note",
            "The model may ask to search the web.",
            'take "web_search" out of the configuration',
        )
