"""Markdown as HTML, for platforms that show HTML: nothing that was written is lost, and no tag that
was written becomes one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import MutableMapping, Sequence
from functools import lru_cache
from html import escape, unescape
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from channels.splitting import DEEPEST, is_costly

_TAGS, _ATTRIBUTES = re.compile(r"<[^>]*+>"), re.compile(r'="([^"]*+)"')
_INDENTED = re.compile(rf"[ \t]{{{4 * DEEPEST}}}")
"""A line that the parser would leave out, since it takes it to be within so many lists."""


def _show_image(
    self: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    """Render a picture as a link: to load a picture tells its server who reads."""
    address = str(tokens[index].attrs.get("src", ""))
    name = self.renderInlineAsText(tokens[index].children, options, env) or address
    return f'<a href="{escape(address)}">{escape(name)}</a>'


def _make_parser() -> MarkdownIt:
    options = {"html": False, "breaks": True, "maxNesting": 4 * DEEPEST}
    parser = MarkdownIt("commonmark", options)
    # What defines a link for elsewhere in the text would not be shown.
    parser.enable(["table", "strikethrough"]).disable("reference")
    parser.add_render_rule("image", _show_image)
    return parser


_PARSER = _make_parser()


@lru_cache(maxsize=16)
def render_html(markdown: str) -> str:
    """Return the HTML of a text; "" where there is nothing to mark up, something would be lost, or
    it would take too long."""
    if is_costly(markdown) or any(map(_INDENTED.match, markdown.split("\n"))):
        return ""
    html = str(_PARSER.render(markdown)).strip()
    is_plain = html == f"<p>{escape(markdown)}</p>"
    return "" if is_plain or not _has_all(html, markdown) else html


def _has_all(html: str, markdown: str) -> bool:
    """Return whether each letter of a text is there: a table's row, for one, may have more cells
    than are shown."""
    shown = unquote(f"{_TAGS.sub('', html)} {' '.join(_ATTRIBUTES.findall(html))}")
    missing = Counter(unescape(markdown))
    missing.subtract(Counter(unescape(shown)))
    return not any(count > 0 for sign, count in missing.items() if sign.isalpha())
