"""Markdown in the terminal. Loaded at the first answer: rich.markdown takes 50 ms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.measure import Measurement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from channels.formulas import as_written, find_formulas
from channels.kit.markdown import make_parser, read
from channels.language import _
from channels.terminal import theme
from channels.terminal.code import hold, mark
from channels.terminal.figures import swatch

_PARSER = make_parser().use(find_formulas)

_BLOCKS = MarkdownIt().enable("table").disable(["html_block", "reference"])
_BLOCKS.use(find_formulas, is_growing=True).core.ruler.enableOnly(["normalize", "block"])

# Columns: per level of nesting, the maximum for all levels, the minimum left for text.
_LEVEL, _DEEPEST, _NARROWEST = 4, 60, 12
_SEPARATOR = Text(" · ")
_SHORT = 6  # columns of a short name such as t12
_WIDEST = 100_000  # columns, enough for everything
_LONGEST_COLOURED = 50_000  # characters of code, which take a second


def measure_finished(source: str) -> int:
    """Return the length of the blocks at the beginning of `source` that no further line can change:
    all but the last one, and the last one if it is closed. `source` must end with a newline: half a
    line may still turn into something else ("#" into "#hashtag")."""
    tokens = _BLOCKS.parse(source)
    blocks = [(token, token.map[0]) for token in tokens if token.map and not token.level]
    if not blocks or _is_closed(blocks[-1][0], source):
        return len(source)
    _, begins = blocks[-1]
    return sum(len(line) + 1 for line in source.split("\n")[:begins])


def _is_closed(block: Token, source: str) -> bool:
    is_paragraph = block.type == "paragraph_open"
    return block.type in ("heading_open", "hr") or (is_paragraph and source.endswith("\n\n"))


def list_code(source: str) -> list[str]:
    """Return the code in a text, block by block."""
    blocks = _BLOCKS.parse(source)
    return [one.content.removesuffix("\n") for one in blocks if one.type in ("fence", "code_block")]


def clip_to_end(source: str, width: int, height: int) -> str:
    """Return as much of an unfinished block's end as `height` lines can show, in the same form: a
    code block keeps its opening line, a table its head."""
    most = width * height
    lines = source.split("\n")
    first = next(iter(_BLOCKS.parse("\n".join(line[:most] for line in lines[:2]))), None)
    head = {"fence": 1, "table_open": 2}.get(first.type, 0) if first else 0
    tail = "\n".join(line[-most:] for line in lines[head:][-height:])[-most:]
    return "\n".join((*(line[:most] for line in lines[:head]), tail))


class _LeftAlignedHeading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _Code(CodeBlock):
    """Code in the terminal's own colours, without a background."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).removesuffix("\n")
        lines = _colour(code, self.lexer_name).split("\n", allow_blank=True)
        if code:
            yield mark([*lines])
        yield Segment.line()


class _Formula(_Code):
    """A formula of its own block, as written."""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _Formula:
        return cls("text", "")


def _colour(code: str, language: str) -> Text:
    """Return code with its colours; without if it is too long, or if the lexer would change it."""
    if len(code) <= _LONGEST_COLOURED:
        syntax = Syntax(code, language, theme="ansi_light" if theme.is_light() else "ansi_dark")
        syntax.tab_size = 0  # keep tabs unchanged
        text = syntax.highlight(code)
        text.right_crop(len(text.plain) - len(code))  # the newline that each lexer adds
        if text.plain == code:
            return text
    return Text(code)


class _WholeTable(TableElement):
    """A table that breaks no word: if it is too wide for that, each row is a paragraph. Nothing is
    left out."""

    has_parts = False

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _WholeTable:
        table = cls()
        table.has_parts = isinstance(markdown, Page) and markdown.has_parts
        return table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                if self.has_parts:
                    _colour_parts(table)
                yield from _show_table(table, console, options)
            else:
                yield table


def _colour_parts(table: Table) -> None:
    """Put the colours of parts in front of their names."""
    if table.columns and str(table.columns[0].header) == _("part"):
        cells = [_as_text(cell) for cell in table.columns[0].cells]
        table.columns[0]._cells[:] = [swatch(cell.plain) + cell for cell in cells]


def _show_table(table: Table, console: Console, options: ConsoleOptions) -> RenderResult:
    table.show_edge = False
    anywhere, ranges = options.update_width(_WIDEST), list[Measurement]()
    for column in table.columns:
        cells = [
            Measurement.get(console, anywhere, cell) for cell in (column.header, *column.cells)
        ]
        least, most = (max(sizes) for sizes in zip(*cells, strict=True))
        column.overflow, column.min_width = "fold", least
        ranges.append(Measurement(least, most))
    spare = options.max_width - Measurement.get(console, anywhere, table).minimum
    if spare >= 0:
        for column, width in zip(table.columns, _distribute(ranges, spare), strict=True):
            column.width = width
        yield table
    else:
        yield from _show_rows([[column.header, *column.cells] for column in table.columns])


def _distribute(ranges: Sequence[Measurement], spare: int) -> list[int]:
    """Return the widths of columns that have `spare` columns more than their minimum: the widest
    are limited to one width. `rich` itself makes some narrower than their minimum, and crops the
    line."""
    room = sum(one.minimum for one in ranges) + spare

    def widths(cap: int) -> list[int]:
        return [max(one.minimum, min(one.maximum, cap)) for one in ranges]

    caps = range(max((one.maximum for one in ranges), default=0), 0, -1)
    return next((found for found in map(widths, caps) if sum(found) <= room), widths(0))


def _show_rows(columns: Sequence[Sequence[RenderableType]]) -> Iterator[Text]:
    """Yield a table row by row: the column names once, then each row's first cell, and the others
    below it, or behind it if it is short."""
    names, *rows = zip(*columns, strict=True)
    gap = _SEPARATOR if all(len(_as_text(row[0])) <= _SHORT for row in rows) else Text("\n")
    head = _SEPARATOR.join(filter(None, map(_as_text, names)))
    head.stylize("bold")
    yield head
    for row in rows:
        first, *others = map(_as_text, row)
        first.stylize("bold")
        while others and not others[-1]:
            others.pop()  # an empty cell needs a sign only before another one
        joined = _SEPARATOR.join(cell or Text("–") for cell in others)
        yield gap.join(filter(None, (first, joined)))


def _as_text(cell: RenderableType) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(str(cell))


class Page(Markdown):
    """Markdown for reading in a chat: line breaks are kept, links and pictures show their address.
    Text nested too deeply for the screen is shown as its source."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftAlignedHeading,
        "fence": _Code,
        "code_block": _Code,
        "formula": _Formula,
        "table_open": _WholeTable,
    }

    def __init__(self, source: str, has_parts: bool = False) -> None:
        super().__init__("")
        self.has_parts = has_parts
        self.parsed = [token for node in read(source, _PARSER) for token in node.to_tokens()]
        for token in self.parsed:
            if token.type == "formula":
                token.content = as_written(token)
            elif token.type == "inline":
                token.children = list(_spell_out(token.children or ()))
                for child in token.children:
                    child.content = hold(child.content)
        self._source = Text(hold(source))
        self._indent = _indent(self.parsed)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._indent > min(_DEEPEST, max(0, options.max_width - _NARROWEST)):
            yield self._source
        else:
            yield from super().__rich_console__(console, options)


def _indent(tokens: Iterable[Token]) -> int:
    """Return the maximum number of columns in front of the innermost block."""
    nested = (t.nesting for t in tokens if t.type.startswith(("blockquote", "list_item")))
    return _LEVEL * max(accumulate(nested, initial=0))


def _spell_out(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield inline tokens, with everything that a terminal can't show written as text. The address
    of a link is written out, since its text could hide any address."""
    text, address = "", ""
    for token in tokens:
        match token.type:
            case "softbreak":
                yield Token("hardbreak", "br", 0)
            case "link_open":
                text, address = "", str(token.attrs.get("href", ""))
            case "link_close":
                yield _text("" if text == address else f" ({address})")
            case "formula":
                yield _text(as_written(token))
            case "image":
                yield _text(f"{token.content} ({token.attrs.get('src', '')})".strip())
            case _:
                text += token.content
                yield token


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)
