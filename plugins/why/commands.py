"""`/why`: what a request held that was answered, the largest part first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from channels.language import _, number_of
from plugins.api import Action, Ask, CommandError, Reply, command
from plugins.request_log.commands import NONE_KEPT, mask_secrets, rebuild_request
from plugins.request_log.reading import KeptRequests, Rebuilt
from plugins.request_log.record import SentRequest
from plugins.turn_names import ids, turns_of
from plugins.why.parts import AnswerPart, list_parts
from plugins.wording import amount, clip, literal, table

SHOWN = 12
"""Parts that are listed by themselves; the rest are summed."""
_BUTTONS = 3
_KINDS = {
    "system prompt": "system prompt",
    "tools": "tools",
    "memory": "memory line {name}",
    "summary": "summary of {turns}",
    "log": "activity log",
    "turn": "turn {name}",
    "question": "the question",
    "result": "result of {name}",
}


class ExplainedAnswer(Struct, frozen=True):
    """A turn, the request that its answer came from, and the parts of that."""

    turn: int
    sent: SentRequest
    again: Rebuilt
    parts: Sequence[AnswerPart]


@command("why", "Show what an answer was made from, the largest part first", "[t5]")
async def why(ask: Ask) -> Reply:
    """`/why`, `/why t5`."""
    answered = await find_answered(ask, ask.text)
    rows = [_row(part) for part in answered.parts[:SHOWN]]
    rest = answered.parts[SHOWN:]
    if rest:
        size = amount(sum(part.tokens for part in rest))
        rows.append((_("{n} more", n=len(rest)), size, ""))
    sent = answered.sent
    head = _(
        "**{turn} was answered by {model} from {tokens} tokens**, which held:",
        turn=f"t{answered.turn}",
        model=literal(sent.model),
        tokens=amount(sent.total),
    )
    way = _("`/without NAME` asks the same again without a turn, a summary or a memory line.")
    text = "\n\n".join((head, table((_("part"), _("tokens:"), _("beginning")), rows), way))
    data = {"turn": f"t{answered.turn}", "request": sent.name, "tokens": sent.total}
    data["parts"] = [_as_data(part) for part in answered.parts]
    return Reply(mask_secrets(ask, text), mask_secrets(ask, data), _actions(answered))


async def find_answered(ask: Ask, name: str) -> ExplainedAnswer:
    """Return the newest answer, or that of the turn of this name. Raises CommandError where its
    request is not kept."""
    log = KeptRequests(ask.conversation.turns)
    kept = await log.numbers() if log.keep else []
    sent = [one for one in await log.requests(kept) if one.outcome == "answered"]
    if not log.keep:
        raise CommandError(_(NONE_KEPT))
    turns = turns_of(name, ask.conversation.context.newest) if name.strip() else ()
    found = [one for one in sent if not turns or one.turn in turns]
    last_asked = turns[-1] if turns else ask.conversation.context.newest
    if not found and 0 < last_asked <= await log.count_shared():
        raise CommandError(
            _(
                "{turn} was answered before this branch was made, and the request for it is kept "
                "there. /branches lists the branches.",
                turn=f"t{last_asked}",
            )
        )
    if not found and turns:
        raise CommandError(
            number_of(
                log.keep,
                "The request for {turn} is not kept any more: only the last one is. "
                "`/config context.keep_requests` changes that.",
                "The request for {turn} is not kept any more: only the last {n} requests "
                "are. `/config context.keep_requests` changes that.",
                turn=f"t{turns[-1]}",
            )
        )
    if not found:
        raise CommandError(_("Nothing has been answered here yet."))
    last = found[-1]
    again = await rebuild_request(ask, last.number)
    count = ask.conversation.turns.services.meter.count
    return ExplainedAnswer(
        last.turn, last, again, list_parts(again.view, again.prefix, last.turn, count)
    )


def describe_part(part: AnswerPart) -> str:
    """Return a part's name as people read it."""
    return _(_KINDS[part.kind], name=literal(clip(part.name)), turns=", ".join(ids(part.turns)))


def _row(part: AnswerPart) -> tuple[str, str, str]:
    named = describe_part(part)
    if part.can_go and part.kind == "summary":
        named = f"{named} (`{part.name}`)"
    return named, amount(part.tokens), literal(clip(part.words))


def _as_data(part: AnswerPart) -> dict[str, Any]:
    return {**asdict(part), "words": clip(part.words), "turns": ids(part.turns)}


def _actions(answered: ExplainedAnswer) -> tuple[Action, ...]:
    can_go = [part for part in answered.parts if part.can_go][:_BUTTONS]
    sent, turn = answered.sent, answered.turn
    return (
        *(
            Action(_("Ask without {name}", name=part.name), f"/without {part.name} t{turn}")
            for part in can_go
        ),
        Action(_("Show the request"), f"/context request {sent.name}"),
    )
