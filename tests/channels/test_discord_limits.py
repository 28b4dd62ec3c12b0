"""Tests of the errors of Discord, or of what stands before it, when something is too much."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import discord

from channels.discord import DiscordSettings
from channels.discord.platform import Discord


def test_a_limit_is_understood_however_its_time_is_written() -> None:
    for said, seconds in [
        ({"Retry-After": "12"}, 12),
        ({"Retry-After": "1.5"}, 1.5),
        ({"Retry-After": "Mon, 23 Nov 2026 10:00:00 GMT"}, 5),
        ({"Retry-After": "-3"}, 5),
        ({"Retry-After": "nan"}, 5),
        ({}, 5),
    ]:
        answer: Any = SimpleNamespace(status=429, reason="Too Many Requests", headers=said)
        failure = Discord("token", DiscordSettings()).explain(
            discord.HTTPException(answer, "slowly")
        )
        assert (failure.kind, failure.seconds) == ("wait", seconds), said
