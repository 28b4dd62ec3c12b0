"""What a person does to the view: compact, compress, free, clear, undo, redo, pin, unpin, drop."""

from __future__ import annotations

import difflib
import json
import re
from datetime import tzinfo
from typing import Any

from memory.compactor import Compacted
from memory.context.change import Change, ViewEvent
from memory.context.limits import Limits
from memory.context.replay import redoable
from memory.context.view import View
from memory.conversation import Conversation
from memory.record.summaries import Summary
from memory.turns import format_turns
from plugins.api import Action, Ask, CommandError, Reply
from plugins.builtin.context import ranges, receipts
from plugins.builtin.context.overview import hold, list_touched
from plugins.builtin.context.show import UNDO, by, explain_hold, moment, name_kind
from plugins.builtin.context.state import be, ids, split_turns, turns_of
from plugins.wording import amount, clip, count, literal

REDO = Action("Redo", "/context redo")


async def compact(ask: Ask, focus: str) -> Reply:
    """`/context compact [t3-t9] [focus]`"""
    conversation = ask.conversation
    numbers, focus = split_turns(focus, conversation.context.newest)
    if numbers:
        return await ranges.compact_range(ask, numbers, focus)
    _require_words(focus, conversation.context.newest)
    view = conversation.context.view()
    compacted = await conversation.compactor.compact_for_person(focus.strip())
    if compacted is None:
        return Reply(_explain_unmovable(view), {"turns": []})
    return to_reply(compacted, view)


def _require_words(focus: str, newest: int) -> None:
    """Turns without their t would be a focus, and all turns would go into the summary."""
    if (found := _BARE.fullmatch(focus)) and max(map(int, found.groups())) <= newest:
        first, last = found.groups()
        raise CommandError(
            f"Nothing was changed: if you mean turns, write /context compact t{first}-t{last}."
        )


_BARE = re.compile(r"(\d{1,6})\s*[-–]\s*(\d{1,6})")

ONCE = (
    "trigger_ratio",
    "reserve_ratio",
    "tool_result_limit",
    "compression_prompt",
    "summary_template",
    "summary_schema",
    "summary_max_tokens",
)
"""The one-off settings that `/context compress` takes: those of AgentScope's ContextConfig, and how
long the summary may be."""


async def compress(ask: Ask, rest: str) -> Reply:
    """`/context compress [{"trigger_ratio": 0.5, …}]`: AgentScope's compress_context()."""
    conversation = ask.conversation
    values = {f"context.{name}": value for name, value in _once(rest).items()}
    checked = ask.bot.settings.once(values, conversation.key.id, ask.person)
    config = {key.removeprefix("context."): value for key, value in checked.items()}
    view, limits = conversation.context.view(), conversation.context.limits
    compacted = await conversation.compactor.compress_context(**config)
    if compacted is None:
        why = _below(view, limits.but(strategy="structured", **config))
        return Reply(why, {"turns": []})
    return to_reply(compacted, view)


def _once(text: str) -> dict[str, Any]:
    """The one-off settings that a person wrote, by name."""
    try:
        found = json.loads(text.strip() or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CommandError(
            "/context compress takes nothing, or settings for this one time as JSON: /context "
            'compress {"trigger_ratio": 0.5, "reserve_ratio": 0.1}. Nothing was changed.'
        )
    for name in found:
        if name not in ONCE:
            near = difflib.get_close_matches(name[:100].lower(), ONCE, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(ONCE)}."
            raise CommandError(
                f"/context compress has no setting “{literal(clip(name))}”; {hint} "
                "Nothing was changed."
            )
    return found


def _below(view: View, limits: Limits) -> str:
    """Why nothing is compressed by these limits."""
    threshold = limits.threshold
    sizes = f"{amount(view.tokens)} tokens are in use, and the threshold is {amount(threshold)}"
    if view.tokens < threshold:
        share = f"{limits.context.trigger_ratio:g} of the window of {amount(limits.window)}"
        return f"There is nothing to compress: {sizes} ({share})."
    if not view.movable:
        return _explain_unmovable(view)
    return f"Compressing would not help: {sizes}, which the system prompt and the tools alone fill."


def to_reply(compacted: Compacted, view: View) -> Reply:
    """What came of compacting a view."""
    if compacted.event is not None and compacted.summary is not None:
        return _report_compaction(compacted.summary, compacted.event)
    if compacted.is_overtaken:
        raise CommandError(receipts.OVERTAKEN)
    return _not_smaller(compacted.summary, view)


def _explain_unmovable(view: View) -> str:
    why = "all turns are pinned" if view.complete else "no finished turn is in play"
    return f"There is nothing to compact: {why}."


def _explain_unfreeable(view: View) -> str:
    if not view.movable:
        return _explain_unmovable(view)
    messages = count(len(view.messages), "message")
    return f"There is nothing to compact: the {messages} in play would stay anyway."


def _report_compaction(summary: Summary, event: ViewEvent) -> Reply:
    who = (
        f"The summary, by {summary.model}"
        if summary.model
        else ("The model's summary was no shorter, so this is an extract")
    )
    text, data = receipts.report(event, summary, f"{who}:")
    is_in_front = event.change.preface == summary.id
    return Reply(text, data, (UNDO, *(receipts.actions(summary) if is_in_front else ())))


def _not_smaller(summary: Summary | None, view: View) -> Reply:
    turns = summary.turns if summary else ()
    raw = sum(turn.tokens for turn in view.turns if turn.number in turns)
    text = (
        f"Nothing was changed: {be(turns, ('has', 'have'))} {amount(view.scale.part(raw))} tokens, "
        "and a summary would not make the context smaller."
    )
    return Reply(text, {"turns": []})


async def free(ask: Ask, rest: str) -> Reply:
    """`/context free [t1-t9]`"""
    if numbers := turns_of(rest, ask.conversation.context.newest):
        return await ranges.free_range(ask, numbers)
    view = ask.conversation.context.view()
    event = await ask.conversation.compactor.free()
    if event is None:
        return Reply(_explain_unfreeable(view), {"turns": [], "freed": 0})
    before, after = event.tokens_before, event.tokens_after
    sizes = f"({amount(before)} → {amount(after)})"
    squeezed = f"{be(list_touched(event), ('was', 'were'))} squeezed to question and reply"
    done = (
        f"{format_turns(event.leaving)} left the context {sizes}. Their summary is written in the "
        "background; /context undo brings them back."
        if event.leaving
        else f"{squeezed} {sizes}. /context undo brings back what stood between."
    )
    freed = f"Freed about {amount(before - after)} tokens: " if after < before else ""
    text = f"{freed}{done[0].upper() if not freed else done[0]}{done[1:]}"
    data = {
        "turns": ids(event.leaving),
        "tokens_before": before,
        "tokens_after": after,
        "freed": before - after,
    }
    return Reply(text, data, (UNDO,))


async def clear(ask: Ask, rest: str) -> Reply:
    """`/context clear`"""
    del rest
    had_summary = ask.conversation.context.view().preface is not None
    cleared = await ask.conversation.editor.clear()
    data = {
        "turns": ids(cleared.turns),
        "messages": cleared.messages,
        "tokens": cleared.tokens,
    }
    if not cleared.turns and not had_summary:
        return Reply("There is nothing to clear: no finished turn is in play.", data)
    turns = (
        f"{format_turns(cleared.turns)} ({count(cleared.messages, 'message')}, about "
        f"{amount(cleared.tokens)} tokens)"
    )
    gone = " and the summary of older turns".removeprefix("" if cleared.turns else " and ")
    text = (
        f"Cleared: {turns if cleared.turns else ''}{gone if had_summary else ''} left this "
        "conversation's context. All is kept on disk; /context undo brings it back."
    )
    return Reply(text, data, (UNDO,))


async def undo(ask: Ask, rest: str) -> Reply:
    """`/context undo`, `/context undo e12`"""
    number = _event_number(rest)
    before = ask.conversation.context.view()
    event = await ask.conversation.editor.undo(number)
    if event is None and number:
        raise CommandError(
            f"There is no change e{number} here that can be taken back, so nothing was undone; "
            "/context history lists them."
        )
    if event is None:
        return Reply("There is nothing to undo.", {"undone": None}, await _redo(ask))
    return await _report_move("Undone", event, before, ask)


def _event_number(rest: str) -> int:
    """ "e12" -> 12; 0 where no event is named."""
    name = rest.strip().lower()
    if not name:
        return 0
    if name[0] == "e" and name[1:].isascii() and name[1:].isdigit() and len(name) < 20:
        return int(name[1:])
    raise CommandError(
        f"“{literal(clip(name))}” is not a change, so nothing was undone. /context undo "
        "takes back the last change, or the one you name, like /context undo e12; /context "
        "history lists them. To take back your last message, use /undo."
    )


async def redo(ask: Ask, rest: str) -> Reply:
    """`/context redo`"""
    if rest.strip():
        raise CommandError(
            f"/context redo does not take “{literal(clip(rest))}”, so nothing was changed. "
            "Send it by itself: it brings back what was undone last."
        )
    before = ask.conversation.context.view()
    event = await ask.conversation.editor.redo()
    if event is None:
        text = (
            "There is nothing to redo: nothing was undone, or something else was changed after it."
        )
        return Reply(text, {"redone": None})
    return await _report_move("Redone", event, before, ask)


async def _report_move(done: str, event: ViewEvent, before: View, ask: Ask) -> Reply:
    """What an undo or a redo did."""
    conversation = ask.conversation
    after = conversation.context.view()
    text = (
        f"{done}: the {_describe_event(event, ask.bot.zone())}. {_compare(before, after)}"
        f"{amount(before.tokens)} → {amount(after.tokens)} tokens."
    )
    until = hold(after, conversation.context.limits, conversation)
    if until:
        text += f" {explain_hold(until)}"
    if done == "Undone" and before.boundaries == after.boundaries:
        text += " That alone brought nothing back: a later change took the same turns away."
    data = {
        "undone" if done == "Undone" else "redone": event.kind,
        "turns": [turn.id for turn in after.turns],
        "tokens_before": before.tokens,
        "tokens_after": after.tokens,
    }
    return Reply(text, data, await _redo(ask) if done == "Undone" else (UNDO,))


def _describe_event(event: ViewEvent, zone: tzinfo) -> str:
    return f"{name_kind(event)} of {moment(event.at, zone)} ({by(event)})"


def _compare(before: View, after: View) -> str:
    was, now = ({turn.number for turn in view.turns} for view in (before, after))
    back, gone = tuple(now - was), tuple(was - now)
    if back:
        return f"{be(back)} back in play; "
    return f"{be(gone)} out of the context; " if gone else ""


async def _redo(ask: Ask) -> tuple[Action, ...]:
    return (REDO,) if redoable(await ask.conversation.context.history()) else ()


async def pin(ask: Ask, rest: str) -> Reply:
    """`/context pin t3-t5 t9`"""
    view = ask.conversation.context.view()
    numbers = _in_play(ask, rest, "pin", view)
    new = tuple(n for n in numbers if n not in view.boundaries.pinned)
    if not new:
        raise CommandError(f"{be(numbers)} already pinned.")
    await ask.conversation.editor.change("pin", Change(pin=frozenset(new)))
    text = (
        f"Pinned: {_format_size(new, view)}. Pinned turns stay when others leave.{_fullness(ask)}"
    )
    unpin = f"/context unpin {' '.join(ids(new))}"
    return Reply(text, {"pinned": ids(new)}, (Action("Unpin", unpin),))


async def unpin(ask: Ask, rest: str) -> Reply:
    """`/context unpin t3-t5`"""
    numbers = _parse_turns(ask, rest, "unpin")
    pinned = ask.conversation.context.view().boundaries.pinned
    if others := tuple(n for n in numbers if n not in pinned):
        now = f"pinned: {format_turns(tuple(pinned))}" if pinned else "no turn is"
        raise CommandError(f"{be(others)} not pinned ({now}); nothing was changed.")
    await ask.conversation.editor.change("unpin", Change(unpin=frozenset(numbers)))
    return Reply(
        f"Unpinned: {format_turns(numbers)}; they may leave with the next cut."
        if len(numbers) > 1
        else f"Unpinned: {format_turns(numbers)}; it may leave with the next cut.",
        {"unpinned": ids(numbers)},
    )


async def drop(ask: Ask, rest: str) -> Reply:
    """`/context drop t3-t5`"""
    view = ask.conversation.context.view()
    numbers = _in_play(ask, rest, "drop", view)
    if told := await _find_summarised(ask.conversation, view, numbers):
        them = "them" if told[1:] else "it"
        raise CommandError(
            f"{be(told)} not in play: the summary in front tells of {them}. Open it with "
            "/context expand first; nothing was changed."
        )
    if view.current in numbers:
        raise CommandError(
            f"t{view.current} is being answered; /undo stops it and takes it back. "
            "Nothing was changed."
        )
    await ask.conversation.editor.change("drop", Change(drop=frozenset(numbers)))
    there = {turn.number for turn in view.turns}
    back = tuple(t.number for t in ask.conversation.context.view().turns if t.number not in there)
    opened = (
        f" A summary told of {'them' if numbers[1:] else 'it'}, so it left, too: "
        f"{be(back)} back in play."
        if back
        else ""
    )
    return Reply(
        f"Dropped: {_format_size(numbers, view)} left the context, without a summary. "
        f"All is kept on disk; /context undo brings it back.{opened}",
        {"dropped": ids(numbers)},
        (UNDO,),
    )


def _parse_turns(ask: Ask, rest: str, verb: str) -> tuple[int, ...]:
    numbers = turns_of(rest, ask.conversation.context.newest)
    if not numbers:
        raise CommandError(f"/context {verb} needs turns, like /context {verb} t3, or t3-t5 t9.")
    return numbers


async def _find_summarised(
    conversation: Conversation, view: View, numbers: tuple[int, ...]
) -> tuple[int, ...]:
    """Those of these turns that stand in the log of `slim` and left for a summary all the same, as
    they do when a person frees the context, or in an emergency."""
    there = {turn.number for turn in view.turns}
    there.update(*(stand_in.turns for stand_in in view.stand_ins))
    if there.issuperset(numbers):
        return ()
    standing = await conversation.summary.find_standing()
    told = {*(standing.turns if standing else ()), *await conversation.summary.find_coming()}
    return tuple(n for n in numbers if n in told - there)


def _in_play(ask: Ask, rest: str, verb: str, view: View) -> tuple[int, ...]:
    numbers = _parse_turns(ask, rest, verb)
    there = {turn.number for turn in view.turns} | (set(view.logged) if verb == "drop" else set())
    there.update(*(stand_in.turns for stand_in in view.stand_ins))
    if gone := tuple(n for n in numbers if n not in there):
        raise CommandError(f"{be(gone)} not in play (see /context turns); nothing was changed.")
    return numbers


def _format_size(numbers: tuple[int, ...], view: View) -> str:
    raw = sum(turn.tokens for turn in view.turns if turn.number in numbers)
    raw += sum(line.tokens for line in view.log if line.turn in numbers)
    gone = (s.summary for s in view.stand_ins if not set(numbers).isdisjoint(s.turns))
    raw += sum(view.summaries[one].tokens for one in gone if one in view.summaries)
    return f"{format_turns(numbers)} (about {amount(view.scale.part(raw))} tokens)"


def _fullness(ask: Ask) -> str:
    """A word of warning when pins fill much of what there is."""
    conversation = ask.conversation
    view, budget = conversation.context.view(), conversation.context.limits.budget
    raw = sum(turn.tokens for turn in view.turns if turn.number in view.boundaries.pinned)
    pinned = (s.summary for s in view.stand_ins if s not in view.loose)
    raw += sum(view.summaries[one].tokens for one in pinned if one in view.summaries)
    share = view.scale.part(raw) / budget
    return f" All pins together take up {share:.0%} of the budget." if share >= 0.5 else ""
