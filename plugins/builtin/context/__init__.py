"""`/context`: show and change the conversation's context, which is sent to the model.

Each subcommand has its own module; `overview` collects the data that they show.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from plugins.api import Ask, Command, Reply, command, hookimpl
from plugins.builtin.context import (
    approval,
    history,
    preview,
    ranges,
    show,
    steering,
    summary,
    turns,
)
from plugins.builtin.context.receipts import add_in_force

Verb = Callable[[Ask, str], Awaitable[Reply]]

VERBS: Mapping[str, tuple[Verb, str]] = {
    "detail": (turns.show_detail, "everything, turn by turn and message by message"),
    "turns": (turns.show_turns, "every turn: its tokens, and whether it is in context"),
    "preview": (preview.show, "the next request, and what is compacted before it"),
    "history": (history.show, "every change to the context, and who made it"),
    "json": (show.show_json, "the same figures as data"),
    "summary": (summary.summary, "the summary of removed turns; edit changes it (summary edit)"),
    "receipt": (
        summary.receipt,
        "the reason for the summary in use, and the facts that it has lost",
    ),
    "keep": (summary.keep, "add facts that the summary has lost: all of them, or keep 4711"),
    "approve": (approval.approve, "approve the compaction that waits for you (approve s5)"),
    "decline": (approval.decline, "decline the compaction that waits for you (decline s5)"),
    "compact": (
        steering.compact,
        "replace the turns by a summary (compact what was decided), or some of them (compact "
        "t3-t9 what was decided)",
    ),
    "compress": (
        steering.compress,
        'do once what the strategy structured does (compress {"trigger_ratio": 0.5})',
    ),
    "free": (
        steering.free,
        "compact at once, to the newest messages, or some turns (free t1-t9); the summary follows",
    ),
    "expand": (ranges.expand, "open a summary into its turns again (expand s3)"),
    "summaries": (ranges.show_summaries, "the summaries, and the turns that each replaces"),
    "undo": (history.undo, "undo the last change, or the one you name (undo e12)"),
    "redo": (history.redo, "do again what was undone"),
    "pin": (steering.pin, "keep turns when others are compacted (pin t7)"),
    "unpin": (steering.unpin, "unpin turns (unpin t7)"),
    "drop": (steering.drop, "drop turns from the context, without a summary (drop t3-t5)"),
    "clear": (steering.clear, "drop all turns from the context; nothing is deleted"),
    "search": (history.search, "find words in everything that was said (search lisbon hotel)"),
}


@command(
    "context",
    "Show the context that is sent to the model and its cost, and change it",
    "[map | turns | compact | undo | …]",
    [(name, summary) for name, (_, summary) in VERBS.items()],
    slow=("compact", "compress"),
    bare=("detail", "preview", "history", "json", "receipt", "summaries"),
)
async def context(ask: Ask) -> Reply:
    """Run the subcommand that the first word names; without one, show the context."""
    name, rest = (*ask.text.split(None, 1), "", "")[:2]
    if not name:
        return await show.show(ask, "")
    if name.lower() not in VERBS:
        raise ask.refuse_word("context", name)
    reply = await VERBS[name.lower()][0](ask, rest)
    return add_in_force(reply, ask.conversation.key, ask.bot.in_force) if removes(name) else reply


def removes(name: str) -> bool:
    """Return whether this subcommand may remove turns, or shows the summary that replaces them."""
    return name.lower() in ("compact", "compress", "free", "clear", "approve", "summary")


@hookimpl
def parley_commands() -> list[Command]:
    return [context]
