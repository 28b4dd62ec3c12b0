"""The cost of a change of the context where the provider caches the beginning of requests.

Pure: from two views, or from the sizes that an event has kept.
"""

from __future__ import annotations

import math

from msgspec import Struct

from memory.context.meter import PromptPrefix
from memory.context.view import View

_BARE = PromptPrefix("")


class InputPrice(Struct, frozen=True):
    """US dollars for a token of a prompt: one that is read anew, one from the cache, and one that
    is read anew and kept there from then on (None: the same as the first)."""

    fresh: float
    cached: float
    written: float | None = None

    @property
    def kept(self) -> float:
        return self.fresh if self.written is None else self.written


class CutCost(Struct, frozen=True):
    """`broken` tokens were at the beginning of the last request, and are no use any more in the
    provider's cache; `anew` are what the next one holds from there on. `dollars` is what that costs
    once (None: the price is unknown), and `requests` after how many the change has earned it
    (None: unknown; `math.inf`: never, since each request is no smaller)."""

    broken: int
    anew: int
    dollars: float | None = None
    requests: float | None = None


def cut_cost(broken: int, anew: int, price: InputPrice | None, besides: int = 0) -> CutCost:
    """Return the cost of a change after which `broken` cached tokens are no use any more, and
    `anew` stand in their place; `besides` are read once for it, at the full price, as for its
    summary.

    With c the price of a cached token as a share of a fresh one, the change costs once, in fresh
    tokens, (1 - c) anew + besides, since what could have come from the cache is read anew; and each
    request from then on, the first included, saves c (broken - anew). Where what is read anew has a
    price of its own, since it is kept, that takes the place of the 1. So it has paid after
    ((1 - c) anew + besides) / (c (broken - anew)) requests. (The project's field notes derive from
    the same terms the best distance between two cuts, sqrt(2 ((1 - c) A + F) / (c t)) turns, where
    A is what stays, F the summary, and t the tokens of a turn.)
    """
    if price is None:
        return CutCost(broken, anew)
    once = (price.kept - price.cached) * anew + price.fresh * besides
    saved = price.cached * (broken - anew)
    if once <= 0:
        return CutCost(broken, anew, 0.0, None if price.fresh <= 0 else 0.0)
    return CutCost(broken, anew, once, once / saved if saved > 0 else math.inf)


def count_broken(before: View, after: View, cached: int) -> tuple[int, int]:
    """Count how many of the `cached` tokens of the last request a change from `before` to `after`
    breaks, and how many take their place. What was said since is read anew either way."""
    kept, fresh = count_kept(before, after), max(0, before.tokens - cached)
    return max(0, before.tokens - fresh - kept), max(0, after.tokens - fresh - kept)


def count_kept(before: View, after: View) -> int:
    """Return how many tokens at the beginning of a request made from `before` are also the
    beginning of one made from `after`, with the same system prompt and tools: as they are sent, so
    that whatever changes them counts."""
    one, two = before.to_wire(_BARE), after.to_wire(_BARE)
    pairs = enumerate(zip(one, two, strict=False))
    same = next((place for place, (old, new) in pairs if old != new), min(len(one), len(two)))
    entries = before.entries
    ahead = len(one) - len(entries)
    raw = before.prefix.system + before.prefix.tools
    kept = entries[: max(0, same - ahead)]
    raw += sum(entry.tokens for entry in kept) + before.count_ranges(kept[-1].turn if kept else 0)
    if same > ahead or same == len(one):
        raw += before.front_tokens
    elif ahead and same < len(two):
        raw += round(before.front_tokens * _share(str(one[0]["content"]), str(two[0]["content"])))
    return min(before.scale.tokens(raw), before.tokens)


def _share(old: str, new: str) -> float:
    """Return how much of a text is also the beginning of another one: an activity log grows at its
    end."""
    pairs = enumerate(zip(old, new, strict=False))
    same = next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))
    return same / max(1, len(old))
