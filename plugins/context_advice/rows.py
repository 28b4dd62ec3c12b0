"""The advice on settings that follows from a conversation's own figures.

The rows are Digitorn's tuning checklist, with similar ones for the other strategies. `advice` is
pure; each row is a function from the facts to a piece of advice, or None.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from channels.language import _
from memory.compactor import COOLDOWN
from memory.context.settings import Limits
from memory.context.strategies.stubs import may_stub
from plugins.builtin.context.show import BY_RULE, format_rules
from plugins.context_advice.facts import Facts
from plugins.rules import AUTO_COMPACT, find_compacting, parse
from plugins.wording import amount, count, money

OFTEN = 3.0
"""The average number of turns between compactions up to which they are too frequent (Digitorn:
2-3)."""
LESS_OFTEN, EARLIER = 0.85, 0.6
"""The triggers that Digitorn advises if compactions are too frequent, and if requests overflow."""
LONGER_SUMMARY = 2_048
HUGE = 0.25
"""The share of the window from which a single result causes an overflow (Digitorn)."""
MUCH = 0.3
"""The minimum share of the context in old results for the advice to use stubs."""
MUCH_FOR_TOOLS = 0.25
"""The minimum share of the window in schemas for the advice to leave them out."""
MANY_CALLS = 50
CALLS_RULE = {
    "id": "many_calls",
    "on": "turn_end",
    "condition": {"type": "tool_calls", "threshold": MANY_CALLS},
    "action": {"type": "compact_context"},
}


class Advice(Struct, frozen=True):
    """A finding, the advice, and the commands for it."""

    found: str
    do: str
    commands: tuple[str, ...] = ()


def advice(facts: Facts) -> tuple[Advice, ...]:
    """Return the advice for these facts; empty if there is none."""
    return tuple(found for row in ROWS if (found := row(facts)) is not None)


def has_no_room(facts: Facts) -> Advice | None:
    if not facts.too_small:
        return None
    if not facts.enough:
        return Advice(facts.too_small, _("Choose a model with a larger window (/model)."))
    more = here("agent_max_context_tokens", facts.enough)
    return Advice(facts.too_small, _("Allow more tokens."), (more,))


def too_long_for_the_model(facts: Facts) -> Advice | None:
    complaint = facts.soft.complaint(facts.tokens)
    if not complaint:
        return None
    raised = here("context.soft_limit", 2 * facts.tokens)
    if facts.limits.strategy != "trim":
        do = _(
            "Compact earlier, begin a new conversation with /new, or say that this size is "
            "fine for you."
        )
        return Advice(complaint, do, (*_earlier(facts.limits), raised))
    do = _("Send less of it, or say that this size is fine for you.")
    return Advice(complaint, do, (here("agent_max_context_tokens", _at_most(facts)), raised))


def _at_most(facts: Facts) -> int:
    """Return a budget for `trim` within the soft limit, as far as that leaves room for turns."""
    return max(1_000, facts.enough, facts.soft.tokens)


def cuts_too_often(facts: Facts) -> Advice | None:
    if not 0 < facts.distance <= OFTEN:
        return None
    broken = _broken(facts) or _("bills the context at the full price once more")
    found = _(
        "Compactions are frequent: the last {n} came every {distance:.1f} turns, and each "
        "one {broken}.",
        n=len(facts.cuts),
        distance=facts.distance,
        broken=broken,
    )
    if facts.rules and facts.cuts[-1].actor == "rule":
        do = _("Give it a longer cooldown, or a condition that is met less often (/config hooks).")
        return Advice(_("{found} Here {rules}.", found=found, rules=format_rules(facts.rules)), do)
    return Advice(found, *_later(facts))


def cuts_do_not_pay(facts: Facts) -> Advice | None:
    turns = [facts.cache.turns(cost) for cost in facts.broken]
    known = sorted(number for number in turns if number is not None)
    if not known or facts.distance <= OFTEN or known[len(known) // 2] <= facts.distance:
        return None
    found = _(
        "Compactions cost more than they save: each one {broken}, but the next comes after "
        "{distance:.1f} turns.",
        broken=_broken(facts),
        distance=facts.distance,
    )
    return Advice(found, *_later(facts))


def _broken(facts: Facts) -> str:
    """Return a clause about the cached tokens that the newest compaction has lost; "" if nothing is
    known of a cache."""
    return facts.cache.clause(facts.broken[-1]) if facts.broken else ""


def _later(facts: Facts) -> tuple[str, tuple[str, ...]]:
    """Return a sentence and the commands that delay compactions, by strategy."""
    limits = facts.limits
    match limits.strategy:
        case "truncate" | "summarize" if limits.context.compression_trigger < LESS_OFTEN:
            return _("Compact later."), (here("context.compression_trigger", LESS_OFTEN),)
        case "structured" if limits.context.trigger_ratio < LESS_OFTEN:
            return _("Compact later."), (here("context.trigger_ratio", LESS_OFTEN),)
        case "trim" if limits.max_turns and facts.cuts[-1].tokens_before < 0.9 * limits.budget:
            return _("Allow more turns."), (here("agent_max_context_turns", 2 * limits.max_turns),)
        case "trim" if limits.max_tokens < limits.ceiling:
            more = min(2 * limits.max_tokens, limits.ceiling)
            return _("Allow more tokens."), (here("agent_max_context_tokens", more),)
    if facts.max_tokens:
        return _("Use all of the model's window."), (here("context.max_tokens", 0),)
    if limits.strategy in BY_RULE and limits.context.keep_recent > 2:
        return _("Remove more each time."), (
            here("context.keep_recent", limits.context.keep_recent // 2),
        )
    return _("Choose a model with a larger window (/model)."), ()


def advise_longer_summary(facts: Facts) -> Advice | None:
    is_lost = facts.cuts and (facts.undone or facts.searches)
    if facts.limits.strategy not in BY_RULE or not is_lost:
        return None
    longer = here("context.summary_max_tokens", LONGER_SUMMARY)
    commands = (longer,) if facts.limits.context.summary_max_tokens < LONGER_SUMMARY else ()
    found = _(
        "Compactions remove too much: you undid {cuts}, and the model searched {times} for "
        "removed turns.",
        cuts=count(facts.undone, "compaction"),
        times=count(facts.searches, "time"),
    )
    if facts.limits.strategy == "truncate":
        do = _("Ask for longer summaries of removed turns.")
        return Advice(found, do, (here("context.strategy", "summarize"), *commands))
    return Advice(found, _("Allow longer summaries."), commands) if commands else None


def summaries_cost_too_much(facts: Facts) -> Advice | None:
    spent, answers = facts.summaries, facts.answers
    if len(facts.cuts) < 2 or not spent.calls:
        return None
    if spent.cost and answers.cost and answers.prompt:
        saved = facts.saved * answers.cost / answers.prompt
        is_dear, figures = spent.cost > saved, f"{money(spent.cost)} for {money(saved)}"
    else:
        tokens = spent.prompt + spent.completion
        is_dear = tokens > facts.saved
        figures = _("{tokens} tokens for {saved}", tokens=amount(tokens), saved=amount(facts.saved))
    if not is_dear:
        return None
    found = _(
        "Summaries cost more than they save: {figures} that did not have to be sent again.",
        figures=figures,
    )
    than = (
        _(" than {summary_model}", summary_model=facts.summary_model) if facts.summary_model else ""
    )
    do = _(
        "Let a cheaper model{than} write them: name it in the configuration as "
        "`context.summary_brain.model`, and restart the bot.",
        than=than,
    )
    if facts.limits.strategy != "summarize":
        return Advice(found, do)
    return Advice(
        found, _("{do} Or do without summaries.", do=do), (here("context.strategy", "truncate"),)
    )


def overflows(facts: Facts) -> Advice | None:
    if not facts.overflows:
        return None
    found = _(
        "{requests} did not fit into the model's window.",
        requests=count(facts.overflows, "request"),
    )
    results, ceiling = facts.huge, facts.limits.ceiling
    do, commands = _("Compact earlier."), _earlier(facts.limits)
    if facts.rules and facts.limits.strategy in BY_RULE:
        do = _(
            "Here {rules}: make that happen earlier (/config hooks).",
            rules=format_rules(facts.rules),
        )
    if _has_huge_result(facts):
        do += _(
            " And look at t{turn}: a result of {tool} fills {largest:.0%} of the window; cut such "
            "results when they arrive.",
            turn=results.turn,
            tool=results.tool,
            largest=results.largest / ceiling,
        )
        commands = (*commands, here("context.tool_result_limit", max(1, results.largest // 4)))
    return Advice(found, do, commands)


def _has_huge_result(facts: Facts) -> bool:
    return facts.huge.largest >= HUGE * facts.limits.ceiling


def _earlier(limits: Limits) -> tuple[str, ...]:
    match limits.strategy:
        case "truncate" | "summarize" if limits.auto_compact:
            lower = min(EARLIER, limits.context.compression_trigger - 0.1)
            return (here("context.compression_trigger", round(max(0.05, lower), 2)),)
        case "structured":
            lower = min(EARLIER, limits.context.trigger_ratio - 0.1)
            lower = round(max(limits.context.reserve_ratio + 0.05, lower), 2)
            is_lower = lower < limits.context.trigger_ratio
            return (here("context.trigger_ratio", lower),) if is_lower else ()
        case "slim" if limits.context.full_turns > 1:
            return (here("context.full_turns", limits.context.full_turns - 1),)
        case "trim":
            return (here("agent_max_context_tokens", max(1_000, limits.budget * 3 // 4)),)
        case "full" | "stubs":
            return (here("context.strategy", "trim"),)
    return ()


def one_tool_fills_the_window(facts: Facts) -> Advice | None:
    results, limits = facts.results, facts.limits
    tool = max(results.tokens, key=lambda name: results.tokens[name], default="")
    tokens = results.tokens.get(tool, 0)
    if not tokens or tokens < max(0.5 * facts.tokens, 0.15 * limits.budget):
        return None
    if facts.overflows and _has_huge_result(facts):
        return None  # covered by other advice
    limit = max(500, results.largest // 4)
    found = _(
        "{tool} fills the context: its results hold {tokens} of {all} tokens, the largest "
        "{largest}.",
        tool=tool,
        tokens=amount(tokens),
        all=amount(facts.tokens),
        largest=amount(results.largest),
    )
    if limit >= limits.longest_result:
        return None
    do = _("Shorten long results when they arrive; the full text stays on disk.")
    return Advice(found, do, (here("context.tool_result_limit", limit),))


def old_results_fill_the_context(facts: Facts) -> Advice | None:
    limits, freeable = facts.limits, facts.freeable
    if may_stub(limits) or freeable < max(limits.stub_batch, MUCH * facts.tokens):
        return None
    found = _(
        "Old tool results fill the context: {freeable} of {tokens} tokens would be free if they "
        "were one line each.",
        freeable=amount(freeable),
        tokens=amount(facts.tokens),
    )
    do = _("Shorten them to one line; the model can read each one again.")
    is_full = limits.strategy == "full"
    setting = ("context.strategy", "stubs") if is_full else ("context.stub_tools", "true")
    return Advice(found, do, (here(*setting),))


def tools_fill_a_small_window(facts: Facts) -> Advice | None:
    if facts.tools < MUCH_FOR_TOOLS * facts.limits.ceiling:
        return None
    found = _(
        "The tools take {tools} of the {ceiling} tokens that the model's window holds besides the "
        "reply.",
        tools=amount(facts.tools),
        ceiling=amount(facts.limits.ceiling),
    )
    do = _("List them by name only; the model looks up how to call one when it needs it.")
    return Advice(found, do, (here("tools.offer", "lean"),))


def many_calls(facts: Facts) -> Advice | None:
    results = facts.results
    is_cluttered = results.count >= MANY_CALLS and 2 * sum(results.tokens.values()) >= facts.tokens
    if not is_cluttered or any(_counts_calls(hook) for hook in facts.hooks):
        return None
    found = _(
        "{results} are in the context, and they take up most of it.",
        results=count(results.count, "tool result"),
    )
    do = _(
        "Compact after each {many_calls} calls, however full it is (for owners, everywhere).",
        many_calls=MANY_CALLS,
    )
    added: list[Mapping[str, Any]] = [CALLS_RULE]
    if facts.limits.strategy in BY_RULE and facts.limits.auto_compact:
        trigger = facts.limits.context.compression_trigger
        added.append(_pressure_rule(trigger))
        do += _(
            " A rule of your own replaces the built-in `{auto_compact}`, so a second rule "
            "is added that still compacts at {trigger:.0%}.",
            auto_compact=AUTO_COMPACT,
            trigger=trigger,
        )
    return Advice(found, do, (f"/config hooks {json.dumps([*facts.hooks, *added])}",))


def _pressure_rule(trigger: float) -> Mapping[str, Any]:
    """Return the built-in rule in the form of a person's own rule."""
    return {
        "id": "context_pressure",
        "on": "turn_start",
        "condition": {"type": "context_pressure", "threshold": trigger},
        "action": {"type": "compact_context"},
        "cooldown": COOLDOWN,
    }


def _counts_calls(hook: Mapping[str, Any]) -> bool:
    (rule,) = parse([hook])
    return bool(find_compacting([rule])) and '"tool_calls"' in rule.condition.model_dump_json()


def folds_too_little(facts: Facts) -> Advice | None:
    if facts.limits.strategy != "slim" or facts.limits.fold_turns != 1 or not facts.answers.cached:
        return None
    found = _(
        "The provider caches ({cached} tokens so far), and moving one turn at a time into "
        "the log changes the beginning of every request.",
        cached=amount(facts.answers.cached),
    )
    return Advice(
        found,
        _("Move several turns into the log at a time."),
        (here("context.fold_turns", "auto"),),
    )


def nothing_compacts(facts: Facts) -> Advice | None:
    limits = facts.limits
    if limits.strategy not in BY_RULE or limits.auto_compact or facts.rules:
        return None
    found = _(
        "Nothing compacts the context before it overflows: {strategy} waits for a rule, but "
        "there is none, and context.auto_compact is false.",
        strategy=limits.strategy,
    )
    do = _('Turn it on, or write a rule of your own (documentation: "Hook rules").')
    return Advice(found, do, (here("context.auto_compact", "true"),))


ROWS: Sequence[Callable[[Facts], Advice | None]] = (
    has_no_room,
    overflows,
    nothing_compacts,
    cuts_too_often,
    cuts_do_not_pay,
    advise_longer_summary,
    summaries_cost_too_much,
    one_tool_fills_the_window,
    old_results_fill_the_context,
    tools_fill_a_small_window,
    many_calls,
    too_long_for_the_model,
    folds_too_little,
)


def here(key: str, value: object) -> str:
    """Return the command that sets a value for this conversation."""
    return f"/config {key} {value} --here"
