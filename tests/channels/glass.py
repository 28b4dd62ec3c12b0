"""The screen of a terminal, as a person sees it: it executes the sequences written to it."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable

from rich.cells import cell_len

from tests.waiting import PATIENCE

_SIGNS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b_[^\x1b]*\x1b\\|\x1b\][^\x07\x1b]*\x07|.", re.DOTALL
)
_CUT = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|_[^\x1b]*\x1b?|\][^\x07\x1b]*)?$")
"""An incomplete sequence."""


class Glass(io.StringIO):
    """A terminal with everything that a person sees, including the scrollback.

    Like tmux it keeps lines erased from the very top of the screen.
    """

    height = 24

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.columns = columns
        self.raw = self._begun = ""
        self._rows: list[dict[int, str]] = [{}]
        self._x = self._y = self._top = 0
        self._wrapped = set[int]()  # rows that continue the one above
        self._is_changed = asyncio.Event()

    @property
    def text(self) -> str:
        rows = (
            "".join(row.get(x, " ") for x in range(max(row, default=-1) + 1)) for row in self._rows
        )
        return "\n".join(row.rstrip() for row in rows)

    @property
    def copied(self) -> str:
        """Return all text as it is copied: a wrapped line is one line."""
        rows = (
            ("" if y in self._wrapped else "\n")
            + "".join(row.get(x, " ") for x in range(max(row, default=-1) + 1))
            for y, row in enumerate(self._rows)
        )
        return "".join(rows).removeprefix("\n")

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in self.text)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._is_changed.clear()
                await self._is_changed.wait()

    def write(self, data: str) -> int:
        self.raw += data
        data = self._begun + data
        cut = _CUT.search(data)
        self._begun = cut[0] if cut else ""
        for sign in _SIGNS.findall(data.removesuffix(self._begun)):
            self._take(sign)
        self._is_changed.set()
        return len(data)

    def _take(self, sign: str) -> None:
        number = int(re.sub(r"\D", "", sign) or 1) if len(sign) > 1 else 1
        match sign[-1] if len(sign) > 1 else sign:
            case "\r":
                self._x = 0
            case "\n":
                self._move(self._y + 1)
            case "\x08":
                self._x -= 1
            case "A" if len(sign) > 1:
                self._move(max(self._top, self._y - number))
            case "B" if len(sign) > 1:
                self._move(self._y + number)
            case "C" if len(sign) > 1:
                self._x += number
            case "D" if len(sign) > 1:
                self._x = max(0, self._x - number)
            case "J" | "K" if len(sign) > 1:
                self._erase(is_down=sign[-1] == "J")
            case _ if len(sign) == 1:
                (self._put_tab if sign == "\t" else self._put)(sign)

    def _put(self, sign: str) -> None:
        width = cell_len(sign)
        if self._x + width > self.columns:
            self._move(self._y + 1)
            self._wrapped.add(self._y)
            self._x = 0
        row = self._rows[self._y]
        if not width and self._x:  # it combines with the letter before
            at = max(x for x in row if x < self._x and row[x])
            row[at] += sign
            return
        row[self._x] = sign
        if width == 2:
            row[self._x + 1] = ""
        self._x += width

    def _put_tab(self, sign: str) -> None:
        """Handle a tab like terminals that allow copying it: the cells up to the next stop belong
        to it."""
        stop = min(self.columns - 1, self._x // 8 * 8 + 8)
        self._rows[self._y] |= dict.fromkeys(range(self._x, stop), "")
        self._rows[self._y][self._x] = sign
        self._x = stop

    def _move(self, y: int) -> None:
        self._y = y
        self._top = max(self._top, y - self.height + 1)
        self._rows += [{} for _ in range(y + 1 - len(self._rows))]

    def _erase(self, *, is_down: bool) -> None:
        if is_down and (self._x, self._y) == (0, self._top) and any(self._rows[self._top :]):
            self._move(len(self._rows))
            self._top = self._y
            return
        row = self._rows[self._y]
        self._rows[self._y] = {x: sign for x, sign in row.items() if x < self._x}
        if is_down:
            del self._rows[self._y + 1 :]
