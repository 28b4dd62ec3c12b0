"""Code in colours: HTML with Pygments' classes, which the page's style sheet knows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from html import escape

_NAMES = """
bash c c++ clojure cmake console cpp cs csharp css dart docker dockerfile elixir go golang
graphql haskell html http ini java javascript js json jsx julia kotlin latex lua make makefile
matlab nginx nix objective-c perl php powershell protobuf ps1 py py3 pycon python python3 r rb
rs ruby rust scala scss sh shell shell-session sql swift terraform tex toml ts tsx typescript
vim xml yaml yml zig zsh
"""
LANGUAGES = frozenset(_NAMES.split())
"""The names that are known, of some hundred that Pygments has: the patterns of those that hardly
anybody writes were hardly tried by anybody."""
_PATIENCE = 0.1
"""Seconds of CPU for one block; what has no colour by then stays without."""
_LONGEST_LINE = 1_000
"""Characters; code with longer lines was made by a program, and is slow to read for another."""
_PLAIN = frozenset({"", "n", "nx", "o", "p", "w"})
"""Classes of what has the colour of the text: names, signs, space."""


def highlight(code: str, language: str, attributes: str = "") -> str:
    """Code as HTML; "" where it stays as it is, of a language that is not known."""
    del attributes
    name = language.lower()
    if name not in LANGUAGES or max(map(len, code.split("\n"))) > _LONGEST_LINE:
        return ""
    return "".join(_coloured(code, name))


def _coloured(code: str, language: str) -> Iterator[str]:
    # Slow imports, at first use: most answers have no code, most bots no page.
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
