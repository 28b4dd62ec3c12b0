"""The performance of the bot on a machine as small as a Raspberry Pi.

python -m benchmarks.small_machine

The bot runs in its own control group with limits of memory and of one processor; files that it
reads count as its memory, too. The kernel's figures are: the time of the first answer, the resident
memory, the bytes written for a message, and the peak memory. Linux only; without permission to make
a control group (root, or a delegated group) the same is measured without limits.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.overhead import MODEL, QUESTION, Setup, memory_of, piped, running, start_to_reply

ONE, TWO = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
PERIOD = 100_000  # microseconds
NAME = "parley-small-machine"


@dataclass(frozen=True, slots=True)
class Confinement:
    """Control groups for a process; `peak` is the file with the peak memory in bytes of all their
    processes together."""

    folders: tuple[Path, ...] = ()
    peak: Path | None = None


@dataclass(frozen=True)
class SmallSetup(Setup):
    """A bot that joins control groups when it starts."""

    confinement: Confinement = Confinement()

    @property
    def command(self) -> tuple[str, ...]:
        files = (f"echo $$ > '{folder}/cgroup.procs'" for folder in self.confinement.folders)
        return ("sh", "-c", "; ".join((*files, 'exec "$@"')), "sh", *super().command)


@contextmanager
def confined(megabytes: int, percent: int) -> Iterator[Confinement]:
    """Yield control groups with these limits; none if they cannot be made."""
    is_old = (ONE / "memory.limit_in_bytes").exists()
    memory = (ONE if is_old else TWO) / NAME
    processor = TWO / "cpu" / NAME if is_old else memory
    folders = (memory, processor) if is_old else (memory,)
    quota, size = PERIOD * percent // 100, megabytes << 20
    wanted: dict[Path, Any] = (
        {
            memory / "memory.limit_in_bytes": size,
            processor / "cpu.cfs_quota_us": quota,
        }
        if is_old
        else {memory / "memory.max": size, processor / "cpu.max": f"{quota} {PERIOD}"}
    )
    try:
        for folder in folders:
            folder.mkdir(exist_ok=True)
        for file, value in wanted.items():
            file.write_text(str(value))
    except OSError as error:
        print(f"No control group can be made here ({error}): nothing is limited.")
        yield Confinement()
        return
    try:
        peak = memory / ("memory.max_usage_in_bytes" if is_old else "memory.peak")
        yield Confinement(folders, peak if peak.exists() else None)
    finally:
        for folder in folders:
            folder.rmdir()


def written(process: int) -> int:
    """Return the bytes that the kernel has written to the disk for a process, or will write."""
    lines = dict(line.split(": ") for line in Path(f"/proc/{process}/io").read_text().splitlines())
    return int(lines["write_bytes"])


def measure(setup: SmallSetup, messages: int) -> Iterator[tuple[str, str]]:
    """Yield the lines of the table."""
    start_to_reply(setup)  # compiles new files, and creates the database
    starts = [start_to_reply(setup) for _ in range(3)]
    yield "start to a first reply in pipe mode", f"{median(starts):.2f} s"
    with piped(setup) as bot:
        bot.ask("/version", "main")
        yield "resident after the start", f"{memory_of(bot.process).resident:.0f} MB"
        bot.ask(QUESTION, "main")
        before, began = written(bot.process.pid), time.perf_counter()
        for _ in range(messages):
            bot.ask(QUESTION, "main")
        seconds = time.perf_counter() - began
        yield f"time from line to line, mean of {messages}", f"{seconds / messages * 1e3:.0f} ms"
        size = (written(bot.process.pid) - before) / messages / 1024
        yield "written to the disk for a message", f"{size:.0f} kB"
        memory = memory_of(bot.process)
        yield f"resident after {messages} messages", f"{memory.resident:.0f} MB"
        yield "… of which no other process shares", f"{memory.proportional:.0f} MB"
    if peak := setup.confinement.peak:
        yield "the most that its control group held", f"{int(peak.read_text()) / 2**20:.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--memory", type=int, default=160, help="MB that the bot may have")
    parser.add_argument("--cpu", type=int, default=25, help="percent of one processor")
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path(), help="for the data, on a disk")
    wanted = parser.parse_args()
    print(f"{wanted.memory} MB, and {wanted.cpu}% of one of {os.cpu_count()} processors")
    with (
        tempfile.TemporaryDirectory(dir=wanted.folder) as folder,
        running(MODEL) as model,
        confined(wanted.memory, wanted.cpu) as confinement,
    ):
        assert model.stdout is not None
        url = model.stdout.readline().decode().strip()
        for what, value in measure(SmallSetup(Path(folder), url, confinement), wanted.messages):
            print(f"{what:58}{value:>14}", flush=True)


if __name__ == "__main__":
    main()
