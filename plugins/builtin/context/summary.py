"""`/context summary`: show and edit the summary of the removed turns."""

from __future__ import annotations

import re
from typing import Any

from channels.language import _
from memory.record.summaries import Summary
from memory.summary_editor import CurrentSummary, EditedSummary, EditRefused, SummaryEditor
from plugins.api import Action, Ask, CommandError, Form, Reply, refusal
from plugins.builtin.context import receipts
from plugins.builtin.context.show import undo_of
from plugins.builtin.context.turns import quote
from plugins.builtin.context.values import as_data, phrase, pick
from plugins.wording import clip, format_turns, literal, sentence, sentences

EDIT = "/context summary edit"
APPROVE, DECLINE = "/context approve", "/context decline"
WRONG = Action("Correct a fact", "/memory wrong")
"""Ask what is wrong and what is right, and change all places with the wrong text."""
_NUMBER = re.compile(r"s(\d{1,9})(?=\s|$)\s*", re.IGNORECASE)


async def summary(ask: Ask, rest: str) -> Reply:
    """Run `/context summary [s3]` or `/context summary edit [s3] [TEXT]`."""
    word, *more = re.split(r"\s+", rest.strip(), maxsplit=1)
    if word.lower() == "edit":
        return await _edit(ask, more[0] if more else "")
    if not word:
        standing = await ask.conversation.summary.find_default()
        return _show_standing(standing) if standing else await _show_none(ask.conversation.summary)
    if (found := _NUMBER.fullmatch(word)) is None or more:
        raise refusal(
            "/context summary takes nothing, a summary like s3, or edit; not “{rest}”.",
            rest=literal(clip(rest)),
        )
    return await _show_numbered(ask, int(found[1]))


def _show_standing(standing: CurrentSummary) -> Reply:
    one = standing.summary
    parts = (_headline(standing), quote(one.text), receipts.describe(one.receipt))
    return Reply("\n\n".join(filter(None, parts)), _to_data(one, standing), _actions(standing))


async def _show_none(editor: SummaryEditor) -> Reply:
    """Return the answer that there is no summary, or list those in place of ranges."""
    why, actions = _("There is no summary in the context: no turn was summarised."), list[Action]()
    if coming := await editor.find_pending_turns():
        turns = format_turns(coming)
        why = _(
            "There is no summary in the context yet; one of {turns} is being written.", turns=turns
        )
    elif names := [one.summary.name for one in await editor.list_standing()]:
        why = _("There are several summaries: {names}. Name one of them.", names=", ".join(names))
        shown = ((_("Show {name}", name=name), f"/context summary {name}") for name in names[:4])
        actions = [Action(*one) for one in shown]
    return Reply(why, {"summary": None}, tuple(actions))


async def _show_numbered(ask: Ask, number: int) -> Reply:
    editor = ask.conversation.summary
    for standing in await editor.list_standing():
        if standing.summary.number == number:
            return _show_standing(standing)
    found = await editor.find_numbered(number)
    if found is None:
        raise refusal("There is no summary s{number} in this conversation.", number=number)
    text = phrase(
        found,
        "**{name}** of {turns}, {author}; it is not in the context now.\n\n{summary}",
        author=_author(found),
        summary=quote(found.text),
    )
    return Reply(text, _to_data(found))


async def receipt(ask: Ask, rest: str) -> Reply:
    """Run `/context receipt`."""
    standing = await ask.conversation.summary.find_default()
    if standing is None:
        return await _show_none(ask.conversation.summary)
    one = standing.summary
    description = receipts.describe(one.receipt) or _("It had nothing to keep.")
    text = sentences(_headline(standing), description)
    keep = () if standing.coming else receipts.actions(one)
    return Reply(text, {"summary": one.name, "receipt": as_data(one.receipt)}, keep)


def _headline(standing: CurrentSummary) -> str:
    """Return the summary's name, the turns it replaces, its size, author and state."""
    one = standing.summary
    parts = (
        phrase(
            standing,
            "Summary **{name}** replaces {turns}, at their position"
            if standing.is_range
            else "Summary **{name}** replaces {turns}",
            name=one.name,
        ),
        phrase(standing, "{tokens} tokens"),
        _author(one),
        _("made from text from outside (pages, commands, files)") if one.is_untrusted else "",
        _("from your next message on") if standing.is_late else "",
        phrase(standing, "a summary of {coming} is being written, which will replace it")
        if standing.coming
        else "",
    )
    return sentence(" · ".join(filter(None, parts)))


def _author(one: Summary) -> str:
    by = name_author(one)
    return _("{by}, edited by a person", by=by) if one.edits else by


def name_author(one: Summary) -> str:
    """Return the author of a summary, regardless of later edits."""
    return phrase(one, "by {model}") if one.model else _("sentences copied from the turns")


def edit_action(name: str) -> Action:
    return Action(_("Edit"), f"{EDIT} {name}")


def answers(summary: Summary) -> tuple[Action, ...]:
    """Return the buttons that approve or decline a compaction with this summary."""
    name, keep = summary.name, receipts.actions(summary, is_named=True)
    yes = Action(_("Approve"), f"{APPROVE} {name}", question=name)
    no = Action(_("Decline"), f"{DECLINE} {name}", question=name)
    return (yes, edit_action(name), no, *keep)


def _actions(standing: CurrentSummary) -> tuple[Action, ...]:
    edit = () if standing.coming else (edit_action(standing.summary.name),)
    undo = (Action(_("Undo"), f"/context undo e{standing.event}"),) if standing.event else ()
    keep = () if standing.coming else receipts.actions(standing.summary, is_named=standing.is_range)
    return (*edit, *undo, WRONG, *keep)


def _to_data(one: Summary, standing: CurrentSummary | None = None) -> dict[str, Any]:
    where = pick(standing, "turns", "tokens", "is_late", "coming") if standing else {}
    more = {"summary": one.name, "is_edited": bool(one.edits), "stands": standing is not None}
    return pick(one, "text", "turns", "model", "is_untrusted", "receipt") | more | where


async def keep(ask: Ask, rest: str) -> Reply:
    """Run `/context keep [s3] [WORDS]`; without words, add all facts that the summary lacks."""
    number, fact = _split_number(rest)
    try:
        return _report(await ask.conversation.summary.keep(fact, number))
    except EditRefused as error:
        raise CommandError(str(error)) from None


def _split_number(rest: str) -> tuple[int, str]:
    """Return the number of the summary at the beginning of a text (0: none), and the rest."""
    found = _NUMBER.match(rest)
    return (int(found[1]), rest[found.end() :]) if found else (0, rest)


async def _edit(ask: Ask, rest: str) -> Reply:
    number, text = _split_number(rest)
    editor = ask.conversation.summary
    try:
        if text.strip():
            return _report(await ask.conversation.edit_summary(text, number, ask.person.id))
        standing = await editor.find_editable(number)
    except EditRefused as error:
        raise CommandError(str(error)) from None
    one = standing.summary
    if standing.waits_for:
        text = _(
            "Write the new text of {name}. The compaction still waits for your answer after that.",
            name=one.name,
        )
    else:
        text = sentences(_headline(standing), _("Write the new text."))
    data = _to_data(one, None if standing.waits_for else standing)
    return Reply(text, data, form=Form(f"{EDIT} {one.name}", one.text))


def _report(edited: EditedSummary) -> Reply:
    before, after, event = edited.before.name, edited.after, edited.event
    if event is None:
        text = phrase(
            after,
            "Summary {name} will be used once the compaction is done:\n\n{summary}",
            summary=quote(after.text),
        )
        return Reply(text, _to_data(after), answers(after))
    text = phrase(
        event,
        "Summary {name} is used from the next request on: {tokens_before} → {tokens_after} tokens.",
        name=after.name,
    )
    text = "\n\n".join(filter(None, (text, receipts.describe(after.receipt))))
    sizes = pick(event, "tokens_before", "tokens_after")
    data = {**sizes, "summary": after.name, "before": before, "text": after.text}
    more = receipts.actions(after, is_named=edited.is_range)
    return Reply(text, data, (undo_of(event), *more))
