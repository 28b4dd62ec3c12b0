"""`/agent`: who of the configuration's agents answers in this conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from plugins.api import Action, AgentInfo, Ask, Command, CommandError, Reply, command, hookimpl
from plugins.wording import amount, cell

NONE_GIVEN = (
    "The configuration has no agents, so the default one answers. docs/agents.md shows how to add "
    "some."
)


@command("agent", "Show the agents, or choose one for this conversation", "[NAME | default]")
async def agent(ask: Ask) -> Reply:
    """Without a name: all agents, and which of them is in force. With one: choose it."""
    here = ask.conversation.key.id
    name = ask.text.strip()
    if len(name.split()) > 1:
        raise CommandError("/agent takes one name, or none; /agent alone shows all of them.")
    if name:
        await choose(ask, name, here)
    chosen = str(ask.bot.settings.describe("agent", here).value)
    agents = ask.bot.agents.all()
    data = {"agent": chosen, "agents": [asdict(info) for info in agents]}
    if len(agents) == 1:
        return Reply(NONE_GIVEN, data)
    info = next(info for info in agents if info.id == chosen)
    if name:
        return Reply(f"From the next turn on {info.id} answers here: {told(info)}.", data)
    may_choose = ask.person.is_owner or ask.bot.settings.may_set("agent", here) is not None
    others = [other.id for other in agents if other.id != chosen and may_choose]
    actions = tuple(Action(other, f"/agent {other}") for other in others)
    return Reply(table(agents, chosen), data, actions)


async def choose(ask: Ask, name: str, here: str) -> None:
    """Let an agent answer in this conversation; what answers everywhere needs no choice."""
    if name == ask.bot.settings.describe("agent", "").value:
        await ask.bot.settings.unset("agent", here, ask.person)
    else:
        await ask.bot.settings.set("agent", name, here, ask.person)


def told(info: AgentInfo) -> str:
    """An agent in a few words."""
    return f"{info.model}, a window of {amount(info.window)} tokens, strategy {info.strategy}"


def table(agents: Sequence[AgentInfo], chosen: str) -> str:
    """All agents, the one in force marked."""
    rows = "\n".join(
        f"| {f'**{info.id}**' if info.id == chosen else info.id} | {cell(info.model)} "
        f"| {amount(info.window)} | {info.strategy} | {cell(info.description)} |"
        for info in agents
    )
    return (
        "| agent | model | window | strategy | what for |\n|---|---|---|---|---|\n"
        f"{rows}\n\n**{chosen}** answers here. `/agent NAME` chooses another for this conversation."
    )


@hookimpl
def parley_commands() -> list[Command]:
    return [agent]
