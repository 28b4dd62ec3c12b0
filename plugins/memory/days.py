"""The names that people give to days."""

from __future__ import annotations

from datetime import date, timedelta

from channels.language import _
from plugins.api import CommandError


def day_of(text: str, today: date) -> date:
    """The day that a person means; raises CommandError with a sentence."""
    named = {"today": today, "yesterday": today - timedelta(days=1)}
    if text in named:
        return named[text]
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise CommandError(
            _(
                "/memory does not know {words!r}; it takes a day like {today}, yesterday, search "
                "WORDS, status, pending, or what /help memory lists.",
                words=text[:60],
                today=today,
            )
        ) from None
