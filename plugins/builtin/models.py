"""`/model`: who answers."""

from __future__ import annotations

from dataclasses import asdict

from plugins.api import Ask, Command, CommandError, Reply, command, hookimpl
from plugins.builtin.config import HERE
from plugins.wording import amount


@command("model", "Show or change the model that answers", "[NAME] [--here]")
async def model(ask: Ask) -> Reply:
    """Without a name: the model in force. With one: the same as `/config model NAME`."""
    words = [word for word in ask.words if word != HERE]
    name, is_here = " ".join(words), len(words) < len(ask.words)
    here = ask.conversation.key.id
    if is_here and not name:
        raise CommandError(f"/model wants a model's name before {HERE}.")
    if name and not is_here:
        ask.require_owner("change the model for all conversations")
    if name:
        await ask.bot.settings.set("model", name, here if is_here else "", ask.person)
    about = ask.bot.models.about(ask.conversation.key)
    window = f"a window of {amount(about.window)} tokens" if about.window else "an unknown window"
    tools = "with tools" if about.takes_tools else "without tools"
    after = f" If it fails: {', '.join(about.fallbacks)}." if about.fallbacks else ""
    where = "in this conversation" if is_here else "in all conversations"
    now = f"From the next turn on, {where}: " if name else ""
    set_here = ask.bot.settings.describe("model", here)
    if name and not is_here and set_here.layer not in ("/config", "default"):
        now = f"From the next turn on, {name} answers in all other conversations; here stays "
    return Reply(f"{now}{about.name} ({about.where}), {window}, {tools}.{after}", asdict(about))


@hookimpl
def parley_commands() -> list[Command]:
    return [model]
