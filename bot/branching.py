"""`/fork` and `/branches`: the conversations of a chat, and its current one."""

from __future__ import annotations

from datetime import UTC, datetime

from bot.activity import ContextFeed
from bot.settings import SettingsStore
from bot.settings.book import OF_USERS
from bot.turns import Turns
from channels.language import _, explain
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.record.branches import BranchRow
from plugins.api import BranchInfo, CommandError

SCOPES = ("", OF_USERS)
"""The prefixes of a conversation's id in the scopes of its settings."""


class Branching:
    """The branches of chats; `feed` publishes the new current conversation of a chat."""

    def __init__(
        self,
        conversations: Conversations,
        turns: Turns,
        book: SettingsStore,
        feed: ContextFeed,
    ) -> None:
        self._conversations, self._turns = conversations, turns
        self._book, self._feed = book, feed

    async def all(self, key: ConversationKey) -> list[BranchInfo]:
        return [self._info(key, row) for row in await self._conversations.branches.of_chat(key)]

    def _info(self, key: ConversationKey, row: BranchRow) -> BranchInfo:
        own = ConversationKey(row.key, key.audience)
        return BranchInfo(
            own.number,
            row.title,
            ConversationKey(row.parent, "").number if row.parent else 0,
            row.turn,
            row.newest,
            datetime.fromtimestamp(row.at, UTC),
            self._conversations.branches.is_current(own),
            self._turns.is_running(own),
        )

    async def fork(
        self, key: ConversationKey, turn: int | None, title: str, *, is_as_now: bool = False
    ) -> BranchInfo:
        try:
            branch = await self._conversations.fork(key, turn, title, SCOPES, is_as_now=is_as_now)
        except ValueError as error:
            raise CommandError(
                _("No branch was made: {error}.", error=explain(str(error)))
            ) from None
        self._book.copy(key.id, branch.id)
        await self._show(branch)
        return next(one for one in await self.all(branch) if one.number == branch.number)

    async def switch(self, key: ConversationKey, number: int) -> None:
        there = key.branch(number)
        await self._conversations.branches.switch(there)
        await self._show(there)

    async def _show(self, key: ConversationKey) -> None:
        self._feed.show_branch(await self._conversations.get(key))
