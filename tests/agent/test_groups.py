"""Ending a process where the system knows no groups."""

from __future__ import annotations

import errno

import pytest

from agent.tools import groups


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EACCES, errno.ESRCH])
def test_a_process_that_is_gone_needs_no_signal(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Windows says of its number that it is invalid, or that nobody may end it."""
    ended: list[int] = []

    def kill(process: int, signal: int) -> None:
        ended.append(process)
        raise OSError(number, "gone")

    monkeypatch.setattr(groups, "HAS_GROUPS", False)
    monkeypatch.setattr("agent.tools.groups.os.kill", kill)
    groups.end_group(4_000_000)
    assert ended == [4_000_000]
