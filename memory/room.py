"""What this room was handed when the bot was assembled: its ports, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from urllib.parse import quote

from memory.context.limits import LimitsFor
from memory.context.meter import Frame, Meter
from memory.context.summary import Summarizer
from memory.events import Events
from memory.keys import ConversationKey
from memory.record.store import Store

FrameFor = Callable[[ConversationKey], Frame]


@dataclass(frozen=True, slots=True)
class Room:
    """`limits_for` and `frame_for` are asked at every step; `data` is the data folder; `zone` the
    time zone that people read; `restores_exactly` says how a restart restores (`restore`); `events`
    hears what happens; `keeps_files` says whether a conversation's files are kept up to date."""

    store: Store
    meter: Meter
    summarizer: Summarizer
    limits_for: LimitsFor
    frame_for: FrameFor
    data: Path
    zone: Callable[[], tzinfo]
    restores_exactly: Callable[[], bool]
    events: Events = field(default_factory=Events)
    keeps_files: Callable[[ConversationKey], bool] = lambda key: False

    def audience_folder(self, audience: str) -> Path:
        """Where all files of an audience are."""
        return self.data / "audiences" / audience

    def session_folder(self, key: ConversationKey) -> Path:
        """Where what is written out of a conversation is: exports, and what was offloaded."""
        return self.audience_folder(key.audience) / "sessions" / quote(key.id, safe="")
