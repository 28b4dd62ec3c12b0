"""`context_search`: the model looks up what was said and done in its conversation (flo.monster).

Whatever has left the context is found, under every strategy; the running turn is left out, or every
search would find itself.
"""

from __future__ import annotations

from typing import Annotated, Literal

import regex
from pydantic import Field

from memory.conversation import Conversation
from memory.record.passages import (
    MOST,
    Around,
    Head,
    Passage,
    Passages,
    Tail,
    Wanted,
    Words,
    finder,
    told,
)
from memory.turns import Entry, turn_number
from plugins.api import Tool, ToolContext, ToolError, hookimpl, tool
from plugins.wording import count

LONGEST = 20_000
"""Characters that are returned at most, besides headers and names; less where the model's window
is small."""
LONGEST_QUERY = 500
"""Characters that are looked for at most."""
_MESSAGE = (200, 4_000)  # characters that a message may have among many others, and alone
_PER_TOKEN = 2  # characters, reckoned with care

Pattern = regex.Pattern[str]
Near = Annotated[int, Field(ge=0, le=50)]
Many = Annotated[int, Field(ge=1, le=MOST)]


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
    """Look up what was said and done earlier in this conversation, also what you no longer see:
    messages, tool calls and their results. Modes: search finds words, tail shows the newest
    messages, head the first ones, turn all messages of a turn.

    Args:
        mode: What to look for.
        query: The text to find, in any case, also within tool names, inputs and results; required
            in mode search. Few words find more.
        before: In mode search, messages shown before each match (default 2); in mode turn, turns
            shown before the turn (default 0).
        after: The same for those after it.
        last: How many messages mode tail shows.
        first: How many messages mode head shows.
        turnId: The turn to show, such as t5; required in mode turn.
    """
    conversation = context.conversation
    if conversation is None:
        raise ToolError("There is no conversation to look into.")
    wanted: Wanted
    match mode:
        case "search":
            wanted = Words(_text(query), _or(before, 2), _or(after, 2))
        case "tail":
            wanted = Tail(last)
        case "head":
            wanted = Head(first)
        case "turn":
            wanted = Around(_number(turnId), _or(before, 0), _or(after, 0))
    found = await conversation.passages(wanted)
    if any(entry.message.has_outside for part in found.parts for entry in part.entries):
        context.from_outside()
    return as_text(found, wanted, _room(conversation)) if found.parts else _nothing(found, wanted)


def _or(number: int | None, default: int) -> int:
    return default if number is None else number


def _text(query: str) -> str:
    if not query.strip():
        raise ToolError("Mode 'search' wants a query: the text to find.")
    return query


def _number(turn_id: str) -> int:
    if not turn_id.strip():
        raise ToolError("Mode 'turn' wants a turnId: the turn to show, such as 't5'.")
    try:
        return turn_number(turn_id)
    except ValueError as error:
        raise ToolError(f"The turnId {error}.") from None


def _room(conversation: Conversation) -> int:
    return min(LONGEST, conversation.context.limits.longest_result * _PER_TOKEN)


def _nothing(found: Passages, wanted: Wanted) -> str:
    among = f"among the {count(found.total, 'message')} before this turn"
    match wanted:
        case _ if not found.total:
            return "Nothing was said before this turn."
        case Words():
            return f"Nothing {among} holds {wanted.text!r}; try one word of it, or another word."
        case Around():
            return f"There is no turn t{wanted.turn} {among}."
    return f"Nothing was found {among}."


def as_text(found: Passages, wanted: Wanted, room: int) -> str:
    """Each passage under its header. The fewer messages, the more of each is shown, and always the
    part that matches; `room` is in characters."""
    pattern = finder(wanted.text) if isinstance(wanted, Words) else None
    shortest, longest = _MESSAGE
    shown = sum(len(passage.entries) for passage in found.parts)
    share = max(shortest, min(longest, room // shown))
    lines: list[str] = []
    for passage in found.parts:
        lines.append(_header(passage, found.total))
        lines += [_line(entry, share, pattern) for entry in passage.entries]
    return "\n".join([*lines, *_rest(found, wanted)])


def _header(passage: Passage, total: int) -> str:
    return f"--- messages {passage.first}-{passage.last} of {total} ---"


def _line(entry: Entry, most: int, pattern: Pattern | None) -> str:
    said = part(told(entry.message), most, pattern)
    return f"[{entry.message.role} t{entry.turn}] {said}".rstrip()


def _rest(found: Passages, wanted: Wanted) -> list[str]:
    if not found.left_out:
        return []
    which = "older matches" if isinstance(wanted, Words) else "messages"
    return [f"({found.left_out:,} more {which} are not shown: ask for less at once.)"]


def part(text: str, most: int, pattern: Pattern | None = None) -> str:
    """A text in at most so many characters: its beginning, or what stands around the first match;
    "…" marks what is left out."""
    if len(text) <= most:
        return text
    match = pattern.search(text) if pattern else None
    start = 0
    if match:
        aside = max(0, most - (match.end() - match.start())) // 2
        start = max(0, min(match.start() - aside, len(text) - most))
    shown = text[start : start + most]
    return f"{'…' if start else ''}{shown}{'…' if start + most < len(text) else ''}"


@hookimpl
def parley_tools() -> list[Tool]:
    return [context_search]
