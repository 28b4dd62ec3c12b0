"""`/context preview`: what the next request will contain, and what leaves before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from channels.language import _
from memory.context.forecast import Preview
from memory.context.layout import RangeSummary
from memory.context.meter import PromptPrefix
from memory.context.plan import Plan
from memory.context.strategies.stubs import count_freed
from memory.context.view import View
from memory.turns import Entry
from plugins.api import Ask, Reply
from plugins.builtin.context.cost import cache_of
from plugins.builtin.context.overview import Hold, effect, hold
from plugins.builtin.context.show import explain_hold, reason
from plugins.builtin.context.turns import name_role, role, summarize
from plugins.builtin.context.values import say_of
from plugins.turn_names import ids
from plugins.wording import amount, clip, literal, shorten, shrink, table

Row = tuple[str, str, int | None, str]
"""Turn, message, tokens (None: not known yet), beginning."""
_FIRST, _LAST = 10, 50  # messages that are shown of very many


async def show(ask: Ask, rest: str) -> Reply:
    """`/context preview`"""
    del rest
    conversation = ask.conversation
    preview = await conversation.compactor.forecaster.preview()
    context = conversation.context
    held = hold(context.view(), context.limits, conversation)
    waiting = await conversation.compactor.approval.notice()
    strategy = context.limits.strategy
    rows = list_messages(preview.then, context.prefix, is_asked=bool(context.current))
    cache = cache_of(ask)
    cost = cache.of_preview(preview)
    parts = (
        _headline(preview, context.limits.budget, bool(context.current)),
        show_messages(rows),
        describe_steps(preview, strategy, held, waiting.turns if waiting else ()),
        _("That {cost}.", cost=cache.clause(cost)) if cost else "",
    )
    text = "\n\n".join(filter(None, parts))
    return Reply(text, {**_data(preview, strategy, rows), "cost": cache.data(cost)})


def _headline(preview: Preview, budget: int, is_asked: bool) -> str:
    besides = "" if is_asked else _(", and your next message")
    size = _(
        "{tokens} of {budget} tokens", tokens=amount(preview.then.tokens), budget=amount(budget)
    )
    return _("**The next request holds about {size}**{besides}.", size=size, besides=besides)


def list_messages(view: View, prefix: PromptPrefix, *, is_asked: bool = True) -> list[Row]:
    """List the messages of a request in the order in which it is sent; the tokens add up to the
    view's. The question is still to come where not `is_asked`."""
    part = view.scale.part
    rows: list[Row] = []
    if prefix.tools:
        names = [tool["function"]["name"] for tool in prefix.tools]
        rows.append(("", "tools", part(view.prefix.tools), clip(", ".join(names))))
    if prefix.system:
        rows.append(("", "system prompt", part(view.prefix.system), clip(prefix.system)))
    if view.preface:
        rows.append(("", "summary", part(view.preface.tokens), clip(view.preface.text)))
    if view.log:
        log = part(view.front_tokens - (view.preface.tokens if view.preface else 0))
        rows.append(
            (
                "",
                "activity log",
                log,
                _("{n} lines; {last}", n=len(view.log), last=view.log[-1].text),
            )
        )
    waiting = [s for s in view.ranges if s.summary in view.summaries]
    for turn in view.turns:
        due = [s for s in waiting if s.turns[-1] < turn.number]
        waiting = waiting[len(due) :]
        rows += [_range_row(s, view) for s in due]
        rows += [_row(entry, part(entry.tokens)) for entry in turn.entries]
    rows += [_range_row(s, view) for s in waiting]
    if not is_asked:
        rows[-1] = (rows[-1][0], "user", None, _("(your next message)"))
    sizes = [row[2] or 0 for row in rows]
    besides = view.tokens - sum(sizes)
    if besides > 0:
        rows.append(("", "other", besides, _("added by the provider, and rounding")))
        return rows
    fitting = shrink(sizes, view.tokens)
    return [
        (turn, who, None if size is None else less, words)
        for (turn, who, size, words), less in zip(rows, fitting, strict=True)
    ]


def show_messages(rows: Sequence[Row]) -> str:
    """Return the same as a table."""
    lines = [
        (turn, literal(name_role(who)), "" if size is None else amount(size), literal(words))
        for turn, who, size, words in rows
    ]
    shown = shorten(lines, _FIRST, _LAST, lambda n: ("…", _("{n} more", n=n), "", ""))
    return table(("turn", "message", "tokens:", "beginning"), shown)


def _range_row(one: RangeSummary, view: View) -> Row:
    summary, turns = view.summaries[one.summary], one.turns
    name = f"t{turns[0]}" if turns[0] == turns[-1] else f"t{turns[0]}-t{turns[-1]}"
    return name, "summary", view.scale.part(summary.tokens), clip(summary.text)


def _row(entry: Entry, tokens: int) -> Row:
    return f"t{entry.turn}", role(entry.message), tokens, summarize(entry.message)


def describe_steps(
    preview: Preview, strategy: str, held: Hold | None = None, waiting: Sequence[int] = ()
) -> str:
    """Describe what is done before it is sent, by which rule, and why."""
    if not preview.plans and held:
        return explain_hold(held)
    if not preview.plans and waiting:
        return say_of(
            waiting,
            "Nothing is compacted first: {turns} waits for your approval (`/context "
            "approve` shows the question).",
            "Nothing is compacted first: {turns} wait for your approval (`/context approve` "
            "shows the question).",
        )
    if not preview.plans:
        return _("Nothing is compacted first: it is within all limits.")
    return "\n\n".join(_step(plan, preview, strategy) for plan in preview.plans)


def _step(plan: Plan, preview: Preview, strategy: str) -> str:
    gone = {*plan.leaving, *plan.change.turns("line")}
    raw = sum(turn.tokens for turn in preview.now.turns if turn.number in gone)
    raw += count_freed(preview.now, plan.change)
    size = _(" (about {tokens} tokens)", tokens=amount(preview.now.scale.part(raw))) if raw else ""
    is_first = plan is next((one for one in preview.plans if one.name != "stub"), None)
    return _(
        "Before that, {effect}{size}: {reason}.{summary}",
        effect=effect(plan, strategy),
        size=size,
        reason=reason(plan.why),
        summary=_summary(plan, preview, is_first),
    )


def _summary(plan: Plan, preview: Preview, is_first: bool) -> str:
    if not plan.leaving:
        return ""
    if plan.name == "fold":
        return _(" Their lines go to the daily memory.")
    if is_first and preview.is_ready:
        return _(" Their summary is ready and replaces them.")
    if preview.now.rendering == "system":  # strategies that wait for it
        return _(" Their summary is written first and replaces them.")
    return _(" Their summary is written in the background and replaces them from the turn after.")


def _data(preview: Preview, strategy: str, rows: list[Row]) -> dict[str, Any]:
    names = ("turn", "message", "tokens", "beginning")
    return {
        "tokens": preview.then.tokens,
        "tokens_now": preview.now.tokens,
        "messages": [
            dict(zip(names, (*row[:2], row[2] or 0, row[3]), strict=True)) for row in rows
        ],
        "plans": [
            {"turns": ids(plan.leaving), "effect": effect(plan, strategy), "why": plan.why}
            for plan in preview.plans
        ],
        "summary_is_ready": preview.is_ready,
    }
