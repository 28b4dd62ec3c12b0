"""The text of an HTML page. One pass from left to right, so that no page takes longer than its
length: the parsers at hand take minutes for a megabyte of tags that never end."""

from __future__ import annotations

import re
from html import unescape

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "textarea"})
_BLOCKS = re.compile(
    r"address|article|aside|blockquote|br|dd|div|dl|dt|fieldset|figure|footer|form|h[1-6]|header|hr"
    r"|li|main|nav|ol|p|pre|section|table|title|tr|ul"
)
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_HREF = re.compile(r"""\shref\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+)""", re.IGNORECASE)
_ENDLESS_NUMBER = re.compile(r"&#[0-9]{20,};?")
_LONGEST_TAG = 4_000  # characters of a tag in which an address is looked for


def text_of(html: str) -> str:
    """What a person would read, a line a block; behind the words of a link stands its address."""
    return "\n".join(filter(None, (" ".join(line.split()) for line in _pieces(html).split("\n"))))


def _pieces(html: str) -> str:
    pieces: list[str] = []
    links: list[str] = []
    at = 0
    while (start := html.find("<", at)) >= 0:
        pieces.append(_flat(html[at:start]))
        tag = _TAG.match(html, start)
        if tag is None:
            at = _after_markup(html, start)
            pieces.append("<" if at == start + 1 else "")
            continue
        at = _after(html, ">", start)
        pieces.append(_shown(tag, html[start : min(at, start + _LONGEST_TAG)], links))
        if not tag[1] and tag[2].lower() in _SKIPPED:
            at = _after_element(html, tag[2], at)
    return "".join((*pieces, _flat(html[at:])))


def _flat(text: str) -> str:
    return _unescaped(text.replace("\n", " "))


def _unescaped(text: str) -> str:
    """The text with its entities read; Python does not read a number of 5,000 digits."""
    return unescape(_ENDLESS_NUMBER.sub("&#0;", text))


def _shown(tag: re.Match[str], whole: str, links: list[str]) -> str:
    """What stands for a tag in the text; addresses of links wait in `links` for their ends."""
    name = tag[2].lower()
    if name == "a" and not tag[1]:
        found = _HREF.search(whole)
        links.append(_unescaped(found[1].strip("\"'")) if found else "")
    elif name == "a" and links:
        address = links.pop()
        return f" ({address})" if address and not address.startswith(("#", "javascript:")) else ""
    if name == "li" and not tag[1]:
        return "\n- "
    return "\n" if _BLOCKS.fullmatch(name) else " " if name in ("td", "th") else ""


def _after(html: str, end: str, start: int) -> int:
    """The place behind the next `end`; the end of the page where there is none."""
    found = html.find(end, start)
    return len(html) if found < 0 else found + len(end)


def _after_markup(html: str, start: int) -> int:
    """The place behind a comment, a declaration, or a "<" that is only text."""
    if html.startswith("<!--", start):
        return _after(html, "-->", start + 4)
    return _after(html, ">", start) if html.startswith(("<!", "<?", "</"), start) else start + 1


def _after_element(html: str, name: str, start: int) -> int:
    """The place behind an element of which nothing is text."""
    found = re.compile(f"</{name}", re.IGNORECASE).search(html, start)
    return _after(html, ">", found.start()) if found else len(html)
