"""`/context`: what the model sees, in one glance, and putting it away."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from channels.base import Glance
from memory.context.change import ViewEvent
from memory.context.forecast import Forecast
from memory.context.limits import Limits
from memory.context.view import View
from memory.record.ledger import Bill
from memory.turns import named
from plugins.api import Action, Ask, Command, CommandError, Reply, command, hookimpl
from plugins.glance import glance_of
from plugins.wording import amount, bar, count, money

SUBS = (
    ("clear", "put this conversation's turns away; nothing is deleted"),
    ("undo", "take the last change of the context back"),
    ("json", "the same figures as data"),
)
GOVERNING = ("agent_max_context_tokens", "agent_max_context_turns", "context.strategy")


@dataclass(frozen=True, slots=True)
class Overview:
    """All that `/context` shows, from one moment."""

    view: View
    limits: Limits
    next_cut: Forecast | None
    last_cut: ViewEvent | None
    bill: Bill
    layers: dict[str, str]
    stored: int
    tool_count: int
    glance: Glance


@command("context", "Show what the model sees, and what it costs", "[clear|undo|json]", SUBS)
async def context(ask: Ask) -> Reply:
    """The one command for the context; what follows it says what to do."""
    verb = ask.text.strip().lower()
    if verb in ("", "json"):
        overview = await _overview(ask)
        data = as_data(overview)
        text = as_json(data) if verb else as_text(overview)
        return Reply(text, data, _actions(overview))
    if verb == "clear":
        return await _clear(ask)
    if verb == "undo":
        return await _undo(ask)
    known = ", ".join(f"/context {name}" for name, _ in SUBS)
    raise CommandError(f"/context does not know {ask.text!r}; there are /context, {known}.")


async def _overview(ask: Ask) -> Overview:
    conversation = ask.conversation
    limits = conversation.limits
    view = conversation.view(limits=limits)
    describe = ask.bot.settings.describe
    return Overview(
        view,
        limits,
        conversation.forecast(),
        conversation.last_cut,
        conversation.bill,
        {key: describe(key, conversation.key.id).layer for key in GOVERNING},
        await conversation.count(),
        len(conversation.frame.tools),
        glance_of(conversation),
    )


def as_text(overview: Overview) -> str:
    """The glance: bar, parts, messages, limits, next and last cut, cost."""
    view, limits = overview.view, overview.limits
    share = view.tokens / limits.budget
    how = "measured at the last request" if view.scale.is_measured else "estimated"
    parts = "\n".join(f"| {name} | {amount(tokens)} |" for name, tokens in _parts(overview).items())
    lines = [
        f"**{amount(view.tokens)} of {amount(limits.budget)} tokens** "
        f"`{bar(share)}` {share:.0%} ({how})",
        f"| part | tokens |\n|---|---:|\n{parts}",
        _said(overview),
        _in_force(overview),
        _next(overview),
        _last(overview.last_cut),
        f"Cost of this chat: {money(overview.bill.cost, overview.bill.unknown)} "
        f"in {count(overview.bill.calls, 'call')} to the model.",
    ]
    return "\n\n".join(line for line in lines if line)


def _parts(overview: Overview) -> dict[str, int]:
    """Tokens by part; they add up to the budget."""
    view, scale = overview.view, overview.view.scale
    current = sum(turn.tokens for turn in view.turns if turn.number == view.current)
    parts = {
        "system prompt": scale.part(view.frame.system),
        f"tools ({overview.tool_count})": scale.part(view.frame.tools),
        "running turn": scale.part(current),
    }
    parts["turns"] = max(0, view.tokens - sum(parts.values()))
    parts["free"] = max(0, overview.limits.budget - view.tokens)
    return parts


def _said(overview: Overview) -> str:
    view = overview.view
    roles = Counter(message.role for message in view.messages)
    characters = sum(len(message.text) for message in view.messages)
    in_play = sum(roles.values())
    away = overview.stored - in_play
    by_role = ", ".join(f"{roles[role]} {role}" for role in ("user", "assistant", "tool"))
    names = f" ({named([turn.number for turn in view.turns])})" if view.turns else ""
    kept = f" {count(away, 'message')} more are stored but not in play." if away else ""
    return (
        f"{count(len(view.turns), 'turn')}{names}, {count(in_play, 'message')}: {by_role}; "
        f"{characters:,} characters.{kept}"
    )


def _in_force(overview: Overview) -> str:
    limits, layers = overview.limits, overview.layers
    window = (
        f"the model's window is {amount(limits.window)}, "
        f"{amount(limits.window - limits.ceiling)} of it kept free for its reply"
    )
    strategy = f"strategy {limits.strategy} ({layers['context.strategy']})"
    if limits.strategy != "trim":
        return f"In force: {strategy}; {window}."
    return (
        f"In force: {strategy}, at most {amount(limits.max_tokens)} tokens "
        f"({layers['agent_max_context_tokens']}) and {count(limits.max_turns, 'turn')} "
        f"({layers['agent_max_context_turns']}); {window}."
    )


def _next(overview: Overview) -> str:
    cut = overview.next_cut
    if cut is None:
        return "Next cut: none in sight."
    return (
        f"Next cut: when t{cut.at_turn} begins, {named(cut.plan.leaving)} leave "
        f"(about {amount(cut.tokens)} tokens)."
    )


def _last(event: ViewEvent | None) -> str:
    if event is None:
        return "Last change: none yet."
    return (
        f"Last change: {event.kind} on {event.at:%Y-%m-%d at %H:%M} UTC, {event.reason}; "
        f"{amount(event.tokens_before)} → {amount(event.tokens_after)} tokens. "
        "/context undo takes it back."
    )


def as_data(overview: Overview) -> dict[str, Any]:
    """The same as JSON; `glance` is what the terminal's bar shows."""
    view, limits, bill = overview.view, overview.limits, overview.bill
    cut, last = overview.next_cut, overview.last_cut
    roles = Counter(message.role for message in view.messages)
    return {
        "glance": asdict(overview.glance),
        "tokens": view.tokens,
        "budget": limits.budget,
        "window": limits.window,
        "is_measured": view.scale.is_measured,
        "parts": _parts(overview),
        "messages": sum(roles.values()),
        "roles": {role: roles[role] for role in ("user", "assistant", "tool")},
        "characters": sum(len(message.text) for message in view.messages),
        "stored_messages": overview.stored,
        "turns": [turn.id for turn in view.turns],
        "strategy": limits.strategy,
        "max_turns": limits.max_turns,
        "max_tokens": limits.max_tokens,
        "layers": overview.layers,
        "next_cut": cut
        and {"at": f"t{cut.at_turn}", "turns": list(cut.plan.leaving), "tokens": cut.tokens},
        "last_change": last
        and {
            "kind": last.kind,
            "at": last.at.isoformat(),
            "reason": last.reason,
            "tokens_before": last.tokens_before,
            "tokens_after": last.tokens_after,
        },
        "cost": bill.cost,
        "calls": bill.calls,
        "calls_of_unknown_price": bill.unknown,
    }


def as_json(data: dict[str, Any]) -> str:
    """The data as a block of code."""
    return f"```json\n{json.dumps(data, indent=2, ensure_ascii=False)}\n```"


def _actions(overview: Overview) -> tuple[Action, ...]:
    clear = (Action("Clear", "/context clear"),) if overview.view.complete else ()
    undo = (Action("Undo", "/context undo"),) if overview.last_cut else ()
    return clear + undo


async def _clear(ask: Ask) -> Reply:
    cleared = await ask.conversation.clear()
    if not cleared.turns:
        return Reply("There is nothing to clear: no finished turn is in play.", {"turns": []})
    names = named(cleared.turns)
    text = (
        f"Cleared: {names} ({count(cleared.messages, 'message')}, about "
        f"{amount(cleared.tokens)} tokens) are out of this conversation's context. "
        "They stay on disk; /context undo brings them back."
    )
    data = {
        "turns": [f"t{number}" for number in cleared.turns],
        "messages": cleared.messages,
        "tokens": cleared.tokens,
    }
    return Reply(text, data, (Action("Undo", "/context undo"),))


async def _undo(ask: Ask) -> Reply:
    undone = await ask.conversation.undo()
    if undone is None:
        return Reply("There is nothing to undo: the context was never changed.", {"undone": None})
    turns = len(ask.conversation.view().turns)
    return Reply(
        f"Undone: the {undone.kind} of {undone.at:%Y-%m-%d at %H:%M} UTC ({undone.reason}). "
        f"{count(turns, 'turn')} are in play now.",
        {"undone": undone.kind, "turns": turns},
    )


@hookimpl
def parley_commands() -> list[Command]:
    return [context]
