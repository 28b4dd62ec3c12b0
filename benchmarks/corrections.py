"""The share of corrections that are found in dialogues which the finder was not made from.

python -m benchmarks.corrections

`benchmarks/corrections/*.jsonl` holds dialogues that were written by two minds which did not know
the finder: messages before, the message that corrects, and the value that ends with the one that
holds instead; or none, where a message only sounds like a correction. `fresh.jsonl` is for
measuring; `known.jsonl` may be learnt from. A correction is found where both values are, wholly or
in part; a wrong one ends another value, which is worse than to find none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory.context.corrections import Correction, find_corrections

HERE = Path(__file__).parent / "corrections"


def main() -> None:
    for path in sorted(HERE.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        print(*(f"{path.stem}, {line}" for line in measure(rows)), sep="\n")


def measure(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what was found, by language."""
    for language in sorted({row["language"] for row in rows}):
        own = [row for row in rows if row["language"] == language]
        found, wrong, false, count = 0, 0, 0, 0
        for row in own:
            pairs = _find(row)
            count += row["old"] is not None
            if row["old"] is None:
                false += bool(pairs)
            elif any(_is_meant(pair, row) for pair in pairs):
                found += 1
            else:
                wrong += bool(pairs)
        others = len(own) - count
        yield (
            f"{language}: {found} of {count} found, {wrong} times another value was ended; "
            f"{false} of {others} others taken for a correction"
        )


def _find(row: dict[str, Any]) -> list[Correction]:
    said = [*row["before"], row["said"]]
    return [one for one in find_corrections(said) if one.at == len(said) - 1]


def _is_meant(found: Correction, row: dict[str, Any]) -> bool:
    return _overlap(found.old, row["old"]) and _overlap(found.new, row["new"])


def _overlap(one: str, other: str) -> bool:
    first, second = ("".join(text.casefold().split()) for text in (one, other))
    return first in second or second in first


if __name__ == "__main__":
    main()
