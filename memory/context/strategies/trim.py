"""`trim` (CowAgent), in its three stages, as the document has them.

1. Tool results in historical turns longer than 20,000 characters keep beginning and end.
2. More turns than the limit: the oldest half of the complete turns is removed.
3. Tokens over the budget: fewer than 5 complete turns are squeezed to question and reply; of 5 or
   more the first half is removed again. Repeated until it fits, and skipped if it never can.

The running turn counts towards both limits and is never changed; pinned turns stay, and a limit
that these two exceed alone removes nothing. Half rounds down: of 21 turns with t21 running, t1 to
t10 are removed.
"""

from __future__ import annotations

from msgspec import Struct, field

from memory.context.change import Change, Clip, ViewEvent
from memory.context.plan import (
    Plan,
    can_help,
    is_filled_by_pins,
    list_leaving,
    remove_and_squeeze,
    squeeze,
    summarise_in_front,
)
from memory.context.settings import Limits
from memory.context.view import View
from memory.turns import format_turns

LONG_RESULT = 20_000
"""The characters up to which a historical tool result stays unchanged."""
FEW = 5
"""The number of complete turns below which they are squeezed before any is removed."""


class _Draft(Struct, frozen=True):
    """A plan under construction: the resulting view, and the changes so far."""

    view: View
    change: Change = field(default_factory=Change)
    leaving: tuple[int, ...] = ()
    why: tuple[str, ...] = ()

    def after(self, change: Change, why: str, leaving: tuple[int, ...] = ()) -> _Draft:
        return _Draft(
            self.view.apply(change),
            self.change.combine(change),
            self.leaving + leaving,
            self.why if why in self.why else (*self.why, why),
        )


def plan(view: View, limits: Limits) -> Plan | None:
    """Plan everything that is due, as one plan, so that it makes one event and one summary."""
    draft = _cut_tokens(_cut_turns(_clip(_Draft(view)), limits), limits)
    if not draft.why:
        return None
    return Plan(draft.change, " and ".join(draft.why), tuple(sorted(draft.leaving)))


def restart(view: View, limits: Limits) -> Plan | None:
    """Plan the restart under `trim` (as CowAgent does): the last `max(3, turns // 6)` turns stay,
    each with the user's text and the final reply; an interrupted turn is resumed unchanged."""
    complete = view.movable
    stay = max(3, limits.max_turns // 6)
    leaving = complete[:-stay] if len(complete) > stay else ()
    shorter = [turn for turn in complete[len(leaving) :] if turn.squeezed != turn.entries]
    why = f"the bot was restarted and restored the last {stay} turns, as text"
    return remove_and_squeeze(view, leaving, shorter, why)


def describe_restart(event: ViewEvent) -> str:
    """Describe for a person what a restart removed from the context."""
    removed, shorter = format_turns(event.leaving), format_turns(event.change.turns("squeezed"))
    parts = [
        f"{removed} removed from the context" if removed else "",
        f"of {shorter} only the question and the reply stayed" if shorter else "",
    ]
    return (
        "(The bot was restarted with `restore: recent`: "
        f"{', and '.join(filter(None, parts))}. `/context undo` brings everything back.)"
    )


def _clip(draft: _Draft) -> _Draft:
    clips = {
        entry.seq: Clip(LONG_RESULT, entry.tokens * LONG_RESULT // len(entry.message.kept_text))
        for turn in draft.view.complete
        for entry in turn.entries
        if entry.message.role == "tool"
        and len(entry.message.kept_text) > LONG_RESULT
        and entry.seq not in draft.view.layout.clipped
    }
    why = f"a tool result of an earlier turn was over {LONG_RESULT:,} characters"
    return draft.after(Change.clipping(clips), why) if clips else draft


def _cut_turns(draft: _Draft, limits: Limits) -> _Draft:
    if is_filled_by_pins(draft.view, limits):
        return draft
    turns = len(draft.view.turns)
    why = f"{turns} turns were over the limit of {limits.max_turns}"
    while limits.has_too_many(len(draft.view.turns)) and draft.view.movable:
        draft = _cut_half(draft, why)
    return draft


def _cut_tokens(draft: _Draft, limits: Limits) -> _Draft:
    if not _is_over(draft, limits) or not can_help(draft.view, limits, limits.budget):
        return draft
    why = f"{draft.view.tokens:,} tokens were over the budget of {limits.budget:,}"
    while _is_over(draft, limits) and (draft.view.movable or draft.view.loose):
        is_few = len(draft.view.complete) < FEW
        squeezed = _squeeze(draft, limits, why) if is_few else draft
        draft = _cut_half(draft, why) if squeezed is draft else squeezed
    return draft


def _is_over(draft: _Draft, limits: Limits) -> bool:
    """Return whether the request would not fit, with room for the summary if turns were removed."""
    room = limits.summary_tokens if draft.leaving else 0
    return draft.view.tokens + room > limits.budget


def _squeeze(draft: _Draft, limits: Limits, why: str) -> _Draft:
    """Squeeze every turn to question and reply, once. If that frees less than a fifth, turns are
    removed too, or the next turn would exceed the budget again."""
    squeezed = draft.after(Change(squeeze(draft.view, draft.view.movable)), why)
    freed = draft.view.tokens - squeezed.view.tokens
    if freed <= 0:
        return draft
    if freed * 5 < draft.view.tokens and not _is_over(squeezed, limits):
        return _cut_half(squeezed, why)
    return squeezed


def _cut_half(draft: _Draft, why: str) -> _Draft:
    movable = draft.view.movable
    leaving = list_leaving(draft.view, movable[: max(1, len(movable) // 2)])
    return draft.after(summarise_in_front(draft.view, leaving), why, leaving)
