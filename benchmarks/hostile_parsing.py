"""CPU time of parsers for hostile texts, in a child process that may crash.

`python -m benchmarks.hostile_parsing SIZE` reads pairs of a parser and a text from stdin, as JSON,
and prints a line of JSON for each of them.
"""

from __future__ import annotations

import gc
import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.texts import TEXTS

LARGE = 100_000
"""Characters of the large text; the small one has a tenth of them."""
SHORTER = 5
"""The factor by which texts are shorter if they are drawn."""
MOST = 15
"""The maximum factor between the CPU of the large text and of the small one, which is a tenth as
long."""
FLOOR = 0.02
"""Seconds of CPU below which the time is ignored: the minimum that is assumed for a small text, if
the large one has LARGE characters."""
TRIES = 5
"""The number of measurements of a text that seems too slow: on a busy machine a process is charged
for more CPU than it uses."""
_MEMORY = 1 << 30
_PATIENCE = 10
"""Seconds of CPU after which a text's process is killed."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of CPU that a parser takes for a small and a large text; None if it did not
    finish."""

    parser: str
    text: str
    small: float | None = None
    large: float | None = None
    size: int = LARGE

    @property
    def is_linear(self) -> bool:
        if self.small is None or self.large is None:
            return False
        return self.large <= _limit(self.small, self.size)

    def __str__(self) -> str:
        if self.small is None or self.large is None:
            return f"{self.text}: it did not end, or took more memory than there was"
        return f"{self.text}: {self.small:.3f} s, {self.large:.3f} s"


def _limit(small: float, size: int) -> float:
    return MOST * max(small, FLOOR * size / LARGE)


def measured(cases: Iterable[tuple[str, str]], size: int = LARGE) -> Iterator[Cost]:
    """Yield the cost of each pair of a parser and a text; the large texts have this size."""
    waiting = list(cases)
    while waiting:
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks.hostile_parsing", str(size)],
            cwd=Path(__file__).parents[1],
            input=json.dumps(waiting),
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [json.loads(line) for line in ended.stdout.splitlines()]
        if ended.returncode > 0 and not lines:
            raise AssertionError(ended.stderr)
        done = len(lines)
        for case, (small, large) in zip(waiting, lines, strict=False):
            yield Cost(*case, small, large, size)
        if done < len(waiting):
            yield Cost(*waiting[done])
        waiting = waiting[done + 1 :]


def _main(size: int, cases: list[tuple[str, str]]) -> None:
    from tests.hostile.parsers import DRAWN, PARSERS  # noqa: PLC0415 - all of the bot, in the child alone

    parsers = PARSERS | DRAWN
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE * 100, LARGE * 100))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    for parser in {parser for parser, _ in cases}:
        parsers[parser]("**Hello**, `world`.\n\n```py\n1\n```")  # load lazy imports first
    gc.freeze()  # otherwise each collection scans all objects of the bot
    for parser, text in cases:
        signal.setitimer(signal.ITIMER_PROF, _PATIENCE)  # kills a blocked interpreter, too
        gc.collect()
        seconds = _seconds(parsers[parser], TEXTS[text], size, size // SHORTER ** (parser in DRAWN))
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(seconds), flush=True)


def _seconds(
    parse: Callable[[str], object], text: Callable[[int], str], size: int, length: int
) -> tuple[float, float]:
    """Return the CPU of the small and of the large text. The small text is not measured if the
    large one costs almost nothing; a text that seems too slow is measured up to TRIES times. No
    text is measured twice, since some parsers cache their input."""

    def cpu(made: str) -> float:
        begin = time.process_time()
        parse(made)
        return time.process_time() - begin

    large = cpu(text(length))
    if large <= _limit(0, size):
        return 0.0, large
    small = min(map(cpu, {text(length // 10), text(length // 10 + 1)}))
    for _ in range(TRIES - 1):
        if large <= _limit(small, size):
            break
        large = min(large, cpu(text(length + 1)))
    return small, large


if __name__ == "__main__":
    _main(int(sys.argv[1]), json.load(sys.stdin))
