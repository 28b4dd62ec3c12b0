"""The services that this layer was handed when the bot was assembled: its ports, as one value."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from memory.context.change import ViewEvent
from memory.context.limits import Limits
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

OnEvent = Callable[[ViewEvent], None]
"""Hears of every event that changes what the model sees of a conversation."""
OnSpent = Callable[[ConversationKey, str, Spent], None]
"""Hears of every call to a model: in which conversation, who spoke last there, and the call."""


class StepRules(Protocol):
    """The rules of a conversation at one step."""

    @property
    def limits(self) -> Limits: ...


class ConversationRules(Protocol):
    """The rules for conversations, asked for at each step and never kept."""

    def at(self, key: ConversationKey) -> StepRules:
        """Return what holds in a conversation now."""
        ...

    def prefix(self, key: ConversationKey) -> PromptPrefix:
        """Return the part of a request that precedes the conversation."""
        ...

    def zone(self) -> tzinfo:
        """Return the time zone that people read."""
        ...

    def restores_exactly(self) -> bool:
        """Return how a restart restores (`restore`)."""
        ...

    def offloader(self, key: ConversationKey) -> Offloader | None:
        """Return who keeps what is removed; None: nobody."""
        ...

    @property
    def plugin_offloader(self) -> Offloader | None:
        """Return a plugin's, which hears of what a person removed, also where it is to keep nothing
        now."""
        ...


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
    """`data` is the data folder; `events` hears what happens; `hide` takes secrets out of what is
    exported. `on_change` hears that something in a conversation's
    context has changed, `on_cut` of cuts that a person is to hear of
    (`context.compaction_approval`); whoever
    holds an audience's lock in `telling` alone decides what it is told; `feature_rows` are rows
    that features keep for turns, `ledger` keeps what calls to models cost, `chat_bills` adds it up
    by chat, `request_log` keeps what was sent to them, `mirror` the files of conversations,
    `likeness` what they mean, and `corrections` the values that people corrected in them."""

    store: Store
    meter: Meter
    summarizer: Summarizer
    rules: ConversationRules
    data: Path
    events: Events = field(default_factory=Events)
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
