"""A PostgreSQL server for the tests, on a Unix socket in its own folder; each test has its own
database.

The binaries are those of Debian's package `postgresql`. The server refuses to run as root; in that
case it is started as the user `postgres`. It does not wait for the disk by default.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
import pytest

from memory.record.engines.postgresql import PostgresqlEngine
from tests.waiting import wait_until

_TEMPLATE = "parley_template"
_QUICK = (
    *("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=200"),
    "deadlock_timeout=50ms",
)
_numbers = count(1)
# The kernel kills a server with the thread that started it (--pdeathsig), so no thread of a test
# may start it.
_starter = ThreadPoolExecutor(1)


def find_binaries() -> Path | None:
    """Return the folder of the server's programs; None if they are not installed."""
    if found := shutil.which("postgres"):
        return Path(found).parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return versions[-1].parent if versions else None


@dataclass
class PostgresqlServer:
    """A server that runs until `stop`. `settings` are those of `postgresql.conf`."""

    folder: Path
    binaries: Path
    settings: Sequence[str] = _QUICK
    port: int = 5432
    host: str = ""  # "" for the Unix socket alone
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def url(self, database: str) -> str:
        place = f"{self.host}:{self.port}" if self.host else ""
        socket = "" if self.host else f"?host={self.folder}&port={self.port}"
        return f"postgresql://parley@{place}/{database}{socket}"

    def initialize(self, *options: str) -> None:
        """Create the server's data folder; `options` are initdb's."""
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self._run(
            "initdb", "-D", "data", "-U", "parley", "-A", "trust", "-E", "UTF8", "--locale=C",
            "--no-sync", "--no-instructions", *options,
        )  # fmt: skip

    def start(self) -> None:
        options = [f"-c{setting}" for setting in (*self.settings, f"port={self.port}")]
        log = (self.folder / "log").open("ab")
        self.process = _starter.submit(
            subprocess.Popen,
            [
                *_unprivileged(), str(self.binaries / "postgres"), "-D", "data",
                "-k", str(self.folder), f"-clisten_addresses={self.host}", *options,
            ],
            cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
        ).result()  # fmt: skip
        log.close()
        self.wait()

    def wait(self) -> None:
        """Wait until the server accepts connections."""

        def takes_connections() -> bool:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError:
                if self.process is None or self.process.poll() is not None:
                    raise
                return False
            return True

        wait_until(takes_connections)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT closes all connections and cleans up, SIGQUIT does not clean
        up."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self._postmaster(), how)
            self.process.wait(60)
        self.process = None

    def _postmaster(self) -> int:
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def _run(self, program: str, *arguments: str) -> None:
        command = [*_unprivileged(), str(self.binaries / program), *arguments]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)

    def execute(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def make_database(self, template: str = _TEMPLATE) -> str:
        """Create a database with all tables; return its URL."""
        name = f"t{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def make_engine(self) -> PostgresqlEngine:
        """Create a database as `make_database` does, for a bot that runs in this process."""
        return PostgresqlEngine(self.make_database())

    def make_template(self) -> None:
        """Create the template of all other databases."""
        self.execute(f"CREATE DATABASE {_TEMPLATE}")
        PostgresqlEngine(self.url(_TEMPLATE)).prepare()


def _unprivileged() -> list[str]:
    """Return the prefix of a command line that runs it without root, and ends it with its parent
    process."""
    account = ["--reuid=postgres", "--regid=postgres", "--init-groups"] * (os.geteuid() == 0)
    return ["setpriv", *account, "--pdeathsig=QUIT"]


@contextmanager
def running_server(settings: Sequence[str] = _QUICK) -> Iterator[PostgresqlServer]:
    """Run a separate server, in a folder that its user can access. Skips the test if PostgreSQL is
    not installed."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt install postgresql)")
    with tempfile.TemporaryDirectory(prefix="parley-pg-", ignore_cleanup_errors=True) as folder:
        server = PostgresqlServer(Path(folder), binaries, settings)
        server.initialize()
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)
