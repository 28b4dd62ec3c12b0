"""`truncate` and `summarize` (Digitorn): a safe split, and one system message for removed turns.

The last `keep_recent` messages stay verbatim. A split never separates a tool call from its results,
and never changes the running turn or a pinned one.

`structured` (AgentScope): at `trigger_ratio` of the window, all but `reserve_ratio` of it is
removed. Checked before every step. The removed turns are summarised in five fields; a tenth of the
window stays free for that call, since the trigger is at most 0.9. The running turn is always kept,
and counts towards the reserve. If keeping the reserve would not help, nothing is reserved.
"""

from __future__ import annotations

from itertools import accumulate

from memory.context.change import Change
from memory.context.forms import OWN, SUMMARY, FormKind, TurnForm, assign_form
from memory.context.plan import Plan, can_help, summarise_in_front
from memory.context.settings import Limits
from memory.context.view import View
from memory.plain_text import plain_number
from memory.turns import Entry


def plan(view: View, limits: Limits) -> Plan | None:
    """Plan as the rule `_auto_compact` does at the beginning of a turn: nothing below the
    trigger."""
    pressure, least = view.tokens / limits.ceiling, limits.context.compression_trigger
    if not limits.auto_compact or pressure < least:
        return None
    if least and not can_help(view, limits, round(least * limits.ceiling)):
        return None  # it can't get below it; a trigger of 0 compacts whenever possible
    why = (
        f"the rule _auto_compact: {pressure:.0%} of the budget was in use, and it compacts from "
        f"{least:.0%} on"
    )
    return split(view, limits.context.keep_recent, why)


def split(view: View, keep: int, why: str) -> Plan | None:
    """Remove all but the last `keep` messages, at any pressure."""
    return split_at(view, safe_split(view.entries, len(view.entries) - keep), why)


def safe_split(entries: list[Entry], index: int) -> int:
    """Return the nearest place at or before `index` that does not separate a call from its
    results."""
    index = max(0, index)
    while 0 < index < len(entries) and entries[index].message.role in ("tool", "note"):
        index -= 1
    return index


def split_at(view: View, index: int, why: str) -> Plan | None:
    """Return the plan that removes all messages before the one at `index`, except the running turn
    and pinned ones; None if there are none. A turn whose beginning was removed before is not
    summarised again with its rest."""
    entries = view.entries[: max(0, index)]
    stays = {t.number for t in view.turns if not t.is_complete} | view.layout.pinned
    removed = {entry.turn for entry in entries} - stays
    if not removed:
        return None
    layout, newest = view.layout, max(removed)
    half = next(
        (t for t in view.turns if t.number == newest and t.entries[-1] not in entries), None
    )
    is_new = {number for number in removed if layout.form(number).kind != "tail"}
    ranges = [one for one in view.loose if one.turns[-1] <= newest - (half is not None)]
    leaving = tuple(sorted(is_new.union(*(one.turns for one in ranges))))
    change = summarise_in_front(view, leaving) if leaving else Change()
    rest = removed - is_new  # summarised with its beginning, by the summary in front
    front = SUMMARY if leaving else TurnForm("summary", layout.front or 0)
    change = change.with_forms(assign_form(rest, front))
    if half is not None:
        kind: FormKind = "squeezed" if layout.form(newest).kind == "squeezed" else "tail"
        first = 1 + max(entry.seq for entry in entries if entry.turn == newest)
        by = OWN if leaving else layout.form(newest).by
        change = change.with_forms(assign_form([newest], TurnForm(kind, first, by)))
    return Plan(change, why, leaving)


def plan_structured(view: View, limits: Limits) -> Plan | None:
    """Plan nothing below the threshold, which is at most the ceiling: in a small window the tokens
    reserved for the reply take more than a fifth."""
    trigger = round(limits.context.trigger_ratio * limits.window)
    threshold = min(trigger, limits.ceiling)
    if view.tokens < threshold or not can_help(view, limits, threshold):
        return None
    share = f"{plain_number(limits.context.trigger_ratio)} of the window of {limits.window:,}"
    if limits.ceiling < trigger:
        share = f"{threshold:,}, what the window of {limits.window:,} holds besides the reply"
    why = f"{view.tokens:,} tokens were at or over {share}"
    kept = split_at(view, _reserve_from(view, limits.context.reserve_ratio * limits.window), why)
    if kept is not None and view.apply(kept.change).tokens < threshold:
        return kept
    return split_at(view, _reserve_from(view, 0), why)


def _reserve_from(view: View, reserve: float) -> int:
    """Return the index of the first of the newest messages that together have at most `reserve`
    tokens; a call and its results are kept or removed together."""
    entries = view.entries
    sizes = accumulate(entry.tokens for entry in reversed(entries))
    index = len(entries) - sum(view.scale.part(size) <= reserve for size in sizes)
    while 0 < index < len(entries) and entries[index].message.role in ("tool", "note"):
        index += 1
    return index
