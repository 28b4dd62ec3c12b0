"""The answers of the scripted models of `benchmarks.providers`: random moves by seed, and their
encoding in each protocol.

A call has a number between hashes in its arguments, in the thought before it and, since the tools
repeat their arguments, in its result. This exposes anything that is combined wrongly.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from benchmarks.provider_rules import sign

Json = dict[str, Any]
Thoughts = Literal["", "text", "tags", "parts", "details", "signatures", "blocks", "sealed"]
"""The form of a provider's thoughts: none, in `reasoning_content`, in `<think>`, in parts of the
content (Mistral), in signed details (OpenRouter), as a signature with the calls (Gemini), in blocks
(Anthropic), or in encrypted items (Responses)."""

End = Literal["", "error", "break", "silence", "json"]
ENDS: tuple[End, ...] = ("error", "break", "silence", "json")
ANSWER = "Answer"
"""The first word of each whole answer."""
FINISHES = (
    *("stop", "stop", "length", "content_filter", "refusal", "error", "network_error", "sensitive"),
    *("insufficient_system_resource", "abort", "model_length", "max_tokens", "LENGTH", "eos", ""),
    *("tool_calls", "of_tomorrow"),
)
CLAUDE_FINISHES = ("end_turn", "end_turn", "max_tokens", "refusal", "pause_turn", "stop_sequence")
ODD_NAMES = (
    "functions.look",
    " look",
    "look<|channel|>commentary",
    "x" * 90,
    "look_at_everything",
    "Schauen & sehen",
    "look.look",
)
SUMMARIES = (
    "They talked about harbours, and the person asked for what each one looks like. " * 3,
    "They talked about the harbour and",
    "I'm sorry, but I can't help with that.",
    "<think>What did they talk about?</think>They talked about harbours.",
    '<tool_call>{"name": "look", "arguments": {}}</tool_call>',
    "",
)


@dataclass(frozen=True)
class Called:
    """A call as a model makes it; arguments that are not a text are sent as an object."""

    id: str
    name: str
    arguments: str | Json


@dataclass(frozen=True)
class Move:
    """An answer. `status` other than 200 is a failure before the answer. `end` is an
    early end of a stream: an error in it, a broken connection, or silence; or "json", a JSON error
    instead of a stream."""

    text: str = ""
    thought: str = ""
    calls: tuple[Called, ...] = ()
    finish: str = "stop"
    status: int = 200
    end: End = ""

    @property
    def is_clean(self) -> bool:
        """Return True if this move is an answer for the person."""
        is_whole = self.finish in ("stop", "eos", "end_turn", "tool_calls", "stop_sequence")
        return self.status == 200 and not self.end and is_whole and bool(self.text or self.calls)


@dataclass
class Script:
    """Random moves. `number` is the number of the last call or answer; `wildness` is from 0, at
    which everything is correct, to 1."""

    dice: random.Random
    number: int = 0
    wildness: float = 1.0
    rounds: int = field(default=0, repr=False)

    def answer(self, thoughts: Thoughts, *, may_call: bool, is_claude: bool = False) -> Move:
        """Return the next answer to a turn's request."""
        self.number += 1
        dice, chance = self.dice, self.dice.random() / max(self.wildness, 1e-9)
        if chance < 0.03:
            return Move(status=dice.choice((500, 503, 429, 400, 502)))
        if chance < 0.05:
            thought = "Let me think. " * dice.choice((0, 1)) if thoughts == "text" else ""
            return Move(thought=thought, finish=dice.choice(("stop", "length", "")))
        if chance < 0.09:
            end: End = dice.choice(ENDS)
            return Move(f"{ANSWER} #{self.number}# begins", end=end)
        has_thought = bool(thoughts) and dice.random() < 0.7
        thought = f"I think of #{self.number}#. " * dice.randint(1, 3) if has_thought else ""
        if may_call and dice.random() < 0.45:
            return self._calling(thought, is_claude)
        words = " It lies by the sea." * dice.randint(1, 12)
        if thoughts == "tags" and dice.random() < 0.1 * self.wildness:
            words += '\n<tool_call>{"name": "look", "arguments": {"what": "it"}}</tool_call>'
        blanks = dice.choice(("", "", " \n", "\n\n"))
        move = Move(f"{ANSWER} #{self.number}#.{words}{blanks}", thought)
        if dice.random() < 0.15 * self.wildness:
            finish = dice.choice(CLAUDE_FINISHES if is_claude else FINISHES)
            return replace(move, finish=finish)
        return move

    def _calling(self, thought: str, is_claude: bool) -> Move:
        self.rounds += 1
        count = self.dice.choice((1, 1, 1, 2, 3))
        calls = tuple(self._call(place, is_claude) for place in range(count))
        text = self.dice.choice(("", "", "", "I will look. ", " "))
        is_cut = self.dice.random() < 0.05 * self.wildness
        finish = "length" if is_cut else self.dice.choice(("stop", "stop", "stop", "tool_calls"))
        if is_cut:
            *whole, last = calls
            said = last.arguments if isinstance(last.arguments, str) else json.dumps(last.arguments)
            calls = (*whole, replace(last, arguments=said[: len(said) // 2]))
        return Move(text, thought, calls, finish)

    def _call(self, place: int, is_claude: bool) -> Called:
        dice = self.dice
        what = f"#{self.number}# harbour {dice.randint(1, 9)}"
        arguments: str | Json = json.dumps({"what": what})
        if dice.random() < 0.2 * self.wildness:
            arguments = dice.choice(
                (
                    f'{{"what": "{what}", "size": NaN}}',
                    f'```json\n{{"what": "{what}"}}\n```',
                    f'{{"what": "{what}"',
                    f'{{"what": "{what}"}}}}',
                    "",
                    "null",
                    "[]",
                    json.dumps(json.dumps({"what": what})),
                    {"what": what},
                )
            )
        if is_claude and not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        is_odd = dice.random() < 0.12 * self.wildness
        name = dice.choice(ODD_NAMES) if is_odd else dice.choice(("look", "look", "calculate"))
        return Called(self._id(place), name, arguments)

    def _id(self, place: int) -> str:
        if self.dice.random() < 0.4 * self.wildness:
            return self.dice.choice((f"look:{place}", f"call_{place}", "c", "", "i" * 80))
        return f"call_{self.number}_{place}_{self.dice.getrandbits(40):x}"

    def waiting(self) -> Move:
        """Return a call of the tool that waits at the gate."""
        self.number += 1
        arguments = json.dumps({"what": f"#{self.number}#"})
        return Move(calls=(Called(f"gate_{self.number}", "wait_at_the_gate", arguments),))

    def summary(self) -> Move:
        """Return the next answer to a request for a summary."""
        if self.dice.random() < 0.05 * self.wildness:
            return Move(status=self.dice.choice((500, 400, 429)))
        is_good = self.dice.random() > 0.4 * self.wildness
        text = SUMMARIES[0] if is_good else self.dice.choice(SUMMARIES)
        is_whole = self.dice.random() > 0.1 * self.wildness
        return Move(text, finish="stop" if is_whole else self.dice.choice(FINISHES))


# --- chat completions ---


def _event(data: object) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def by_chat(move: Move, model: str, thoughts: Thoughts, prompt: int) -> list[bytes]:
    """Return the pieces of a stream of chat completions."""
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model}
    deltas = list(_deltas(move, model, thoughts))
    chunks = [
        {**frame, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas
    ]
    if move.finish and not move.end:
        finish = "tool_calls" if move.calls and move.finish == "stop" else move.finish
        chunks.append({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    usage = {"prompt_tokens": prompt, "completion_tokens": 20, "total_tokens": prompt + 20}
    if not move.end:
        chunks.append({**frame, "choices": [], "usage": usage})
    made = [_event(chunk) for chunk in chunks]
    if move.end == "error":
        made.append(_event({"error": {"message": "the backend failed", "code": 500}}))
    return [*made, b"data: [DONE]\n\n"] if not move.end else made


def _deltas(move: Move, model: str, thoughts: Thoughts) -> Iterator[Json]:
    yield {"role": "assistant", "content": ""}
    if move.thought:
        yield from _chat_thought(move.thought, model, thoughts)
    half = len(move.text) // 2
    for piece in (move.text[:half], move.text[half:]):
        if piece and thoughts == "parts":
            yield {"content": [{"type": "text", "text": piece}]}
        elif piece:
            yield {"content": piece}
    for index, call in enumerate(move.calls):
        function: Json = {"name": call.name, "arguments": call.arguments}
        made: Json = {"index": index, "type": "function", "function": function}
        if call.id:
            made["id"] = call.id
        if thoughts == "signatures" and index == 0:
            signed = f"{call.id}.{sign(model, call.id)}"
            made["extra_content"] = {"google": {"thought_signature": signed}}
        yield {"tool_calls": [made]}


def _chat_thought(thought: str, model: str, thoughts: Thoughts) -> Iterator[Json]:
    if thoughts == "tags":
        yield {"content": f"<think>{thought}</think>\n\n"}
    elif thoughts == "parts":
        part = {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}
        yield {"content": [part]}
    elif thoughts == "details":
        half = len(thought) // 2
        detail = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
        yield {"reasoning_details": [{**detail, "text": thought[:half]}]}
        rest = {**detail, "text": thought[half:], "signature": sign(model, thought)}
        yield {"reasoning": thought, "reasoning_details": [rest]}
        for number in range(2):  # each has its own id, and the same index
            data = f"{number}{thought[:12]}"
            yield {
                "reasoning_details": [
                    {
                        "type": "reasoning.encrypted",
                        "id": f"rs_{number}",
                        "index": 1,
                        "data": f"{data}.{sign(model, data)}",
                    }
                ]
            }
    elif thoughts == "text":
        yield {"reasoning_content": thought}


# --- the Responses API ---


def by_responses(move: Move, model: str, prompt: int) -> list[bytes]:
    """Return the pieces of a stream of the Responses API."""
    items = list(_output(move, model))
    usage = {"input_tokens": prompt, "output_tokens": 20, "total_tokens": prompt + 20}
    base: Json = {"id": "resp_1", "object": "response", "model": model, "error": None}
    events: list[Json] = [{"type": "response.created", "response": {**base, "output": []}}]
    for index, item in enumerate(items):
        opened = {k: v for k, v in item.items() if k not in ("content", "encrypted_content")}
        if item["type"] == "function_call":
            opened["arguments"] = ""
        place = {"item_id": item["id"], "output_index": index}
        events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
        if item["type"] == "message":
            text = item["content"][0]["text"]
            events.append({"type": "response.output_text.delta", **place, "delta": text})
        elif item["type"] == "function_call":
            delta = {"type": "response.function_call_arguments.delta", **place}
            events.append({**delta, "delta": item["arguments"]})
        if not move.end:
            events.append(
                {"type": "response.output_item.done", "output_index": index, "item": item}
            )
    if move.end == "error":
        failed = {**base, "output": [], "error": {"code": "server_error", "message": "failed"}}
        events.append({"type": "response.failed", "response": failed})
    elif not move.end:
        reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(
            move.finish
        )
        whole = {**base, "output": items, "usage": usage, "status": "completed"}
        if reason:
            whole |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
        kind = "response.incomplete" if reason else "response.completed"
        events.append({"type": kind, "response": whole})
    return [
        f"event: {one['type']}\ndata: {json.dumps({**one, 'sequence_number': n})}\n\n".encode()
        for n, one in enumerate(events)
    ]


def _output(move: Move, model: str) -> Iterator[Json]:
    if move.thought:
        sealed = f"{move.thought[:20]}.{sign(model, move.thought[:20])}"
        yield {
            "id": f"rs_{sign(model, move.thought)}",
            "type": "reasoning",
            "summary": [],
            "encrypted_content": sealed,
        }
    if move.text:
        part = {"type": "output_text", "text": move.text, "annotations": []}
        base = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
        yield {**base, "content": [part]}
    for number, call in enumerate(move.calls):
        said = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        yield {
            "id": f"fc_{number}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id or f"call_{number}",
            "name": call.name,
            "arguments": said,
        }


# --- the Messages API ---


def by_messages(move: Move, model: str, prompt: int) -> list[bytes]:
    """Return the pieces of a stream of the Messages API."""
    usage = {"input_tokens": prompt, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
    start: Json = {
        **message,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    events: list[Json] = [{"type": "message_start", "message": start}]
    for index, (opened, deltas) in enumerate(_blocks(move, model)):
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        for delta in deltas:
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    if move.end == "error":
        error = {"type": "overloaded_error", "message": "Overloaded"}
        events.append({"type": "error", "error": error})
    elif not move.end and move.finish:
        reasons = {"stop": "tool_use" if move.calls else "end_turn", "length": "max_tokens"}
        reason = reasons.get(move.finish, move.finish)
        delta = {"stop_reason": reason, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 20}})
        events.append({"type": "message_stop"})
    return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]


def _blocks(move: Move, model: str) -> Iterator[tuple[Json, Sequence[Json]]]:
    if move.thought:
        opened: Json = {"type": "thinking", "thinking": "", "signature": ""}
        yield (
            opened,
            (
                {"type": "thinking_delta", "thinking": move.thought},
                {"type": "signature_delta", "signature": sign(model, move.thought)},
            ),
        )
    if move.text:
        yield {"type": "text", "text": ""}, ({"type": "text_delta", "text": move.text},)
    for number, call in enumerate(move.calls):
        own = (call.id or f"toolu_{number}") + (f"_thought_{model}" if move.thought else "")
        use = {"type": "tool_use", "id": own, "name": call.name, "input": {}}
        yield use, ({"type": "input_json_delta", "partial_json": str(call.arguments)},)
