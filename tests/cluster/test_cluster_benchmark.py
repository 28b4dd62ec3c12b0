"""The benchmark of the cluster ends when it is told to, and says what became of each message."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from benchmarks import cluster as benchmark
from benchmarks.cluster import Bench, Chat, Mail, judge
from memory.record import mailbox
from memory.record.engines import engine_for
from memory.record.mailbox import AddressColumns, InboxRow
from memory.record.store import Store
from plugins.cluster import record
from tests.fakes.payments import PayingModel


async def test_a_benchmark_that_is_ended_takes_down_what_it_has_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, left = asyncio.Event(), list[str]()

    async def measure(options: argparse.Namespace) -> bool:
        async with AsyncExitStack() as stack:
            stack.callback(left.append, "the servers")
            begun.set()
            await asyncio.Event().wait()
        return True

    monkeypatch.setattr(benchmark, "measure", measure)
    measuring = asyncio.create_task(benchmark.measure_until_told(argparse.Namespace()))
    await begun.wait()
    for number in (signal.SIGTERM, signal.SIGINT):  # the second from who is impatient
        os.kill(os.getpid(), number)
    try:
        assert not await measuring
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)
    assert "ended before it was through" in capsys.readouterr().out
    assert left == ["the servers"]


async def test_what_is_missing_is_named_with_what_the_record_says_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "parley.db"
    store = await Store.open(engine_for(place))
    row = InboxRow(0, AddressColumns("pipe", "c7", "", ""), '"c7-0"', "c7-0", "", 0.0)
    await store.write(lambda db: mailbox.receive(db, row, "digest"))
    await store.write(lambda db: record.take(db, benchmark.slice_name("c7"), "worker-1"))
    await store.close()
    bench = Bench(tmp_path, place, PayingModel(0), AsyncExitStack(), {})
    mail, chat = Mail(bench), Chat("c7", said=2)
    mail.accepted["c7-0"] = 0.0
    await benchmark._say_what_is_missing(bench, [chat], mail)
    assert judge([chat], mail).lost == 2
    first, second = capsys.readouterr().out.splitlines()
    assert "120 s, confirmed: c7-0: InboxRow(id=1, " in first
    assert "its owner is worker-1" in first
    assert "not confirmed: c7-1: nothing waits of it" in second
