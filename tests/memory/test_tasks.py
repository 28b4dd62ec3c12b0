"""Work in the background, and what must not be cut in half."""

from __future__ import annotations

import asyncio
import gc
from typing import NoReturn

import pytest

from memory.tasks import run_shielded


async def test_what_must_not_be_cut_in_half_ends_before_who_was_cancelled_goes_on() -> None:
    gate, ended = asyncio.Event(), list[str]()

    async def work() -> None:
        await gate.wait()
        ended.append("work")

    async def ask() -> None:
        try:
            await run_shielded(work())
        finally:
            ended.append("asking")

    asking = asyncio.create_task(ask())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.sleep(0)
    assert not ended
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert ended == ["work", "asking"]


async def test_of_its_failure_nobody_is_told_who_was_cancelled() -> None:
    """Not asyncio either, which would print it where a person reads."""
    faults = list[str]()
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: faults.append(context["message"])
    )

    async def fail(gate: asyncio.Event) -> NoReturn:
        await gate.wait()
        raise OSError("the disk is full")

    for is_at_once in (False, True):  # it fails later, or in the same moment
        gate = asyncio.Event()
        asking = asyncio.create_task(run_shielded(fail(gate)))
        await asyncio.sleep(0)
        if is_at_once:
            gate.set()
            await asyncio.sleep(0)  # it fails now, and who waits has not been told yet
        asking.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await asking
        del asking
        await asyncio.sleep(0)  # the event loop lets go of them, too
    gc.collect()
    assert faults == []
