"""`/context`: what the model sees of a conversation, and steering it.

One module for each thing that can be asked for; `overview` gathers what they show.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping

from plugins.api import Ask, Command, CommandError, Reply, command, hookimpl
from plugins.builtin.context import (
    advise,
    history,
    picture,
    preview,
    show,
    steering,
    transfer,
    turns,
)

Verb = Callable[[Ask, str], Awaitable[Reply]]

VERBS: Mapping[str, tuple[Verb, str]] = {
    "detail": (turns.show_detail, "everything, by turn and message"),
    "map": (picture.show, "a picture of it"),
    "turns": (turns.show_turns, "every turn: its tokens, and whether it is in play"),
    "preview": (preview.show, "what the next request will hold, and what goes before it"),
    "history": (history.show, "all that ever changed it, and who did it"),
    "json": (show.show_json, "the same figures as data"),
    "advise": (advise.show, "what its figures say about the settings, and what to change"),
    "compact": (
        steering.compact,
        "put a summary in the place of the turns (compact what was decided)",
    ),
    "compress": (
        steering.compress,
        'do once what the strategy structured does (compress {"trigger_ratio": 0.5})',
    ),
    "free": (steering.free, "let all but the newest messages leave at once, in an emergency"),
    "undo": (steering.undo, "take the last change back, or the one you name (undo e12)"),
    "redo": (steering.redo, "do again what was undone"),
    "pin": (steering.pin, "keep turns whatever leaves (pin t7)"),
    "unpin": (steering.unpin, "let pinned turns leave again (unpin t7)"),
    "drop": (steering.drop, "take turns out (drop t3-t5)"),
    "clear": (steering.clear, "take all turns out; nothing is deleted"),
    "search": (history.search, "find words in all that was said (search lisbon hotel)"),
    "export": (transfer.export, "save the whole conversation as files"),
    "import": (transfer.import_, "add the turns of such a file (import context.json)"),
}


@command(
    "context",
    "Show what the model sees and what it costs, and change it",
    "[WHAT]",
    [(name, summary) for name, (_, summary) in VERBS.items()],
    slow=("compact", "compress", "import"),
)
async def context(ask: Ask) -> Reply:
    """The one command for the context; the word that follows it says what to do."""
    name, rest = (*ask.text.split(None, 1), "", "")[:2]
    if not name:
        return await show.show(ask, "")
    if name.lower() not in VERBS:
        raise CommandError(_unknown(name))
    run, _ = VERBS[name.lower()]
    return await run(ask, rest)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name[:40].lower(), VERBS, n=1)
    hint = f"did you mean /context {near[0]}?" if near else "/help context lists what it knows."
    return f"/context does not know {name[:40]!r}; {hint}"


@hookimpl
def parley_commands() -> list[Command]:
    return [context]
