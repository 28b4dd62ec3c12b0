"""Rows of compactions that wait for a person's approval: at most one per conversation."""

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
    """A compaction that a strategy or a rule (`actor`) proposes, and the spec of its summary.
    `summary` is the id of the summary, 0 while it is being written. `asked_at` is when the person
    was asked, in seconds since 1970; 0 before that."""

    plan: Plan
    actor: Actor
    spec: SummarySpec
    summary: int = 0
    asked_at: float = 0.0


def save(database: Database, conversation: int, proposal: Proposal) -> None:
    """Store the proposal of a conversation, replacing the previous one."""
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
    """Load the proposal of a conversation."""
    return next(readable(_of.dicts(database, conversation), _read), None)


@tables.Prepared
def _of(conversation: int) -> Any:
    columns = tables.Proposal
    return columns.select().where(columns.conversation == conversation)


def delete(database: Database, conversation: int) -> None:
    """Delete the proposal of a conversation."""
    columns = tables.Proposal
    columns.delete().where(columns.conversation == conversation).execute(database)


def _dump(value: Plan | SummarySpec) -> dict[str, Any]:
    """Return the fields of a value as JSON values."""
    fields: dict[str, Any] = {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, Plan):
        fields["change"] = value.change.to_json()
    return fields


def _read(row: dict[str, Any]) -> Proposal:
    plan, spec = orjson.loads(row["plan"]), convert(orjson.loads(row["spec"]), SummarySpec)
    change = Change.from_json(plan.pop("change"))
    made = replace(convert({**plan, "change": {}}, Plan), change=change)
    return Proposal(made, row["actor"], spec, row["summary"], row["asked_at"])
