"""The context as a terminal can draw it: a bar in the colours of its parts, a block for each turn;
and pictures, where the terminal speaks kitty's protocol.

The colours are named as the terminal's own sixteen (`theme` says which of them it has); where it
has none, parts differ by their shade.
"""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text

from channels.language import _, figure

PARTS: Mapping[str, str] = {
    "system prompt": "magenta",
    "memory": "cyan",
    "tools": "bright_magenta",
    "summary": "yellow",
    "activity log": "bright_yellow",
    "summaries of turns": "bright_yellow",
    "turns": "blue",
    "running turn": "green",
    "standing instructions": "bright_cyan",
}
"""The colour of each part of a request."""
FREE = "bright_black"
_SHADES = "█▓▒"
_STATES: Mapping[str, str] = {
    "running": "green",
    "pinned": "bright_red",
    "in context": "blue",
    "shortened": "bright_blue",
    "clipped": "cyan",
    "tool results shortened": "bright_cyan",
    "in the log": "bright_yellow",
    "summarised": "yellow",
    "cleared": "bright_black",
    "dropped": "bright_black",
    "gone": "bright_black",
}
_LEFT = frozenset(("in the log", "summarised", "cleared", "dropped", "gone"))
_WIDEST = 72
_ROWS = 4
"""The number of rows that many turns fill."""


class Block(Struct, frozen=True):
    """A turn: its name, its tokens, and its states, the main one first."""

    name: str
    tokens: int
    state: tuple[str, ...]


class ContextFigure(Struct, frozen=True):
    """The figure of a context: tokens by part, of this budget, and the turns."""

    budget: int
    parts: Mapping[str, int]
    blocks: tuple[Block, ...] = ()

    @property
    def free(self) -> int:
        return max(0, self.budget - sum(self.parts.values()))


def figure_of(data: Mapping[str, Any] | None) -> ContextFigure | None:
    """Return the figure of the data of `/context` and `/context map`; None for other data."""
    match data or {}:
        case {"budget": int(budget), "parts": {**parts}, **rest} if budget > 0:
            sizes = {str(name): n for name, n in parts.items() if isinstance(n, int) and n > 0}
            blocks = rest.get("blocks") or ()
            return ContextFigure(budget, sizes, tuple(_block(one) for one in blocks))
    return None


def _block(data: Mapping[str, Any]) -> Block:
    return Block(str(data["turn"]), int(data["tokens"]), tuple(data["state"]))


def swatch(part: str) -> Text:
    """Return a square in a part's colour, for a legend; empty for other names."""
    called = {one: len(word) for one in PARTS for word in (one, _(one)) if part.startswith(word)}
    name = max(called, key=lambda one: called[one], default="")
    if name:
        return Text().append(f"{_shade(name)} ", PARTS[name])
    return Text().append("░ ", FREE) if part in ("free", _("free")) else Text()


def _part(name: str, size: int) -> str:
    return f"{_(name)} {figure(f'{size:,}')}"


def _shade(part: str) -> str:
    return _SHADES[[*PARTS].index(part) % len(_SHADES)]


class PartBar(Struct, frozen=True):
    """The next request against its budget, in one line."""

    figure: ContextFigure

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(_WIDEST, options.max_width)
        shares = {name: size for name, size in self.figure.parts.items() if name in PARTS}
        cells = distribute([*shares.values(), self.figure.free], width)
        bar = Text()
        for name, count in zip(shares, cells[:-1], strict=True):
            bar.append(_shade(name) * count, PARTS[name])
        yield bar.append("░" * cells[-1], FREE)


def distribute(sizes: Sequence[int], cells: int) -> list[int]:
    """Divide cells among items of these sizes: each item above 0 has at least one, if there are
    enough, and all cells are used."""
    present = [index for index, size in enumerate(sizes) if size > 0]
    least = 1 if len(present) <= cells else 0
    total, room = sum(sizes[index] for index in present), cells - least * len(present)
    found = [0] * len(sizes)
    given, taken = 0, 0
    for index in present:
        given += sizes[index]
        upto = given * room // total
        found[index] = least + upto - taken
        taken = upto
    return found


class Map(Struct, frozen=True):
    """The request as a bar with its legend, and below it a block for each turn."""

    figure: ContextFigure

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        drawn, width = self.figure, min(_WIDEST, options.max_width)
        yield PartBar(drawn)
        entries = [swatch(name).append(_part(name, size)) for name, size in drawn.parts.items()]
        yield from _flow([*entries, swatch("free").append(_part("free", drawn.free))], width, "   ")
        if drawn.blocks:
            yield Text()
            yield from _flow([_draw(b, w) for b, w in _widths(drawn.blocks, width)], width, " ")
            yield Text()
            seen = {state for block in drawn.blocks for state in block.state}
            legend = (_draw(Block(_(state), 0, (state,)), 0) for state in _STATES if state in seen)
            yield from _flow([*legend], width, "  ")


def _widths(blocks: Sequence[Block], width: int) -> Iterator[tuple[Block, int]]:
    largest, total = max(b.tokens for b in blocks), sum(b.tokens for b in blocks)
    scale = min(width / 3 / max(1, largest), _ROWS * width / max(1, total))
    return ((block, round(block.tokens * scale)) for block in blocks)


def _draw(block: Block, width: int) -> Text:
    """Draw a turn: solid while it is in context, hollow once it is removed; a star marks further
    states."""
    main, *others = block.state or ("gone",)
    name = block.name + "*" * bool(others)
    colour = _STATES.get(main, FREE)
    if main in _LEFT:
        return Text(f"╌{name}".ljust(max(width, len(name) + 2), "╌"), colour)
    style = Style.parse(colour) + Style(reverse=True)
    return Text(f" {name}".ljust(max(width, len(name) + 2)), style)


def _flow(things: Sequence[Text], width: int, gap: str) -> Iterator[Text]:
    """Arrange texts in lines, like words; no text wraps."""
    line = Text()
    for thing in things:
        if line and line.cell_len + len(gap) + thing.cell_len > width:
            yield line
            line = Text()
        line = Text.assemble(line, gap if line else "", thing)
    if line:
        yield line


# Pictures

_PIECE = 4_096  # characters of base64 at a time, as the protocol requires
_MOST = 20_000_000  # bytes of a picture that is shown
_KITTY = ("KITTY_WINDOW_ID", "GHOSTTY_RESOURCES_DIR", "WEZTERM_PANE", "KONSOLE_VERSION")


def speaks_kitty() -> bool:
    """Return whether this terminal shows pictures by kitty's protocol. Not through tmux and
    screen."""
    if {"TMUX", "STY"} & os.environ.keys():
        return False
    return "kitty" in os.environ.get("TERM", "") or any(name in os.environ for name in _KITTY)


def kitty_picture(png: bytes, width: int) -> str:
    """Return the sequence that shows a PNG at most this many columns wide; "" if it is not a PNG or
    too large."""
    if not png.startswith(b"\x89PNG\r\n\x1a\n") or len(png) < 24 or len(png) > _MOST:
        return ""
    across, down = struct.unpack(">II", png[16:24])
    columns = max(1, min(width, _WIDEST, across // 8))
    rows = max(1, round(columns * down / max(1, across) / 2))  # a cell is twice as high as wide
    text = base64.b64encode(png).decode()
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    first = f"a=T,f=100,c={columns},r={rows},q=2,"
    return (
        "".join(
            f"\x1b_G{first if n == 0 else ''}m={int(n < len(pieces) - 1)};{piece}\x1b\\"
            for n, piece in enumerate(pieces)
        )
        + "\n"
    )


def around_bar(text: str) -> tuple[str, str]:
    """Return a reply's headline without its text bar, which is for places without colours, and the
    text behind it."""
    head, _, rest = text.partition("\n\n")
    before, _, code = head.partition(" `")
    drawn, _, after = code.partition("` ")
    is_bar = drawn and set(drawn) <= set("▇▁")
    return (f"{before} · {after}" if is_bar else head), rest
