"""The changes that a person makes to the context: compact, compress, free, clear, pin, unpin,
drop."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection
from typing import Any

from channels.language import _, explain
from memory.compactor import Compacted
from memory.context.change import ViewEvent
from memory.context.emergency import LEAST_KEPT
from memory.context.plan import explain_stuck, find_stuck
from memory.context.settings import Limits
from memory.context.view import View
from memory.record.summaries import Summary
from plugins.api import Action, Ask, CommandError, Reply, refusal
from plugins.builtin.context import ranges, receipts
from plugins.builtin.context.show import undo_of
from plugins.builtin.context.values import phrase, pick, refuse_removed, sentence_about
from plugins.turn_names import ids, split_turns, turns_of
from plugins.wording import amount, amounts, clip, count, format_list, format_turns, literal


async def compact(ask: Ask, focus: str) -> Reply:
    """Run `/context compact [t3-t9] [focus]`."""
    conversation = ask.conversation
    numbers, focus = split_turns(focus, conversation.context.newest)
    if numbers:
        return await ranges.compact_range(ask, numbers, focus)
    _require_words(focus, conversation.context.newest)
    view = conversation.context.view()
    compacted = await conversation.compactor.compact_for_person(focus.strip())
    if compacted is None:
        return Reply(_explain_fixed(view), {"turns": []})
    return to_reply(compacted, view)


def _require_words(focus: str, newest: int) -> None:
    """Raise CommandError for turns without their "t": they would be taken for a focus, and all
    turns would be summarised."""
    if (found := _BARE.fullmatch(focus)) and max(map(int, found.groups())) <= newest:
        raise refusal(
            "Nothing was changed: if you mean turns, write /context compact t{first}-t{last}.",
            first=found[1],
            last=found[2],
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
"""The one-off settings of `/context compress`: those of AgentScope's ContextConfig, and the maximum
length of the summary."""


async def compress(ask: Ask, rest: str) -> Reply:
    """Run `/context compress [{"trigger_ratio": 0.5, …}]`, like AgentScope's compress_context()."""
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
    """Return the one-off settings of the command, by name. Raises CommandError."""
    try:
        found = json.loads(text.strip() or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise refusal(
            "/context compress takes nothing, or settings for this one time as JSON: /context "
            'compress {"trigger_ratio": 0.5, "reserve_ratio": 0.1}. Nothing was changed.'
        )
    for unknown in (name for name in found if name not in ONCE):
        near = difflib.get_close_matches(unknown[:100].lower(), ONCE, n=1)
        hint = _("did you mean {near}?", near=near[0]) if near else ""
        raise refusal(
            "/context compress has no setting “{name}”; {hint} Nothing was changed.",
            name=literal(clip(unknown)),
            hint=hint or _("it takes {once}.", once=", ".join(ONCE)),
        )
    return found


def _below(view: View, limits: Limits) -> str:
    threshold = limits.threshold
    sizes = _(
        "{tokens} tokens are in use, and the threshold is {threshold}",
        tokens=amount(view.tokens),
        threshold=amount(threshold),
    )
    if view.tokens < threshold:
        share = _(
            "{trigger_ratio:g} of the window of {window}",
            trigger_ratio=limits.context.trigger_ratio,
            window=amount(limits.window),
        )
        return _("There is nothing to compress: {sizes} ({share}).", sizes=sizes, share=share)
    if not view.movable or find_stuck(view, limits) != "prompt":
        return _explain_fixed(view)
    return _(
        "Compacting would not help: the system prompt and the tools alone fill {sizes}.",
        sizes=sizes,
    )


def to_reply(compacted: Compacted, view: View) -> Reply:
    """Return the reply about a compaction of the view."""
    if compacted.event is not None and compacted.summary is not None:
        return _report_compaction(compacted.summary, compacted.event)
    if compacted.is_overtaken:
        raise refusal(receipts.OVERTAKEN)
    return _not_smaller(compacted.summary, view)


def _explain_fixed(view: View) -> str:
    if view.movable:
        return _(
            "Nothing was changed: too little could be removed to make the context "
            "noticeably smaller."
        )
    why = _("all turns are pinned") if view.complete else _("no finished turn is in context")
    return _("There is nothing to compact: {why}.", why=why)


def _explain_unfreeable(view: View, keep_recent: int) -> str:
    if not view.movable:
        return _explain_fixed(view)
    messages = count(len(view.messages), "message")
    staying = max(LEAST_KEPT, keep_recent // 2)
    if len(view.messages) > staying:
        return _explain_fixed(view)
    return _(
        "There is nothing to compact: the {messages} in context would stay anyway.",
        messages=messages,
    )


def _report_compaction(summary: Summary, event: ViewEvent) -> Reply:
    who = _("The summary (sentences copied from the turns)")
    who = phrase(summary, "The summary, by {model}") if summary.model else who
    text, data = receipts.report(event, summary, f"{who}:")
    is_in_front = event.change.makes("summary") and summary.id in event.change.summaries
    more = receipts.actions(summary) if is_in_front else ()
    return Reply(text, data, (undo_of(event), *more))


def _not_smaller(summary: Summary | None, view: View) -> Reply:
    turns = summary.turns if summary else ()
    raw = sum(turn.tokens for turn in view.turns if turn.number in turns)
    text = sentence_about(
        turns,
        "Nothing was changed: {turns} has {tokens} tokens, and a summary would not make the "
        "context smaller.",
        "Nothing was changed: {turns} have {tokens} tokens, and a summary would not make the "
        "context smaller.",
        tokens=amount(view.scale.part(raw)),
    )
    return Reply(text, {"turns": []})


async def free(ask: Ask, rest: str) -> Reply:
    """Run `/context free [t1-t9]`."""
    conversation = ask.conversation
    if numbers := turns_of(rest, conversation.context.newest):
        return await ranges.free_range(ask, numbers)
    view = conversation.context.view()
    event = await conversation.compactor.free()
    if event is None:
        keep_recent = conversation.context.limits.context.keep_recent
        return Reply(_explain_unfreeable(view, keep_recent), {"turns": [], "freed": 0})
    data = ranges.describe_freed(event)
    sizes = f"({' → '.join(amounts(event.tokens_before, event.tokens_after))})"
    squeezed = sentence_about(
        event.touched,
        "{turns} was shortened to question and reply",
        "{turns} were shortened to question and reply",
    )
    done = (
        phrase(
            event,
            "{leaving} removed from the context {sizes}. Their summary is written in the "
            "background; /context undo restores them.",
            sizes=sizes,
        )
        if event.leaving
        else _(
            "{squeezed} {sizes}. /context undo restores the rest.", squeezed=squeezed, sizes=sizes
        )
    )
    freed = _("Freed about {n} tokens: ", n=amount(data["freed"])) if data["freed"] > 0 else ""
    text = f"{freed}{done[0] if freed else done[0].upper()}{done[1:]}"
    return Reply(text, data, (undo_of(event),))


async def clear(ask: Ask, rest: str) -> Reply:
    """Run `/context clear`."""
    if rest.strip():
        raise refusal(
            "/context clear does not take “{rest}”, so nothing was changed. Send it alone to "
            "remove all turns from the context; /context drop t3-t5 removes some.",
            rest=literal(clip(rest)),
        )
    had_summary = ask.conversation.context.view().preface is not None
    cleared = await ask.conversation.editor.clear()
    data = pick(cleared, "turns", "messages", "tokens")
    if cleared.event is None:
        return Reply(_("There is nothing to clear: no finished turn is in context."), data)
    messages = count(cleared.messages, "message")
    turns = phrase(cleared, "{turns} ({messages}, about {tokens} tokens)", messages=messages)
    removed = [*[turns] * bool(cleared.turns), *[_("the summary of older turns")] * had_summary]
    text = _(
        "Cleared: {gone} removed from this conversation's context. Everything is kept on "
        "disk; /context undo restores it.",
        gone=format_list(removed),
    )
    return Reply(text, data, (undo_of(cleared.event),))


async def pin(ask: Ask, rest: str) -> Reply:
    """Run `/context pin t3-t5 t9`."""
    view = ask.conversation.context.view()
    numbers = _in_context(ask, rest, "pin", view)
    new = tuple(n for n in numbers if n not in view.layout.pinned)
    if not new:
        sentence = sentence_about(
            numbers, "{turns} is already pinned.", "{turns} are already pinned."
        )
        raise CommandError(sentence)
    await ask.conversation.editor.pin(new)
    text = _(
        "Pinned: {size}. Pinned turns stay when others are compacted.{fullness}",
        size=_format_size(new, view),
        fullness=_fullness(ask),
    )
    unpin = f"/context unpin {' '.join(ids(new))}"
    return Reply(text, {"pinned": ids(new)}, (Action(_("Unpin"), unpin),))


async def unpin(ask: Ask, rest: str) -> Reply:
    """Run `/context unpin t3-t5`."""
    numbers = _parse_turns(ask, rest, "unpin")
    pinned = ask.conversation.context.layout.pinned
    if others := tuple(n for n in numbers if n not in pinned):
        now = _("pinned: {turns}", turns=format_turns(tuple(pinned))) if pinned else _("no turn is")
        sentence = sentence_about(
            others,
            "{turns} is not pinned ({now}); nothing was changed.",
            "{turns} are not pinned ({now}); nothing was changed.",
            now=now,
        )
        raise CommandError(sentence)
    await ask.conversation.editor.unpin(numbers)
    text = sentence_about(
        numbers,
        "Unpinned: {turns}; it may be removed by the next compaction.",
        "Unpinned: {turns}; they may be removed by the next compaction.",
    )
    return Reply(text, {"unpinned": ids(numbers)})


async def drop(ask: Ask, rest: str) -> Reply:
    """Run `/context drop t3-t5`."""
    view = ask.conversation.context.view()
    summarised = frozenset(view.layout.turns("summary"))
    if represented := tuple(n for n in _parse_turns(ask, rest, "drop") if n in summarised):
        sentence = sentence_about(
            represented,
            "{turns} is not in context: the summary at the beginning covers it. Expand "
            "it with /context expand first; nothing was changed.",
            "{turns} are not in context: the summary at the beginning covers them. "
            "Expand it with /context expand first; nothing was changed.",
        )
        raise CommandError(sentence)
    numbers = _in_context(ask, rest, "drop", view)
    if view.current in numbers:
        raise refusal(
            "t{current} is being answered; /undo stops and undoes it. Nothing was changed.",
            current=view.current,
        )
    if (event := await ask.conversation.editor.drop(numbers)) is None:
        raise CommandError(refuse_removed(numbers))
    there = {turn.number for turn in view.turns}
    back = tuple(t.number for t in ask.conversation.context.view().turns if t.number not in there)
    opened = ""
    if back:
        opened = _(
            " A summary mentioned them, so it was removed, too: {what}"
            if numbers[1:]
            else " A summary mentioned it, so it was removed, too: {what}",
            what=sentence_about(
                back, "{turns} is back in context.", "{turns} are back in context."
            ),
        )
    text = _(
        "Dropped: {size} removed from the context, without a summary. Everything is "
        "kept on disk; /context undo restores it.{opened}",
        size=_format_size(numbers, view),
        opened=opened,
    )
    return Reply(text, {"dropped": ids(numbers)}, (undo_of(event),))


def _parse_turns(ask: Ask, rest: str, verb: str) -> tuple[int, ...]:
    numbers = turns_of(rest, ask.conversation.context.newest)
    if not numbers:
        raise refusal(
            "/context {verb} needs turns, like /context {verb} t3, or t3-t5 t9.", verb=verb
        )
    return numbers


def _in_context(ask: Ask, rest: str, verb: str, view: View) -> tuple[int, ...]:
    numbers = _parse_turns(ask, rest, verb)
    there = {turn.number for turn in view.turns} | (set(view.logged) if verb == "drop" else set())
    there.update(*(one.turns for one in view.layout.ranges))
    if missing := tuple(n for n in numbers if n not in there):
        raise CommandError(refuse_removed(missing))
    return numbers


def _count_tokens(numbers: Collection[int], view: View) -> int:
    """Tokens of these turns in the context: whole, as lines of the log, or in range summaries."""
    raw = sum(turn.tokens for turn in view.turns if turn.number in numbers)
    raw += sum(line.tokens for line in view.log if line.turn in numbers)
    of_them = (s.summary for s in view.layout.ranges if not set(numbers).isdisjoint(s.turns))
    raw += sum(view.summaries[one].tokens for one in of_them if one in view.summaries)
    return view.scale.part(raw)


def _format_size(numbers: tuple[int, ...], view: View) -> str:
    tokens = amount(_count_tokens(numbers, view))
    return _("{turns} (about {tokens} tokens)", turns=format_turns(numbers), tokens=tokens)


def _fullness(ask: Ask) -> str:
    """Return a warning if pins use a large part of the budget."""
    view, limits = ask.conversation.context.view(), ask.conversation.context.limits
    share = _count_tokens(view.layout.pinned, view) / limits.budget
    much = _(" All pins together take up {share:.0%} of the budget.", share=share)
    is_stuck = find_stuck(view, limits) in ("turns", "pins")
    stuck = f" {explain(explain_stuck(view, limits))}" if is_stuck else ""
    return (much if share >= 0.5 else "") + stuck
