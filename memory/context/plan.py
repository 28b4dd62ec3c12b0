"""What a strategy wants done: a value that `compaction` carries out, or that is only shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from memory.context.change import Change, Kind
from memory.context.limits import Limits
from memory.context.summary import Style
from memory.context.view import View
from memory.turns import Turn


@dataclass(frozen=True, slots=True)
class Plan:
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
    is: a turn that was kept when others left stands before it."""
    gone = {turn.number for turn in leaving}
    last = max(entry.seq for turn in view.whole if turn.number in gone for entry in turn.entries)
    cut = max(1 + last, view.boundaries.cut, floor)
    keep = {t.number for t in view.turns if t.number not in gone and t.entries[0].seq < cut}
    return Change(cut=cut, keep=frozenset(keep))
