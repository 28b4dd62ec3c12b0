"""CPU time of a parser over hostile texts, in a child process that may die of them.

`python -m tests.hostile.measure PARSER SIZE` prints a line of JSON for each text.
"""

from __future__ import annotations

import gc
import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.texts import TEXTS

SMALL, LARGE = 10_000, 100_000
"""Characters."""
SHORTER = 5
"""By how many times a text is shorter that is drawn."""
MOST = 15
"""How many times the CPU of the small text the large one may take, which is ten times as long."""
FLOOR = 0.02
"""Seconds of CPU that count as nothing: a small text takes so much at least."""
_MEMORY = 1 << 30
_PATIENCE = 10
"""Seconds of CPU after which a text's process is ended."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of CPU that a text takes small and large; None where it did not end."""

    text: str
    small: float | None = None
    large: float | None = None

    @property
    def is_linear(self) -> bool:
        if self.small is None or self.large is None:
            return False
        return self.large <= MOST * max(self.small, FLOOR)

    def __str__(self) -> str:
        if self.small is None or self.large is None:
            return f"{self.text}: it did not end, or took more memory than there was"
        return f"{self.text}: {self.small:.3f} s, {self.large:.3f} s"


def costs(parser: str, texts: Iterable[str] = tuple(TEXTS)) -> Iterator[Cost]:
    """What each of these texts costs this parser."""
    waiting = list(texts)
    while waiting:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.hostile.measure", parser, *waiting],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [json.loads(line) for line in ended.stdout.splitlines()]
        yield from (Cost(*line) for line in lines)
        if ended.returncode > 0 and not lines:
            raise AssertionError(ended.stderr)
        done = len(lines)
        if done < len(waiting):
            yield Cost(waiting[done])
        waiting = waiting[done + 1 :]


def _main(parser: str, names: list[str]) -> None:
    from tests.hostile.parsers import DRAWN, PARSERS  # noqa: PLC0415 - all of the bot, in the child alone

    parse = (PARSERS | DRAWN)[parser]
    share = SHORTER if parser in DRAWN else 1
    short, long = SMALL // share, LARGE // share
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE * 100, LARGE * 100))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    parse("**Hello**, `world`.\n\n```py\n1\n```")  # what is loaded at first use
    gc.freeze()  # or each collection looks through all of the bot

    def cpu(text: str) -> float:
        begin = time.process_time()
        parse(text)
        return time.process_time() - begin

    for name in names:
        signal.setitimer(signal.ITIMER_PROF, _PATIENCE)  # SIGPROF ends what holds the interpreter
        gc.collect()
        small = min(cpu(TEXTS[name](short)), cpu(TEXTS[name](short + 1)))
        large = cpu(TEXTS[name](long))
        if large > MOST * max(small, FLOOR):
            large = min(large, cpu(TEXTS[name](long + 1)))
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([name, small, large]), flush=True)  # noqa: T201 - for the parent


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
