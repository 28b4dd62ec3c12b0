"""The check of the memory, for `python main.py doctor`."""

from __future__ import annotations

from collections.abc import Sequence

from bot.checks import Finding
from bot.settings import Settings
from memory.corrections import score as correction_score


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Check that the file for detecting corrections exists."""
    del settings, may_connect
    if correction_score.is_there():
        return ()
    name = correction_score.WEIGHTS
    sentence = f"{name} is missing or damaged: values that people correct stay in summaries."
    return (Finding("Corrections", "broken", sentence, "Install the bot anew."),)
