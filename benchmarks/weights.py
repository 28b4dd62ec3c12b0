"""A test of whether the weights of the ranking (`memory/record/search/ranking.py`) generalise.

Settings with each weight between half and twice its value are tried on all sets of data. The best
one on all of them proves nothing. Therefore each set is also left out: the best setting on the
others is evaluated on it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC
from statistics import fmean, median

from benchmarks.dialogues import Dialogue
from memory.record import conversations
from memory.record.database import Database
from memory.record.search import BY_WORDS, HistorySearch
from memory.record.search.index import home_of
from memory.record.search.likeness import Likeness
from memory.record.search.ranking import WEIGHTS, Weights
from memory.record.search.reach import Scope

DEPTH = 10


def vary(tried: int) -> list[Weights]:
    """Return the current weights, and `tried` others; the same ones each time."""
    dice = random.Random(0)
    return [WEIGHTS, *(_vary(dice) for _ in range(tried))]


def _vary(dice: random.Random) -> Weights:
    values = {name: value * 2 ** dice.uniform(-1, 1) for name, value in WEIGHTS._asdict().items()}
    return Weights(**{**values, "reach": dice.randint(1, 2 * WEIGHTS.reach - 1)})


def evaluate(
    database: Database,
    data: Sequence[Dialogue],
    settings: Sequence[Weights],
    likeness: Likeness = BY_WORDS,
) -> list[float]:
    """Return the mean recall at 10, in percent, for each of the settings."""
    shares: list[list[float]] = [[] for _ in settings]
    for dialogue in data:
        search = HistorySearch(database, Scope(dialogue.key.audience, is_model=True), UTC, likeness)
        row = conversations.find_or_create(database, dialogue.key)
        lines = dialogue.lines
        for question in dialogue.questions:
            inquiry = search.inquire(question.text)
            for weights, found in zip(settings, shares, strict=True):
                places = search.rank(inquiry, weights)[0][:DEPTH]
                assert all(home_of(place)[0] == row.id for place in places)
                ids = {lines[home_of(place)[1] - 1].id for place in places}
                found.append(len(question.evidence & ids) / len(question.evidence))
    return [100 * fmean(found) for found in shares]


def leave_one_out(settings: Sequence[Weights], recall: Mapping[str, Sequence[float]]) -> str:
    """Format, for each set of data, the recall with settings that were chosen with it, and without
    it."""
    every = range(len(settings))
    on_all = _best(recall, every)
    without = {
        name: _best({other: recall[other] for other in recall if other != name}, every)
        for name in recall
    }
    rows = {
        "as they are": [recall[name][0] for name in recall],
        f"the best of {len(settings)} on all": [recall[name][on_all] for name in recall],
        "the best on the others": [recall[name][without[name]] for name in recall],
        "the median": [median(recall[name]) for name in recall],
        "the worst": [min(recall[name]) for name in recall],
    }
    table = [
        f"| weights | {' | '.join(recall)} | mean |",
        "|---|" + "---:|" * (len(recall) + 1),
        *(
            f"| {name} | {' | '.join(f'{value:.1f}' for value in (*row, fmean(row)))} |"
            for name, row in rows.items()
        ),
    ]
    best = ", ".join(f"{name} {value:.3g}" for name, value in settings[on_all]._asdict().items())
    return "\n".join((*table, "", f"The best on all: {best}"))


def _best(recall: Mapping[str, Sequence[float]], settings: Sequence[int]) -> int:
    return max(settings, key=lambda n: sum(found[n] for found in recall.values()))
