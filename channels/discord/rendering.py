"""Markdown as Discord reads it.

Discord's dialect is its own: `__` underlines, `||` hides, `<@…>` mentions, there are neither tables
nor pictures, and a backslash takes the meaning of any punctuation. So the text is read as Markdown
(by markdown-it) and written anew; what Discord could misread goes without its markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len

from channels.splitting import has_vast_table

LONGEST = 2000
"""Characters of a message, counted in UTF-16 as Discord's apps count them."""

_markdown = MarkdownIt("commonmark", {"html": False, "maxNesting": 100})
_markdown.enable(["table", "strikethrough"])

_LONGEST_READ = 2 * LONGEST  # characters in which markup is looked for at once
_HARDLY_ANY = 100  # characters of markup that may vanish whatever is left
_LEVEL = r"(?:[ \t]*+(?:>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t])))"
_NESTED = re.compile(f"{_LEVEL}{{30}}")  # quotes and lists that nobody would see as such

_ADDRESS = re.compile(r"https?://[^\s<>\\`，。；：！？、（）「」“”]+", re.IGNORECASE)
_AFTER_ADDRESS = ".,:;!?\"'*_~|"
_LIKE_ADDRESS = re.compile(r"://|^\s*\S+\.[a-z]{2,}(/\S*)?\s*$", re.IGNORECASE)
_MEANINGFUL = re.compile(r"[\\*_`]|~~|\|\||<(?=[@#:/a-zA-Z])|\](?=\()")
_AT_LINE_START = re.compile(
    r"^([ \t]*)(#{1,3}|-#|[-+>]|>>>|\d+(?=\.))(?=\.?(?:\s|$))", re.MULTILINE
)
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_LANGUAGE = re.compile(r"[A-Za-z0-9_+\-.#]+")
_NOTHING = "\u200b"  # keeps apart what Discord would read as one; it takes no room
_LINE = "⎯" * 12
_WIDEST = 100  # columns of a table that is aligned; a wider one would be torn by the window


def length(markdown: str) -> int:
    """Return how long a text is once it is rendered."""
    return units(rendered(markdown))


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "replace")) // 2


@lru_cache(maxsize=16)
def rendered(markdown: str) -> str:
    """Render one message. Markup that would be read as hardly any text, or that nests too deeply,
    is escaped. The text that was measured last is sent next, hence the cache."""
    if len(markdown) > _LONGEST_READ or has_vast_table(markdown):
        return escaped(markdown)
    if any(map(_NESTED.match, markdown.split("\n"))):
        return escaped(markdown)
    text = _blocks(SyntaxTreeNode(_markdown.parse(markdown)).children)
    if 4 * _signs(text) < _signs(markdown) - _HARDLY_ANY or not text.strip():
        return escaped(markdown)
    return text


def escaped(text: str) -> str:
    """Return a text that shows as it stands."""
    return _with_plain_lines(_words(text))


def _signs(text: str) -> int:
    return sum(map(str.isalnum, text))


def _words(text: str) -> str:
    """Text without meaning for Discord; addresses stay whole, and are not previewed: whoever runs
    one could tell that it was read."""
    parts, at = [], 0
    for found in _ADDRESS.finditer(text):
        address = _trimmed(found[0])
        if found.start() >= at and len(address) > len("https://"):
            parts += [_escaped(text[at : found.start()]), f"<{address}>"]
            at = found.start() + len(address)
    return "".join((*parts, _escaped(text[at:])))


def _trimmed(address: str) -> str:
    """Without the punctuation of the sentence that it stands in."""
    while address[-1:] and (
        address[-1] in _AFTER_ADDRESS
        or (address[-1] in ")]" and address.count("(") < address.count(")") + (address[-1] == "]"))
    ):
        address = address[:-1]
    return address


def _escaped(text: str) -> str:
    return _MEANINGFUL.sub(lambda found: "".join(f"\\{sign}" for sign in found[0]), text)


def _with_plain_lines(text: str) -> str:
    """With no line that begins like a heading, a list or a quote."""

    def disarm(found: re.Match[str]) -> str:
        space, mark = found[1], found[2]
        return f"{space}{mark}\\" if mark.isdigit() else f"{space}\\{mark}"

    return _AT_LINE_START.sub(disarm, text)


# Blocks.


def _blocks(nodes: Sequence[SyntaxTreeNode], quoted: bool = False) -> str:
    text = ""
    for index, node in enumerate(nodes):
        block = _block(node, quoted)
        after_heading = index > 0 and nodes[index - 1].type == "heading"
        gap = "" if not text else "\n" if after_heading else "\n\n"
        text += gap + block if block else ""
    return text


def _block(node: SyntaxTreeNode, quoted: bool) -> str:
    match node.type:
        case "paragraph":
            return _with_plain_lines(_inline(node))
        case "heading":
            return _heading(node)
        case "fence" | "code_block":
            return _code(node.content, node.info)
        case "blockquote":
            inner = _blocks(node.children, quoted=True)
            return inner if quoted else "\n".join(f"> {line}" for line in inner.split("\n"))
        case "bullet_list" | "ordered_list":
            return _list(node, quoted)
        case "table":
            return _table(node)
        case "hr":
            return _LINE
        case _:
            return escaped(node.content)


def _heading(node: SyntaxTreeNode) -> str:
    level = int(node.tag[1:])
    words = _inline(node, {"strong"} if level > 3 else frozenset()).replace("\n", " ")
    if not words.strip():
        return ""
    return f"{'#' * level} {words}" if level <= 3 else _marked("**", words, "", "")


def _code(content: str, info: str = "") -> str:
    language = _LANGUAGE.match(info)
    safe = content.replace("```", f"``{_NOTHING}`").replace("```", f"``{_NOTHING}`").rstrip("\n")
    return f"```{language[0] if language else ''}\n{safe if safe.strip() else f'{_NOTHING}'}\n```"


def _list(node: SyntaxTreeNode, quoted: bool) -> str:
    first = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else 0
    lines: list[str] = []
    for number, item in enumerate(node.children, first):
        lines += _item(item, f"{number}. " if node.type == "ordered_list" else "- ", quoted)
    return "\n".join(lines)


def _item(node: SyntaxTreeNode, mark: str, quoted: bool) -> Iterator[str]:
    """Its lines. What Discord reads at the beginning of a line alone stands there."""
    begins = bool(node.children) and node.children[0].type == "paragraph"
    first, *others = _block(node.children[0], quoted).split("\n") if begins else (_NOTHING,)
    yield mark + first
    yield from (f"  {line}" for line in others)
    for block in node.children[begins:]:
        is_flush = block.type in ("fence", "code_block", "blockquote", "table", "heading")
        for line in _block(block, quoted).split("\n"):
            yield line if is_flush else f"  {line}"


def _table(node: SyntaxTreeNode) -> str:
    """As code, whose letters are all of one width. One that is too wide is not aligned."""
    cells = [row.children for part in node.children for row in part.children]
    rows = [[" ".join(_plain(cell).split()) for cell in row] for row in cells]
    sides = ["right" in str(cell.attrs.get("style", "")) for cell in cells[0]]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + 3 * len(widths) > _WIDEST:
        widths = [0] * len(widths)
    lines = [" | ".join(map(_padded, row, widths, sides)).rstrip() for row in rows]
    lines.insert(1, "-+-".join("-" * max(width, 1) for width in widths))
    return _code("\n".join(lines))


def _padded(cell: str, width: int, is_right: bool) -> str:
    space = " " * (width - cell_len(cell))
    return space + cell if is_right else cell + space


def _plain(node: SyntaxTreeNode) -> str:
    """Return a cell's words, without markup; of a link, the address too."""
    match node.type:
        case "text" | "code_inline":
            return node.content
        case "softbreak" | "hardbreak":
            return " "
        case "image":
            return f"{node.content} ({node.attrs['src']})"
        case "link":
            words, href = "".join(map(_plain, node.children)), str(node.attrs["href"])
            return words if words == href else f"{words} ({href})"
        case _:
            return "".join(map(_plain, node.children))


# Within a line.

_MARKS = {"strong": "**", "em": "_", "s": "~~"}


def _inline(node: SyntaxTreeNode, within: frozenset[str] | set[str] = frozenset()) -> str:
    """Return the words and markup of a node; `within` is what is marked around it."""
    pieces = [
        child
        for one in node.children
        for child in (one.children if one.type == "inline" else [one])
    ]
    texts = [_span(child, within) for child in pieces]
    text = ""
    for index, (child, inner) in enumerate(zip(pieces, texts, strict=True)):
        if child.type not in _MARKS or child.type in within:
            text += inner
            continue
        following = next(filter(None, texts[index + 1 :]), "")
        text += _marked(_MARKS[child.type], inner, text[-1:], following[:1])
    return text


def _span(node: SyntaxTreeNode, within: frozenset[str] | set[str]) -> str:
    match node.type:
        case "text":
            return _escaped_brackets(node.content) if "link" in within else _words(node.content)
        case "softbreak" | "hardbreak":
            return "\n"
        case "code_inline":
            return _code_span(node.content)
        case "link":
            words = "".join(map(_plain, node.children))
            return _link(_inline(node, {*within, "link"}), str(node.attrs["href"]), words)
        case "image":
            words = _escaped_brackets(node.content)
            return _link(words, str(node.attrs["src"]), node.content)
        case _:
            return _inline(node, {*within, node.type})


def _marked(mark: str, inner: str, before: str, after: str) -> str:
    """Words in bold and the like, where Discord can't misread it. `before` and `after` are the
    signs on both sides."""
    if not inner.strip() or inner[:1].isspace() or inner[-1:].isspace():
        return inner
    if mark == "_" and (_keeps_open(before) or _keeps_open(after)):
        mark = "*"
    bare = _ESCAPE.sub("", inner)
    is_clear = mark[0] not in (before, after) and mark[0] not in bare and not bare.endswith("\\")
    return f"{mark}{inner}{mark}" if is_clear else inner


def _keeps_open(sign: str) -> bool:
    """Return whether `_` beside it is no mark for Discord: a word goes on, or `~~` does."""
    return sign in ("_", "~") or sign.isalnum()


def _code_span(content: str) -> str:
    if "`" not in content:
        return f"`{content}`"
    safe = content.replace("``", f"`{_NOTHING}`").replace("``", f"`{_NOTHING}`")
    start, end = (" " if safe[place] == "`" else "" for place in (0, -1))
    return f"``{start}{safe}{end}``"


def _escaped_brackets(text: str) -> str:
    return re.sub(r"[\[\]]", lambda found: f"\\{found[0]}", _escaped(text).replace(r"\]", "]"))


def _link(inner: str, address: str, words: str) -> str:
    """Words that lead to an address. Discord shows them so only for the web, and not where they
    look like an address themselves."""
    safe = address.replace("(", "%28").replace(")", "%29").replace("\\", "%5C")
    is_web = address.lower().startswith(("http://", "https://"))
    if not words.strip() or words.strip() == address:
        return f"<{safe}>" if is_web else escaped(address)
    if not is_web:
        known = words in (address, address.removeprefix("mailto:"))
        return inner if known else f"{inner} ({_escaped(address)})"
    if _LIKE_ADDRESS.search(words) or "]" in _ESCAPE.sub("", inner) or "<" in inner:
        return f"{inner} (<{safe}>)"
    return f"[{inner}](<{safe}>)"
