"""The planning of compactions: what holds them off, what is planned on demand, and which summary
they call for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memory.context import emergency
from memory.context.change import Actor, Change, ViewEvent
from memory.context.forms import RANGE, give
from memory.context.limits import Limits
from memory.context.meter import Meter
from memory.context.plan import Plan, list_leaving, remove_and_squeeze, summarise_in_front
from memory.context.strategies import STRATEGIES
from memory.context.strategies.split import plan_structured, split
from memory.context.summary import Style
from memory.context.view import View, clip_message, make_stub
from memory.turns import format_turns

ASKED = "asked for by a person"
HELD_TURNS = 5
_ESTIMATES = 3  # how often clips are chosen anew because what stays of a text counts more
HELD_GROWTH = 1.2
"""After an undo nothing is cut automatically for 5 turns, a fifth more tokens, or the ceiling."""


def is_held(view: View, limits: Limits, move: ViewEvent | None) -> bool:
    """Return whether a person has just taken a cut back, said no to one, or opened a summary (by
    `ReplayedState.move`), so that none is made for a while."""
    if move is None or move.name not in ("undo", "hold", "expand") or not view.turns:
        return False
    return (
        view.turns[-1].number - move.turn < HELD_TURNS
        and view.tokens < move.tokens_after * HELD_GROWTH
        and view.tokens <= limits.ceiling
    )


async def measure(change: Change, view: View, meter: Meter) -> Change:
    """Return the change with its clips and stubs counted instead of estimated; a stub that would be
    no shorter than its result is left out."""
    if not (change.clip or change.stub):
        return change
    entries = {entry.seq: (entry, turn) for turn in view.whole for entry in turn.entries}
    sizes = {seq: await meter.message(make_stub(*entries[seq])) for seq in change.stub}
    stubs = {seq: tokens for seq, tokens in sizes.items() if tokens < entries[seq][0].tokens}
    clips = {}
    for seq, clip in change.clip.items():
        shown = clip_message(entries[seq][0].message, clip)
        clips[seq] = replace(clip, tokens=await meter.message(shown))
    return replace(change, clip=clips, stub=stubs)


async def step_of_ladder(view: View, limits: Limits, step: int, meter: Meter) -> Plan:
    """Return the plan of this step of the emergency ladder, with its clips counted, and made
    smaller where the estimate by which they were chosen was too low."""
    plan = emergency.plan(view, limits, step)
    for _ in range(_ESTIMATES if plan.change.clip else 0):
        change = await measure(plan.change, view, meter)
        more = emergency.clip_further(view.apply(change), limits, step)
        plan = replace(plan, change=change.combine(more))
        if more.is_empty:
            break
    return plan


def restart(view: View, limits: Limits) -> Plan | None:
    """Plan the restart under `trim` (CowAgent): the last `max(3, turns // 6)` turns stay, of each
    the user's text and the final reply; a turn that was cut short goes on as it was."""
    complete = view.movable
    stay = max(3, limits.max_turns // 6)
    leaving = complete[:-stay] if len(complete) > stay else ()
    shorter = [turn for turn in complete[len(leaving) :] if turn.squeezed != turn.entries]
    why = f"the bot was restarted and restored the last {stay} turns, as text"
    return remove_and_squeeze(view, leaving, shorter, why)


def describe_restart(event: ViewEvent, view: View, turn: int) -> str:
    """Describe for a person what a restart removed from the context, as the turn of this number is
    answered."""
    stayed = format_turns([one.number for one in view.turns if one.number < turn])
    gone, text = format_turns(event.leaving), format_turns(event.change.turns("squeezed"))
    parts = [f"{gone} were set aside" if gone else "", f"{text} go on without their tool results"]
    what = " and ".join(part for part in (parts if text else parts[:1]) if part)
    return (
        f"(The bot was restarted with `restore: recent`, so it goes on with {stayed}; {what}. "
        "`/context undo` brings everything back.)"
    )


def plan_all(view: View, focus: str) -> Plan | None:
    """Plan `/context compact`: it removes all complete turns but the newest, and the activity log's
    lines."""
    leaving = view.movable[:-1] or view.movable
    if not leaving:
        return None
    numbers = tuple(sorted({*view.logged, *list_leaving(view, leaving)}))
    return _plan_asked(view, summarise_in_front(view, numbers), numbers, focus)


def plan_range(view: View, numbers: Collection[int], focus: str) -> Plan | None:
    """Plan a summary in the middle: all complete turns of these that are in context leave, but for
    pinned ones. A summary that stands for one of them goes into the new one with all that it stands
    for."""
    wanted = frozenset(numbers)
    turns = [turn for turn in view.movable if turn.number in wanted]
    swallowed = [one for one in view.loose if not wanted.isdisjoint(one.turns)]
    if len(turns) + len(swallowed) < (1 if turns else 2):
        return None  # one summary alone is what it would become again
    gone = {turn.number for turn in turns}.union(*(one.turns for one in swallowed))
    leaving = tuple(sorted(gone))
    return _plan_asked(view, Change(give(leaving, RANGE)), leaving, focus)


def _plan_asked(view: View, change: Change, leaving: tuple[int, ...], focus: str) -> Plan:
    why = f"{ASKED}: {focus}" if focus else ASKED
    return Plan(change, why, leaving, view.apply(change).tokens, focus=focus)


def plan_split(
    view: View, limits: Limits, strategy: str, keep_recent: int, summary_max_tokens: int, why: str
) -> Plan | None:
    """Plan Digitorn's action compact_context ("" and 0: as the settings say): all but the last
    messages leave, with a reminder or a recap in their place."""
    made = split(view, keep_recent or limits.context.keep_recent, why or "a rule asked for it")
    chosen = strategy or ("truncate" if limits.strategy == "truncate" else "summarize")
    once = (("summary_max_tokens", summary_max_tokens),) if summary_max_tokens else ()
    return made and replace(made, strategy=chosen, style=STRATEGIES[chosen].style, once=once)


def plan_once(view: View, limits: Limits, config: Mapping[str, Any]) -> Plan | None:
    """Plan what AgentScope's compress_context() does with these limits for one call."""
    made, once = plan_structured(view, limits.but(**config)), tuple(sorted(config.items()))
    return made and replace(made, strategy="structured", style="structured", once=once)


class SummarySpec(Struct, frozen=True):
    """The request that a summary must be made for; a prepared one serves for exactly this and
    nothing else.

    `after` is the event whose summary it continues (0: none), and `edited` the summary that a
    person has put in that one's place (0: none); `once` are limits, as (name, value), that hold for
    it alone; `ranges` are the summaries of some of the turns until then, each by the event by
    which those were removed, and by its id (0: it is still to be written). `until` is the last
    entry of the newest of the turns that it reads (0: that turn is out of context), since a summary
    of half a turn must not stand for all of it.
    """

    turns: tuple[int, ...]
    after: int
    focus: str
    pinned: frozenset[int]
    style: Style = "notes"
    once: tuple[tuple[str, Any], ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    edited: int = 0
    until: int = 0


def style_of(plan: Plan, limits: Limits, actor: Actor) -> Style:
    """Return the style of the summary of the turns that this plan removes. In an emergency
    `truncate` and `summarize` ask no model, since it has just refused (Digitorn); a person who asks
    for a summary gets one."""
    if plan.style:
        return plan.style
    strategy = STRATEGIES[limits.strategy]
    if plan.change.rolled and not plan.change.makes("summary"):
        return "lines"
    if actor == "strategy":
        return strategy.style
    if actor == "emergency":
        return "reminder" if strategy.by_rule else "notes"
    return strategy.style if strategy.style in ("recap", "structured") else "notes"
