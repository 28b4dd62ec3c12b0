"""The choice of the agent and model that answer: `/agent`, `/model`, and the tool `delegate`, with
which the model hands a task to a sub-agent (flo.monster)."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import to_builtins
from msgspec.structs import asdict
from pydantic import Field

from channels.language import _, explain
from memory.context.settings import DEFAULT_WINDOW
from plugins.api import (
    Action,
    AgentInfo,
    Ask,
    Command,
    Reply,
    Tool,
    ToolContext,
    ToolError,
    command,
    hookimpl,
    refusal,
    tool,
)
from plugins.builtin.config import HERE
from plugins.wording import amount, aside, cell, clip, format_list, literal, sentence, series
from plugins.wording import table as wording_table

NONE_GIVEN = (
    "No agents with a prompt and tools of their own are configured; the default one answers "
    '(documentation: "Agents").'
)


@command("agent", "Show the agents, or choose one for this conversation", "[NAME | default]")
async def agent(ask: Ask) -> Reply:
    """Show all agents and the one in force; with a name, choose that agent."""
    here = ask.conversation.key.id
    name = ask.text.strip()
    if len(name.split()) > 1:
        raise refusal("/agent takes one name; without a name it shows them all.")
    if name:
        await choose(ask, name, here)
    chosen = str(ask.bot.settings.describe("agent", here).value)
    agents = ask.bot.models.agents()
    data = {"agent": chosen, "agents": [asdict(info) for info in agents]}
    if len(agents) == 1:
        return Reply(_(NONE_GIVEN), data)
    info = next(info for info in agents if info.id == chosen)
    if name:
        return Reply(
            _(
                "From the next turn on {id} answers here: {agent}.",
                id=info.id,
                agent=describe_agent(info),
            ),
            data,
        )
    may_choose = ask.person.is_owner or ask.bot.settings.may_set("agent", here) is not None
    others = [other.id for other in agents if other.id != chosen and may_choose]
    actions = tuple(Action(other, f"/agent {other}") for other in others)
    return Reply(table(agents, chosen), data, actions)


async def choose(ask: Ask, name: str, here: str) -> None:
    """Select the agent of this conversation; unset the choice if it is the agent of all
    conversations."""
    if name == ask.bot.settings.describe("agent", "").value:
        await ask.bot.settings.unset("agent", here, ask.person)
    else:
        await ask.bot.settings.set("agent", name, here, ask.person)


def describe_agent(info: AgentInfo) -> str:
    """Return a short description of an agent."""
    return _(
        "{model}, a window of {window} tokens, strategy {strategy}",
        model=info.model,
        window=amount(info.window),
        strategy=info.strategy,
    )


def table(agents: Sequence[AgentInfo], chosen: str) -> str:
    """Return a table of all agents, with the one in force in bold."""
    rows = "\n".join(
        f"| {f'**{info.id}**' if info.id == chosen else info.id} | {cell(info.model)} "
        f"| {amount(info.window)} | {info.strategy} | {cell(info.description)} |"
        for info in agents
    )
    return _(
        "| agent | model | window | strategy | purpose "
        "|\n|---|---|---|---|---|\n{rows}\n\n**{chosen}** answers here. `/agent NAME` chooses "
        "another for this conversation.",
        rows=rows,
        chosen=chosen,
    )


@command(
    "model",
    "Show or change the model",
    "[NAME] [--here]",
    subs=(
        ("list", "List the models with their windows and prices"),
        ("forget", "Forget what was learned from refusals of the model, and try it again"),
    ),
    slow=("list",),
)
async def model(ask: Ask) -> Reply:
    """Show the model in force; with a name, do the same as `/config model NAME`."""
    if ask.words == ["list"]:
        return await list_models(ask)
    if ask.words == ["forget"]:
        return forget_learnt(ask)
    words = [word for word in ask.words if word != HERE]
    name, is_here = " ".join(words), len(words) < len(ask.words)
    here = ask.conversation.key.id
    if is_here and not name:
        raise refusal("/model needs a model's name before {here}.", here=HERE)
    if name and not is_here:
        ask.require_owner("change the model for all conversations")
    if name:
        await ask.bot.settings.set("model", name, here if is_here else "", ask.person)
    about = ask.bot.models.about(ask.conversation.key)
    window = (
        _("a window of {window} tokens", window=amount(about.window))
        if about.window
        else _("an unknown window, taken as {window}", window=amount(DEFAULT_WINDOW))
    )
    tools = _("with tools") if about.takes_tools else _("without tools")
    after = (
        _(" If it fails: {fallbacks}.", fallbacks=", ".join(about.fallbacks))
        if about.fallbacks
        else ""
    )
    where = _("in this conversation") if is_here else _("in all conversations")
    now = _("From the next turn on, {where}: ", where=where) if name else ""
    set_here = ask.bot.settings.describe("model", here)
    if name and not is_here and set_here.layer not in ("/config", "default"):
        now = _(
            "From the next turn on, {name} answers in all other conversations; this one stays "
            "with ",
            name=name,
        )
    advice = f"\n\n{about.advice}" if about.advice else ""
    answers = sentence(series((about.name + aside(explain(about.where)), window, tools)))
    unlisted = await _note_unlisted(ask, name) if name else ""
    text = "\n\n".join(filter(None, (f"{now}{answers}{after}{advice}", unlisted)))
    known = [
        _("Learned about {name}: {facts}", name=literal(name), facts=" ".join(map(explain, facts)))
        for name, facts in about.learnt.items()
    ]
    actions = (Action(_("Forget it"), "/model forget"),) if known and ask.person.is_owner else ()
    return Reply("\n\n".join([text, *known]), to_builtins(about), actions)


async def _note_unlisted(ask: Ask, name: str) -> str:
    """Return a sentence for a model that the endpoint does not list, with similar names; "" if it
    lists it, has no list, or is too slow. A listed name may have a date or a variant besides."""
    try:
        async with asyncio.timeout(_LONGEST_LIST):
            found = await ask.bot.models.offered(ask.conversation.key)
    except TimeoutError:
        return ""
    names = [one.name for one in found.options if one.name != name]
    is_known = name in (*found.listed, *_NO_NAMES) or any(
        _VARIANT.fullmatch(longer.removeprefix(shorter))
        for one in found.listed
        for shorter, longer in ((one, name), (name, one))
        if longer.startswith(shorter)
    )
    if is_known or not found.listed:
        return ""
    part = name.lower()
    close = difflib.get_close_matches(part[:100], names, _NEAR)
    near = [*dict.fromkeys((*close, *(one for one in names if part in one.lower())))][:_NEAR]
    if not near:
        return _(
            "The provider does not list “{name}”; /model list shows its models.",
            name=literal(clip(name)),
        )
    return _(
        "The provider does not list “{name}”. Similar names: {names}.",
        name=literal(clip(name)),
        names=format_list([literal(one) for one in near]),
    )


_LONGEST_LIST = 2.0
"""Seconds: the command waits this long for the list, and so does the next message."""
_NEAR = 3
_NO_NAMES = ("auto", "embedded")
"""Values of the setting `model` that are no names of models."""
_VARIANT = re.compile(r"-latest|-\d[\d-]*|[:@].*")


def forget_learnt(ask: Ask) -> Reply:
    """Delete what refusals have taught about the models in force here, so that it is tried again
    (`/model forget`)."""
    ask.require_owner("forget what was learned about a model")
    names = ask.bot.models.forget_learnt(ask.conversation.key)
    if not names:
        return Reply(_("Nothing was learned about the model that answers here."), {"forgotten": []})
    return Reply(
        _(
            "Forgotten: what was learned about {names}. The next request tries everything again.",
            names=", ".join(map(literal, names)),
        ),
        {"forgotten": names},
    )


async def list_models(ask: Ask) -> Reply:
    """List the models (`/model list`). The data also has where the person may change the model."""
    key = ask.conversation.key
    found, about = await ask.bot.models.offered(key), ask.bot.models.about(key)
    offered = found.options
    may = {
        "everywhere": ask.person.is_owner,
        "here": ask.person.is_owner or ask.bot.settings.may_set("model", key.id) is not None,
    }
    data: dict[str, Any] = {
        "model": about.name,
        "models": [asdict(one) for one in offered],
        "may_set": may,
    }
    if found.why_not:
        data["problem"] = explain(found.why_not)
    rows = [
        (
            f"**{literal(one.name)}**" if one.name == about.name else literal(one.name),
            amount(one.window) if one.window else _("unknown"),
            " / ".join(f"${part:.2f}" for part in one.price) if one.price else "",
        )
        for one in offered[:_MOST]
    ]
    text = wording_table(("model", "window:", "$ per 1M tokens in / out:"), rows)
    if len(offered) > _MOST:
        text += _("\n\nThe first {most} of {n} are shown.", most=_MOST, n=len(offered))
    if found.why_not:
        text += _("\n\nOthers can't be listed now: {error}", error=explain(found.why_not))
    where = _("`/model NAME` changes it everywhere, `/model NAME --here` in this conversation.")
    return Reply(
        _(
            "{models}\n\n**{name}** answers here. {where}",
            models=text,
            name=literal(about.name),
            where=where,
        ),
        data,
    )


_MOST = 60
"""The maximum number of models listed in the text; `data` has all."""


@tool(needs_conversation=True)
async def delegate(
    context: ToolContext, task: Annotated[str, Field(min_length=1, max_length=100_000)]
) -> str:
    """Hand a task to a sub-agent with the same tools, for many steps or much reading of which you
    need only the result.

    Args:
        task: It sees nothing else: say what to do, what it must know, what to return.
    """
    if context.delegate is None:
        raise ToolError("No sub-agent can be started here: do the task yourself.")
    if not task.strip():
        raise ToolError("delegate needs a task: what the sub-agent is to do.")
    return await context.delegate(task)


@hookimpl
def parley_tools() -> list[Tool]:
    return [delegate]


@hookimpl
def parley_commands() -> list[Command]:
    return [agent, model]
