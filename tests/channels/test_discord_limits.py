"""What Discord, or what stands before it, says when something is too much."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import discord
import pytest

from channels.discord import DiscordSettings
from channels.discord.platform import Discord


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({"Retry-After": "12"}, 12),
        ({"Retry-After": "1.5"}, 1.5),
        ({"Retry-After": "Mon, 23 Nov 2026 10:00:00 GMT"}, 5),
        ({"Retry-After": "-3"}, 5),
        ({"Retry-After": "nan"}, 5),
        ({}, 5),
    ],
)
def test_a_limit_is_understood_however_its_time_is_written(
    said: dict[str, str], seconds: float
) -> None:
    answer: Any = SimpleNamespace(status=429, reason="Too Many Requests", headers=said)
    failure = Discord("token", DiscordSettings()).explain(discord.HTTPException(answer, "slowly"))
    assert (failure.kind, failure.seconds) == ("wait", seconds)
