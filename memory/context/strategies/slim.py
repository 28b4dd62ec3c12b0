"""`slim` (flo.monster): an activity log of one line a turn, and the last K turns in full.

`fold_turns: 1` is the documented form: the log leaves out the last `full_turns` complete turns,
and has the newest `max_terse_entries` lines. Otherwise several turns fold at a time, because every
fold rewrites the prompt behind the log: `fold_turns` of them, or with `fold_turns: 0` when that
pays. The log then gives the time once an hour, and grows until it is too long; all but its newest
quarter is rolled up into one block.

In a small window more turns fold: as many as needed for the request to fit. The log is limited to a
share of the window.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import accumulate

from msgspec.structs import replace

from memory.context.change import Change, ShortenedLog
from memory.context.forms import ROLLED, WHOLE, TurnForm, assign_form, overlay
from memory.context.layout import Layout
from memory.context.plan import Plan, find_leaving_ranges, summarise_in_front
from memory.context.settings import Limits
from memory.context.view import View
from memory.turns import Turn

_CACHED = 0.1  # of the price of a fresh token, if turns fold when it pays
_HEADROOM = 0.9  # of the ceiling is filled at most once turns no longer fit in full


def plan(view: View, limits: Limits) -> Plan | None:
    """Plan the turns that fold now, and the lines that are rolled up by it."""
    folding = _find_folding(view, limits)
    fold = _fold(view, folding, limits) if folding else Change()
    folded = view.apply(fold)
    roll, leaving = _roll(folded, limits)
    change = fold.combine(roll)
    if change.is_empty:
        return None
    return Plan(change, _why(folded, folding, bool(roll.turns()), limits), leaving)


def outgrown(layout: Layout, limits: Limits) -> Change:
    """Return the change that restores turns and lines that lower settings had folded: all of them,
    for `plan` to fold again. Empty if no setting was raised. Lines that a summary covers stay in
    it: `/context expand` brings their turns back."""
    rolled, full, most = layout.rolled, limits.context.full_turns, limits.context.max_terse_entries
    change = Change()
    if any(0 < span.form.of < full for span in layout.forms if span.form.kind == "line"):
        change = Change(assign_form(layout.turns("line"), WHOLE), folded=0)
    if rolled.lines and (rolled.lines < most or not change.is_empty):
        form = TurnForm("line", full) if change.is_empty else WHOLE
        back = assign_form(sorted(layout.turns_removed_by(ROLLED))[-most - full :], form)
        change = replace(change.with_forms(back), rolled=ShortenedLog(told=rolled.told))
    return change


def _fold(view: View, folding: tuple[Turn, ...], limits: Limits) -> Change:
    turns = {turn.number for turn in folding}
    turns.update(*(one.turns for one in find_leaving_ranges(view, max(turns), turns)))
    newest = view.complete[-1].number if limits.fold_turns != 1 else 0
    return Change(assign_form(turns, TurnForm("line", limits.context.full_turns)), folded=newest)


def _find_folding(view: View, limits: Limits) -> tuple[Turn, ...]:
    """Return the turns that fold: none before there are enough of them, or it pays."""
    recent = {turn.number for turn in view.complete[-limits.context.full_turns :]}
    old = tuple(turn for turn in view.movable if turn.number not in recent)
    if old and (len(old) >= limits.fold_turns if limits.fold_turns else _pays(view, old, limits)):
        return old
    return () if view.tokens <= limits.ceiling else _find_surplus(view, limits, len(old))


def _pays(view: View, old: tuple[Turn, ...], limits: Limits) -> bool:
    """Return whether these turns, since each could have folded, have cost as much as folding them
    costs: the turns behind them that stay in full are read again. The running turn counts whole,
    with as many requests as the last one had. So turns of one size fold at the cheapest distance
    (`cut_cost.py`), long ones sooner than short ones, and later if long ones stay. The size of a
    line is not saved, but counts at most half its turn, since lines are removed from the log
    later."""
    lines = Counter[int]()
    for line in view.lines:
        lines[line.turn] += line.brief_tokens
    requests = [_count_requests(turn) for turn in view.turns]
    if not view.turns[-1].is_complete:
        requests[-1] = max(requests[-1] + 1, *requests[-2:-1], 0)
    waited = {
        turn.number: sum(requests[place + limits.context.full_turns + 1 :])
        for place, turn in enumerate(view.turns)
    }
    sizes = ((t.number, max(t.tokens - lines[t.number], t.tokens // 2)) for t in old)
    kept = sum(waited[number] * saved for number, saved in sizes)
    return _CACHED * kept >= (1 - _CACHED) * _count_cached_behind(view, old)


def _count_requests(turn: Turn) -> int:
    return sum(entry.message.role == "assistant" for entry in turn.entries)


def _count_cached_behind(view: View, old: tuple[Turn, ...]) -> int:
    """Count the raw tokens behind the first of these turns that stay in full and were in the last
    request: all but the last reply and everything after it."""
    removed = {turn.number for turn in old}
    staying = (t for t in view.turns if t.number > old[0].number and t.number not in removed)
    entries = [entry for turn in staying for entry in turn.entries]
    replies = (place for place, e in enumerate(entries) if e.message.role == "assistant")
    return sum(entry.tokens for entry in entries[: max(replies, default=0)])


def _find_surplus(view: View, limits: Limits, least: int) -> tuple[Turn, ...]:
    """Return the turns that do not fit in full, from the oldest on: as many as give the next some
    room."""
    movable = view.movable
    for count in range(max(1, least), len(movable)):
        after = view.apply(_fold(view, movable[:count], limits))
        if after.apply(_roll(after, limits)[0]).tokens <= limits.ceiling * _HEADROOM:
            return movable[:count]
    return movable


def _roll(view: View, limits: Limits) -> tuple[Change, tuple[int, ...]]:
    """Return the change that shortens a log that is too long to its newest quarter, so that this is
    rare, or with `fold_turns: 1` to the maximum number of lines; and the turns of the removed lines
    that are to be written to the daily memory. If several turns fold at a time, a summary in front
    represents them."""
    log, most = view.log, limits.context.max_terse_entries
    if len(log) < 2 or (len(log) <= most and _fits(view, limits)):
        return Change(), ()
    tokens = [*accumulate(view.scale.part(line.tokens) for line in reversed(log))]
    share = 4 if limits.fold_turns != 1 else 1
    stay = min(most // share, bisect_right(tokens, limits.log_tokens // share))
    first = len(log) - max(1, stay)
    is_torn = log[first - 1].turn == log[first].turn
    begin = log[first].turn + is_torn
    rolled = view.layout.rolled.told
    removed = [number for number in view.layout.turns("line") if number < begin]
    new = tuple(number for number in removed if number >= rolled)
    forms = assign_form(removed, TurnForm("gone", ROLLED))
    after = 0
    if new and limits.fold_turns != 1:
        made = summarise_in_front(view, new)
        forms, after = overlay(forms, made.forms), made.after
    return Change(forms, after=after, rolled=ShortenedLog(most, max(begin, rolled))), new


def _fits(view: View, limits: Limits) -> bool:
    """Return whether the log is within its share of the window."""
    return view.scale.part(sum(line.tokens for line in view.log)) <= limits.log_tokens


def _why(view: View, folding: tuple[Turn, ...], is_rolled: bool, limits: Limits) -> str:
    """Return the reason why turns folded, and lines were rolled up; `view` is the one after
    folding."""
    parts = []
    if folding:
        full, rest = limits.context.full_turns, len(view.complete)
        stay = f"{full} turns stay" if rest >= full else f"the window has room for {rest} turns"
        if min(full, rest) == 1:
            stay = "one turn stays" if rest >= full else "the window has room for one turn"
        parts.append(f"{stay} in full, older ones become lines of the log")
    if is_rolled:
        most = limits.context.max_terse_entries
        lines = f"{most} lines" if most != 1 else "one line"
        size = lines if _fits(view, limits) else f"{limits.log_tokens:,} tokens"
        parts.append(f"the log holds at most {size}")
    return " and ".join(parts)
