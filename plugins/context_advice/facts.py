"""The facts for `/context advise`: the figures of a conversation, collected at one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct, field

from memory.context.change import ViewEvent
from memory.context.cut_cost import CutCost
from memory.context.emergency import REASONS
from memory.context.settings import Limits
from memory.context.strategies.stubs import count_freeable
from memory.ledger import Bill
from memory.messages import SEARCHES, Message
from memory.turns import Turn
from plugins.api import Ask
from plugins.builtin.context.cost import Cache, SoftLimit, cache_of, soft_limit_of
from plugins.builtin.context.show import enough, too_small
from plugins.rules import find_compacting, parse

LOOKED_AT = 100
"""The number of newest turns that are considered."""


class Results(Struct, frozen=True):
    """Tool results that the model sees: tokens by tool, and the largest one with its turn."""

    tokens: Mapping[str, int] = field(default_factory=dict)
    count: int = 0
    largest: int = 0
    tool: str = ""
    turn: int = 0


class Facts(Struct, frozen=True):
    """The facts about a conversation. `limits` are in force. `max_tokens` is the configured window
    (0: the model's own). `hooks` are the rules as written. `events` are those of the newest turns,
    oldest first. `overflowing` are the tool results of the turns that did not fit, in their
    original size. `searches` counts the model's searches for removed turns. `summary_model` writes
    the summaries ("": the one that answers). `too_small` is the warning that the system prompt and
    the tools leave no room for turns, and `enough` a budget that would (0: none). `freeable` is the
    number of tokens that old tool results would free as stubs, `tools` the size of the tools (0:
    they are only listed), and `cache` the known state of the provider's cache."""

    limits: Limits
    turns: int
    tokens: int
    max_tokens: int = 0
    events: tuple[ViewEvent, ...] = ()
    answers: Bill = field(default_factory=Bill)
    summaries: Bill = field(default_factory=Bill)
    results: Results = field(default_factory=Results)
    overflowing: Results = field(default_factory=Results)
    searches: int = 0
    hooks: tuple[Mapping[str, Any], ...] = ()
    summary_model: str = ""
    too_small: str = ""
    enough: int = 0
    freeable: int = 0
    cache: Cache = field(default_factory=Cache)
    tools: int = 0
    soft: SoftLimit = field(default_factory=SoftLimit)

    @property
    def cuts(self) -> list[ViewEvent]:
        """Return the compactions by the strategy in force, and those by rules."""
        own = ("strategy", self.limits.strategy)
        compactions = (event for event in self.events if event.name == "compact")
        return [e for e in compactions if e.actor == "rule" or (e.actor, e.strategy) == own]

    @property
    def rules(self) -> tuple[str, ...]:
        """Return the ids of the person's own rules that compact."""
        return find_compacting(parse(list(self.hooks)))

    @property
    def undone(self) -> int:
        """Return how many of these compactions a person has undone."""
        ids = {event.id for event in self.cuts}
        return sum(e.name == "undo" and e.target in ids for e in self.events)

    @property
    def huge(self) -> Results:
        """Return the results with the largest one of all requests, whether still in context or
        clipped since."""
        return max(self.results, self.overflowing, key=lambda results: results.largest)

    @property
    def overflows(self) -> int:
        return sum(_is_overflow(event) for event in self.events)

    @property
    def distance(self) -> float:
        """Return the average number of turns between compactions; 0 with fewer than three."""
        cuts = self.cuts
        return (cuts[-1].turn - cuts[0].turn) / (len(cuts) - 1) if len(cuts) > 2 else 0

    @property
    def broken(self) -> tuple[CutCost, ...]:
        """Return the costs of these compactions for the provider's cache, as far as they are
        known."""
        return tuple(filter(None, map(self.cache.of_event, self.cuts)))

    @property
    def saved(self) -> int:
        """Return the number of tokens that were not sent because of compactions: the tokens that
        each freed, for every request until the next one."""
        cuts = self.cuts
        turns = pairwise((*(cut.turn for cut in cuts), self.turns))
        steps = self.answers.calls / max(1, self.turns)
        freed = [
            (cut.tokens_before - cut.tokens_after) * (end - start)
            for cut, (start, end) in zip(cuts, turns, strict=True)
        ]
        return round(sum(freed) * steps)


async def gather(ask: Ask) -> Facts:
    """Return the facts about the command's conversation."""
    conversation, settings = ask.conversation, ask.bot.settings
    newest, view = conversation.context.newest, conversation.context.view()
    first = max(1, newest - LOOKED_AT + 1)
    scope = conversation.key.id
    events = tuple(e for e in await conversation.context.history() if e.turn >= first)
    turns = await conversation.context.turns(range(first, newest + 1))
    overflowed = {event.turn for event in events if _is_overflow(event)}
    there = {turn.number for turn in view.turns}  # removed turns can no longer be the reason
    return Facts(
        limits=conversation.context.limits,
        turns=newest,
        tokens=view.tokens,
        max_tokens=settings.describe("context.max_tokens", scope).value,
        events=events,
        answers=await conversation.bill_for("answer"),
        summaries=await conversation.bill_for("summary"),
        results=results_in(view.turns, view.scale.part),
        overflowing=results_in(
            [t for t in turns if t.number in overflowed & there], view.scale.part
        ),
        searches=sum(_is_search(entry.message) for turn in turns for entry in turn.entries),
        hooks=tuple(settings.describe("hooks", scope).value),
        too_small=too_small(view, conversation.context.limits),
        enough=enough(view, conversation.context.limits),
        tools=0 if view.prefix.per_call else view.scale.part(view.prefix.tools),
        freeable=count_freeable(view, conversation.context.limits),
        cache=cache_of(ask),
        soft=soft_limit_of(ask),
        summary_model=settings.describe("context.summary_brain.model", scope).value,
    )


def results_in(turns: Sequence[Turn], part: Callable[[int], int]) -> Results:
    """Return the tool results in these turns; `part` converts raw tokens to the provider's."""
    found = [
        (part(entry.tokens), entry.message.tool, turn.number)
        for turn in turns
        for entry in turn.entries
        if entry.message.role == "tool"
    ]
    tokens: Counter[str] = Counter()
    for size, tool, _ in found:
        tokens[tool] += size
    return Results(dict(tokens), len(found), *max(found, default=(0, "", 0)))


def _is_overflow(event: ViewEvent) -> bool:
    return event.reason in REASONS


def _is_search(message: Message) -> bool:
    return message.role == "tool" and message.tool in SEARCHES
