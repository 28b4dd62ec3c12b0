"""Conversations as lists show them, with title, position, and the place of searched words; and the
branches of a chat (`/fork`, `/branches`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from urllib.parse import unquote

from bot.activity import ContextFeed
from bot.attachments import without_files
from bot.received import Links, escape
from bot.settings import SettingsStore
from bot.settings.book import OF_USERS
from bot.turns import Turns
from channels.base import Session, Snippet
from channels.language import explain
from memory.conversations import Conversations
from memory.keys import ConversationKey, home_of
from memory.plain_text import without_bold, words_of
from memory.record.branches import BranchRow
from memory.record.closeness import MatchScore, fold, measure
from memory.record.conversations import ListedConversation, MatchedMessage
from plugins.api import BranchInfo, refusal
from plugins.wording import clip

LONGEST_TITLE = 60
"""The maximum number of characters of a title made from the first words."""
_AT_START = re.compile(r"^(#{1,6}|[-*>]) (?=[^\W\d]|\*)")
_FENCE = re.compile(r"\s*(```|~~~)\s*[\w+#.-]*\s*$")  # begins or ends code, and says nothing of it
_AROUND = 60  # characters shown before and after a match


class Listing:
    """The lists of channels' chats. A linked chat is listed as the conversation that it is linked
    to."""

    def __init__(self, conversations: Conversations, links: Links) -> None:
        self._conversations, self._links = conversations, links

    async def of_channel(self, channel: str, words: str = "") -> list[Session]:
        """Return all chats of a channel, the newest first, without its threads."""
        return await self._of(f"{escape(channel)}/", channel, words)

    async def of_people(self, names: Iterable[str], words: str = "") -> list[Session]:
        """Return the private chats of these people ("telegram/42")."""
        found = []
        for channel, __, user in (name.partition("/") for name in names):
            own = f"{escape(channel)}/{escape(user)}"
            found += [
                session
                for session in await self._of(own, channel, words)
                if session.chat == user or session.chat.startswith(f"{user}/")
            ]
        return found

    async def _of(self, prefix: str, channel: str, words: str) -> list[Session]:
        chats: dict[str, list[ListedConversation]] = {}
        for one in await self._conversations.list_matching(prefix, words):  # the newest first
            chats.setdefault(home_of(one.key), []).append(one)
        for home, target in self._links.list_from(prefix):
            found = await self._conversations.list_matching(target, words)
            chats[home] = [one for one in found if home_of(one.key) == target]
        start = f"{escape(channel)}/"
        sessions = [
            self._session(unquote(chat), channel, listed, words)
            for home, listed in chats.items()
            if listed and "/" not in (chat := home.removeprefix(start))
        ]
        return sorted(sessions, key=place_in_list, reverse=True)

    def _session(
        self, chat: str, channel: str, listed: Sequence[ListedConversation], words: str
    ) -> Session:
        """Return the list entry of a chat with these conversations, its branches. The title comes
        from its first conversation, so that asking a question again in a branch does not rename
        it."""
        home = home_of(listed[0].key)
        lead = self._conversations.branches.current_id(home)
        by_key = {one.key: one for one in listed}
        called = [by_key[key] for key in (home, lead) if key in by_key] or listed
        names = (clip(one.title) or title_of(one.beginning) for one in called)
        snippet = None
        if hit := max((one for one in listed if one.matched), key=_near, default=None):
            assert hit.matched is not None
            snippet = find(hit.matched, words, is_here=hit.key == lead)
        return Session(
            chat,
            next(filter(None, names), ""),
            datetime.fromtimestamp(listed[0].at, UTC),
            channel,
            next((one.standing for one in listed if one.standing), ""),
            snippet,
            max(one.near for one in listed),
        )


def place_in_list(session: Session) -> tuple[tuple[int, ...], datetime]:
    """Return the sort key of a chat: the closest match first, then the newest."""
    return session.near, session.at


def _near(one: ListedConversation) -> MatchScore:
    return one.near


def title_of(beginning: str) -> str:
    """Return a conversation's title from its first words. Markup is removed where it makes a
    heading, an item, a quotation or bold words; other signs stay."""
    lines = [line for line in without_files(beginning).split("\n") if line.strip()]
    line = next((line for line in lines if not _FENCE.match(line)), lines[0] if lines else "")
    words = without_bold(_AT_START.sub("", " ".join(line.split())))
    if len(words) <= LONGEST_TITLE:
        return words
    whole, _, _ = words[:LONGEST_TITLE].rpartition(" ")
    return f"{whole or words[: LONGEST_TITLE - 1]}…"


def find(matched: MatchedMessage, words: str, is_here: bool) -> Snippet:
    """Return an excerpt of a message around the best match. `is_here`: the message is in the chat's
    current conversation."""
    text = words_of(without_files(matched.text))
    place = measure(text.casefold(), fold(words))[1]
    place = min(place, len(text))
    start = max(0, place - _AROUND)
    end = min(len(text), start + 2 * _AROUND)
    if start:  # whole words, unless one is longer than the excerpt
        start = max(start, text.find(" ", start - 1, place) + 1)
    if end < len(text):
        cut = text.rfind(" ", place, end + 1)
        end = cut if cut > place else end
    shown = f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"
    return Snippet(f"t{matched.turn}" if is_here else "", shown)


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
            title_of(row.answer),
        )

    async def fork(
        self, key: ConversationKey, turn: int | None, title: str, *, is_as_now: bool = False
    ) -> BranchInfo:
        try:
            branch = await self._conversations.fork(key, turn, title, SCOPES, is_as_now=is_as_now)
        except ValueError as error:
            raise refusal("No branch was made: {error}.", error=explain(str(error))) from None
        self._book.copy(key.id, branch.id)
        await self._show(branch)
        return next(one for one in await self.all(branch) if one.number == branch.number)

    async def switch(self, key: ConversationKey, number: int) -> None:
        there = key.branch(number)
        await self._conversations.branches.switch(there)
        await self._show(there)

    async def _show(self, key: ConversationKey) -> None:
        self._feed.show_branch(await self._conversations.get(key))
