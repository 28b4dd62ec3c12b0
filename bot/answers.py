"""What a person is told when a turn is over: the model's last word, and what stands beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from bot.access import Access
from bot.received import Received
from bot.speaking import Speaking
from bot.spending import Spending
from bot.turn_tasks import StoppableTasks
from channels.language import _, explain
from channels.message import Problem, Reply
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import Message
from memory.turn_log import OpenTurn
from plugins.wording import name_branch

MOST_PICTURES = 6
"""Of those that tools have made in a turn, so many are shown with its answer."""


class Answers:
    """Composes answers. `list_made` says what a turn has made for a later time, `tell_saving` that
    a cheaper model answers now; `speaking` reads answers aloud."""

    def __init__(
        self,
        conversations: Conversations,
        spending: Spending,
        access: Access,
        tasks: StoppableTasks,
    ) -> None:
        self._conversations, self._spending, self._access = conversations, spending, access
        self._tasks = tasks
        self.speaking: Speaking | None = None
        self.list_made: Callable[[OpenTurn], list[str]] = lambda turn: []
        self.tell_saving: Callable[[Conversation], Awaitable[list[str]]] = _not_saving

    async def compose(
        self,
        conversation: Conversation,
        turn: OpenTurn,
        received: Received,
        besides: tuple[str, ...],
        problem: Problem,
    ) -> Reply:
        """The answer of a turn that is over; `besides` is said below it, before all else."""
        key, reply = conversation.key, turn.reply
        assert reply is not None, "a turn that is over has a reply"
        told = (
            *besides,
            *map(explain, await turn.list_notices()),
            *self.list_made(turn),
            *await self._warnings(conversation, received),
            await self._name_branch(conversation),
        )
        said = "\n\n".join((_in_words(reply), *filter(None, told)))
        sound = "" if reply.mark else await self._speak(key, turn, reply, received)
        return Reply(said, images=self._pictures(key, turn), problem=problem, sound=sound)

    def _pictures(self, key: ConversationKey, turn: OpenTurn) -> tuple[str, ...]:
        """The pictures that tools have made in a turn, the last of them."""
        made = [f for e in turn.entries if e.message.role == "tool" for f in e.message.files]
        if not made:
            return ()
        folder = self._conversations.services.audience_folder(key.audience)
        once = [*dict.fromkeys(made)][-MOST_PICTURES:]
        return tuple(str((folder / file).absolute()) for file in once)

    async def _speak(
        self, key: ConversationKey, turn: OpenTurn, reply: Message, received: Received
    ) -> str:
        """The file in which an answer is read aloud, or ""; `/stop` ends the reading."""
        was_spoken_to = any(file.heard for file in received.files)
        channel = received.address.channel
        if self.speaking is None or not self.speaking.is_wanted(
            key, channel, was_spoken_to=was_spoken_to
        ):
            return ""
        task = asyncio.create_task(self.speaking.speak(key, turn.number, reply.text, channel))
        with self._tasks.running(key, task):
            await asyncio.wait({task})
        return "" if task.cancelled() else task.result()

    async def _name_branch(self, conversation: Conversation) -> str:
        """Which branch an answer belongs to, where the chat leads elsewhere by now."""
        key = conversation.key
        if self._conversations.branches.is_current(key):
            return ""
        title = await conversation.title()
        called = name_branch(key.number, title)
        return _(
            "(This answer belongs to {called}; /branches {number} goes back there.)",
            called=called,
            number=key.number,
        )

    async def _warnings(self, conversation: Conversation, received: Received) -> list[str]:
        user = self._access.find_limited_user(received.address)
        saving = await self.tell_saving(conversation)
        return [*saving, *await self._spending.warnings(conversation.key, user)]


def _in_words(reply: Message) -> str:
    """The reply as the person is told it, in their language but for what the model said."""
    return replace(reply, notice=explain(reply.notice)).told


async def _not_saving(conversation: Conversation) -> list[str]:
    """Nothing is to be said."""
    return []
