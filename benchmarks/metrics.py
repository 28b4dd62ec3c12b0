"""The cost of metrics for a message: the same bot with and without them, alternately.

python -m benchmarks.metrics

As in `overhead.py`: bots in their own processes, connected by pipes, and a model that answers at
once. CPU is the time that the kernel charged to the bot. The last two lines are the cost of the
metrics of a message with a tool alone.
"""

from __future__ import annotations

import json
import socket
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from agent.models.base import ModelCall
from benchmarks.overhead import MODEL, Setup, cycle, memory_of, piped, running
from bot.recent import EndedTurn, RecentActivity
from memory.ledger import Spent
from plugins.metrics.metrics import Metrics

CYCLES, CALLS = 40, 20_000


class WatchedSetup(Setup):
    """A bot with metrics."""

    @property
    def command(self) -> tuple[str, ...]:
        command = super().command
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            metrics = {"enabled": True, "port": free.getsockname()[1]}
        config = {"model": "gpt-4o-mini", "metrics": metrics}
        (self.folder / "config.json").write_text(json.dumps(config))
        return command


def cpu_of_calls(recent: RecentActivity) -> float:
    """Return the milliseconds for recording the metrics of a message with a tool."""
    begun = time.process_time()
    for _ in range(CALLS):
        recent.message_taken("web", is_command=False)
        for _step in range(2):
            recent.model_called(ModelCall("gpt-5-mini", "openai", 1.2, 0.4))
            recent.spent(Spent("answer", "gpt-5-mini", 4000, 3000, 200, 0.001, reasoning=50))
        recent.tool_ended("calculate", 0.01, is_error=False)
        recent.turn_ended(EndedTurn("web", 2.6, 2))
        recent.reply_sent("web")
    return (time.process_time() - begun) / CALLS * 1e3


def main() -> None:
    with ExitStack() as stack:
        model = stack.enter_context(running(MODEL))
        assert model.stdout is not None
        url = model.stdout.readline().decode().strip()
        bots = {}
        for name, kind in (("without", Setup), ("with", WatchedSetup)):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            bots[name] = stack.enter_context(piped(kind(Path(folder), url)))
        spent: dict[str, list[float]] = {name: [] for name in bots}
        for number in range(CYCLES):
            for name, bot in bots.items():
                samples = cycle(bot, f"chat {number}")
                spent[name] += [one.cpu for one in samples if number]
        for name, bot in bots.items():
            resident = memory_of(bot.process).resident
            print(f"{name:8} metrics: {median(spent[name]):.3f} ms CPU, {resident:.0f} MB")
    for recent in (RecentActivity(), Metrics("benchmark")):
        print(f"{type(recent).__name__:15}: {cpu_of_calls(recent):.4f} ms for what a message tells")


if __name__ == "__main__":
    main()
