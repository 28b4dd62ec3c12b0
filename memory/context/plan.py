"""What a strategy wants done: a value that `compaction` carries out, or that is only shown."""

from __future__ import annotations

from dataclasses import dataclass

from memory.context.change import Change


@dataclass(frozen=True, slots=True)
class Plan:
    """`change` says what moves, `leaving` which turns leave by it, `why` is the rule in words that
    a person reads; `tokens_after` is the meter's figure once it is carried out."""

    change: Change
    why: str
    leaving: tuple[int, ...] = ()
    tokens_after: int = 0
