"""Sentences that repeat wrong words are removed completely, and others stay unchanged."""

from __future__ import annotations

from itertools import product

from memory.long_term.document import MemoryLine
from plugins.memory.wrong import WrongValues, _correct
from tests.tables import each_row

WRONG = WrongValues((), MemoryLine("Ann lives in Lisbon"))
KEPT = ["Ben likes tea.", 'He said "No. Never!" twice.', "Use `a.b; c` at 3.5 V.", "茶很好。"]
GONE = [
    "Ann lives in Lisbon.",
    'Ann lives in "Lisbon".',
    "Ann lives in `Lisbon`; with cats.",
    "With cats; Ann lives in Lisbon!",
    'She said: "Ann lives in Lisbon. It is warm."',
    "Am 3. Mai: Ann lives in Lisbon",
]


@each_row(("gone", "kept", "between"), product(GONE, KEPT, [" ", "\n", "\n- "]))
def test_a_wrong_sentence_is_cut_and_its_neighbours_stay(
    gone: str, kept: str, between: str
) -> None:
    assert _correct(f"{kept}{between}{gone}", WRONG).rstrip(" \n-") == kept
    end = gone if gone[-1] in '.!"' else f"{gone}."
    assert _correct(f"{end}{between}{kept}", WRONG).lstrip(" \n-") == kept


def test_nothing_is_lost_where_nothing_is_wrong() -> None:
    text = '- One; two.\n\n```py\nx = 1. \n```\n> "quoted\nEnd... "so." And `x'
    assert _correct(text, WRONG) == text
