"""The figures of a run, compared with those that were committed last.

`figures.json` has a group for each program. For all its figures smaller is better. They do not
depend on the speed of the machine: multiples of the floor measured in the same run, megabytes,
tokens.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

KEPT = Path(__file__).with_name("figures.json")
WITHIN = 1.25
"""The factor by which a figure may grow: runs on a busy machine differ by that much."""
EXACT = 1.005
"""The same factor for figures that do not depend on time."""


def compare(
    before: Mapping[str, float], now: Mapping[str, float], within: float = WITHIN
) -> list[str]:
    """List the figures that got worse, a sentence each. Figures in only one of the two are not
    compared."""
    return [
        f"{what}: {now[what]:,.2f}, and it was {old:,.2f} ({now[what] / old:.2f} times as much)."
        for what, old in before.items()
        if what in now and now[what] > old * within
    ]


def read(path: Path = KEPT) -> dict[str, dict[str, float]]:
    """Return all groups; empty if there is no file yet."""
    return json.loads(path.read_text()) if path.exists() else {}


def write(group: str, figures: Mapping[str, float], path: Path = KEPT) -> None:
    """Store the figures of a group; other groups are unchanged."""
    rounded = {what: round(value, 2) for what, value in figures.items()}
    path.write_text(f"{json.dumps({**read(path), group: rounded}, indent=2)}\n")


def conclude(
    group: str, figures: Mapping[str, float], *, is_kept: bool, within: float = WITHIN
) -> None:
    """Store the figures, or print those that got worse and exit with an error."""
    if is_kept:
        write(group, figures)
        print(f"\nThese figures are in {KEPT.name} now.")
        return
    before = read().get(group, {})
    if worse := compare(before, figures, within):
        sys.exit("\nWorse than the figures that were committed last:\n- " + "\n- ".join(worse))
    if before:
        print("\nNothing is worse than in the figures that were committed last.")
