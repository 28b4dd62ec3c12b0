"""`/context preview`: the content of the next request, and the turns that are removed before it is
sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from channels.language import _, explain
from memory.context import emergency
from memory.context.forecast import Preview
from memory.context.meter import PromptPrefix
from memory.context.plan import Plan
from memory.context.strategies.stubs import count_freed
from memory.context.view import View
from plugins.api import Ask, Reply
from plugins.builtin.context.cost import cache_of
from plugins.builtin.context.overview import (
    CompactionHold,
    block_sizes,
    effect,
    hold,
    message_sizes,
    parts,
    plan_data,
)
from plugins.builtin.context.show import explain_hold, future_reason
from plugins.builtin.context.turns import name_role, role, summarize
from plugins.builtin.context.values import (
    LOG,
    RANGE,
    SUMMARY,
    name_run,
    sentence_about,
)
from plugins.wording import amount, clip_words, count, literal, shorten, table

Row = tuple[str, str, int | None, str]
"""The turn, message, tokens (None: not known yet), and beginning of the text."""
_FIRST, _LAST = 10, 50  # messages shown if there are many


async def show(ask: Ask, rest: str) -> Reply:
    """Run `/context preview`."""
    del rest
    conversation = ask.conversation
    preview = await conversation.compactor.forecaster.preview()
    context = conversation.context
    waiting = await conversation.compactor.approval.notice()
    strategy = context.limits.strategy
    rows = list_messages(preview.then, context.prefix, is_asked=bool(context.current))
    cache = cache_of(ask)
    cost = cache.of_plans(preview, cache.tokens)
    shown = (
        _headline(preview, context.limits.budget, bool(context.current)),
        show_messages(rows),
        explain(str(emergency.no_room(preview.then, context.limits)))
        if emergency.is_hopeless(preview.then, context.limits)
        else describe_steps(
            preview, strategy, hold(conversation), waiting.turns if waiting else ()
        ),
        _("That {cost}.", cost=cache.clause(cost)) if cost else "",
    )
    text = "\n\n".join(filter(None, shown))
    return Reply(text, {**_data(preview, strategy, rows), "cost": cache.data(cost)})


def _headline(preview: Preview, budget: int, is_asked: bool) -> str:
    besides = "" if is_asked else _(", plus your next message")
    tokens, most = amount(preview.then.tokens), amount(budget)
    size = _("{tokens} of {budget} tokens", tokens=tokens, budget=most)
    return _("**The next request holds about {size}**{besides}.", size=size, besides=besides)


def list_messages(view: View, prefix: PromptPrefix, *, is_asked: bool = True) -> list[Row]:
    """List the messages of a request in the order in which it is sent; their tokens add up to the
    view's. Unless `is_asked`, the question is still missing."""
    sizes, names = parts(view), ", ".join(tool["function"]["name"] for tool in prefix.tools)
    ahead = {"tools": names, "system prompt": prefix.base, **dict(prefix.sections)}
    rows: list[Row] = [
        ("", name, sizes[name], clip_words(text)) for name, text in ahead.items() if sizes.get(name)
    ]
    messages = message_sizes(view)
    for block, tokens in block_sizes(view):
        if block.turn is not None:
            rows += (
                (f"t{e.turn}", role(e.message), messages[e.seq], summarize(e.message))
                for e in block.turn.entries
            )
        elif block.part == LOG:
            words = f"{count(len(view.log), 'line')}; {view.log[-1].text}"
            rows.append(("", LOG, tokens, words))
        else:
            name = name_run(block.turns) if block.part == RANGE else ""
            rows.append((name, SUMMARY, tokens, clip_words(block.text)))
    if not is_asked:
        rows[-1] = (rows[-1][0], "user", None, _("(your next message)"))
    return rows


def show_messages(rows: Sequence[Row]) -> str:
    """Return the messages as a table."""
    lines = [
        (turn, literal(name_role(who)), "" if size is None else amount(size), literal(words))
        for turn, who, size, words in rows
    ]
    shown = shorten(lines, _FIRST, _LAST, lambda n: ("…", _("{n} more", n=n), "", ""))
    return table(("turn", "message", "tokens:", "beginning"), shown)


def describe_steps(
    preview: Preview, strategy: str, held: CompactionHold | None = None, waiting: Sequence[int] = ()
) -> str:
    """Describe the compactions before the request is sent: the rule and the reason of each."""
    if preview.plans:
        return "\n\n".join(_step(plan, preview, strategy) for plan in preview.plans)
    if held:
        return explain_hold(held)
    if not waiting:
        return _("Nothing will be compacted first: the request is within all limits.")
    return sentence_about(
        waiting,
        "Nothing will be compacted first: {turns} waits for your approval (`/context approve` "
        "shows the question).",
        "Nothing will be compacted first: {turns} wait for your approval (`/context approve` "
        "shows the question).",
    )


def _step(plan: Plan, preview: Preview, strategy: str) -> str:
    removed = plan.removed
    raw = sum(turn.tokens for turn in preview.now.turns if turn.number in removed)
    raw += count_freed(preview.now, plan.change)
    size = _(" (about {tokens} tokens)", tokens=amount(preview.now.scale.part(raw))) if raw else ""
    is_first = plan is next((one for one in preview.plans if one.name != "stub"), None)
    return _(
        "First, {effect}{size}: {reason}.{summary}",
        effect=effect(plan, strategy),
        size=size,
        reason=future_reason(plan.why),
        summary=_summary(plan, preview, is_first),
    )


def _summary(plan: Plan, preview: Preview, is_first: bool) -> str:
    if not plan.leaving:
        return ""
    if plan.name == "fold":
        return _(" Their lines go to the daily memory.")
    if is_first and preview.is_ready:
        return _(" The summary is ready.")
    if preview.now.rendering == "system":  # strategies that wait for the summary
        return _(" The summary is written first.")
    return _(" This request is sent without the summary, the one after it with the summary.")


def _data(preview: Preview, strategy: str, rows: list[Row]) -> dict[str, Any]:
    return {
        "tokens": preview.then.tokens,
        "tokens_now": preview.now.tokens,
        "messages": [
            {"turn": turn, "message": who, "tokens": size or 0, "beginning": words}
            for turn, who, size, words in rows
        ],
        "plans": [plan_data(plan, strategy) for plan in preview.plans],
        "summary_is_ready": preview.is_ready,
    }
