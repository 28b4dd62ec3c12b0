"""The next request as a list of blocks, after the system prompt and the tools: one traversal for
lists, figures, pictures and questions about the context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from memory.context.view import View
from memory.turns import Turn

SUMMARY, LOG, RANGE = "summary", "activity log", "summaries of turns"
TURN, RUNNING = "turns", "running turn"


class RequestBlock(Struct, frozen=True):
    """A named part of the request: its raw tokens, its text, and the `turns` that it contains or
    represents; `turn` is set if it is a single turn."""

    part: str
    raw: int
    text: str
    turns: tuple[int, ...]
    turn: Turn | None = None


def list_blocks(view: View) -> Iterator[RequestBlock]:
    """Yield the blocks in the order of the request: a range summary comes where it is sent, after
    the turns that it represents and the turns before these."""
    front = view.preface
    if front:
        yield RequestBlock(SUMMARY, front.tokens, front.text, view.layout.turns("summary"))
    if log := view.log:
        raw = view.front_tokens - (front.tokens if front else 0)
        yield RequestBlock(LOG, raw, "\n".join(line.text for line in log), view.logged)
    waiting = [one for one in view.layout.ranges if one.summary in view.summaries]
    for turn in (*view.turns, None):
        while waiting and (turn is None or waiting[0].turns[-1] < turn.number):
            one = waiting.pop(0)
            summary = view.summaries[one.summary]
            yield RequestBlock(RANGE, summary.tokens, summary.text, one.turns)
        if turn is not None:
            part = RUNNING if turn.number == view.current else TURN
            yield RequestBlock(part, turn.tokens, turn.question.text, (turn.number,), turn)


def name_run(turns: Sequence[int]) -> str:
    """Return neighbouring turns as commands accept them: "t3", "t3-t5"."""
    return f"t{turns[0]}" if turns[0] == turns[-1] else f"t{turns[0]}-t{turns[-1]}"
