"""`/help`, `/start`, `/version`."""

from __future__ import annotations

from plugins.api import Ask, Command, Reply, command, hookimpl
from plugins.wording import cell


@command("help", "List all commands, or explain one", "[COMMAND]")
async def help_(ask: Ask) -> Reply:
    """All commands in a table, or one of them whole."""
    wanted = ask.text.strip().lstrip("/").lower()
    commands = ask.bot.commands
    if wanted in commands:
        return Reply(_one(commands[wanted]), {"commands": [_data(commands[wanted])]})
    name, _, rest = wanted.partition(" ")
    subs = {sub.name: sub for sub in commands[name].subs} if name in commands else {}
    if found := subs.get(rest.strip()):
        one = {"name": f"{name} {found.name}", "summary": found.summary}
        return Reply(f"`/{name} {found.name}`: {found.summary}", {"commands": [one]})
    unknown = f"There is no command /{wanted}.\n\n" if wanted else ""
    rows = "\n".join(
        f"| /{name} {cell(commands[name].usage)} | {cell(commands[name].summary)} |"
        for name in sorted(commands)
    )
    text = (
        f"{unknown}| command | what it does |\n|---|---|\n{rows}\n\n"
        "Anything else goes to the model; `//text` sends it a text that begins with a slash."
    )
    return Reply(text, {"commands": [_data(commands[name]) for name in sorted(commands)]})


def _one(command: Command) -> str:
    subs = "".join(f"\n- `/{command.name} {sub.name}`: {sub.summary}" for sub in command.subs)
    return f"`/{command.name} {command.usage}`".replace(" `", "`") + f": {command.summary}{subs}"


def _data(command: Command) -> dict[str, object]:
    return {
        "name": command.name,
        "usage": command.usage,
        "summary": command.summary,
        "subcommands": [{"name": sub.name, "summary": sub.summary} for sub in command.subs],
    }


@command("start", "Say hello and what to do next")
async def start(ask: Ask) -> Reply:
    """A greeting for someone who has just arrived."""
    model = ask.bot.models.about(ask.conversation.key)
    return Reply(
        f"Hello! I am Parley; {model.name} answers here. Just write to me. "
        "/context shows what the model sees of our talk, /config tunes it, /help lists the rest."
    )


@command("version", "Show the version of the bot")
async def version(ask: Ask) -> Reply:
    """The version, as the changelog counts it."""
    return Reply(f"Parley {ask.bot.version}", {"version": ask.bot.version})


@hookimpl
def parley_commands() -> list[Command]:
    return [help_, start, version]
