"""Few processes at a time read what strangers have made."""

from __future__ import annotations

import io
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agent.tools import ToolError
from agent.tools.places import AT_ONCE, take_place
from agent.tools.search import Search
from plugins.documents.feature import DocumentTexts
from plugins.web_tools.pages import find_main_content


def in_another_thread(patience: float = 0.0) -> str:
    """Return what comes of asking for a place."""
    with ThreadPoolExecutor(1) as thread:

        def ask() -> str:
            try:
                with take_place(patience):
                    return "taken"
            except ToolError as error:
                return str(error)

        return thread.submit(ask).result()


def test_who_finds_no_place_is_told_and_a_thread_needs_one_alone() -> None:
    ready, over = threading.Barrier(AT_ONCE + 1), threading.Event()

    def hold() -> None:
        with take_place(), take_place():
            ready.wait()
            over.wait()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for _ in range(AT_ONCE):
            threads.submit(hold)
        ready.wait()
        told = in_another_thread()
        over.set()
    assert "at once" in told
    assert in_another_thread() == "taken"


def test_all_that_read_what_strangers_made_take_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them runs while no more than so many do, however many are asked for."""
    running, most, together = [0], [0], threading.Lock()
    full = threading.Event()

    def run(*_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        with together:
            running[0] += 1
            most[0] = max(most[0], running[0])
            if running[0] == AT_ONCE:
                full.set()
        full.wait()
        with together:
            running[0] -= 1
        return subprocess.CompletedProcess([], 0, b"", b"")

    monkeypatch.setattr(subprocess, "run", run)

    def read(number: int) -> None:
        if number % 2:
            find_main_content("<p>A page.</p>", "http://example.org/")
        else:
            with DocumentTexts().open_text(io.BytesIO(b"%PDF-"), "a.pdf"):
                pass

    with ThreadPoolExecutor(80) as threads:
        list(threads.map(read, range(80)))
    assert most == [AT_ONCE]


def test_a_search_that_is_ended_before_its_turn_finds_nothing() -> None:
    search = Search("a", ignore_case=False)
    search.end()
    with pytest.raises(ToolError, match="stopped"), search:
        raise AssertionError
    assert in_another_thread() == "taken"
