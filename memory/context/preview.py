"""What the next request will hold, and what is done to the view before it is sent. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from memory.context import emergency
from memory.context.limits import Limits
from memory.context.plan import Plan
from memory.context.view import Preface, View
from memory.messages import Message
from memory.turns import Entry, Turn

_SOMETIME = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Preview:
    """`now` becomes `then` by `plans`, in this order. `is_ready` says whether the summary of what
    leaves is written already, and so stands in `then`."""

    now: View
    then: View
    plans: tuple[Plan, ...] = ()
    is_ready: bool = False

    def after(self, plan: Plan, ready: Preface | None = None) -> Preview:
        """One plan more, with the summary of what leaves by it where that is ready."""
        then = self.then.moved_by(plan.change)
        if ready is None:
            return replace(self, then=then, plans=(*self.plans, plan))
        return Preview(self.now, replace(then, preface=ready), (*self.plans, plan), True)


def with_question(view: View, preface: Preface | None) -> View:
    """The view when the next turn begins; what will be asked counts nothing yet."""
    last = view.turns[-1].entries[-1].seq if view.turns else 0
    number = view.newest + 1
    question = Entry(last + 1, number, Message("user"), 0, _SOMETIME)
    coming = (Turn(number, (question,)),)
    return replace(
        view,
        whole=view.whole + coming,
        turns=view.turns + coming,
        preface=preface,
        current=number,
        newest=number,
    )


def climbed(preview: Preview, limits: Limits, steps: Sequence[int]) -> Preview:
    """The preview after these steps of the emergency ladder, as far as they have to be taken."""
    for step in steps:
        if step and preview.then.tokens <= limits.ceiling:
            break
        plan = emergency.plan(preview.then, limits, step)
        if not plan.change.is_empty:
            preview = preview.after(plan)
    return preview
