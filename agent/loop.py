"""The agent loop of a turn: fit -> ask -> act, until the model has answered.

A step is one reply of the model, with any number of tool calls. Each result is recorded in the turn
at once, so the loop can be interrupted at any moment (`/stop`, a crash) and resumed: it continues
with whatever is missing in the turn's entries.

A sub-agent is the same loop on a task alone, started by a tool call of another turn. Its context is
its system prompt and its task (flo.monster), so it stays small. Its calls to the model are booked
on the conversation, and its result is one line in the activity log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from io import StringIO
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agent.models.base import (
    ContextOverflow,
    Finish,
    Model,
    ModelAnswerBroken,
    ModelError,
    ModelReply,
    ModelRequest,
    SamplingParams,
    UnexplainedRefusal,
    Usage,
    unseen,
)
from agent.models.catalogue import price_reply
from agent.pictures import Pictures, attach_pictures
from agent.prompt import SUBAGENT
from agent.tools import ToolError
from agent.tools.base import ToolContext, ToolEffects
from agent.tools.toolbox import Toolbox
from memory.audit.judge import audit_line
from memory.audit.source import AuditSource
from memory.context.emergency import RequestTooLong
from memory.context.meter import PromptPrefix
from memory.context.terse import TerseFilter, extract, first_words
from memory.context.view import View
from memory.ledger import Spent
from memory.messages import CUT_OFF, Mark, Message, ToolCall
from memory.record.store import StoreError
from memory.request_fitter import Overflow
from memory.turn_log import OpenTurn
from memory.unrecorded import SubagentTurn

ToolChoice = Literal["auto", "none"]

SHORTFALLS: Mapping[Finish, str] = {
    "length": "The answer ends here because the model reached its length limit; say “go on” for "
    "more.",
    "filtered": "The answer ends here because the provider's content filter stopped it; put the "
    "question in other words.",
    "refused": "The model declined to answer; put the question in other words, or choose another "
    "model with `/model`.",
    "interrupted": "The answer ends here because the provider reported an error; say “go on” for "
    "more, or `/retry`.",
    "unknown": "The answer may be incomplete: the provider ended it for a reason that is not known "
    "here.",
}
CUT_SHORT = "The answer ends here because it is as long as one answer may be; say “go on” for more."
CUT_CALLS = (
    "I stopped because the model's tool calls were cut off by its length limit; ask for less at "
    "once, or raise `brain.max_tokens`."
)
_MOST_CUT_STEPS = 2
"""Consecutive steps with truncated calls, after which the model must finish without tools."""
_COMPARED = 20_000  # characters of a turn that its activity line is compared with
TOO_MANY_CALLS = (
    "The model called too many tools at once, so only the first {most} calls were run; the "
    "limit is `agent_max_calls`."
)
ONLY_ONE_CALL = (
    "The model called too many tools at once, so only the first call was run; the limit is "
    "`agent_max_calls`."
)
NO_TOOLS = (
    "The model wanted to use the tool {name}; a side question and a private conversation run none, "
    "so ask it in the conversation."
)
INTERRUPTED = (
    "{name} was interrupted by a restart; it may have happened: check before trying again."
)
NOT_RUN_AGAIN = (
    "{name} was cut off when the bot's process died, and was not run again; call it again if it is "
    "still needed."
)
"""The result of an interrupted call that may be run twice. It is not rerun, because a call that has
killed the process would kill it at every start."""


class Output:
    """The observer of a running turn, which watches nothing of what it leaves out. Nothing here
    waits; what is shown is provisional."""

    def delta(self, text: str) -> None: ...

    def thought(self, text: str) -> None: ...

    def step_restarted(self) -> None: ...

    def tool_started(self, call: ToolCall) -> None: ...

    def tool_ended(self, call: ToolCall, is_error: bool) -> None: ...


class StepLimits(Struct, frozen=True):
    """The maximum number of steps in a turn, tool calls in a step, and pictures in a request."""

    steps: int
    calls: int
    pictures: int = 0


class Agent(Struct, frozen=True):
    """The agent that answers a turn. Its `limits` are read at every step, so that `/config` applies
    from the next one on. `wishes` are those of a client of OpenAI's protocol, which gets only the
    model's answer, without the bot's notes."""

    model: Model
    prefix: PromptPrefix
    toolbox: Toolbox
    surroundings: ToolContext
    pictures: Pictures
    limits: Callable[[], StepLimits]
    wishes: SamplingParams | None = None

    async def answer(self, turn: OpenTurn, output: Output) -> Message:
        """Work on the turn until it has a reply; return the reply. Raises ModelError."""
        await self.model.ready()
        await self._measure(turn)
        await turn.begin()
        while (reply := turn.reply) is None:
            if calls := turn.unanswered:
                await self._act(turn, calls, output)
                continue
            if turn.host is not None:
                await turn.host.before_step(turn)
            limits = self.limits()
            if not self.toolbox.wire:
                await self._step(turn, output, limits)
            elif _is_cut_again(turn):
                await self._request_final_answer(turn, output, limits, CUT_CALLS)
            elif turn.steps < limits.steps:
                await self._step(turn, output, limits)
            else:
                await self._request_final_answer(
                    turn, output, limits, _out_of_steps(turn, limits.steps)
                )
        return reply

    async def answer_without_tools(self, turn: OpenTurn, output: Output) -> Message:
        """Ask once. The tools are sent, because the request begins with them, but none is run.
        Raises ModelError."""
        await self.model.ready()
        await self._measure(turn)
        view, reply = await self._ask_model(turn, "none", output, self.limits())
        note = _describe_shortfall(reply, len(reply.tool_calls))
        if reply.tool_calls:
            note = NO_TOOLS.format(name=reply.tool_calls[0].name)
        await self._record(turn, view, replace(reply, tool_calls=()), note)
        return turn.entries[-1].message

    async def _step(self, turn: OpenTurn, output: Output, limits: StepLimits) -> None:
        view, reply = await self._ask_model(turn, "auto", output, limits)
        note = _describe_shortfall(reply, limits.calls)
        if len(reply.tool_calls) > limits.calls:
            reply = replace(reply, tool_calls=reply.tool_calls[: limits.calls])
        await self._record(turn, view, reply, note)

    async def _request_final_answer(
        self, turn: OpenTurn, output: Output, limits: StepLimits, note: str
    ) -> None:
        """Make one last request without tool calls; `note` says why."""
        try:
            view, reply = await self._ask_model(turn, "none", output, limits)
        except ModelAnswerBroken:
            if self.wishes is not None:
                raise
            await turn.record(Message("assistant", mark="steps", notice=note))
            return
        await self._record(turn, view, replace(reply, tool_calls=()), note, "steps")

    async def _ask_model(
        self, turn: OpenTurn, tool_choice: ToolChoice, output: Output, limits: StepLimits
    ) -> tuple[View, ModelReply]:
        """Ask with the fitted context. On an overflow, make room and ask again, for each step of
        the emergency ladder. An unexplained refusal of the longest request so far may be an
        overflow as well: it is worth one retry with less."""
        if self.model.is_up:
            await turn.restore_removed()
        while True:
            view = await turn.fit(self.prefix)
            try:
                return view, await self._ask_once(turn, view, tool_choice, output, limits)
            except (ContextOverflow, UnexplainedRefusal) as error:
                output.step_restarted()
                if not await turn.shrink_request(view, self.prefix, _to_overflow(error)):
                    raise

    async def _measure(self, turn: OpenTurn) -> None:
        """Have the model count the request, if its tokenizer is unknown and a wrong guess would cut
        too much or too little. It is done once; afterwards the model's own reports are used."""
        if (
            not self.model.counts
            or (view := turn.view_to_measure(self.prefix, self.model.name)) is None
        ):
            return
        request = ModelRequest(view.to_wire(self.prefix), self.prefix.tools, beside=view.beside)
        await turn.measure(view, await self.model.count(request), self.model.name)

    async def _ask_once(
        self,
        turn: OpenTurn,
        view: View,
        tool_choice: ToolChoice,
        output: Output,
        limits: StepLimits,
    ) -> ModelReply:
        """Ask the model; retry once after a broken or empty answer. Lost answers are booked, also
        if the turn is stopped."""
        tools = self.prefix.tools
        named, sees = view.to_wire(self.prefix), self.model.sees
        pictures = await self.pictures.parts(named, sees, limits.pictures)
        messages = attach_pictures(named, pictures, sees)
        lost: list[ModelReply] = []
        talk = self.surroundings.conversation
        request = ModelRequest(
            messages,
            tools,
            tool_choice if tools else "auto",
            beside=view.beside,
            affinity=talk.context.affinity if talk else "",
            is_told=self.wishes is None,
            on_lost=lost.append,
            on_sent=partial(turn.note_sent, view, self.prefix, pictures)
            if turn.keeps_requests
            else unseen,
            on_thought=output.thought,
        )
        if self.wishes is not None:
            request = self.wishes.of(request)
        try:
            return await self._stream_reply(request, output)
        except ModelAnswerBroken:
            output.step_restarted()
            return await self._stream_reply(request, output)
        finally:
            with suppress(StoreError):  # it would hide the original error
                for reply in lost:
                    await turn.book(await self._to_spent(turn, view, reply))

    async def _stream_reply(self, request: ModelRequest, output: Output) -> ModelReply:
        """Stream the reply without its line for the activity log. The model may write such a line
        unasked for a while after a change of strategy."""
        parser, shown = TerseFilter(), StringIO()

        def show(piece: str) -> None:
            shown.write(piece)
            output.delta(parser.feed(piece))

        reply = await self.model.reply(request, show)
        if rest := parser.finish():
            output.delta(rest)
        if shown.getvalue().strip() != reply.text.strip():
            output.step_restarted()  # thoughts or calls in the text, recognised only at their end
            output.delta(extract(reply.text)[0])
        return reply

    async def _record(
        self, turn: OpenTurn, view: View, reply: ModelReply, note: str = "", mark: Mark = ""
    ) -> None:
        """Record the reply in the turn, with a note of the bot below it."""
        turn.finish = reply.finish
        turn.notices += reply.notices
        note = note if self.wishes is None else ""
        text, line = extract(reply.text)
        line = line if line and _is_line_of(turn, text, line) else ""
        calls = reply.tool_calls
        if calls:
            calls = _with_own_ids(self.toolbox.unwrap(_mark_cut(reply)), turn)
        message = Message(
            "assistant",
            text.strip() if note else text,
            calls,
            reasoning=reply.reasoning,
            thoughts=reply.thoughts if calls else "",
            mark=mark,
            terse=line,
            notice=note,
        )
        spent = await self._to_spent(turn, view, reply)
        await turn.record(message, spent=spent)

    async def _to_spent(self, turn: OpenTurn, view: View, reply: ModelReply) -> Spent:
        """Return the ledger's row for this reply. The provider's count corrects the meter; without
        one, the meter's own figures are used."""
        usage = reply.usage or Usage(0, 0)
        if usage.prompt and reply.by is None:
            await turn.calibrate(view, usage.prompt, self.model.name, usage.cached)
        if not reply.is_counted:
            usage = usage.filled(Usage(view.tokens, await turn.count_tokens(reply.written)))
        return price_reply("answer", self.model, reply, usage)

    async def _act(self, turn: OpenTurn, calls: list[ToolCall], output: Output) -> None:
        """Run the calls, in parallel if the tools allow it. Each result is recorded at once; the
        notes of listeners for the model are recorded after all of them."""
        asked = {call.id for call in calls}
        made = [e.message for e in turn.entries if asked & {c.id for c in e.message.tool_calls}]
        notes = [message.notice for message in made if message.notice]  # some calls were left out
        for batch in self.toolbox.batches(calls):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._run(turn, call, output)) for call in batch]
            notes += [note for task in tasks for note in task.result()]
        await turn.note(notes)

    async def _run(self, turn: OpenTurn, call: ToolCall, output: Output) -> tuple[str, ...]:
        """Run a call and record its result; return the notes of listeners for the model."""
        output.tool_started(call)
        before = await turn.notify("tool_start", call=call)
        helpers = SubAgents(partial(self._send_out, output), turn, call)
        text, is_error = await self._result(turn, call, before.veto, helpers)
        result = Message("tool", text, call_id=call.id, tool=call.name, is_error=is_error)
        is_untrusted = self.toolbox.is_untrusted(call) or helpers.is_untrusted
        files = tuple(dict.fromkeys(helpers.pictures or ()))
        result = replace(result, terse=helpers.line, is_untrusted=is_untrusted, files=files)
        await turn.record(result)
        output.tool_ended(call, is_error)
        after = await turn.notify("tool_end", text, call, is_error=is_error)
        return before.inject + after.inject

    async def _result(
        self, turn: OpenTurn, call: ToolCall, veto: str, helpers: SubAgents
    ) -> tuple[str, bool]:
        """Return the result of a call, and whether it is an error."""
        if veto:
            return f"{call.name} was not run: {veto}", True
        if (known := turn.find_known_result(call)) is not None:
            helpers.is_untrusted |= known.is_untrusted
            return known.text, known.is_error
        if (is_once := turn.begun.get(call.id)) is not None:
            return (INTERRUPTED if is_once else NOT_RUN_AGAIN).format(name=call.name), True
        surroundings = self._surroundings(turn, helpers)
        return await self.toolbox.run(
            call, surroundings, lambda is_once: turn.begin_call(call, is_once=is_once)
        )

    async def _send_out(self, output: Output, turn: SubagentTurn) -> Message:
        """Have a sub-agent answer its turn, with the same tools except the one that starts it."""
        toolbox = self.toolbox.without(DELEGATE)
        tools = toolbox.wire if self.prefix.tools else ()
        prefix = PromptPrefix(f"{self.prefix.system}\n\n{SUBAGENT}", tools)
        return await replace(self, toolbox=toolbox, prefix=prefix).answer(
            turn, _SubAgentOutput(output)
        )

    def _surroundings(self, turn: OpenTurn, helpers: SubAgents) -> ToolContext:
        return replace(
            self.surroundings,
            delegate=None if turn.is_alone else helpers.work,
            effects=helpers,
        )


def _out_of_steps(turn: OpenTurn, most: int) -> str:
    if turn.steps == 1:
        return f"I stopped after one step; the limit, `agent_max_steps`, is {most}."
    return f"I stopped after {turn.steps} steps; the limit, `agent_max_steps`, is {most}."


def _describe_shortfall(reply: ModelReply, most_calls: int) -> str:
    """Return a sentence on what a reply lacks; "" if it is complete."""
    if len(reply.tool_calls) > most_calls:
        return TOO_MANY_CALLS.format(most=most_calls) if most_calls > 1 else ONLY_ONE_CALL
    if reply.tool_calls or not reply.text:
        return ""
    return CUT_SHORT if reply.is_bounded else SHORTFALLS.get(reply.finish, "")


def _mark_cut(reply: ModelReply) -> tuple[ToolCall, ...]:
    """Return the calls of a reply. If it did not end by itself, the last call is marked as
    truncated, since its missing part is unknown. The calls of an answer that is `is_bounded` are
    complete."""
    if not reply.tool_calls or reply.finish == "tools" or reply.is_bounded:
        return reply.tool_calls
    *whole, last = reply.tool_calls
    return (*whole, replace(last, arguments=f"{last.arguments}{CUT_OFF}"))


def _to_overflow(error: ModelError) -> Overflow:
    is_sure = isinstance(error, ContextOverflow)
    return Overflow(error.window, is_own=not error.is_of_fallback, is_sure=is_sure)


def _is_cut_again(turn: OpenTurn) -> bool:
    """Return whether the last steps of a turn each ended with a truncated call; only the last call
    of a step can be truncated."""
    steps = [e.message.tool_calls for e in turn.entries if e.message.role == "assistant"]
    latest = steps[-_MOST_CUT_STEPS:]
    return len(latest) == _MOST_CUT_STEPS and all(calls and calls[-1].is_cut for calls in latest)


class _SubAgentOutput(Output):
    """An output that shows the tools that a sub-agent uses, but none of its text."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def tool_started(self, call: ToolCall) -> None:
        self._output.tool_started(call)

    def tool_ended(self, call: ToolCall, is_error: bool) -> None:
        self._output.tool_ended(call, is_error)


def _is_line_of(turn: OpenTurn, reply: str, line: str) -> bool:
    """Return whether the model's line about its reply is fit for the activity log; otherwise the
    first words of question and reply are used."""
    texts = [reply, *(entry.message.text for entry in turn.entries)]
    texts += [call.arguments for entry in turn.entries for call in entry.message.tool_calls]
    return audit_line(line, AuditSource(["\n".join(texts)[:_COMPARED]])).accepts()


def _with_own_ids(calls: tuple[ToolCall, ...], turn: OpenTurn) -> tuple[ToolCall, ...]:
    """Return the calls with ids that are unique in this turn; some models repeat ids."""
    taken = {call.id for entry in turn.entries for call in entry.message.tool_calls}
    own: list[ToolCall] = []
    for call in calls:
        if not call.id or call.id in taken:
            call = replace(call, id=f"call_{turn.id}_{len(taken) + 1}")
        taken.add(call.id)
        own.append(call)
    return tuple(own)


Answer = Callable[[SubagentTurn], Awaitable[Message]]
"""Has an agent work on a sub-agent's turn until it has a reply."""
DELEGATE = "delegate"
"""The tool that starts sub-agents; they do not have it themselves."""


class SubAgents(ToolEffects):
    """The sub-agents of one tool call. `answer` has one work on its turn. `line` is their result in
    one line ("": none); `is_untrusted` says whether they, or the tool itself, have read untrusted
    content."""

    def __init__(self, answer: Answer, turn: OpenTurn, call: ToolCall) -> None:
        super().__init__(None if turn.is_alone else [])
        self._answer, self._turn, self._call = answer, turn, call.id
        self._lines: list[str] = []

    @property
    def has_outside(self) -> bool:
        return self._turn.has_outside

    @property
    def line(self) -> str:
        return "; ".join(self._lines)

    async def work(self, task: str) -> str:
        """Have a sub-agent work on the task, within the same limits; return its result. Raises
        ToolError. It is cancelled with its caller."""
        own = await SubagentTurn.open_for_call(self._turn, task, self._call)
        try:
            reply = await self._answer(own)
        except (ModelError, RequestTooLong) as error:
            raise ToolError(f"The sub-agent could not finish its task: {error}") from error
        finally:
            self.is_untrusted |= any(entry.message.is_untrusted for entry in own.entries)
        self._lines.append(reply.terse or first_words(task, reply.text))
        return reply.full_text
