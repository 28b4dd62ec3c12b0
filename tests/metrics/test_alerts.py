"""The alert rules name metrics and labels that there are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from agent.models.base import AccountRefused, ModelCall
from bot.recent import EndedTurn
from channels.message import Problem
from memory.context.change import Actor, Change, ViewEvent
from memory.context.forms import SUMMARY, give
from memory.ledger import Spent
from plugins.metrics.metrics import Metrics
from tests.metrics.test_metrics import QUEUES

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
_WORDS = {"sum", "rate", "increase", "changes", "histogram_quantile", "or", "unless", "offset"}
_LABELS = re.compile(r"([a-z_]+)\{([^}]*)\}")
_MATCH = re.compile(r'(\w+)(=~?)"([^"]*)"')


def rules() -> list[dict[str, Any]]:
    whole = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    return [rule for group in whole["groups"] for rule in group["rules"]]


def fill(metrics: Metrics) -> None:
    """Let everything happen once, with all values that a label may have."""
    for problem in get_args(Problem):
        metrics.turn_ended(EndedTurn("web", 1.0, 1, problem))
    for error in (None, AccountRefused("no")):
        metrics.model_called(ModelCall("m", "p", 1.0, 0.5, error))
    metrics.tool_ended("calculate", 1.0, is_error=False)
    metrics.message_taken("web", is_command=False)
    metrics.spent(Spent("answer", "m", 9, 1, 1, 0.1, written=1, reasoning=1))
    metrics.spent(Spent("answer", "m", 9, 1, 1, None))
    for actor in get_args(Actor):
        event = ViewEvent(
            datetime.now(UTC), "view", actor, "", Change(give({1}, SUMMARY)), "trim", broken=1
        )
        metrics.view_changed(event)
    metrics.summary_failed()
    metrics.reply_sent("web")
    metrics.channel_failed("web")
    for level in ("warning", "error"):
        metrics._logged.labels(level).inc()


@dataclass(eq=False)
class Idle:
    """Nothing waits, in queues as `/status` has them."""

    data: Path
    sizes: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(QUEUES, 0))
    oldest: float = 0.0
    reached: Mapping[str, bool] = field(default_factory=lambda: {"telegram": True})


@pytest.fixture
def samples(tmp_path: Path) -> dict[str, list[dict[str, str]]]:
    """The labels of all samples that there may be, by their names."""
    metrics = Metrics("test")
    fill(metrics)
    idle = Idle(tmp_path)
    metrics.work_begun(idle)
    text = metrics.read().decode()
    found: dict[str, list[dict[str, str]]] = {"up": [{}]}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def test_each_alert_asks_for_metrics_that_there_are(
    samples: dict[str, list[dict[str, str]]],
) -> None:
    assert len(rules()) > 10
    for rule in rules():
        bare = re.sub(r'"[^"]*"|by \([^)]*\)|on \([^)]*\)', "", rule["expr"])
        bare = re.sub(r"\{[^}]*\}", "", bare)
        names = set(re.findall(r"[a-z_]{2,}", bare)) - _WORDS - {"and"}
        assert names, rule
        assert names <= samples.keys(), f"{rule['alert']}: {names - samples.keys()}"


def test_each_alert_looks_for_labels_that_there_are(
    samples: dict[str, list[dict[str, str]]],
) -> None:
    seen = 0
    for rule in rules():
        for name, labels in _LABELS.findall(rule["expr"]):
            for label, _how, wanted in _MATCH.findall(labels):
                if label == "job":  # which Prometheus adds
                    continue
                there = {sample.get(label) for sample in samples[name]}
                for value in wanted.split("|"):
                    assert value in there, f"{rule['alert']}: {label} is never {value!r}"
                    seen += 1
    assert seen > 8


def test_each_alert_has_a_sentence_and_a_weight() -> None:
    for rule in rules():
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in ("page", "warn")
    assert len({rule["alert"] for rule in rules()}) == len(rules())


def test_the_example_reads_the_rules_that_are_there() -> None:
    whole = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    assert all((FOLDER / name).exists() for name in whole["rule_files"])
    assert [job["job_name"] for job in whole["scrape_configs"]] == ["parley"]
