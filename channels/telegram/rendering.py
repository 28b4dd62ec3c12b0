"""Markdown as Telegram shows it: plain text with entities, in messages that are short enough.

Entities leave nothing for Telegram to parse, so that no answer is refused for its punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from msgspec import Struct
from telegram import MessageEntity
from telegramify_markdown import MessageEntity as Entity
from telegramify_markdown import RenderConfig, convert, utf16_len

from channels.splitting import has_vast_table

LONGEST = 4096
"""UTF-16 units of a message's text, without its markup."""

_ADDRESS = re.compile(r"(https?://|mailto:|tg://)", re.IGNORECASE)
_TICKS = re.compile("`++")
_FENCED = re.compile(
    r"^[ \t>]*+(?P<fence>`{3,}+(?![^\n]*`)|~{3,}+)(?P<words>[^\n]*+)$", re.MULTILINE
)  # the first line of code, or the last
_TAG = re.compile(r"\\.|<(?!https?://|mailto:)", re.DOTALL)

_MOST_ENTITIES = 100  # Telegram itself leaves out the others
_LONGEST_READ = 2 * LONGEST
"""Characters of a text in which markup is looked for at once."""
_HARDLY_ANY = 100
"""Characters of markup that may vanish whatever is left."""
# What the converter takes long over, and no answer needs: it goes as it stands.
_MOST_DOLLARS, _MOST_ROOTS, _DEEPEST = 200, 8, 30
_LEVEL = r"(?:[ \t]*+(?:>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t])))"
_NESTED = re.compile(f"{_LEVEL}{{{_DEEPEST}}}")  # quotes and lists, at the beginning of a line


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
    """Render one message. Text of which Telegram would show nothing is shown as it is, and so is
    text that would take too long to be read as Markdown, or does not fit once it is."""
    text, entities = _converted(markdown)
    if not text.strip():
        return Rendered(markdown)
    if utf16_len(text) > LONGEST >= utf16_len(markdown):
        return Rendered(markdown)
    shown = (entity for entity in entities if entity.url is None or _ADDRESS.match(entity.url))
    kept = islice(shown, _MOST_ENTITIES)
    return Rendered(text, tuple(MessageEntity(**entity.to_dict()) for entity in kept))


def measure(markdown: str) -> int:
    """Return how long a text is once it is rendered, in UTF-16 units."""
    text, _ = _converted(markdown)
    return utf16_len(text if text.strip() else markdown)


@lru_cache(maxsize=16)
def _converted(markdown: str) -> tuple[str, list[Entity]]:
    """Return a text's words and its markup. One that would be read as hardly anything but markup
    stays as it is. What was measured last is rendered next, hence the cache."""
    if len(markdown) > _LONGEST_READ or _is_costly(markdown):
        return markdown, []
    text, entities = convert(_with_tags_shown(markdown), config=_STYLE, latex_escape=False)
    kept = _signs(text) + sum(len(entity.url or "") for entity in entities)
    if 4 * kept < _signs(markdown) - _HARDLY_ANY:
        return markdown, []
    return text, entities


def _signs(text: str) -> int:
    """Return how many characters can be seen of a text."""
    return len(text) - sum(map(text.count, " \t\n"))


def _is_costly(markdown: str) -> bool:
    """Return whether the converter could take long over a text. A table is made as wide as its
    widest cell in each row, a root within a root is read twice at each level, and what is quoted or
    listed at many levels is looked through once for each of them."""
    if has_vast_table(markdown) or markdown.count("$") > _MOST_DOLLARS:
        return True
    roots = max(formula.count(r"\sqrt") for formula in markdown.split("$"))
    return roots > _MOST_ROOTS or any(map(_NESTED.match, markdown.split("\n")))


def _with_tags_shown(markdown: str) -> str:
    """Tags are words here ("List<String>"), and Markdown would swallow them."""
    if "<" not in markdown:
        return markdown
    shown, at = [], 0
    for start, end in _code(markdown):
        shown += [_escaped(markdown[at:start]), markdown[start:end]]
        at = end
    return "".join((*shown, _escaped(markdown[at:])))


def _escaped(text: str) -> str:
    return _TAG.sub(lambda found: r"\<" if found[0] == "<" else found[0], text)


def _code(markdown: str) -> Iterator[tuple[int, int]]:
    """Yield the places of code: blocks between fences, and spans between runs of as many
    backticks."""
    at, fence = 0, ""
    for found in _FENCED.finditer(markdown):
        if not fence:
            yield from _spans(markdown, at, found.start())
            at, fence = found.start(), found["fence"]
        elif found["fence"].startswith(fence) and not found["words"].strip():
            yield at, found.end()
            at, fence = found.end(), ""
    if fence:
        yield at, len(markdown)
    else:
        yield from _spans(markdown, at, len(markdown))


def _spans(markdown: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    runs = list(_TICKS.finditer(markdown, start, end))
    following: list[re.Match[str] | None] = []  # the next run of the same length, if any
    nearest: dict[int, re.Match[str]] = {}
    for run in reversed(runs):
        following.append(nearest.get(len(run[0])))
        nearest[len(run[0])] = run
    at = start
    for run, other in zip(runs, reversed(following), strict=True):
        if other and run.start() >= at:
            at = other.end()
            yield run.start(), at
