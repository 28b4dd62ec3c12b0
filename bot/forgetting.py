"""`/forget` and retention: deletion, while no turn runs in the deleted conversations."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

from agent.tools.allowance import OWN
from bot.activity import EventBus
from bot.turns import Turns
from channels.base import Channel, TurnsDeleted, WithHistory
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.record import bot_state
from memory.record.forget import StoredCounts, delete_folder
from plugins.api import ForgetReport, ForgetRequest
from plugins.wording import name_branch


class Forgetter:
    """The deletion of the stored data of conversations, including that of channels. `stops` end the
    work of features in a conversation besides its turns."""

    def __init__(
        self,
        conversations: Conversations,
        turns: Turns,
        channels: Mapping[str, Channel | WithHistory],
        bus: EventBus,
        stops: Sequence[Callable[[ConversationKey], bool]] = (),
    ) -> None:
        self._conversations, self._turns, self._channels = conversations, turns, channels
        self._bus, self._stops = bus, stops

    async def estimate(self, key: ConversationKey, wish: ForgetRequest) -> ForgetReport:
        """Return a report of the data that would be deleted."""
        if wish.is_audience or wish.is_branches:
            keys = await self._keys(key, wish)
            every = [await self._conversations.get(one) for one in keys]
            held = [await one.count_stored(is_shared_too=True) for one in every]
            return _sum_up(held, await self._files(key, wish))
        here = await self._conversations.get(key)
        held = [await here.count_stored(wish.turns or None)]
        return _sum_up(held, names=await self._names(await self._find_sharing(key, wish)))

    async def forget(self, key: ConversationKey, wish: ForgetRequest) -> ForgetReport:
        """Stop the running turn, and delete the data; return a report of it. Raises StoreError."""
        if wish.is_audience or wish.is_branches:
            return await self._forget_whole(key, wish)
        sharing = await self._find_sharing(key, wish)
        async with self._quiet([key, *sharing]) as conversations:
            here, others = conversations[key.id], [conversations[one.id] for one in sharing]
            deleted = await here.forget(wish.turns or None, others if wish.turns else ())
            is_whole = not wish.turns and not deleted.staying
            await self._forget_in_channel(key, None if is_whole else deleted.questions)
            names = await self._names(sharing)  # so late that deleted branches are not named
            self._notify_watchers([key, *(sharing if wish.turns else ())], wish.turns)
            await self._finish()
        return _sum_up([deleted], names=names)

    async def _keys(self, key: ConversationKey, wish: ForgetRequest) -> list[ConversationKey]:
        """Return the conversations of an audience, or of a chat, in the order of their creation."""
        every = await self._conversations.of_audience(key.audience)
        return [one for one in every if wish.is_audience or one.home == key.home]

    async def _forget_whole(self, key: ConversationKey, wish: ForgetRequest) -> ForgetReport:
        keys = await self._keys(key, wish)
        async with self._quiet(keys) as conversations:
            files = await self._files(key, wish)
            # The newest first, so that a branch is deleted before the turns that it shares.
            held = [await conversations[one.id].forget() for one in reversed(keys)]
            if wish.is_audience:
                async with conversations[key.id].long_term.hold_while_forgetting_all():
                    await asyncio.to_thread(delete_folder, self._folder(key))
            await self._forget_in_channel(key, None)
            self._notify_watchers(keys)
            await self._finish()
        return _sum_up(held, files)

    def _notify_watchers(self, keys: Sequence[ConversationKey], turns: Sequence[int] = ()) -> None:
        """Notify the watchers of these conversations."""
        for key in filter(self._conversations.branches.is_current, keys):
            self._bus.publish(key.home, TurnsDeleted(tuple(turns)))

    async def _finish(self) -> None:
        await self._conversations.branches.load()  # the chat's current one may be deleted
        await self._conversations.services.store.scrub()

    async def _find_sharing(
        self, key: ConversationKey, wish: ForgetRequest
    ) -> list[ConversationKey]:
        """Return the other branches that share the turns of a request."""
        return [*await self._conversations.branches.find_sharing(key, wish.turns or (1,))]

    async def _names(self, keys: Sequence[ConversationKey]) -> tuple[str, ...]:
        """Return the branches in words."""
        found = await self._conversations.branches.of_chat(keys[0]) if keys else []
        titles = {row.key: row.title for row in found}
        return tuple(
            name_branch(key.number, titles[key.id])
            for key in sorted(keys, key=lambda key: key.number)
            if key.id in titles
        )

    async def retire(self, before: float) -> int:
        """Delete conversations without messages since a time (seconds since 1970), after their
        content has reached the daily memory; return their number."""
        count = 0
        tried: set[ConversationKey] = set()
        while idle := set(await self._conversations.idle_since(before)) - tried:
            tried |= idle  # conversations that shared turns with these may be idle next
            for key in sorted(idle, key=lambda key: key.id):
                count += await self._retire_one(key, before)
        await self._conversations.delete_mail_before(before)
        pruned = await self._conversations.prune_memories(before)
        if count or pruned:
            await self._conversations.services.store.scrub()
        return count

    async def _retire_one(self, key: ConversationKey, before: float) -> bool:
        async with self._turns.exclusive(key):
            if self._turns.is_awaited(key) or not await self._conversations.is_idle(key, before):
                return False
            conversation = await self._conversations.get(key, is_restart=False)
            if is_deleted := await conversation.retire(lambda: self._turns.is_awaited(key)):
                self._notify_watchers([key])
        await self._conversations.branches.load()  # it may have been the chat's current one
        return is_deleted

    @asynccontextmanager
    async def _quiet(
        self, keys: Sequence[ConversationKey]
    ) -> AsyncIterator[Mapping[str, Conversation]]:
        """Keep the turns of these conversations from running; yield the conversations by their
        ids."""
        keys = sorted(keys, key=lambda key: key.id)
        async with AsyncExitStack() as stack:
            for key in keys:
                for stop in (self._turns.stop, *self._stops):
                    stop(key)
                await stack.enter_async_context(self._turns.exclusive(key))
            yield {key.id: await self._conversations.get(key) for key in keys}

    def _folder(self, key: ConversationKey) -> Path:
        return self._conversations.services.audience_folder(key.audience)

    async def _files(self, key: ConversationKey, wish: ForgetRequest) -> int:
        """Return the number of an audience's files that would be deleted."""
        return await asyncio.to_thread(_count, self._folder(key)) if wish.is_audience else 0

    async def _forget_in_channel(self, key: ConversationKey, texts: Sequence[str] | None) -> None:
        """Have a channel forget these texts, or everything (None), including its stored state of
        the chat."""
        name, chat = map(unquote, key.home.split("/")[:2])
        channel = self._channels.get(name)
        if isinstance(channel, WithHistory):
            channel.forget(texts)
        if texts is None:
            write = self._conversations.services.store.write
            await write(lambda db: bot_state.forget_chat(db, name, chat.rpartition("/")[2]))


def _count(folder: Path) -> int:
    """Return the number of a person's files in a folder, without the bot's notes
    (agent/tools/allowance.py)."""
    return sum(path.is_file() and path != folder / OWN for path in folder.rglob("*"))


def _sum_up(
    held: Sequence[StoredCounts], files: int = 0, names: tuple[str, ...] = ()
) -> ForgetReport:
    return ForgetReport(
        turns=tuple(turn for part in held for turn in part.turns),
        messages=sum(part.messages for part in held),
        sections=sum(part.sections for part in held),
        lines=sum(part.lines for part in held),
        files=files,
        is_left=any(part.is_left for part in held),
        branches=names,
        asides=sum(part.asides for part in held),
        made=dict(sum((Counter(part.made) for part in held), Counter())),
        staying=tuple(turn for part in held for turn in part.staying),
    )
