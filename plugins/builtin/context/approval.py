"""Cuts that a person is asked about, or is shown: `/context approve` and `/context decline`."""

from __future__ import annotations

from memory.services import CutNotice
from memory.turns import format_turns
from plugins.api import Action, Ask, CommandError, Reply
from plugins.builtin.context import receipts
from plugins.builtin.context.overview import hold
from plugins.builtin.context.show import explain_hold
from plugins.builtin.context.state import be, ids
from plugins.builtin.context.steering import to_reply
from plugins.builtin.context.summary import EDIT
from plugins.builtin.context.turns import quote
from plugins.wording import amount, clip, literal

APPROVE, DECLINE = "/context approve", "/context decline"
_NONE = (
    "No cut is waiting for you. If one was, it has been answered or made, or the context has "
    "changed since. /context says what comes next."
)


def describe(notice: CutNotice) -> Reply:
    """What a person is told of a cut: that it waits for them, or that it was made."""
    name, sizes = notice.summary.name, (notice.tokens_before, notice.tokens_after)
    before, after = map(amount, sizes)
    told = (quote(notice.summary.text), receipts.describe(notice.summary.receipt))
    quoted = "\n\n".join(filter(None, told))
    data = {
        "summary": name,
        "turns": ids(notice.turns),
        "waits": not notice.event,
        "receipt": receipts.to_data(notice.summary.receipt),
        "tokens_before": notice.tokens_before,
        "tokens_after": notice.tokens_after,
    }
    edit = Action("Edit", f"{EDIT} {name}")
    if not notice.event:
        leaving = be(notice.turns, ("is", "are"))
        place = "their" if notice.turns[1:] else "its"
        text = (
            f"May I make the context smaller? {leaving} to leave ({notice.why}): "
            f"{before} → {after} tokens, with {name} in {place} place:\n\n{quoted}\n\n"
            f"Say `{APPROVE} {name}` or `{DECLINE} {name}`, or change "
            "the summary first. Nothing is cut before you answer, unless ten minutes pass or the "
            "model's window is full."
        )
        approve, decline = f"{APPROVE} {name}", f"{DECLINE} {name}"
        keep = receipts.actions(notice.summary, is_named=True)
        actions = (Action("Approve", approve), edit, Action("No", decline), *keep)
        return Reply(text, data, actions)
    when = "from your next message on" if notice.is_late else "now"
    text = (
        f"{format_turns(notice.turns)} left the context ({notice.why}): {before} → {after} "
        f"tokens. {name} stands for {'them' if notice.turns[1:] else 'it'} {when}:\n\n{quoted}"
    )
    undo = Action("Undo", f"/context undo e{notice.event}")
    return Reply(text, data, (edit, undo, *receipts.actions(notice.summary)))


async def approve(ask: Ask, rest: str) -> Reply:
    """`/context approve [s5]`; without a name it shows the question again."""
    waiting = await _find_waiting(ask, rest)
    if not rest.strip():
        return describe(waiting)
    view = ask.conversation.context.view()
    done = await ask.conversation.compactor.approve()
    if done is None:
        raise CommandError(_NONE)
    return to_reply(done, view)


async def decline(ask: Ask, rest: str) -> Reply:
    """`/context decline [s5]`"""
    await _find_waiting(ask, rest)
    conversation = ask.conversation
    async with conversation.context.changing:
        await conversation.compactor.approval.decline()
    until = hold(conversation.context.view(), conversation.context.limits, conversation)
    text = f"Nothing is cut. {explain_hold(until)}" if until else "Nothing is cut for now."
    return Reply(text, {"declined": True})


async def _find_waiting(ask: Ask, rest: str) -> CutNotice:
    """The cut that waits, if it is the one that is named."""
    name = rest.strip().lower()
    waiting = await ask.conversation.compactor.approval.notice()
    if waiting is None:
        raise CommandError(_NONE)
    if name and name != waiting.summary.name:
        raise CommandError(
            f"“{literal(clip(name))}” is not what waits now: the cut that does has the summary "
            f"{waiting.summary.name}. {APPROVE} shows it. Nothing was done."
        )
    return waiting
