"""Messages to Discord, as it wants them, and Markdown as it reads it: pure.

Discord's dialect is its own: `__` underlines, `||` hides, `<@…>` mentions, there are neither tables
nor pictures, and a backslash takes the meaning of any punctuation. So the text is read as Markdown
(by markdown-it) and written anew; what Discord could misread goes without its markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2s
from typing import Any

import discord
from markdown_it.tree import SyntaxTreeNode

from channels.base import CommandEntry
from channels.discord.incoming import ARGUMENTS
from channels.kit.markdown import (
    Dialect,
    Table,
    Within,
    address_of,
    encode,
    guard_fence,
    spell_out,
    words_of,
)
from channels.kit.platform import Button, Location
from channels.language import ENGLISH, _, speaking

LONGEST = 2000
"""Characters of a message, counted in UTF-16 as Discord's apps count them."""

_ADDRESS = re.compile(r"https?://[^\s<>\\`，。；：！？、（）「」“”]+", re.IGNORECASE)
_AFTER_ADDRESS = ".,:;!?\"'*_~|"
_LIKE_ADDRESS = re.compile(r"://|^\s*\S+\.[a-z]{2,}(/\S*)?\s*$", re.IGNORECASE)
_MEANINGFUL = re.compile(r"[\\*_`]|~~|\|\||<(?=[@#:/a-zA-Z])|\](?=\()")
_AT_LINE_START = re.compile(
    r"^([ \t]*)(#{1,3}|-#|[-+>]|>>>|\d+(?=\.))(?=\.?(?:\s|$))", re.MULTILINE
)
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_LANGUAGE = re.compile(r"[A-Za-z0-9_+\-.#]+")
_NOTHING = "\u200b"  # separates characters that Discord would combine; it takes no room
_MARKS = {"strong": "**", "em": "_", "s": "~~"}
_WIDEST = 100  # columns of an aligned table; a wider one would be wrapped by the window


def length(markdown: str) -> int:
    """Return the length of a rendered text."""
    return units(rendered(markdown))


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "replace")) // 2


@lru_cache(maxsize=16)
def rendered(markdown: str) -> str:
    """Render one message. The last measured text is sent next, hence the cache."""
    text = _DISCORD.write(markdown)
    return text if text.strip() else escaped(markdown)


def escaped(text: str) -> str:
    """Return a text that is shown literally."""
    return _with_plain_lines(_words(text))


def _words(text: str) -> str:
    """Return literal text for Discord. Addresses stay whole, and get no preview, which would reveal
    to their server that the text was read."""
    parts, at = [], 0
    for found in _ADDRESS.finditer(text):
        address = _trimmed(found[0])
        if found.start() >= at and len(address) > len("https://"):
            parts += [_escaped(text[at : found.start()]), f"<{address}>"]
            at = found.start() + len(address)
    return "".join((*parts, _escaped(text[at:])))


def _trimmed(address: str) -> str:
    """Return an address without the punctuation of its sentence."""
    while address[-1:] and (
        address[-1] in _AFTER_ADDRESS
        or (address[-1] in ")]" and address.count("(") < address.count(")") + (address[-1] == "]"))
    ):
        address = address[:-1]
    return address


def _escaped(text: str) -> str:
    return _MEANINGFUL.sub(lambda found: "".join(f"\\{sign}" for sign in found[0]), text)


def _with_plain_lines(text: str) -> str:
    """Return a text in which no line begins like a heading, a list or a quote."""

    def disarm(found: re.Match[str]) -> str:
        space, mark = found[1], found[2]
        return f"{space}{mark}\\" if mark.isdigit() else f"{space}\\{mark}"

    return _AT_LINE_START.sub(disarm, text)


def _marked(mark: str, inner: str, before: str, after: str) -> str:
    """Return marked text, if Discord can't misread it. `before` and `after` are the adjacent
    characters."""
    if not inner.strip() or inner[:1].isspace() or inner[-1:].isspace():
        return inner
    if mark == "_" and (_keeps_open(before) or _keeps_open(after)):
        mark = "*"
    bare = _ESCAPE.sub("", inner)
    is_clear = mark[0] not in (before, after) and mark[0] not in bare and not bare.endswith("\\")
    return f"{mark}{inner}{mark}" if is_clear else inner


def _keeps_open(sign: str) -> bool:
    """Return whether Discord ignores `_` beside this character: within a word, or beside `~~`."""
    return sign in ("_", "~") or sign.isalnum()


def _escaped_brackets(text: str) -> str:
    return re.sub(r"[\[\]]", lambda found: f"\\{found[0]}", _escaped(text).replace(r"\]", "]"))


class _Discord(Dialect[str]):
    ruler = "⎯" * 12

    def blocks(self, nodes: Sequence[SyntaxTreeNode], within: Within) -> str:
        text = ""
        for index, node in enumerate(nodes):
            block = self.block(node, within)
            after_heading = index > 0 and nodes[index - 1].type == "heading"
            gap = "" if not text else "\n" if after_heading else "\n\n"
            text += gap + block if block else ""
        return text

    def paragraph(self, node: SyntaxTreeNode, within: Within) -> str:
        return _with_plain_lines(self.inline(node, within))

    def heading(self, node: SyntaxTreeNode, within: Within) -> str:
        level = int(node.tag[1:])
        words = self.inline(node, within | {"strong"} if level > 3 else within).replace("\n", " ")
        if not words.strip():
            return ""
        return f"{'#' * level} {words}" if level <= 3 else _marked("**", words, "", "")

    def code(self, content: str, info: str, within: Within) -> str:
        language = _LANGUAGE.match(info)
        safe = guard_fence(content)
        return f"```{language[0] if language else ''}\n{safe if safe.strip() else _NOTHING}\n```"

    def quote(self, node: SyntaxTreeNode, within: Within) -> str:
        inner = self.blocks(node.children, within | {"blockquote"})
        if "blockquote" in within:
            return inner
        return "\n".join(f"> {line}" for line in inner.split("\n"))

    def listing(self, node: SyntaxTreeNode, within: Within) -> str:
        first = int(node.attrs.get("start", 1))
        lines: list[str] = []
        for number, item in enumerate(node.children, first):
            mark = f"{number}. " if node.type == "ordered_list" else "- "
            lines += self._item(item, mark, within)
        return "\n".join(lines)

    def _item(self, node: SyntaxTreeNode, mark: str, within: Within) -> Iterator[str]:
        """Yield the item's lines. Blocks that Discord recognises only at the beginning of a line
        are not indented."""
        begins = bool(node.children) and node.children[0].type == "paragraph"
        words = self.block(node.children[0], within) if begins else _NOTHING
        yield mark + words.replace("\n", "\n  ")
        for block in node.children[begins:]:
            is_flush = block.type in ("fence", "code_block", "blockquote", "table", "heading")
            text = self.block(block, within)
            yield text if is_flush else "  " + text.replace("\n", "\n  ")

    def table(self, node: SyntaxTreeNode, within: Within) -> str:
        """Write a table as monospaced code. One that is too wide is not aligned."""
        table = Table(node)
        is_narrow = sum(table.widths) + 3 * len(table.widths) <= _WIDEST
        return self.code(table.draw(is_aligned=is_narrow), "", within)

    def words(self, text: str, within: Within) -> str:
        return _escaped_brackets(text) if "link" in within else _words(text)

    def code_span(self, content: str) -> str:
        if "`" not in content:
            return f"`{content}`"
        safe = content.replace("``", f"`{_NOTHING}`").replace("``", f"`{_NOTHING}`")
        start, end = (" " if safe[place] == "`" else "" for place in (0, -1))
        return f"``{start}{safe}{end}``"

    def mark(
        self, node: SyntaxTreeNode, inner: str, beside: tuple[str, str], within: Within
    ) -> str:
        if node.type in within:
            return inner
        return _marked(_MARKS[node.type], inner, beside[0][-1:], beside[1][:1])

    def link(self, node: SyntaxTreeNode, label: str) -> str:
        """Write a link. Discord supports links with words only for web addresses, and only if the
        words don't look like an address."""
        address, words = address_of(node), "".join(map(words_of, node.children))
        safe = encode(address).replace("(", "%28").replace(")", "%29")
        is_web = address.lower().startswith(("http://", "https://"))
        if not words.strip() or words.strip() == address:
            return f"<{safe}>" if is_web else escaped(address)
        if not is_web:
            known = words in (address, address.removeprefix("mailto:"))
            return label if known else spell_out(label, _escaped(address))
        if _LIKE_ADDRESS.search(words) or "]" in _ESCAPE.sub("", label) or "<" in label:
            return f"{label} (<{safe}>)"
        return f"[{label}](<{safe}>)"


_DISCORD = _Discord("", 2 * LONGEST)


ARGUMENTS_HINT = "Arguments of the command"
_LOCALES = {"de": "de", "zh": "zh-CN"}
_COMMAND = re.compile(r"[-_a-z0-9]{1,32}")
_MOST_COMMANDS, _LONGEST_DESCRIPTION, _LONGEST_LABEL = 100, 100, 80


def commands_as_offered(commands: Mapping[str, Sequence[CommandEntry]]) -> list[Any]:
    """Return the slash commands, described in each language."""
    offered = [
        _command(one.name, {language: some[index] for language, some in commands.items()})
        for index, one in enumerate(commands[ENGLISH])
        if _COMMAND.fullmatch(one.name)
    ]
    return offered[:_MOST_COMMANDS]


def view_of(buttons: Sequence[Button]) -> discord.ui.View | None:
    """Return buttons whose presses are received by `listen`, also after a restart. Discord does not
    accept two with the same data."""
    if not buttons:
        return None
    view = discord.ui.View(timeout=None)
    known: dict[str, str] = {}
    for one in buttons:
        known.setdefault(one.data, one.label)
    for data, label in known.items():
        view.add_item(discord.ui.Button(label=label[:_LONGEST_LABEL], custom_id=data))
    view.stop()  # the SDK need not remember it
    return view


def reference_of(place: Location) -> Any:
    """Return the reference to the answered message on a server, if it still exists."""
    if not place.is_group or not place.message:
        return None
    channel = int(place.thread or place.chat)
    return discord.MessageReference(
        message_id=int(place.message), channel_id=channel, fail_if_not_exists=False
    )


def nonce_of(place: Location, once: str) -> str | None:
    """Return the name by which Discord recognises a duplicate message for some minutes. It includes
    the answered message, since the numbers of replies restart in another data folder."""
    if not once or not place.message:
        return None
    return blake2s(f"{once} {place.chat} {place.message}".encode(), digest_size=12).hexdigest()


def _command(name: str, described: Mapping[str, CommandEntry]) -> Any:
    """Return a slash command with one option: the text after its name. It is offered on servers and
    in direct messages."""
    hints = {}
    for language in described:
        with speaking(language):
            hints[language] = _(ARGUMENTS_HINT)
    option = {
        "type": 3,
        "name": ARGUMENTS,
        "description": hints[ENGLISH],
        "description_localizations": _localized(hints),
    }
    summaries = {language: one.summary or name for language, one in described.items()}
    return {
        "type": 1,
        "name": name,
        "description": summaries[ENGLISH][:_LONGEST_DESCRIPTION],
        "description_localizations": _localized(summaries),
        "options": [option],
        "contexts": [0, 1],
        "integration_types": [0],
    }


def _localized(texts: Mapping[str, str]) -> dict[str, str]:
    return {
        tag: texts[language][:_LONGEST_DESCRIPTION]
        for language, tag in _LOCALES.items()
        if language in texts
    }
