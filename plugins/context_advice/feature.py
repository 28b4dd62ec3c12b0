"""`/context advise`: advice on the settings, based on this conversation's own figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from channels.language import _
from plugins.api import Action, Ask, Reply, Verb, hookimpl
from plugins.builtin.context.values import pick
from plugins.context_advice.facts import Facts, gather
from plugins.context_advice.rows import Advice, advice
from plugins.wording import amount, count, money

_SUMMARY = "settings worth changing, judging by this conversation's figures"


@hookimpl
def parley_verbs() -> list[Verb]:
    return [Verb("context", "advise", _SUMMARY, show, after="json", is_bare=True)]


async def show(ask: Ask) -> Reply:
    """Run `/context advise`."""
    facts = await gather(ask)
    found = advice(facts)
    commands = [command for one in found for command in one.commands]
    actions = tuple(Action(_label(command), command) for command in dict.fromkeys(commands))
    data = {"advice": [asdict(one) for one in found], "figures": figures(facts)}
    return Reply(as_text(facts, found), data, actions)


def as_text(facts: Facts, found: Sequence[Advice]) -> str:
    """Return each piece of advice with its commands, or that there is none; and the figures."""
    parts = [
        "\n\n".join((f"**{one.found}** {one.do}", *(f"`{command}`" for command in one.commands)))
        for one in found
    ]
    return "\n\n".join(
        (*(parts or [_("All is well; there is nothing to change.")]), format_figures(facts))
    )


def format_figures(facts: Facts) -> str:
    """Return the figures in one sentence."""
    limits, spent = facts.limits, facts.summaries
    often = _(", one every {distance:.1f} turns", distance=facts.distance) if facts.distance else ""
    results = sum(facts.results.tokens.values())
    return _(
        "Context: {tokens} of {budget} tokens, {results} of them tool results.\n\n{cuts} in "
        "{turns}{often}, by the strategy {strategy}; {overflows}.\n\n{calls} for summaries, "
        "{cost}; {saved}, {cached} billed at the lower price of cached text.",
        strategy=limits.strategy,
        turns=count(facts.turns, "turn"),
        cuts=count(len(facts.cuts), "compaction"),
        often=often,
        overflows=count(facts.overflows, "overflow"),
        tokens=amount(facts.tokens),
        budget=amount(limits.budget),
        results=amount(results),
        calls=count(spent.calls, "request"),
        cost=money(spent.cost, spent.unknown),
        saved=_describe_saved(facts.saved),
        cached=amount(facts.answers.cached),
    )


def _describe_saved(tokens: int) -> str:
    """Describe the tokens that compactions saved; negative ones were added by their summaries."""
    if tokens < 0:
        return _("summaries {tokens} tokens longer than their turns", tokens=amount(-tokens))
    return _("{tokens} tokens saved by compactions", tokens=amount(tokens))


def figures(facts: Facts) -> dict[str, Any]:
    """Return the figures as data."""
    names = ("turns", "tokens", "undone", "overflows", "searches", "results", "saved")
    more = {"cuts": len(facts.cuts), "turns_between_cuts": facts.distance}
    return pick(facts, *names, "summaries", "answers", strategy=facts.limits.strategy, **more)


def _label(command: str) -> str:
    """Return the label of the button: "compression_trigger 0.85"."""
    key, value = command.split(" ")[1:3]
    return f"{key.rpartition('.')[2]} {value}" if key != "hooks" else _("add the rule")
