"""Texts that cost a careless parser more than their length: each is made in any size.

Add each new parser to `parsers.py` in this folder, and each new text here.
"""

from __future__ import annotations

from collections.abc import Callable

Text = Callable[[int], str]


def _of(unit: str, start: str = "", end: str = "") -> Text:
    """Return a function that repeats `unit` up to a size in characters."""
    return lambda size: f"{start}{unit * (size // len(unit))}{end}"


def _growing(mark: str, separator: str = " ") -> Text:
    """Return a function that makes runs of a mark, each longer than the previous one, so that none
    closes another."""

    def text(size: int) -> str:
        runs: list[str] = []
        left = size
        while left > 0:
            runs.append(mark * (len(runs) + 1))
            left -= len(runs) + len(separator)
        return separator.join(runs)

    return text


def _letters(number: int) -> str:
    """Return a word of five letters for each number; different numbers give different words."""
    return "".join("abcdefghijklmnop"[number >> 4 * n & 15] for n in range(5))


def _indented(size: int) -> str:
    """Return a list that is one level deeper with each line."""
    lines: list[str] = []
    left = size
    while left > 0:
        lines.append("  " * len(lines) + "- a")
        left -= len(lines[-1]) + 1
    return "\n".join(lines)


def _wide_table(size: int) -> str:
    """Return a table with a head of many columns, and rows that fill only the first."""
    columns = size // 8
    return "|a" * columns + "|\n" + "|-" * columns + "|\n" + "|b\n" * (size // 6)


def _lone_wide_cell(size: int) -> str:
    """Return a table in which one cell widens its column for all rows."""
    return f"|{'a' * (size // 2)}|b|\n|-|-|\n" + "|c|d|\n" * (size // 12)


def _references(size: int) -> str:
    """Return definitions of links, and uses of them."""
    half = size // 24
    named = "".join(f"[r{n}]: http://a/{n}\n" for n in range(half))
    return named + "\n" + "".join(f"[r{n}] " for n in range(half))


_CHARACTERS = {
    "backticks": "`",
    "tildes": "~",
    "stars": "*",
    "underscores": "_",
    "hashes": "#",
    "quotes": ">",
    "pipes": "|",
    "opening brackets": "[",
    "closing brackets": "]",
    "opening parentheses": "(",
    "less-thans": "<",
    "greater-thans and ampersands": "&>",
    "ampersands": "&",
    "backslashes": "\\",
    "dollars": "$",
    "hyphens": "-",
    "plus signs": "+",
    "equals signs": "=",
    "exclamation marks": "!",
    "opening braces": "{",
    "closing braces": "}",
    "colons": ":",
    "slashes": "/",
    "at signs": "@",
    "double quotes": '"',
    "blanks": " ",
    "tabs": "\t",
    "newlines": "\n",
    "carriage returns": "\r",
    "letters": "a",
    "digits": "1",
    "accents": "\u0301",
    "joiners": "\u200d",
    "emoji": "😀",
    "families": "👩\u200d",
    "ligatures": "\ufdfa",
    "Chinese": "中",
    "escapes": "\x1b",
    "escape sequences": "\x1b]",
    "right-to-left marks": "\u202e",
}
"""Characters of which a long run is made."""

_UNITS = {
    "bold that never ends": "**a ",
    "opened and opened": "*a **b ",
    "closed and closed": "a** b* ",
    "stars and underscores": "*_",
    "stars between letters": "a*b_",
    "strikes": "~~a ",
    "single tildes": "~a~ ",
    "struck and priced": "~a ~$1 ",
    "backticks alone": "` a ",
    "spans": "`a`b",
    "spans of two": "a``b`",
    "links that never end": "[a](",
    "links within links": "[a](<b ",
    "pictures that never end": "![",
    "pictures": "![a](b)",
    "brackets and text": "[a]",
    "nested brackets": "[[]",
    "footnotes": "[^1]",
    "references unknown": "[a][b]",
    "definitions": "[a]: b\n",
    "titles that never end": '[a](b "',
    "autolinks": "<http://a ",
    "addresses": "http://a.b ",
    "tags": "<a",
    "tags that never end": "<a b=",
    "tags in lines": "<div>\n",
    "closing tags": "</a",
    "comments": "<!--",
    "comments in lines": "<!-- a\n",
    "instructions": "<?",
    "declarations": "<!A ",
    "character data": "<![CDATA[",
    "generics": "List<List<",
    "terse tags": "<terse>",
    "terse tags that end": "<terse>a</terse>",
    "terse tags begun": "<ters",
    "terse with blanks": "< ",
    "untrusted marks": "<untrusted ",
    "untrusted marks that end": "</untrusted>",
    "entities": "&amp;",
    "entities begun": "&a",
    "numbered entities": "&#1;",
    "escaped": "\\*",
    "escaped backticks": "\\`",
    "mathematics": "$a$1 ",
    "mathematics that never ends": "$a ",
    "displayed": "$$a$$",
    "fractions": "$\\frac{",
    "roots": "$\\sqrt{",
    "spoilers": "||a",
    "spoilers with breaks": "||\n",
    "quotes in lines": "> a\n",
    "quotes on quotes": ">>> a\n",
    "quotes and lists": "> - ",
    "lists in a line": "- ",
    "numbers in a line": "1. ",
    "lists": "- a\n",
    "lists with gaps": "- a\n\n",
    "numbered": "1. a\n",
    "tasks": "- [ ] a\n",
    "headings": "# a\n",
    "underlined": "a\n=\n",
    "rulers": "---\n",
    "fences": "```\n",
    "fences with words": "```a\n",
    "fences of both kinds": "```\n~~~\n",
    "fences in quotes": "> ```\n",
    "tables": "|a|b|\n|-|-|\n",
    "rows": "|a|b|\n",
    "rulers of tables": "|-:",
    "rulers with blanks": "- |",
    "short lines": "a\n",
    "lines with blanks": " \n",
    "hard breaks": "a  \n",
    "gaps": "a\n\n",
    "words": "word ",
    "sentences": "A word. ",
    "paragraphs": "A word.\n\nAnd more\n\n",
    "many commas": "a,",
    "corrections in German": "ist auf ",
    "corrections": "no, 4 May, not 3 May. ",
    "days of a month": "am 3. auf ",
    "days": "3rd ",
    "digits and commas": "1,",
    "Chinese digits and commas": "中1,",
    "Chinese corrections": "不是3点，",
    "JSON lists": "[",
    "JSON objects": '{"a":',
    "fields": "{next_steps}",
    "secrets": "{{ secret.A }} ",
    "secrets begun": "{{ secret.",
    "keys": "sk-aaaaaaaaa ",
    "keys joined": "sk-",
    "tokens": "123456:a",
    "bearers": "Bearer ",
    "sections": "## 10:00 · a · t1 <!-- job 1 -->\n",
    "sections' ends": "\n<!-- end 1 -->\n",
    "commands": "/a ",
    "options": "--a ",
    "paths": "../",
    "percent signs": "%25",
    "names with dots": "a.b",
    "switched cases": "aBc ",
    "sharp s": "ß ",
    "numbers": "12 ",
    "long numbers": "1,",
    "shell quotes": "\"a' ",
    "colours": "\x1b[31m",
    "colours begun": "\x1b[3",
    "encoded words": "=?utf-8?q?a?= ",
    "encoded words joined": "=?utf-8?q?a?=",
    "comments in a field": "(a) ",
    "continued parameters": ";a*1*=b",
    "continued names of files": ";filename*1*=a",
    "parameters": ";a=b",
    "mailboxes": "a@b,",
    "routes": "<@a,",
    "folded lines": "a\r\n ",
    "parts of a mail": "--a\r\n\r\n",
    "parts within parts": "--a\r\nContent-Type: multipart/mixed; boundary=a\r\n\r\n",
    "attached mails": "--a\r\nContent-Type: message/rfc822\r\n\r\n",
    "fields of a mail": "From: a@b\r\n",
    "titles of windows": "\x1b]0;a\x07",
}
"""Units that are repeated."""

TEXTS: dict[str, Text] = {
    **{f"{name}, a run": _of(unit) for name, unit in _CHARACTERS.items()},
    **{name: _of(unit) for name, unit in _UNITS.items()},
    "backticks, growing": _growing("`"),
    "backticks, growing, with words": _growing("`", " a "),
    "tildes, growing": _growing("~"),
    "stars, growing": _growing("*", " a"),
    "fences, growing": _growing("`", "\n"),
    "brackets, opened and closed": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "links, opened and closed": lambda size: "[" * (size // 4) + "](a)" * (size // 5),
    "parentheses in a link": _of("(", "[a]("),
    "stars, opened and closed": lambda size: "*a " * (size // 6) + " b*" * (size // 6),
    "bold within bold": lambda size: "**a" * (size // 6) + "a**" * (size // 6),
    "quotes, nested": lambda size: "> " * (size // 2) + "a",
    "lists, nested": _indented,
    "lists and quotes, nested": _of("- > ", end="a"),
    "code that never ends": _of("a = 1\n", "```py\n"),
    "a line of code": _of("a", "```py\n", "\n```"),
    "code in many blocks": _of("```py\na = 1\n```\n\n"),
    "code of an odd kind": _of("a", "```", "\ncode\n```"),
    "strings in code": _of('"', "```py\n"),
    "brackets in code": _of("[", "```json\n"),
    "backslashes in code": _of("\\", '```py\n"'),
    "comments in code": _of("/*", "```js\n"),
    "markup in code": _of("<a ", "```html\n"),
    "shell in code": _of("$(", "```bash\n"),
    "markdown in code": _of("*a", "```markdown\n"),
    "indented code": _of("    a\n"),
    "a table, wide": _wide_table,
    "a table of one wide cell": _lone_wide_cell,
    "a table, long": _of("|a|b|\n", "|a|b|\n|-|-|\n"),
    "a table's markup": _of("|**a**|`b`|\n", "|a|b|\n|-|-|\n"),
    "references": _references,
    "a line that is a word": _of("x", "# "),
    "an address": _of("a", "http://a.b/"),
    "a link's address": _of("a", "[a](http://b/", ")"),
    "a tag's name": _of("a", "<"),
    "a line of JSON": lambda size: '{"current_state": "' + "{next_steps}" * (size // 12) + '"}',
    "a JSON of many fields": lambda size: (
        "{" + ",".join(f'"f{n:06}": "{{f{n:06}}}"' for n in range(size // 24)) + "}"
    ),
    "different numbers": lambda size: " ".join(
        f"on {1_000_003 + 7 * n} euros," for n in range(size // 18)
    ),
    "different codes": lambda size: " ".join(f"word{n}" for n in range(size // 9)),
    "different words": lambda size: " ".join(_letters(n) for n in range(size // 6)),
    "different names": lambda size: "".join(
        f"{_letters(n).title()} sings. " for n in range(size // 13)
    ),
    "deep JSON": lambda size: '{"a":' + "[" * (size // 2) + "]" * (size // 2) + "}",
}
