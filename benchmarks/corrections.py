"""The weights by which corrections are found, learnt and measured.

python -m benchmarks.corrections            # shares of corrections found, and of false alarms
python -m benchmarks.corrections --learn    # learn the weights anew and write them

`benchmarks/corrections/*.jsonl` holds dialogues that were written for this by minds which did not
know the finder: messages before, the message that corrects, and the value that ends with the one
that holds instead; or none, where a message only sounds like a correction. Those whose names begin
with "fresh" are for measuring; the others are learnt from, with those in
`tests/memory/corrections/` and the days with the bot of `benchmarks/instructions/`, in which nobody
corrects a value. The model is a logistic regression over the pairs of a message and none of them.

A correction is found where both values are, wholly or in part; a wrong one ends another value,
which is worse than to find none.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.learning import Floats, Integers, descend, write
from memory.corrections import score as correction_score
from memory.corrections.finder import Correction, find_corrections
from memory.corrections.pairs import BACK, ParsedMessage, find_pairs
from memory.corrections.score import describe_message, describe_sentence, list_features

HERE = Path(__file__).parent / "corrections"
DAYS = HERE.parent / "instructions"
TESTS = HERE.parent.parent / "tests" / "memory" / "corrections"
WEIGHTS = Path(correction_score.__file__).with_name(correction_score.WEIGHTS)
BEFORE = 4
"""Messages of a day that precede each message."""
PENALTY, OF_WORDS = 0.01, 0.3
"""The share by which a weight is reduced in each step, and the same for a word's weight."""
PLAIN = 3
"""The number of times that the plain dialogues of the tests count."""
OFTEN = 3.0
"""The weight of a correction relative to another message when word weights are learnt."""
LEAST = 4
"""The minimum number of messages with a feature for it to get a weight."""

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """Return the dialogues of a file; a whole conversation gives one for each message of the
    person."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        found = [json.loads(line) for line in text.splitlines()]
        return [row for one in found for row in (_part(one) if "before" not in one else [one])]
    rows = []
    for line in text.splitlines():
        said, *values = line.split("\t")
        *before, last = said.split(" | ")
        old, new = values or (None, None)
        rows.append({"before": before, "said": last, "old": old, "new": new})
    return rows


def _part(conversation: Row) -> Iterator[Row]:
    said = conversation["said"]
    for at, (who, text, *values) in enumerate(said):
        if who == "p":
            before = [one[1] for one in said[max(0, at - BACK) : at]]
            old, new = values or (None, None)
            yield {"before": before, "said": text, "old": old, "new": new}


def read_days(path: Path) -> Iterator[Row]:
    """Yield the messages of days, none of which corrects a value."""
    said = [line.split("\t")[2] for line in path.read_text(encoding="utf-8").splitlines()]
    for at, message in enumerate(said):
        yield {"before": said[max(0, at - BEFORE) : at], "said": message}


def read_all() -> Iterator[Row]:
    """Yield all training rows. The first message of a dialogue corrects nothing. A message that
    also names the old value corrects it even if the value was mentioned long before."""
    dialogues = (path for path in HERE.glob("*.jsonl") if not path.stem.startswith("fresh"))
    plain = (*TESTS.glob("*.tsv"), *TESTS.glob("*.txt"))
    for path in (*sorted(dialogues), *sorted(plain) * PLAIN):
        before: list[str] = []
        for row in read_rows(path):
            yield row
            if row["before"]:
                yield {"before": [], "said": row["before"][0]}
            if row.get("old") and row["old"] in row["said"]:
                yield row | {"before": []}
                yield row | {"before": before}
            before = row["before"]
    for path in (*sorted(DAYS.glob("days*.tsv")), *sorted(DAYS.glob("people*.tsv"))):
        yield from read_days(path)


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of dialogues.

    `hashes` and `owners` have the same length: a feature, and the number of the pair that has it.
    `messages` has the number of each pair's message; `factors` divide the sums of their weights.
    """

    hashes: Integers
    owners: Integers
    messages: Integers
    factors: Floats
    is_selected: Floats


def read_pairs(rows: Iterable[Row]) -> Pairs:
    """Return the pairs of dialogues. A dialogue whose values form no pair is not used for
    learning."""
    hashes: list[int] = []
    sizes: list[int] = []
    messages: list[int] = []
    is_selected: list[bool] = []
    for number, row in enumerate(rows):
        said, before = (
            ParsedMessage(row["said"]),
            [ParsedMessage(text) for text in reversed(row["before"])],
        )
        pairs = find_pairs(said, before)
        meant = [_is_meant(pair.old.text, pair.new.text, row) for pair in pairs]
        if row.get("old") and not any(meant):
            continue
        for pair, own in zip(pairs, list_features(pairs, said, before), strict=True):
            found = [*set(describe_sentence(pair.sentence, said)), *own]
            hashes.extend(crc32(feature.encode()) for feature in found)
            sizes.append(len(found))
            messages.append(number)
        is_selected.extend(meant)
    return Pairs(
        np.array(hashes, np.int64),
        np.repeat(np.arange(len(sizes)), sizes),
        np.unique(np.array(messages, np.int64), return_inverse=True)[1],
        1 / np.sqrt(np.array(sizes, np.float64) + correction_score.LENGTH),
        np.array(is_selected, np.float64),
    )


def learn(said: Pairs) -> tuple[Integers, Floats]:
    """Return the hashes of features, in order, and the weights that choose best among the pairs of
    a message and "no pair"."""
    kept, places, owners = _place(said.hashes, said.owners, said.messages[said.owners])
    count = int(said.messages[-1]) + 1
    corrects = np.bincount(said.messages, said.is_selected, minlength=count) > 0

    def find_slope(weights: Floats) -> Floats:
        sums = np.bincount(owners, weights[places], minlength=len(said.factors))
        odds = np.exp(np.clip(sums * said.factors, -30, 30))
        total = np.bincount(said.messages, odds, minlength=count) + 1
        right = np.bincount(said.messages, odds * said.is_selected, minlength=count)
        share = odds * said.is_selected / np.maximum(right, 1e-30)[said.messages]
        wanted = np.where(corrects[said.messages], share, 0.0)
        wrong = (odds / total[said.messages] - wanted) * said.factors
        return np.bincount(places, wrong[owners], minlength=len(weights)) + PENALTY * weights

    return kept, descend(np.zeros(len(kept)), find_slope)


def learn_words(corrections: Sequence[str], others: Sequence[str]) -> tuple[Integers, Floats]:
    """Return the weights of the words that decide whether a message is examined further."""
    told = [{*describe_message(text)} for text in (*corrections, *others)]
    hashes = np.array([crc32(feature.encode()) for one in told for feature in one], np.int64)
    sizes = np.array([len(one) for one in told])
    factors = 1 / np.sqrt(sizes + correction_score.LENGTH)
    owners = np.repeat(np.arange(len(told)), sizes)
    kept, places, owners = _place(hashes, owners, owners)
    corrects = np.arange(len(told)) < len(corrections)
    counted = np.where(corrects, OFTEN, 1.0) * factors

    def score(weights: Floats) -> Floats:
        sums: Floats = np.bincount(owners, weights[places], minlength=len(told)) * factors
        return np.clip(sums, -30, 30)

    def find_slope(weights: Floats) -> Floats:
        wrong = (1 / (1 + np.exp(-score(weights))) - corrects) * counted
        return np.bincount(places, wrong[owners], minlength=len(weights)) + OF_WORDS * weights

    weights = descend(np.zeros(len(kept)), find_slope)
    passed = score(weights) > correction_score.LEAST
    print(
        f"{passed[corrects].mean():.3f} of corrections and {passed[~corrects].mean():.3f} of others"
    )
    return kept, weights


def _place(
    hashes: Integers, owners: Integers, messages: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return the features that have a weight, because they occur in several messages, and their
    positions with their owners."""
    once = np.unique(np.stack([hashes, messages]), axis=1)[0]
    kept, counts = np.unique(once, return_counts=True)
    kept = kept[counts >= LEAST]
    places = np.searchsorted(kept, hashes)
    places[places == len(kept)] = 0
    is_known = kept[places] == hashes
    return kept, places[is_known], owners[is_known]


def measure(rows: list[Row]) -> Iterator[str]:
    """Yield the shares of corrections found, by language."""
    for language in sorted({row["language"] for row in rows}):
        own = [row for row in rows if row["language"] == language]
        found, wrong, false, count = 0, 0, 0, 0
        for row in own:
            pairs = _find(row)
            is_correction = bool(row.get("old"))
            count += is_correction
            if not is_correction:
                false += bool(pairs)
            elif any(_is_meant(pair.old, pair.new, row) for pair in pairs):
                found += 1
            else:
                wrong += bool(pairs)
        others = len(own) - count
        yield (
            f"{language}: {found} of {count} found, {wrong} times another value was ended; "
            f"{false} of {others} others taken for a correction"
        )


def _find(row: Row) -> list[Correction]:
    said = [*row["before"], row["said"]]
    return [one for one in find_corrections(said) if one.at == len(said) - 1]


def _is_meant(old: str, new: str, row: Row) -> bool:
    return bool(row.get("old")) and _overlap(old, row["old"]) and _overlap(new, row["new"])


def _overlap(one: str, other: str) -> bool:
    plain = (re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", text.casefold()) for text in (one, other))
    first, second = ("".join(text.split()) for text in plain)
    return first in second or second in first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learn", action="store_true", help="learn the weights and write them")
    if parser.parse_args().learn:
        rows = [*read_all()]
        corrections = [row["said"] for row in rows if row.get("old")]
        others = [row["said"] for row in rows if not row.get("old")]
        for path in sorted(DAYS.glob("*.tsv")):
            others += [row["said"] for row in read_days(path)]
        models = (learn(read_pairs(rows)), learn_words(corrections, others))
        hashes, weights = (np.concatenate([one[at] for one in models]) for at in (0, 1))
        count = write(WEIGHTS, hashes, weights)
        print(f"{len(rows)} messages, {count} weights")
    for path in sorted(HERE.glob("fresh*.jsonl")):
        print(*(f"{path.stem}, {line}" for line in measure(read_rows(path))), sep="\n")


if __name__ == "__main__":
    main()
