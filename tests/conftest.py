"""What holds for every test: no paid call, no network but loopback, no skip in CI."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Generator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from bot.event_loop import make_event_loop
from memory.record import engines
from memory.record.database import DatabaseEngine
from memory.record.engines.postgresql import PostgresqlEngine
from tests.servers.mail import mail, mail_servers
from tests.servers.postgresql import postgresql, postgresql_server
from tests.servers.synapse import synapse

# Fixtures for all tests.
__all__ = ["mail", "mail_servers", "postgresql", "postgresql_server", "synapse"]

# Hypothesis tries the same examples in every run, and leaves time limits to slow shared machines.
settings.register_profile("parley", deadline=None, derandomize=True)
settings.load_profile("parley")

for _name in [name for name in os.environ if name.startswith(("OPENAI_", "PARLEY_", "TELEGRAM_"))]:
    del os.environ[_name]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests run on the loop that the bot runs on (`bot/event_loop.py`)."""
    return {"the bot's": make_event_loop}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=("sqlite", "postgresql"),
        default="sqlite",
        help="the database system on which every bot of the tests keeps its record",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is about SQLite's own file is nothing for the others."""
    if config.getoption("--database") != "sqlite":
        config.hook.pytest_deselected(items=[i for i in items if i.get_closest_marker("sqlite")])
        items[:] = [item for item in items if not item.get_closest_marker("sqlite")]


@pytest.fixture(autouse=True)
def database_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which one keeps the record; on PostgreSQL, a database stands for each file."""
    system = str(request.config.getoption("--database"))
    if system == "postgresql":
        server = request.getfixturevalue("postgresql_server")
        made: dict[object, DatabaseEngine] = {}

        def engine_for(place: Path | str) -> DatabaseEngine:
            if place not in made:
                made[place] = PostgresqlEngine(server.make_database())
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


# An audit hook sees every connection, whatever library opens it, and cannot be taken off again.
sys.addaudithook(_refuse_the_network)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_a_skip_in_ci(report)
    # What a test logs may be broken text, which xdist cannot pass on from its workers.
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
    """How long each suite took, added up over all workers."""
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
