"""`/memory pending`, `approve` and `reject`: what was summarised from results that come from
outside is remembered when a person has looked through it."""

from __future__ import annotations

from memory.record.daily import Note
from plugins.api import Action, Ask, CommandError, Reply
from plugins.wording import literal

NOTHING = (
    "Nothing waits. What is summarised from turns with results of the web or of commands waits "
    "here until it is looked through."
)


async def pending(ask: Ask) -> Reply:
    """What waits, with buttons for each."""
    notes = await ask.conversation.memory.quarantined()
    parts = [f"**{n.job}** · {n.day} · {literal(n.turns)}\n\n{n.text}" for n in notes]
    actions = tuple(action for note in notes for action in _actions(note))
    data = {
        "pending": [
            {"id": n.job, "day": str(n.day), "turns": n.turns, "text": n.text} for n in notes
        ]
    }
    ends = "`/memory approve N` lets one into the memory, `/memory reject N` deletes it."
    return Reply("\n\n".join((*parts, ends)) if notes else NOTHING, data, actions)


def _actions(note: Note) -> tuple[Action, ...]:
    return (
        Action(f"Approve {note.job}", f"/memory approve {note.job}"),
        Action(f"Reject {note.job}", f"/memory reject {note.job}"),
    )


async def settle(ask: Ask, verb: str, number: str) -> Reply:
    """Carry out `/memory approve N` or `/memory reject N`; for an owner, or who writes alone."""
    if not ask.address.is_private:
        ask.require_owner("say what is remembered here")
    if not (number.isascii() and number.isdigit()):
        raise CommandError(f"/memory {verb} wants a number that /memory pending shows.")
    memory = ask.conversation.memory
    done = await (memory.release if verb == "approve" else memory.reject)(int(number))
    if not done:
        raise CommandError(f"Nothing waits with the number {number}; see /memory pending.")
    said = "It is remembered now." if verb == "approve" else "It is deleted."
    return Reply(said, {"id": int(number), "is_approved": verb == "approve"})
