"""Tables of cases in a single test: a row needs no fixtures of its own, and fails by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_LONGEST = 120  # characters of a value in the name of a row


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@contextmanager
def case(subtests: pytest.Subtests, name: str) -> Iterator[None]:
    """Report a failing case of a loop by its name; a passing case costs no report."""
    try:
        yield
    except (Exception, pytest.fail.Exception):
        with subtests.test(name):
            raise


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test once for each row; all failing rows are reported, each with its values.

    It is used like `pytest.mark.parametrize`, for tests without other arguments.
    """

    table = list(rows)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        known = (names,) if isinstance(names, str) else names
        assert set(inspect.signature(test).parameters) == set(known), test

        @functools.wraps(test)
        def run(subtests: pytest.Subtests) -> None:
            for row in table:
                values = dict(zip(known, (row,) if isinstance(names, str) else row, strict=True))
                with case(subtests, ", ".join(f"{n}={_short(v)}" for n, v in values.items())):
                    test(**values)

        run.__signature__ = inspect.signature(run, follow_wrapped=False)  # type: ignore[attr-defined]
        return run

    return decorate
