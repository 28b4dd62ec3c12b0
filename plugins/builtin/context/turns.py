"""`/context turns` and `/context detail`: every turn, and every message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from msgspec import Struct

from channels.language import _
from memory.conversation import Conversation
from memory.ledger import Bill
from memory.messages import Message
from memory.turns import Turn
from plugins.api import Ask, Reply
from plugins.builtin.context.overview import (
    Overview,
    as_data,
    block_sizes,
    gather,
    message_sizes,
)
from plugins.builtin.context.show import actions, as_text
from plugins.builtin.context.values import TurnStates, name_states, phrase, pick, states
from plugins.turn_names import turns_of
from plugins.wording import (
    amount,
    aside,
    clip,
    clip_words,
    literal,
    name_layer,
    series,
    shorten,
    table,
)

NEWEST = 30
"""The maximum number of turns listed if none are named."""
_FIRST, _LAST = 10, 70  # messages that `detail` shows if there are many


class Row(Struct, frozen=True):
    """A turn on one line. `tokens` is its size in the context, or its size before it was
    removed."""

    number: int
    tokens: int
    state: tuple[str, ...]
    words: str = ""


async def show_turns(ask: Ask, rest: str) -> Reply:
    """Run `/context turns [t1-t40]`."""
    conversation = ask.conversation
    newest = conversation.context.newest
    numbers = turns_of(rest, newest) or tuple(range(max(1, newest - NEWEST + 1), newest + 1))
    if not numbers:
        nothing: dict[str, Any] = {"turns": [], "newest": 0, "states": []}
        return Reply(_("There are no turns yet; nothing has been said."), nothing)
    found = await rows(conversation, numbers)
    lines = [
        (f"t{r.number}", amount(r.tokens), name_states(r.state), literal(r.words)) for r in found
    ]
    text = table(("turn", "tokens:", "state", "first words"), lines)
    if numbers[0] > 1 and not rest.strip():
        text += _("\n\nOlder ones: `/context turns t1-t{last}`.", last=numbers[0] - 1)
    bills = await conversation.bills_by_turn(numbers)
    data = [
        pick(r, "tokens", "state", "words", turn=f"t{r.number}") | _sum_up(bills.get(r.number, {}))
        for r in found
    ]
    return Reply(text, {"turns": data, "newest": newest, "states": await _all_states(conversation)})


def _sum_up(bills: Mapping[str, Bill]) -> dict[str, Any]:
    """Return the cost of a turn as data: the models that answered it, and the sum of their
    tokens."""
    bill = sum(bills.values(), Bill())
    cost = None if bill.unknown else bill.cost
    return pick(bill, "prompt", "cached", "completion", models=[*bills], cost=cost)


async def _all_states(conversation: Conversation) -> list[dict[str, Any]]:
    """Return the states of all turns, as runs of adjacent turns with the same state."""
    context = conversation.context
    where = states(context.view())
    runs = groupby(enumerate(where.all_states(context.newest), 1), itemgetter(1))
    numbers = [(state, [number for number, _ in run]) for state, run in runs]
    return [{"first": run[0], "last": run[-1], "state": list(state)} for state, run in numbers]


async def rows(conversation: Conversation, numbers: Sequence[int]) -> list[Row]:
    """Return these turns, in context or not, as far as they are stored."""
    view = conversation.context.view()
    where = states(view)
    sizes = {block.turns: tokens for block, tokens in block_sizes(view) if block.turn}
    return [
        Row(
            turn.number,
            sizes.get((turn.number,), view.scale.part(turn.tokens)),
            where.of(turn.number),
            clip(turn.question.text, 40),
        )
        for turn in await conversation.context.turns(numbers)
    ]


async def show_detail(ask: Ask, rest: str) -> Reply:
    """Run `/context detail`."""
    overview = await gather(ask)
    conversation = ask.conversation
    where = states(overview.view)
    parts = [await part(ask, rest) for part in ask.bot.context_parts.get("detail", ())]
    pieces = (
        as_text(overview),
        _settings(overview),
        "" if overview.tools else _("Tools: none."),
        *(text for text, _data in parts),
        _("System prompt: {system}", system=literal(conversation.context.prefix.system)),
        _preface(overview),
        _messages(overview, where),
    )
    data = {**as_data(overview)}
    for _text, added in parts:
        data.update(added)
    return Reply("\n\n".join(filter(None, pieces)), data, actions(overview)[1:])


def _settings(overview: Overview) -> str:
    limits = overview.limits
    values = {
        "context.max_tokens": limits.window,
        "context.output_reserved": limits.context.output_reserved,
        "context.tool_result_limit": limits.longest_result,
        "context.summary_max_tokens": limits.summary_tokens,
    }
    rows = [(key, amount(value), name_layer(overview.layers[key])) for key, value in values.items()]
    return table(("setting", "tokens:", "from"), rows)


def _preface(overview: Overview) -> str:
    view, parts = overview.view, list[str]()
    if view.preface:
        summary = quote(view.preface.text)
        parts.append(_("Summary at the beginning:\n\n{summary}", summary=summary))
    parts += [
        phrase(one, "Summary of {turns}:\n\n{summary}", summary=quote(known.text))
        for one in view.layout.ranges
        if (known := view.summaries.get(one.summary))
    ]
    return "\n\n".join(parts)


def quote(text: str) -> str:
    """Return a model's text as a quotation, to separate it from the bot's own text."""
    return "\n".join(f"> {line}" for line in text.strip().split("\n"))


def _messages(overview: Overview, where: TurnStates) -> str:
    sizes = message_sizes(overview.view)
    lines = [line for turn in overview.view.turns for line in _lines(turn, where, sizes)]
    if not lines:
        return _("No turn is in context.")
    shown = shorten(lines, _FIRST, _LAST, lambda n: ("…", _("{n} more", n=n), "", "", ""))
    return table(("turn", "message", "tokens:", "state", "beginning"), shown)


def _lines(turn: Turn, where: TurnStates, sizes: Mapping[int, int]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each message; the first names the turn and its state."""
    names = (turn.id, name_states(where.of(turn.number)))
    for entry in turn.entries:
        yield (
            names[0],
            literal(name_role(role(entry.message))),
            amount(sizes[entry.seq]),
            names[1],
            literal(summarize(entry.message)),
        )
        names = ("", "")


def role(message: Message) -> str:
    """Return the role of a message; for a tool result, with the tool's name."""
    return f"{message.tool} result" if message.role == "tool" and message.tool else message.role


def name_role(role: str) -> str:
    """Return the role in the person's language."""
    tool = role.removesuffix(" result")
    return _(role) if tool == role else _("{tool} result", tool=tool)


def summarize(message: Message) -> str:
    """Return the beginning of a message without its markup, and the names of the tools that it
    calls."""
    names = series(call.name for call in message.tool_calls)
    words = clip_words(message.shown_text or message.unanswered_text)
    calls = _("calls {tools}", tools=names) if names else ""
    return words + aside(calls) if words else calls
