"""`/context requests`: all requests that are kept, in order, with what each cost."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

from channels.language import _
from plugins.api import Action, Ask, Reply
from plugins.builtin.context.requests import figures, list_kept
from plugins.builtin.context.show import moment
from plugins.wording import amount, money, table


async def show(ask: Ask, rest: str) -> Reply:
    """`/context requests`"""
    del rest
    kept = await list_kept(ask)
    if isinstance(kept, Reply):
        return kept
    found = await ask.conversation.turns.requests.requests(kept)
    rows = [
        (
            sent.name,
            f"t{sent.turn}",
            moment(datetime.fromtimestamp(sent.at, UTC), ask.bot.zone()),
            amount(sent.prompt or sent.tokens),
            f"{sent.cached / sent.prompt:.0%}" if sent.prompt and sent.is_reported else "",
            "" if sent.cost is None else money(sent.cost),
        )
        for sent in found
    ]
    text = table(("request", "turn", "when", "tokens:", "from the cache:", "cost:"), rows)
    text += _("\n\n`/context request r1` shows one, `/context diff r1 r2` how two differ.")
    actions = tuple(
        Action(
            _("What changed in {name}", name=sent.name), f"/context diff {before.name} {sent.name}"
        )
        for before, sent in list(pairwise(found))[-1:]
    )
    return Reply(text, {"requests": [figures(sent) for sent in found]}, actions)
