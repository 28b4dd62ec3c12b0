"""`/new`, `/title`, `/stop`, `/status`, `/whoami`: the conversation and the bot around it."""

from __future__ import annotations

from dataclasses import asdict

from plugins.api import Action, Ask, Command, CommandError, Reply, command, hookimpl
from plugins.wording import beginning, count, duration, literal

LONGEST_TITLE = 80  # characters
UNSET = "--unset"


@command("new", "Start afresh: the turns so far leave the context")
async def new(ask: Ask) -> Reply:
    """Stops the running turn, then puts all turns away."""
    if ask.words:
        raise CommandError(
            f"/new takes nothing after it, so not “{literal(beginning(ask.text))}”; nothing was "
            "changed. Say /new alone, and then what you want to say."
        )
    stopped = ask.bot.turns.stop(ask.conversation.key)
    await ask.conversation.context.idle.wait()
    had_summary = ask.conversation.context.view().preface is not None
    cleared = await ask.conversation.editor.clear("new")
    first = "I stopped the running answer. " if stopped else ""
    data = {"turns": [f"t{n}" for n in cleared.turns]}
    if not cleared.turns and not had_summary:
        return Reply(f"{first}This is a new start already: no turn is in play.", data)
    gone = count(len(cleared.turns), "turn") if cleared.turns else "the summary of older turns"
    text = (
        f"{first}A new start: {gone} left the context. All is kept on disk; /context undo brings "
        "it back."
    )
    return Reply(text, data, (_UNDO,))


_UNDO = Action("Undo", "/context undo")


@command("title", "Show or give this conversation's title, for lists of them", "[WORDS|--unset]")
async def title(ask: Ask) -> Reply:
    """`/title`, `/title WORDS`, `/title --unset`; where there is none the first question stands for
    it."""
    words = beginning(ask.text, LONGEST_TITLE)
    if words:
        await ask.conversation.rename("" if words == UNSET else words)
    called = await ask.conversation.title()
    if not called:
        text = (
            "This conversation has no title, so its first question stands for it. /title WORDS "
            "gives it one."
        )
    elif words:
        text = f"This conversation is now called “{literal(called)}”."
    else:
        text = (
            f"This conversation is called “{literal(called)}”. /title WORDS changes that, "
            f"/title {UNSET} takes it away."
        )
    return Reply(text, {"title": called})


@command("stop", "Stop the answer that is under way; what was done so far is kept")
async def stop(ask: Ask) -> Reply:
    """Ends the running turn of this conversation."""
    if ask.bot.turns.stop(ask.conversation.key):
        return Reply("Stopping; what was done so far is kept.", {"stopped": True})
    return Reply("Nothing is running here.", {"stopped": False})


@command("status", "Show how the bot is doing")
async def status(ask: Ask) -> Reply:
    """Uptime, work under way, channels, plugins and what went wrong with them."""
    now = ask.bot.turns.status(ask.conversation.key)
    model = ask.bot.models.about(ask.conversation.key)
    lines = [
        f"Up for {duration(now.uptime)}; {count(now.running, 'turn')} running, "
        f"{count(now.waiting, 'message')} waiting.",
        f"Model: {model.name} ({model.where}).",
        f"Channels: {', '.join(now.channels)}. Plugins: {', '.join(now.plugins)}.",
        f"Data folder: `{now.data}`.",
        *now.problems,
    ]
    return Reply("\n\n".join(lines), asdict(now))


@command("whoami", "Show who the bot thinks you are")
async def whoami(ask: Ask) -> Reply:
    """The name that `owners` would list, the role, and the conversation."""
    person, key = ask.person, ask.conversation.key
    return Reply(
        f"You are {person.id}, {'an owner' if person.is_owner else 'a user'} of this bot; "
        f"this conversation is {key.id}.",
        {"id": person.id, "role": person.role, "conversation": key.id, "audience": key.audience},
    )


@hookimpl
def parley_commands() -> list[Command]:
    return [new, title, stop, status, whoami]
