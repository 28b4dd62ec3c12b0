"""Discord's Markdown, as its apps read it: what a person sees of a message.

Written from Discord's support article "Markdown Text 101 (Chat Formatting)" and from the reference
"Message Formatting" for mentions and timestamps. If neither states the behaviour, the rule is that
of the parser that Discord has published (SimpleAST); rules in none of them are marked as
unverified.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

_WEB = re.compile(r"https?://[^\s<]+[^<.,:;\"')\]\s]")
_AUTOLINK = re.compile(r"<([a-z][a-z0-9+.-]*:/?/?[^ >]+)>", re.IGNORECASE)
_MENTION = re.compile(r"<(@!?|@&|#|a?:\w+:|/[^:>]+:|t:|id:)([\w:]+)>")
_ESCAPED = re.compile(r"\\([^0-9A-Za-z\s])")
_CODE = re.compile(r"(`{1,2})(?!`)(.*?[^`])\1(?!`)", re.DOTALL)
_BLOCK = re.compile(r"```(?:([A-Za-z0-9_+\-.#]+)\n)?\n*(.*?)\n*```", re.DOTALL)
_LINK = re.compile(
    r"\[((?:\\.|[^\\\]])+)\]\(\s*<?((?:\([^)]*\)|[^\s\\>)]|\\.)+)>?(?:\s+\"[^\"]*\")?\s*\)",
    re.DOTALL,
)
_STYLES = (
    ("bold", re.compile(r"\*\*((?:\\.|[^\\])+?)\*\*(?!\*)", re.DOTALL)),
    ("underline", re.compile(r"__((?:\\.|[^\\])+?)__(?!_)", re.DOTALL)),
    ("italic", re.compile(r"_((?:__|\\.|[^\\_])+?)_(?![A-Za-z0-9_])", re.DOTALL)),
    (
        "italic",
        re.compile(
            r"\*(?=\S)((?:\*\*|\\.|\s+(?:\\.|[^\s*\\]|\*\*)|[^\s*\\])+?)\*(?!\*)", re.DOTALL
        ),
    ),
    ("strike", re.compile(r"~~(.+?)~~(?!_)", re.DOTALL)),
    ("spoiler", re.compile(r"\|\|(.+?)\|\|", re.DOTALL)),
)
_HEADING = re.compile(r"(#{1,3}) +(?!#)([^\n]+)(?:\n|$)")
_SUBTEXT = re.compile(r"-# +(?!-#)([^\n]+)(?:\n|$)")
_ITEM = re.compile(r"( *)([-*]|\d+\.) +(?=\S)")
_QUOTE = re.compile(r"(?: *> [^\n]*(?:\n|$))+")
_QUOTED_REST = re.compile(r" *>>> (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shown:
    """The visible words, and the target of the link."""

    text: str
    styles: frozenset[str] = frozenset()
    href: str = ""


def read(content: str) -> list[Shown]:
    """A message as shown; Discord strips white space at both ends."""
    return list(_read(content.strip(), frozenset(), True))


@lru_cache(maxsize=1_000)
def words(content: str) -> str:
    """Return the visible words of a message."""
    return "".join(shown.text for shown in read(content)).replace("\u200b", "")


def _read(text: str, styles: frozenset[str], starts_line: bool) -> Iterator[Shown]:
    at, plain = 0, ""
    while at < len(text):
        is_first = starts_line if at == 0 else text[at - 1] == "\n"
        found = (_line_rule(text, at, styles) if is_first else None) or _rule(text, at, styles)
        if found is None:
            plain += text[at]
            at += 1
            continue
        end, shown = found
        if plain:
            yield Shown(plain, styles)
            plain = ""
        yield from shown
        at = end
    if plain:
        yield Shown(plain, styles)


Found = tuple[int, list[Shown]] | None


def _line_rule(text: str, at: int, styles: frozenset[str]) -> Found:
    if found := _HEADING.match(text, at):
        return found.end(), [*_read(found[2], styles | {f"heading{len(found[1])}"}, False), _END]
    if found := _SUBTEXT.match(text, at):
        return found.end(), [*_read(found[1], styles | {"subtext"}, False), _END]
    if found := _ITEM.match(text, at):
        return found.end(), [Shown(f"{found[1]}{found[2].replace('-', '•').replace('*', '•')} ")]
    if "quote" not in styles and (found := _QUOTED_REST.match(text, at)):
        return found.end(), list(_read(found[1], styles | {"quote"}, True))
    if "quote" not in styles and (found := _QUOTE.match(text, at)):
        inner = re.sub(r"^ *> ", "", found[0], flags=re.MULTILINE)
        return found.end(), list(_read(inner, styles | {"quote"}, True))
    return None


_END = Shown("\n")


def _rule(text: str, at: int, styles: frozenset[str]) -> Found:
    for rule in _RULES:
        if found := rule(text, at, styles):
            return found
    return None


def _escape(text: str, at: int, styles: frozenset[str]) -> Found:
    found = _ESCAPED.match(text, at)
    return (found.end(), [Shown(found[1], styles)]) if found else None


def _code_block(text: str, at: int, styles: frozenset[str]) -> Found:
    found = _BLOCK.match(text, at)
    if not found or not found[2]:
        return None
    return found.end(), [Shown(found[2], styles | {"block"})]


def _code_span(text: str, at: int, styles: frozenset[str]) -> Found:
    found = _CODE.match(text, at)
    return (found.end(), [Shown(found[2], styles | {"code"})]) if found else None


def _autolink(text: str, at: int, styles: frozenset[str]) -> Found:
    if found := _AUTOLINK.match(text, at):
        return found.end(), [Shown(found[1], styles, found[1])]
    if found := _MENTION.match(text, at):
        return found.end(), [Shown(f"@{found[2]}", styles | {"mention"})]
    if found := _WEB.match(text, at):
        return found.end(), [Shown(found[0], styles | {"preview"}, found[0])]
    return None


def _masked(text: str, at: int, styles: frozenset[str]) -> Found:
    found = _LINK.match(text, at)
    # Unverified: words that look like an address are not linked, to prevent deception.
    if not found or not re.match(r"https?://", found[2]) or "://" in found[1]:
        return None
    inner = _read(found[1], styles, False)
    return found.end(), [Shown(one.text, one.styles, found[2]) for one in inner]


def _styled(text: str, at: int, styles: frozenset[str]) -> Found:
    for name, pattern in _STYLES:
        if name not in styles and (found := pattern.match(text, at)):
            return found.end(), list(_read(found[1], styles | {name}, False))
    return None


_RULES: tuple[Callable[[str, int, frozenset[str]], Found], ...] = (
    _code_block,
    _escape,
    _autolink,
    _masked,
    _styled,
    _code_span,
)
