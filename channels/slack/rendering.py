"""Markdown as Slack shows it: a rich text block, as its own composer writes it.

Slack's own markup, mrkdwn, has no way to say that a sign is meant as it stands, and none to make
half a word bold; in rich text nothing is left to be read, so no answer is shown wrong, and nobody
mentioned, for its punctuation. Slack prefers it, too ("Rich text block" in its reference).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, groupby
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len

from channels.splitting import has_vast_table

Json = dict[str, Any]

LONGEST = 3_000
"""The most of a message: a section's plain text takes so many characters, a rich text of four times
as many as JSON is taken for sure ("msg_blocks_too_long" comes at about 13,200)."""
_LONGEST_READ = 2 * LONGEST
_JSON = 4  # characters of JSON that count as one
_DEEPEST = 8  # levels of a list
_SECTION, _QUOTE, _CODE = "rich_text_section", "rich_text_quote", "rich_text_preformatted"
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_LINKED = re.compile(r"https?://|mailto:", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s<>\"'|]*[^\s<>\"'|.,:;!?)\]}*_~]")
_RULER = "─" * 12

_parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_parser.disable("reference")  # a line that nothing refers to would vanish

Style = Mapping[str, bool]


def blocks(markdown: str) -> list[Json]:
    """Return the blocks of one message. What Slack would show nothing of is shown as it stands, and
    so is what does not fit once it is read as Markdown."""
    elements = _elements(markdown)
    if not shown(elements) or _size(elements) > LONGEST >= len(markdown):
        return plain_blocks(markdown)
    return [{"type": "rich_text", "elements": elements}]


def plain_blocks(text: str) -> list[Json]:
    """Return a text as it stands."""
    words = {"type": "plain_text", "text": text[:LONGEST], "emoji": False}
    return [{"type": "section", "text": words}]


def length(markdown: str) -> int:
    """Return how long a text is in rich text: what is seen of it, and not too much that is not."""
    elements = _elements(markdown)
    return _size(elements) if elements else len(markdown)


def shown(elements: Sequence[Json]) -> str:
    """Return the words of a rich text, for notifications and those who hear it read."""
    return "".join(_words(element) for element in elements).strip()


def _words(element: Json) -> str:
    kind, inner = element["type"], element.get("elements", ())
    if kind == "rich_text_list":
        return "".join(f"{_mark(element, n)} {_words(item)}\n" for n, item in enumerate(inner, 1))
    if kind in ("text", "link"):
        return str(element.get("text", element.get("url")))
    end = "" if kind == _SECTION else "\n"
    return f"{''.join(map(_words, inner))}{end}"


def _mark(element: Json, number: int) -> str:
    margin = "  " * int(element["indent"])
    return margin + (f"{element.get('offset', 0) + number}." if _is_ordered(element) else "•")


def _is_ordered(element: Json) -> bool:
    return bool(element["style"] == "ordered")


def _size(elements: Sequence[Json]) -> int:
    text = json.dumps(elements, ensure_ascii=False, separators=(",", ":"))
    return max(len(shown(elements)), -(-len(text) // _JSON))


@lru_cache(maxsize=16)
def _elements(markdown: str) -> list[Json]:
    """Return the elements inside of the block; none where a text should stay as it is. The text
    that was measured last is sent next, hence the cache."""
    if len(markdown) > _LONGEST_READ or has_vast_table(markdown):
        return []
    tree = SyntaxTreeNode(_parser.parse(markdown))
    return [*_flow(tree.children, _SECTION)]


def _flow(nodes: Sequence[SyntaxTreeNode], kind: str) -> Iterator[Json]:
    """Blocks that stand below one another: paragraphs are one section, or one quote."""
    for is_text, together in groupby(nodes, key=_is_paragraph):
        if not is_text:
            for node in together:
                yield from _block(node, kind)
        elif words := _paragraphs(together, "\n\n"):
            end = [_text("\n", {})] if kind == _SECTION else []
            yield {"type": kind, "elements": [*_joined([*words, *end])]}


def _is_paragraph(node: SyntaxTreeNode) -> bool:
    return node.type in ("paragraph", "heading", "hr")


def _paragraphs(nodes: Iterator[SyntaxTreeNode], between: str) -> list[Json]:
    words: list[Json] = []
    for node in nodes:
        style = {"bold": True} if node.type == "heading" else {}
        inner = [*_inline(node, style)] if node.children else []
        if node.type == "hr":
            inner = [_text(_RULER, {})]
        if words and inner:
            words.append(_text(between, {}))
        words += inner
    return [*_joined(words)]


def _block(node: SyntaxTreeNode, kind: str) -> Iterator[Json]:
    border = {"border": 1} if kind == _QUOTE else {}
    match node.type:
        case "bullet_list" | "ordered_list":
            yield from _list(node, 0, kind)
        case "blockquote":
            yield from _flow(node.children, _QUOTE)
        case "fence" | "code_block" | "table":
            text = _table(node) if node.type == "table" else node.content.rstrip("\n")
            if text.strip():
                yield {"type": _CODE, "elements": [_text(text, {})], **border}


def _list(node: SyntaxTreeNode, depth: int, kind: str) -> Iterator[Json]:
    """Yield a list; it is closed where something stands in an item that can't, and goes on behind
    it."""
    is_ordered, border = node.type == "ordered_list", {"border": 1} if kind == _QUOTE else {}
    before = max(int(node.attrs.get("start", 1)) - 1, 0)
    items: list[Json] = []

    def close() -> Iterator[Json]:
        nonlocal before, items
        if items:
            offset = {"offset": before} if is_ordered and before else {}
            style = "ordered" if is_ordered else "bullet"
            indent = min(depth, _DEEPEST)
            frame = {"type": "rich_text_list", "style": style, "indent": indent}
            yield {**frame, "elements": items, **offset, **border}
        before, items = before + len(items), []

    for item in node.children:
        groups = [(is_text, [*some]) for is_text, some in groupby(item.children, key=_is_paragraph)]
        leads = bool(groups and groups[0][0])
        words = _paragraphs(iter(groups[0][1]), "\n") if leads else []
        items.append({"type": _SECTION, "elements": words or [_text(" ", {})]})
        for _is_text, more in groups[leads:]:
            yield from close()
            for one in more:
                if one.type in ("bullet_list", "ordered_list"):
                    yield from _list(one, depth + 1, kind)
                else:
                    yield from _flow([one], kind)
    yield from close()


def _inline(node: SyntaxTreeNode, style: Style, url: str = "") -> Iterator[Json]:
    for child in node.children:
        match child.type:
            case "inline":
                yield from _inline(child, style, url)
            case "strong" | "em" | "s":
                yield from _inline(child, {**style, _STYLES[child.type]: True}, url)
            case "link":
                yield from _link(child, style)
            case "image":
                source = str(child.attrs.get("src", ""))
                yield from _label(child.content or source, source, style)
            case "softbreak" | "hardbreak":
                yield _text("\n", style, url)
            case "code_inline":
                yield _text(child.content, {**style, "code": True}, url)
            case _:
                yield from [_text(child.content, style, url)] if url else _prose(child, style)


def _link(node: SyntaxTreeNode, style: Style) -> Iterator[Json]:
    url = str(node.attrs.get("href", ""))
    if _LINKED.match(url) and node.children:
        yield from _inline(node, style, url)
    else:
        yield from _inline(node, style)
        yield _text(f" ({url})", style)


def _label(label: str, url: str, style: Style) -> Iterator[Json]:
    """A picture is a link to it: whoever wrote one could otherwise tell that it was read."""
    yield _text(label, style, url) if _LINKED.match(url) else _text(f"{label} ({url})", style)


def _prose(node: SyntaxTreeNode, style: Style) -> Iterator[Json]:
    """Words, and the addresses among them."""
    at = 0
    for found in _ADDRESS.finditer(node.content):
        yield _text(node.content[at : found.start()], style)
        yield _text(found[0], style, found[0])
        at = found.end()
    yield _text(node.content[at:], style)


def _text(text: str, style: Style, url: str = "") -> Json:
    element: Json = {"type": "link", "url": url} if url else {"type": "text"}
    return {**element, "text": text, **({"style": dict(style)} if style else {})}


def _joined(elements: Sequence[Json]) -> Iterator[Json]:
    """Words of one style in one element; Slack refuses empty ones."""
    for (kind, url, style), some in groupby(elements, key=_look):
        if text := "".join(element["text"] for element in some):
            yield _text(text, dict.fromkeys(style, True), url if kind == "link" else "")


def _look(element: Json) -> tuple[str, str, tuple[str, ...]]:
    return element["type"], element.get("url", ""), tuple(element.get("style", ()))


def _table(node: SyntaxTreeNode) -> str:
    """Return a table, its columns below one another; where one cell is so wide that the others
    would be mostly white space, they are not."""
    rows = [
        [_cell(cell) for cell in row.children] for part in node.children for row in part.children
    ]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    is_wide = len(rows) * sum(widths) > 2 * sum(map(len, chain(*rows))) + LONGEST // 2
    lines = []
    for number, row in enumerate(rows):
        cells = (
            row
            if is_wide
            else [c + " " * (w - cell_len(c)) for c, w in zip(row, widths, strict=True)]
        )
        lines.append(" | ".join(cells).rstrip())
        if number == 0:
            lines.append("-+-".join("-" * (3 if is_wide else width) for width in widths))
    return "\n".join(lines)


def _cell(node: SyntaxTreeNode) -> str:
    elements = [*_joined([*_inline(node, {})])]
    return "".join(
        f"{element['text']} ({element['url']})"
        if element.get("url", element["text"]) != element["text"]
        else element["text"]
        for element in elements
    )
