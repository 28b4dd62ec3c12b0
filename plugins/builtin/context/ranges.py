"""Ranges of turns: `/context compact t3-t9`, `/context free t3-t9`; and summaries by their names:
`/context expand s3`, `/context summaries`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from channels.language import _
from memory.context.change import ViewEvent
from memory.context.view import View
from memory.context_editor import ExpandResult
from memory.conversation import Conversation
from memory.record.summaries import Summary
from plugins.api import Action, Ask, CommandError, Reply, refusal
from plugins.builtin.context import receipts
from plugins.builtin.context.overview import hold
from plugins.builtin.context.show import explain_hold, undo_of
from plugins.builtin.context.summary import name_author
from plugins.builtin.context.values import phrase, pick, sentence_about
from plugins.turn_names import turns_of
from plugins.wording import amount, amounts, clip, format_turns, literal, sentences

SHOWN = 20
"""The maximum number of lines of the tree that are shown; `data` has all."""

Turns = tuple[int, ...]


# --- a summary that replaces turns ----------------------------------------------------------------


async def compact_range(ask: Ask, numbers: Turns, focus: str) -> Reply:
    """Run `/context compact t3-t9 [focus]`."""
    conversation = ask.conversation
    view, named = conversation.context.view(), await _names(conversation)
    compacted = await conversation.compactor.compact_range(numbers, focus)
    if compacted is None:
        raise CommandError(_explain_nothing(numbers, view, named))
    if compacted.is_overtaken:
        raise refusal(receipts.OVERTAKEN)
    event, summary = compacted.event, compacted.summary
    if event is None or summary is None:
        text = _(
            "Nothing was changed: a summary of {turns} would not make the context smaller.",
            turns=format_turns(numbers),
        )
        return Reply(text, {"turns": []})
    place = sentence_about(
        event.leaving,
        "The summary {name} ({who}) replaces it.{besides}",
        "The summary {name} ({who}) replaces them.{besides}",
        name=summary.name,
        who=name_author(summary),
        besides=_explain_rest(event, numbers, view, named),
    )
    text, data = receipts.report(event, summary, place)
    opened = Action(_("Expand"), f"/context expand {summary.name}")
    return Reply(text, data, (opened, undo_of(event), *receipts.actions(summary, is_named=True)))


async def free_range(ask: Ask, numbers: Turns) -> Reply:
    """Run `/context free t1-t9`."""
    conversation = ask.conversation
    view, named = conversation.context.view(), await _names(conversation)
    event = await conversation.compactor.free_range(numbers)
    if event is None:
        raise CommandError(_explain_nothing(numbers, view, named))
    data = describe_freed(event)
    text = phrase(
        event,
        "Freed about {freed} tokens: {leaving} was removed from the context ({tokens_before} → "
        "{tokens_after}). Its summary is written in the background and is used from your next "
        "message on; /context undo restores the turn.{rest}",
        "Freed about {freed} tokens: {leaving} were removed from the context ({tokens_before} → "
        "{tokens_after}). Their summary is written in the background and is used from your next "
        "message on; /context undo restores the turns.{rest}",
        freed=amount(data["freed"]),
        rest=_explain_rest(event, numbers, view, named),
    )
    return Reply(text, data, (undo_of(event),))


def describe_freed(event: ViewEvent) -> dict[str, Any]:
    """Return the turns and tokens that an event has removed, as data."""
    freed = event.tokens_before - event.tokens_after
    return pick(event, "tokens_before", "tokens_after", turns=event.leaving, freed=freed)


def _explain_nothing(numbers: Turns, view: View, named: Mapping[int, str]) -> str:
    inside = [s for s in view.layout.ranges if not set(numbers).isdisjoint(s.turns)]
    if len(inside) == 1:
        (one,) = inside
        summary = named.get(one.summary) or _("a summary that is being written")
        return phrase(
            one, "Nothing was changed: {summary} already replaces {turns}.", summary=summary
        )
    reasons = sentences(*_explain_staying(numbers, view))
    nothing = _("Nothing was changed")
    return _("There is nothing to compact: {reasons}", reasons=reasons) if reasons else nothing


def _explain_rest(event: ViewEvent, numbers: Turns, view: View, named: Mapping[int, str]) -> str:
    """Describe the turns of a range that stay, and the summaries that were merged into the new
    one."""
    swallowed = [s for s in view.layout.ranges if not set(event.leaving).isdisjoint(s.turns)]
    within = [
        phrase(
            one,
            "{summary} ({turns}) went into it whole.",
            summary=named.get(one.summary) or _("the summary"),
        )
        for one in swallowed
    ]
    rest = tuple(n for n in numbers if n not in event.leaving)
    return "".join(f" {sentence}" for sentence in (*within, *_explain_staying(rest, view)))


def _explain_staying(numbers: Turns, view: View) -> list[str]:
    """Return the reasons why these turns stay as they are, in sentences."""
    there = {turn.number for turn in view.turns}
    pinned = tuple(n for n in numbers if n in view.layout.pinned and n in there)
    missing = tuple(n for n in numbers if n not in there)
    sentences = (
        view.current in numbers and phrase(view, "t{current} is being answered, and stays."),
        pinned
        and sentence_about(
            pinned, "{turns} is pinned, and stays.", "{turns} are pinned, and stay."
        ),
        missing
        and sentence_about(
            missing,
            "{turns} is not in context (see /context turns).",
            "{turns} are not in context (see /context turns).",
        ),
    )
    return [sentence for sentence in sentences if isinstance(sentence, str)]


# --- summaries, and the turns that they replace ---------------------------------------------------


class SummaryNode(Struct, frozen=True):
    """A summary in the context, or one that was merged into such a summary. `turns` are the turns
    that it represents, including those of `inside`, the summaries merged into it. `place` is its
    position."""

    summary: Summary
    turns: Turns
    inside: tuple[Summary, ...]
    place: str

    @property
    def fresh(self) -> Turns:
        """Return the turns that it represents directly, without those of `inside`."""
        summarised = {turn for one in self.inside for turn in one.turns}
        return tuple(turn for turn in self.summary.turns if turn not in summarised)


PLACES = FRONT, IN_PLACE, INSIDE = "at the beginning", "at its position", "inside"


def build_tree(view: View, made: Mapping[int, Summary]) -> list[SummaryNode]:
    """Return the summaries in the context, each before those that were merged into it."""
    bounds = view.layout
    roots = [(bounds.preface, FRONT), *((s.summary, IN_PLACE) for s in bounds.ranges)]
    standing = {s.summary: s.turns for s in bounds.ranges}  # some may be back in context
    nodes: list[SummaryNode] = []
    waiting = [(made[one], place) for one, place in reversed(roots) if one in made]
    seen = set[int]()
    while waiting:
        summary, place = waiting.pop()
        if summary.id in seen:
            continue
        seen.add(summary.id)
        found = (made[i] for i in (summary.prior, *summary.ranges) if i in made)
        inside = tuple(sorted(found, key=lambda one: one.turns[:1]))
        turns = {turn for one in _below(summary, made) for turn in one.turns}
        stood_for = standing.get(summary.id) or tuple(sorted(turns))
        nodes.append(SummaryNode(summary, stood_for, inside, place))
        waiting += ((one, INSIDE) for one in reversed(inside))
    return nodes


def _below(summary: Summary, made: Mapping[int, Summary]) -> Iterator[Summary]:
    """Yield a summary and those that it continues."""
    one: Summary | None = summary
    while one is not None:
        yield one
        one = made.get(one.prior)


async def _tree(conversation: Conversation) -> list[SummaryNode]:
    made = {one.id: one for one in await conversation.compactor.summaries.read_all()}
    return build_tree(conversation.context.view(), made)


async def _names(conversation: Conversation) -> dict[int, str]:
    return {one.id: one.name for one in await conversation.compactor.summaries.read_all()}


async def show_summaries(ask: Ask, rest: str) -> Reply:
    """Run `/context summaries`."""
    del rest
    nodes = await _tree(ask.conversation)
    coming = [one for one in ask.conversation.context.layout.ranges if not one.summary]
    if not nodes and not coming:
        return Reply(_("There is no summary in the context."), {"summaries": []})
    lines = [_line(node) for node in nodes]
    lines += [phrase(one, "- one of {turns} is being written") for one in coming]
    text = "\n".join(lines[:SHOWN])
    if len(lines) > SHOWN:
        text += _("\n\n{n} more went into these.", n=len(lines) - SHOWN)
    if nodes:
        text += _("\n\n`/context expand s…` opens one into its turns.")
    names = [node.summary.name for node in nodes if node.place != INSIDE][-4:]
    opened = (Action(_("Expand {name}", name=name), f"/context expand {name}") for name in names)
    return Reply(text, {"summaries": [_data(node) for node in nodes]}, (*opened,))


def _line(node: SummaryNode) -> str:
    one = node.summary
    made_of = [other.name for other in node.inside]
    if node.inside and node.fresh:
        made_of.append(format_turns(node.fresh))
    text = (
        f"**{one.name}** {_(node.place)}",
        f"{format_turns(node.turns)}{' ← ' + ' + '.join(made_of) if node.inside else ''}",
        phrase(one, "{tokens} tokens"),
        phrase(one, "by {model}") if one.model else _("an extract"),
        _("edited") if one.edits else "",
        _("about {focus}", focus=literal(clip(one.focus, 60))) if one.focus else "",
    )
    return f"{'  ' if node.place == INSIDE else ''}- {' · '.join(filter(None, text))}"


def _data(node: SummaryNode) -> dict[str, Any]:
    one = node.summary
    made_of, edited = [other.name for other in node.inside], bool(one.edits)
    more = pick(one, "tokens", "model", "focus", own_turns=one.turns, is_edited=edited)
    return pick(node, "place", "turns", name=one.name, made_of=made_of) | more


# --- expanding summaries --------------------------------------------------------------------------


_NAME = re.compile(r"s\d{1,9}", re.IGNORECASE)


async def expand(ask: Ask, rest: str) -> Reply:
    """Run `/context expand s3` or `/context expand t3-t9`."""
    words = rest.replace(",", " ").split()
    if not words:
        return await show_summaries(ask, "")
    conversation = ask.conversation
    nodes = await _tree(conversation)
    chosen = [_find(word, nodes) for word in words if _NAME.fullmatch(word)]
    numbers = {turn for node in chosen for turn in node.summary.turns}
    others = " ".join(word for word in words if not _NAME.fullmatch(word))
    numbers.update(turns_of(others, conversation.context.newest))
    before = conversation.context.view()
    opened = await conversation.editor.expand(numbers)
    what = ", ".join(node.summary.name for node in chosen)
    if opened.event is None:
        raise CommandError(_explain_closed(opened, tuple(sorted(numbers)), before))
    return _report_expanded(what, opened, before, ask)


def _find(name: str, nodes: Sequence[SummaryNode]) -> SummaryNode:
    for node in nodes:
        if node.summary.name == name.lower():
            return node
    names = ", ".join(node.summary.name for node in nodes[:SHOWN])
    raise refusal(
        "There is no summary {name} in the context; {there} (see /context summaries). Nothing "
        "was changed.",
        name=name.lower(),
        there=_("it has {names}", names=names) if names else _("it has none"),
    )


def _explain_closed(opened: ExpandResult, numbers: Turns, view: View) -> str:
    if opened.left:
        return _(
            "Nothing was changed: t{newest} alone does not fit. There is room for {room} tokens; "
            "compact or drop other turns first, or raise the limit.",
            newest=opened.left[-1],
            room=amount(opened.room),
        )
    if opened.away:
        return _explain_removed(opened.away) + _(" Nothing was changed.")
    there = {turn.number for turn in view.turns}
    shown = tuple(n for n in numbers if n in there)
    if shown:
        return sentence_about(
            shown,
            "{turns} is in context already; nothing was changed.",
            "{turns} are in context already; nothing was changed.",
        )
    return _("Nothing is kept of these turns, so nothing was changed.")


def _explain_removed(numbers: Turns) -> str:
    return _(
        "You dropped {turns}; only /context undo brings that back.", turns=format_turns(numbers)
    )


def _report_expanded(what: str, opened: ExpandResult, before: View, ask: Ask) -> Reply:
    view = ask.conversation.context.view()
    was, now = amounts(before.tokens, view.tokens)
    text = sentence_about(
        opened.back,
        "Expanded{what}: {turns} is back in context. {before} → {after} tokens.",
        "Expanded{what}: {turns} are back in context. {before} → {after} tokens.",
        what=f" {what}" if what else "",
        before=was,
        after=now,
    )
    if opened.left:
        text += sentence_about(
            opened.left,
            " {turns} did not fit, so a summary still replaces it.",
            " {turns} did not fit, so a summary still replaces them.",
        )
    if opened.away:
        text += f" {_explain_removed(opened.away)}"
    if until := hold(ask.conversation):
        text += f" {explain_hold(until)}"
    sizes = {"tokens_before": before.tokens, "tokens_after": view.tokens}
    undo = (undo_of(opened.event),) if opened.event else ()
    return Reply(text, pick(opened, "left", turns=opened.back) | sizes, undo)
