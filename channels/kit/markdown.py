"""Markdown, read and walked once for all platforms that show no HTML. A `Dialect` says how one of
them writes each kind of block, and what stands within a line."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from html import unescape
from typing import Any, Generic, TypeVar

from markdown_it import MarkdownIt
from markdown_it.common.normalize_url import normalizeLink
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len

from channels.splitting import is_costly

Within = frozenset[str]
Piece = TypeVar("Piece", str, list[dict[str, Any]])

MARKS = frozenset({"strong", "em", "s"})
_NESTING = 100  # levels of blocks, or of marks
_MOST_BRACKETS = 500  # more of them could take long
_LINE_END = re.compile(r"\r\n?")
_NUMBER = re.compile(r"\[(\d+)\]")
_DEFINITION = re.compile(r" {0,3}\[\d+\]:[ \t]*<?([^\s<>]+)>?[ \t]*")


def has_all(shown: str, markdown: str) -> bool:
    """Return whether each letter and digit of a text is shown."""
    missing = Counter(unescape(markdown).casefold())
    missing.subtract(Counter(unescape(shown).casefold()))
    return not any(count > 0 and sign.isalnum() for sign, count in missing.items())


class Dialect(ABC, Generic[Piece]):
    """A platform's way to write Markdown, of which up to `longest` characters are read at once, and
    some rules (`off`) are none there. `within` names the marks and blocks around something."""

    may_touch = False
    """Whether one mark is one also next to another, whatever that has within."""

    def __init__(self, empty: Piece, longest: int, off: Sequence[str] = ()) -> None:
        self._empty: Piece = empty
        self._longest = longest
        self._parser = make_parser(*off)
        self._parser.validateLink = lambda url: True  # type: ignore[method-assign]

    def write(self, markdown: str) -> Piece:
        """Write a text; nothing where it would take long to read it."""
        is_long = len(markdown) > self._longest or markdown.count("[") > _MOST_BRACKETS
        if is_long or is_costly(markdown):
            return self._empty
        return self.blocks(read(markdown, self._parser), frozenset())

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
                return self.ruler()
        return self.paragraph(node, within)

    def inline(self, node: SyntaxTreeNode, within: Within) -> Piece:
        """Write what stands within a paragraph, a heading, or a mark."""
        nodes = [
            inner
            for child in node.children
            for inner in (child.children if child.type == "inline" else [child])
        ]
        found = [(one, piece) for one in nodes if (piece := self._span(one, within))]
        written = self._empty
        for place, (one, piece) in enumerate(found, 1):
            if one.type in MARKS:
                following, after = found[place] if place < len(found) else (node, self._empty)
                is_mark = self.may_touch and following.type in MARKS
                beside = (written, self._empty if is_mark else after)
                written = written + self.mark(one, piece, beside, within)
            else:
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
    def paragraph(self, node: SyntaxTreeNode, within: Within) -> Piece: ...

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
    def ruler(self) -> Piece: ...

    @abstractmethod
    def words(self, text: str, within: Within) -> Piece:
        """Write words that mean nothing but themselves."""

    @abstractmethod
    def code_span(self, content: str) -> Piece: ...

    @abstractmethod
    def mark(
        self, node: SyntaxTreeNode, inner: Piece, beside: tuple[Piece, Piece], within: Within
    ) -> Piece:
        """Write what is bold, slanted or struck out; `beside` is what stands before it, and what
        comes behind it, without its own mark."""

    @abstractmethod
    def link(self, node: SyntaxTreeNode, label: Piece) -> Piece:
        """Write a link, or a picture as a link to it: loading one tells who reads."""


def make_parser(*off: str) -> MarkdownIt:
    """Return a parser whose nodes have all of a text in them, where some rules are `off`."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING})
    # An address stays as it was written; `encode` is for the link itself.
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    parser.normalizeLinkText = lambda link: link  # type: ignore[method-assign]
    return parser.enable(["table", "strikethrough"]).disable(off)


def read(markdown: str, parser: MarkdownIt) -> Sequence[SyntaxTreeNode]:
    """Return the blocks of a text. One of which the parser would leave out a part, such as a cell
    beside a table's columns, stands as it is; so does a definition of a link, except one with a
    number that a link refers to."""
    markdown = _LINE_END.sub("\n", markdown)
    lines, known = markdown.split("\n"), {"references": dict[str, object]()}
    root = SyntaxTreeNode(parser.parse(markdown, known))
    sources = [range(*(node.map or (0, 0))) for node in root.children]
    found = [
        node if _is_whole(node, lines[source.start : source.stop], known["references"]) else None
        for node, source in zip(root.children, sources, strict=True)
    ]
    links = [one for node in found if node for one in node.walk() if one.type in ("link", "image")]
    addresses = {address_of(one) for one in links}
    blocks, at = list[SyntaxTreeNode](), 0
    for node, source in zip((*found, None), (*sources, range(len(lines), 0)), strict=True):
        blocks += _verbatim(
            [one for one in lines[at : source.start] if not _is_used(one, addresses)]
        )
        blocks += [node] if node else _verbatim(lines[source.start : source.stop])
        at = source.stop
    return blocks


def _is_whole(node: SyntaxTreeNode, lines: Sequence[str], labels: Collection[str]) -> bool:
    """Return whether all of a block is in its node, numbers of links apart."""
    source = "\n".join(lines)
    numbers = filter(labels.__contains__, _NUMBER.findall(source))
    return has_all("\n".join((*_contents(node), *numbers)), source)


def _is_used(line: str, addresses: Collection[str]) -> bool:
    found = _DEFINITION.fullmatch(line)
    return found is not None and found[1] in addresses


def _verbatim(lines: Sequence[str]) -> Sequence[SyntaxTreeNode]:
    """Return lines as a paragraph without markup, if anything is in them."""
    text = "\n".join(lines).strip("\n")
    words = [
        token
        for line in text.split("\n")
        for token in (Token("softbreak", "br", 0), Token("text", "", 0, content=line))
    ]
    paragraph = [
        Token("paragraph_open", "p", 1, block=True),
        Token("inline", "", 0, children=words[1:], block=True),
        Token("paragraph_close", "p", -1, block=True),
    ]
    return SyntaxTreeNode(paragraph).children if text.strip() else ()


def _contents(block: SyntaxTreeNode) -> Iterator[str]:
    """Yield all that a block says, also beside its text."""
    for node in block.walk():
        if not node.children:
            yield node.content
        if node.block:  # the language of code, the number in a list
            yield node.info
        if node.markup != "autolink":
            yield from (str(node.attrs.get(name, "")) for name in ("href", "src", "title"))


def address_of(node: SyntaxTreeNode) -> str:
    """Return the address of a link or a picture."""
    return str(node.attrs["src" if node.type == "image" else "href"])


def encode(address: str) -> str:
    """Return an address of the web as a link has it."""
    return normalizeLink(address)


def words_of(node: SyntaxTreeNode) -> str:
    """Return what stands within a node, without markup; of a link, the address too."""
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


class Table:
    """The cells of a table as plain words, and the columns of a screen that each column takes."""

    def __init__(self, node: SyntaxTreeNode) -> None:
        rows = [row.children for part in node.children for row in part.children]
        self.rows = [[words_of(cell) for cell in row] for row in rows]
        self.widths = [max(map(cell_len, column)) for column in zip(*self.rows, strict=True)]
        self._is_right = ["right" in str(cell.attrs.get("style", "")) for cell in rows[0]]

    def draw(self, *, is_aligned: bool, between: str = " | ", ruler: str = "-+-") -> str:
        """Return it for letters that have all one width."""
        widths = self.widths if is_aligned else [0] * len(self.widths)
        lines = [between.join(map(_pad, row, widths, self._is_right)) for row in self.rows]
        if ruler:
            lines.insert(1, ruler.join("-" * (width or 3) for width in widths))
        return "\n".join(map(str.rstrip, lines))


def _pad(cell: str, width: int, is_right: bool) -> str:
    space = " " * (width - cell_len(cell))
    return space + cell if is_right else cell + space
