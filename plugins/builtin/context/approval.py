"""Compactions that a person must approve or is notified of: `/context approve` and `/context
decline`."""

from __future__ import annotations

from channels.language import _
from memory.services import CutNotice
from plugins.api import Action, Ask, Reply, refusal
from plugins.builtin.context import receipts
from plugins.builtin.context.overview import hold
from plugins.builtin.context.show import explain_hold, reason
from plugins.builtin.context.steering import to_reply
from plugins.builtin.context.summary import APPROVE, answers, edit_action
from plugins.builtin.context.turns import quote
from plugins.builtin.context.values import as_data, phrase, pick
from plugins.wording import clip, literal, sentences

_NONE = (
    "No compaction is waiting for you. If one was, it was answered or done, or the context "
    "has changed since. /context shows what comes next."
)


def describe(notice: CutNotice) -> Reply:
    """Describe a compaction for a person: it waits for approval, or it was made."""
    made, name, waits = notice.summary, notice.summary.name, not notice.event
    sizes = pick(notice, "turns", "tokens_before", "tokens_after")
    data = {**sizes, "summary": name, "waits": waits, "receipt": as_data(made.receipt)}
    quoted = "\n\n".join(filter(None, (quote(made.text), receipts.describe(made.receipt))))
    if waits:
        question = phrase(
            notice,
            "Compact the context? Summary {name} will replace {turns} ({why}): {tokens_before} → "
            "{tokens_after} tokens.",
            why=reason(notice.why),
            name=name,
        )
        how = _(
            "You can edit the summary first. If you decline, the turns stay in the context. "
            "Without an answer within 10 minutes, or when the context is full, the summary is "
            "used."
        )
        return Reply(f"{question}\n\n{quoted}\n\n{how}", data, answers(made))
    text = phrase(
        notice,
        "{turns} removed from the context ({why}): {tokens_before} → {tokens_after} tokens. {name} "
        "replaces it {when}:",
        "{turns} removed from the context ({why}): {tokens_before} → {tokens_after} tokens. {name} "
        "replaces them {when}:",
        why=reason(notice.why),
        name=name,
        when=_("from your next message on") if notice.is_late else _("now"),
    )
    edit, undo = edit_action(name), Action(_("Undo"), f"/context undo e{notice.event}")
    return Reply(f"{text}\n\n{quoted}", data, (edit, undo, *receipts.actions(made)))


async def approve(ask: Ask, rest: str) -> Reply:
    """Run `/context approve [s5]`; without a name, show the question again."""
    waiting = await _find_waiting(ask, rest)
    if not rest.strip():
        return describe(waiting)
    view = ask.conversation.context.view()
    done = await ask.conversation.compactor.approve()
    if done is None:
        raise refusal(_NONE)
    return to_reply(done, view)


async def decline(ask: Ask, rest: str) -> Reply:
    """Run `/context decline [s5]`."""
    await _find_waiting(ask, rest)
    conversation = ask.conversation
    async with conversation.context.changing:
        await conversation.compactor.approval.decline()
    text = _("Nothing is compacted for now.")
    if until := hold(conversation):
        text = sentences(_("Nothing is compacted."), explain_hold(until))
    return Reply(text, {"declined": True})


async def _find_waiting(ask: Ask, rest: str) -> CutNotice:
    """Return the compaction that waits for approval. Raises CommandError if none waits, or if
    another one is named."""
    name = rest.strip().lower()
    waiting = await ask.conversation.compactor.approval.notice()
    if waiting is None:
        raise refusal(_NONE)
    if name and name != waiting.summary.name:
        raise refusal(
            "“{name}” is not the compaction that waits now: that one has the summary {waiting}. "
            "{approve} shows it. Nothing was done.",
            name=literal(clip(name)),
            waiting=waiting.summary.name,
            approve=APPROVE,
        )
    return waiting
