"""All conversations of one store, each restored from disk on first use.

They are evicted from memory after a long idle time, or, least recently used first, when there are
many. A conversation that is loaded again has its previous state: eviction is not a restart.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Struct, field

from memory.audience_memory import Indexer
from memory.branches import Branches
from memory.calibration import KnownModels
from memory.conversation import Conversation, EvictedState, SharedState
from memory.keys import ConversationKey, Scope, everything
from memory.long_term.memory import AudienceState, LongTermMemory
from memory.record import bot_state, conversations, mailbox, memory_file, summaries, transcript
from memory.record.conversations import ListedConversation
from memory.record.memory_file import MemoryFileError
from memory.record.store import StoreError
from memory.services import MemoryServices
from memory.tasks import TaskProgress

MOST_ATTEMPTS = 3
"""The number of starts that attempt a job before it is put aside."""

MOST_OPEN = 200
"""The maximum of idle conversations in memory."""

MOST_EVICTED = 1_000
"""The maximum of evicted conversations whose state is kept in memory. For older ones, the next
summary is written again if it is needed."""

log = logging.getLogger(__name__)

IDLE = 3_600.0
"""Seconds after which an idle conversation is evicted; its session ends then."""

FAREWELL = 3.0
"""Seconds that the listeners to the end of sessions have in total."""


class LoadedConversations(Struct):
    """The conversations in memory by id, the current branches of chats, and the facts learned about
    models."""

    branches: Branches
    models: KnownModels = field(default_factory=KnownModels)
    alive: WeakValueDictionary[str, Conversation] = field(default_factory=WeakValueDictionary)

    def find(self, key: ConversationKey) -> Conversation | None:
        """Return the conversation of this key, if it is in memory."""
        return self.alive.get(key.id)


class Conversations:
    """All conversations of one store. An evicted conversation that other code still holds is found
    again (`_alive`), so that there is never more than one object for it."""

    def __init__(self, services: MemoryServices, loaded: LoadedConversations | None = None) -> None:
        """Make the conversations of `services`; `loaded` shares those in memory with other code."""
        self.services, self._clock = services, time.monotonic
        self._mirror, self._indexer = (
            services.mirror(),
            Indexer(services.store, services.corrections),
        )
        self._loaded = loaded or LoadedConversations(Branches(services.store))
        self.models, self.branches = self._loaded.models, self._loaded.branches
        self.long_term: defaultdict[str, AudienceState] = defaultdict(AudienceState)
        self._shared = SharedState(
            self.models,
            self._mirror,
            self._indexer,
            self._reload_preface,
            self.long_term,
            self._spread,
        )
        self._most_open = MOST_OPEN
        self._open: OrderedDict[str, Conversation] = OrderedDict()
        self._used: dict[str, float] = {}  # the time of the last use of each
        self._alive = self._loaded.alive
        self._loading: dict[str, asyncio.Task[Conversation]] = {}
        self._evicted: OrderedDict[str, EvictedState] = OrderedDict()
        self._were_here: set[str] = set()
        self.troubles: list[str] = []
        self.is_ours: Scope = everything

    async def get(self, key: ConversationKey, is_restart: bool = True) -> Conversation:
        """Return the conversation of this key; concurrent calls load it once. With `is_restart`
        False, as for maintenance, the compaction on a restart is skipped."""
        conversation = self._alive.get(key.id) or await self._restore(key, is_restart)
        self._open[key.id] = conversation
        self._open.move_to_end(key.id)
        self._used[key.id] = self._clock()
        self._evict_surplus()
        return conversation

    async def _restore(self, key: ConversationKey, is_restart: bool) -> Conversation:
        task = self._loading.get(key.id)
        if task is None:
            task = self._loading[key.id] = asyncio.create_task(self._load(key, is_restart))
            task.add_done_callback(lambda task: self._loading.pop(key.id))
        return await asyncio.shield(task)

    async def _load(self, key: ConversationKey, is_restart: bool) -> Conversation:
        await self.services.meter.ready()
        conversation = Conversation(self.services, key, self._shared)
        is_back = key.id in self._were_here
        await conversation.restore(is_restart and not is_back, self._evicted.get(key.id))
        self._evicted.pop(key.id, None)
        self._were_here.add(key.id)
        self._alive[key.id] = conversation
        return conversation

    def _evict_surplus(self) -> None:
        """Evict excess conversations at rest, least recently used first."""
        excess = len(self._open) - self._most_open
        if excess <= 0:
            return
        at_rest = (name for name, one in self._open.items() if one.is_inactive)
        for name in list(islice(at_rest, excess)):  # nearly always the first ones
            self._evict(name)

    async def resolve_proposals(self) -> None:
        """Make the compactions that have waited long enough for approval."""
        for conversation in self.list_loaded():
            await conversation.compactor.resolve_proposal()

    async def rest(self) -> None:
        """Evict the conversations that were not used for an hour; unlike other evictions, this ends
        their sessions."""
        before = self._clock() - IDLE
        for name in [name for name, used in self._used.items() if used < before]:
            if self._may_rest(name, before):
                await self._open[name].turns.end_session()
            if self._may_rest(name, before):  # listeners may have taken their time
                self._evict(name)

    def _may_rest(self, name: str, before: float) -> bool:
        return self._used.get(name, before) < before and self._open[name].is_inactive

    def _evict(self, name: str) -> None:
        del self._used[name]
        self._evicted[name] = self._open.pop(name).evicted
        self._evicted.move_to_end(name)
        while len(self._evicted) > MOST_EVICTED:
            self._evicted.popitem(last=False)

    async def _reload_preface(self, name: str) -> None:
        """Read the preface of the conversation of this name again: an owner approved a summary that
        may be part of it."""
        if (conversation := self._alive.get(name)) is not None:
            async with conversation.context.changing:
                await conversation.context.read_preface_again()

    async def _spread(self, key: ConversationKey, turns: Collection[int]) -> None:
        """Update the files of the other conversations that share turns which were removed or
        restored in a branch, since its model may read those files as well."""
        for other, some in (await self.branches.find_sharing(key, turns)).items():
            await (await self.get(other, is_restart=False)).follow_branch(some)

    def in_memory(self, key: ConversationKey) -> Conversation | None:
        """Return the conversation of this key, if it is in memory."""
        return self._alive.get(key.id)

    async def load(self, is_selected: Scope = everything) -> None:
        """Load each model's calibration, and resume the work that a crash interrupted: the memory
        files in the prompt, and jobs."""
        self.models.ratios = await self.services.store.read(bot_state.ratios)
        await self.branches.load(is_selected)
        for audience in await self._list_unwritten(is_selected):
            key, state = ConversationKey("", audience), self.long_term[audience]
            try:
                await LongTermMemory(self.services, key, state).read()
            except (MemoryFileError, StoreError) as error:
                log.warning("%s", error)  # the commands of the memory report this
        unfinished = await self.services.store.read(summaries.list_unfinished)
        for key, job in [(key, job) for key, job in unfinished if is_selected(key.id)]:
            try:
                if await self._count_attempt(job) <= MOST_ATTEMPTS:
                    await self.get(key)  # it resumes its own jobs when restored
                    continue
            except Exception:
                log.exception("%s can't be taken up", key.id)
                continue
            await self._put_job_aside(key, job)

    async def _list_unwritten(self, is_selected: Scope) -> list[str]:
        """Return the audiences whose memory file differs from the database."""
        found = await self.services.store.read(memory_file.list_unwritten)
        keys = {audience: await self.of_audience(audience) for audience in found}
        return [one for one in found if all(is_selected(key.id) for key in keys[one])]

    async def _count_attempt(self, job: int) -> int:
        return await self.services.store.write(lambda db: summaries.count_attempt(db, job))

    async def _put_job_aside(self, key: ConversationKey, job: int) -> None:
        why = f"it was tried {MOST_ATTEMPTS} times and never finished"
        await self.services.store.write(lambda db: mailbox.put_aside(db, "job", job, why))
        sentence = (
            f"What left the context of {key.id} could not be summarised into its daily memory, "
            f"although {MOST_ATTEMPTS} starts tried, so that job was put aside. The transcript "
            "still has it; the log says what went wrong."
        )
        log.error("%s", sentence)
        self.troubles.append(sentence)

    async def mark_clean_stop(self, is_selected: Scope = everything) -> None:
        """Record a clean stop: the interrupted jobs and tool calls have not failed."""
        names = [name for name in self._alive if is_selected(name) and self.is_ours(name)]
        await self.services.store.write(lambda db: summaries.mark_clean_stop(db, names))
        await self.services.store.write(lambda db: transcript.delete_repeatable_calls(db, names))

    async def evict(self, is_selected: Scope) -> None:
        """Evict these conversations, which other processes own from now on."""
        leaving = [one for one in self.list_loaded() if is_selected(one.key.id)]
        self._mirror.drop(is_selected)
        for conversation in leaving:
            await conversation.compactor.summaries.close()
            self.long_term.pop(conversation.key.audience, None)
        for name in [name for name in {*self._alive, *self._evicted} if is_selected(name)]:
            for known in (self._open, self._used, self._evicted, self._alive):
                known.pop(name, None)

    async def fork(
        self,
        key: ConversationKey,
        turn: int | None = None,
        title: str = "",
        scopes: Sequence[str] = ("",),
        *,
        is_as_now: bool = False,
    ) -> ConversationKey:
        """Branch off a conversation after this turn (None: the last complete one; 0: before the
        first, so that no turns are shared) and make the branch the current one of its chat. The
        context is as of that turn or, with `is_as_now`, includes people's later changes to the
        turns up to it. Raises ValueError with a sentence, and StoreError."""
        last = (await self.get(key)).context.last_complete
        if turn is None and not last:
            raise ValueError("there is no complete turn yet that a branch could begin with")
        if turn is not None and turn > last:
            raise ValueError(f"the last complete turn is t{last}")
        after = last if turn is None else turn
        branch = await self.branches.fork(key, after, title, scopes, is_as_now=is_as_now)
        self._were_here.add(branch.id)  # it begins as its parent is, not with a restart
        return branch

    async def idle_since(self, before: float) -> list[ConversationKey]:
        """Return the conversations without messages since a time (seconds since 1970) that have
        stored data."""
        found = await self.services.store.read(lambda db: conversations.idle_since(db, before))
        return [key for key in found if self.is_ours(key.id)]

    async def is_idle(self, key: ConversationKey, before: float) -> bool:
        """Return whether this conversation is idle in that sense."""
        read = self.services.store.read
        found = await read(lambda db: conversations.idle_since(db, before, key.id))
        return bool(found) and self.is_ours(key.id)

    async def of_audience(self, audience: str) -> list[ConversationKey]:
        """Return all conversations of an audience."""
        return await self.services.store.read(lambda db: conversations.of_audience(db, audience))

    async def list_matching(self, prefix: str, words: str = "") -> list[ListedConversation]:
        """Return the conversations whose key begins with `prefix`, newest first; see
        `conversations.list_conversations`."""
        return await self.services.store.read(
            lambda db: conversations.list_conversations(db, prefix, words)
        )

    async def delete_mail_before(self, before: float) -> None:
        """Delete the inbox rows answered before a time (seconds since 1970), and finished jobs."""

        def work(db: Any) -> None:
            mailbox.delete_before(db, before)
            for feature in self.services.feature_rows:
                feature.prune(db, before)

        await self.services.store.write(work)

    async def prune_memories(self, before: float) -> int:
        """Delete the versions of `MEMORY.md` that were replaced before a time (seconds since 1970);
        return how many."""
        return await self.services.store.write(lambda db: memory_file.prune(db, before))

    async def flush(self) -> None:
        """Wait until summaries are in the daily memory, and files and index are written."""
        for conversation in self.list_loaded():
            await conversation.compactor.summaries.idle()
        await self._mirror.flush()
        await self._indexer.idle()

    async def index(self, progress: TaskProgress) -> None:
        """Index all messages, so that no search waits for it."""
        await self._indexer.catch_up_all(progress)

    async def close(self) -> None:
        """End the sessions, and stop background work; it resumes at the next start."""
        endings = [conversation.turns.end_session() for conversation in self.list_loaded()]
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await asyncio.gather(*endings)
        await self._mirror.close()
        for conversation in self.list_loaded():
            await conversation.compactor.summaries.close()
        await self._indexer.close()

    async def abandon(self) -> None:
        """Stop background work without notifying listeners: other processes have taken over."""
        await self._mirror.close()
        for conversation in self.list_loaded():
            await conversation.compactor.summaries.close()
        await self._indexer.close()

    def list_loaded(self) -> list[Conversation]:
        """Return the conversations in memory."""
        return list(self._alive.values())
