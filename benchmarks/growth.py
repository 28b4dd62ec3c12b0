"""The cost of a message when much is stored.

python -m benchmarks.growth [--long 100000] [--chats 10000] [--messages 1000000]

First one chat gets that many messages, then that many other chats get that many in total; they are
written directly into the bot's database. After each step the same bot as in `overhead.py` holds
young conversations and continues the long one, whose context was cleared: only the stored data
differs. Finally, all chats send one message each, and memory is measured.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.overhead import (
    MODEL,
    QUESTION,
    WARM,
    Pipe,
    Setup,
    cpu_of,
    cycle,
    memory_of,
    piped,
    running,
    typical,
)

ANSWER = "The quick brown fox jumps over the lazy dog. " * 8
_MESSAGE = """INSERT INTO message (conversation, seq, turn, role, text, extra, tokens, at)
    VALUES (?, ?, ?, ?, ?, '{}', ?, ?)"""
_QUIET = 5.0  # ms of CPU in half a second, below which the bot is idle
_LOOKS = 4
_AGE = 200_000  # seconds; rows older than the retention would be deleted meanwhile


def fill(path: Path, conversation: int, messages: int) -> None:
    """Fill a conversation up to that many messages, with old ones."""
    with closing(sqlite3.connect(path)) as database, database:
        query = "SELECT last_seq, last_turn FROM conversation WHERE id = ?"
        seq, turn = database.execute(query, (conversation,)).fetchone()
        rows = list(_rows(conversation, seq, turn, messages - seq))
        database.executemany(_MESSAGE, rows)
        change = "UPDATE conversation SET last_seq = ?, last_turn = ? WHERE id = ?"
        database.execute(change, (rows[-1][1], rows[-1][2], conversation))


def _rows(
    conversation: int, seq: int, turn: int, count: int
) -> Iterator[tuple[int, int, int, str, str, int, float]]:
    at = time.time() - _AGE
    for number in range(0, count, 2):
        now = turn + 1 + number // 2
        yield conversation, seq + number + 1, now, "user", f"{QUESTION} {now}", 30, at + number
        yield conversation, seq + number + 2, now, "assistant", ANSWER, 85, at + number + 1


def add_chats(path: Path, chats: int, messages: int) -> None:
    """Add conversations that have that many messages together."""
    each, at = messages // chats, time.time() - _AGE
    with closing(sqlite3.connect(path)) as database, database:
        for number in range(chats):
            row = database.execute(
                """INSERT INTO conversation (key, audience, created_at, active_at)
                    VALUES (?, ?, ?, ?)""",
                (f"pipe/stored {number}", f"pipe-stored-{number}", at, at),
            ).lastrowid
            rows = list(_rows(row or 0, 0, 0, each))
            database.executemany(_MESSAGE, rows)
            change = "UPDATE conversation SET last_seq = ?, last_turn = ? WHERE id = ?"
            database.execute(change, (rows[-1][1], rows[-1][2], row))


def settle(bot: Pipe) -> None:
    """Wait until the bot has finished its background work, such as its search index: until it has
    been idle several times in a row."""
    before, quiet = cpu_of(bot.process), 0
    while quiet < _LOOKS:
        time.sleep(0.5)
        now = cpu_of(bot.process)
        quiet, before = (quiet + 1 if now - before < _QUIET else 0), now


def measure(setup: Setup, what: str, cycles: int) -> None:
    with piped(setup) as bot:
        for _ in range(WARM):
            bot.ask(QUESTION, "warm")
        bot.ask("/context clear", "long")
        for _ in range(3):  # afterwards the old messages are indexed for the search
            bot.ask(QUESTION, "long")
            settle(bot)
        young, old = [], []
        for number in range(cycles):
            young += cycle(bot, f"young {what} {number}")
            bot.ask("/context clear", "long")
            old += cycle(bot, "long")
        new, long, memory = typical(young), typical(old), memory_of(bot.process).resident
    print(
        f"{what:50}{new.cpu:8.2f} ms{long.cpu:8.2f} ms{long.latency:10.1f} ms{memory:8.0f} MB",
        flush=True,
    )


def many_chats(setup: Setup, chats: int) -> None:
    with piped(setup) as bot:
        for _ in range(WARM):
            bot.ask(QUESTION, "warm")
        before, cpu = memory_of(bot.process).resident, cpu_of(bot.process)
        for number in range(chats):
            bot.ask(QUESTION, f"idle {number}")
        grown = memory_of(bot.process).resident - before
        used = (cpu_of(bot.process) - cpu) / chats
    print(f"{chats:,} chats that said one thing: {grown:+.0f} MB, {used:.2f} ms of CPU each")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--long", type=int, default=100_000, help="messages of the long chat")
    parser.add_argument("--chats", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=1_000_000, help="of all those chats")
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="for the database; where files are temporary")
    wanted = parser.parse_args()
    print(f"{'stored':50}{'young':>11}{'long chat':>11}{'its time':>13}{'memory':>11}")
    with tempfile.TemporaryDirectory(dir=wanted.folder) as folder, running(MODEL) as model:
        assert model.stdout is not None
        setup = Setup(Path(folder), model.stdout.readline().decode().strip())
        path = Path(folder) / "data" / "parley.db"
        with piped(setup) as bot:
            bot.ask(QUESTION, "long")
        measure(setup, "nothing", wanted.cycles)
        fill(path, 1, wanted.long)
        measure(setup, f"{wanted.long:,} messages in the chat", wanted.cycles)
        add_chats(path, wanted.chats, wanted.messages)
        what = f"and {wanted.messages:,} in {wanted.chats:,} others"
        measure(setup, what, wanted.cycles)
        many_chats(setup, wanted.chats)


if __name__ == "__main__":
    main()
