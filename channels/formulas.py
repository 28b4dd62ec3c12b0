r"""Formulas in Markdown: $x^2$ and \(x^2\) in a line, $$x^2$$, \[x^2\] and
\begin{cases}…\end{cases} as blocks.

A dollar sign usually means money, so a formula between two of them has no space at its ends, and no
digit follows it. Markdown is not parsed within a formula: its backslashes stay.
"""

from __future__ import annotations

import re
from functools import partial

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

LONGEST = 2_000
"""The maximum number of characters of a formula; longer ones are shown as written."""
_OPENING = re.compile(r"\$\$?|\\[\[(]|\\begin\{[A-Za-z]+\*?\}")
_CLOSING = {"$": "$", "$$": "$$", "\\[": "\\]", "\\(": "\\)"}
_IN_A_LINE = ("$", "\\(")


def find_formulas(markdown: MarkdownIt, *, is_growing: bool = False) -> None:
    """Add formulas to a Markdown parser, as a plugin of markdown-it with tokens `formula`. With
    `is_growing`, an open formula extends to the end of the text."""
    markdown.inline.ruler.before("escape", "formula", _inline)
    block = partial(_block, is_growing=is_growing)
    markdown.block.ruler.before(
        "fence", "formula_block", block, {"alt": ["paragraph", "blockquote", "list"]}
    )


def as_written(token: Token) -> str:
    """Return a formula with its delimiters."""
    return f"{token.markup}{token.content}{_closing(token.markup)}{token.info}"


def as_tex(token: Token) -> str:
    """Return a formula without its delimiters; an environment keeps its own."""
    if token.markup in _CLOSING:
        return (token.content + token.info).strip()
    return as_written(token)


def is_alone(token: Token) -> bool:
    """Return whether a formula is a block, not part of a line."""
    return token.markup not in _IN_A_LINE


def _inline(state: StateInline, silent: bool) -> bool:
    opening = _opening(state.src, state.pos)
    if not opening:
        return False
    begin = state.pos + len(opening)
    end = state.src.find(_closing(opening), begin, begin + LONGEST)
    content = state.src[begin:end]
    if end < 0 or not content.strip():
        return False
    if opening == "$" and not _is_meant(content, state.src[end + 1 : end + 2]):
        return False
    if not silent:
        _push(state, opening, content)
    state.pos = end + len(_closing(opening))
    return True


def _opening(text: str, at: int) -> str:
    found = _OPENING.match(text, at)
    return found[0] if found else ""


def _closing(opening: str) -> str:
    return _CLOSING.get(opening) or opening.replace("begin", "end", 1)


def _is_meant(content: str, after: str) -> bool:
    """Return whether the text between two dollars is a formula."""
    return content == content.strip() and not after.isdigit() and content[-1] != "\\"


def _block(state: StateBlock, start: int, last: int, silent: bool, is_growing: bool) -> bool:
    if state.is_code_block(start):
        return False
    begin = state.bMarks[start] + state.tShift[start]
    opening = _opening(state.src, begin)
    if not opening or opening in _IN_A_LINE:
        return False
    closing, length = _closing(opening), len(opening)
    end = state.src.find(closing, begin + length, begin + LONGEST)
    if end < 0 and is_growing and len(state.src) - begin < LONGEST:
        state.line = last
        return silent or bool(_push_block(state, opening, "", start, last))
    line = start
    while line < last and state.eMarks[line] < end:
        line += 1
    if end < 0 or line == last:
        return False
    if state.src[end + len(closing) : state.eMarks[line]].strip(" \t.,;"):
        return False
    if not silent:
        lines = range(start, line + 1)
        pieces = [state.src[state.bMarks[n] + state.tShift[n] : state.eMarks[n]] for n in lines]
        content, _, after = "\n".join(pieces)[length:].rpartition(closing)
        _push_block(state, opening, content, start, line + 1).info = after
    state.line = line + 1
    return True


def _push(state: StateBlock | StateInline, opening: str, content: str) -> Token:
    token = state.push("formula", "math", 0)
    token.content, token.markup = content, opening
    return token


def _push_block(state: StateBlock, opening: str, content: str, start: int, last: int) -> Token:
    token = _push(state, opening, content)
    token.map, token.block = [start, last], True
    return token
