"""Very many messages at once, and many conversations for long: is all answered, in order, and does
memory grow?

python -m benchmarks.load --burst 10000 --chats 100
python -m benchmarks.load --conversations 500 --minutes 10

The bot runs as a script runs it, `python main.py --jsonl`, with a model in another process that
answers at once. In a burst all messages are written at once, and the bot reads as fast as it takes
them. Afterwards memory is measured each minute while all conversations go on by turns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.overhead import MODEL, Pipe, Setup, memory_of, piped, running


def burst(bot: Pipe, messages: int, chats: int) -> str:
    """Send all messages at once; return a line on the time it took. Raises AssertionError for a
    reply that is missing or out of order."""
    start = time.perf_counter()
    writing = threading.Thread(target=_write, args=(bot, messages, chats))
    writing.start()
    heard: defaultdict[str, list[int]] = defaultdict(list)
    most = 0.0
    for number in range(messages):
        reply = bot.hear()
        assert reply["turn"], f"this is no answer: {reply['text']}"
        heard[reply["chat"]].append(int(reply["turn"].removeprefix("t")))
        if number % 100 == 0:
            most = max(most, memory_of(bot.process).resident)
    writing.join()
    seconds = time.perf_counter() - start
    for chat, turns in heard.items():
        assert turns == list(range(1, len(turns) + 1)), f"{chat} is out of order"
    return f"{messages:,} messages in {chats} chats: {seconds:.0f} s, at most {most:.0f} MB"


def _write(bot: Pipe, messages: int, chats: int) -> None:
    for number in range(messages):
        bot.say(f"message {number}", f"burst {number % chats}")


def soak(bot: Pipe, conversations: int, minutes: float) -> None:
    """Send messages to all conversations in turn; print a line each minute."""
    start, said, minute = time.monotonic(), 0, 0
    while minute < minutes:
        for _ in range(8):  # sent at once
            bot.say(f"message {said}", f"soak {said % conversations}")
            said += 1
        for _ in range(8):
            assert bot.hear()["turn"]
        if time.monotonic() - start >= 60 * (minute + 1):
            minute += 1
            print(f"minute {minute}: {said:,} messages, {_megabytes(bot)}", flush=True)


def _megabytes(bot: Pipe) -> str:
    return f"{memory_of(bot.process).resident:.0f} MB"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--burst", type=int, default=0, help="messages at once")
    parser.add_argument("--chats", type=int, default=100, help="chats that they are said in")
    parser.add_argument("--conversations", type=int, default=0, help="that go on by turns")
    parser.add_argument("--minutes", type=float, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running(MODEL) as model:
        assert model.stdout is not None
        setup = Setup(Path(folder), model.stdout.readline().decode().strip())
        with piped(setup) as bot:
            bot.ask("Hello", "first")
            print(f"at the start: {_megabytes(bot)}", flush=True)
            if options.burst:
                print(burst(bot, options.burst, options.chats), flush=True)
            if options.conversations:
                soak(bot, options.conversations, options.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
