"""Messages that a feature put into the inbox by itself, such as the prompt of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from agent.loop import Agent
from bot.received import Received
from channels.language import _
from channels.message import Reply
from memory.conversation import Conversation
from memory.messages import Mark


class RunHandler(Protocol):
    """The feature whose runs (`Received.run`) turns and commands carry out."""

    async def refusal(self, received: Received) -> str:
        """Return why a run that waited does not begin; "": it does."""
        ...

    async def prepare(self, received: Received, conversation: Conversation, agent: Agent) -> Agent:
        """Return the agent that answers a run, with its own limits and permissions."""
        ...

    async def answer(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> None:
        """Keep the end of a run together with its reply, which goes out. `mark` says why it ended,
        where the model did not end it."""
        ...


class Runs(Struct, frozen=True):
    """All runs. `handlers` are those of the features that are loaded: one at most has runs."""

    handlers: Sequence[RunHandler]

    async def refusal(self, received: Received) -> str:
        """Return why a run that waited does not begin; "": it does."""
        for handler in self.handlers:
            return await handler.refusal(received)
        return _("The part of the bot that set this up is not installed any more.")

    async def prepare(self, received: Received, conversation: Conversation, agent: Agent) -> Agent:
        """Return the agent that answers a run. Raises RuntimeError where no feature has runs."""
        for handler in self.handlers:
            return await handler.prepare(received, conversation, agent)
        raise RuntimeError(f"{received.id} is a run, and no feature has runs")

    async def answer(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> bool:
        """Keep the end of a run with its reply; False where no feature has runs, so that the reply
        is an ordinary one."""
        for handler in self.handlers:
            await handler.answer(received, reply, turn, mark)
            return True
        return False
