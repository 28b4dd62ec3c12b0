"""What turns and commands must know of those that are runs of jobs (`bot/jobs/`)."""

from __future__ import annotations

from typing import Protocol

from agent.loop import Agent
from bot.received import Received
from channels.message import Reply
from memory.conversation import Conversation
from memory.messages import Mark


class JobRuns(Protocol):
    """How a run begins, what it is answered with, and that it ends."""

    async def refusal(self, received: Received) -> str:
        """Return why a run that waited does not begin; "": it does."""
        ...

    async def prepare(self, received: Received, conversation: Conversation, agent: Agent) -> Agent:
        """What a run is answered with: within its budget, and with nobody there to be asked."""
        ...

    async def answer(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> None:
        """The run is over: keep that, with its reply, which goes out. `mark` says why it ended,
        where the model did not end it."""
        ...


class NoRuns:
    """There are no jobs."""

    async def refusal(self, received: Received) -> str:
        return "There are no jobs here."

    async def prepare(self, received: Received, conversation: Conversation, agent: Agent) -> Agent:
        raise RuntimeError(f"{received.id} is the run of a job, and there are none")

    async def answer(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> None:
        raise RuntimeError(f"{received.id} is the run of a job, and there are none")
