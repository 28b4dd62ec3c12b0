"""All data that `/context` shows, collected at one moment, and the same as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from channels.base import ContextUsage
from channels.language import _, explain, number_of
from memory.calibration import CutPrompt, LearnedWindow
from memory.context.change import ViewEvent
from memory.context.cut_cost import CutCost
from memory.context.forecast import Preview
from memory.context.plan import Plan
from memory.context.settings import Limits
from memory.context.strategies import STRATEGIES
from memory.context.view import View
from memory.conversation import Conversation
from memory.forecaster import HELD_TURNS, Pending, hold_limit
from memory.ledger import Bill
from memory.long_term.prompt import PromptMemory
from memory.messages import Role
from memory.services import CutNotice
from plugins.api import Ask
from plugins.builtin.context.cost import Cache, SoftLimit, cache_of, soft_limit_of
from plugins.builtin.context.values import RequestBlock, list_blocks, pick, sentence_about
from plugins.rules import find_compacting, parse
from plugins.turn_names import ids
from plugins.wording import spread, usage_of

GOVERNING = (
    "context.strategy",
    "agent_max_context_tokens",
    "agent_max_context_turns",
    "context.max_tokens",
    "context.output_reserved",
    "context.tool_result_limit",
    "context.summary_max_tokens",
    "context.full_turns",
    "context.max_terse_entries",
    "context.fold_turns",
    "context.keep_recent",
    "context.compression_trigger",
    "context.trigger_ratio",
    "context.reserve_ratio",
    "context.auto_compact",
    "context.stub_tools",
    "context.stub_keep",
    "context.stub_batch",
    "hooks",
)
"""The settings whose layers are shown."""

ROLES: tuple[Role, ...] = ("user", "assistant", "tool", "note")


class CompactionHold(Struct, frozen=True):
    """A delay of compactions after a person's action: until this turn begins or the context reaches
    this size."""

    turn: int
    tokens: int
    because: str = "of your undo"


class Overview(Struct, frozen=True):
    """The data of `/context`. `learned` is a window that the provider has named, in force instead
    of the one set. `due` is the compaction before the next step of the running turn. `cost` is the
    cost of the next compaction. `layers` has the source of each setting. `chosen` is the strategy
    in force from the next turn on. `waiting` is a compaction that waits for approval: nothing else
    is forecast then. `rules` are the ids of the person's own hook rules that compact. `remembered`
    is the part of `MEMORY.md` in the prompt. `cache` is the known state of the provider's cache.
    `cut_prompt` is the last request, if its server has truncated it. `soft` is the context length
    that the model handles well. `tools` has the tokens of each tool, the largest first. `verbs` are
    the subcommands of `/context`, including those of features."""

    view: View
    limits: Limits
    learned: LearnedWindow | None
    due: Plan | None
    next_cut: Preview | None
    cost: CutCost | None
    cache: Cache
    waiting: CutNotice | None
    cut_prompt: CutPrompt | None
    soft: SoftLimit
    hold: CompactionHold | None
    last: ViewEvent | None
    summary: Pending
    can_undo: bool
    bill: Bill
    layers: Mapping[str, str]
    chosen: str
    rules: tuple[str, ...]
    stored: int
    tools: Mapping[str, int]
    remembered: PromptMemory
    usage: ContextUsage
    zone: tzinfo
    verbs: frozenset[str]


async def gather(ask: Ask) -> Overview:
    """Return the overview of this conversation's context now."""
    conversation = ask.conversation
    replayed, limits = conversation.context.replayed, conversation.context.limits
    view = conversation.context.view(limits=limits)
    described = ask.bot.settings.describe_all(conversation.key.id, GOVERNING)
    settings = {setting.key: setting for setting in described}
    waiting, cache = await conversation.compactor.approval.notice(), cache_of(ask)
    next_cut = None if waiting else conversation.compactor.forecaster.forecast()
    return Overview(
        view=view,
        limits=limits,
        learned=conversation.calibration.find_learned_window(conversation.context.limits_as_set),
        due=conversation.compactor.forecaster.due() if conversation.context.current else None,
        next_cut=next_cut,
        cost=cache.of_plans(next_cut, next_cut.now.tokens) if next_cut else None,
        cache=cache,
        waiting=waiting,
        soft=soft_limit_of(ask),
        cut_prompt=conversation.calibration.cuts.newest.get(limits.model),
        hold=hold(conversation),
        last=replayed.last,
        summary=await _summary(conversation, replayed.last),
        can_undo=replayed.can_undo,
        bill=conversation.context.chat_bill,
        layers={key: setting.layer for key, setting in settings.items()},
        chosen=settings["context.strategy"].value,
        rules=find_compacting(parse(list(settings["hooks"].value))),
        stored=await conversation.count(),
        tools=_count_tool_tokens(conversation, view),
        remembered=ask.bot.remembered(conversation.key),
        usage=usage_of(conversation.context),
        zone=ask.bot.zone(),
        verbs=frozenset(sub.name for sub in ask.bot.commands["context"].subs),
    )


def _count_tool_tokens(conversation: Conversation, view: View) -> dict[str, int]:
    sizes = conversation.context.count_tools()
    largest_first = sorted(sizes, key=lambda name: -sizes[name])
    shares = spread(parts(view)["tools"], [sizes[name] for name in largest_first])
    return dict(zip(largest_first, shares, strict=True))


def hold(conversation: Conversation) -> CompactionHold | None:
    """Return the delay of automatic compactions after a person's action, if there is one."""
    context = conversation.context
    undo, limits = context.replayed.move, context.limits
    if undo is None or not conversation.compactor.forecaster.holds_off():
        return None
    most = hold_limit(undo, context.view())
    turn = undo.turn + HELD_TURNS
    because = BECAUSE.get(undo.name, BECAUSE["undo"])
    return CompactionHold(turn, min(most, limits.ceiling), because)


BECAUSE = {"hold": "you declined it", "expand": "you opened a summary", "undo": "of your undo"}


async def _summary(conversation: Conversation, last: ViewEvent | None) -> Pending:
    layout, find = conversation.context.layout, conversation.compactor.forecaster.find_pending
    if last is None or not last.change.makes("range"):
        return await find(layout.front)
    return await find(last.id) if any(one.event == last.id for one in layout.ranges) else ""


def parts(view: View) -> dict[str, int]:
    """Return the tokens of each part; their sum is the size of the next request."""
    part = view.scale.part
    complete = sum(turn.tokens for turn in view.complete)
    running = sum(turn.tokens for turn in view.turns) - complete
    summary = part(view.preface.tokens) if view.preface else 0
    sections = dict(view.prefix.sections)
    around = {"system prompt": max(0, view.prefix.system - sum(sections.values())), **sections}
    sizes = {
        **dict(zip(around, spread(part(view.prefix.system), [*around.values()]), strict=True)),
        "tools": part(view.prefix.tools),
        "summary": summary,
        "activity log": part(view.front_tokens) - summary,
        "summaries of turns": part(view.range_tokens),
        "turns": part(complete),
        "running turn": part(running),
    }
    largest = max(sizes, key=lambda name: sizes[name])
    sizes[largest] += max(0, view.tokens - sum(sizes.values()))  # counted only by the provider
    if sum(sizes.values()) <= view.tokens:
        return sizes
    return dict(zip(sizes, spread(view.tokens, [*sizes.values()]), strict=True))


def block_sizes(view: View) -> list[tuple[RequestBlock, int]]:
    """Return the blocks of the next request in order, each with its share of the tokens of its part
    (`parts`), so that every list of a request has the same figures."""
    sizes, blocks = parts(view), [*list_blocks(view)]
    shares = {
        part: iter(spread(size, [block.raw for block in blocks if block.part == part]))
        for part, size in sizes.items()
    }
    return [(block, next(shares[block.part])) for block in blocks]


def message_sizes(view: View) -> dict[int, int]:
    """Return the tokens of each message in context by its seq, which add up to those of its turn
    (`block_sizes`)."""
    sizes = dict[int, int]()
    for block, tokens in block_sizes(view):
        entries = block.turn.entries if block.turn else ()
        shares = spread(tokens, [entry.tokens for entry in entries])
        sizes |= zip((entry.seq for entry in entries), shares, strict=True)
    return sizes


def counts(overview: Overview) -> dict[str, Any]:
    """Return the number of messages in context, also by role, and of their characters."""
    messages = overview.view.messages
    roles = Counter(message.role for message in messages)
    return {
        "messages": len(messages),
        "roles": {role: roles[role] for role in ROLES if roles[role] or role != "note"},
        "characters": sum(len(message.shown_text) for message in messages),
        "stored_messages": overview.stored,
    }


def as_data(overview: Overview) -> dict[str, Any]:
    """Return the overview as JSON. `usage` has the values of the terminal's status bar. Times are
    ISO 8601."""
    view, limits, bill = overview.view, overview.limits, overview.bill
    waiting = overview.waiting
    return {
        **pick(overview, "usage", "layers", "cut_prompt", "summary", tools=[*overview.tools]),
        **pick(limits, "budget", "window", "strategy", "max_turns", "max_tokens"),
        **counts(overview),
        "tokens": view.tokens,
        "free": max(0, limits.budget - view.tokens),
        "window_is_learned": overview.learned is not None,
        "reserve": limits.window - limits.ceiling,
        "is_measured": view.scale.is_measured,
        "parts": parts(view),
        "turns": [turn.id for turn in view.turns],
        "summarised_in_place": [ids(one.turns) for one in view.layout.ranges],
        "log": ids(view.logged),
        "running_turn": f"t{view.current}" if view.current else None,
        "pinned": ids(tuple(sorted(view.layout.pinned))),
        "tool_sizes": overview.tools,
        "memory": {"in_prompt": overview.remembered.shown, "lines": overview.remembered.total},
        "strategy_from_next_turn": overview.chosen,
        "compacting_rules": overview.rules,
        "due": overview.due and plan_data(overview.due, limits.strategy),
        "soft_limit": overview.soft.data,
        "next_cut": overview.next_cut and _describe_cut(overview.next_cut, overview),
        "waiting_cut": waiting and pick(waiting, "turns", summary=waiting.summary.name),
        "held_off_until": overview.hold and asdict(overview.hold),
        "last_change": overview.last and event_data(overview.last),
        "preface": view.preface.text if view.preface else "",
        "cost": bill.cost,
        "calls": bill.calls,
        "calls_of_unknown_price": bill.unknown,
    }


def effect(plan: Plan, strategy: str, newest: int | None = None) -> str:
    """Describe the effect of a plan: "t1 to t10 will be summarised, t11 is shortened". A forecast
    names no turns after the `newest`, which do not exist yet."""
    change = plan.change
    style = plan.style or STRATEGIES[plan.strategy or strategy].style
    if change.restores_turns:
        return _("turns and lines that `slim` had removed come back")
    squeezed = [n for n in change.turns("squeezed") if n not in plan.leaving]
    folded = [n for n in change.turns("line") if n not in plan.leaving]
    # A reminder is a sentence that replaces the turns, not a summary of them.
    removed = (
        sentence_about(plan.leaving, "{turn} will be removed", "{turns} will be removed")
        if style == "reminder"
        else sentence_about(plan.leaving, "{turn} will be summarised", "{turns} will be summarised")
    )
    if newest is not None and max(plan.leaving, default=0) > newest:
        removed = _(
            "the oldest turns will be removed"
            if style == "reminder"
            else "the oldest turns will be summarised"
        )
    clips, stubs = change.shortened
    done = (
        plan.leaving and removed,
        folded
        and sentence_about(
            folded, "{turns} becomes a line of the log", "{turns} become lines of the log"
        ),
        squeezed
        and sentence_about(
            squeezed,
            "{turns} is shortened to question and reply",
            "{turns} are shortened to question and reply",
        ),
        clips and number_of(clips, "{n} long message is clipped", "{n} long messages are clipped"),
        stubs
        and number_of(
            stubs,
            "{n} old tool result becomes one line",
            "{n} old tool results become one line each",
        ),
    )
    text = ", ".join(one for one in done if isinstance(one, str))
    return text or _("the rest of a turn is removed")


def describe_effects(cut: Preview, strategy: str, newest: int) -> str:
    """Describe the effect of the next compaction, in the order of its stages."""
    return _(", then ").join(effect(plan, strategy, newest) for plan in cut.plans)


def count_known(cut: Preview, newest: int) -> int:
    """Return the tokens that the next compaction frees; 0 if turns that do not exist yet are among
    the removed ones."""
    return cut.freed if all(number <= newest for number in cut.removed) else 0


def plan_data(plan: Plan, strategy: str) -> dict[str, Any]:
    """Return a plan as JSON."""
    return {"turns": ids(plan.leaving), "effect": effect(plan, strategy), "why": plan.why}


def _describe_cut(cut: Preview, overview: Overview) -> dict[str, Any]:
    newest, cost = overview.view.newest, overview.cache
    effects, turns = describe_effects(cut, overview.limits.strategy, newest), ids(cut.removed)
    more = {"effect": effects, "cost": cost.data(overview.cost)}
    return {"at": f"t{cut.now.current}", "turns": turns, "tokens": count_known(cut, newest), **more}


def event_data(event: ViewEvent) -> dict[str, Any]:
    """Return a view event as JSON."""
    return pick(
        event,
        *("actor", "strategy", "at", "tokens_before", "tokens_after"),
        id=f"e{event.id}",
        kind=event.name,
        reason=explain(event.reason),
        at_turn=f"t{event.turn}",
        turns=event.touched,
    )
