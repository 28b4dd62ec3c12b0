"""`context_search`: the model searches the messages and tool calls of its conversation
(flo.monster).

Turns removed from the context are found under every strategy. The running turn is excluded, so that
a search does not find itself.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from memory.record.search import (
    MOST,
    ExactMessage,
    FirstMessages,
    Hit,
    MessagesAround,
    SearchHits,
    Tail,
    Wanted,
    Words,
)
from memory.record.search.excerpts import blocks, window
from memory.turns import turn_number
from plugins.api import Tool, ToolContext, ToolError, hookimpl, tool
from plugins.wording import count

LONGEST = 20_000
"""The maximum length of a result in characters, without headers and names; less if the model's
window is small."""
LONGEST_QUERY = 500
"""The maximum length of a query in characters."""
_MESSAGE = (200, 4_000)  # shown characters per message among many others, and alone
_PER_TOKEN = 2  # characters per token, a cautious estimate

Near = Annotated[int, Field(ge=0), AfterValidator(partial(min, 50))]
Many = Annotated[int, Field(ge=1), AfterValidator(partial(min, MOST))]


@tool(touches={"reads"}, needs_conversation=True)
async def context_search(  # noqa: PLR0913 - these are the parameters that flo.monster documents
    context: ToolContext,
    mode: Literal["search", "tail", "head", "turn"],
    query: Annotated[str, Field(max_length=LONGEST_QUERY)] = "",
    before: Near | None = None,
    after: Near | None = None,
    last: Many = 10,
    first: Many = 10,
    turnId: str = "",
) -> str:
    """Look up messages, tool calls and results of this conversation, also those you no longer see.
    search finds words, tail shows the last messages, head the first, turn a turn.

    Args:
        query: For search. Few words find more.
        before: Messages before each match, or turns before the turn.
        turnId: For turn: such as t5.
    """
    conversation = context.conversation
    if conversation is None:
        raise ToolError("There is no conversation to search.")
    wanted: Wanted
    match mode:
        case "search":
            wanted = Words(_text(query), _or(before, 2), _or(after, 2))
        case "tail":
            wanted = Tail(last)
        case "head":
            wanted = FirstMessages(first)
        case "turn":
            wanted = _turn(turnId, _or(before, 0), _or(after, 0))
    found = await conversation.passages(wanted)
    if any(hit.entry.message.has_outside for hit in found.hits):
        context.from_outside()
    if isinstance(wanted, ExactMessage) and found.hits:
        return found.hits[0].text  # in full: a result that is too long is truncated on arrival
    room = min(LONGEST, conversation.context.limits.longest_result * _PER_TOKEN)
    return as_text(found, wanted, room) if found.hits else _explain_nothing(found, wanted)


def _or(number: int | None, default: int) -> int:
    return default if number is None else number


def _text(query: str) -> str:
    if not query.strip():
        raise ToolError("Mode 'search' needs a query: the text to find.")
    return query


def _turn(turn_id: str, before: int, after: int) -> MessagesAround | ExactMessage:
    """Return a turn, or one message of it in the form that a stub names it: "t5.42". Raises
    ToolError."""
    if not turn_id.strip():
        raise ToolError("Mode 'turn' needs a turnId: the turn to show, such as 't5'.")
    turn, _, seq = turn_id.partition(".")
    try:
        if seq.isascii() and seq.isdigit():
            return ExactMessage(turn_number(turn), int(seq))
        return MessagesAround(turn_number(turn_id), before, after)
    except ValueError as error:
        raise ToolError(f"The turnId {error}.") from None


def _explain_nothing(found: SearchHits, wanted: Wanted) -> str:
    among = f"among the {count(found.total, 'message')} before this turn"
    match wanted:
        case _ if not found.total:
            return "Nothing was said before this turn."
        case Words():
            return f"Nothing {among} contains {wanted.text!r}; try one word of it, or another word."
        case MessagesAround():
            return f"There is no turn t{wanted.turn} {among}."
        case ExactMessage():
            return f"There is no message t{wanted.turn}.{wanted.seq} {among}."
    return f"Nothing was found {among}."


def as_text(found: SearchHits, wanted: Wanted, room: int) -> str:
    """Return each passage under its header. The fewer the messages, the more of each is shown, and
    always the part that matches. `room` is in characters."""
    shortest, longest = _MESSAGE
    share = max(shortest, min(longest, room // len(found.hits)))
    lines: list[str] = []
    for passage in blocks(found.hits, lambda hit, before: hit.number == before.number + 1):
        first, last = passage[0].number, passage[-1].number
        lines.append(f"--- messages {first}-{last} of {found.total} ---")
        lines += [_line(hit, share) for hit in passage]
    if found.left_out:
        which = "older matches" if isinstance(wanted, Words) else "messages"
        rest = f"({found.left_out:,} more {which} are not shown: ask for less at once.)"
        lines.append(rest)
    return "\n".join(lines)


def _line(hit: Hit, most: int) -> str:
    excerpt = window(hit.text, hit.spans, most)
    return f"[{hit.entry.message.role} t{hit.entry.turn}] {excerpt}".rstrip()


@hookimpl
def parley_tools() -> list[Tool]:
    return [context_search]
