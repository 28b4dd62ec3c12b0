"""Sub-agents: an agent that works on one task alone, sent by a tool of another one's turn.

Its context is its system prompt and its task (flo.monster), so it never grows large; its calls to
the model are on the conversation's bill, and what came of it stands in the activity log in a line.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.models.base import ModelError
from agent.prompt import SUBAGENT
from agent.tools.base import ToolError
from memory.context.emergency import NoRoom
from memory.context.lines import first_words
from memory.context.meter import PromptPrefix
from memory.messages import ToolCall
from memory.subagent_turn import SubagentTurn
from memory.turn_log import OpenTurn

if TYPE_CHECKING:
    from agent.loop import Agent, Output

TOOL = "delegate"
"""The tool by which sub-agents are sent; they do not have it themselves."""


class SubAgents:
    """Those that one tool call sends; `line` says in one line what came of them ("": none),
    `is_untrusted` whether they, or the tool itself, have read what comes from outside."""

    def __init__(self, agent: Agent, turn: OpenTurn, call: ToolCall, output: Output) -> None:
        self._agent, self._turn, self._output = agent, turn, output
        self._call = call.id
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
            reply = await _helper(self._agent).answer(own, _Offstage(self._output))
        except (ModelError, NoRoom) as error:
            raise ToolError(f"The sub-agent could not finish its task: {error}") from error
        finally:
            self.is_untrusted |= any(entry.message.is_untrusted for entry in own.entries)
        self._lines.append(reply.terse or first_words(task, reply.text))
        return reply.text


def _helper(agent: Agent) -> Agent:
    toolbox = agent.toolbox.without(TOOL)
    tools = toolbox.wire if agent.frame.tools else ()
    frame = PromptPrefix(f"{agent.frame.system}\n\n{SUBAGENT}", tools)
    return replace(agent, toolbox=toolbox, frame=frame)


class _Offstage:
    """Shows whoever watches which tools a sub-agent uses, and nothing of what it says."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def delta(self, text: str) -> None:
        del text

    def step_restarted(self) -> None:
        pass

    def tool_started(self, call: ToolCall) -> None:
        self._output.tool_started(call)

    def tool_ended(self, call: ToolCall, is_error: bool) -> None:
        self._output.tool_ended(call, is_error)
