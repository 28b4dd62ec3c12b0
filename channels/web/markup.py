"""Markdown as HTML that can do nothing: no script, no style, nothing from another host; and
pictures that the bot has shown, under names that tell nothing of this machine."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.tasklists import tasklists_plugin

from channels.splitting import has_vast_table, split
from channels.web.code import highlight
from channels.web.formulas import MATH_ATTRIBUTES, MATH_TAGS, by_token, formulas

_TEXT = frozenset({"a", "br", "code", "del", "em", "p", "s", "section", "span", "strong", "sup"})
_BLOCKS = frozenset({"blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "pre"})
_LISTS = frozenset({"li", "ol", "ul", "table", "tbody", "td", "th", "thead", "tr"})
_ATTRIBUTES = {
    "a": {"class", "href", "id", "title"},
    "code": {"class"},
    "li": {"class", "id"},
    "ol": {"start"},
    "p": {"class"},
    "section": {"class"},
    "span": {"aria-label", "class", "role"},
    "td": {"class"},
    "th": {"class"},
    "ul": {"class"},
    **{tag: set(MATH_ATTRIBUTES) for tag in MATH_TAGS},
}
_ADDED = {"a": {"target": "_blank"}}


def _cell(token: Token) -> str:
    """Return the beginning of a table's cell, its side as a class: the page allows no style."""
    side = str(token.attrs.get("style", "")).removeprefix("text-align:")
    return f'<{token.tag} class="{side}">' if side else f"<{token.tag}>"


def _box(token: Token) -> str:
    """Return the box before a task; no other HTML gets as far as here."""
    is_done = "checked" in token.content
    name, sign = ("done", "☑") if is_done else ("to do", "☐")
    return f'<span class="task" role="img" aria-label="{name}">{sign}</span>'


# Raw HTML shows as the text that it is, and a picture as a link to it: whoever writes one could
# otherwise tell by its being loaded that, and from where, it was read.
_markdown = MarkdownIt("commonmark", {"html": False, "breaks": True, "highlight": highlight})
_markdown.enable(["table", "strikethrough"]).disable("image")
_markdown.use(footnote_plugin).use(tasklists_plugin).use(formulas)
for _name, _rule in (("th_open", _cell), ("td_open", _cell), ("html_inline", _box)):
    _markdown.add_render_rule(_name, by_token(_rule))
_cleaner = nh3.Cleaner(
    tags=set(_TEXT | _BLOCKS | _LISTS | MATH_TAGS),
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
    return "".join(blocks(markdown))


def blocks(markdown: str) -> list[str]:
    """Return the same, block by block: paragraphs, lists, code. Of a text that grows, all but the
    last ones stay as they are."""
    if len(markdown) <= _PIECE:
        return list(_blocks(markdown))
    shown = [one for piece in split(markdown[:_LONGEST], _PIECE) for one in _blocks(piece)]
    rest = markdown[_LONGEST:]
    return [*shown, f"<pre>{escape(rest)}</pre>"] if rest else shown


def is_long(markdown: str) -> bool:
    """Return whether a text had better be read in a thread; what was read there is known then."""
    return len(markdown) > _SHORT


@lru_cache(maxsize=512)
def _blocks(markdown: str) -> tuple[str, ...]:
    if has_vast_table(markdown):
        return (f"<pre>{escape(markdown)}</pre>",)
    env: dict[str, Any] = {}
    tokens = _markdown.parse(markdown, env)
    return tuple(
        _cleaner.clean(_markdown.renderer.render(block, _markdown.options, env))
        for block in _in_blocks(tokens)
    )


def _in_blocks(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens of one block of the text after the other."""
    begin = depth = 0
    for at, token in enumerate(tokens, 1):
        depth += token.nesting
        if not depth:
            yield tokens[begin:at]
            begin = at


PREFIX = "/api/pictures/"
MOST = 1_000

_shown: OrderedDict[tuple[str, str], Path] = OrderedDict()


def publish(path: str, user: str) -> str:
    """Return the address of a picture file that a reply names. Only such a file can be fetched, and
    only by the user of the page that it was shown to ("": the owner): an address is the same at
    every gateway, so that it can be worked out from what a file is called."""
    name = hashlib.sha256(path.encode()).hexdigest()[:32]
    _shown[user, name] = Path(path)
    if len(_shown) > MOST:
        _shown.popitem(last=False)
    return PREFIX + name


def picture(name: str, user: str) -> Path | None:
    """Return the file behind a name, if it was shown to this user lately and is still there."""
    path = _shown.get((user, name))
    return path if path is not None and path.is_file() else None
