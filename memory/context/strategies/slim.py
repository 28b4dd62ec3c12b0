"""`slim` (flo.monster): an activity log of one line a turn, and the last K turns in full.

`fold_turns: 1` is the documented shape: the log leaves out the last `full_turns` complete turns,
and holds the newest `max_terse_entries` lines. With more, so many turns fold at a time, because
every fold rewrites the prompt behind the log (DESIGN.md, rule 4); the log only grows until it is
too long, and then its older half rolls up into one block.
"""

from __future__ import annotations

from dataclasses import replace

from memory.context.change import Change
from memory.context.limits import Limits
from memory.context.plan import Plan, cut_of
from memory.context.view import View
from memory.turns import Turn


def plan(view: View, limits: Limits) -> Plan | None:
    """What folds now, and what rolls up by it."""
    folding = _folding(view, limits)
    numbers = frozenset(turn.number for turn in folding)
    fold = replace(cut_of(view, folding), fold=numbers) if folding else Change()
    roll = _roll(view.moved_by(fold), limits)
    change = fold.then(roll)
    if change.is_empty:
        return None
    after = view.moved_by(change)
    rolled = numbers.union(view.logged) - set(after.logged)
    return Plan(
        change,
        _why(folding, rolled, limits),
        leaving=tuple(sorted(rolled)),
        tokens_after=after.tokens,
        kind="compact" if rolled and limits.fold_turns > 1 else "fold",
    )


def _folding(view: View, limits: Limits) -> tuple[Turn, ...]:
    """The turns that fold: none before there are enough of them."""
    recent = {turn.number for turn in view.complete[-limits.full_turns :]}
    old = tuple(turn for turn in view.movable if turn.number not in recent)
    return old if len(old) >= max(1, limits.fold_turns) else ()


def _roll(view: View, limits: Limits) -> Change:
    """Where the log begins once it is too long: at its newer half, so that it seldom is, or with
    `fold_turns: 1` at the newest lines that it may hold."""
    log = view.log
    if len(log) <= limits.max_terse_entries:
        return Change()
    stay = limits.max_terse_entries // 2 if limits.fold_turns > 1 else limits.max_terse_entries
    first = len(log) - max(1, stay)
    is_torn = log[first - 1].turn == log[first].turn
    return Change(roll=log[first].turn + is_torn)


def _why(folding: tuple[Turn, ...], rolled: frozenset[int], limits: Limits) -> str:
    parts = []
    if folding:
        parts.append(f"{limits.full_turns} turns stay in full, older ones become lines of the log")
    if rolled:
        parts.append(f"the log holds at most {limits.max_terse_entries} lines")
    return " and ".join(parts)
