"""The result of a compaction: the facts that its summary kept, and buttons that add the missing
ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from channels.language import _
from memory.audit.judge import MENDED, NEVER_WRITTEN, REASONS
from memory.context.change import ViewEvent
from memory.keys import ConversationKey
from memory.record.summaries import Summary
from memory.text.receipt import Receipt
from plugins.api import Action, InForce, Reply
from plugins.builtin.context.turns import quote
from plugins.builtin.context.values import phrase, pick
from plugins.wording import clip, literal, sentence, sentences

SHOWN = 8
"""The maximum number of missing facts that are named."""
BUTTONS = 4
KEEP = "/context keep"
OVERTAKEN = (
    "Nothing was done: the context was changed while the summary was being written. Send "
    "the command again."
)


def report(event: ViewEvent, summary: Summary, about: str) -> tuple[str, dict[str, Any]]:
    """Return the text, and the same as data, about a compaction that a person requested; `about` is
    a sentence about its summary."""
    text = phrase(
        event,
        "Compacted {leaving}: {sizes}. {about}\n\n{summary}",
        sizes=phrase(event, "{tokens_before} → {tokens_after} tokens"),
        about=about,
        summary=quote(summary.text),
    )
    data = pick(summary, "model", "name", "receipt", summary=summary.text, turns=event.leaving)
    data |= pick(event, "tokens_before", "tokens_after")
    return "\n\n".join(filter(None, (text, describe(summary.receipt)))), data


def describe(receipt: Receipt | None) -> str:
    """Describe which summary was chosen and why, the facts it kept and those missing; "" if there
    is no receipt."""
    if receipt is None:
        return ""
    return sentences(_describe_choice(receipt), _describe_kept(receipt))


def _describe_choice(receipt: Receipt) -> str:
    """Describe which of the summaries was chosen; "" if it was simply the model's first."""
    kinds = [kind for kind in receipt.findings if kind not in MENDED]
    more = (
        ("open", _("Open requests were added to it.")),
        ("orders", _("Instructions that still apply were added to it.")),
    )
    added = sentences(*(sentence for kind, sentence in more if kind in receipt.findings))
    if not kinds:
        return added if receipt.taken != "extract" else ""
    why = _(", and ").join(_(REASONS[kind]) for kind in kinds if kind in REASONS)
    if receipt.taken == "second":
        sentence = _(
            "The model's second summary is used. The first was rejected, because {why}.", why=why
        )
    elif receipt.taken != "extract":
        sentence = _("The model's summary is used, although {why}.", why=why)
    elif NEVER_WRITTEN.isdisjoint(kinds):
        sentence = _(
            "The summary is sentences copied from the turns. The model's own summary was "
            "rejected, because {why}.",
            why=why,
        )
    else:
        sentence = _("The summary is sentences copied from the turns, because {why}.", why=why)
    return sentences(sentence, added if receipt.taken != "extract" else "")


def _describe_kept(receipt: Receipt) -> str:
    if not receipt.total:
        return ""
    of = phrase(receipt, "The summary keeps {kept} of {total} names and numbers")
    if not receipt.missing:
        return sentence(of)
    named = ", ".join(literal(clip(fact, 40)) for fact in receipt.missing[:SHOWN])
    more = len(receipt.missing) - SHOWN
    return _(
        "{of}; missing: {named}{more}.",
        of=of,
        named=named,
        more=_(", and {n} more", n=more) if more > 0 else "",
    )


def add_in_force(reply: Reply, key: ConversationKey, parts: Sequence[InForce]) -> Reply:
    """Add to a reply about removed turns the parts that stay in force."""
    sentences = [part(key) for part in parts]
    text = "\n\n".join(filter(None, (reply.text, *(text for text, _ in sentences))))
    data: dict[str, Any] = {}
    for _text, more in sentences:
        data |= more
    return replace(reply, text=text, data={**(reply.data or {}), **data})


def shorten(receipt: Receipt | None) -> str:
    """Return "kept 14 of 17", for a line of a list."""
    return (
        phrase(receipt, "kept {kept} of {total} names and numbers")
        if receipt and receipt.total
        else ""
    )


def actions(summary: Summary, *, is_named: bool = False) -> tuple[Action, ...]:
    """Return a button that adds all missing facts, and one for each of the first facts."""
    missing = summary.receipt.missing if summary.receipt else ()
    which = f" {summary.name}" if is_named else ""
    some = [fact for fact in missing if len(fact) <= 40 and "\n" not in fact][:BUTTONS]
    every = Action(_("Add all {n}", n=len(missing)), f"{KEEP}{which}")
    return (
        *([every] if len(missing) > 1 else []),
        *(Action(_("Add {fact}", fact=clip(fact, 24)), f"{KEEP}{which} {fact}") for fact in some),
    )
