"""`/approve` and `/deny`: the answers to what a tool may only do when a person allows it."""

from __future__ import annotations

from plugins.api import Ask, Command, CommandError, Reply, command, hookimpl


@command("approve", "Allow what the bot has asked whether it may, or see it again", "[NAME]")
async def approve(ask: Ask) -> Reply:
    """`/approve K7QM`: an owner, or who asked in a private chat. Without a name: what waits."""
    if not ask.words:
        return _waiting(ask)
    _answer(ask, "approve", is_allowed=True)
    return Reply("Allowed.", {"is_allowed": True})


@command("deny", "Forbid what the bot has asked whether it may", "NAME")
async def deny(ask: Ask) -> Reply:
    """`/deny K7QM`: whoever may talk there."""
    _answer(ask, "deny", is_allowed=False)
    return Reply("Denied; it goes on without.", {"is_allowed": False})


def _waiting(ask: Ask) -> Reply:
    questions = ask.bot.approvals.waiting(ask.conversation.key)
    if not questions:
        raise CommandError("No question waits here.")
    actions = tuple(action for question in questions for action in question.actions)
    return Reply("\n\n".join(question.text for question in questions), actions=actions)


def _answer(ask: Ask, name: str, is_allowed: bool) -> None:
    if len(ask.words) != 1:
        raise CommandError(f"/{name} wants the name that stands in the question, like K7QM.")
    ask.bot.approvals.answer(ask.words[0], ask.person, ask.address, is_allowed)


@hookimpl
def parley_commands() -> list[Command]:
    return [approve, deny]
