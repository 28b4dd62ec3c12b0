"""Figures of a run beside those that were committed last.

`figures.json` has a group for each program. Its figures are all better when they are smaller, and
do not depend on how quick the machine is: multiples of the floor that was measured in the same run,
megabytes, tokens.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

KEPT = Path(__file__).with_name("figures.json")
WITHIN = 1.25
"""The factor by which a figure may be larger: runs on a busy machine differ by so much."""
EXACT = 1.005
"""The same for what is no matter of time."""


def compare(
    before: Mapping[str, float], now: Mapping[str, float], within: float = WITHIN
) -> list[str]:
    """List what got worse, in a sentence each. Figures that only one of the two has are not
    compared."""
    return [
        f"{what}: {now[what]:,.2f}, and it was {old:,.2f} ({now[what] / old:.2f} times as much)."
        for what, old in before.items()
        if what in now and now[what] > old * within
    ]


def read(path: Path = KEPT) -> dict[str, dict[str, float]]:
    """All groups; none where there is no file yet."""
    return json.loads(path.read_text()) if path.exists() else {}


def write(group: str, figures: Mapping[str, float], path: Path = KEPT) -> None:
    """Keep the figures of a group; those of the others stay."""
    rounded = {what: round(value, 2) for what, value in figures.items()}
    path.write_text(f"{json.dumps({**read(path), group: rounded}, indent=2)}\n")


def conclude(
    group: str, figures: Mapping[str, float], *, is_kept: bool, within: float = WITHIN
) -> None:
    """Keep the figures, or say what got worse; then the program ends with an error."""
    if is_kept:
        write(group, figures)
        print(f"\nThese figures are in {KEPT.name} now.")
        return
    before = read().get(group, {})
    if worse := compare(before, figures, within):
        sys.exit("\nWorse than the figures that were committed last:\n- " + "\n- ".join(worse))
    if before:
        print("\nNothing is worse than in the figures that were committed last.")
