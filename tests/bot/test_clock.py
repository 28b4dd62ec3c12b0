"""A clock that jumped is trusted after the bot has run with it for a day, and not before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from bot.schedule import DAY, FARTHEST, PROBATION, ClockWatch, judge
from memory.record.bot_state import Clock
from memory.record.store import Store

NOW = 1_790_000_000.0
HOUR = 3600.0


@dataclass
class Machine:
    """A machine whose clock and uptime a test controls."""

    path: Path
    now: float = NOW
    up: float = 0.0
    told: list[str] = field(default_factory=list)
    has_owner: bool = True
    store: Store = field(init=False)
    watch: ClockWatch = field(init=False)

    async def starts(self) -> None:
        self.store = await Store.open(self.path)
        self.watch = ClockWatch(
            self.store, self._tell, lambda: UTC, lambda: self.now, lambda: self.up
        )
        await self.watch.check()

    async def stops(self) -> None:
        await self.watch.check()
        await self.store.close()

    async def is_killed(self) -> None:
        await self.store.close()

    async def runs(self, hours: float) -> bool:
        self.now += hours * HOUR
        self.up += hours * HOUR
        is_believed = await self.watch.check()
        await self.watch.warn()
        return is_believed

    async def _tell(self, sentence: str) -> bool:
        if self.has_owner:
            self.told.append(sentence)
        return self.has_owner


@pytest_asyncio.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path / "parley.db")
    await machine.starts()
    yield machine
    await machine.store.close()


async def test_a_clock_that_goes_on_is_believed(machine: Machine) -> None:
    assert await machine.runs(0), "with a new database"
    for _ in range(5):
        assert await machine.runs(30)
        await machine.stops()
        machine.now += 6 * DAY
        await machine.starts()
    assert machine.told == []


@pytest.mark.parametrize("jump", [-40 * DAY, 8 * DAY, 4e11])
async def test_a_day_of_running_makes_up_for_a_jump_also_in_pieces(
    machine: Machine, jump: float
) -> None:
    await machine.stops()
    machine.now += jump
    await machine.starts()
    for _ in range(11):
        assert not await machine.runs(2)
        await machine.stops()
        machine.now += HOUR
        await machine.starts()
    assert not await machine.runs(1.9)
    assert await machine.runs(0.2)
    assert len(machine.told) == 1


async def test_what_a_kill_takes_back_is_waited_for_again(machine: Machine) -> None:
    machine.now += 40 * DAY
    assert not await machine.runs(0)
    machine.now += 23 * HOUR
    machine.up += 23 * HOUR
    await machine.is_killed()
    await machine.starts()
    assert not await machine.runs(23)
    assert await machine.runs(1)


async def test_a_jump_while_it_runs_is_seen_too(machine: Machine) -> None:
    assert await machine.runs(1)
    machine.now += 40 * DAY
    assert not await machine.runs(1)
    machine.now -= 40 * DAY
    assert await machine.runs(1), "it was set right"
    machine.now += 40 * DAY
    assert not await machine.runs(23.9), "what it ran before counts for nothing"


async def test_a_second_jump_begins_the_wait_anew(machine: Machine) -> None:
    machine.now += 40 * DAY
    assert not await machine.runs(0)
    assert not await machine.runs(23)
    machine.now += 400 * DAY
    assert not await machine.runs(2)
    assert len(machine.told) == 2


async def test_the_owner_hears_when_there_is_one(machine: Machine) -> None:
    machine.has_owner = False
    machine.now += 40 * DAY
    assert not await machine.runs(1)
    assert machine.told == []
    machine.has_owner = True
    assert not await machine.runs(1)
    assert not await machine.runs(1)
    (told,) = machine.told
    assert "Until the bot has run for" in told


async def test_a_database_without_a_record_goes_by_what_happened_last(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "parley.db", now=NOW + 40 * DAY)
    store = await Store.open(machine.path)
    statement = (
        "INSERT INTO conversation (key, audience, created_at, active_at) VALUES ('a', 'a', ?, ?)"
    )
    await store.write(lambda db: db.execute_sql(statement, (NOW, NOW)))
    await store.close()
    await machine.starts()
    assert not await machine.runs(1)
    await machine.stops()


@given(
    st.lists(
        st.tuples(st.floats(-100, 100), st.floats(0, 2), st.booleans()), min_size=1, max_size=60
    )
)
def test_whatever_the_clock_does_a_jump_costs_a_day_of_running(
    steps: list[tuple[float, float, bool]],
) -> None:
    """In each step the clock may jump by days, and then the bot runs for hours."""
    kept, now, ran_so = Clock(NOW, NOW), NOW, 0.0
    for jump, hours, does_jump in steps:
        ran = hours * HOUR
        now += ran + (jump * DAY if does_jump else 0)
        ran_so = ran_so + ran if kept.believed != kept.seen else 0.0
        is_near = abs(now - kept.believed - ran) <= FARTHEST
        kept = judge(kept, now, ran)
        if kept.believed == kept.seen and not is_near:
            assert ran_so >= PROBATION
