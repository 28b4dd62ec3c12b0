r"""Formulas in Markdown, as MathML: $x^2$ and \(x^2\) in a line, $$x^2$$ and \[x^2\] by themselves.

A dollar is one of money more often than not, so what stands between two has no space at its ends,
and no digit follows it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

log = logging.getLogger(__name__)

LONGEST = 2_000
"""Characters of a formula; what is longer is shown as it was written."""
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
_CLOSING = {"$$": "$$", "\\[": "\\]", "\\(": "\\)", "$": "$"}
_ON_ITS_OWN = ("$$", "\\[")


def formulas(markdown: MarkdownIt) -> None:
    """Teach Markdown what formulas are: a plugin of markdown-it."""
    markdown.inline.ruler.before("escape", "formula", _inline)
    markdown.block.ruler.before(
        "fence", "formula_block", _block, {"alt": ["paragraph", "blockquote", "list"]}
    )
    markdown.add_render_rule("formula", by_token(_draw))


def by_token(draw: Callable[[Token], str]) -> Callable[..., str]:
    """Return a rule of markdown-it's that renders a token by what is in it alone."""

    def rule(renderer: Any, tokens: Sequence[Token], at: int, *rest: object) -> str:
        return draw(tokens[at])

    return rule


def _inline(state: StateInline, silent: bool) -> bool:
    opening = _opening(state.src, state.pos)
    if not opening:
        return False
    begin = state.pos + len(opening)
    end = state.src.find(_CLOSING[opening], begin, begin + LONGEST)
    content = state.src[begin:end]
    if end < 0 or not content.strip():
        return False
    if opening == "$" and not _is_meant(content, state.src[end + 1 : end + 2]):
        return False
    if not silent:
        _push(state, opening, content)
    state.pos = end + len(opening)
    return True


def _opening(text: str, at: int) -> str:
    return next((sign for sign in _CLOSING if text.startswith(sign, at)), "")


def _is_meant(content: str, after: str) -> bool:
    """Return whether what stands between two dollars is a formula."""
    return content == content.strip() and not after.isdigit() and content[-1] != "\\"


def _block(state: StateBlock, start: int, last: int, silent: bool) -> bool:
    if state.is_code_block(start):
        return False
    begin = state.bMarks[start] + state.tShift[start]
    opening = _opening(state.src, begin)
    if opening not in _ON_ITS_OWN:
        return False
    end = state.src.find(_CLOSING[opening], begin + 2, begin + LONGEST)
    line = start
    while line < last and state.eMarks[line] < end:
        line += 1
    if end < 0 or line == last or state.src[end + 2 : state.eMarks[line]].strip(" \t.,;"):
        return False
    if not silent:
        lines = range(start, line + 1)
        pieces = [state.src[state.bMarks[n] + state.tShift[n] : state.eMarks[n]] for n in lines]
        content, _, after = "\n".join(pieces)[2:].rpartition(_CLOSING[opening])
        _push(state, opening, content + after).map = [start, line + 1]
        state.tokens[-1].block = True
    state.line = line + 1
    return True


def _push(state: StateBlock | StateInline, opening: str, content: str) -> Token:
    token = state.push("formula", "math", 0)
    token.content, token.markup = content, opening
    return token


def _draw(token: Token) -> str:
    is_alone = token.markup in _ON_ITS_OWN
    math = mathml(token.content.strip(), is_alone)
    if not math:
        written = escape(f"{token.markup}{token.content}{_CLOSING[token.markup]}")
        return f"<pre>{written}</pre>\n" if token.block else f"<code>{written}</code>"
    return f'<p class="formula">{math}</p>\n' if token.block else math


@lru_cache(maxsize=512)
def mathml(tex: str, is_alone: bool) -> str:
    """Return a formula as MathML; "" where it is none that can be read."""
    from latex2mathml.converter import convert  # noqa: PLC0415 - slow, and seldom needed

    try:
        return str(convert(tex, display="block" if is_alone else "inline"))
    except Exception as error:  # noqa: BLE001 - its own kinds, IndexError, RecursionError, …
        log.debug("a formula could not be read: %r", error)
        return ""
