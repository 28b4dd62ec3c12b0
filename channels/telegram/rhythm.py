"""The times at which Telegram is asked, told and shown something, all in one value."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from channels.retry import Sleep


class Rhythm(Struct, frozen=True):
    """Times in seconds, as Telegram's FAQ on limits for bots gives them.

    `draft` and `group_draft` pass between two edits of an answer that streams, `typing` between two
    signs that the bot thinks (each is shown for 5). `album` is how long the rest of an album, or of
    a long text, is waited for, `poll` how long Telegram holds a request when nothing is new. All
    bots may send `overall` messages a second, and `per_group` in `group_time` to one group. `sleep`
    waits when Telegram says how long, or does not answer.
    """

    draft: float = 1.0
    group_draft: float = 4.0
    typing: float = 4.5
    album: float = 0.7
    poll: int = 30
    overall: float = 30
    per_group: float = 20
    group_time: float = 60
    sleep: Sleep = asyncio.sleep
