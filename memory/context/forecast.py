"""The forecast of the next compaction: its time, and the turns that it removes. The strategy is
applied to simulated future turns. Also the preview of the next request. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from memory.context import emergency
from memory.context.plan import Plan, Planner, frees_enough
from memory.context.settings import Limits
from memory.context.strategies import STRATEGIES, next_cut, next_plan, stubs
from memory.context.view import LogLine, View
from memory.messages import Message
from memory.turns import Entry, Turn

FARTHEST = 1_024
"""The maximum number of turns of a forecast."""
_SOMETIME = datetime.fromtimestamp(0, UTC)
_ASKED, _READ, _REPLIED = Message("user"), Message("tool"), Message("assistant")
Sizes = tuple[int, int, int]
"""The raw tokens of a question, of a whole turn, and of the tool results in it."""
_TYPICAL = 300  # tokens of a turn if there are none in context
_LINE = 25  # tokens of a line of the activity log


class Preview(Struct, frozen=True):
    """The next request, or the one before which the next compaction is due: `now` becomes `then` by
    `plans`, in this order. `is_ready` says whether the summary of the removed turns is written
    already, and so is in `then`."""

    now: View
    then: View
    plans: tuple[Plan, ...] = ()
    is_ready: bool = False

    def after(self, plan: Plan) -> Preview:
        """Add one more plan."""
        return replace(self, then=self.then.apply(plan.change), plans=(*self.plans, plan))

    @property
    def removed(self) -> tuple[int, ...]:
        """The turns that are removed, or become lines of the log."""
        return tuple(sorted(frozenset().union(*(plan.removed for plan in self.plans))))

    @property
    def freed(self) -> int:
        """The tokens by which the turns become smaller."""
        before, after = (sum(t.tokens for t in view.turns) for view in (self.now, self.then))
        return self.now.scale.part(before - after)


def is_far(view: View, limits: Limits, within: int) -> bool:
    """Return whether a fast check, which nearly always suffices, shows that no turn is removed
    within this many turns of the length of the shortest in context."""
    if limits.strategy in ("slim", "stubs") or not view.turns:
        return False
    if limits.has_too_many(len(view.turns) + within):
        return False
    coming = within * min(turn.tokens for turn in view.turns)
    return view.scale.tokens(view.raw_tokens + coming) < limits.threshold


def certain(view: View, limits: Limits, within: int) -> Plan | None:
    """Return the plan of the next compaction if it is the same for future turns as short as the
    shortest in context and for ones twice as long as the longest: preparing for a wrong plan would
    waste its cost. Return None too if the compaction comes only at the beginning of a later turn,
    and the turn before may fill the window."""
    latest = _find_next(view, limits, within, find_sizes(view, min), next_cut)
    soonest = latest and _find_next(view, limits, within, find_sizes(view, max, times=2), next_cut)
    if latest is None or soonest is None or soonest[0].current != latest[0].current:
        return None
    is_far_off = latest[0].current > view.newest + 1 and STRATEGIES[limits.strategy].by_rule
    longest = max((turn.tokens for turn in view.turns), default=0)
    if is_far_off and view.scale.tokens(view.raw_tokens + 2 * longest) > limits.ceiling:
        return None
    return latest[1] if soonest[1].leaving == latest[1].leaving else None


def forecast(view: View, limits: Limits, within: int = FARTHEST) -> Preview | None:
    """Return the next compaction if future turns are as long as the average of those in context;
    None if none is due `within` this many turns."""
    found = _find_next(view, limits, within, find_sizes(view), next_plan)
    if found is None:
        return None
    later, plan = found
    due = Preview(later, later).after(plan)
    more = next_plan(due.then, limits) if plan.name == "stub" else None
    return due.after(more) if more else due


def _find_next(
    view: View, limits: Limits, within: int, sizes: Sizes, planner: Planner
) -> tuple[View, Plan] | None:
    """Return the next compaction, and the view at the time when it is due."""
    if not stubs.may_stub(limits):
        sizes = sizes[0], sizes[1], 0
    ahead = _make_projection(view, sizes)

    @cache
    def ask(count: int) -> tuple[View, Plan | None]:
        later = ahead(count)
        return later, planner(later, limits)

    def is_due(count: int) -> bool:
        return ask(count)[1] is not None

    reach = 2
    while reach < within and not is_due(reach):  # the nearer it is, the fewer turns are simulated
        reach *= 2
    counts = range(1, min(reach, within) + 1)
    index = bisect_left(counts, True, key=is_due)
    later, plan = ask(counts[index]) if index < len(counts) else (view, None)
    return None if plan is None else (later, plan)


def _make_projection(view: View, sizes: Sizes) -> Callable[[int], View]:
    """Return the function from a number of further turns to the view once they have begun: by then
    the running turn is complete, and the last turn has only its question. Each turn is simulated
    once."""
    now = view
    if view.turns and view.turns[-1].number == view.current:
        running = view.turns[-1]
        seq, left = running.entries[-1].seq + 1, max(sizes[1] - running.tokens, 0)
        over = running.plus(Entry(seq, running.number, _REPLIED, left, _SOMETIME))
        whole = tuple(over if turn.number == over.number else turn for turn in view.whole)
        now = replace(view, whole=whole, turns=(*view.turns[:-1], over), lines=_log(view, [over]))
        now = replace(now, current=0)
    newest = max(view.newest, now.turns[-1].number if now.turns else 0)
    last = _last_seq(now)

    @cache
    def imagine(place: int, is_over: bool) -> Turn:
        number, seq, (asked, whole, most) = newest + place, last + 3 * place - 2, sizes
        results = min(most, whole - asked)
        replied = whole - asked - results
        parts = ((_ASKED, asked), (_READ, results), (_REPLIED, replied))
        entries = tuple(
            Entry(seq + n, number, message, tokens, _SOMETIME)
            for n, (message, tokens) in enumerate(parts[: 3 if is_over else 1])
            if tokens or message is not _READ
        )
        return Turn(number, entries)

    def ahead(count: int) -> View:
        over = [imagine(place, True) for place in range(1, count)]
        later = _with_turns(now, (*over, imagine(count, False)))
        return replace(later, lines=_log(now, over))

    return ahead


def _log(view: View, over: Sequence[Turn]) -> tuple[LogLine, ...]:
    """Return the lines that may be in the activity log once these turns are complete too."""
    new = (LogLine(turn.number, "", _LINE, brief_tokens=_LINE) for turn in over)
    return (*view.lines, *new) if view.rendering == "exchange" else ()


def _with_turns(view: View, coming: tuple[Turn, ...]) -> View:
    """Return the view with these turns added, the last of which is running."""
    whole, turns, last = view.whole + coming, view.turns + coming, coming[-1].number
    return replace(view, whole=whole, turns=turns, current=last, newest=last)


def _last_seq(view: View) -> int:
    """Return the last seq of the view: future turns come after all clipped and cleared turns, and
    after the summaries in place of turns."""
    whole = view.whole[-1].entries[-1].seq if view.whole else 0
    clipped = max((*view.layout.clipped, *view.layout.stubbed), default=0)
    return max(whole, clipped)


def _average(sizes: Sequence[int]) -> int:
    return sum(sizes) // len(sizes)


def find_sizes(
    view: View, pick: Callable[[Sequence[int]], int] = _average, times: int = 1
) -> Sizes:
    """Return the sizes of a turn as those in context are on average; or of the shortest or the
    longest, so many times as long."""
    turns = view.turns
    if not turns:
        return _TYPICAL // 3, _TYPICAL, 0
    asked = times * pick([turn.entries[0].tokens for turn in turns])
    results = times * pick([_count_results(turn) for turn in turns])
    return asked, max(asked, times * pick([turn.tokens for turn in turns])), results


def _count_results(turn: Turn) -> int:
    return sum(entry.tokens for entry in turn.entries if entry.message.role == "tool")


def with_question(view: View) -> View:
    """Return the view at the beginning of the next turn; its question counts no tokens yet."""
    return _make_projection(view, (0, 0, 0))(1)


def apply_emergency_steps(preview: Preview, limits: Limits, steps: Sequence[int]) -> Preview:
    """Return the preview after those of these steps of the emergency ladder that are necessary,
    if they can help."""
    for step in () if emergency.is_hopeless(preview.then, limits) else steps:
        if step and preview.then.tokens <= limits.ceiling:
            break
        plan = emergency.plan(preview.then, limits, step)
        if not plan.change.is_empty and frees_enough(preview.then, plan, limits):
            preview = preview.after(plan)
    return preview
