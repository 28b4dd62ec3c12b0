"""Markdown as HTML, for platforms that show HTML: nothing that was written is lost, and no tag that
was written becomes one."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import lru_cache
from html import escape
from typing import Any

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from channels.kit.markdown import encode, join_links, make_parser, read, spell_out, takes_long

_PARSER = make_parser()
_PARSER.options["breaks"] = True


@lru_cache(maxsize=16)
def render_html(markdown: str) -> str:
    """Return the HTML of a text; "" where there is nothing to mark up, or it would take too
    long."""
    if takes_long(markdown):
        return ""
    tokens = [one for node in read(join_links(markdown), _PARSER) for one in node.to_tokens()]
    html = str(_PARSER.renderer.render(tokens, _PARSER.options, {})).strip()
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
    """Render a picture as a link: to load a picture tells its server who reads. Within a link it
    is spelled out."""
    address = encode(str(tokens[index].attrs["src"]))
    name = self.renderInlineAsText(tokens[index].children, options, env)
    if sum(token.nesting for token in tokens[:index] if token.tag == "a"):
        return escape(spell_out(name, address))
    return f'<a href="{escape(address)}">{escape(name or address)}</a>'


_PARSER.add_render_rule("link_open", _open_link)
_PARSER.add_render_rule("image", _show_image)
