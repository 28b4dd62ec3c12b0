"""`/model`: who answers."""

from __future__ import annotations

from dataclasses import asdict

from plugins.api import Ask, Command, Reply, command, hookimpl
from plugins.wording import amount


@command("model", "Show or change the model that answers", "[NAME]")
async def model(ask: Ask) -> Reply:
    """Without a name: the model in force. With one: the same as `/config model NAME`."""
    name = ask.text.strip()
    if name:
        ask.require_owner("change the model for all conversations")
        await ask.bot.settings.set("model", name, "", ask.person)
    about = ask.bot.models.about(ask.conversation.key)
    window = f"a window of {amount(about.window)} tokens" if about.window else "an unknown window"
    tools = "with tools" if about.takes_tools else "without tools"
    after = f" If it fails: {', '.join(about.fallbacks)}." if about.fallbacks else ""
    now = "From the next turn on: " if name else ""
    return Reply(f"{now}{about.name} ({about.where}), {window}, {tools}.{after}", asdict(about))


@hookimpl
def parley_commands() -> list[Command]:
    return [model]
