"""Markdown, read and walked once for all platforms. A `Dialect` says how one that shows no HTML
writes each kind of block, and what stands within a line. In HTML (`render_html`) nothing that was
written is lost, and no tag that was written becomes one.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence
from functools import lru_cache
from html import escape, unescape
from itertools import accumulate
from typing import Any, Generic, TypeVar

from markdown_it import MarkdownIt
from markdown_it.common.normalize_url import normalizeLink
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from markdown_it.utils import OptionsDict
from rich.cells import cell_len

from channels.formulas import as_written, change_parts
from channels.splitting import DEEPEST, is_costly

Within = frozenset[str]
Piece = TypeVar("Piece", str, list[dict[str, Any]])

VERBATIM = "verbatim"
MARKS = frozenset({"strong", "em", "s"})
_NESTING = 100  # levels of blocks, or of marks
_MOST_BRACKETS = 500  # in a paragraph
_AROUND = ("blockquote", "bullet_list", "ordered_list", "list_item")
_BEFORE = re.compile(r"(?:[ \t]*(?:>|(?:[-+*]|\d{1,9}[.)])(?=[ \t])))*+[ \t]*+")
_DEFINED = re.compile(r"^ {0,3}\[([^\[\]\n]+)\]:[ \t]*<?([^\s<>]+)>?[ \t]*$", re.MULTILINE)
_REFERENCE = re.compile(r"(?<!\\)\[([^\[\]\n]+)\](?:\[([^\[\]\n]*)\])?(?![\[(:])")
_LINE_END = re.compile(r"\r\n?")


class Dialect(ABC, Generic[Piece]):
    """A platform's way to write Markdown. Up to `longest` characters are parsed at once, and the
    rules in `off` are disabled. `within` names the enclosing marks and blocks."""

    ruler = "─" * 12

    def __init__(self, empty: Piece, longest: int, off: Sequence[str] = ()) -> None:
        self._empty: Piece = empty
        self._longest = longest
        self._parser = make_parser(*off)
        self._parser.validateLink = lambda url: True  # type: ignore[method-assign]

    def write(self, markdown: str) -> Piece:
        """Write a text; an empty piece if parsing would take long."""
        if len(markdown) > self._longest or takes_long(markdown):
            return self._empty
        return self.blocks(read(join_links(markdown), self._parser), frozenset())

    def block(self, node: SyntaxTreeNode, within: Within) -> Piece:
        """Write one block."""
        match node.type:
            case "heading":
                return self.heading(node, within)
            case "fence" | "code_block":
                return self.code(node.content.rstrip("\n"), node.info, within)
            case "blockquote":
                return self.quote(node, within)
            case "bullet_list" | "ordered_list":
                return self.listing(node, within)
            case "table":
                return self.table(node, within)
            case "hr":
                return self.words(self.ruler, within)
        return self.paragraph(node, within)

    def paragraph(self, node: SyntaxTreeNode, within: Within) -> Piece:
        return self.inline(node, within)

    def inline(self, node: SyntaxTreeNode, within: Within) -> Piece:
        """Write the content of a paragraph, a heading, or a mark."""
        nodes = [
            inner
            for child in node.children
            for inner in (child.children if child.type == "inline" else [child])
        ]
        found = [(one, piece) for one in nodes if (piece := self._span(one, within))]
        behind, after = list[Piece](), self._empty
        for one, piece in reversed(found):
            behind.append(after)
            after = self._empty if self.is_apart(one, after, within) else piece
        written = self._empty
        for (one, piece), after in zip(found, reversed(behind), strict=True):
            if one.type in MARKS:
                piece = self.mark(one, piece, (written, after), within)
            written = written + piece
        return written

    def _span(self, node: SyntaxTreeNode, within: Within) -> Piece:
        match node.type:
            case "text":
                return self.words(node.content, within)
            case "softbreak" | "hardbreak":
                return self.words("\n", within)
            case "code_inline":
                return self.code_span(node.content)
            case "link" | "image":
                return self.link(node, self.inline(node, within | {"link"}))
        return self.inline(node, within | {node.type})

    @abstractmethod
    def blocks(self, nodes: Sequence[SyntaxTreeNode], within: Within) -> Piece:
        """Write blocks below one another."""

    @abstractmethod
    def heading(self, node: SyntaxTreeNode, within: Within) -> Piece: ...

    @abstractmethod
    def code(self, content: str, info: str, within: Within) -> Piece: ...

    @abstractmethod
    def quote(self, node: SyntaxTreeNode, within: Within) -> Piece: ...

    @abstractmethod
    def listing(self, node: SyntaxTreeNode, within: Within) -> Piece: ...

    @abstractmethod
    def table(self, node: SyntaxTreeNode, within: Within) -> Piece: ...

    @abstractmethod
    def words(self, text: str, within: Within) -> Piece:
        """Write literal words, escaped."""

    @abstractmethod
    def code_span(self, content: str) -> Piece: ...

    @abstractmethod
    def mark(
        self, node: SyntaxTreeNode, inner: Piece, beside: tuple[Piece, Piece], within: Within
    ) -> Piece:
        """Write bold, italic or struck-out text; `beside` is the text before it, and the text after
        it, without its mark unless that `is_apart`."""

    def is_apart(self, node: SyntaxTreeNode, after: Piece, within: Within) -> bool:
        """Return whether the mark of a node separates its content from the text before it."""
        return False

    @abstractmethod
    def link(self, node: SyntaxTreeNode, label: Piece) -> Piece:
        """Write a link, or a picture as a link to it: loading one reveals the reader."""


def make_parser(*off: str) -> MarkdownIt:
    """Return a parser for `read`, with the rules in `off` disabled."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING})
    # An address stays as it was written; `encode` is for the link itself.
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    parser.normalizeLinkText = lambda link: link  # type: ignore[method-assign]
    # A definition would not be shown; `join_links` handles those that are used.
    return parser.enable(["table", "strikethrough"]).disable(["reference", *off])


def takes_long(markdown: str) -> bool:
    """Return whether a parser could take long over a text."""
    brackets = max(part.count("[") for part in markdown.split("\n\n"))
    return brackets > _MOST_BRACKETS or is_costly(markdown)


def join_links(markdown: str) -> str:
    """Insert addresses defined elsewhere in a text (`[1]: https://…`) into the links that use them;
    an unused definition stays."""
    known, used = dict[str, str](), set[str]()

    def find(text: str) -> str:
        known.update((name.casefold(), address) for name, address in _DEFINED.findall(text))
        return text

    def join(found: re.Match[str]) -> str:
        name = (found[2] or found[1]).casefold()
        used.update({name} & known.keys())
        return f"[{found[1]}](<{known[name]}>)" if name in known else found[0]

    def drop(found: re.Match[str]) -> str:
        return "" if found[1].casefold() in used else found[0]

    if "]:" in markdown:
        change_parts(markdown, find)
        markdown = change_parts(markdown, lambda text: _REFERENCE.sub(join, text))
        markdown = change_parts(markdown, lambda text: _DEFINED.sub(drop, text))
    return markdown


def read(markdown: str, parser: MarkdownIt) -> Sequence[SyntaxTreeNode]:
    """Return the blocks of a text. A block of which the parser would omit a part, such as a cell
    beyond a table's columns, becomes a paragraph `VERBATIM` with its source."""
    lines = _LINE_END.sub("\n", markdown).split("\n")
    tokens = parser.parse(markdown)
    for token in tokens:
        if _depth(token.children or ()) > DEEPEST:
            token.children = _as_words(token.content.split("\n"))
    return [_kept(node, lines) for node in SyntaxTreeNode(tokens).children]


def _depth(tokens: Sequence[Token]) -> int:
    """Return the nesting depth of marks, links and pictures."""
    levels = accumulate((token.nesting for token in tokens), initial=0)
    within = (_depth(token.children) + 1 for token in tokens if token.children)
    return max(levels) + max(within, default=0)


def _as_words(lines: Sequence[str]) -> list[Token]:
    """Return the tokens of lines without markup."""
    return [
        token
        for line in lines
        for token in (Token("softbreak", "br", 0), Token("text", "", 0, content=line))
    ][1:]


def _kept(node: SyntaxTreeNode, lines: Sequence[str]) -> SyntaxTreeNode:
    """Return a block; a block with omitted text, or the inner block that has it, becomes plain
    words."""
    begin, end = node.map or (0, 0)
    source = "\n".join(lines[begin:end])
    if has_all("\n".join(_contents(node)), source):
        return node
    if node.type in _AROUND:
        inner = [*lines]
        inner[begin:end] = [_BEFORE.sub("", line, count=1) for line in lines[begin:end]]
        node.children = [_kept(child, inner) for child in node.children]
        if has_all("\n".join(_contents(node)), source):
            return node
    words = _as_words(lines[begin:end])
    tokens = [
        Token("paragraph_open", "p", 1, block=True, map=[begin, end], info=VERBATIM),
        Token("inline", "", 0, children=words, block=True),
        Token("paragraph_close", "p", -1, block=True),
    ]
    return SyntaxTreeNode(tokens).children[0]


def _contents(block: SyntaxTreeNode) -> Iterator[str]:
    """Yield all text of a block, including its attributes."""
    for node in block.walk():
        if node.type == "formula" and node.token:
            yield as_written(node.token)
        elif not node.children:
            yield node.content
        if node.block:  # the language of code, the number in a list
            yield node.info
        if node.markup != "autolink":
            yield from (str(node.attrs.get(name, "")) for name in ("href", "src", "title"))


def has_all(shown: str, markdown: str) -> bool:
    """Return whether each letter and digit of a text is shown."""
    missing = Counter(unescape(markdown).casefold())
    missing.subtract(Counter(unescape(shown).casefold()))
    return not any(count > 0 and sign.isalnum() for sign, count in missing.items())


def address_of(node: SyntaxTreeNode) -> str:
    """Return the address of a link or a picture."""
    return str(node.attrs["src" if node.type == "image" else "href"])


def encode(address: str) -> str:
    """Return a web address encoded for a link."""
    return normalizeLink(address)


def words_of(node: SyntaxTreeNode) -> str:
    """Return the content of a node without markup; for a link, the address too."""
    match node.type:
        case "text" | "code_inline":
            return node.content
        case "softbreak" | "hardbreak":
            return " "
    words = "".join(map(words_of, node.children))
    return spell_out(words, address_of(node)) if node.type in ("link", "image") else words


def spell_out(words: str, address: str) -> str:
    """Return the words of a link and its address, or the address alone."""
    return f"{words} ({address})" if words.strip() not in ("", address) else address


def guard_fence(code: str) -> str:
    """Return code whose backticks can't end its block; they are separated by zero-width spaces."""
    return code.replace("```", "``\u200b`").replace("```", "``\u200b`")


class Table:
    """The cells of a table as plain words, and the screen width of each column."""

    def __init__(self, node: SyntaxTreeNode) -> None:
        rows = [row.children for part in node.children for row in part.children]
        self.rows = [[words_of(cell) for cell in row] for row in rows]
        self.widths = [max(map(cell_len, column)) for column in zip(*self.rows, strict=True)]
        self._is_right = ["right" in str(cell.attrs.get("style", "")) for cell in rows[0]]

    def draw(self, *, is_aligned: bool = True, between: str = " | ", ruler: str = "-+-") -> str:
        """Return the table for a monospaced font."""
        widths = self.widths if is_aligned else [0] * len(self.widths)
        lines = [between.join(map(_pad, row, widths, self._is_right)) for row in self.rows]
        if ruler:
            lines.insert(1, ruler.join("-" * (width or 3) for width in widths))
        return "\n".join(map(str.rstrip, lines))


def _pad(cell: str, width: int, is_right: bool) -> str:
    space = " " * (width - cell_len(cell))
    return space + cell if is_right else cell + space


_HTML = make_parser()
_HTML.options["breaks"] = True


@lru_cache(maxsize=16)
def render_html(markdown: str) -> str:
    """Return the HTML of a text; "" if it has no markup, or parsing would take too long."""
    if takes_long(markdown):
        return ""
    tokens = [one for node in read(join_links(markdown), _HTML) for one in node.to_tokens()]
    html = str(_HTML.renderer.render(tokens, _HTML.options, {})).strip()
    return "" if html.replace("<br />", "") == f"<p>{escape(markdown)}</p>" else html


def _open_link(
    self: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    tokens[index].attrSet("href", encode(str(tokens[index].attrs["href"])))
    return self.renderToken(tokens, index, options, env)


def _show_image(
    self: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    """Render a picture as a link: loading a picture reveals the reader to its server. Within a link
    its address is spelled out."""
    address = encode(str(tokens[index].attrs["src"]))
    name = self.renderInlineAsText(tokens[index].children, options, env)
    if sum(token.nesting for token in tokens[:index] if token.tag == "a"):
        return escape(spell_out(name, address))
    return f'<a href="{escape(address)}">{escape(name or address)}</a>'


_HTML.add_render_rule("link_open", _open_link)
_HTML.add_render_rule("image", _show_image)
