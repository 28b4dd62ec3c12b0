"""The emergency ladder: plans for a request that is longer than the model's window.

Pure. Its steps are taken in order until the request fits, or the provider accepts it:

0. a message of the running turn that is too long by itself is clipped, before anything else is
   removed for it;
1. the oldest turns are removed, as few as needed; under `truncate` and `summarize` all but half of
   `keep_recent` messages are removed first, and no model is called for a summary;
2. (CowAgent) results and user texts are clipped to 10,000 characters, at most 5 turns stay, or all
   pinned ones;
3. only the running turn stays, clipped until it fits.

The model's own calls are clipped last: in the running turn, if nothing else makes it fit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from msgspec.structs import replace

from memory.context.change import Change, Clip, ViewEvent
from memory.context.layout import undoable
from memory.context.meter import Meter
from memory.context.plan import Plan, list_leaving, measure, remove_and_squeeze, summarise_in_front
from memory.context.settings import Limits
from memory.context.view import View
from memory.turns import Entry, Turn, format_turns

LONGEST = 10_000
"""The number of characters to which step 2 clips a tool result or a user's text."""
MOST_TURNS = 5
"""The number of turns that step 2 keeps, including the running one."""
LEAST_KEPT = 4
"""The number of messages kept at least when `keep_recent` is halved (Digitorn)."""
STEPS = (0, 1, 2, 3)
_ESTIMATES = 3  # how often clips are chosen again if the clipped text counts more than estimated
_CLOSE = 0.99  # of the ceiling is filled by clipped texts, since their size is estimated first
_HEADROOM = 0.9  # step 1 stops this far below the ceiling, or the next turn would exceed it again
LEAST_SHOWN = 200
"""The number of characters kept at least of any text of the running turn."""
_NOTICE = 90  # characters of the notices around a clipped text
REASON = "context_overflow"
"""The reason in the events of the ladder (Digitorn)."""
OF_FALLBACK = "context_overflow_of_a_stand_in"
"""The same for the window of a fallback model: its changes are undone once the first model is used
again."""
DOUBTED = "context_overflow_perhaps"
"""The same for a refusal with an unknown reason, after which the request was sent once with
less."""
PASSING = (OF_FALLBACK, DOUBTED)
"""The reasons for which messages are out of context for one turn only."""
REASONS = (REASON, *PASSING)


class RequestTooLong(Exception):
    """The error of a request that can't be made to fit. The text gives the sizes, and the settings
    to change."""


def plan(view: View, limits: Limits, step: int) -> Plan:
    """Plan this step of the ladder; the plan may change nothing."""
    change = _STEPS[step](view, limits)
    after = view.apply(change)
    stay = {turn.number: len(turn.entries) for turn in after.turns}
    leaving = tuple(t.number for t in view.turns if stay.get(t.number, 0) < len(t.entries))
    removed = (one for one in view.layout.ranges if one not in after.layout.ranges)
    leaving = tuple(sorted({*leaving, *(turn for one in removed for turn in one.turns)}))
    if leaving and not change.makes("summary"):
        change = summarise_in_front(view, ()).combine(change)
    return Plan(change.with_own_summaries(leaving), REASON, leaving)


async def step_of_ladder(view: View, limits: Limits, step: int, meter: Meter) -> Plan:
    """Return the plan of this step of the emergency ladder, with its clips counted. They are made
    smaller if the estimate by which they were chosen was too low."""
    made = plan(view, limits, step)
    for _ in range(_ESTIMATES if made.change.shortened[0] else 0):
        change = await measure(made.change, view, meter)
        more = clip_further(view.apply(change), limits, step)
        made = replace(made, change=change.combine(more))
        if more.is_empty:
            break
    return made


def is_hopeless(view: View, limits: Limits, change: Change | None = None) -> bool:
    """Return whether system prompt, tools and the running turn alone exceed the ceiling, however
    much that turn is clipped. Then no step can help, so none is taken. `change` is the last step's,
    counted; None: as estimated."""
    if view.tokens <= limits.ceiling:
        return False  # the usual case
    after = view.apply(_all_but_the_current(view, limits) if change is None else change)
    own = sum(turn.tokens for turn in after.turns if turn.number == view.current)
    raw = view.prefix.system + view.prefix.tools + own
    return view.scale.tokens(raw) > limits.ceiling


def halve(view: View, limits: Limits, why: str) -> Plan | None:
    """Plan the removal of all but half of `keep_recent` messages (Digitorn's emergency_compact),
    turn by turn. A turn across that limit is squeezed, so that no half turn stays. Return None if
    nothing would be removed."""
    messages = sum(len(turn.entries) for turn in view.turns)
    stay = max(LEAST_KEPT, limits.context.keep_recent // 2)
    leaving, across = list[Turn](), list[Turn]()
    for turn, end in zip(view.turns, accumulate(len(t.entries) for t in view.turns), strict=True):
        if turn not in view.movable:
            continue
        if end <= messages - stay:
            leaving.append(turn)
        elif end - len(turn.entries) < messages - stay and turn.squeezed != turn.entries:
            across = [turn]
    return remove_and_squeeze(view, leaving, across, why)


def no_room(view: View, limits: Limits) -> RequestTooLong:
    """Return the error of a request that can't be made to fit."""
    part = view.scale.part
    return RequestTooLong(
        f"The model's window of {limits.window:,} tokens is too small: the system prompt has "
        f"{part(view.prefix.system):,} tokens, the tools {part(view.prefix.tools):,}, the running "
        f"turn {part(_current(view)):,}, and {limits.window - limits.ceiling:,} are reserved for "
        "the reply. Choose a model with a larger window, raise context.max_tokens, shorten "
        "system_prompt, or say less at once."
    )


def describe(
    events: Sequence[ViewEvent], view: View, limits: Limits, turn: int, refused: int = 0
) -> str:
    """Describe for the person, in a sentence, what the ladder did in the turn of this number, from
    the events of that turn; "" if none is in force. `refused` is the window that a refusal named
    (0: none). Without one, the model's window is given as the cause only if the meter exceeds
    it."""
    standing = undoable(events)
    steps = [event for event in standing if event.reason in REASONS]
    if not steps:
        return ""
    since = len(standing) - standing.index(steps[0])
    times = f" ({since} times)" if since > 1 else ""
    done = _describe_done(steps, view, turn)
    if all(event.reason == OF_FALLBACK for event in steps):
        return (
            f"(This request was too long for the fallback model: {done}. Nothing is deleted, and "
            "it comes back with your first message that the usual model can answer.)"
        )
    if all(event.reason in PASSING for event in steps):
        return (
            "(The provider refused this request for an unclear reason; it was sent again with "
            f"less: {done}. Nothing is deleted, and it comes back with your next message.)"
        )
    fitted = 0 < steps[0].tokens_before <= limits.ceiling
    window = refused or (0 if fitted else limits.window)
    if not window:
        return (
            f"(The model refuses requests as long as this one: {done}. Nothing is deleted. With "
            f"another model, `/context undo`{times} brings it back.)"
        )
    return (
        f"(This request was too long for the model's window of {window:,} tokens: "
        f"{done}. Nothing is deleted. Once there is room for it, "
        f"with a larger window (`context.max_tokens`) or another model, `/context undo`{times} "
        "brings it back.)"
    )


def _describe_done(steps: Sequence[ViewEvent], view: View, turn: int) -> str:
    there = {one.number for one in view.turns}
    removed = sorted({number for event in steps for number in event.leaving} - there)
    squeezed = sorted({n for event in steps for n in event.change.turns("squeezed")} & there)
    entries = (
        entry
        for one in view.whole
        for entry in one.entries
        if any(event.change.clips(entry.seq) for event in steps)
    )
    clipped = {entry.message.role if entry.turn == turn else "earlier" for entry in entries}
    parts = [
        f"{format_turns(removed)} removed from the context" if removed else "",
        f"of {format_turns(squeezed)} only the question and the reply stayed" if squeezed else "",
        *(part for role, part in _CLIPPED.items() if role in clipped),
    ]
    return ", and ".join(filter(None, parts))


_CLIPPED = {
    "user": "the model saw your message with a part of it left out",
    "tool": "long tool results were shortened",
    "assistant": "the model's own tool calls were too long and were shortened",
    "earlier": "long texts of earlier turns were shortened",
}


def _first_cut(view: View, limits: Limits) -> Change:
    """Remove as little as needed; `truncate` and `summarize` halve `keep_recent` first
    (Digitorn)."""
    if limits.strategy not in ("truncate", "summarize"):
        return _remove_fewest(view, limits)
    cut = halve(view, limits, "")
    change = cut.change if cut else Change()
    return change.combine(_remove_fewest(view.apply(change), limits))


def _remove_fewest(view: View, limits: Limits) -> Change:
    aim = int(limits.ceiling * _HEADROOM)
    after, leaving = view, 0
    while after.tokens > aim and leaving < len(view.movable):
        leaving += 1
        after = view.apply(_remove(view, view.movable[:leaving]))
    is_needed = leaving or (after.tokens > aim and view.loose)
    return _remove(view, view.movable[:leaving]) if is_needed else Change()


def _remove(view: View, turns: Sequence[Turn]) -> Change:
    return summarise_in_front(view, list_leaving(view, turns))


def _clip_current(view: View, limits: Limits) -> Change:
    """Clip the long texts of the running turn, if that turn is too long by itself."""
    return _clips_that_fit(view, limits, _all_but_the_current_cut(view))


def _clips_that_fit(view: View, limits: Limits, others: Change) -> Change:
    """Clip the running turn's texts and results if it does not fit even with `others`, the change
    that removes everything else; clip its calls too if they alone are too long."""
    if view.apply(others).tokens <= limits.ceiling:
        return Change()
    clips = _find_even_clips(view, limits, others, has_calls=False)
    if view.apply(others.combine(clips)).tokens <= limits.ceiling:
        return clips
    return _find_even_clips(view, limits, others, has_calls=True)


def _find_even_clips(view: View, limits: Limits, others: Change, *, has_calls: bool) -> Change:
    """Clip to one length: the longest with which everything else may stay; or, if there is much
    else, the longest with which the turn fills half of the ceiling."""

    def clips(chars: int) -> Change:
        return _clips(view, limits, chars, only=view.current, has_calls=has_calls)

    def is_fitting(chars: int) -> bool:
        change = clips(chars)
        beside, alone = view.apply(change), view.apply(others.combine(change))
        return beside.tokens <= most or alone.tokens <= most // 2

    most = int(limits.ceiling * _CLOSE)
    current = (entry.message for entry in view.entries if entry.turn == view.current)
    texts = (text for message in current for text in message.texts)
    longest = max(map(len, texts), default=0)
    cut = bisect_left(range(longest), True, key=lambda cut: is_fitting(longest - cut))
    return clips(max(LEAST_SHOWN, longest - cut))


def clip_further(view: View, limits: Limits, step: int) -> Change:
    """Return the further clips that are needed once the clips of a step are counted."""
    return _clip_current(view, limits) if step in (0, 3) else Change()


def _aggressively(view: View, limits: Limits) -> Change:
    change = _clips(view, limits, LONGEST)
    surplus = view.movable[: max(0, len(view.turns) - MOST_TURNS)]
    return change.combine(_remove(view, surplus)) if surplus else change


def _all_but_the_current(view: View, limits: Limits) -> Change:
    change = _all_but_the_current_cut(view)
    return change.combine(_clips_that_fit(view, limits, change))


def _all_but_the_current_cut(view: View) -> Change:
    """Remove all turns but the running one, pinned ones and all range summaries, too."""
    numbers = {turn.number for turn in view.complete}
    leaving = numbers.union(*(one.turns for one in view.layout.ranges))
    return summarise_in_front(view, leaving) if leaving else Change()


def _clips(
    view: View, limits: Limits, chars: int, only: int = 0, *, has_calls: bool = False
) -> Change:
    """Clip all longer results and user texts, in all turns or in one (`only`), and if `has_calls`
    the model's texts and calls too. `truncate_oversized` may forbid it (Digitorn)."""
    if not limits.context.truncate_oversized:
        return Change()
    clips = {
        entry.seq: _clip(entry, chars, limits.context.snip_oversized)
        for entry in view.entries
        if (not only or entry.turn == only)
        and (has_calls or entry.message.role != "assistant")
        and _is_longer(entry, chars + (_NOTICE if entry.seq in view.layout.clipped else 0))
    }
    return Change.clipping(clips)


def _clip(entry: Entry, chars: int, is_snipped: bool) -> Clip:
    lengths = [len(text) for text in entry.message.texts]
    left = sum(min(length, chars) for length in lengths)
    return Clip(chars, max(1, entry.tokens * left // sum(lengths)), is_snipped)


def _is_longer(entry: Entry, chars: int) -> bool:
    return any(len(text) > chars for text in entry.message.texts)


def _current(view: View) -> int:
    return sum(turn.tokens for turn in view.turns if turn.number == view.current)


_STEPS = {0: _clip_current, 1: _first_cut, 2: _aggressively, 3: _all_but_the_current}
