"""Summaries requested in the conversation itself.

A provider that caches the beginning of requests has read the removed turns for the last answer
already. A summary requested directly behind them is billed for them at the price of cached tokens;
in a request of its own, they would be read again at the full price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memory.context.cut_cost import InputPrice
from memory.context.meter import PromptPrefix
from memory.context.view import View
from memory.messages import RequestExtras
from memory.turns import Turn

KEPT_FOR = timedelta(minutes=5)
"""The shortest time for which a prompt stays cached (OpenAI: 5 to 10 minutes without a request)."""
LEAST = 1_024
"""The number of tokens from which on OpenAI caches a request; other providers need fewer."""
_HALF = 0.5  # of the cost of a separate request, which is more reliable


class LastRequest(Struct, frozen=True):
    """The last request to a conversation's model: the view, the other parts sent, and the key by
    which the provider recognises the conversation's requests."""

    view: View
    prefix: PromptPrefix
    affinity: str = ""


class RequestBeginning(Struct, frozen=True):
    """The beginning of the last request as it was sent, up to the end of the source of a summary;
    `tokens` as the provider counts."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    beside: RequestExtras
    affinity: str
    tokens: int


def find_beginning(
    sent: LastRequest, turns: Sequence[Turn], prior: int, now: datetime, *, of_log: bool = False
) -> RequestBeginning | None:
    """Return the beginning of the last request up to the end of these turns (`of_log`: of their
    lines of the activity log). Return None if the summary with the id `prior` (0: none) is not
    directly in front of them, if they are not sent unchanged or have images, or if the provider has
    probably evicted them from its cache."""
    view = sent.view
    if not turns or view.layout.preface != prior or view.layout.ranges or not _is_kept(view, now):
        return None
    cut = _up_to_lines(view, turns) if of_log else _up_to_turns(view, turns)
    if cut is None:
        return None
    wire = tuple(cut.to_wire(sent.prefix))
    tokens = view.scale.part(cut.raw_tokens)
    return RequestBeginning(wire, sent.prefix.tools, cut.beside, sent.affinity, tokens)


def pays(beginning: RequestBeginning, asked: int, apart: int, price: InputPrice | None) -> bool:
    """Return whether a summary in the conversation, with a task of `asked` tokens behind the
    beginning, costs at most half as much as in a separate request of `apart` tokens. Return False
    if the price is unknown."""
    if price is None or beginning.tokens < LEAST:
        return False
    return price.cached * beginning.tokens + price.fresh * asked <= _HALF * price.fresh * apart


def _is_kept(view: View, now: datetime) -> bool:
    replies = (e.at for t in view.turns for e in t.entries if e.message.role == "assistant")
    newest = max(replies, default=None)
    return newest is not None and now - newest < KEPT_FOR


def _up_to_turns(view: View, turns: Sequence[Turn]) -> View | None:
    """Return the view up to the last of these turns, if it begins with them, unchanged; None with
    an activity log, which is in front of them and stays."""
    if view.log:
        return None
    shown = view.turns[: len(turns)]
    whole = {turn.number: turn.entries for turn in view.whole}
    for sent, turn in zip(shown, turns, strict=False):
        if [e.seq for e in sent.entries] != [e.seq for e in turn.entries]:
            return None
        if sent.entries != whole.get(sent.number) or any(e.message.images for e in sent.entries):
            return None
    if len(shown) < len(turns):
        return None
    return replace(view, whole=shown, turns=shown, lines=(), current=0)


def _up_to_lines(view: View, turns: Sequence[Turn]) -> View | None:
    """Return the view up to the last line of these turns, if the activity log begins with them."""
    numbers = {turn.number for turn in turns}
    first = {line.turn for line in takewhile(lambda line: line.turn in numbers, view.log)}
    if first != numbers:
        return None
    lines = tuple(line for line in view.lines if line.turn in numbers)
    return replace(view, whole=(), turns=(), lines=lines, current=0)
