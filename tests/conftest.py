"""Rules for every test: no paid call, no network but loopback, no skip in CI; and the two tiers.

A test that uses the fixture `processes`, itself or through another fixture, is of the full tier: it
may start processes, servers and browsers. All others are of the fast tier, and fail if they start
a process (docs/testing.md).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import platform
import random
import resource
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

import certifi
import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from agent.models import anthropic_client, fallback, openai_client
from bot.logs import LAYERS
from bot.process import make_event_loop
from memory.record import engines
from memory.record.database import DatabaseEngine
from memory.record.engines import sqlite
from tests.agent import claude_rules, request_rules
from tests.servers.fixtures import (
    broker,
    broker_server,
    mail,
    mail_servers,
    own_broker,
    postgresql,
    postgresql_server,
    synapse,
)

__all__ = ["broker", "broker_server", "mail", "mail_servers", "own_broker", "postgresql"]
__all__ += ["postgresql_server", "synapse"]

# Hypothesis tries the same examples in every run, without deadlines, since shared machines are
# slow. It would also try constants of the modules loaded so far, which depend on the order of the
# tests.
vars(providers)["_get_local_constants"] = Constants
settings.register_profile("parley", deadline=None, derandomize=True)
settings.load_profile("parley")

for _name in [name for name in os.environ if name.startswith(("OPENAI_", "PARLEY_", "TELEGRAM_"))]:
    del os.environ[_name]


# A request that breaks a rule of its protocol is an error.
for _what, _rules in (
    *(("calls", request_rules.CALLS), ("chat", request_rules.CHAT)),
    *(("responses", request_rules.RULES), ("anthropic", claude_rules.RULES)),
):
    request_rules.demand(_what, _rules)

# Python calls the program `uname` for this once, and caches the result; the SDKs send it.
platform.processor()


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run tests on the event loop that the bot uses (`bot/process.py`)."""
    return {"the bot's": make_event_loop}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=("sqlite", "postgresql"),
        default="sqlite",
        help="the database system on which every bot of the tests keeps its record",
    )
    parser.addoption(
        "--tier",
        choices=("fast", "full", "all"),
        default="all",
        help="fast: tests in this process; full: those that start processes, servers or browsers",
    )
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="run the tests in the random order of this seed"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Reduce the trusted authorities to one in the fast tier: its tests meet no certificate, and
    each client of an SDK would read all of them again."""
    if config.getoption("--tier") == "fast":
        folder, end = TemporaryDirectory(), "-----END CERTIFICATE-----\n"
        config.add_cleanup(folder.cleanup)
        one = Path(folder.name) / "authority.pem"
        one.write_text(Path(certifi.where()).read_text("utf-8").partition(end)[0] + end)
        os.environ["SSL_CERT_FILE"] = str(one)


def pytest_collection() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """Limit garbage collection to the objects that the tests make, without the imported ones, and
    run it less often than after each 700 objects."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the collection of folders with tests of the full tier only, in the fast tier."""
    is_skipped = config.getoption("--tier") == "fast" and collection_path in _FULL_FOLDERS
    return True if is_skipped else None


_FULL_FOLDERS = {Path(__file__).parent / "deploy"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of the tier and of the database system; shuffle them on request."""
    tier, system = config.getoption("--tier"), config.getoption("--database")
    selected = [item for item in items if tier in ("all", _tier(item))]
    if system != "sqlite":
        selected = [item for item in selected if item.get_closest_marker("databases")]
        selected = [item for item in selected if not item.get_closest_marker("sqlite")]
    config.hook.pytest_deselected(items=[*set(items).difference(selected)])
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(selected)
    items[:] = selected


def _tier(item: pytest.Item) -> str:
    return "full" if "processes" in getattr(item, "fixturenames", ()) else "fast"


@pytest.fixture(scope="session")
def processes() -> None:
    """Permission to start real processes; puts each test that uses it into the full tier."""


@pytest.fixture(autouse=True)
def no_processes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test of the fast tier that starts a process. Beside tests of the full tier, their
    servers and browsers start and end processes at any time."""
    if request.config.getoption("--tier") != "fast":
        yield
        return
    before = _children()
    yield
    assert _children() == before, "it starts a process: mark it usefixtures('processes')"


def _children() -> tuple[int, int]:
    """Return the page faults of the ended children, and the number of running ones: together they
    change whenever a process is started or ends, by any means."""
    running = 0
    if _has_children():
        for thread in Path("/proc/self/task").glob("*/children"):
            with suppress(OSError):  # the thread has ended
                running += len(thread.read_text().split())
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt, running


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


@pytest.fixture(autouse=True)
def same_umask() -> Iterator[None]:
    """Restore the umask after each test: commands of `main.py` change it for their process, which
    in a test runs all later tests, too."""
    before = os.umask(0o077)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def same_levels() -> Iterator[None]:
    """Restore the levels of the bot's loggers, which the settings of a bot in a test change."""
    loggers = [logging.getLogger(layer) for layer in LAYERS]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        if logger.level != level:
            logger.setLevel(level)


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the SDKs and the fallback models retry at once."""
    for client in (openai_client, anthropic_client):
        sdk = sys.modules[f"{client.APIError.__module__.partition('.')[0]}._base_client"]
        monkeypatch.setattr(sdk, "INITIAL_RETRY_DELAY", 0.001)
        monkeypatch.setattr(sdk, "MAX_RETRY_DELAY", 0.001)
    monkeypatch.setattr(fallback, "RETRY_DELAY", 0.0)


@pytest.fixture
def durable() -> None:
    """Make databases and files wait for the disk, as they do outside of tests."""


@pytest.fixture(autouse=True)
def no_syncs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable waits for the disk, which protect only against power cuts. Copy new databases from
    another: creating the tables takes as long as the rest of a bot's start."""
    if not {"durable", "processes"}.intersection(request.fixturenames):
        monkeypatch.setattr(os, "fsync", _leave_unsynced)
        monkeypatch.setattr(sqlite, "SYNCED", "off")
        monkeypatch.setattr(sqlite, "UNSYNCED", "off")
        monkeypatch.setattr(sqlite.SqliteEngine, "prepare", _prepare_copied)


def _leave_unsynced(descriptor: int) -> None:
    os.fstat(descriptor)  # raises for what is no open file


_prepare = sqlite.SqliteEngine.prepare


def _prepare_copied(engine: sqlite.SqliteEngine, is_transfer: bool = False) -> None:
    with suppress(OSError):  # the engine gives a better error
        if not engine.path.exists():
            engine.path.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=engine.path.parent) as copied:
                copied.write(_empty_database())
                copied.flush()
                os.link(copied.name, engine.path)  # unless another one exists by now
    _prepare(engine, is_transfer)


@cache
def _empty_database() -> bytes:
    with TemporaryDirectory() as folder:
        _prepare(sqlite.SqliteEngine(Path(folder) / "empty.db"))
        return (Path(folder) / "empty.db").read_bytes()


@pytest.fixture(autouse=True)
def database_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of the system that stores the record. On PostgreSQL, each file is replaced by
    a separate database."""
    system = str(request.config.getoption("--database"))
    if system == "postgresql":
        server = request.getfixturevalue("postgresql_server")
        made: dict[object, DatabaseEngine] = {}

        def engine_for(place: Path | str) -> DatabaseEngine:
            if place not in made:
                made[place] = server.make_engine()
            return made[place]

        monkeypatch.setattr(engines, "engine_for", engine_for)
    return system


def _is_local(host: Any) -> bool:
    if host in (None, "", b"", "localhost", b"localhost"):
        return True
    try:
        return ip_address(host.decode() if isinstance(host, bytes) else host).is_loopback
    except ValueError:
        return False


def _refuse_the_network(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):  # a str is a Unix socket
        host = arguments[1][0]
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if not _is_local(host):
        raise PermissionError(f"a test may not reach {host!r}: only this machine")


# An audit hook sees every connection, of any library, and cannot be removed again.
sys.addaudithook(_refuse_the_network)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_a_skip_in_ci(report)
    # The logs of a test may be invalid text, which xdist cannot pass on from its workers.
    report.sections = [
        (title, text.encode("utf-8", "backslashreplace").decode())
        for title, text in report.sections
    ]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_a_skip_in_ci(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the duration of each suite, summed over all workers."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                suite = "/".join(report.nodeid.partition("::")[0].split("/")[:2])
                seconds[suite] += report.duration
    slowest = sorted(seconds.items(), key=lambda pair: -pair[1])
    rows = (f"{suite:24}{spent:8.1f} s" for suite, spent in slowest if spent >= 1)
    terminalreporter.write_line("\n".join(rows))


def _fail_a_skip_in_ci(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"In CI a skipped test is a failed one. {report.longrepr}"
