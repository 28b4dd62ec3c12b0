"""The services that this layer was handed when the bot was assembled: its ports, as one value."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import tzinfo
from pathlib import Path

from msgspec import Struct, field

from memory.context.change import ViewEvent
from memory.context.limits import LimitsFor
from memory.context.meter import Meter, PromptPrefix
from memory.context.summary import Summarizer
from memory.events import Events
from memory.keys import ConversationKey, file_name
from memory.ledger import ChatBills, Ledger, Spent
from memory.mirror import Mirror
from memory.record.forget import FeatureRows
from memory.record.offload import Offloader
from memory.record.search.corrected import CorrectionBook
from memory.record.search.likeness import Likeness
from memory.record.store import Store
from memory.record.summaries import Summary
from memory.request_log import RequestLog

PrefixFor = Callable[[ConversationKey], PromptPrefix]
OffloaderFor = Callable[[ConversationKey], Offloader | None]
OnEvent = Callable[[ViewEvent], None]
"""Hears of every event that changes what the model sees of a conversation."""
OnSpent = Callable[[ConversationKey, str, Spent], None]
"""Hears of every call to a model: in which conversation, who spoke last there, and the call."""


class CutNotice(Struct, frozen=True):
    """A cut that a strategy or a rule wants, or has made (`event`: its id; 0: it waits for the
    person): the turns that leave, their summary, and the meter's tokens before and after;
    `is_late` says that the summary stands there only from the next turn on."""

    summary: Summary
    turns: tuple[int, ...]
    why: str
    tokens_before: int
    tokens_after: int
    event: int = 0
    is_late: bool = False


async def _unheard(key: ConversationKey, notice: CutNotice) -> None:
    """Nobody is told."""


class MemoryServices(Struct, frozen=True):
    """`limits_for` and `prefix_for` are asked at every step; `data` is the data folder; `zone` the
    time zone that people read; `restores_exactly` says how a restart restores (`restore`); `events`
    hears what happens;
    `offloader_for` names who keeps what is removed (None: nobody), `plugin_offloader` is a
    plugin's, which hears of what a person removed, also where it is to keep nothing now; `hide`
    takes secrets out of what is exported. `on_change` hears that something in a conversation's
    context has changed, `on_cut` of cuts that a person is to hear of
    (`context.compaction_approval`); whoever
    holds an audience's lock in `telling` alone decides what it is told; `feature_rows` are rows
    that features keep for turns, `ledger` keeps what calls to models cost, `chat_bills` adds it up
    by chat, `request_log` keeps what was sent to them, `mirror` the files of conversations,
    `likeness` what they mean, and `corrections` the values that people corrected in them."""

    store: Store
    meter: Meter
    summarizer: Summarizer
    limits_for: LimitsFor
    prefix_for: PrefixFor
    data: Path
    zone: Callable[[], tzinfo]
    restores_exactly: Callable[[], bool]
    events: Events = field(default_factory=Events)
    offloader_for: OffloaderFor = lambda key: None
    plugin_offloader: Offloader | None = None
    hide: Callable[[str], str] = str
    on_change: Callable[[ConversationKey], None] = lambda key: None
    on_event: OnEvent = lambda event: None
    on_spent: OnSpent = lambda key, person, spent: None
    on_cut: Callable[[ConversationKey, CutNotice], Awaitable[None]] = _unheard
    feature_rows: Sequence[FeatureRows] = ()
    ledger: Ledger = field(default_factory=Ledger)
    chat_bills: ChatBills = field(default_factory=ChatBills)
    request_log: type[RequestLog] = RequestLog
    mirror: type[Mirror] = Mirror
    likeness: Likeness = field(default_factory=Likeness)
    corrections: CorrectionBook = field(default_factory=CorrectionBook)
    telling: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    def audience_folder(self, audience: str) -> Path:
        """Return the folder of all files of an audience."""
        return self.data / "audiences" / audience

    def session_folder(self, key: ConversationKey) -> Path:
        """Return the folder of what is written out of a conversation: exports, and what was
        offloaded."""
        return self.audience_folder(key.audience) / "sessions" / file_name(key.id)
