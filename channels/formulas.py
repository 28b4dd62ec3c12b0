r"""Formulas in Markdown: $x^2$ and \(x^2\) in a line, $$x^2$$, \[x^2\] and
\begin{cases}…\end{cases} as blocks; and the division of Markdown into code and other parts. A
dollar sign usually means money: between two, a formula has no space at its ends, and no digit
follows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

_FENCE = re.compile(r"[ \t>]*+(?:[-+*][ \t]|\d{1,9}[.)][ \t])*+[ \t]*+(`{3,}+|~{3,}+)(.*)")
_TICKS = re.compile(r"`+")


def change_parts(
    markdown: str, outside: Callable[[str], str], within: Callable[[str], str] = str
) -> str:
    """Return a text with one change outside of code, and another within its blocks and spans. Ends
    of blocks by quotes and lists are not detected: text that must never be misread needs `within`,
    too."""
    return "".join((within if is_code else outside)(part) for is_code, part in _parts(markdown))


def _parts(markdown: str) -> Iterator[tuple[bool, str]]:
    """Yield the text in pieces, each with whether it is code."""
    fence = text = ""
    for line in markdown.splitlines(keepends=True):
        found = _FENCE.fullmatch(line.rstrip("\n"))
        opens = not fence and found and not (found[1][0] == "`" and "`" in found[2])
        if opens or not line.strip():
            yield from _spans(text)
            text = ""
        if opens and found:
            fence = found[1]
        elif not fence:
            text += line
            continue
        elif found and found[1].startswith(fence) and not found[2].strip():
            fence = ""
        yield True, line
    yield from _spans(text)


def _spans(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the same for a paragraph: a backslash escapes a backtick that would open a span, but
    not one that closes it."""
    runs = [found.span() for found in _TICKS.finditer(text)]
    last = {end - start: place for place, (start, end) in enumerate(runs)}
    at = place = 0
    while place < len(runs):
        start, end = runs[place]
        before = text[runs[place - 1][1] if place else 0 : start]
        start += (len(before) - len(before.rstrip("\\"))) % 2
        if last.get(end - start, 0) > place:
            place = _find_closing(runs, place + 1, end - start)
            yield False, text[at:start]
            yield True, text[start : (at := runs[place][1])]
        place += 1
    yield False, text[at:]


def _find_closing(runs: Sequence[tuple[int, int]], place: int, size: int) -> int:
    return next(n for n in range(place, len(runs)) if runs[n][1] - runs[n][0] == size)


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
    if opening == "$" and not _is_formula(content, state.src[end + 1 : end + 2]):
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


def _is_formula(content: str, after: str) -> bool:
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
