"""Tests of the reasons why a server cannot run or has failed: the doctor's check, and its standard
error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bot.checks import Finding
from plugins.mcp.feature import check_servers
from plugins.mcp.health import add_stderr_reason, find_reason
from plugins.mcp.settings import parse_servers
from plugins.operations.doctor import Probes, examine
from tests.tables import each_row


async def examined(folder: Path, servers: Mapping[str, Any]) -> dict[str, Finding]:
    """Return the doctor's findings for these servers in the configuration, by name."""
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"mcp": {"servers": dict(servers)}}))
    probes = Probes(config, folder / "data", {}, may_connect=False)
    return {one.name: one for one in await examine(probes)}


@pytest.mark.parametrize(
    ("servers", "found"),
    [
        ({}, None),
        ({"a": {"command": "sh"}}, Finding("MCP servers", "ok", "What 1 of them need is there.")),
        (
            {"a": {"command": "no-such-program"}, "b": {"url": "http://127.0.0.1:9/"}},
            Finding(
                "MCP servers",
                "broken",
                "Programs are missing: a (no-such-program).",
                "Install them, or correct mcp.servers.",
            ),
        ),
    ],
)
async def test_what_servers_need_is_looked_for(
    tmp_path: Path, servers: Mapping[str, Any], found: Finding | None
) -> None:
    assert (await examined(tmp_path, servers)).get("MCP servers") == found


def test_servers_without_the_package_for_them_are_told_of() -> None:
    found = check_servers(parse_servers({"a": {"url": "http://127.0.0.1:9/"}}), has_sdk=False)
    assert found.advice == "Run: python main.py add mcp"


NODE = """file:///srv/crash.mjs:1
throw new Error("API key is missing");
      ^

Error: API key is missing
    at file:///srv/crash.mjs:1:7
    at ModuleJob.run (node:internal/modules/esm/module_job:325:25)

Node.js v20.20.2
"""
MODULE = """node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/nope/index.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2
"""
FIELDS = """node:events:495
      throw er; // Unhandled 'error' event
      ^

Error: listen EADDRINUSE: address already in use 127.0.0.1:3001
    at Server.setupListenHandle [as _listen2] (node:net:1872:16)
    at listenInCluster (node:net:1937:12)
Emitted 'error' event on Server instance at:
    at emitErrorNT (node:net:1916:8) {
  code: 'EADDRINUSE',
  errno: -98,
  syscall: 'listen',
  address: '127.0.0.1',
  port: 3001
}

Node.js v22.1.0
"""
REJECTED = """node:internal/process/promises:389
      new UnhandledPromiseRejection(reason);
      ^

UnhandledPromiseRejection: This error originated either by throwing inside of an async function \
without a catch block, or by rejecting a promise which was not handled with .catch(). The promise \
rejected with the reason "no token".
    at throwUnhandledRejectionsMode (node:internal/process/promises:389:7) {
  code: 'ERR_UNHANDLED_REJECTION'
}

Node.js v20.20.2
"""
FATAL = """Fatal error running server: [eval]:1
process.on("uncaughtException",e=>{console.error("Fatal:", e)}); throw new Error("bad thing")
                                                                       ^

Error: bad thing
    at [eval]:1:110
"""
NPM = """npm error code E404
npm error 404 Not Found - GET https://packages.example/server-nothing-there
npm error 404
npm error 404  The requested resource 'server-nothing-there@*' could not be found or you do not \
have permission to access it.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /home/x/.npm/_logs/2026-debug-0.log
"""
PYTHON = """Traceback (most recent call last):
  File "/srv/server.py", line 3, in <module>
    import notes
ModuleNotFoundError: No module named 'notes'
"""
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/srv/server.py", line 3, in <module>
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/server.py", line 9, in run
    | KeyError: 'GITHUB_TOKEN'
    +------------------------------------
"""
USAGE = """usage: server [-h] --db DB
server: error: the following arguments are required: --db
"""
FOLDERS = """Warning: Cannot access directory /nope, skipping
Error: None of the specified directories are accessible
"""
LAST_USAGE = """Please set the environment variable API_KEY, which is required
Usage: server [options]
"""
GO = """panic: runtime error: invalid memory address or nil pointer dereference

goroutine 1 [running]:
main.main()
\t/srv/main.go:9 +0x18
exit status 2
"""
RUST = """thread 'main' panicked at src/main.rs:4:5:
NOTES_KEY must be set
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
REASONS = {
    NODE: "Error: API key is missing",
    MODULE: "Error: Cannot find module '/nope/index.js'",
    FIELDS: "Error: listen EADDRINUSE: address already in use 127.0.0.1:3001",
    REJECTED: "UnhandledPromiseRejection: This error originated either by throwing inside of an "
    "async function with … ting a promise which was not handled with .catch(). The promise "
    'rejected with the reason "no token".',
    FATAL: "Error: bad thing",
    NPM: "npm error 404 The requested resource 'server-nothing-there@*' could not be found or you "
    "do not have permission to access it.",
    PYTHON: "ModuleNotFoundError: No module named 'notes'",
    GROUP: "KeyError: 'GITHUB_TOKEN'",
    USAGE: "server: error: the following arguments are required: --db",
    FOLDERS: "Error: None of the specified directories are accessible",
    LAST_USAGE: "Please set the environment variable API_KEY, which is required",
    GO: "panic: runtime error: invalid memory address or nil pointer dereference",
    RUST: "NOTES_KEY must be set",
    "\x1b[31mError: no key\x1b[0m\n": "Error: no key",
    "bash: line 1: uvx: command not found\n": "bash: line 1: uvx: command not found",
    "There is no key.\n": "There is no key.",
    "┌────┐\n│ Go │\n└────┘\n": "│ Go │",
    "Node.js v20.20.2\n": "",
    "": "",
}


@each_row(("said", "reason"), REASONS.items())
def test_the_line_that_says_why_is_found(said: str, reason: str) -> None:
    assert find_reason(said.encode()) == reason


@each_row("said", [NODE, MODULE, FIELDS, FATAL, NPM, PYTHON, GROUP, GO, RUST])
def test_it_is_found_behind_what_was_said_before(said: str) -> None:
    before = "Starting on port 3000\nWarning: no cache is set up\n"
    assert find_reason((before + said).encode()) == REASONS[said]


@given(said=st.binary(max_size=500))
def test_whatever_is_said_becomes_one_short_line_or_none(said: bytes) -> None:
    told = add_stderr_reason("it has ended", said)
    assert told.startswith("it has ended")
    assert told.isprintable()
    assert len(told) <= 240
