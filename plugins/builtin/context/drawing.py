"""`/context map`: the picture of the context, drawn and put into the audience's files."""

from __future__ import annotations

import asyncio
import importlib.util
from functools import cache
from pathlib import Path

import resvg_py

from plugins.api import Ask, CommandError, Reply
from plugins.builtin.context.overview import gathered, parts
from plugins.builtin.context.picture import FONT, Picture, TokenBlock, svg
from plugins.builtin.context.show import DETAILS, headline
from plugins.builtin.context.transfer import save
from plugins.builtin.context.turns import rows

FILE = "context-map.png"
NEWEST = 150
"""Turns that are drawn at most."""
_ZOOM = 2.0  # sharp on the screens of phones


async def show(ask: Ask, rest: str) -> Reply:
    """`/context map`"""
    del rest
    overview = await gathered(ask)
    conversation = ask.conversation
    first = max(1, conversation.context.newest - NEWEST + 1)
    found = await rows(conversation, range(first, conversation.context.newest + 1))
    drawing = svg(
        Picture(
            tokens=overview.view.tokens,
            budget=overview.limits.budget,
            is_measured=overview.view.scale.is_measured,
            parts=parts(overview),
            blocks=[TokenBlock(row.number, row.tokens, row.state) for row in found],
            older=first - 1,
        )
    )
    root = ask.bot.workspace(conversation.key)
    path = await asyncio.to_thread(lambda: save(root, FILE, rendered(drawing)))
    image = str(path.resolve())
    data = {"image": image, "svg": drawing}
    return Reply(headline(overview), data, (DETAILS,), images=(image,))


def rendered(drawing: str) -> bytes:
    """SVG text as a PNG, in our own letters: a server may have none."""
    return resvg_py.svg_to_bytes(
        svg_string=drawing, skip_system_fonts=True, font_files=_fonts(), zoom=_ZOOM
    )


@cache
def _fonts() -> list[str]:
    """The font files of the package `font-lato`, of which nothing else is used."""
    spec = importlib.util.find_spec("font_lato")
    if spec is None or spec.origin is None:
        raise CommandError(
            "The letters for the picture are missing; run `pip install -r requirements.txt`."
        )
    folder = Path(spec.origin).parent / "files"
    return [str(folder / f"{FONT}-{weight}.ttf") for weight in ("Regular", "Bold")]
