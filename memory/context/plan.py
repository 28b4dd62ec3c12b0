"""What a strategy wants done: a value that `compaction` carries out, or that is only shown."""

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


def can_help(view: View, limits: Limits, threshold: int) -> bool:
    """Whether it can bring the request below so many tokens that turns leave: not where the system
    prompt, the tools and a summary have them by themselves."""
    fixed = view.scale.tokens(view.prefix.system + view.prefix.tools)
    return fixed + min(limits.summary_tokens, threshold // 8) < threshold


def cut_of(view: View, leaving: tuple[Turn, ...], floor: int = 0) -> Change:
    """The change that makes exactly these turns leave, at or behind `floor` and the cut that there
    is: a turn that was kept when others left stands before it. The summaries that stand between
    them leave, too, and those behind them where no turn is left that may."""
    gone = {turn.number for turn in leaving}
    seqs = [entry.seq for turn in view.whole if turn.number in gone for entry in turn.entries]
    if all(turn.number in gone for turn in view.movable):
        seqs += [stand_in.seq for stand_in in view.loose]
    cut = max(1 + max(seqs), view.boundaries.cut, floor)
    keep = {t.number for t in view.turns if t.number not in gone and t.entries[0].seq < cut}
    return spare(view, Change(cut=cut, keep=frozenset(keep)))


def spare(view: View, change: Change) -> Change:
    """The cut, with the turns of those stand-ins kept that stay where it is made: pinned ones, and
    those that stand behind it for a turn before it."""
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
