"""The search of lines for a pattern of the model, in a process that may fail
([why](../../docs/decisions/0011-foreign-patterns-in-a-process-of-their-own.md))."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agent.tools import ToolError
from agent.tools.apart import ALONE, ReaderProcess, take_place
from agent.tools.workspace import quote

SECONDS = 5
"""The maximum seconds of a search, with all its reading."""
MEGABYTES = 400
"""The maximum megabytes of memory of its process."""
_SEARCHER = ReaderProcess(Path(__file__).with_name("searcher.py"), MEGABYTES, SECONDS)


class Search:
    """A search for one pattern. Its process starts when its thread enters it, once there is a
    place, and `begun` is called then. `end` kills the process from any thread; everything else is
    for that one thread, which must exit it."""

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        self._pattern, self._ignores_case = pattern, ignore_case
        self.is_ended = False
        self.begun: Callable[[], object] = lambda: None
        self._around = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start a process for the search. Raises ToolError for an invalid or too expensive
        pattern."""
        try:
            self._around.enter_context(take_place())
            self._begin()
            wanted = {"pattern": self._pattern, "ignore_case": self._ignores_case}
            if fault := self._request(json.dumps(wanted).encode()).get("fault"):
                name = quote(self._pattern)
                raise ToolError(f"{name} is not a regular expression: {fault}.")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        with self._around:
            if self._process is None:
                return
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                try:
                    stream.close()
                except OSError:  # unsent data for an ended process
                    stream.close()
            self._process.wait()

    def _begin(self) -> None:
        if self.is_ended:  # while it waited for a place
            raise ToolError(_stop_message(self._pattern))
        spec = find_spec("regex")
        assert spec is not None
        assert spec.origin is not None
        packages = str(Path(spec.origin).parents[1])
        self._process = subprocess.Popen(
            _SEARCHER.command(packages, flags=("-S",)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            **ALONE,
        )
        self.begun()

    def end(self) -> None:
        """Kill the process: the waiting caller is notified at once."""
        self.is_ended = True
        if self._process is not None:
            self._process.kill()

    def hits(self, lines: Sequence[str]) -> list[tuple[int, int]]:
        """Return the numbers of matching lines, with the position of the first match in each.
        Raises ToolError."""
        found = self._request("\n".join(lines).encode())
        return [(number, place) for number, place in found["hits"]]

    def _request(self, content: bytes) -> dict[str, Any]:
        assert self._process is not None
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        try:
            into.write(len(content).to_bytes(4, "big") + content)
            into.flush()
            size = int.from_bytes(_exactly(out.read(4), 4), "big")
            answer: dict[str, Any] = json.loads(_exactly(out.read(size), size))
        except (BrokenPipeError, EOFError):
            raise ToolError(_stop_message(self._pattern)) from None
        if "is_too_large" in answer:
            raise ToolError(_stop_message(self._pattern))
        return answer


def _exactly(content: bytes, size: int) -> bytes:
    if len(content) < size:
        raise EOFError
    return content


def _stop_message(pattern: str) -> str:
    return (
        f"The search was stopped: {quote(pattern)} takes more than {MEGABYTES} MB of memory or "
        f"{SECONDS} seconds. Simplify the pattern."
    )
