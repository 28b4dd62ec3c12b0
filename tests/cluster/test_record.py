"""Several processes on one database: one owner at a time, and the others write nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memory.record import bot_state, mailbox
from memory.record.database import Database
from memory.record.engines.sqlite import SqliteFile, in_memory
from memory.record.mailbox import AddressColumns, OutboxRow
from memory.record.store import Store
from plugins.cluster import record
from plugins.cluster.record import NOBODY, FencedError

pytestmark = pytest.mark.databases

PROCESSES = ("one", "two", "three")
NAMES = ("slice.0", "slice.1")


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[dict[str, Store]]:
    """A store for each process, all on one database, each of them fenced."""
    stores = {}
    for process in PROCESSES:
        store = stores[process] = await Store.open(tmp_path / "parley.db")
        await store.write(partial(_join, process=process))
        store.fence(partial(_check, process=process))
    yield stores
    for store in stores.values():
        await store.close()


def _join(database: Database, process: str) -> None:
    record.join(database, process, "worker", "1")


def _check(database: Database, process: str) -> None:
    record.check(database, process)


async def _take(store: Store, name: str, process: str) -> str:
    before = await store.write(lambda db: record.take(db, name, process))
    return before.process


async def _write(store: Store, key: str) -> None:
    await store.write(lambda db: bot_state.save_override(db, "", key, 1))


async def test_who_takes_over_shuts_the_one_before_out(stores: dict[str, Store]) -> None:
    assert await _take(stores["one"], "slice.0", "one") == NOBODY
    await _write(stores["one"], "before")
    assert await _take(stores["two"], "slice.0", "two") == "one"
    with pytest.raises(FencedError, match="taken over"):
        await _write(stores["one"], "after")
    with pytest.raises(FencedError):
        await _take(stores["one"], "slice.0", "one")
    await _write(stores["two"], "mine")
    assert set((await stores["three"].read(bot_state.load_overrides))[""]) == {"before", "mine"}


async def test_who_hands_over_goes_on_with_the_rest(stores: dict[str, Store]) -> None:
    for name in NAMES:
        await _take(stores["one"], name, "one")
    await stores["one"].write(lambda db: record.release_items(db, ["slice.0"], "one"))
    assert await _take(stores["two"], "slice.0", "two") == NOBODY
    await _write(stores["one"], "still")
    owners = {row.name: row.process for row in await stores["one"].read(record.list_owners)}
    assert owners == {"slice.0": "two", "slice.1": "one"}


async def test_who_took_it_takes_it_again_in_the_same_epoch(stores: dict[str, Store]) -> None:
    await _take(stores["one"], "slice.0", "one")
    before = await stores["one"].read(record.list_owners)
    assert await _take(stores["one"], "slice.0", "one") == "one"
    assert await stores["one"].read(record.list_owners) == before
    await stores["one"].write(lambda db: record.leave(db, "one"))
    with pytest.raises(FencedError):
        await _write(stores["one"], "after")
    assert [row.process for row in await stores["two"].read(record.list_owners)] == [NOBODY]


async def test_who_is_shut_out_keeps_no_write_of_a_group(stores: dict[str, Store]) -> None:
    await _take(stores["one"], "slice.0", "one")
    await _take(stores["two"], "slice.0", "two")
    tried = await asyncio.gather(
        *(_write(stores["one"], f"key{number}") for number in range(20)), return_exceptions=True
    )
    assert all(isinstance(error, FencedError) for error in tried)
    await stores["two"].write(lambda db: record.leave(db, "one"))  # not delayed by any owner
    assert await stores["three"].read(bot_state.load_overrides) == {}


async def test_the_next_sender_of_a_reply_learns_who_claimed_it(stores: dict[str, Store]) -> None:
    row = OutboxRow(AddressColumns("pipe", "main", "", ""), "m1", None, "{}")
    outbox = await stores["one"].write(lambda db: mailbox.enqueue_reply(db, row))

    async def claim(process: str) -> str | None:
        return await stores[process].write(lambda db: record.claim(db, outbox, process))

    assert [await claim("one"), await claim("one"), await claim("two")] == [NOBODY, "one", "one"]
    await stores["two"].write(lambda db: mailbox.mark_sent(db, outbox))
    assert await claim("three") is None


async def test_who_is_shut_out_and_owns_nothing_is_forgotten(stores: dict[str, Store]) -> None:
    for name in NAMES:
        await _take(stores["one"], name, "one")
    left = []
    for name in NAMES:
        await _take(stores["two"], name, "two")
        await stores["two"].write(record.forget_fenced)
        left.append({row.id for row in await stores["two"].read(record.list_processes)})
    assert left == [{"one", "two", "three"}, {"two", "three"}]
    with pytest.raises(FencedError):
        await _write(stores["one"], "after")


def strangers(version: str) -> Callable[[Database], list[str]]:
    """Return which processes have another version than this one."""
    return lambda db: [row.id for row in record.list_strangers(db, version)]


async def test_only_the_living_of_another_version_are_strangers(stores: dict[str, Store]) -> None:
    read, write = stores["three"].read, stores["three"].write
    assert await read(strangers("1")) == []
    assert sorted(await read(strangers("2"))) == sorted(PROCESSES)
    await write(lambda db: record.fence(db, ["one"]))
    assert sorted(await read(strangers("2"))) == ["three", "two"]
    with pytest.raises(FencedError):
        await _write(stores["one"], "after")


@pytest.mark.sqlite
async def test_who_runs_on_older_tables_is_a_stranger(stores: dict[str, Store]) -> None:
    store = stores["three"]
    await store.write(lambda db: db.execute_sql("PRAGMA user_version = 1"))
    assert sorted(await store.read(strangers("1"))) == sorted(PROCESSES)


def test_a_database_without_tables_knows_of_nobody() -> None:
    with closing(SqliteFile(":memory:")) as database:
        database.connect()
        assert record.list_strangers(database, "1") == []


class Owners(RuleBasedStateMachine):
    """There is one owner, for any order in which processes join, take over, release, write and
    leave."""

    def __init__(self) -> None:
        super().__init__()
        self.database = in_memory()
        self.may_write: set[str] = set()
        self.owner: dict[str, str] = {}
        self.epochs: dict[str, int] = {}
        self.count = 0

    @rule()
    def join(self) -> None:
        self.count += 1
        _join(self.database, f"p{self.count}")
        self.may_write.add(f"p{self.count}")

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def take(self, data: st.DataObject, name: str) -> None:
        me = self._any(data)
        if self._is_allowed(me):
            before = record.take(self.database, name, me).process
            assert before == self.owner.get(name, NOBODY)
            self.may_write.discard(before if before != me else "")
            self.owner[name] = me

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def release_items(self, data: st.DataObject, name: str) -> None:
        me = self._any(data)
        if self._is_allowed(me):
            record.release_items(self.database, [name], me)
            if self.owner.get(name) == me:
                self.owner[name] = NOBODY

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        me = self._any(data)
        if self._is_allowed(me):
            record.leave(self.database, me)
            self.may_write.discard(me)
            self.owner = {n: NOBODY if o == me else o for n, o in self.owner.items()}

    def _any(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from([f"p{n}" for n in range(self.count + 1)]))

    def _is_allowed(self, me: str) -> bool:
        """Called when a transaction begins."""
        try:
            record.check(self.database, me)
        except FencedError:
            assert me not in self.may_write
            return False
        assert me in self.may_write
        return True

    @invariant()
    def each_has_one_owner_whose_epoch_grows(self) -> None:
        found = {row.name: row for row in record.list_owners(self.database)}
        assert {n: row.process for n, row in found.items()} == self.owner
        assert all(row.epoch >= self.epochs.get(n, 0) for n, row in found.items())
        self.epochs = {n: row.epoch for n, row in found.items()}

    def teardown(self) -> None:
        self.database.close()


TestOwners = Owners.TestCase
TestOwners.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)
