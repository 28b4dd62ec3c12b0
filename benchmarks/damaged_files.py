"""The behaviour of a bot whose files were damaged: flipped, cut, zeroed, emptied, by seed.

python -m benchmarks.damaged_files --each 10 --seed 1

A data folder that a bot has used is copied, one of its files is damaged, and a bot is started on
the copy as a person starts it, in a child process with limits. It may work, or end with a sentence;
never with a traceback, and never with less than was there and no word about it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from memory.record.engines.soundness import UNUSABLE
from tests.fakes.openai_server import OpenAIServer, Received, Say
from tests.whole.process import MAIN, talking

MEMORY, FILE_SIZE, FILES, SECONDS = 1 << 30, 1 << 28, 256, 60
"""The limits of a child process: bytes of memory, bytes of a file, open files, seconds of CPU."""
SETTINGS = {"model": "gpt-4o-mini", "agent_max_context_turns": 4, "restore": "exact"}
_JSON = (
    ("message", "extra"),
    ("view_event", "change"),
    ("view_event", "snapshot"),
    ("view_event", "leaving"),
    ("summary", "turns"),
    ("job", "turns"),
    ("conversation", "framing"),
    ("inbox", "attachments"),
    ("outbox", "reply"),
    ("override", "value"),
)

Damage = Callable[[Path, random.Random], None]


@dataclass
class Row:
    """The result of the starts on one kind of damage. `sentences` counts those that ended with an
    error sentence, `silent` those that lost data without reporting it."""

    kind: str
    tries: int = 0
    starts: int = 0
    sentences: int = 0
    tracebacks: int = 0
    losses_said: int = 0
    silent: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        is_silent = self.silent and self.kind not in UNSEEN
        return not (self.tracebacks or is_silent or self.failures)


def flip(file: Path, dice: random.Random) -> None:
    """Change one to twenty bytes."""
    content = bytearray(file.read_bytes())
    for _ in range(dice.randint(1, 20)):
        content[dice.randrange(len(content))] ^= dice.randint(1, 255)
    file.write_bytes(content)


def cut(file: Path, dice: random.Random) -> None:
    """Truncate the file at a random length."""
    with file.open("r+b") as stream:
        stream.truncate(int(file.stat().st_size * dice.random()))


def zero(file: Path, dice: random.Random) -> None:
    """Fill a part with zeros, as a disk does that lost it."""
    content = bytearray(file.read_bytes())
    first = dice.randrange(len(content))
    length = min(dice.choice((1, 512, 4096)), len(content) - first)
    content[first : first + length] = bytes(length)
    file.write_bytes(content)


def empty(file: Path, dice: random.Random) -> None:
    """Empty the file and keep its name."""
    file.write_bytes(b"")


def _in_file(pattern: str, how: Damage) -> Damage:
    def damage(data: Path, dice: random.Random) -> None:
        files = sorted(
            path for path in data.glob(pattern) if path.is_file() and path.stat().st_size
        )
        if files:
            how(dice.choice(files), dice)

    return damage


def _in_json(data: Path, dice: random.Random) -> None:
    """Damage JSON text in a row, and leave its job or message pending."""
    table, column = dice.choice(_JSON)
    broken = dice.choice(('{"a": ', "[1, 2", "", "null", "7", '"text"', "[[[", '{"tools": 5}'))
    with closing(sqlite3.connect(data / "parley.db")) as database, database:
        database.execute("UPDATE job SET is_done = 0")
        database.execute("UPDATE inbox SET is_done = 0 WHERE id = (SELECT MAX(id) FROM inbox)")
        database.execute("UPDATE outbox SET is_sent = 0 WHERE id = (SELECT MAX(id) FROM outbox)")
        database.execute(f"UPDATE {table} SET {column} = ?", (broken,))


_PLACES = {
    "database": "parley.db",
    "write-ahead log": "parley.db-wal",
    "daily file": "audiences/*/memory/*.md",
    "context.jsonl": "audiences/*/sessions/*/context.jsonl",
    ".own": "audiences/*/.own",
}
KINDS: dict[str, Damage] = {
    **{
        f"{name}, {how.__name__}": _in_file(pattern, how)
        for name, pattern in _PLACES.items()
        for how in (flip, cut, zero, empty)
    },
    "JSON in the database": _in_json,
}


UNSEEN = frozenset({"write-ahead log, cut", "write-ahead log, empty"})
"""The kinds of damage that cannot be detected: a log that lost its end looks like one that never
had it."""


def echo(request: Received) -> Say:
    return Say("Noted. <terse>noted</terse>")


async def lived_in(folder: Path) -> None:
    """Run a bot in the folder until it is killed. It leaves there summaries, offloaded turns, a
    file of the model's own, a setting, and a write-ahead log that holds the end."""
    async with OpenAIServer(echo) as endpoint:
        async with talking(folder, endpoint, SETTINGS) as bot:
            for number in range(12):
                await bot.says(f"My number is {number}, and my words are many. " * 4)
            await bot.says("/config agent_max_steps 9")
            await bot.ended()
        own = folder / "data" / "audiences" / "pipe-main"
        for place in (folder / "data" / "audiences").iterdir():
            own = place
        (own / ".own").write_text("0" * 64 + "\n")
        async with talking(folder, endpoint) as bot:
            for number in range(4):
                await bot.says(f"Another number is {number}.")
            await bot.kill()


def start_on(folder: Path) -> subprocess.CompletedProcess[str]:
    """Start a bot on a folder, send it some messages, and let it end, in a child process with
    limits."""
    lines = "".join(
        json.dumps({"id": f"x{number}", "text": text}) + "\n"
        for number, text in enumerate(("/context", "/memory", "Are you there?"))
    )
    command = [sys.executable, str(MAIN), "--config", str(folder / "config.json")]
    return subprocess.run(
        [*command, "--data", str(folder / "data"), "--jsonl"],
        input=lines,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=4 * SECONDS,
        check=False,
        env=os.environ | {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
        preexec_fn=_limit,
    )


def _limit() -> None:
    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, FILE_SIZE),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_CPU, SECONDS),
    ):
        resource.setrlimit(what, (most, most))


def _messages(data: Path) -> frozenset[tuple[object, object]]:
    """Return the positions of the messages in the database; empty if it cannot be read."""
    try:
        with closing(sqlite3.connect(data / "parley.db")) as database:
            database.text_factory = bytes  # damage can also make a number invalid text
            query = "SELECT conversation, seq FROM message"
            return frozenset(database.execute(query).fetchall())
    except UNUSABLE:
        return frozenset()


def try_out(healthy: Path, kind: str, seed: int, row: Row) -> None:
    """Damage a copy of a folder, start a bot on it, and record the outcome in the row."""
    with tempfile.TemporaryDirectory(prefix="parley-damaged-") as work:
        folder = Path(work, "copy")
        shutil.copytree(healthy, folder)
        KINDS[kind](folder / "data", random.Random(f"{kind} {seed}"))
        before = _messages_in_copy(healthy)
        done = start_on(folder)
        is_less = not before <= _messages(folder / "data")
        _judge(done, is_less, f"{kind}, seed {seed}", row)


def _messages_in_copy(healthy: Path) -> frozenset[tuple[object, object]]:
    with tempfile.TemporaryDirectory(prefix="parley-count-") as work:
        for file in (healthy / "data").glob("parley.db*"):
            shutil.copy(file, work)
        return _messages(Path(work))


def _judge(done: subprocess.CompletedProcess[str], is_less: bool, name: str, row: Row) -> None:
    row.tries += 1
    said = done.stdout + done.stderr
    if "Traceback" in said:
        row.tracebacks += 1
        row.failures.append(f"{name}: {said[-2000:]}")
    has_answered = '"reply_to": "x0"' in done.stdout or '"reply_to":"x0"' in done.stdout
    if has_answered:
        row.starts += 1
    elif done.stderr.strip():
        row.sentences += 1
    else:
        row.failures.append(f"{name}: it ended with {done.returncode} and no word")
    is_said = any(word in said for word in ("damaged", "missing", "can't be read", "not a Parley"))
    row.losses_said += is_said or (not has_answered and "lived here" in said)
    row.silent += has_answered and not is_said and is_less


def damaged(healthy: Path, each: int, seed: int = 1, kinds: Iterable[str] = KINDS) -> list[Row]:
    """Try each kind of damage `each` times on copies of a folder; return a row for each kind."""
    rows = []
    for kind in kinds:
        row = Row(kind)
        for number in range(each):
            try_out(healthy, kind, seed + number, row)
        rows.append(row)
    return rows


def as_table(rows: Iterable[Row]) -> str:
    """Return the rows as Markdown."""
    lines = ["| damage | tries | starts | ends with a sentence | tracebacks | loss said | silent |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        figures = (
            row.tries,
            row.starts,
            row.sentences,
            row.tracebacks,
            row.losses_said,
            row.silent,
        )
        lines.append(f"| {row.kind} | {' | '.join(map(str, figures))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=5, help="tries of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=tuple(KINDS), help="this kind alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parley-healthy-") as work:
        healthy = Path(work)
        asyncio.run(lived_in(healthy))
        rows = damaged(healthy, options.each, options.seed, options.kind or KINDS)
    sys.stdout.write(as_table(rows) + "\n")
    for row in rows:
        for failure in row.failures:
            sys.stdout.write(f"\n{failure}\n")
    return 0 if all(row.is_well for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
