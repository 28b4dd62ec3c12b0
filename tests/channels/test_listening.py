"""A listening socket with limits: a client that only holds a connection open blocks no other."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from channels.listening import (
    Acceptor,
    Caps,
    Connection,
    ConnectionRegistry,
    ListeningSocket,
    open_listener,
    origin_of,
    share_of_descriptors,
)
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextmanager
def accepted(register: ConnectionRegistry) -> Iterator[list[Connection]]:
    """Capacity for connections that a test makes by `connection`; all are closed at the end."""
    made: list[Connection] = []
    try:
        yield made
    finally:
        for one in made:
            one.close()


def connection(register: ConnectionRegistry, made: list[Connection], origin: str) -> Connection:
    """Return one end of a pair, as a listener would have accepted it from this address."""
    ours, theirs = socket.socketpair()
    theirs.close()
    one = Connection(ours.family, ours.type, ours.proto, ours.detach())
    one.register, one.origin, one.is_trusted = register, origin, False
    made.append(one)
    return one


@asynccontextmanager
async def echoing(caps: Caps) -> AsyncIterator[ListeningSocket]:
    """A server that sends back each line."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(line)
        finally:
            writer.close()

    listener = open_listener("127.0.0.1", 0, caps)

    def protocol() -> asyncio.Protocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), serve)

    server = Acceptor(listener, protocol)
    try:
        yield listener
    finally:
        server.close()
        listener.close()


async def dialled(listener: ListeningSocket, stack: AsyncExitStack) -> Ends:
    """Open a connection, closed at the end."""
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    stack.callback(writer.close)
    return reader, writer


async def said(ends: Ends) -> bytes:
    """Return the response; b"" if the connection was closed."""
    reader, writer = ends
    writer.write(b"hello\n")
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.readline()
        except ConnectionError:
            return b""


async def test_the_one_that_waited_longest_makes_room_for_the_next() -> None:
    async with AsyncExitStack() as stack, echoing(Caps(3, 100)) as listener:
        silent = [await dialled(listener, stack) for _ in range(30)]
        assert await said(await dialled(listener, stack)) == b"hello\n"
        assert await said(silent[0]) == b""
        assert await said(silent[-1]) == b"hello\n"


async def test_one_that_is_being_answered_is_left_alone_and_who_finds_no_room_is_told() -> None:
    async with AsyncExitStack() as stack, echoing(Caps(2, 100, refusal=b"full\n")) as listener:
        busy = [await dialled(listener, stack) for _ in range(2)]
        assert [await said(one) for one in busy] == [b"hello\n"] * 2
        for one in tuple(listener.register):
            one.is_busy = True
        reader, _ = await dialled(listener, stack)
        assert await reader.readline() == b"full\n"
        assert [await said(one) for one in busy] == [b"hello\n"] * 2
        for one in tuple(listener.register):
            one.is_busy = False
        assert await said(await dialled(listener, stack)) == b"hello\n"


async def test_what_was_closed_counts_no_more() -> None:
    async with AsyncExitStack() as stack, echoing(Caps(3, 100)) as listener:
        for _ in range(20):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            assert await said((reader, writer)) == b"hello\n"
            writer.close()
            await writer.wait_closed()
        assert await said(await dialled(listener, stack)) == b"hello\n"
        assert len(listener.register) <= 3


def test_an_address_has_its_own_cap_and_pays_for_itself() -> None:
    register = ConnectionRegistry(Caps(in_all=100, of_one=3))
    with accepted(register) as made:
        others = [connection(register, made, f"198.51.100.{n}") for n in range(10)]
        greedy = [connection(register, made, "203.0.113.7") for _ in range(10)]
        assert all(register.admit(one) for one in (*others, *greedy))
        assert set(register) == {*others, *greedy[-3:]}
        for one in register:
            one.is_busy = True
        assert not register.admit(connection(register, made, "203.0.113.7"))
        assert register.admit(connection(register, made, "198.51.100.1"))


def test_where_all_are_taken_the_address_that_has_most_gives_one_up() -> None:
    register = ConnectionRegistry(Caps(in_all=8, of_one=5))
    with accepted(register) as made:
        rare = [connection(register, made, f"198.51.100.{n}") for n in range(3)]
        greedy = [connection(register, made, "203.0.113.7") for _ in range(5)]
        assert all(register.admit(one) for one in (*rare, *greedy))
        late = [connection(register, made, f"192.0.2.{n}") for n in range(4)]
        assert all(register.admit(one) for one in late)
        assert set(register) == {*rare, *late, greedy[-1]}


def test_the_next_ones_wait_for_those_that_are_being_closed_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("channels.listening._CLOSING", 3_600.0)
    register = ConnectionRegistry(Caps(in_all=4, of_one=100))
    with accepted(register) as made:
        for _ in range(6):
            assert register.admit(connection(register, made, "203.0.113.7"))
        assert register.is_behind()
        made[0].close()
        assert not register.is_behind()
        assert register.admit(connection(register, made, "203.0.113.7"))
        assert register.is_behind()
        monkeypatch.setattr("channels.listening._CLOSING", 0.0)
        assert not register.is_behind()  # though none of these is closed


def test_this_machine_and_trusted_proxies_may_have_all() -> None:
    caps = Caps(100, 1, trusted=("10.0.0.0/8", "2001:db8::/32"))
    trusted = ("127.0.0.1", "::1", "::ffff:127.0.0.1", "10.1.2.3", "::ffff:10.1.2.3", "2001:db8::5")
    assert all(map(caps.trusts, trusted))
    assert not any(map(caps.trusts, ("11.0.0.1", "2001:db9::5", "", "unix")))


def test_one_person_has_one_address_of_ipv4_and_a_network_of_ipv6() -> None:
    for host, origin in [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9%eth0", "2001:db8:1:2::/64"),
        ("", ""),
        ("_hidden", "_hidden"),
    ]:
        assert origin_of(host) == origin, host


def test_half_of_the_descriptors_are_left_for_all_else() -> None:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 8 <= share_of_descriptors() <= max(8, soft // 2)
    assert share_of_descriptors(0.25) <= share_of_descriptors()


LACKING = """
import asyncio, logging, resource, sys
from channels.listening import Caps, open_listener

logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

async def serve(reader, writer):
    try:
        while line := await reader.readline():
            writer.write(line)
    finally:
        writer.close()

async def main():
    listener = open_listener("127.0.0.1", 0, Caps(10_000, 10_000))
    async with await asyncio.start_server(serve, sock=listener):
        print(listener.getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@pytest.mark.usefixtures("processes")
def test_without_any_descriptor_left_it_neither_spins_nor_floods_the_log() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LACKING],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        place = ("127.0.0.1", int(process.stdout.readline()))
        with ExitStack() as crowd:
            for _ in range(300):
                crowd.enter_context(socket.create_connection(place, PATIENCE))
            cpu = _cpu_of(process)
            end = time.monotonic() + 0.5  # it is idle until then
            wait_until(lambda: time.monotonic() > end)
            assert _cpu_of(process) - cpu < 0.25
        assert _answer(place) == b"hello\n"
        errors = process.communicate(timeout=PATIENCE)[1].decode()
    finally:
        process.kill()
        process.communicate()
    assert errors.count("no file descriptor is left") == 1
    assert len(errors) < 1_000
    assert process.returncode == 0


def _cpu_of(process: subprocess.Popen[bytes]) -> float:
    """Return its seconds of CPU so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _answer(place: tuple[str, int]) -> bytes:
    """Return the response, once another connection is accepted."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with socket.create_connection(place, PATIENCE) as line:
            line.sendall(b"hello\n")
            try:
                if heard := line.recv(100):
                    return heard
            except ConnectionError:
                pass
    return b""
