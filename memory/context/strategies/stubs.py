"""`stubs`: old tool results become one line each, and everything else stays.

The line names the tool, its arguments and the size, and the way to read the result again. The
newest `stub_keep` results stay whole, and so do those of pinned turns, short ones, and those of the
running turn. They become stubs in batches of at least `stub_batch` tokens, because each batch
rewrites the prompt from its first result on.

With `stub_tools` stubs come before the compactions of the other strategies: a compaction is made
only if it is still due once old results are stubs.
"""

from __future__ import annotations

from memory.context.change import Change
from memory.context.plan import Plan
from memory.context.settings import Limits
from memory.context.view import View
from memory.turns import Entry, format_turns

LEAST = 100
"""The raw tokens up to which a result stays: a stub would not be much shorter."""
STUB = 50
"""The raw tokens of a stub until it is counted."""


def plan(view: View, limits: Limits) -> Plan | None:
    """Return the batch that is due: one that frees enough, or any if the request exceeds the
    ceiling."""
    old = _find_old(view, limits)
    change = Change.stubbing((entry.seq for entry in old), STUB)
    freed = view.scale.part(count_freed(view, change))
    is_enough = freed >= limits.stub_batch or view.tokens > limits.ceiling
    if not old or not is_enough:
        return None
    turns = format_turns(sorted({entry.turn for entry in old}))
    why = f"old tool results of {turns} could free {freed:,} tokens"
    return Plan(change, why)


def may_stub(limits: Limits) -> bool:
    """Return whether old results become stubs under these settings, alone or as a first stage."""
    return limits.strategy == "stubs" or (limits.context.stub_tools and limits.strategy != "full")


def count_freeable(view: View, limits: Limits) -> int:
    """Return the tokens that old results would free as stubs now, regardless of `stub_batch`."""
    old = Change.stubbing((entry.seq for entry in _find_old(view, limits)), STUB)
    return view.scale.part(count_freed(view, old))


def count_freed(view: View, change: Change) -> int:
    """Return the raw tokens that the stubs of a change free in this view."""
    return sum(change.freed_tokens(entry.seq, entry.tokens) for entry in view.entries)


def _find_old(view: View, limits: Limits) -> list[Entry]:
    results = [e for turn in view.complete for e in turn.entries if e.message.role == "tool"]
    stays = view.layout.pinned
    return [
        entry
        for entry in results[: max(0, len(results) - limits.context.stub_keep)]
        if entry.tokens > LEAST and entry.turn not in stays and entry.seq not in view.layout.stubbed
    ]
