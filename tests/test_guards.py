"""Tests of the guards of tests/conftest.py: actions that no test can do, and runs that CI
rejects."""

from __future__ import annotations

import ast
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.tables import each_row
from tests.waiting import PATIENCE

SKIPPED = "import pytest\ndef test_never(): pytest.skip('no wheel')\n"
LEFT_OUT = "import pytest\npytest.importorskip('no_such_module')\ndef test_never(): ...\n"
RUNS = "def test_runs(): ...\n"


def test_a_test_cannot_reach_another_machine() -> None:
    for host in ("example.com", "8.8.8.8", "10.0.0.1", "::ffff:8.8.8.8"):
        with pytest.raises(PermissionError, match="only this machine"):
            socket.create_connection((host, 80), timeout=PATIENCE)


def test_no_key_is_there_to_pay_with() -> None:
    assert not [name for name in os.environ if name.startswith("OPENAI_")]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("ci", "outcome"), [("true", "1 failed, 1 passed, 1 error"), ("", "1 passed, 2 skipped")]
)
def test_a_skip_fails_in_ci_and_only_there(tmp_path: Path, ci: str, outcome: str) -> None:
    for name, source in (("skips", SKIPPED), ("left_out", LEFT_OUT), ("runs", RUNS)):
        (tmp_path / f"test_{name}.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, "--continue-on-collection-errors", "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in ran.stdout
    assert bool(ran.returncode) is bool(ci), ran.stdout
    assert ran.stdout.count("In CI a skipped test is a failed one.") >= (2 if ci else 0)


TESTS = Path(__file__).parent
WAITING = ("waiting.py", "fakes/", "mcp/fakes/")  # these may wait, or simulate slowness
BINDING = ("bind", "start_server", "create_server", "TCPSite", "run_app")
LIMITED = {"wait_for": 1, "timeout": 0, "settimeout": 0}
"""Calls with a time limit, and its position."""
WITH_LIMIT = ("run", "communicate", "check_output", "create_connection", "request", "IMAPClient")
"""Calls that may have a time limit, by the name `timeout`."""
LOOKED_FOR = re.compile(rf"\bsleep\((?!0\))|\b({'|'.join((*BINDING, *LIMITED))})\(|\btimeout=\d")


@cache
def calls() -> list[tuple[str, ast.Call]]:
    """Return every call in the files below tests/ that have one of these, with the path of the
    file."""
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        text, name = path.read_text("utf-8"), path.relative_to(TESTS).as_posix()
        if LOOKED_FOR.search(text):
            nodes = ast.walk(ast.parse(text))
            found += [(name, node) for node in nodes if isinstance(node, ast.Call)]
    return found


def name_of(call: ast.Call) -> str:
    """Return the last name of the called function: `sleep` for `asyncio.sleep(1)`."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def sleeps(call: ast.Call) -> bool:
    """Return whether a call waits for a while; `sleep(0)` only lets other tasks run."""
    return name_of(call) == "sleep" and not all(map(is_zero, call.args[:1]))


def test_no_test_sleeps() -> None:
    """A test waits for a condition (tests/waiting.py): a pause is too short on a busy machine, and
    too long on every other."""
    found = {
        f"{name}:{call.lineno}"
        for name, call in calls()
        if sleeps(call) and not name.startswith(WAITING)
    }
    assert found == set(), "wait with tests.waiting.until, or for an event"


def limits(call: ast.Call) -> Iterator[float]:
    """Yield the seconds, written as a number, after which a call gives up."""
    name, given = name_of(call), call.args[LIMITED.get(name_of(call), 9) :][:1]
    if "mark" in ast.unparse(call.func):  # pytest's own, for a test that hangs
        return
    if name in WITH_LIMIT:
        given = [keyword.value for keyword in call.keywords if keyword.arg == "timeout"]
    for node in given:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value:
            yield node.value


def test_no_test_waits_less_long_than_a_busy_machine_needs() -> None:
    found = {f"{name}:{call.lineno}" for name, call in calls() if any(limits(call))}
    assert found == set(), "wait for tests.waiting.PATIENCE"


def test_no_test_takes_the_last_request_for_that_of_a_turn() -> None:
    """A summary's request may follow it. Tests that talk to a model directly have no such
    requests."""
    found = [
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if re.search(r"(server|endpoint|bot\.model)\.requests\[-1\]", path.read_text("utf-8"))
    ]
    direct = ("agent/", "fakes/", "install/")
    assert not [name for name in found if not name.startswith(direct)], "use `turns`"


def ports(call: ast.Call) -> Iterator[int]:
    """Yield the ports, other than 0, to which a call binds."""
    inner = [part for one in call.args if isinstance(one, ast.Tuple) for part in one.elts]
    named = [keyword.value for keyword in call.keywords if keyword.arg == "port"]
    for node in (*call.args, *inner, *named):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value:
            yield node.value


def test_no_test_listens_at_a_fixed_port() -> None:
    """Another program, or another test beside it, may use the port."""
    found = {f"{name}:{call.lineno}" for name, call in calls() if name_of(call) in BINDING
             and any(ports(call))}  # fmt: skip
    assert found == set()


def test_the_guards_know_what_they_look_for() -> None:
    def call(text: str) -> ast.Call:
        (found,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
        return found

    assert all(map(sleeps, map(call, ("time.sleep(1)", "asyncio.sleep(0.01)", "sleep(x)"))))
    assert not any(map(sleeps, map(call, ("asyncio.sleep(0)", "sleeper(1)", "sleep()"))))
    assert [*ports(call("s.bind(('127.0.0.1', 8080))"))] == [8080]
    assert [*ports(call("start_server(f, 'localhost', port=80)"))] == [80]
    assert not [*ports(call("s.bind(('127.0.0.1', 0))"))]
    assert [*limits(call("wait_for(x, 5)")), *limits(call("run(x, timeout=2.5)"))] == [5, 2.5]
    assert not [*limits(call("wait_for(x, PATIENCE)")), *limits(call("asyncio.timeout(0)"))]


def test_each_row_of_a_table_that_fails_is_named() -> None:
    found: list[str] = []

    class Reports:
        @contextmanager
        def test(self, name: str) -> Iterator[None]:
            with pytest.raises(AssertionError):
                yield
            found.append(name)

    @each_row(("text", "size"), [("a", 1), ("b", 2), ("c", 1), ("dd", 1)])
    def check(text: str, size: int) -> None:
        assert len(text) == size

    check(Reports())
    assert found == ["text='b', size=2", "text='dd', size=1"]
