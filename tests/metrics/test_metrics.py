"""Tests of `/metrics`: the content for Prometheus, and the permitted readers."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import aiohttp
import pytest
import yaml
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from agent.models.base import AccountRefused, ModelCall
from bot.ports import RecentWork
from bot.recent import EndedTurn
from channels.base import ChannelHealth
from channels.message import Problem
from memory.context.change import Actor, Change, ViewEvent
from memory.context.forms import SUMMARY, assign_form
from memory.ledger import Spent
from plugins.metrics.metrics import MOST_NAMES, OTHER, Metrics
from tests.fakes.openai_server import Answer, Call, Fail, OpenAIServer, Received, Say
from tests.whole.process import BotProcess, run_here, talking
from tests.whole.testbot import TestChannel, run_bot

TOKEN = "a-token-for-prometheus-alone"
PAGE_TOKEN = "the-token-of-the-page-itself"
QUEUES = ("turns", "replies", "commands", "summaries")
Labels = frozenset[tuple[str, str]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def parse(text: str) -> dict[tuple[str, Labels], float]:
    """Return each sample by its name and labels. Raises ValueError for an invalid Prometheus
    text."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def named(name: str, **labels: str) -> tuple[str, Labels]:
    return name, frozenset(labels.items())


async def scrape(port: int, token: str = "", **headers: str) -> tuple[int, str]:
    if token:
        headers["Authorization"] = f"Bearer {token}"
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{port}/metrics", headers=headers) as response,
    ):
        return response.status, await response.text()


@asynccontextmanager
async def watched(
    folder: Path,
    server: OpenAIServer,
    settings: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[BotProcess, int]]:
    """Run a bot in a separate process; yield it and the port of its metrics."""
    port = free_port()
    own = {"metrics": {"enabled": True, "port": port}, **(settings or {})}
    async with talking(folder, server, own, environ=environ) as bot:
        await bot.says("/version")  # wait for its start
        yield bot, port


@pytest.mark.usefixtures("processes")
async def test_messages_turns_tools_and_tokens_are_counted(tmp_path: Path) -> None:
    sum_up = Call("calculate", '{"expression": "1+1"}', "call_1")
    script: list[Answer] = [Say(calls=(sum_up,)), Say("Two."), Fail(401, {"message": "no"})]
    async with OpenAIServer(script) as server, watched(tmp_path, server) as (bot, port):
        await bot.says("One and one?")
        await bot.says("And now?")
        await bot.says("/context")
        status, text = await scrape(port)
        assert status == 200
        found = parse(text)
    host = {"provider": "127.0.0.1"}
    assert found[named("parley_messages_total", channel="pipe", kind="message")] == 2
    assert (
        found[named("parley_messages_total", channel="pipe", kind="command")] == 2
    )  # and the first
    assert found[named("parley_turns_total", channel="pipe", outcome="answered")] == 1
    assert found[named("parley_turns_total", channel="pipe", outcome="upstream")] == 1
    assert found[named("parley_steps_total")] == 2 + 1  # the last one tells why there is no answer
    assert found[named("parley_tool_calls_total", tool="calculate", outcome="done")] == 1
    asked = {**host, "model": "gpt-4o-mini"}
    assert found[named("parley_model_requests_total", **asked, outcome="answered")] == 2
    assert found[named("parley_model_errors_total", **host, kind="account")] == 1
    assert found[named("parley_model_first_word_seconds_count", **host)] == 2
    assert found[named("parley_turn_seconds_count", channel="pipe")] == 2
    paid = {"model": "gpt-4o-mini", "purpose": "answer"}
    assert found[named("parley_tokens_total", **paid, kind="prompt")] > 0
    assert found[named("parley_tokens_total", **paid, kind="completion")] > 0
    assert found[named("parley_cost_dollars_total", **paid)] > 0
    assert found[named("parley_replies_total", channel="pipe")] >= 2
    assert all(named("parley_queue_depth", queue=queue) in found for queue in QUEUES)
    assert found[named("parley_log_messages_total", level="warning")] >= 1
    assert found[named("process_resident_memory_bytes")] > 1e7
    assert found[named("parley_disk_free_bytes")] > 0


@pytest.mark.usefixtures("processes")
async def test_a_turn_under_way_stands_in_the_queue(tmp_path: Path) -> None:
    gate = asyncio.Event()
    script = [Say("Done.", gate=gate), Say("Next.")]
    async with OpenAIServer(script) as server, watched(tmp_path, server) as (bot, port):
        await bot.tell("Begin", id="a")
        await bot.tell("Then", id="b")
        await bot.line(lambda line: line.get("accepted") == "b")
        await bot.says("/status")  # by then the second is queued
        found = parse((await scrape(port))[1])
        assert found[named("parley_queue_depth", queue="turns")] == 2
        assert found[named("parley_oldest_message_seconds")] > 0
        gate.set()
        await bot.reply_to("b")


def no_summaries(request: Received) -> Answer:
    """Answer requests with tools, and write no summaries."""
    return Say("Yes.") if request.body.get("tools") else Fail(400, {"message": "no"})


@pytest.mark.usefixtures("processes")
async def test_cuts_are_counted_by_strategy_and_by_who_wanted_them(tmp_path: Path) -> None:
    settings = {"agent_max_context_turns": 1}
    async with (
        OpenAIServer(no_summaries) as server,
        watched(tmp_path, server, settings) as (bot, port),
    ):
        await bot.says("First")
        await bot.says("Second")
        await bot.says("/context compact")
        found = parse((await scrape(port))[1])
    cuts = {labels: value for (name, labels), value in found.items() if "compactions" in name}
    assert sum(cuts.values()) >= 1, found
    assert any({("strategy", "trim"), ("reason", "strategy")} <= labels for labels in cuts)
    assert found[named("parley_failed_summaries_total")] >= 1


@pytest.mark.usefixtures("processes")
async def test_without_a_token_this_machine_alone_reads_them(tmp_path: Path) -> None:
    async with OpenAIServer([]) as server, watched(tmp_path, server) as (_, port):
        assert (await scrape(port))[0] == 200
        assert (await scrape(port, **{"X-Forwarded-For": "10.0.0.9"}))[0] == 403
        assert (await scrape(port, **{"Host": "evil.example"}))[0] == 403
        assert (await scrape(port, **{"Origin": "https://evil.example"}))[0] == 403


@pytest.mark.usefixtures("processes")
async def test_with_a_token_nobody_reads_them_without_one_and_who_guesses_is_locked_out(
    tmp_path: Path,
) -> None:
    given = {"PARLEY_METRICS_TOKEN": TOKEN, "PARLEY_WEB_TOKEN": PAGE_TOKEN}
    async with OpenAIServer([]) as server, watched(tmp_path, server, environ=given) as (_, port):
        assert (await scrape(port))[0] == 401
        for token in (TOKEN, PAGE_TOKEN):
            status, text = await scrape(port, token)
            assert status == 200
            assert TOKEN not in text
            assert PAGE_TOKEN not in text
        statuses = [(await scrape(port, f"guess-{number}"))[0] for number in range(12)]
        assert statuses[0] == 401
        assert statuses[-1] == 429


@pytest.mark.usefixtures("processes")
async def test_they_stand_beside_the_page(tmp_path: Path) -> None:
    port = free_port()
    settings = {"metrics": {"enabled": True}, "web": {"port": port}}
    environ = {"PARLEY_WEB_TOKEN": PAGE_TOKEN, "PARLEY_METRICS_TOKEN": TOKEN}
    async with OpenAIServer([]) as server:
        folder, arguments = tmp_path, ("--jsonl",)
        whole = {**settings, "channels": {"web": True}}
        async with talking(folder, server, whole, arguments=arguments, environ=environ) as bot:
            await bot.says("/status")
            assert (await scrape(port, TOKEN))[0] == 200
            assert (await scrape(port))[0] == 401
            async with (
                aiohttp.ClientSession() as http,
                http.get(
                    f"http://127.0.0.1:{port}/api/sessions",
                    headers={"Authorization": f"Bearer {TOKEN}"},
                ) as response,
            ):
                assert response.status == 401, "the metrics' token opens nothing else"


@pytest.mark.usefixtures("processes")
async def test_where_it_is_off_nothing_answers(tmp_path: Path) -> None:
    port = free_port()
    settings = {"web": {"port": port}, "channels": {"web": True}}
    async with OpenAIServer([]) as server, talking(tmp_path, server, settings) as bot:
        await bot.says("/status")
        assert (await scrape(port))[0] == 404


@pytest.mark.usefixtures("processes")
def test_a_start_without_metrics_does_not_import_the_client(tmp_path: Path) -> None:
    code = "import sys, main, bot.assembly; print('prometheus_client' in sys.modules)"
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True
    )
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("settings", "environ", "why"),
    [
        ({"port": 1, "host": "0.0.0.0"}, {}, "which others can reach, but no token is set"),
        ({}, {"PARLEY_METRICS_TOKEN": "short"}, "PARLEY_METRICS_TOKEN could be guessed"),
    ],
)
def test_metrics_that_others_could_read_keep_the_bot_from_starting(
    tmp_path: Path, settings: dict[str, Any], environ: dict[str, str], why: str
) -> None:
    whole = {"model": "gpt-4o-mini", "metrics": {"enabled": True, **settings}}
    (tmp_path / "config.json").write_text(json.dumps(whole))
    (tmp_path / ".env").write_text("".join(f"{k}={v}\n" for k, v in environ.items()))
    done = run_here(tmp_path, "--jsonl")
    assert done.returncode == 1
    assert why in done.stderr


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        metrics = {"enabled": True, "port": taken.getsockname()[1]}
        whole = {"model": "gpt-4o-mini", "metrics": metrics}
        (tmp_path / "config.json").write_text(json.dumps(whole))
        done = run_here(tmp_path, "--jsonl")
    assert done.returncode == 1
    assert "change metrics.host or metrics.port" in done.stderr


def test_names_that_strangers_chose_do_not_fill_the_memory() -> None:
    metrics = Metrics("test")
    for number in range(10 * MOST_NAMES):
        metrics.spent(Spent("answer", f"model-{number}", 1, 0, 1, None))
        metrics.tool_ended(f"tool-{number}", 0.1, is_error=False)
    found = parse(metrics.read().decode())
    tools = [labels for name, labels in found if name == "parley_tool_calls_total"]
    assert len(tools) == MOST_NAMES + 1
    models = {dict(labels)["model"] for name, labels in found if name == "parley_tokens_total"}
    assert len(models) == MOST_NAMES + 1
    assert OTHER in models


def test_labels_with_anything_in_them_are_still_prometheus_text() -> None:
    metrics = Metrics("test")
    for name in ('"', "\n", "\\", "{}", "é\u202e", "\x00", "a" * 10_000):
        metrics.tool_ended(name, 0.1, is_error=True)
        metrics.turn_ended(EndedTurn(name, 0.1, 1, "failed"))
    assert parse(metrics.read().decode())


class Messenger(TestChannel):
    """A channel that reports its health."""

    health = ChannelHealth("up", datetime(2026, 1, 1, tzinfo=UTC))


async def test_channels_that_know_it_tell_whether_they_reach_their_platforms(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path) as bot:
        app, metrics, messenger = bot.app, Metrics("test"), Messenger("messenger")
        channels = {"pipe": bot, "messenger": messenger}
        queues = {"turns": app.turns.queues}
        data = app.config.data
        work = RecentWork(metrics, app.turns, queues, app.conversations, data, channels)
        metrics.work_begun(work)
        up = named("parley_channel_up", channel="messenger")
        assert parse(metrics.read().decode())[up] == 1
        messenger.health = replace(messenger.health, state="troubled")
        found = parse(metrics.read().decode())
        assert found[up] == 0
        assert named("parley_channel_up", channel="pipe") not in found
        messenger.health = replace(messenger.health, state="starting")
        assert up not in parse(metrics.read().decode())


FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
_WORDS = {"sum", "rate", "increase", "changes", "histogram_quantile", "or", "unless", "offset"}
_LABELS = re.compile(r"([a-z_]+)\{([^}]*)\}")
_MATCH = re.compile(r'(\w+)(=~?)"([^"]*)"')


def rules() -> list[dict[str, Any]]:
    whole = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    return [rule for group in whole["groups"] for rule in group["rules"]]


def fill(metrics: Metrics) -> None:
    """Record every event once, with all values that a label can have."""
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
            datetime.now(UTC),
            "view",
            actor,
            "",
            Change(assign_form({1}, SUMMARY)),
            "trim",
            broken=1,
        )
        metrics.view_changed(event)
    metrics.summary_failed()
    metrics.reply_sent("web")
    metrics.channel_failed("web")
    for level in ("warning", "error"):
        metrics._logged.labels(level).inc()


@dataclass(eq=False)
class Idle:
    """Idle queues, with the attributes that `/status` reads."""

    data: Path
    sizes: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(QUEUES, 0))
    oldest: float = 0.0
    reached: Mapping[str, bool] = field(default_factory=lambda: {"telegram": True})


@pytest.fixture
def samples(tmp_path: Path) -> dict[str, list[dict[str, str]]]:
    """Return the labels of all possible samples, by their names."""
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
                if label == "job":  # Prometheus adds it
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
