"""`/context`: a short overview that fits on a phone; and `/context json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from channels.language import _, explain, figure, format_datetime, number_of
from memory.context.change import Name, ViewEvent
from memory.context.emergency import REASONS
from memory.context.plan import ASKED, THRESHOLDS, explain_stuck, find_stuck
from memory.context.settings import Limits
from memory.context.strategies.stubs import may_stub
from memory.context.view import View
from memory.patterns import lazy
from memory.turn_log import describe_cut_prompt
from plugins.api import Action, Ask, Reply
from plugins.builtin.context.overview import (
    CompactionHold,
    Overview,
    as_data,
    count_known,
    counts,
    describe_effects,
    effect,
    gather,
    parts,
)
from plugins.builtin.context.values import phrase
from plugins.rules import AUTO_COMPACT
from plugins.wording import (
    amount,
    aside,
    bar,
    count,
    format_turns,
    labelled,
    literal,
    money,
    name_layer,
    sentence,
    sentences,
    series,
    table,
)

BY_RULE = ("truncate", "summarize")
"""The strategies that a hook rule carries out: the built-in rule, or the person's own."""

_MOST_TOOLS = 12  # named with their sizes

DETAILS = Action("Details", "/context detail")
MAP = Action("Map", "/context map")
COMPACT = Action("Compact", "/context compact")
CLEAR = Action("Clear", "/context clear", asks_first=True)
UNDO = Action("Undo", "/context undo")
"""Undo the newest change at the time it is pressed; `undo_of` names a fixed one."""

KINDS: Mapping[Name, str] = {
    "compact": "compaction",
    "squeeze": "shorten to question and reply",
    "clip": "clip of long messages",
    "stub": "old tool results to one line each",
    "fold": "move into the log",
    "unfold": "return from the log",
    "new": "new start",
    "restart": "restart",
    "range": "new summary",
    "edit": "edit of the summary",
    "hold": "compaction declined",
    "expand": "expansion of a summary",
    "strategy": "change of strategy",
    "prompt": "change of the prompt",
    **{name: name for name in ("clear", "drop", "pin", "unpin")},
}
"""The labels of events."""


async def show(ask: Ask, rest: str) -> Reply:
    """Run `/context`."""
    del rest
    overview = await gather(ask)
    return Reply(as_text(overview), as_data(overview), actions(overview))


async def show_json(ask: Ask, rest: str) -> Reply:
    """Run `/context json`."""
    del rest
    overview = await gather(ask)
    data = as_data(overview)
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return Reply(f"```json\n{text}\n```", data, actions(overview))


def actions(overview: Overview) -> tuple[Action, ...]:
    """Return the buttons for the actions on the context that are possible now."""
    offers = {
        DETAILS: True,
        MAP: "map" in overview.verbs,
        COMPACT: bool(overview.view.movable),
        CLEAR: bool(overview.view.complete),
        UNDO: overview.can_undo,
    }
    return tuple(
        replace(action, label=_(action.label))
        for action, is_offered in offers.items()
        if is_offered
    )


def undo_of(event: ViewEvent) -> Action:
    """Return a button that undoes only this change, even if it is pressed repeatedly."""
    return Action("Undo", f"/context undo e{event.id}")


def as_text(overview: Overview) -> str:
    """Return the overview as text: bar, parts, messages, limits, next and last compaction, cost."""
    lines = (
        headline(overview),
        cut_prompt(overview),
        sizes(overview),
        tools(overview),
        format_counts(overview),
        in_force(overview),
        too_small(overview.view, overview.limits),
        too_long(overview),
        next_cut(overview),
        last_change(overview),
        cost(overview),
    )
    return "\n\n".join(line for line in lines if line)


def headline(overview: Overview) -> str:
    """Describe how full the context is."""
    usage, limits = overview.usage, overview.limits
    how = _("measured at the last request") if usage.is_measured else _("estimated")
    tokens = _(
        "{tokens} of {budget} tokens", tokens=amount(usage.tokens), budget=amount(limits.budget)
    )
    text = _("{n} of {turns}", n=usage.turns, turns=count(usage.max_turns, "turn"))
    turns = text if usage.max_turns else ""
    nearest, other = (turns, tokens) if usage.nearest == "turns" else (tokens, turns)
    at = limits.threshold
    is_early = usage.nearest == "tokens" and usage.share != usage.tokens / limits.budget
    of = _(" of the {tokens} at which it is compacted", tokens=amount(at)) if is_early else ""
    full = " · ".join(filter(None, (nearest + aside(f"{usage.share:.0%}{of}"), other)))
    return f"**{full}** `{bar(usage.share)}` {how}"


def cut_prompt(overview: Overview) -> str:
    """Return a warning that the server truncates the request, and the remedy; "" if it does not."""
    cut = overview.cut_prompt
    return explain(describe_cut_prompt(overview.limits.model, cut)) if cut else ""


def sizes(overview: Overview) -> str:
    """Return the tokens of each part as a table, without empty parts."""
    view, limits = overview.view, overview.limits
    numbers = [turn.number for turn in view.complete]
    more = {
        "memory": phrase(overview.remembered, " ({shown} of {total} lines)"),
        "tools": aside(str(len(overview.tools))),
        "turns": aside(format_turns(numbers)),
        "running turn": aside(format_turns([t.number for t in view.turns if not t.is_complete])),
    }
    found = parts(view).items()
    rows = [(_(name) + more.get(name, ""), amount(n)) for name, n in found if n]
    rows.append((_("free"), amount(max(0, limits.budget - view.tokens))))
    rows.append((_("reserved for the reply"), amount(limits.window - limits.ceiling)))
    return table((_("part"), _("tokens:")), rows)


def tools(overview: Overview) -> str:
    """Return the tokens of each tool, the largest first; "" without tools."""
    found = [f"{literal(name)} {amount(size)}" for name, size in overview.tools.items()]
    rest = sum([*overview.tools.values()][_MOST_TOOLS:])
    if len(found) > _MOST_TOOLS + 1:
        found[_MOST_TOOLS:] = [
            _("{n} more {tokens}", n=len(found) - _MOST_TOOLS, tokens=amount(rest))
        ]
    return _("Tools: {list} (tokens of each).", list=", ".join(found)) if found else ""


def format_counts(overview: Overview) -> str:
    """Return the number of messages in context, by role, and of the messages on disk only."""
    numbers = counts(overview)
    by_role = series(f"{n} {_(role)}" for role, n in numbers["roles"].items() if n)
    messages = number_of(numbers["messages"], "{n} message", "{n} messages")
    away = overview.stored - numbers["messages"]
    more = number_of(
        away, "{n} more message is kept on disk.", "{n} more messages are kept on disk."
    )
    text = _(
        "In context: {turns}, {messages}, {characters} characters.",
        turns=number_of(len(overview.view.turns), "{n} turn", "{n} turns"),
        messages=messages + aside(by_role),
        characters=figure(f"{numbers['characters']:,}"),
    )
    return sentences(text, more if away else "")


def in_force(overview: Overview) -> str:
    """Return the limits, and the source of each."""
    limits, layers = overview.limits, overview.layers
    strategy = limits.strategy + aside(name_layer(layers["context.strategy"]))
    if overview.chosen != limits.strategy:
        strategy = _(
            "{strategy} ({chosen} from your next message on)",
            strategy=limits.strategy,
            chosen=overview.chosen,
        )
    governing = (*_own_limits(overview), *_rules(overview))
    own = [text + aside(name_layer(layers[key])) for text, key in governing]
    named = series((_("strategy {name}", name=strategy), *own))
    learned = overview.learned and (
        _(
            " (learned from an error, instead of {instead_of}; `/config context.max_tokens 0` "
            "forgets it)",
            instead_of=amount(overview.learned.instead_of),
        )
    )
    window = f"{amount(limits.window)}{learned or ''}"
    sentence = _("Limits: {limits}; the model's window is {window}.", limits=named, window=window)
    return f"{sentence}{_explain_ceiling(overview)}"


def too_small(view: View, limits: Limits) -> str:
    """Return a warning if no compaction could help, since the system prompt and the tools leave no
    room below the threshold, or pins fill a limit; "" otherwise."""
    stuck = find_stuck(view, limits)
    if stuck != "prompt":
        return explain(explain_stuck(view, limits))
    setting = THRESHOLDS[limits.strategy]
    system, tools = view.scale.part(view.prefix.system), view.scale.part(view.prefix.tools)
    wanted = enough(view, limits)
    do = (
        _("Set /config {setting} {tokens}, or more", setting=setting, tokens=wanted)
        if wanted
        else _("Choose a model with a larger window, or shorten system_prompt")
    )
    text = _(
        "{setting} compacts at {threshold} tokens, but the system prompt ({system}) and the "
        "tools ({tools}) alone fill that. No compaction could help, so none is made until "
        "the model's window is full.",
        setting=setting,
        threshold=figure(f"{limits.threshold:,}"),
        system=figure(f"{system:,}"),
        tools=figure(f"{tools:,}"),
    )
    return sentences(text, sentence(do))


def too_long(overview: Overview) -> str:
    """Return a warning if the model does not handle such a long context well; "" otherwise."""
    complaint = overview.soft.complaint(overview.view.tokens)
    if not complaint or "advise" not in overview.verbs:
        return complaint
    return sentences(complaint, _("`/context advise` says what to do."))


def enough(view: View, limits: Limits) -> int:
    """Return a budget for `trim` that leaves room for turns as well; 0 if no budget helps."""
    fixed = view.scale.tokens(view.prefix.system + view.prefix.tools)
    wanted = -(-(2 * fixed + limits.context.summary_max_tokens) // 1_000) * 1_000
    return wanted if limits.strategy == "trim" and wanted <= limits.ceiling else 0


def _rules(overview: Overview) -> Iterator[tuple[str, str]]:
    """Yield the hook rules that compact, the built-in one or the person's own: in words, with the
    setting that defines them."""
    limits, own = overview.limits, format_rules(overview.rules)
    share = limits.context.compression_trigger
    if limits.strategy not in BY_RULE:
        if own:
            yield _("{own} too", own=own), "hooks"
    elif own:
        yield _("{own} instead of `{auto_compact}`", own=own, auto_compact=AUTO_COMPACT), "hooks"
    elif limits.auto_compact:
        text = _(
            "`{auto_compact}` compacts at {share:.0%} of the budget",
            auto_compact=AUTO_COMPACT,
            share=share,
        )
        yield text, "context.compression_trigger"
    else:
        yield _("nothing is compacted before the window is full"), "context.auto_compact"


def format_rules(ids: Sequence[str]) -> str:
    """Return the person's own rules that compact, in words: "the rule `tidy_up` compacts"; "" for
    none."""
    if not ids:
        return ""
    more = [_("{n} more", n=len(ids) - 3)] if len(ids) > 3 else []
    some = ", ".join((*(f"`{name}`" for name in ids[:3]), *more))
    return _("the rules {some} compact" if ids[1:] else "the rule {some} compacts", some=some)


_OWN = {
    "trim": ("agent_max_context_tokens", "agent_max_context_turns"),
    "stubs": ("context.stub_keep", "context.stub_batch"),
    "slim": ("context.full_turns", "context.fold_turns", "context.max_terse_entries"),
    "truncate": ("context.keep_recent",),
    "summarize": ("context.keep_recent",),
    "structured": ("context.trigger_ratio", "context.reserve_ratio"),
}
"""The settings of each strategy that limit the context."""


def _own_limits(overview: Overview) -> Iterator[tuple[str, str]]:
    """Yield the limits of the strategy in force: in words, with the setting of each."""
    limits = overview.limits
    keys = _OWN.get(limits.strategy, ())
    if may_stub(limits) and limits.strategy != "stubs":
        yield _("old tool results become one line each first"), "context.stub_tools"
        keys = (*_OWN["stubs"], *keys)
    for key in keys:
        yield _describe_limit(key, limits), key


def _describe_limit(key: str, limits: Limits) -> str:
    value: Any = getattr(limits.context, key.removeprefix("context."), None)
    match key:
        case "agent_max_context_tokens":
            return phrase(limits, "{max_tokens} tokens")
        case "agent_max_context_turns":
            return count(limits.max_turns, "turn") if limits.max_turns else _("no limit of turns")
        case "context.stub_keep":
            return _("the last {results} whole", results=count(value, "tool result"))
        case "context.stub_batch":
            batch = amount(limits.stub_batch)
            return _("{stub_batch} tokens of results at a time become lines", stub_batch=batch)
        case "context.full_turns":
            return _("the last {turns} in full", turns=count(value, "turn"))
        case "context.fold_turns":
            turns = limits.fold_turns
            text = _("{turns} at a time into the log", turns=count(turns, "turn"))
            return text if turns else _("turns into the log in groups, when that saves money")
        case "context.max_terse_entries":
            return _("{lines} in it", lines=count(value, "line"))
        case "context.trigger_ratio":
            return _("at {trigger_ratio:.0%} of the window", trigger_ratio=value)
        case "context.reserve_ratio":
            return _("{reserve_ratio:.0%} of it stays", reserve_ratio=value)
    return number_of(value, "the last message stays", "the last {n} messages stay")


def _explain_ceiling(overview: Overview) -> str:
    """Return a note that the model allows less than the setting; "" if it does not."""
    limits = overview.limits
    if limits.strategy != "trim" or limits.max_tokens <= limits.ceiling:
        return ""
    return _(
        " Besides the reply, it has room for {ceiling}: this is the limit, not "
        "agent_max_context_tokens.",
        ceiling=amount(limits.ceiling),
    )


def explain_hold(until: CompactionHold) -> str:
    """Return how long nothing is compacted after an undo, a declined compaction, or an expanded
    summary."""
    return phrase(
        until,
        "Because {because}, nothing is compacted before t{turn} begins, unless the context "
        "grows to {tokens} tokens first.",
        because=_(until.because),
    )


def next_cut(overview: Overview) -> str:
    """Describe when the next compaction happens, and its effect."""
    if overview.hold:
        return sentences(_("Next compaction: none for now."), explain_hold(overview.hold))
    if overview.waiting:
        return phrase(
            overview.waiting,
            "Next compaction: {turns}, once you have answered (`/context approve` shows the "
            "question).",
        )
    if overview.due:
        due, strategy = overview.due, overview.limits.strategy
        done = _begin(sentence(f"{effect(due, strategy)}: {future_reason(due.why)}"))
        return sentences(_("Next compaction: before the next request."), done)
    cut = overview.next_cut
    if cut is None and overview.rules and overview.limits.strategy in BY_RULE:
        return _("Next compaction: when one of your rules triggers it (`/config hooks`).")
    if cut is None:
        return _("Next compaction: none expected.")
    newest = overview.view.newest
    freed = count_known(cut, newest)
    tokens = _(" (about {n} tokens)", n=amount(freed)) if freed else ""
    cost = overview.cache.clause(overview.cost)
    about = _("Next compaction: about t{turn}.", turn=cut.now.current)
    done = _begin(sentence(f"{describe_effects(cut, overview.limits.strategy, newest)}{tokens}"))
    return sentences(about, done, cost and _("That {cost}.", cost=cost))


def _begin(sentence: str) -> str:
    """Return a sentence with a capital, unless it begins with the name of a turn."""
    return sentence if sentence[1:2].isdigit() else sentence[:1].upper() + sentence[1:]


def last_change(overview: Overview) -> str:
    """Return the newest change in effect, with its sizes and the state of its summary."""
    event = overview.last
    if event is None:
        return _("Last compaction: none yet.")
    numbers = event.touched
    turns = format_turns(numbers) + _(", ") if numbers else ""
    summary = {
        "": "",
        "coming": " " + _("Its summary is being written."),
        "ready": " " + _("Its summary is ready, and will be used from your next message on."),
    }[overview.summary]
    text = phrase(
        event,
        "Last {kind}: {at}, {turns}{tokens_before} → {tokens_after} tokens ({by}).",
        kind=_(name_kind(event)),
        at=format_datetime(event.at, overview.zone),
        turns=turns,
        by=by(event),
    )
    return f"{text}{summary}"


def name_kind(event: ViewEvent) -> str:
    """Return the label of an event's kind."""
    return _(KINDS.get(event.name, event.name))


def by(event: ViewEvent) -> str:
    """Return the author and the reason of an event, in a few words."""
    if event.actor in ("strategy", "rule"):
        return labelled(_("strategy {name}", name=event.strategy), reason(event.reason))
    return reason(event.reason)


def reason(why: str) -> str:
    """Return a reason in words for people."""
    if why in REASONS:
        return _("the request was too long for the model")
    if why.startswith(ASKED):
        focus = why.removeprefix(ASKED).removeprefix(": ")
        return labelled(_("by a person"), focus) if focus else _("by a person")
    if found := _OVER.fullmatch(why):
        used, unit, most = found.groups()
        return _(_BEFORE[unit], used=figure(used), most=figure(most))
    return explain(why)


def future_reason(why: str) -> str:
    """Return the reason of a future compaction; `why` is in the past tense."""
    if found := _OVER.fullmatch(why):
        used, unit, most = found.groups()
        return _(_AHEAD[unit], used=figure(used), most=figure(most))
    return reason(why)


_OVER = lazy(r"([\d,]+) (turns|tokens) were over the (?:limit|budget) of ([\d,]+)")
_BEFORE = {
    "turns": "there were {used} turns, and the limit is {most}",
    "tokens": "there were {used} tokens, and the limit is {most}",
}
_AHEAD = {
    "turns": "there will be {used} turns, and the limit is {most}",
    "tokens": "there will be {used} tokens, and the limit is {most}",
}


def cost(overview: Overview) -> str:
    """Return the cost of this conversation, including summaries."""
    bill = overview.bill
    if bill.unknown == bill.calls and not bill.cost and bill.calls:
        return _("Cost of this conversation, summaries included: unknown; the model has no price.")
    return _(
        "Cost of this conversation, summaries included: {cost} for {calls}.",
        cost=money(bill.cost, bill.unknown),
        calls=number_of(bill.calls, "{n} request", "{n} requests"),
    )
