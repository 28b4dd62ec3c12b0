"""Markdown as Telegram shows it: plain text with entities, in messages of limited length.

With entities Telegram parses no markup, so no answer is refused for its punctuation.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

from markdown_it.tree import SyntaxTreeNode
from msgspec import Struct
from telegram import MessageEntity
from telegramify_markdown import MessageEntity as Entity
from telegramify_markdown import RenderConfig, convert, utf16_len

from channels.formulas import change_parts
from channels.kit.markdown import VERBATIM, Table, make_parser, read, spell_out
from channels.splitting import is_costly

LONGEST = 4096
"""UTF-16 units of a message's text, without its markup."""

_ADDRESS = re.compile(r"(https?://|mailto:|tg://)", re.IGNORECASE)
_TABLES, _FENCE = make_parser(), "~" * 9
_DEFINITION = re.compile(r"^(?P<before>[ \t>*+\-\d.)]*)\[(?P<label>[^\[\]\n]+)\]:", re.MULTILINE)
_NAMELESS = re.compile(r"!?\[\]\(<?(https?://[^\s<>()]+)>?\)")
_TAG = re.compile(r"\\.|<(?!https?://|mailto:)", re.DOTALL)

_MOST_ENTITIES = 100  # Telegram itself drops the others
_LONGEST_READ = 2 * LONGEST
"""The maximum characters of a text that is parsed for markup at once."""
_HARDLY_ANY = 100
"""The number of markup characters that may disappear in any case."""
# Text that takes the converter long, and that no answer needs: it is sent unchanged.
_MOST_DOLLARS, _MOST_ROOTS = 200, 8


def _plain_style() -> RenderConfig:
    style = RenderConfig.isolated()
    symbols = style.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = ""
    symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.unordered_list_item = "•"
    style.cite_expandable = False
    return style


_STYLE = _plain_style()


class Rendered(Struct, frozen=True):
    """A message's text and its markup."""

    text: str
    entities: tuple[MessageEntity, ...] = ()


def rendered(markdown: str) -> Rendered:
    """Render one message. Text that would become invisible is sent unchanged, and so is text that
    would take too long to parse, or does not fit once rendered."""
    text, entities = _converted(markdown)
    if not text.strip():
        return Rendered(markdown)
    if utf16_len(text) > LONGEST >= utf16_len(markdown):
        return Rendered(markdown)
    kept = islice(entities, _MOST_ENTITIES)
    return Rendered(text, tuple(MessageEntity(**entity.to_dict()) for entity in kept))


def measure(markdown: str) -> int:
    """Return the length of a rendered text, in UTF-16 units."""
    text, _ = _converted(markdown)
    return utf16_len(text if text.strip() else markdown)


@lru_cache(maxsize=16)
def _converted(markdown: str) -> tuple[str, list[Entity]]:
    """Return a text's words and its markup. A text that would be parsed as almost only markup stays
    unchanged. The last measured text is rendered next, hence the cache."""
    if len(markdown) > _LONGEST_READ or _takes_long(markdown):
        return markdown, []
    text, entities = _with_addresses_shown(
        *convert(_with_words_shown(_with_tables_drawn(markdown)), config=_STYLE, latex_escape=False)
    )
    kept = _signs(text) + sum(len(entity.url or "") for entity in entities)
    if 4 * kept < _signs(markdown) - _HARDLY_ANY:
        return markdown, []
    return text, entities


def _with_addresses_shown(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """Write the address of a link that Telegram does not accept, such as a path, after its
    words."""
    kept, dead = list[Entity](), list[Entity]()
    for one in entities:
        (kept if one.url is None or _ADDRESS.match(one.url) else dead).append(one)
    units = text.encode("utf-16-le")
    for link in sorted(dead, key=lambda one: one.offset, reverse=True):
        end = link.offset + link.length
        words = units[2 * link.offset : 2 * end].decode("utf-16-le")
        address = link.url or ""
        added = spell_out(words, address)[len(words) :] if words.strip() else f" {address}"
        units = units[: 2 * end] + added.encode("utf-16-le") + units[2 * end :]
        for one in kept:
            if one.offset >= end:
                one.offset += utf16_len(added)
            elif one.offset + one.length > end:
                one.length += utf16_len(added)
    return units.decode("utf-16-le"), kept


def _signs(text: str) -> int:
    """Return the number of visible characters of a text."""
    return len(text) - sum(map(text.count, " \t\n"))


def _takes_long(markdown: str) -> bool:
    """Return whether the converter could take long over a text. Each row of a table is made as wide
    as its widest cell. A nested root is parsed twice at each level. Deeply nested quotes or lists
    are scanned once per level."""
    if is_costly(markdown) or markdown.count("$") > _MOST_DOLLARS:
        return True
    roots = max(formula.count(r"\sqrt") for formula in markdown.split("$"))
    return roots > _MOST_ROOTS


def _with_tables_drawn(markdown: str) -> str:
    """Draw tables as code, with all their content: otherwise links and cells beyond the columns
    would be lost. A list or quote that contains a table with links becomes code unchanged."""
    lines = markdown.split("\n")
    for node in reversed(read(markdown, _TABLES) if "|" in markdown else ()):
        begin, end = node.map or (0, 0)
        if node.type == "table":
            lines[begin:end] = [_FENCE, Table(node).draw(), _FENCE]
        elif _loses_content(node):
            lines[begin:end] = [_FENCE, *lines[begin:end], _FENCE]
    return "\n".join(lines)


def _loses_content(block: SyntaxTreeNode) -> bool:
    tables = (node for node in block.walk() if node.type == "table")
    has_links = any(one.type in ("link", "image") for table in tables for one in table.walk())
    return has_links or any(one.info == VERBATIM for one in block.walk())


def _with_words_shown(markdown: str) -> str:
    """Escape tags ("List<String>") and unused definitions, and show the address of a link without
    words. Markdown would drop them."""
    whole = markdown.casefold()

    def escape(found: re.Match[str]) -> str:
        name = f"[{found['label']}]".casefold()
        is_used = whole.count(name) > whole.count(f"{name}:") == 1
        return found[0] if is_used else f"{found['before']}\\[{found['label']}]:"

    def show(text: str) -> str:
        shown = _TAG.sub(lambda found: r"\<" if found[0] == "<" else found[0], text)
        return _NAMELESS.sub(r"<\1>", _DEFINITION.sub(escape, shown))

    return change_parts(markdown, show)
