"""The hook of the picture of the context.

`/context map` draws the context as SVG from plain values, and saves it as a picture in the
audience's files. At the top, the next request is a bar against the budget. Below, every turn is a
block, whose width shows its tokens and whose colour shows its state. The picture has its own
background, so that it is readable in light and dark chats.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from agent.tools.workspace import plain_errors, resolve, save_file
from plugins.api import Ask, CommandError, Reply, ToolError, Verb, hookimpl, refusal
from plugins.builtin.context import values
from plugins.builtin.context.overview import gather, parts
from plugins.builtin.context.show import DETAILS, headline
from plugins.builtin.context.turns import Row, rows
from plugins.builtin.context.values import pick
from plugins.context_map.figures import show_figures
from plugins.wording import amount

T = TypeVar("T")

WIDTH = 760
FONT = "Lato"
"""The font family; a renderer without it uses another sans-serif font."""
_MARGIN = 28
_INNER = WIDTH - 2 * _MARGIN
_BAR = 34  # height of the bar, and of a block
_LINE = 24  # height of a text line
_GAP = 4
_WIDEST = _INNER / 3  # of a block
_AIM = 4  # the number of rows for many turns

_GROUND, _INK, _FAINT, _RED = "#f7f6f2", "#22252b", "#6b6f78", "#c0392b"
_PARTS = {
    "system prompt": "#7d6bb0",
    "standing instructions": "#c0605f",
    "memory": "#5b8f8a",
    "tools": "#b0699c",
    "summary": "#c9952c",
    "activity log": "#a8803f",
    "summaries of turns": "#d9b45f",
    "turns": "#3f7fc1",
    "running turn": "#2f9e6e",
    "free": "#e3e1d9",
}
_STATES = {
    values.IN_PROGRESS: "#2f9e6e",
    values.PINNED: "#d2691e",
    values.IN_PLAY: "#3f7fc1",
    values.SQUEEZED: "#7fb2e0",
    values.CLIPPED: "#3aa5ad",
    values.STUBBED: "#6f9f8a",
    values.LOGGED: "#a8803f",
    values.SUMMARISED: "#c9952c",
    values.CLEARED: "#a9abb0",
    values.DROPPED: "#4b4e55",
    values.GONE: "#4b4e55",
}
_LEFT = frozenset((values.LOGGED, values.SUMMARISED, values.CLEARED, values.DROPPED, values.GONE))


class Picture(Struct, frozen=True):
    """The figures for a picture of the context. `parts` are tokens by name, and add up to `tokens`;
    `older` counts the turns that are not drawn."""

    tokens: int
    budget: int
    is_measured: bool
    parts: Mapping[str, int]
    blocks: Sequence[Row]
    older: int = 0


class Box(Struct, frozen=True):
    """A rectangle's position and size, in pixels."""

    x: float
    y: float
    width: float
    height: float = _BAR


def as_data(picture: Picture) -> dict[str, Any]:
    """Return the figures as data, for programs that draw them themselves."""
    blocks = [pick(block, "tokens", "state", turn=f"t{block.number}") for block in picture.blocks]
    return pick(picture, "budget", "parts", blocks=blocks)


def svg(picture: Picture) -> str:
    """Return the picture as SVG text."""
    sizes = _sizes(picture)
    parts = flow([_entry_width(words) for words in sizes.values()], 138, _LINE)
    heading = parts[-1].y + 64
    blocks = flow(_widths(picture.blocks), heading + 16, _BAR + _GAP)
    names = [name for name in _STATES if any(name in block.state for block in picture.blocks)]
    below = blocks[-1].y + _BAR + 22 if blocks else heading
    legend = flow([_entry_width(name) for name in names], below, _LINE)
    height = (legend[-1].y if legend else below) + 40
    body = (
        *_request(picture),
        *(_entry(box, words, _PARTS[name]) for (name, words), box in _pairs(sizes.items(), parts)),
        _text(_MARGIN, heading, _draw_heading(picture), size=15, is_bold=True),
        *(_block(block, box) for block, box in _pairs(picture.blocks, blocks)),
        *(_entry(box, name, _STATES[name], name in _LEFT) for name, box in _pairs(names, legend)),
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" '
        f'viewBox="0 0 {WIDTH} {height:g}" font-family="{FONT}, sans-serif">\n'
        f"<title>{escape(_title(picture))}</title>\n"
        f'<rect width="{WIDTH}" height="{height:g}" rx="12" fill="{_GROUND}"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _pairs(things: Iterable[T], boxes: Sequence[Box]) -> Iterable[tuple[T, Box]]:
    return zip(things, boxes, strict=True)


def flow(widths: Sequence[float], top: float, line: float) -> list[Box]:
    """Lay out boxes of these widths in lines, like words in a text; `line` is the height of a
    line."""
    boxes: list[Box] = []
    x, y = float(_MARGIN), top
    for width in widths:
        if x + width > _MARGIN + _INNER:
            x, y = float(_MARGIN), y + line
        boxes.append(Box(x, y, width))
        x += width + _GAP
    return boxes


def _title(picture: Picture) -> str:
    return f"{amount(picture.tokens)} of {amount(picture.budget)} tokens"


def _draw_heading(picture: Picture) -> str:
    if not picture.blocks:
        return "No turns yet"
    before = f", after {picture.older} older ones" if picture.older else ""
    return f"Turns t{picture.blocks[0].number} to t{picture.blocks[-1].number}{before}"


def _request(picture: Picture) -> Iterator[str]:
    how = "measured" if picture.is_measured else "estimated"
    share = picture.tokens / picture.budget
    yield _text(_MARGIN, 44, _title(picture), size=22, is_bold=True)
    yield _text(WIDTH - _MARGIN, 44, f"{share:.0%}, {how}", colour=_FAINT, anchor="end")
    yield _rect(Box(_MARGIN, 66, _INNER), _PARTS["free"], radius=0)
    scale = _INNER / max(picture.tokens, picture.budget)
    x = float(_MARGIN)
    for name, tokens in picture.parts.items():
        yield _rect(Box(x, 66, tokens * scale), _PARTS[name], radius=0)
        x += tokens * scale
    yield from _budget_line(_MARGIN + picture.budget * scale, picture.budget)


def _budget_line(x: float, budget: int) -> Iterator[str]:
    yield f'<line x1="{x:g}" y1="60" x2="{x:g}" y2="106" stroke="{_RED}" stroke-width="2"/>'
    anchor = "end" if x > WIDTH / 2 else "start"
    yield _text(x, 121, f"budget {amount(budget)}", size=12, colour=_RED, anchor=anchor)


def _sizes(picture: Picture) -> dict[str, str]:
    """Return the existing parts, and the free space, each with its size."""
    sizes = {**picture.parts, "free": max(0, picture.budget - picture.tokens)}
    return {name: f"{name} {amount(tokens)}" for name, tokens in sizes.items() if tokens}


def _widths(blocks: Sequence[Row]) -> list[float]:
    """Return the width of each turn in pixels, by its tokens. The largest has the maximum width,
    unless that makes very many rows; the smallest still fits its name."""
    tokens = [block.tokens for block in blocks]
    scale = min(_WIDEST / max([*tokens, 1]), _AIM * _INNER / max(sum(tokens), 1))
    return [max(12 + 6.5 * len(f"t{b.number}"), b.tokens * scale) for b in blocks]


def _block(block: Row, box: Box) -> str:
    """Draw a turn: filled while it is in context, otherwise hollow; a second state is a stripe."""
    main, *others = block.state
    name, is_gone = f"t{block.number}", main in _LEFT
    tip = f"<title>{name}: {amount(block.tokens)} tokens, {', '.join(block.state)}</title>"
    ink = _FAINT if is_gone else "#ffffff"
    label = _text(box.x + box.width / 2, box.y + 22, name, size=12, colour=ink, anchor="middle")
    stripe = Box(box.x + 6, box.y + _BAR - 7, box.width - 12, 3)
    second = _rect(stripe, _STATES[others[0]], radius=1.5) if others else ""
    return f"<g>{tip}{_rect(box, _STATES[main], is_hollow=is_gone)}{label}{second}</g>"


def _entry_width(words: str) -> float:
    return 36 + 6.8 * len(words)


def _entry(box: Box, words: str, colour: str, is_hollow: bool = False) -> str:
    """Return an entry of the legend: a swatch and a text."""
    swatch = _rect(Box(box.x, box.y, 14, 14), colour, radius=3, is_hollow=is_hollow)
    return swatch + _text(box.x + 20, box.y + 12, words)


def _rect(box: Box, colour: str, radius: float = 5, is_hollow: bool = False) -> str:
    fill = f'fill="{colour}"'
    if is_hollow:
        fill = f'fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="4 3"'
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:g}" '
        f'rx="{radius:g}" {fill}/>'
    )


def _text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 14,
    colour: str = _INK,
    anchor: str = "start",
    is_bold: bool = False,
) -> str:
    weight = ' font-weight="bold"' if is_bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}"{weight}>{escape(words)}</text>'
    )


FILE = "context-map.png"
NEWEST = 150
"""The maximum of turns that are drawn."""
_ZOOM = 2.0  # sharp on the screens of phones


async def show(ask: Ask) -> Reply:
    """`/context map`, and `/context map json`: its figures."""
    if ask.text.strip().lower() == "json":
        return await show_figures(ask)
    if ask.text:
        raise refusal("/context map takes nothing, or json for its figures.")
    overview = await gather(ask)
    conversation = ask.conversation
    first = max(1, conversation.context.newest - NEWEST + 1)
    found = await rows(conversation, range(first, conversation.context.newest + 1))
    picture = Picture(
        tokens=overview.view.tokens,
        budget=overview.limits.budget,
        is_measured=overview.view.scale.is_measured,
        parts=parts(overview.view),
        blocks=found,
        older=first - 1,
    )
    drawing = svg(picture)
    root = ask.bot.workspace(conversation.key)
    path = await asyncio.to_thread(lambda: _save(root, FILE, render(drawing)))
    image = str(path.resolve())
    data = {"image": image, "svg": drawing, **as_data(picture)}
    return Reply(headline(overview), data, (DETAILS,), images=(image,))


def _save(root: Path, name: str, content: bytes) -> Path:
    """Write a file into the folder `files/` of a workspace. Raises CommandError."""
    try:
        target = resolve(root, name, must_write=True)
        with plain_errors(name):
            save_file(root, target, content)
    except ToolError as error:
        raise CommandError(str(error)) from None
    return target


def render(drawing: str) -> bytes:
    """Return SVG text as a PNG, with bundled fonts, since a server may have none."""
    import resvg_py  # noqa: PLC0415 - 1.3 MB, which most runs never need

    return resvg_py.svg_to_bytes(
        svg_string=drawing, skip_system_fonts=True, font_files=_fonts(), zoom=_ZOOM
    )


@cache
def _fonts() -> list[str]:
    """Return the font files of the package `font-lato`, the only part of it that is used."""
    spec = importlib.util.find_spec("font_lato")
    if spec is None or spec.origin is None:
        raise refusal("The font for the picture is missing; run `pip install -r requirements.txt`.")
    folder = Path(spec.origin).parent / "files"
    return [str(folder / f"{FONT}-{weight}.ttf") for weight in ("Regular", "Bold")]


@hookimpl
def parley_verbs() -> list[Verb]:
    about = "a picture of the context; map json gives its figures"
    return [Verb("context", "map", about, show, after="detail")]
