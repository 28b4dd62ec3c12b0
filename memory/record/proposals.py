"""Rows of cuts that wait for a person's word: at most one a conversation."""

from __future__ import annotations

from typing import Any

import orjson
from msgspec import Struct, convert
from msgspec.structs import replace

from memory.context.change import Actor, Change
from memory.context.plan import Plan, SummarySpec
from memory.record import tables
from memory.record.database import Database
from memory.record.tables import readable


class Proposal(Struct, frozen=True):
    """A cut that a strategy or a rule (`actor`) wants, and what its summary is made for. `summary`
    is the id of that, 0 while it is written; `asked_at` is when the person was asked, in seconds
    since 1970, 0 before that."""

    plan: Plan
    actor: Actor
    spec: SummarySpec
    summary: int = 0
    asked_at: float = 0.0


def save(database: Database, conversation: int, proposal: Proposal) -> None:
    """Store what waits in a conversation, in the place of what waited before."""
    tables.put(
        database,
        tables.Proposal,
        ("conversation",),
        conversation=conversation,
        plan=orjson.dumps(_dump(proposal.plan), default=list).decode(),
        actor=proposal.actor,
        spec=orjson.dumps(_dump(proposal.spec), default=list).decode(),
        summary=proposal.summary,
        asked_at=proposal.asked_at,
    )


def load(database: Database, conversation: int) -> Proposal | None:
    """Load the proposal that waits in a conversation."""
    return next(readable(_of.dicts(database, conversation), _read), None)


@tables.Prepared
def _of(conversation: int) -> Any:
    columns = tables.Proposal
    return columns.select().where(columns.conversation == conversation)


def delete(database: Database, conversation: int) -> None:
    """Nothing waits in a conversation any more."""
    columns = tables.Proposal
    columns.delete().where(columns.conversation == conversation).execute(database)


def _dump(value: Plan | SummarySpec) -> dict[str, Any]:
    """Return the fields of a value, as JSON has them."""
    fields: dict[str, Any] = {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, Plan):
        fields["change"] = value.change.to_json()
    return fields


def _read(row: dict[str, Any]) -> Proposal:
    plan, spec = orjson.loads(row["plan"]), convert(orjson.loads(row["spec"]), SummarySpec)
    change = Change.from_json(plan.pop("change"))
    made = replace(convert({**plan, "change": {}}, Plan), change=change)
    return Proposal(made, row["actor"], spec, row["summary"], row["asked_at"])
