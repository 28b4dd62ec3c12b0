"""Messages that a feature put into the inbox by itself, such as the prompt of a job."""

from __future__ import annotations

from collections.abc import Sequence

from agent.loop import Agent
from bot.received import Received
from channels.language import _
from channels.message import Reply
from memory.conversation import Conversation
from memory.messages import Mark


class RunHandler:
    """The feature that owns runs (`Received.run`), which turns and commands execute; this base
    class has none."""

    async def refusal(self, received: Received) -> str:
        """Return why a waiting run does not start; "" if it does."""
        return _("The part of the bot that set this up is not installed any more.")

    async def prepare(self, received: Received, conversation: Conversation, agent: Agent) -> Agent:
        """Return the agent that answers a run, with its own limits and permissions."""
        raise RuntimeError(f"{received.id} is a run, and no feature has runs")

    async def answer(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> bool:
        """Store the end of a run together with its outgoing reply; return False if the reply is an
        ordinary one. `mark` says why it ended, unless the model ended it."""
        return False


def find_handler(handlers: Sequence[RunHandler]) -> RunHandler:
    """Return the handler of the feature that has runs: at most one, which is opened late."""
    return next(iter(handlers), RunHandler())
