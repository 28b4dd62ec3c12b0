"""Standing instructions in an export: a file next to the messages of their conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from memory.keys import ConversationKey
from memory.record.database import Database
from plugins.instructions import record as rows
from plugins.instructions.detect import LONGEST, normalise
from plugins.instructions.record import Instruction, Scope, place_at
from plugins.instructions.standing import StandingInstructions

FILE, NOUN, WHERE = "rules.json", "standing instruction", "/rules"


class CarriedRule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A rule in an export."""

    text: str
    scope: Scope
    state: Literal["active", "proposed", "dismissed"]
    turn: int = 0
    person: str = ""
    at: float = 0.0


def write(database: Database, conversation: str) -> bytes:
    """Return the file of a conversation; b"" if it has no rules."""
    found = [
        CarriedRule(r.text, r.scope, r.state, r.turn, r.person, r.at)
        for r in rows.load(database)
        if r.conversation == conversation and r.state != "revoked"
    ]
    return msgspec.json.format(msgspec.json.encode(found)) + b"\n" if found else b""


async def import_entry(
    services: Mapping[type, object],
    key: ConversationKey,
    content: bytes,
    *,
    is_own: bool,
    is_rehearsal: bool,
) -> int:
    """Import the rules of a conversation and return the number of new ones. Rules of somebody
    else's export wait for approval and apply only to this conversation; long ones are skipped.
    Raises ValueError for a file of another format, and StoreError."""
    try:
        found = msgspec.json.decode(content, type=tuple[CarriedRule, ...])
    except msgspec.MsgspecError as error:
        raise ValueError(f"{FILE} says what no export says ({error})") from None
    standing = services.get(StandingInstructions)
    count = 0
    for one in found:
        text, turn = one.text.strip(), one.turn
        if not is_own:  # a person must be able to see all of it before approving
            text, turn = " ".join(text.split()), 0
        if not normalise(text):
            continue
        if not is_own and (one.state == "dismissed" or len(text) > LONGEST):
            continue
        state = one.state if is_own else "proposed"
        rule = Instruction(text, state, "", "", key.id, turn, one.person, "person", one.at)
        rule = place_at(rule, key, one.scope if is_own else "conversation")
        if not isinstance(standing, StandingInstructions):
            count += 1  # an import without a running bot
        elif await standing.import_entry(key, rule, is_rehearsal=is_rehearsal):
            count += 1
    return count
