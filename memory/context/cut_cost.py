"""The cost of a change of the context when the provider caches the beginning of requests.

Pure: computed from two views, or from the sizes stored with an event.
"""

from __future__ import annotations

import math

from msgspec import Struct

from memory.context.meter import PromptPrefix
from memory.context.view import View

_BARE = PromptPrefix("")


class InputPrice(Struct, frozen=True):
    """US dollars per token of a prompt: read fresh, read from the cache, and read fresh and written
    to the cache (None: the same as the first)."""

    fresh: float
    cached: float
    written: float | None = None

    @property
    def kept(self) -> float:
        return self.fresh if self.written is None else self.written


class CutCost(Struct, frozen=True):
    """The cost of a change. `broken` tokens of the last request are no longer usable in the
    provider's cache; `anew` are sent in their place in the next one. `dollars` is the one-time cost
    (None: the price is unknown), and `requests` the number of requests after which the change has
    paid for itself (None: unknown; `math.inf`: never, since requests become no smaller)."""

    broken: int
    anew: int
    dollars: float | None = None
    requests: float | None = None


def cut_cost(broken: int, anew: int, price: InputPrice | None, besides: int = 0) -> CutCost:
    """Return the cost of a change that invalidates `broken` cached tokens and sends `anew` in their
    place. `besides` are read once for it, at the full price, for example for its summary.

    With c the price of a cached token as a share of a fresh one, the one-time cost in fresh tokens
    is (1 - c) anew + besides, since tokens that could have come from the cache are read fresh. Each
    request from then on, the first included, saves c (broken - anew). If writing to the cache has a
    price of its own, that price replaces the 1. So the change has paid after ((1 - c) anew +
    besides) / (c (broken - anew)) requests. (The project's field notes derive from the same terms
    the best distance between two compactions, sqrt(2 ((1 - c) A + F) / (c t)) turns, where A is the
    rest of the context, F the summary, and t the tokens of a turn.)
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
    invalidates, and how many replace them. Later messages are read fresh in any case."""
    kept, fresh = count_kept(before, after), max(0, before.tokens - cached)
    return max(0, before.tokens - fresh - kept), max(0, after.tokens - fresh - kept)


def count_kept(before: View, after: View) -> int:
    """Return the number of tokens at the beginning of a request made from `before` that are also
    the beginning of one made from `after`, with the same system prompt and tools. The messages are
    compared as sent, so that every difference counts."""
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
    """Return the share of a text that is also the beginning of another one: an activity log grows
    at its end."""
    pairs = enumerate(zip(old, new, strict=False))
    same = next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))
    return same / max(1, len(old))
