"""A strategy's plan: a value that `compaction` carries out, or that is only shown."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from memory.context.change import Change, Kind
from memory.context.limits import Limits
from memory.context.summary import Style
from memory.context.view import View
from memory.turns import Turn


class Plan(Struct, frozen=True):
    """`change` says what moves, `why` is the rule in words that a person reads; `tokens_after` is
    the meter's figure once it is carried out.

    `leaving` are the turns that leave by it and are summarised; `kind` is that of the event that it
    becomes. `strategy` made it ("": the one in force), `style` is how they are summarised ("": as
    that one does it), `focus` what the summary is to keep above all; `once` are limits, as (name,
    value), that hold for it alone.
    """

    change: Change
    why: str
    leaving: tuple[int, ...] = ()
    tokens_after: int = 0
    kind: Kind = "compact"
    strategy: str = ""
    style: Style | Literal[""] = ""
    focus: str = ""
    once: tuple[tuple[str, Any], ...] = ()


LEAST_FREED = 1 / 20
"""The share of what stands in the context besides the system prompt and the tools that a plan frees
at least, or it is not carried out. A cut has the provider read all behind it anew, and its summary
is paid: less than this is full again after a message or two, and then both are paid once more."""
_SUMMARY = 1 / 4  # of what leaves is how long its summary is taken to be until it is written


def frees_enough(view: View, plan: Plan, limits: Limits) -> bool:
    """Return whether a plan is worth carrying out, whoever made it, before anything is paid for it.

    Turns that a person names are compared with themselves: they know how much there is besides. A
    request that would be too long may be freed of less where it fits then, and a limit of turns is
    about their number, whatever their size. What `slim` folds and rolls up is bounded by settings
    of its own, and shortening, by which no turn leaves, is done once and asks no model."""
    change = plan.change
    if change.folded or change.rolled:
        return True
    after = view.apply(change)
    gone = view.raw_tokens - after.raw_tokens
    if keeps_turn_limit(view, after, limits):
        return True
    if not plan.leaving or view.tokens > limits.ceiling >= after.tokens:
        return gone > 0
    size = gone if change.stand_in else view.raw_tokens - view.prefix.system - view.prefix.tools
    return gone - _count_growth(view, plan, limits, gone) >= max(1, LEAST_FREED * size)


def keeps_turn_limit(view: View, after: View, limits: Limits) -> bool:
    """Return whether a limit of turns that is exceeded holds after a change."""
    is_limited = limits.strategy == "trim"
    return is_limited and len(view.turns) > limits.max_turns >= len(after.turns)


def _count_growth(view: View, plan: Plan, limits: Limits, gone: int) -> int:
    """Raw tokens by which the text in front grows once these turns are removed."""
    is_in_place = plan.change.stand_in is not None or view.preface is None
    there = 0 if is_in_place or view.preface is None else view.preface.tokens
    return min(max(0, limits.summary_tokens - there), round(_SUMMARY * gone))


def count_staying(view: View) -> int:
    """Return the tokens of a request from which all has left that may: those of the system prompt,
    the tools, pinned turns and the running one."""
    movable = {turn.number for turn in view.movable}
    turns = (turn for turn in view.turns if turn.number not in movable)
    written = (s.summary for s in view.stand_ins if s not in view.loose)
    summed = sum(view.summaries[one].tokens for one in written if one in view.summaries)
    raw = view.prefix.system + view.prefix.tools + sum(turn.tokens for turn in turns) + summed
    return view.scale.tokens(raw)


def can_help(view: View, limits: Limits, threshold: int) -> bool:
    """Return whether it can bring the request below so many tokens that turns leave: not where what
    stays has them by itself, or the system prompt, the tools and a summary do."""
    fixed = view.scale.tokens(view.prefix.system + view.prefix.tools)
    room = min(limits.summary_tokens, threshold // 8)
    return fixed + room < threshold and count_staying(view) < threshold


def is_filled_by_pins(view: View, limits: Limits) -> bool:
    """Return whether pinned turns and the running one are as many as the limit of turns allows, so
    that the newest of the others would leave as soon as it is over."""
    pinned = sum(turn.number in view.boundaries.pinned for turn in view.complete)
    return pinned > 0 and pinned + 1 >= limits.max_turns


def cut_of(view: View, leaving: tuple[Turn, ...], floor: int = 0) -> Change:
    """Return the change that makes exactly these turns leave, at or behind `floor` and the cut that
    there is: a turn that was kept when others left stands before it. The summaries that stand
    between them leave, too, and those behind them where no turn is left that may."""
    gone = {turn.number for turn in leaving}
    seqs = [entry.seq for turn in view.whole if turn.number in gone for entry in turn.entries]
    if all(turn.number in gone for turn in view.movable):
        seqs += [stand_in.seq for stand_in in view.loose]
    cut = max(1 + max(seqs), view.boundaries.cut, floor)
    keep = {t.number for t in view.turns if t.number not in gone and t.entries[0].seq < cut}
    return spare(view, Change(cut=cut, keep=frozenset(keep)))


def spare(view: View, change: Change) -> Change:
    """Return the cut, with the turns of those stand-ins kept that stay where it is made: pinned
    ones, and those that stand behind it for a turn before it."""
    if not view.stand_ins:
        return change
    last = max((t.number for t in view.whole if t.entries[-1].seq < change.cut), default=0)
    staying = (
        s
        for s in view.stand_ins
        if (s.turns[0] <= last if s.seq >= change.cut else s not in view.loose)
    )
    return replace(change, keep=change.keep.union(*(s.turns for s in staying)))


def turns_of_leaving_stand_ins(view: View, change: Change) -> tuple[int, ...]:
    """The turns of those stand-ins that leave by a change."""
    if not view.stand_ins:
        return ()
    stay = {stand_in.seq for stand_in in view.apply(change).stand_ins}
    return tuple(turn for s in view.stand_ins if s.seq not in stay for turn in s.turns)
