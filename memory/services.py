"""The services that this layer receives when the bot is assembled: its interfaces, as one value,
with those of the writer of a conversation's files and of the log of requests."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct, field

from memory.context.change import ViewEvent
from memory.context.meter import Meter, PromptPrefix
from memory.context.settings import Limits
from memory.context.summary import Summarizer
from memory.context.view import View
from memory.events import Events
from memory.keys import ConversationKey, Scope, file_name
from memory.ledger import ChatBills, Ledger, Spent
from memory.record import folders
from memory.record.database import Database
from memory.record.forget import FeatureRows
from memory.record.offload import Offloader
from memory.record.search.corrected import CorrectionBook
from memory.record.search.likeness import Likeness
from memory.record.store import Store
from memory.record.summaries import Summary
from memory.turns import Turn


class Redactor:
    """Removes secrets from texts. This one knows no secret; `bot/logs.py` has those that do."""

    def hide(self, text: str) -> str:
        """Return the text without secrets."""
        return text

    def hide_all(self, data: Any) -> Any:
        """Return JSON data without secrets in its texts."""
        if isinstance(data, str):
            return self.hide(data)
        if isinstance(data, Mapping):
            return {name: self.hide_all(value) for name, value in data.items()}
        return [self.hide_all(value) for value in data] if isinstance(data, list | tuple) else data


WHOLE, TERSE, READABLE = "context.json", "context.terse.json", "context.md"
"""The names of the files, in the folder of their conversation."""

T = TypeVar("T")


class MirroredConversation(Protocol):
    """A conversation, as its files are written from it; `redactor` removes secrets."""

    @property
    def key(self) -> ConversationKey: ...

    @property
    def folder(self) -> Path: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def redactor(self) -> Redactor: ...

    async def title(self) -> str: ...

    async def write_turns(self, write: Callable[[Path, Sequence[Turn]], T]) -> T:
        """Have `write` put what was said into the conversation's folder, without what a person
        removed. Raises OSError."""
        ...


class Mirror:
    """Keeps the files of conversations up to date. This one keeps none; a feature brings one that
    does (hook `parley_mirror`)."""

    def touch(self, conversation: MirroredConversation) -> None:
        """Note that something was said in a conversation, or forgotten."""

    async def renew(self, conversation: MirroredConversation) -> None:
        """Write the files of a conversation anew, where it has some: turns were removed, or brought
        back. Raises OSError."""
        await asyncio.to_thread(remove_files, conversation.folder)

    async def flush(self) -> None:
        """Write all pending files now."""

    def drop(self, is_selected: Scope) -> None:
        """Stop updating these conversations, which other processes own from now on."""

    async def close(self) -> None:
        """Stop; pending files are written with the next change."""


def remove_files(folder: Path) -> None:
    """Delete the files of a conversation."""
    folders.check_may_write()
    for name in (WHOLE, TERSE, READABLE):
        (folder / name).unlink(missing_ok=True)


Outcome = Literal["", "answered", "too long"]
"""The outcome of a request: an answer, or a refusal because it was longer than the window; "": it
failed, its answer broke off, or the turn was stopped meanwhile."""


class OutgoingRequest(Struct, frozen=True):
    """A request as it goes out: made from `view` after the view event `event`, with `prefix` before
    it. `pictures` are the parts that were chosen for the pictures that its messages name, `body` is
    what the model's client sends, and `content` the bytes that this became."""

    view: View
    event: int
    prefix: PromptPrefix
    pictures: Sequence[Mapping[str, Any]]
    body: Mapping[str, Any]
    content: bytes


class RequestLog:
    """The log of one conversation, made when it is opened; `redactor` removes secrets. This one
    keeps nothing; a feature provides one that does (hook `parley_request_log`)."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def most_kept(self, limits: Limits) -> int:
        """Return how many requests that are sent within these limits are kept."""
        return 0

    def describe(self, request: OutgoingRequest, limits: Limits) -> Any:
        """Return the row of a request that is being sent."""

    def finish(
        self, rows: Sequence[Any], outcome: Outcome, spent: Spent | None = None
    ) -> list[Any]:
        """Return these rows of a turn, the last of them with its outcome."""
        return [*rows]

    def insert(
        self, database: Database, conversation: int, rows: Sequence[Any], limits: Limits
    ) -> None:
        """Store these rows, in the transaction of what came of the requests."""


OnEvent = Callable[[ViewEvent], None]
"""A callback for each event that changes the model's view of a conversation."""
OnSpent = Callable[[ConversationKey, str, Spent], None]
"""A callback for each call to a model, with the conversation, its last speaker, and the call."""


class StepRules(Protocol):
    """The rules of a conversation at one step."""

    @property
    def limits(self) -> Limits: ...


class ConversationRules(Protocol):
    """The rules for conversations, read at each step and never cached."""

    def at(self, key: ConversationKey) -> StepRules:
        """Return the current rules of a conversation."""
        ...

    def prefix(self, key: ConversationKey) -> PromptPrefix:
        """Return the part of a request that precedes the conversation."""
        ...

    def zone(self) -> tzinfo:
        """Return the time zone that is shown to people."""
        ...

    def restores_exactly(self) -> bool:
        """Return the setting `restore`: whether a restart restores the exact context."""
        ...

    def offloader(self, key: ConversationKey) -> Offloader | None:
        """Return the offloader for removed content; None: none."""
        ...

    @property
    def plugin_offloader(self) -> Offloader | None:
        """Return a plugin's offloader, which is notified of deletions even if it keeps nothing
        now."""
        ...


class CutNotice(Struct, frozen=True):
    """A compaction that a strategy or a rule proposes, or has made (`event`: its id; 0: it waits
    for approval): the removed turns, their summary, and the meter's tokens before and after.
    `is_late`: the summary is in the context only from the next turn on."""

    summary: Summary
    turns: tuple[int, ...]
    why: str
    tokens_before: int
    tokens_after: int
    event: int = 0
    is_late: bool = False


async def _ignore(key: ConversationKey, notice: CutNotice) -> None:
    """Do nothing."""


class MemoryServices(Struct, frozen=True):
    """The services of the memory layer. `data` is the data folder; `events` notifies listeners;
    `redactor` removes secrets from files. `on_change` is called when something in a conversation's
    context has changed, `on_cut` for compactions that a person is notified of
    (`context.compaction_approval`). Code that notifies an audience holds its lock in `telling`.
    `feature_rows` are rows that features keep for turns; `ledger` stores the cost of calls to
    models, and `chat_bills` sums it by chat; `request_log` stores requests, `mirror` writes the
    files of conversations, `likeness` compares their meanings, and `corrections` has the values
    that people corrected in them."""

    store: Store
    meter: Meter
    summarizer: Summarizer
    rules: ConversationRules
    data: Path
    events: Events = field(default_factory=Events)
    redactor: Redactor = field(default_factory=Redactor)
    on_change: Callable[[ConversationKey], None] = lambda key: None
    on_event: OnEvent = lambda event: None
    on_spent: OnSpent = lambda key, person, spent: None
    on_cut: Callable[[ConversationKey, CutNotice], Awaitable[None]] = _ignore
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
        """Return the folder of a conversation's exports and offloaded content."""
        return self.audience_folder(key.audience) / "sessions" / file_name(key.id)
