"""The check of standing instructions, for `python main.py doctor`."""

from __future__ import annotations

from collections.abc import Sequence

from bot.checks import Finding
from bot.settings import Settings
from plugins.instructions import detect
from plugins.instructions.settings import RuleSettings


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Check that the file for rules.detect exists."""
    del may_connect
    if settings.section(RuleSettings).detect == "off" or detect.is_there():
        return ()
    sentence = f"{detect.NAME} is missing or damaged: no rule is found in what people say."
    advice = "Install the bot anew, or set rules.detect to off; /rules add works without it."
    return (Finding("Standing instructions", "broken", sentence, advice),)
