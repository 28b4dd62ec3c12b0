"""Formulas of Markdown (`channels/formulas.py`) as MathML."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from channels.formulas import as_tex, as_written, find_formulas, is_alone

log = logging.getLogger(__name__)

_TAGS = """
math mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow mspace msqrt
mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none menclose
"""
_ATTRIBUTES = """
accent columnalign columnspacing depth display displaystyle fence form height largeop
linethickness lspace mathvariant maxsize minsize movablelimits notation rowspacing rspace
scriptlevel separator stretchy symmetric width
"""
MATH_TAGS, MATH_ATTRIBUTES = frozenset(_TAGS.split()), frozenset(_ATTRIBUTES.split())
"""The tags and attributes that MathML needs to be let through."""


def formulas(markdown: MarkdownIt) -> None:
    """Teach Markdown what formulas are: a plugin of markdown-it."""
    find_formulas(markdown)
    markdown.add_render_rule("formula", by_token(_draw))


def by_token(draw: Callable[[Token], str]) -> Callable[..., str]:
    """Return a rule of markdown-it's that renders a token by what is in it alone."""

    def rule(renderer: Any, tokens: Sequence[Token], at: int, *rest: object) -> str:
        return draw(tokens[at])

    return rule


def _draw(token: Token) -> str:
    math = mathml(as_tex(token), is_alone(token))
    if not math:
        written = escape(as_written(token))
        return f"<pre>{written}</pre>\n" if token.block else f"<code>{written}</code>"
    return f'<p class="formula">{math}</p>\n' if token.block else math


@lru_cache(maxsize=512)
def mathml(tex: str, is_block: bool) -> str:
    """Return a formula as MathML; "" where it is none that can be read."""
    from latex2mathml.converter import convert  # noqa: PLC0415 - slow, and seldom needed

    try:
        return str(convert(tex, display="block" if is_block else "inline"))
    except Exception as error:  # noqa: BLE001 - its own kinds, IndexError, RecursionError, …
        log.debug("a formula could not be read: %r", error)
        return ""
