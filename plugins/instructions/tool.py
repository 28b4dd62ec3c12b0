"""The model's tool `propose_rule`: it asks a person, and keeps nothing."""

from __future__ import annotations

from bot.sending import address_of
from plugins.api import ToolContext, ToolError, tool
from plugins.instructions.standing import StandingInstructions


@tool(is_parallel=False, needs_conversation=True)
async def propose_rule(context: ToolContext, text: str) -> str:
    """Ask the user to keep a lasting order, a whole sentence in their exact words, as a rule."""
    if context.place is None or context.conversation is None:
        raise ToolError("Not proposed: nobody is there to be asked.")
    address, turn = address_of(context.place), context.conversation.context.current
    rules = context.service(StandingInstructions)
    return await rules.propose(context.key, turn, address, text)
