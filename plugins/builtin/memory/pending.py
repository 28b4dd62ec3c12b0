"""`/memory pending`, `approve` and `reject`: what was summarised from results that come from
outside is remembered when an owner has looked through it."""

from __future__ import annotations

from memory.audience_memory import Waiting
from plugins.api import Action, Ask, CommandError, Reply
from plugins.wording import count, literal

NOTHING = (
    "Nothing waits. What is summarised from turns with results from outside (pages, commands, "
    "files that were sent) waits here until an owner has looked through it."
)
SHOWN = 10
"""Sections that are shown at once, those that wait the longest."""


async def pending(ask: Ask) -> Reply:
    """What waits, with buttons for each."""
    everything = await visible(ask)
    shown = everything[:SHOWN]
    data = {"pending": [_data(one) for one in everything]}
    if not everything:
        return Reply(NOTHING, data)
    parts = [_part(ask, one) for one in shown]
    if len(everything) > SHOWN:
        parts.append(f"{count(len(everything) - SHOWN, 'more section')} after these.")
    actions = tuple(action for one in shown for action in _actions(ask, one))
    return Reply("\n\n".join((*parts, _ends(ask))), data, actions)


async def visible(ask: Ask) -> list[Waiting]:
    """The sections that wait and may be shown here: of this chat's audience, and to an owner whom
    nobody watches, of everybody."""
    sees_all = ask.person.is_owner and _is_alone(ask)
    audience = "" if sees_all else ask.conversation.key.audience
    return await ask.conversation.quarantine.waiting(audience)


def _is_alone(ask: Ask) -> bool:
    """Whether nobody else reads this: a private chat, or one without users, as the terminal is."""
    return ask.address.is_private or not ask.address.user


def _may_reject(ask: Ask) -> bool:
    return ask.person.is_owner or _is_alone(ask)


def _part(ask: Ask, one: Waiting) -> str:
    note, whose = one.note, ""
    if one.audience != ask.conversation.key.audience:
        whose = f" · {literal(note.conversation)}"
    return f"**{note.job}** · {note.day}{whose} · {literal(note.turns)}\n\n{note.text}"


def _actions(ask: Ask, one: Waiting) -> tuple[Action, ...]:
    job = one.note.job
    approve = Action(f"Approve {job}", f"/memory approve {job}")
    reject = Action(f"Reject {job}", f"/memory reject {job}")
    return (*(approve,) * ask.person.is_owner, *(reject,) * _may_reject(ask))


def _ends(ask: Ask) -> str:
    if ask.person.is_owner:
        return "`/memory approve N` lets one into the memory, `/memory reject N` deletes it."
    said = "An owner of this bot decides what of this is remembered"
    return f"{said}; `/memory reject N` deletes one." if _may_reject(ask) else f"{said}."


def _data(one: Waiting) -> dict[str, object]:
    note = one.note
    return {
        "id": note.job,
        "day": str(note.day),
        "conversation": note.conversation,
        "turns": note.turns,
        "text": note.text,
    }


async def settle(ask: Ask, verb: str, number: str) -> Reply:
    """Carry out `/memory approve N`, for an owner, or `/memory reject N`, also for the person whose
    memory it is."""
    if verb == "approve" or not _may_reject(ask):
        ask.require_owner("say what is remembered of what came from outside")
    if not (number.isascii() and number.isdigit()):
        raise CommandError(f"/memory {verb} wants a number that /memory pending shows.")
    found = [one for one in await visible(ask) if one.note.job == int(number)]
    if not found:
        raise CommandError(f"Nothing waits with the number {number}; see /memory pending.")
    quarantine = ask.conversation.quarantine
    await (quarantine.release if verb == "approve" else quarantine.reject)(found[0])
    said = "It is remembered now." if verb == "approve" else "It is deleted."
    return Reply(said, {"id": int(number), "is_approved": verb == "approve"})
