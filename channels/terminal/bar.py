"""The line at the bottom: what the bot does, and how full its context is."""

from __future__ import annotations

from rich.cells import cell_len

from channels.base import ContextUsage

_CELLS = 8
_WARM, _HOT = 0.75, 0.9


def bar_text(usage: ContextUsage, width: int) -> str:
    """`ctx 12.4k/50k ▇▇▁▁▁▁▁▁ · 7/20 turns · $0.02`, shorter where `width` columns don't hold it.

    `~` marks a number of tokens that is our estimate and not the provider's count.
    """
    tokens = ("" if usage.is_measured else "~") + _of(usage.tokens, usage.max_tokens)
    turns = _of(usage.turns, usage.max_turns)
    cost = _cost(usage) and f" · {_cost(usage)}"
    forms = (
        f"ctx {tokens} {_meter(fullness(usage))} · {turns} turns{cost}",
        f"ctx {tokens} · {turns} turns{cost}",
        f"{tokens} · {turns}t",
        tokens,
    )
    return next((form for form in forms if cell_len(form) <= width), "")


def bar_style(usage: ContextUsage) -> str:
    """The style class of the line: yellow from 75% of the limit on, red from 90%."""
    full = fullness(usage)
    return "class:bar.hot" if full >= _HOT else "class:bar.warm" if full >= _WARM else "class:bar"


def fullness(usage: ContextUsage) -> float:
    """The share of the token limit in use; 0 without a limit."""
    return usage.tokens / usage.max_tokens if usage.max_tokens else 0.0


def _meter(full: float) -> str:
    cells = min(_CELLS, round(full * _CELLS))
    return "▇" * cells + "▁" * (_CELLS - cells)


def _of(part: int, whole: int) -> str:
    return f"{_short(part)}/{_short(whole)}" if whole else _short(part)


def _short(number: int) -> str:
    """9 -> "9", 12400 -> "12.4k", 50000 -> "50k", 1000000 -> "1M"."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= 0.9995 * size:
            scaled = number / size
            return f"{scaled:.{0 if scaled >= 100 else 1}f}".removesuffix(".0") + unit
    return str(number)


def _cost(usage: ContextUsage) -> str:
    """Nothing before the first turn: no cost yet doesn't mean that the model is free."""
    if usage.cost is None:
        return "$?"
    if usage.cost == 0:
        return "$0" if usage.turns else ""
    return f"${usage.cost:.2f}" if usage.cost >= 0.005 else "<$0.01"
