"""Sub-agents: an agent that works on one task alone, sent by a tool of another one's turn.

Its context is its system prompt and its task (flo.monster), so it never grows large; its calls to
the model are on the conversation's bill, and what came of it stands in the activity log in a line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent.models.base import ModelError
from agent.tools.errors import ToolError
from memory.context.emergency import NoRoom
from memory.context.lines import first_words
from memory.messages import Message, ToolCall
from memory.subagent_turn import SubagentTurn
from memory.turn_log import OpenTurn

Answer = Callable[[SubagentTurn], Awaitable[Message]]
"""Has an agent work on a sub-agent's turn until its reply stands."""
TOOL = "delegate"
"""The tool by which sub-agents are sent; they do not have it themselves."""


class SubAgents:
    """Those that one tool call sends. `answer` has one work on its turn; `line` says in one line
    what came of them ("": none), `is_untrusted` whether they, or the tool itself, have read what
    comes from outside."""

    def __init__(self, answer: Answer, turn: OpenTurn, call: ToolCall) -> None:
        self._answer, self._turn, self._call = answer, turn, call.id
        self._lines: list[str] = []
        self.is_untrusted = False

    @property
    def line(self) -> str:
        return "; ".join(self._lines)

    def mark(self) -> None:
        """The result holds what comes from outside."""
        self.is_untrusted = True

    async def work(self, task: str) -> str:
        """Have a sub-agent work on the task, within the same limits; returns its result. Raises
        ToolError. It is cancelled with its caller."""
        own = await SubagentTurn.sent_by(self._turn, task, self._call)
        try:
            reply = await self._answer(own)
        except (ModelError, NoRoom) as error:
            raise ToolError(f"The sub-agent could not finish its task: {error}") from error
        finally:
            self.is_untrusted |= any(entry.message.is_untrusted for entry in own.entries)
        self._lines.append(reply.terse or first_words(task, reply.text))
        return reply.told
