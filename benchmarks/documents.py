"""The share of documents' contents that is read: a marker word in each construct of each format.

python -m benchmarks.documents [--format docx]

Prints a line for each construct: whether its marker was found, or its kind said; then the share
for each format. The exit code is 1 where a marker is neither.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.fakes.marked_texts import cases, missing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", help="only this one: docx, xlsx, pptx, epub, pdf, txt, html")
    chosen = parser.parse_args().format
    found, tried = Counter[str](), Counter[str]()
    for case in cases():
        if chosen not in (None, case.format):
            continue
        lacks = missing(case)
        tried[case.format] += 1
        found[case.format] += not lacks
        print(f"{case.format:5} {case.construct:40} {_outcome(lacks)}")
    print()
    for name, count in tried.items():
        print(f"{name:5} {found[name]} of {count} ({found[name] / count:.0%})")
    return 0 if found == tried else 1


def _outcome(lacks: list[str]) -> str:
    return f"MISSING: {', '.join(lacks)}" if lacks else "found"


if __name__ == "__main__":
    sys.exit(main())
