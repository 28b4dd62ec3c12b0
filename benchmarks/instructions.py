"""The weights by which standing instructions are found, learnt and measured.

python -m benchmarks.instructions            # shares of found rules and of false alarms
python -m benchmarks.instructions --learn    # learn the weights anew and write them

`benchmarks/instructions/*.tsv` holds messages that were written for this: language, kind (`rule`:
an order that holds from now on; `task`: one for this once; `other`: none at all) and text. Those in
`tests/instructions/said.tsv` and `fresh.tsv` are not learnt from. The model is a logistic
regression; of a message with several sentences that holds a rule, the one with the highest score is
taken for it, which is found out in rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np

from benchmarks.learning import Floats, Integers, descend, write
from plugins.instructions import detect
from plugins.instructions.detect import (
    find_instructions,
    language_of,
    mask_foreign_words,
    read_sentences,
)

HERE = Path(__file__).parent / "instructions"
TESTS = HERE.parent.parent / "tests" / "instructions"
WEIGHTS = Path(detect.__file__).with_name(detect.NAME)
PENALTY = 0.01
"""The share by which a weight is reduced in a step: the smaller, the closer the weights follow the
training sentences."""
PLAIN = {"classic": 2, "earlier": 2, "plain": 3}
"""The number of times that the messages with plainly expressed wishes count."""
ROUNDS = 3
LEAST = 0.5
"""Smaller weights are not stored: they are four of five, and find at most 1 of 100 instructions."""
BIAS = {"en": 6.75, "de": 9.0, "zh": 4.0}
"""Added to the weight of each language: lower values find fewer rules, with fewer false alarms."""

Row = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Sentences:
    """The sentences of messages.

    `hashes` and `owners` are of the same length: a feature, and the number of the sentence that has
    it. `factors` divide the sum of a sentence's weights, `messages` are the first sentence and the
    number of sentences of each message.
    """

    hashes: Integers
    owners: Integers
    is_rule: Floats
    factors: Floats
    messages: tuple[tuple[int, int], ...]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file: language, kind, message."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        language, kind, message = line.split("\t")[:3]
        rows.append((language, kind, message.replace("\\n", "\n")))
    return rows


def read_messages(rows: Sequence[Row]) -> Sentences:
    """Return the sentences of messages, with their features."""
    hashes: list[int] = []
    owners: list[int] = []
    sizes: list[int] = []
    is_rule: list[bool] = []
    messages: list[tuple[int, int]] = []
    for _, kind, message in rows:
        first = len(sizes)
        for sentence in read_sentences(mask_foreign_words(message)):
            features = set(detect.features(sentence, language_of(sentence.text)))
            hashes.extend(crc32(feature.encode()) for feature in features)
            owners.extend([len(sizes)] * len(features))
            sizes.append(len(features))
            is_rule.append(kind == "rule")
        if count := len(sizes) - first:
            messages.append((first, count))
    return Sentences(
        np.array(hashes, np.int64),
        np.array(owners, np.int64),
        np.array(is_rule, np.float64),
        1 / np.sqrt(np.array(sizes, np.float64) + detect.LENGTH),
        tuple(messages),
    )


def learn(said: Sentences) -> tuple[Integers, Floats]:
    """Return the hashes of features, in order, and the weights that best separate rules from other
    sentences.

    A feature that occurs equally in both kinds of sentences gets a small weight; one that occurs in
    one kind only gets a larger one (Wang and Manning 2012, "Baselines and Bigrams"). A feature of a
    single sentence has a weight as well: it absorbs the peculiarities of that sentence, which would
    otherwise be added to the words that others share.
    """
    kept, places = np.unique(said.hashes, return_inverse=True)
    said = replace(said, hashes=places)
    is_rule, counted = said.is_rule, np.where(said.is_rule > 0, _shares(said), 1.0)
    weights = np.zeros(len(kept))
    for _ in range(ROUNDS):
        evidence = _evidence(said, is_rule * counted, (1 - is_rule) * counted)
        factors = counted * said.factors

        def find_slope(
            weights: Floats,
            is_rule: Floats = is_rule,
            factors: Floats = factors,
            evidence: Floats = evidence,
        ) -> Floats:
            scores = _scores(said, weights * evidence)
            wrong = (1 / (1 + np.exp(-scores)) - is_rule) * factors
            sums = np.bincount(said.hashes, wrong[said.owners], minlength=len(weights))
            return sums * evidence + PENALTY * weights

        weights = descend(np.zeros(len(kept)), find_slope) * evidence
        is_rule, counted = _settle(said, _scores(said, weights))
    weights[np.abs(weights) < LEAST] = 0.0
    _add_bias(kept, weights)
    return kept, weights


def _evidence(said: Sentences, of_rules: Floats, of_others: Floats) -> Floats:
    """Return for each feature the limit of its weight: the root of the logarithm of the ratio of
    its shares in the two kinds of sentences, scaled so that the mean square is 1."""
    shares = []
    for counted in (of_rules, of_others):
        counts = np.bincount(said.hashes, counted[said.owners]) + 1.0
        shares.append(counts / counts.sum())
    ratios = np.sqrt(np.abs(np.log(shares[0] / shares[1])))
    return np.asarray(ratios / np.sqrt(np.mean(ratios**2)))


def _shares(said: Sentences) -> Floats:
    """Return for each sentence 1 divided by the number of sentences of its message."""
    shares = np.ones(len(said.is_rule))
    for first, count in said.messages:
        shares[first : first + count] /= count
    return shares


def _settle(said: Sentences, scores: Floats) -> tuple[Floats, Floats]:
    """Return the sentences classified as rules, and the factor of each. Beside the highest score of
    a message, sentences that are clearly no rule count half, and doubtful ones not at all."""
    is_rule, counted = said.is_rule.copy(), np.ones(len(said.is_rule))
    for first, count in said.messages:
        if count == 1 or not said.is_rule[first]:
            continue
        best = first + int(np.argmax(scores[first : first + count]))
        for at in range(first, first + count):
            if at != best:
                is_rule[at] = 0.0
                counted[at] = 0.0 if scores[at] > -1 else 0.5
    return is_rule, counted


def _scores(said: Sentences, weights: Floats) -> Floats:
    sums = np.bincount(said.owners, weights[said.hashes], minlength=len(said.factors))
    return sums * said.factors


def _add_bias(kept: Integers, weights: Floats) -> None:
    for language, bias in BIAS.items():
        weights[np.searchsorted(kept, crc32(f"@{language}".encode()))] += bias


def measure() -> Iterator[str]:
    """Yield the shares of messages, by language and kind, in which a rule is found."""
    rows = read_rows(TESTS / "fresh.tsv")
    for line in (TESTS / "said.tsv").read_text(encoding="utf-8").splitlines():
        language, message = line.split("\t")[:2]
        rows.append((language, "rule, said.tsv", message.replace("\\n", "\n")))
    for language, kind in sorted({row[:2] for row in rows}):
        found = [bool(find_instructions(row[2])) for row in rows if row[:2] == (language, kind)]
        yield f"{language} {kind}: {sum(found)} of {len(found)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learn", action="store_true", help="learn the weights and write them")
    if parser.parse_args().learn:
        files = {path: read_rows(path) for path in sorted(HERE.glob("*.tsv"))}
        rows = [row for path, own in files.items() for row in own * PLAIN.get(path.stem, 1)]
        print(f"{len(rows)} messages, {write(WEIGHTS, *learn(read_messages(rows)))} weights")
    print(*measure(), sep="\n")


if __name__ == "__main__":
    main()
