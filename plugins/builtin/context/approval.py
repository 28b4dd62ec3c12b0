"""Cuts that a person is asked about, or is shown: `/context approve` and `/context decline`."""

from __future__ import annotations

from channels.language import _
from memory.services import CutNotice
from plugins.api import Action, Ask, CommandError, Reply
from plugins.builtin.context import receipts
from plugins.builtin.context.overview import hold
from plugins.builtin.context.show import explain_hold, reason
from plugins.builtin.context.state import say_of
from plugins.builtin.context.steering import to_reply
from plugins.builtin.context.summary import EDIT
from plugins.builtin.context.turns import quote
from plugins.turn_names import ids
from plugins.wording import amount, clip, literal

APPROVE, DECLINE = "/context approve", "/context decline"
_NONE = (
    "No compaction is waiting for you. If one was, it was answered or done, or the context "
    "has changed since. /context shows what comes next."
)


def describe(notice: CutNotice) -> Reply:
    """Return the notice of a cut for a person: that it waits for them, or that it was made."""
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
    edit = Action(_("Edit"), f"{EDIT} {name}")
    if not notice.event:
        question = say_of(
            notice.turns,
            "Compact the context? {turns} will be removed ({why}): {before} → {after} "
            "tokens. {name} will replace it:",
            "Compact the context? {turns} will be removed ({why}): {before} → {after} "
            "tokens. {name} will replace them:",
            why=reason(notice.why),
            before=before,
            after=after,
            name=name,
        )
        how = _(
            "Send `{approve} {name}` or `{decline} {name}`, or edit the summary first. "
            "Nothing is compacted before you answer, unless ten minutes pass or the model's "
            "window is full.",
            approve=APPROVE,
            decline=DECLINE,
            name=name,
        )
        text = f"{question}\n\n{quoted}\n\n{how}"
        approve, decline = f"{APPROVE} {name}", f"{DECLINE} {name}"
        keep = receipts.actions(notice.summary, is_named=True)
        yes = Action(_("Approve"), approve, question=name)
        no = Action(_("No"), decline, question=name)
        actions = (yes, edit, no, *keep)
        return Reply(text, data, actions)
    said = say_of(
        notice.turns,
        "{turns} removed from the context ({why}): {before} → {after} tokens. {name} "
        "replaces it {when}:",
        "{turns} removed from the context ({why}): {before} → {after} tokens. {name} "
        "replaces them {when}:",
        why=reason(notice.why),
        before=before,
        after=after,
        name=name,
        when=_("from your next message on") if notice.is_late else _("now"),
    )
    text = f"{said}\n\n{quoted}"
    undo = Action(_("Undo"), f"/context undo e{notice.event}")
    return Reply(text, data, (edit, undo, *receipts.actions(notice.summary)))


async def approve(ask: Ask, rest: str) -> Reply:
    """`/context approve [s5]`; without a name it shows the question again."""
    waiting = await _find_waiting(ask, rest)
    if not rest.strip():
        return describe(waiting)
    view = ask.conversation.context.view()
    done = await ask.conversation.compactor.approve()
    if done is None:
        raise CommandError(_(_NONE))
    return to_reply(done, view)


async def decline(ask: Ask, rest: str) -> Reply:
    """`/context decline [s5]`"""
    await _find_waiting(ask, rest)
    conversation = ask.conversation
    async with conversation.context.changing:
        await conversation.compactor.approval.decline()
    until = hold(conversation.context.view(), conversation.context.limits, conversation)
    text = (
        f"{_('Nothing is compacted.')} {explain_hold(until)}"
        if until
        else _("Nothing is compacted for now.")
    )
    return Reply(text, {"declined": True})


async def _find_waiting(ask: Ask, rest: str) -> CutNotice:
    """Return the cut that waits, if it is the one that is named."""
    name = rest.strip().lower()
    waiting = await ask.conversation.compactor.approval.notice()
    if waiting is None:
        raise CommandError(_(_NONE))
    if name and name != waiting.summary.name:
        raise CommandError(
            _(
                "“{name}” is not the compaction that waits now: that one has the summary "
                "{waiting}. {approve} shows it. Nothing was done.",
                name=literal(clip(name)),
                waiting=waiting.summary.name,
                approve=APPROVE,
            )
        )
    return waiting
