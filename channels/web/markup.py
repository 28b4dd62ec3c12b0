"""Markdown as HTML that can do nothing: no script, no style, nothing from another host; and
pictures that the bot has shown, under names that tell nothing of this machine."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import lru_cache
from html import escape
from pathlib import Path

import nh3
from markdown_it import MarkdownIt

from channels.splitting import has_vast_table, split

_TEXT = frozenset({"a", "br", "code", "del", "em", "p", "s", "strong"})
_BLOCKS = frozenset({"blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "pre"})
_LISTS = frozenset({"li", "ol", "ul", "table", "tbody", "td", "th", "thead", "tr"})
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}}
_ADDED = {"a": {"target": "_blank"}}

# Raw HTML shows as the text that it is, and a picture as a link to it: whoever writes one could
# otherwise tell by its being loaded that, and from where, it was read.
_markdown = MarkdownIt("commonmark", {"html": False, "breaks": True})
_markdown.enable(["table", "strikethrough"]).disable("image")
_cleaner = nh3.Cleaner(
    tags=set(_TEXT | _BLOCKS | _LISTS),
    attributes=_ATTRIBUTES,
    set_tag_attribute_values=_ADDED,
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener noreferrer",
)


_SHORT = 2_000
"""Characters that are read before anybody could notice."""
_PIECE = 8_000
"""Characters that are read at once: what the parser takes long over stays short, and of an answer
that grows only the last piece is read again."""
_LONGEST = 200_000
"""Characters that are read as Markdown; what comes behind them is shown as it stands."""


def html(markdown: str) -> str:
    """Markdown text as HTML, cleaned. It takes CPU for a while where `is_long`."""
    if len(markdown) <= _PIECE:
        return _html(markdown)
    shown = "".join(map(_html, split(markdown[:_LONGEST], _PIECE)))
    rest = markdown[_LONGEST:]
    return f"{shown}<pre>{escape(rest)}</pre>" if rest else shown


def is_long(markdown: str) -> bool:
    """Whether a text had better be read in a thread; what was read there is known then."""
    return len(markdown) > _SHORT


@lru_cache(maxsize=512)
def _html(markdown: str) -> str:
    if has_vast_table(markdown):
        return f"<pre>{escape(markdown)}</pre>"
    return _cleaner.clean(_markdown.render(markdown))


PREFIX = "/api/pictures/"
MOST = 1_000

_shown: OrderedDict[str, Path] = OrderedDict()


def publish(path: str) -> str:
    """The address of a picture file that a reply names. Only such a file can be fetched."""
    name = hashlib.sha256(path.encode()).hexdigest()[:32]
    _shown[name] = Path(path)
    if len(_shown) > MOST:
        _shown.popitem(last=False)
    return PREFIX + name


def picture(name: str) -> Path | None:
    """The file behind a name, if it was shown lately and is still there."""
    path = _shown.get(name)
    return path if path is not None and path.is_file() else None
