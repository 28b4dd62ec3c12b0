"""Markdown as WhatsApp shows it: *bold*, _italic_, ~struck~, code, quotes and lists.

There is no way to escape a sign there, and none of these counts within a word: what stands next to
a letter stays unmarked. Links are spelled out; a table is set in columns of equal width, or row by
row where it is wider than a telephone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from channels.splitting import has_vast_table

_WIDEST_TABLE = 44
"""Characters of a row that a telephone shows on a line."""
_LONGEST_READ = 8_192
"""Characters of a text in which markup is looked for at once."""
_DEEPEST, _MOST_BRACKETS = 30, 500
_LEVEL = r"(?:[ \t]*+(?:>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t])))"
_NESTED = re.compile(f"{_LEVEL}{{{_DEEPEST}}}")  # quotes and lists, at the beginning of a line
_SIGNS = {"strong": "*", "em": "_", "s": "~"}
# A definition of a link would vanish; tags and entities are words here, and so are addresses.
_READER = MarkdownIt("commonmark", {"html": False, "maxNesting": 10 * _DEEPEST})
_READER.enable(["table", "strikethrough"]).disable(["reference", "entity"])
_READER.normalizeLink = lambda url: url  # type: ignore[method-assign]
_READER.normalizeLinkText = lambda link: link  # type: ignore[method-assign]
_READER.validateLink = lambda url: True  # type: ignore[method-assign]


@lru_cache(maxsize=16)
def rendered(markdown: str) -> str:
    """Render the text of one message. Text that would take too long to be read as Markdown, or
    leave nothing to be seen, goes as it is."""
    if len(markdown) > _LONGEST_READ or _is_costly(markdown):
        return markdown
    tokens = _READER.parse(markdown)
    if _has_overfull_row(tokens, markdown.split("\n")):
        return markdown
    return _blocks(SyntaxTreeNode(tokens)).strip("\n") or markdown


def units(text: str) -> int:
    """Its length in UTF-16 units: an emoji counts as two."""
    return len(text) + sum(sign > "\uffff" for sign in text)


def _is_costly(markdown: str) -> bool:
    if has_vast_table(markdown) or markdown.count("[") > _MOST_BRACKETS:
        return True
    return any(map(_NESTED.match, markdown.split("\n")))


def _has_overfull_row(tokens: Sequence[Token], lines: Sequence[str]) -> bool:
    """Return whether a table has a row with more cells than its head: they would vanish."""
    for token in tokens:
        if token.type == "table_open" and token.map:
            head, _ruler, *rows = (line.strip(" |").count("|") for line in lines[slice(*token.map)])
            if any(row > head for row in rows):
                return True
    return False


def _blocks(node: SyntaxTreeNode, between: str = "\n\n") -> str:
    return between.join(filter(None, map(_block, node.children)))


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "paragraph":
            return _inline(node)
        case "heading":
            return _marked(_inline(node, is_bold=True), "*")
        case "fence" | "code_block":
            return _code(node.content)
        case "blockquote":
            return "\n".join(f"> {line}".rstrip() for line in _blocks(node).split("\n"))
        case "bullet_list" | "ordered_list":
            return _list(node)
        case "table":
            return _table(node)
        case "hr":
            return "———"
    return node.content or _blocks(node)


def _code(content: str) -> str:
    return f"```\n{content.rstrip()}\n```" if content.strip() else ""


def _list(node: SyntaxTreeNode) -> str:
    items = []
    for item in node.children:
        sign = f"{item.info}." if item.info else "-"
        text = _blocks(item, "\n").replace("\n", "\n   ")
        items.append(f"{sign} {text}")
    return "\n".join(items)


def _table(node: SyntaxTreeNode) -> str:
    rows = [
        [_inline(cell, is_plain=True).replace("\n", " ") for cell in row.children]
        for part in node.children
        for row in part.children
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + 2 * len(widths) <= _WIDEST_TABLE:
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return _code("\n".join(lines))
    head, *body = rows
    if not body:
        return " · ".join(head)
    return "\n\n".join(_record(head, row) for row in body)


def _record(head: list[str], row: list[str]) -> str:
    """Return a row of a wide table, its cells below one another."""
    return "\n".join(
        f"- {name}: {cell}" if name else f"- {cell}" for name, cell in zip(head, row, strict=True)
    )


def _inline(node: SyntaxTreeNode, *, is_bold: bool = False, is_plain: bool = False) -> str:
    """Return the text of a paragraph, a heading or a cell; where it `is_bold` or `is_plain`, what
    is bold, or marked up, within is not marked."""
    return "".join(_spans(node.children, is_bold=is_bold, is_plain=is_plain))


def _spans(nodes: list[SyntaxTreeNode], *, is_bold: bool, is_plain: bool) -> Iterator[str]:
    before = ""
    for place, node in enumerate(nodes):
        text = _span(node, is_bold=is_bold, is_plain=is_plain)
        sign = "" if is_plain or (is_bold and node.type == "strong") else _SIGNS.get(node.type, "")
        following = nodes[place + 1].content[:1] if place + 1 < len(nodes) else ""
        if sign and not before[-1:].isalnum() and not following.isalnum():
            text = _marked(text, sign)
        elif sign == "_":  # within a word, it may be a product: 2*3*4
            text = f"{node.markup}{text}{node.markup}"
        before = text or before
        yield text


def _span(node: SyntaxTreeNode, *, is_bold: bool, is_plain: bool) -> str:
    match node.type:
        case "softbreak" | "hardbreak":
            return "\n"
        case "code_inline":
            return node.content if is_plain else f"`{node.content}`"
        case "link":
            return _link(_inline(node, is_bold=is_bold, is_plain=is_plain), node, "href")
        case "image":
            return _link(node.content, node, "src")
    if node.children:
        inner = is_bold or node.type == "strong"
        return _inline(node, is_bold=inner, is_plain=is_plain)
    return node.content


def _link(words: str, node: SyntaxTreeNode, name: str) -> str:
    address = str(node.attrs[name]).removeprefix("mailto:")
    title = f' "{node.attrs["title"]}"' if node.attrs.get("title") else ""
    return f"{words} ({address}{title})" if words.strip() not in ("", address) else address + title


def _marked(text: str, sign: str) -> str:
    """Signs around each line: they count only where both stand on one."""
    return "\n".join(
        f"{sign}{line.strip()}{sign}" if line.strip() else line for line in text.split("\n")
    )
