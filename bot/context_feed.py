"""Shows whoever watches a chat how full its context is."""

from __future__ import annotations

from msgspec import Struct

from bot.activity import EventBus
from channels.base import BranchChanged, ContextChanged
from memory.conversation import Conversation
from memory.conversations import LoadedConversations
from memory.keys import ConversationKey
from plugins.context_usage import usage_of


class ContextFeed(Struct, frozen=True):
    """The numbers of the conversations in memory, for whoever watches their chats."""

    bus: EventBus
    loaded: LoadedConversations

    def show(self, key: ConversationKey) -> None:
        """Show the context of a conversation where its chat leads to it and is watched."""
        if not self.bus.is_watched(key.home):
            return
        conversation = self.loaded.find(key)
        if conversation is None:
            return
        if self.loaded.branches.is_current(key):
            self.bus.publish(key.home, ContextChanged(usage_of(conversation.context)))

    def show_all(self) -> None:
        """Show the contexts of all conversations in memory."""
        for conversation in list(self.loaded.alive.values()):
            self.show(conversation.key)

    def show_branch(self, conversation: Conversation) -> None:
        """Show that a chat leads to this conversation now."""
        key = conversation.key
        self.bus.publish(key.home, BranchChanged(key.number))
        if self.bus.is_watched(key.home):
            self.bus.publish(key.home, ContextChanged(usage_of(conversation.context)))
