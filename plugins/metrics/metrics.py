"""Metrics for Prometheus of this process's events; imported only if they are served.

The labels never contain text that people or strangers chose freely: names of models and tools are
used up to a maximum, and then replaced by "other".
"""

from __future__ import annotations

import logging
import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit
from weakref import WeakSet

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from agent.models.base import AccountRefused, ModelCall
from bot.recent import EndedTurn, RecentActivity, Workload
from bot.turn_runner import problem_of
from memory.context.change import Name, ViewEvent
from memory.ledger import Spent

OTHER = "other"
MOST_NAMES = 100
"""The maximum of distinct names of models, and of tools, in labels."""
COMPACTING: frozenset[Name] = frozenset({"compact", "squeeze", "clip", "stub", "fold", "restart"})
"""Events that remove or shorten content of the context."""
LATELY = 100
"""The number of last calls to models for the share of cache hits."""
_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)


class _BoundedNames:
    """Names as labels, up to a maximum."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def label(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= MOST_NAMES:
                return OTHER
            self._known.add(name)
        return name


class Metrics(RecentActivity):
    """All metrics of a process, in any role."""

    def __init__(self, version: str) -> None:
        super().__init__()
        disable_created_metrics()
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_WorkCollector(self))
        Info("parley_build", "The version that runs.", registry=registry).info({"version": version})
        self._model_names, self._tool_names = _BoundedNames(), _BoundedNames()
        self._prompts: deque[tuple[int, int]] = deque(maxlen=LATELY)

        def count(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"parley_{name}", meaning, labels, registry=registry)

        def time(name: str, meaning: str, *labels: str) -> Histogram:
            return Histogram(
                f"parley_{name}_seconds", meaning, labels, registry=registry, buckets=_SECONDS
            )

        self._messages = count("messages", "Messages taken in.", "channel", "kind")
        self._turns = count("turns", "Turns that have ended.", "channel", "outcome")
        self._turn_time = time("turn", "From a message to its answer.", "channel")
        self._steps = count("steps", "Replies of models within turns.")
        self._tool_calls = count("tool_calls", "Calls of tools.", "tool", "outcome")
        self._tool_time = time("tool", "Duration of tool calls.", "tool")
        self._calls = count("model_requests", "Requests to models.", "provider", "model", "outcome")
        self._model_errors = count(
            "model_errors", "Requests to models that failed.", "provider", "kind"
        )
        self._model_time = time("model_request", "Duration of requests to models.", "provider")
        self._first = time("model_first_word", "Until a model began to answer.", "provider")
        self._tokens = count(
            "tokens", "Tokens; cached and written are parts of prompt.", "model", "purpose", "kind"
        )
        self._cost = count("cost_dollars", "Cost of calls to models.", "model", "purpose")
        self._unpriced = count("unpriced_calls", "Calls of unknown price.", "model")
        self._compactions = count(
            "compactions",
            "Parts removed from the context, or shortened.",
            "strategy",
            "reason",
            "kind",
        )
        self._freed = count("compacted_tokens", "Tokens that left the context.", "strategy")
        self._broken = count("cache_broken_tokens", "Cached tokens that cuts made useless.")
        self._summaries = count("failed_summaries", "Summaries that no model has written.")
        self._replies = count("replies", "Replies that platforms have.", "channel")
        self._channel_errors = count(
            "channel_errors", "Times that a channel could not work.", "channel"
        )
        self._logged = count("log_messages", "Warnings and errors in the log.", "level")
        Gauge(
            "parley_cache_hit_ratio",
            f"The share of the last {LATELY} prompts that providers had cached.",
            registry=registry,
        ).set_function(self._cache_hits)
        self.failures.on_kept = self._count_logged
        self.work: WeakSet[Workload] = WeakSet()

    def read(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def work_begun(self, work: Workload) -> None:
        self.work.add(work)

    def message_taken(self, channel: str, is_command: bool) -> None:
        self._messages.labels(channel, "command" if is_command else "message").inc()

    def turn_ended(self, turn: EndedTurn) -> None:
        super().turn_ended(turn)
        outcome = "stopped" if turn.is_stopped else turn.problem or "answered"
        self._turns.labels(turn.channel, outcome).inc()
        self._turn_time.labels(turn.channel).observe(turn.seconds)
        self._steps.inc(turn.steps)

    def tool_ended(self, name: str, seconds: float, is_error: bool) -> None:
        super().tool_ended(name, seconds, is_error)
        tool = self._tool_names.label(name)
        self._tool_calls.labels(tool, "failed" if is_error else "done").inc()
        self._tool_time.labels(tool).observe(seconds)

    def model_called(self, call: ModelCall) -> None:
        super().model_called(call)
        provider, error = _name_provider(call.provider), call.error
        outcome = "stopped" if call.is_stopped else "failed" if error else "answered"
        self._calls.labels(provider, self._model_names.label(call.model), outcome).inc()
        self._model_time.labels(provider).observe(call.seconds)
        if call.first is not None:
            self._first.labels(provider).observe(call.first)
        if error is not None:
            kind = "account" if isinstance(error, AccountRefused) else problem_of(error)
            self._model_errors.labels(provider, kind).inc()

    def spent(self, spent: Spent) -> None:
        model = self._model_names.label(spent.model)
        for kind in ("prompt", "cached", "written", "completion", "reasoning"):
            if tokens := getattr(spent, kind):
                self._tokens.labels(model, spent.purpose, kind).inc(tokens)
        if spent.cost is None:
            self._unpriced.labels(model).inc()
        else:
            self._cost.labels(model, spent.purpose).inc(spent.cost)
        self._prompts.append((spent.prompt, spent.cached))

    def view_changed(self, event: ViewEvent) -> None:
        if event.name in COMPACTING:
            strategy = event.strategy or "none"
            self._compactions.labels(strategy, event.actor, event.name).inc()
            self._freed.labels(strategy).inc(max(0, event.tokens_before - event.tokens_after))
        if event.broken > 0:
            self._broken.inc(event.broken)

    def summary_failed(self) -> None:
        self._summaries.inc()

    def reply_sent(self, channel: str) -> None:
        self._replies.labels(channel).inc()

    def channel_failed(self, channel: str) -> None:
        self._channel_errors.labels(channel).inc()

    def _count_logged(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        self._logged.labels(level).inc()

    def _cache_hits(self) -> float:
        prompt = sum(prompt for prompt, _ in self._prompts)
        return sum(cached for _, cached in self._prompts) / prompt if prompt else 0.0


class _WorkCollector(Collector):
    """A collector of queue sizes, channel states and free space, measured on request."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterator[GaugeMetricFamily]:
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        works = [*self._metrics.work]
        depth = GaugeMetricFamily(
            "parley_queue_depth", "Work that waits or is under way.", labels=["queue"]
        )
        totals: dict[str, int] = {}
        for work in works:
            for queue, size in work.sizes.items():
                totals[queue] = totals.get(queue, 0) + size
        for queue, size in totals.items():
            depth.add_metric([queue], size)
        yield depth
        reached = GaugeMetricFamily(
            "parley_channel_up", "1 if a channel reaches its platform, else 0.", labels=["channel"]
        )
        for work in works:
            for channel, is_reached in work.reached.items():
                reached.add_metric([channel], is_reached)
        yield reached
        oldest = max((work.oldest for work in works), default=0.0)
        yield GaugeMetricFamily(
            "parley_oldest_message_seconds", "For how long a message waits its turn.", value=oldest
        )
        for work in works[:1]:  # all work on the same data
            with suppress(OSError):
                free = shutil.disk_usage(work.data).free
                yield GaugeMetricFamily(
                    "parley_disk_free_bytes", "Room on the disk of the data folder.", value=free
                )


def _name_provider(provider: str) -> str:
    """Return a provider's name, or the host of its URL, whose other parts may contain a key."""
    if "://" not in provider:
        return provider or "none"
    try:
        return urlsplit(provider).hostname or OTHER
    except ValueError:
        return OTHER
