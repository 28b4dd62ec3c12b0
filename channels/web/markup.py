"""Markdown as inert HTML: no scripts, no styles, nothing from other hosts; and pictures that the
bot has shown, under names that reveal nothing about this machine.

Code in colours: HTML with Pygments' classes, for the page's style sheet.

Formulas of Markdown (`channels/formulas.py`) as MathML.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.tasklists import tasklists_plugin

from channels.formulas import as_tex, as_written, find_formulas, is_alone
from channels.limited import LimitedDict
from channels.splitting import has_vast_table, split

log = logging.getLogger(__name__)

_TAGS = """
math mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow mspace msqrt
mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none menclose
"""
_FORMULA_ATTRIBUTES = """
accent columnalign columnspacing depth display displaystyle fence form height largeop
linethickness lspace mathvariant maxsize minsize movablelimits notation rowspacing rspace
scriptlevel separator stretchy symmetric width
"""
MATH_TAGS, MATH_ATTRIBUTES = frozenset(_TAGS.split()), frozenset(_FORMULA_ATTRIBUTES.split())
"""The tags and attributes of MathML that are allowed."""


def formulas(markdown: MarkdownIt) -> None:
    """Add formulas to Markdown: a plugin of markdown-it."""
    find_formulas(markdown)
    markdown.add_render_rule("formula", by_token(_draw))


def by_token(draw: Callable[[Token], str]) -> Callable[..., str]:
    """Return a rule of markdown-it that renders a token from its content alone."""

    def rule(renderer: Any, tokens: Sequence[Token], at: int, *rest: object) -> str:
        return draw(tokens[at])

    return rule


def _draw(token: Token) -> str:
    math = mathml(as_tex(token), is_alone(token))
    if not math:
        written = escape(as_written(token))
        return f"<pre>{written}</pre>\n" if token.block else f"<code>{written}</code>"
    return f'<p class="formula">{math}</p>\n' if token.block else math


@lru_cache(maxsize=512)
def mathml(tex: str, is_block: bool) -> str:
    """Return a formula as MathML; "" if it can't be parsed."""
    from latex2mathml.converter import convert  # noqa: PLC0415 - slow, and seldom needed

    try:
        return str(convert(tex, display="block" if is_block else "inline"))
    except Exception as error:  # noqa: BLE001 - its own kinds, IndexError, RecursionError, …
        log.debug("a formula could not be read: %r", error)
        return ""


_NAMES = """
bash c c++ clojure cmake console cpp cs csharp css dart docker dockerfile elixir go golang
graphql haskell html http ini java javascript js json jsx julia kotlin latex lua make makefile
matlab nginx nix objective-c perl php powershell protobuf ps1 py py3 pycon python python3 r rb
rs ruby rust scala scss sh shell shell-session sql swift terraform tex toml ts tsx typescript
vim xml yaml yml zig zsh
"""
LANGUAGES = frozenset(_NAMES.split())
"""The supported names, of several hundred that Pygments has: the patterns of rarely used languages
are hardly tested."""
_PATIENCE = 0.1
"""The maximum seconds of CPU time for one block; the rest of it has no colours."""
_LONGEST_LINE = 1_000
"""The maximum number of characters of a line; code with longer lines is generated, and slow to
parse."""
_PLAIN = frozenset({"", "n", "nx", "o", "p", "w"})
"""Classes with the colour of the text: names, punctuation, space."""


def highlight(code: str, language: str, attributes: str = "") -> str:
    """Return code as HTML with colours; "" for an unknown language, or if it is shown unchanged."""
    del attributes
    name = language.lower()
    if name not in LANGUAGES or max(map(len, code.split("\n"))) > _LONGEST_LINE:
        return ""
    return "".join(_coloured(code, name))


def _coloured(code: str, language: str) -> Iterator[str]:
    # Slow imports, at first use: most answers have no code, and most bots no page.
    from pygments.lexers import get_lexer_by_name  # noqa: PLC0415
    from pygments.token import STANDARD_TYPES  # noqa: PLC0415

    lexer = get_lexer_by_name(language)
    end = time.thread_time() + _PATIENCE
    done = 0
    for at, kind, text in lexer.get_tokens_unprocessed(code):
        done = at + len(text)
        colour = STANDARD_TYPES.get(kind, "")
        is_plain = colour in _PLAIN
        yield escape(text) if is_plain else f'<span class="{colour}">{escape(text)}</span>'
        if time.thread_time() > end:
            break
    yield escape(code[done:])


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
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*", re.ASCII)
_ADDED = {"a": {"target": "_blank"}}


def _cell(token: Token) -> str:
    """Return the start of a table's cell, with its alignment as a class: the page allows no
    styles."""
    side = str(token.attrs.get("style", "")).removeprefix("text-align:")
    return f'<{token.tag} class="{side}">' if side else f"<{token.tag}>"


def _without_empty_headings(state: StateCore) -> None:
    """Make a plain cell of each heading without words, which a screen reader could not name."""
    for begin, inside, end in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if begin.type == "th_open" and not inside.content.strip():
            begin.tag = end.tag = "td"


def _code(token: Token) -> str:
    """Return code in a sentence, in which no line ends after the hyphens of an option."""
    options = _OPTION.sub(r'<span class="option">\g<0></span>', escape(token.content))
    return f"<code>{options}</code>"


def _box(token: Token) -> str:
    """Return the box before a task; other HTML never gets here."""
    is_done = "checked" in token.content
    name, sign = ("done", "☑") if is_done else ("to do", "☐")
    return f'<span class="task" role="img" aria-label="{name}">{sign}</span>'


# Raw HTML is shown as text, and a picture as a link to it: otherwise its author could tell from the
# download that, and from where, it was read.
_markdown = MarkdownIt("commonmark", {"html": False, "breaks": True, "highlight": highlight})
_markdown.enable(["table", "strikethrough"]).disable("image")
_markdown.use(footnote_plugin).use(tasklists_plugin).use(formulas)
_markdown.core.ruler.after("inline", "empty_headings", _without_empty_headings)
_RULES = {"th_open": _cell, "td_open": _cell, "html_inline": _box, "code_inline": _code}
for _name, _rule in _RULES.items():
    _markdown.add_render_rule(_name, by_token(_rule))
_cleaner = nh3.Cleaner(
    tags=set(_TEXT | _BLOCKS | _LISTS | MATH_TAGS),
    attributes=_ATTRIBUTES,
    set_tag_attribute_values=_ADDED,
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener noreferrer",
)


_SHORT = 2_000
"""The number of characters up to which parsing takes no noticeable time."""
_PIECE = 8_000
"""The number of characters that are parsed at once: parts that are slow to parse stay short, and of
a growing answer only the last piece is parsed again."""
_LONGEST = 200_000
"""The number of characters that are parsed as Markdown; the rest is shown unchanged."""


def html(markdown: str) -> str:
    """Return Markdown as cleaned HTML. It takes noticeable CPU time if `is_long`."""
    return "".join(blocks(markdown))


def blocks(markdown: str) -> list[str]:
    """Return the same, block by block: paragraphs, lists, code. For a growing text, all but the
    last blocks stay unchanged."""
    if len(markdown) <= _PIECE:
        return list(_blocks(markdown))
    shown = [one for piece in split(markdown[:_LONGEST], _PIECE) for one in _blocks(piece)]
    rest = markdown[_LONGEST:]
    return [*shown, f"<pre>{escape(rest)}</pre>"] if rest else shown


def is_long(markdown: str) -> bool:
    """Return whether a text should be parsed in a thread; the result is cached."""
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
    """Yield the tokens of each block of the text in order."""
    begin = depth = 0
    for at, token in enumerate(tokens, 1):
        depth += token.nesting
        if not depth:
            yield tokens[begin:at]
            begin = at


PREFIX = "/api/pictures/"
MOST = 1_000

_shown = LimitedDict[tuple[str, str], Path](MOST)


def publish(path: str, user: str) -> str:
    """Return the address of a picture file that a reply names. Only such a file can be fetched, and
    only by the user of the page that it was shown to ("": the owner): an address is the same at
    every gateway, so it could be computed from a file's name."""
    name = hashlib.sha256(path.encode()).hexdigest()[:32]
    _shown[user, name] = Path(path)
    return PREFIX + name


def picture(name: str, user: str) -> Path | None:
    """Return the file with this name, if it was recently shown to this user and still exists."""
    path = _shown.get((user, name))
    return path if path is not None and path.is_file() else None
