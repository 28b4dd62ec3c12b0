"""Any range of turns: `/context compact t3-t9`, `/context free t3-t9`; and summaries by their
names: `/context expand s3`, `/context summaries`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from channels.language import _
from memory.context.change import ViewEvent
from memory.context.view import View
from memory.context_editor import Expanded
from memory.conversation import Conversation
from memory.record.summaries import Summary
from plugins.api import Action, Ask, CommandError, Reply
from plugins.builtin.context import receipts
from plugins.builtin.context.overview import hold
from plugins.builtin.context.show import UNDO, explain_hold
from plugins.builtin.context.state import say_of
from plugins.turn_names import ids, turns_of
from plugins.wording import amount, clip, format_turns, literal

SHOWN = 20
"""Lines of the tree that are shown; `data` has all."""

Turns = tuple[int, ...]


# --- a summary in the place of turns --------------------------------------------------------------


async def compact_range(ask: Ask, numbers: Turns, focus: str) -> Reply:
    """`/context compact t3-t9 [focus]`"""
    conversation = ask.conversation
    view, named = conversation.context.view(), await _names(conversation)
    compacted = await conversation.compactor.compact_range(numbers, focus)
    if compacted is None:
        raise CommandError(_explain_nothing(numbers, view, named))
    if compacted.is_overtaken:
        raise CommandError(_(receipts.OVERTAKEN))
    if compacted.event is None or compacted.summary is None:
        return Reply(
            _(
                "Nothing was changed: a summary of {turns} would not make the context smaller.",
                turns=format_turns(numbers),
            ),
            {"turns": []},
        )
    return _to_reply(compacted.event, compacted.summary, numbers, view, named)


def _to_reply(
    event: ViewEvent, summary: Summary, numbers: Turns, view: View, named: Mapping[int, str]
) -> Reply:
    who = _("by {model}", model=summary.model) if summary.model else _("extracted without a model")
    besides = _explain_rest(event, numbers, view, named)
    place = say_of(
        event.leaving,
        "The summary {name} ({who}) replaces it.{besides}",
        "The summary {name} ({who}) replaces them.{besides}",
        name=summary.name,
        who=who,
        besides=besides,
    )
    text, data = receipts.report(event, summary, place)
    opened = Action(_("Expand"), f"/context expand {summary.name}")
    return Reply(text, data, (opened, UNDO, *receipts.actions(summary, is_named=True)))


async def free_range(ask: Ask, numbers: Turns) -> Reply:
    """`/context free t1-t9`"""
    conversation = ask.conversation
    view, named = conversation.context.view(), await _names(conversation)
    event = await conversation.compactor.free_range(numbers)
    if event is None:
        raise CommandError(_explain_nothing(numbers, view, named))
    before, after = event.tokens_before, event.tokens_after
    text = say_of(
        event.leaving,
        "Freed about {freed} tokens: {turns} was removed from the context ({before} → "
        "{after}). Its summary is written in the background and is used from your next "
        "message on; /context undo restores the turn.{rest}",
        "Freed about {freed} tokens: {turns} were removed from the context ({before} → "
        "{after}). Their summary is written in the background and is used from your next "
        "message on; /context undo restores the turns.{rest}",
        freed=amount(before - after),
        before=amount(before),
        after=amount(after),
        rest=_explain_rest(event, numbers, view, named),
    )
    data = {
        "turns": ids(event.leaving),
        "tokens_before": before,
        "tokens_after": after,
        "freed": before - after,
    }
    return Reply(text, data, (UNDO,))


def _explain_nothing(numbers: Turns, view: View, named: Mapping[int, str]) -> str:
    """Return why no turn of these leaves."""
    inside = [s for s in view.ranges if not set(numbers).isdisjoint(s.turns)]
    if len(inside) == 1:
        (one,) = inside
        summary = named.get(one.summary) or _("a summary that is being written")
        return _(
            "Nothing was changed: {summary} already replaces {turns}.",
            summary=summary,
            turns=format_turns(one.turns),
        )
    reasons = _explain_staying(numbers, view)
    return (
        _("There is nothing to compact: {reasons}", reasons=" ".join(reasons))
        if reasons
        else _("Nothing was changed")
    )


def _explain_rest(event: ViewEvent, numbers: Turns, view: View, named: Mapping[int, str]) -> str:
    """Say which part of a range stays, and what else went into its summary."""
    swallowed = [s for s in view.ranges if not set(event.leaving).isdisjoint(s.turns)]
    within = [
        _(
            "{summary} ({turns}) went into it whole.",
            summary=named.get(s.summary) or _("the summary"),
            turns=format_turns(s.turns),
        )
        for s in swallowed
    ]
    rest = tuple(n for n in numbers if n not in event.leaving)
    return "".join(f" {sentence}" for sentence in (*within, *_explain_staying(rest, view)))


def _explain_staying(numbers: Turns, view: View) -> list[str]:
    """Return why these turns stay as they are, in sentences."""
    there = {turn.number for turn in view.turns}
    pinned = tuple(n for n in numbers if n in view.layout.pinned and n in there)
    gone = tuple(n for n in numbers if n not in there)
    sentences = []
    if view.current in numbers:
        sentences.append(_("t{current} is being answered, and stays.", current=view.current))
    if pinned:
        sentences.append(
            say_of(pinned, "{turns} is pinned, and stays.", "{turns} are pinned, and stay.")
        )
    if gone:
        sentences.append(
            say_of(
                gone,
                "{turns} is not in context (see /context turns).",
                "{turns} are not in context (see /context turns).",
            )
        )
    return sentences


def _verb(things: Sequence[Any], one: str, many: str) -> str:
    return one if len(things) == 1 else many


# --- summaries, and what they stand for -----------------------------------------------------------


class SummaryNode(Struct, frozen=True):
    """A summary that the context has, or that went into one which it has: `turns` are those that it
    stands for, with those of `inside`, which went into it; `place` is where it stands."""

    summary: Summary
    turns: Turns
    inside: tuple[Summary, ...]
    place: str

    @property
    def fresh(self) -> Turns:
        """The turns that it tells of itself."""
        told = {turn for one in self.inside for turn in one.turns}
        return tuple(turn for turn in self.summary.turns if turn not in told)


PLACES = FRONT, IN_PLACE, INSIDE = "at the beginning", "at its position", "inside"


def build_tree(view: View, made: Mapping[int, Summary]) -> list[SummaryNode]:
    """Return the summaries that the context has, each before those that went into it."""
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
    """Yield a summary, and those that it continues."""
    one: Summary | None = summary
    while one is not None:
        yield one
        one = made.get(one.prior)


async def _read_summaries(conversation: Conversation) -> dict[int, Summary]:
    return {one.id: one for one in await conversation.compactor.summaries.read_all()}


async def _names(conversation: Conversation) -> dict[int, str]:
    """Return the names of all summaries, by id."""
    return {one.id: one.name for one in (await _read_summaries(conversation)).values()}


async def show_summaries(ask: Ask, rest: str) -> Reply:
    """`/context summaries`"""
    del rest
    conversation = ask.conversation
    view = conversation.context.view()
    nodes = build_tree(view, await _read_summaries(conversation))
    coming = [s for s in view.ranges if not s.summary]
    if not nodes and not coming:
        return Reply(_("There is no summary in the context."), {"summaries": []})
    lines = [_line(node) for node in nodes]
    lines += [_("- one of {turns} is being written", turns=format_turns(s.turns)) for s in coming]
    text = "\n".join(lines[:SHOWN])
    if len(lines) > SHOWN:
        text += _("\n\n{n} more went into these.", n=len(lines) - SHOWN)
    if nodes:
        text += _("\n\n`/context expand s…` opens one into its turns.")
    opened = [
        Action(_("Expand {name}", name=n.summary.name), _expand(n))
        for n in nodes
        if n.place != INSIDE
    ]
    return Reply(text, {"summaries": [_data(node) for node in nodes]}, tuple(opened[-4:]))


def _expand(node: SummaryNode) -> str:
    return f"/context expand {node.summary.name}"


def _line(node: SummaryNode) -> str:
    one = node.summary
    made_of = [other.name for other in node.inside]
    if node.inside and node.fresh:
        made_of.append(format_turns(node.fresh))
    said = (
        f"**{one.name}** {_(node.place)}",
        f"{format_turns(node.turns)}{' ← ' + ' + '.join(made_of) if node.inside else ''}",
        _("{tokens} tokens", tokens=amount(one.tokens)),
        _("by {model}", model=one.model) if one.model else _("an extract"),
        _("edited") if one.edits else "",
        _("about {focus}", focus=literal(clip(one.focus, 60))) if one.focus else "",
    )
    return f"{'  ' if node.place == INSIDE else ''}- {' · '.join(filter(None, said))}"


def _data(node: SummaryNode) -> dict[str, Any]:
    one = node.summary
    return {
        "name": one.name,
        "place": node.place,
        "turns": ids(node.turns),
        "own_turns": ids(one.turns),
        "made_of": [other.name for other in node.inside],
        "tokens": one.tokens,
        "model": one.model,
        "is_edited": bool(one.edits),
        "focus": one.focus,
    }


# --- opened again ---------------------------------------------------------------------------------


_NAME = re.compile(r"s\d{1,9}", re.IGNORECASE)


async def expand(ask: Ask, rest: str) -> Reply:
    """`/context expand s3`, `/context expand t3-t9`"""
    words = rest.replace(",", " ").split()
    if not words:
        return await show_summaries(ask, "")
    conversation = ask.conversation
    nodes = build_tree(conversation.context.view(), await _read_summaries(conversation))
    chosen = [_find(word, nodes) for word in words if _NAME.fullmatch(word)]
    numbers = {turn for node in chosen for turn in node.summary.turns}
    others = " ".join(word for word in words if not _NAME.fullmatch(word))
    numbers.update(turns_of(others, conversation.context.newest))
    before = conversation.context.view()
    opened = await conversation.editor.expand(numbers)
    what = ", ".join(node.summary.name for node in chosen)
    if opened.event is None:
        raise CommandError(_explain_closed(opened, tuple(sorted(numbers)), before))
    return _tell_opened(what, opened, before, ask)


def _find(name: str, nodes: Sequence[SummaryNode]) -> SummaryNode:
    for node in nodes:
        if node.summary.name == name.lower():
            return node
    names = ", ".join(node.summary.name for node in nodes[:SHOWN])
    there = _("it has {names}", names=names) if names else _("it has none")
    raise CommandError(
        _(
            "There is no summary {name} in the context; {there} (see /context summaries). Nothing "
            "was changed.",
            name=name.lower(),
            there=there,
        )
    )


def _explain_closed(opened: Expanded, numbers: Turns, view: View) -> str:
    """Return why no turn came back."""
    if opened.left:
        newest = opened.left[-1]
        return _(
            "Nothing was changed: t{newest} alone does not fit. There is room for {room} tokens; "
            "compact or drop other turns first, or raise the limit.",
            newest=newest,
            room=amount(opened.room),
        )
    if opened.away:
        return _explain_away(opened.away) + _(" Nothing was changed.")
    there = {turn.number for turn in view.turns}
    shown = tuple(n for n in numbers if n in there)
    if shown:
        return say_of(
            shown,
            "{turns} is in context already; nothing was changed.",
            "{turns} are in context already; nothing was changed.",
        )
    return _("Nothing is kept of these turns, so nothing was changed.")


def _explain_away(numbers: Turns) -> str:
    return _("You removed {turns}; only /context undo restores that.", turns=format_turns(numbers))


def _tell_opened(what: str, opened: Expanded, before: View, ask: Ask) -> Reply:
    conversation = ask.conversation
    view = conversation.context.view()
    text = say_of(
        opened.back,
        "Expanded{what}: {turns} is back in context. {before} → {after} tokens.",
        "Expanded{what}: {turns} are back in context. {before} → {after} tokens.",
        what=f" {what}" if what else "",
        before=amount(before.tokens),
        after=amount(view.tokens),
    )
    if opened.left:
        text += say_of(
            opened.left,
            " {turns} did not fit, so a summary still replaces it.",
            " {turns} did not fit, so a summary still replaces them.",
        )
    if opened.away:
        text += f" {_explain_away(opened.away)}"
    if until := hold(view, conversation.context.limits, conversation):
        text += f" {explain_hold(until)}"
    data = {
        "turns": ids(opened.back),
        "left": ids(opened.left),
        "tokens_before": before.tokens,
        "tokens_after": view.tokens,
    }
    return Reply(text, data, (UNDO,))
