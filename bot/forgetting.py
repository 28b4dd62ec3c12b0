"""`/forget` and retention: deleting, while no turn runs in what is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from agent.tools.provenance import OWN
from bot.turns import Turns
from channels.base import Channel, Remembering
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.record.forget import StoredCounts, delete_folder
from plugins.api import ForgetReport, ForgetRequest


class Forgetting:
    """Deletes what conversations keep, and what channels keep of them."""

    def __init__(
        self,
        conversations: Conversations,
        turns: Turns,
        channels: Mapping[str, Channel | Remembering],
    ) -> None:
        self._conversations, self._turns, self._channels = conversations, turns, channels

    async def weigh(self, key: ConversationKey, wish: ForgetRequest) -> ForgetReport:
        """What would be deleted."""
        conversations = [await self._conversations.get(k) for k in await self._keys(key, wish)]
        held = [
            await conversation.count_stored(wish.turns or None) for conversation in conversations
        ]
        return _sum_up(held, await self._files(key, wish))

    async def forget(self, key: ConversationKey, wish: ForgetRequest) -> ForgetReport:
        """Stop the running turn, and delete it all; returns what was there. Raises StoreError."""
        keys = await self._keys(key, wish)
        async with self._quiet(keys) as conversations:
            files = await self._files(key, wish)
            held = [await conversation.forget(wish.turns or None) for conversation in conversations]
            if wish.is_audience:
                async with conversations[0].long_term.forgetting_all():
                    await asyncio.to_thread(delete_folder, self._folder(key))
            for mine, gone in zip(keys, held, strict=True):
                self._tell_channel(mine, gone.questions if wish.turns else None)
            await self._conversations.services.store.scrub()
        return _sum_up(held, files)

    async def retire(self, before: float) -> int:
        """Delete conversations in which nothing was said since a time (seconds since 1970), after
        their content has reached the daily memory; returns how many."""
        count = 0
        for key in await self._conversations.idle_since(before):
            async with self._turns.exclusive(key):
                if key in await self._conversations.idle_since(before):
                    conversation = await self._conversations.get(key, is_restart=False)
                    count += await conversation.retire()
        await self._conversations.delete_mail_before(before)
        pruned = await self._conversations.prune_memories(before)
        if count or pruned:
            await self._conversations.services.store.scrub()
        return count

    async def _keys(self, key: ConversationKey, wish: ForgetRequest) -> list[ConversationKey]:
        """The conversations that a wish speaks of, in a stable order."""
        return await self._conversations.of_audience(key.audience) if wish.is_audience else [key]

    @asynccontextmanager
    async def _quiet(self, keys: Sequence[ConversationKey]) -> AsyncIterator[list[Conversation]]:
        """The conversations, while no turn runs in any of them."""
        async with AsyncExitStack() as stack:
            for key in keys:
                self._turns.stop(key)
                await stack.enter_async_context(self._turns.exclusive(key))
            yield [await self._conversations.get(key) for key in keys]

    def _folder(self, key: ConversationKey) -> Path:
        return self._conversations.services.audience_folder(key.audience)

    async def _files(self, key: ConversationKey, wish: ForgetRequest) -> int:
        """How many files go with an audience."""
        return await asyncio.to_thread(_count, self._folder(key)) if wish.is_audience else 0

    def _tell_channel(self, key: ConversationKey, said: Sequence[str] | None) -> None:
        channel = self._channels.get(key.id.partition("/")[0])
        if isinstance(channel, Remembering):
            channel.forget(said)


def _count(folder: Path) -> int:
    """What the house notes beside them (agent/tools/provenance.py) is none of a person's files."""
    return sum(path.is_file() and path != folder / OWN for path in folder.rglob("*"))


def _sum_up(held: Sequence[StoredCounts], files: int) -> ForgetReport:
    return ForgetReport(
        turns=tuple(turn for part in held for turn in part.turns),
        messages=sum(part.messages for part in held),
        sections=sum(part.sections for part in held),
        lines=sum(part.lines for part in held),
        files=files,
        is_left=any(part.is_left for part in held),
    )
