"""Markdown as HTML that can do nothing: no script, no style, nothing from another host."""

from __future__ import annotations

from functools import lru_cache

import nh3
from markdown_it import MarkdownIt

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


@lru_cache(maxsize=512)
def html(markdown: str) -> str:
    """Markdown text as HTML, cleaned."""
    return _cleaner.clean(_markdown.render(markdown))
