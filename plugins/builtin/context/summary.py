"""`/context summary`: what stands for the turns that left, shown and changed."""

from __future__ import annotations

import re
from typing import Any

from channels.language import _
from memory.record.summaries import Summary
from memory.summary_editor import EditedSummary, EditRefused, StandingSummary, SummaryEditor
from plugins.api import Action, Ask, CommandError, Form, Reply
from plugins.builtin.context import receipts
from plugins.builtin.context.show import UNDO
from plugins.builtin.context.turns import quote
from plugins.turn_names import ids
from plugins.wording import amount, clip, format_turns, literal

EDIT = "/context summary edit"
WRONG = Action("That's wrong", "/memory wrong ?")
"""Asks what is wrong and what is right, and changes all places that say so."""
_NUMBER = re.compile(r"s(\d{1,9})(?=\s|$)\s*", re.IGNORECASE)


async def summary(ask: Ask, rest: str) -> Reply:
    """`/context summary [s3]`, `/context summary edit [s3] [TEXT]`"""
    word, *more = re.split(r"\s+", rest.strip(), maxsplit=1)
    if word.lower() == "edit":
        return await _edit(ask, more[0] if more else "")
    if not word:
        return await _show(ask)
    if (found := _NUMBER.fullmatch(word)) is None or more:
        raise CommandError(
            _(
                "/context summary takes nothing, a summary like s3, or edit; not “{rest}”.",
                rest=literal(clip(rest)),
            )
        )
    return await _show_numbered(ask, int(found[1]))


async def _show(ask: Ask) -> Reply:
    editor = ask.conversation.summary
    standing = await editor.find_standing()
    if standing is None:
        return await _show_none(editor)
    return Reply(
        "\n\n".join(filter(None, (_headline(standing), *_body(standing.summary)))),
        _to_data(standing.summary, standing),
        _actions(standing),
    )


async def _show_none(editor: SummaryEditor) -> Reply:
    """Say that no summary stands in front, and which ones do in the middle."""
    if coming := await editor.find_coming():
        why = _(
            "There is no summary in the context yet; one of {turns} is being written.",
            turns=format_turns(coming),
        )
    elif names := await editor.names_in_place():
        why = _(
            "There is no summary at the beginning. In the middle: {names}.", names=", ".join(names)
        )
        actions = tuple(
            Action(_("Show {name}", name=name), f"/context summary {name}") for name in names[:4]
        )
        return Reply(why, {"summary": None}, actions)
    else:
        why = _("There is no summary in the context: no turn was summarised.")
    return Reply(why, {"summary": None})


async def _show_numbered(ask: Ask, number: int) -> Reply:
    editor = ask.conversation.summary
    standing = await editor.find_standing()
    if standing is not None and standing.summary.number == number:
        return await _show(ask)
    if (here := await editor.find_in_place(number)) is not None:
        text = "\n\n".join(filter(None, (_headline(here), *_body(here.summary))))
        return Reply(text, _to_data(here.summary, here), _actions(here))
    found = await editor.find_numbered(number)
    if found is None:
        raise CommandError(_("There is no summary s{number} in this conversation.", number=number))
    text = _(
        "**{name}** of {turns}, {author}; it is not in the context now.\n\n{summary}",
        name=found.name,
        turns=format_turns(found.turns),
        author=_author(found),
        summary=quote(found.text),
    )
    return Reply(text, _to_data(found))


async def receipt(ask: Ask, rest: str) -> Reply:
    """`/context receipt`"""
    standing = await ask.conversation.summary.find_standing()
    if standing is None:
        return await _show_none(ask.conversation.summary)
    one = standing.summary
    told = receipts.describe(one.receipt) or _("It had nothing to keep.")
    text = f"{_headline(standing)} {told}"
    keep = () if standing.coming else receipts.actions(one)
    return Reply(text, {"summary": one.name, "receipt": receipts.to_data(one.receipt)}, keep)


def _body(one: Summary) -> tuple[str, str]:
    return quote(one.text), receipts.describe(one.receipt)


def _headline(standing: StandingSummary) -> str:
    """Name the summary, and say what there is to know of it."""
    one = standing.summary
    parts = (
        _(
            "**{name}** replaces {turns}, at their position"
            if standing.is_range
            else "**{name}** replaces {turns}",
            name=one.name,
            turns=format_turns(standing.turns),
        ),
        _("{tokens} tokens", tokens=amount(standing.tokens)),
        _author(one),
        _("made of what came from outside") if one.is_untrusted else "",
        _("from your next message on") if standing.is_late else "",
        _(
            "a summary of {turns} is being written, which will replace it",
            turns=format_turns(standing.coming),
        )
        if standing.coming
        else "",
    )
    return f"{' · '.join(filter(None, parts))}."


def _author(one: Summary) -> str:
    """Name the author of a summary."""
    by = _("by {model}", model=one.model) if one.model else _("extracted without a model")
    return _("{by}, edited by hand", by=by) if one.edits else by


def _actions(standing: StandingSummary) -> tuple[Action, ...]:
    edit = () if standing.coming else (Action(_("Edit"), f"{EDIT} {standing.summary.name}"),)
    undo = (Action(_("Undo"), f"/context undo e{standing.event}"),) if standing.event else ()
    keep = () if standing.coming else receipts.actions(standing.summary, is_named=standing.is_range)
    return (*edit, *undo, WRONG, *keep)


def _to_data(one: Summary, standing: StandingSummary | None = None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "summary": one.name,
        "text": one.text,
        "turns": ids(standing.turns if standing else one.turns),
        "model": one.model,
        "is_edited": bool(one.edits),
        "is_untrusted": one.is_untrusted,
        "stands": standing is not None,
        "receipt": receipts.to_data(one.receipt),
    }
    if standing is None:
        return data
    return data | {
        "tokens": standing.tokens,
        "is_late": standing.is_late,
        "coming": ids(standing.coming),
    }


async def keep(ask: Ask, rest: str) -> Reply:
    """`/context keep [s3] [WORDS]`: without words, all that the summary has left out."""
    found = _NUMBER.match(rest)
    number, fact = (int(found[1]), rest[found.end() :]) if found else (0, rest)
    try:
        return _report(await ask.conversation.summary.keep(fact, number))
    except EditRefused as error:
        raise CommandError(str(error)) from None


async def _edit(ask: Ask, rest: str) -> Reply:
    found = _NUMBER.match(rest)
    number, text = (int(found[1]), rest[found.end() :]) if found else (0, rest)
    editor = ask.conversation.summary
    try:
        if text.strip():
            return _report(await editor.edit(text, number))
        if (waiting := await editor.find_waiting(number)) is not None:
            return _ask_for(waiting[1], editor.longest())
        standing = await editor.find_editable(number)
    except EditRefused as error:
        raise CommandError(str(error)) from None
    one, most = standing.summary, editor.longest(standing.tokens)
    return Reply(
        _(
            "{headline} Write the new text, in at most {most} tokens.",
            headline=_headline(standing),
            most=amount(most),
        ),
        _to_data(one, standing),
        form=Form(f"{EDIT} {one.name}", one.text),
    )


def _ask_for(one: Summary, most: int) -> Reply:
    text = _(
        "Write the new text of {name}, in at most {most} tokens. The compaction still waits "
        "for your answer after that.",
        name=one.name,
        most=amount(most),
    )
    return Reply(text, _to_data(one), form=Form(f"{EDIT} {one.name}", one.text))


def _report_waiting(before: Summary, after: Summary) -> Reply:
    text = _(
        "{name} replaces {other}, and will be used once the compaction is done:\n\n{summary}",
        name=after.name,
        other=before.name,
        summary=quote(after.text),
    )
    actions = (
        Action(_("Approve"), f"/context approve {after.name}", question=after.name),
        Action(_("Edit"), f"{EDIT} {after.name}"),
        Action(_("No"), f"/context decline {after.name}", question=after.name),
    )
    more = receipts.actions(after, is_named=True)
    return Reply(text, _to_data(after), (*actions, *more))


def _report(edited: EditedSummary) -> Reply:
    after, event = edited.after, edited.event
    if event is None:
        return _report_waiting(edited.before, after)
    text = _(
        "{name} replaces {other} from the next request on: {before} → {after} tokens.",
        name=after.name,
        other=edited.before.name,
        before=amount(event.tokens_before),
        after=amount(event.tokens_after),
    )
    data = {
        "summary": after.name,
        "before": edited.before.name,
        "text": after.text,
        "tokens_before": event.tokens_before,
        "tokens_after": event.tokens_after,
    }
    is_in_place = edited.is_range
    return Reply(text, data, (UNDO, *receipts.actions(after, is_named=is_in_place)))
