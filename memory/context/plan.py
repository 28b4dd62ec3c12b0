"""A plan of a strategy or a person: a value that `Compactor` carries out, or that is only shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from memory.context.change import Change, Name, name_of
from memory.context.forms import OWN, RANGE, ROLLED, SUMMARY, Forms, TurnForm, assign_form, overlay
from memory.context.layout import RangeSummary
from memory.context.meter import Meter
from memory.context.settings import Limits
from memory.context.summary import Style
from memory.context.view import View, clip_message, make_stub
from memory.turns import Turn, format_turns


class Plan(Struct, frozen=True):
    """A plan. `change` is its effect, `why` its rule in words for a person.

    `leaving` are the turns that it removes and summarises. `strategy` made it ("": the one in
    force), `style` is the style of the summary ("": the strategy's), `focus` the topic that the
    summary must keep above all; `once` are limits, as (name, value), for this plan alone.
    """

    change: Change
    why: str
    leaving: tuple[int, ...] = ()
    strategy: str = ""
    style: Style | Literal[""] = ""
    focus: str = ""
    once: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> Name:
        """The name of its event."""
        return name_of(self.change)

    @property
    def only_tells_lines(self) -> bool:
        """Return whether the daily memory is told of the lines of the log that it removes, as they
        are, and nothing replaces them."""
        return self.change.rolled is not None and not self.change.makes("summary")

    @property
    def removed(self) -> frozenset[int]:
        """The turns that are removed by it, or become lines of the log."""
        return frozenset((*self.leaving, *self.change.turns("line")))


class SummarySpec(Struct, frozen=True):
    """The specification of a summary; a prepared summary is used only for exactly the same one.

    `after` is the event whose summary it continues (0: none), and `edited` the summary by which a
    person has replaced that one (0: none). `once` are limits, as (name, value), for this summary
    alone. `ranges` are the earlier summaries of some of the turns: the event that removed those
    turns, and the summary's id (0: not written yet). `until` is the last entry of the newest turn
    that it reads (0: that turn is out of context), since a summary of half a turn must not replace
    all of it.
    """

    turns: tuple[int, ...]
    after: int = 0
    focus: str = ""
    pinned: frozenset[int] = frozenset()
    style: Style = "notes"
    once: tuple[tuple[str, Any], ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    edited: int = 0
    until: int = 0


Planner = Callable[[View, Limits], Plan | None]
"""A function that returns the plan of what to remove from the view; None for nothing."""
LEAST_FREED = 1 / 20
"""The share of the context, without the system prompt and the tools, that a plan must free, or it
is not carried out. A compaction makes the provider read everything behind it again, and its summary
has a cost. With less freed, the context is full again after a message or two, and both are paid
again."""
_SUMMARY = 1 / 4  # of the removed turns is the assumed length of their summary until it is written


def frees_enough(view: View, plan: Plan, limits: Limits) -> bool:
    """Return whether a plan is worth carrying out, before anything is paid for it. Turns selected
    by a person are compared with their own size, since the person knows the rest. A request that is
    too long may be freed of less if it fits then, and a limit of turns applies to their number,
    whatever their size. The folding of `slim` has settings of its own, and shortening, which
    removes no turn, is done once without a model."""
    change = plan.change
    if change.folds:
        return True
    after = view.apply(change)
    freed = view.raw_tokens - after.raw_tokens
    if keeps_turn_limit(view, after, limits):
        return True
    if not plan.leaving or view.tokens > limits.ceiling >= after.tokens:
        return freed > 0
    size = (
        freed if change.makes("range") else view.raw_tokens - view.prefix.system - view.prefix.tools
    )
    return freed - _count_growth(view, plan, limits, freed) >= max(1, LEAST_FREED * size)


def plan_by(planner: Planner, view: View, limits: Limits) -> Plan | None:
    """Return the plan of a planner, if it frees enough."""
    plan = planner(view, limits)
    return plan if plan is not None and frees_enough(view, plan, limits) else None


def keeps_turn_limit(view: View, after: View, limits: Limits) -> bool:
    """Return whether an exceeded limit of turns is kept after a change."""
    before, now = len(view.turns), len(after.turns)
    return limits.has_too_many(before) and not limits.has_too_many(now)


def _count_growth(view: View, plan: Plan, limits: Limits, freed: int) -> int:
    """Return the raw tokens by which the text in front grows once these turns are removed."""
    is_in_place = plan.change.makes("range") or view.preface is None
    there = 0 if is_in_place or view.preface is None else view.preface.tokens
    return min(max(0, limits.summary_tokens - there), round(_SUMMARY * freed))


def count_staying(view: View) -> int:
    """Return the tokens of a request without everything that can be removed: the system prompt, the
    tools, pinned turns and the running one."""
    movable = {turn.number for turn in view.movable}
    turns = (turn for turn in view.turns if turn.number not in movable)
    written = (s.summary for s in view.layout.ranges if s not in view.loose)
    summed = sum(view.summaries[one].tokens for one in written if one in view.summaries)
    raw = view.prefix.system + view.prefix.tools + sum(turn.tokens for turn in turns) + summed
    return view.scale.tokens(raw)


def can_help(view: View, limits: Limits, threshold: int) -> bool:
    """Return whether removing turns can bring the request below this many tokens. It can't if the
    rest exceeds them alone, or if the system prompt, the tools and a summary do."""
    fixed = view.scale.tokens(view.prefix.system + view.prefix.tools)
    room = min(limits.summary_tokens, threshold // 8)
    return fixed + room < threshold and count_staying(view) < threshold


def is_filled_by_pins(view: View, limits: Limits) -> bool:
    """Return whether pinned turns and the running one fill the limit of turns, so that the newest
    other turn would be removed as soon as it is complete."""
    pinned = sum(turn.number in view.layout.pinned for turn in view.complete)
    return pinned > 0 and 0 < limits.most_turns <= pinned + 1


def find_leaving_ranges(view: View, last: int, removed: Collection[int]) -> list[RangeSummary]:
    """Return the range summaries that are removed along with the turns `removed`, of which `last`
    is the newest: those before it, or all if no other turn can be removed."""
    is_all = all(turn.number in removed for turn in view.movable)
    return [one for one in view.loose if is_all or one.turns[-1] <= last]


def list_leaving(view: View, turns: Collection[Turn]) -> tuple[int, ...]:
    """Return these turns, and those of the range summaries before them, which leave along with
    them."""
    removed = {turn.number for turn in turns}
    ranges = find_leaving_ranges(view, max(removed, default=0), removed)
    return tuple(sorted(removed.union(*(one.turns for one in ranges))))


def remove_and_squeeze(
    view: View, leaving: Collection[Turn], shorter: Collection[Turn], why: str
) -> Plan | None:
    """Return the plan that removes turns, and keeps of others only the question and the reply; None
    if it would change nothing."""
    removed = list_leaving(view, leaving) if leaving else ()
    removal = summarise_in_front(view, removed) if leaving else Change()
    change = removal.with_forms(squeeze(view, shorter))
    return None if change.is_empty else Plan(change, why, removed)


def summarise_in_front(view: View, leaving: Collection[int]) -> Change:
    """Return the change by which turns leave into a summary in front, which continues the one that
    is there."""
    layout, front = view.layout, view.layout.front
    before = layout.after.get(OWN, 0) if front == OWN else front or 0
    rolled = tuple(span for span in layout.forms if span.form == TurnForm("gone", ROLLED))
    summarised = (span for span in layout.forms if span.form.kind == "summary")
    forms = overlay(rolled, tuple(span._replace(form=SUMMARY) for span in summarised))
    return Change(overlay(forms, assign_form(leaving, SUMMARY)), after=before)


def renew(view: View, plan: Plan) -> Change:
    """Return the change of a plan that has waited, by which turns leave into a summary in front: of
    the turns that were summarised when it was made, some may be elsewhere now."""
    change = plan.change
    made = summarise_in_front(view, plan.leaving)
    others = tuple(span for span in change.forms if span.form != SUMMARY)
    return replace(change, forms=made.with_forms(others).forms, after=made.after)


def squeeze(view: View, turns: Iterable[Turn]) -> Forms:
    """Return the forms that keep only the question and the reply of these turns, for those not
    squeezed yet."""
    spans: Forms = ()
    for turn in turns:
        form = view.layout.form(turn.number)
        if form.kind != "squeezed":
            spans = overlay(spans, assign_form([turn.number], form._replace(kind="squeezed")))
    return spans


async def measure(change: Change, view: View, meter: Meter) -> Change:
    """Return the change with its clips and stubs counted instead of estimated. A stub that would
    not be shorter than its tool result is left out."""
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


ASKED = "asked for by a person"


def plan_all(view: View, focus: str) -> Plan | None:
    """Plan `/context compact`: it removes all complete turns but the newest, and the activity log's
    lines."""
    leaving = view.movable[:-1] or view.movable
    if not leaving:
        return None
    numbers = tuple(sorted({*view.logged, *list_leaving(view, leaving)}))
    return _plan_asked(summarise_in_front(view, numbers), numbers, focus)


def plan_range(view: View, numbers: Collection[int], focus: str) -> Plan | None:
    """Plan a summary in the middle: all complete turns of these that are in context leave, but for
    pinned ones. A summary that stands for one of them goes into the new one with all that it stands
    for."""
    wanted = frozenset(numbers)
    turns = [turn for turn in view.movable if turn.number in wanted]
    swallowed = [one for one in view.loose if not wanted.isdisjoint(one.turns)]
    if len(turns) + len(swallowed) < (1 if turns else 2):
        return None  # a new summary of one summary alone would be the same
    removed = {turn.number for turn in turns}.union(*(one.turns for one in swallowed))
    leaving = tuple(sorted(removed))
    return _plan_asked(Change(assign_form(leaving, RANGE)), leaving, focus)


def _plan_asked(change: Change, leaving: tuple[int, ...], focus: str) -> Plan:
    return Plan(change, f"{ASKED}: {focus}" if focus else ASKED, leaving, focus=focus)


Stuck = Literal["", "turns", "pins", "prompt"]
THRESHOLDS = {
    "trim": "agent_max_context_tokens",
    "truncate": "context.compression_trigger",
    "summarize": "context.compression_trigger",
    "structured": "context.trigger_ratio",
}
"""The setting by which turns are removed, for the strategies that are based on tokens."""


def find_stuck(view: View, limits: Limits) -> Stuck:
    """Return which limit can't be kept: pins exceed it by number or by size, or the system prompt
    and the tools exceed it. The running turn is ignored, since it is over soon."""
    is_small = view.tokens + limits.summary_tokens < limits.threshold
    if is_small and not view.layout.pinned:
        return ""  # the usual case
    if is_filled_by_pins(view, limits):
        return "turns"
    over = _when_over(view)
    if limits.strategy not in THRESHOLDS or not limits.threshold:
        return ""  # with a threshold of 0, every removal helps
    if can_help(over, limits, limits.threshold):
        return ""
    free = replace(over, layout=replace(view.layout, pinned=frozenset()))
    return "pins" if can_help(free, limits, limits.threshold) else "prompt"


def is_over(view: View, limits: Limits) -> bool:
    """Return whether a limit would remove turns, if any could be removed."""
    return limits.has_too_many(len(view.turns)) or view.tokens >= limits.threshold


def explain_stuck(view: View, limits: Limits) -> str:
    """Return the exceeded limit and the remedy, in a sentence for the person; "" if there is
    none."""
    stuck = find_stuck(view, limits)
    if not stuck:
        return ""
    if stuck == "turns" and limits.max_turns == 1:
        return (
            "A pinned turn fills the limit of one turn, so it removes no turn any more. Unpin it "
            "with `/context unpin`, or raise `agent_max_context_turns`."
        )
    if stuck == "turns":
        return (
            f"The pinned turns fill the limit of {limits.max_turns} turns, so it removes no turn "
            "any more. Unpin some with `/context unpin`, or raise `agent_max_context_turns`."
        )
    setting, threshold = THRESHOLDS[limits.strategy], limits.threshold
    size = count_staying(_when_over(view))
    if stuck == "pins":
        turns = format_turns(sorted({t.number for t in view.turns} & view.layout.pinned))
        return (
            f"`{setting}` compacts at {threshold:,} tokens, but what must stay has {size:,} "
            f"already, with the pinned {turns}. So nothing else is compacted either: unpin some "
            "with `/context unpin`, or raise the limit."
        )
    return (
        f"`{setting}` compacts at {threshold:,} tokens, but the system prompt and the tools "
        "already fill that. So nothing is compacted before the model's window is full; `/context` "
        "says what to change."
    )


def _when_over(view: View) -> View:
    """Return the view without the running turn."""
    return replace(view, turns=view.complete)
