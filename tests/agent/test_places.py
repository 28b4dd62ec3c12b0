"""Only a few processes at a time read foreign content."""

from __future__ import annotations

import io
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent.tools import ToolError
from agent.tools.child_process import AT_ONCE, acquire_slot, run_limited
from agent.tools.text_lines import Search
from plugins.documents.feature import DocumentTexts
from plugins.web_tools.pages import find_main_content
from tests.waiting import PATIENCE


def in_another_thread(patience: float = 0.0) -> str:
    """Return the result of requesting a slot."""
    with ThreadPoolExecutor(1) as thread:

        def ask() -> str:
            try:
                with acquire_slot(patience):
                    return "taken"
            except ToolError as error:
                return str(error)

        return thread.submit(ask).result()


def test_who_finds_no_place_is_told_and_a_thread_needs_one_alone() -> None:
    ready, over = threading.Barrier(AT_ONCE + 1), threading.Event()

    def hold() -> None:
        with acquire_slot(), acquire_slot():
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


def _search(hold: Callable[[], object]) -> None:
    with Search("a", ignore_case=False):
        hold()


def _read_document(_hold: Callable[[], object]) -> None:
    with DocumentTexts().open_text(io.BytesIO(b"%PDF-"), "a.pdf"):
        pass


READERS: dict[str, Callable[[Callable[[], object]], object]] = {
    "a page": lambda _hold: find_main_content("<p>A page.</p>", "http://example.org/"),
    "a document": _read_document,
    "a mail": lambda _hold: run_limited(Path("reader.py"), b"From: ann@example.org"),
    "a search": _search,
}
"""The readers; those with their own process hold their slot while it runs."""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("reader", READERS)
def test_all_that_read_what_strangers_made_take_a_place(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, over = threading.Barrier(AT_ONCE + 1), threading.Event()

    def hold(*_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        ready.wait(PATIENCE)
        over.wait()
        return subprocess.CompletedProcess([], 0, b"", b"")

    monkeypatch.setattr(subprocess, "run", hold)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for _ in range(AT_ONCE):
            threads.submit(READERS[reader], hold)
        try:
            ready.wait(PATIENCE)
            told = in_another_thread()
        finally:
            over.set()
    assert "at once" in told
    assert in_another_thread() == "taken"


def test_a_search_that_is_ended_before_its_turn_finds_nothing() -> None:
    search = Search("a", ignore_case=False)
    search.end()
    with pytest.raises(ToolError, match="stopped"), search:
        raise AssertionError
    assert in_another_thread() == "taken"
