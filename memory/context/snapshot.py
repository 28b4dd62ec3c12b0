"""The tools and memory of the model when turns were removed from its context: stored with the
event, and shown again.

Digitorn: a resumed session continues with the tools, the memory and realistic examples of tool
calls from before the compaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from msgspec import Struct

from memory.turns import Turn

EXAMPLES = 5
"""The number of recent tool calls kept as examples."""
_ARGUMENTS = 200  # characters of a call's arguments in an example


class Snapshot(Struct, frozen=True):
    """A snapshot. `tools` by name; `injection` is the way in which the model gets them; `summary`
    is the id of the one in front (0: none); `examples` are tool calls as (name, arguments), the
    newest last. `days` is the number of files of the daily memory, and `newest` the day of the last
    ("": none)."""

    tools: tuple[str, ...]
    injection: str
    summary: int
    examples: tuple[tuple[str, str], ...]
    days: int = 0
    newest: str = ""


def take_snapshot(
    tools: Sequence[Mapping[str, Any]], turns: Sequence[Turn], summary: int, days: Sequence[date]
) -> Snapshot:
    """Return the snapshot of this moment: `tools` as they are sent, `turns` as they are in context,
    `days` as in the daily memory. Calls made while text from outside was in context are not used as
    examples: the summary beside them may be approved for the memory, and nobody has reviewed the
    calls."""
    names = tuple(tool["function"]["name"] for tool in tools)
    messages = (e.message for turn in turns for e in turn.entries if not e.message.has_outside)
    calls = [call for message in messages for call in message.tool_calls]
    examples = tuple((call.name, call.arguments[:_ARGUMENTS]) for call in calls[-EXAMPLES:])
    injection = "native" if names else "none"
    newest = days[-1].isoformat() if days else ""
    return Snapshot(names, injection, summary, examples, len(days), newest)


def note(snapshot: Snapshot) -> str:
    """Return the note for the model besides the summary; "" if there is nothing to report."""
    if not snapshot.tools:
        return ""
    lines = [f"Tools at hand ({snapshot.injection} tool calls): {', '.join(snapshot.tools)}."]
    if snapshot.days:
        lines.append(f"Daily memory: {snapshot.days} days, the newest {snapshot.newest}.")
    else:
        lines.append("Daily memory: empty so far.")
    if snapshot.examples:
        lines.append("The last calls were:")
        lines += [f"- {name}({arguments})" for name, arguments in snapshot.examples]
    return "\n".join(lines)
