"""Markdown as Slack shows it: a rich text block, as its own composer writes it.

Slack's own markup, mrkdwn, can't escape a character, or make half a word bold. Rich text is not
parsed, so punctuation never distorts an answer or mentions a person. Slack prefers it, too ("Rich
text block" in its reference).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby
from typing import Any

from markdown_it.tree import SyntaxTreeNode

from channels.kit.markdown import Dialect, Table, Within, address_of, encode
from channels.kit.platform import Button, Post

Json = dict[str, Any]

LONGEST = 3_000
"""The maximum of a message: a section's plain text takes this many characters; a rich text of four
times as many characters of JSON is always accepted ("msg_blocks_too_long" comes at about
13,200)."""
_JSON = 4  # characters of JSON that count as one
_DEEPEST = 8  # levels of a list
_SECTION, _QUOTE, _CODE = "rich_text_section", "rich_text_quote", "rich_text_preformatted"
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_LINKED = re.compile(r"https?://|mailto:", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s<>\"'|]*[^\s<>\"'|.,:;!?)\]}*_~]")


def blocks(markdown: str) -> list[Json]:
    """Return the blocks of one message. Text that would become invisible is shown literally, and so
    is text that does not fit once it is parsed as Markdown."""
    elements = _elements(markdown)
    if not shown(elements) or _size(elements) > LONGEST >= len(markdown):
        return plain_blocks(markdown)
    return [{"type": "rich_text", "elements": elements}]


def plain_blocks(text: str) -> list[Json]:
    """Return a literal text."""
    words = {"type": "plain_text", "text": text[:LONGEST], "emoji": False}
    return [{"type": "section", "text": words}]


def length(markdown: str) -> int:
    """Return the length of a text in rich text: its visible part, and a share of its markup."""
    elements = _elements(markdown)
    return _size(elements) if elements else len(markdown)


def shown(elements: Sequence[Json]) -> str:
    """Return the words of a rich text, for notifications and screen readers."""
    return "".join(_words(element) for element in elements).strip()


def _words(element: Json) -> str:
    kind, inner = element["type"], element.get("elements", ())
    if kind == "rich_text_list":
        return "".join(f"{_mark(element, n)} {_words(item)}\n" for n, item in enumerate(inner, 1))
    if kind in ("text", "link"):
        return str(element.get("text", element.get("url")))
    end = "" if kind == _SECTION else "\n"
    return f"{''.join(map(_words, inner))}{end}"


def _mark(element: Json, number: int) -> str:
    margin = "  " * int(element["indent"])
    return margin + (
        f"{element.get('offset', 0) + number}." if element["style"] == "ordered" else "•"
    )


def _size(elements: Sequence[Json]) -> int:
    text = json.dumps(elements, ensure_ascii=False, separators=(",", ":"))
    return max(len(shown(elements)), -(-len(text) // _JSON))


@lru_cache(maxsize=16)
def _elements(markdown: str) -> list[Json]:
    """Return the elements inside of the block; none if a text stays literal. The last measured text
    is sent next, hence the cache."""
    return _SLACK.write(markdown)


class _Slack(Dialect[list[Json]]):
    def blocks(self, nodes: Sequence[SyntaxTreeNode], within: Within) -> list[Json]:
        """Write consecutive paragraphs as one section, or one quote."""
        made: list[Json] = []
        for is_text, together in groupby(nodes, key=_is_paragraph):
            if not is_text:
                made += chain.from_iterable(self.block(node, within) for node in together)
            elif words := self._join(together, within, "\n\n"):
                is_quote = "blockquote" in within
                end = [] if is_quote else [_text("\n")]
                kind = _QUOTE if is_quote else _SECTION
                made.append({"type": kind, "elements": _joined([*words, *end])})
        return made

    def _join(self, nodes: Iterable[SyntaxTreeNode], within: Within, between: str) -> list[Json]:
        found = [words for node in nodes if (words := self.block(node, within))]
        return _joined([one for words in found for one in (_text(between), *words)][1:])

    def heading(self, node: SyntaxTreeNode, within: Within) -> list[Json]:
        return _styled(self.inline(node, within), "bold")

    def quote(self, node: SyntaxTreeNode, within: Within) -> list[Json]:
        return self.blocks(node.children, within | {"blockquote"})

    def code(self, content: str, info: str, within: Within) -> list[Json]:
        if not content.strip():
            return []
        return [{"type": _CODE, "elements": [_text(content)], **_border(within)}]

    def table(self, node: SyntaxTreeNode, within: Within) -> list[Json]:
        """Write a table with aligned columns; a table with one very wide cell is not aligned, since
        it would be mostly white space."""
        table = Table(node)
        words = sum(map(len, chain(*table.rows)))
        is_narrow = len(table.rows) * sum(table.widths) <= 2 * words + LONGEST // 2
        return self.code(table.draw(is_aligned=is_narrow), "", within)

    def listing(self, node: SyntaxTreeNode, within: Within) -> list[Json]:
        return [*self._list(node, 0, within)]

    def _list(self, node: SyntaxTreeNode, depth: int, within: Within) -> Iterator[Json]:
        """Yield a list; it is interrupted for blocks that an item can't contain, and continued
        after them."""
        is_ordered = node.type == "ordered_list"
        before = max(int(node.attrs.get("start", 1)) - 1, 0)
        items: list[Json] = []

        def close() -> Iterator[Json]:
            nonlocal before, items
            if items:
                offset = {"offset": before} if is_ordered and before else {}
                style = "ordered" if is_ordered else "bullet"
                indent = min(depth, _DEEPEST)
                frame = {"type": "rich_text_list", "style": style, "indent": indent}
                yield {**frame, "elements": items, **offset, **_border(within)}
            before, items = before + len(items), []

        for item in node.children:
            groups = [(is_text, [*some]) for is_text, some in groupby(item.children, _is_paragraph)]
            leads = bool(groups and groups[0][0])
            words = self._join(groups[0][1], within, "\n") if leads else []
            items.append({"type": _SECTION, "elements": words or [_text(" ")]})
            for one in chain.from_iterable(more for _is_text, more in groups[leads:]):
                yield from close()
                if one.type in ("bullet_list", "ordered_list"):
                    yield from self._list(one, depth + 1, within)
                else:
                    yield from self.blocks([one], within)
        yield from close()

    def words(self, text: str, within: Within) -> list[Json]:
        """Write words, and the addresses among them."""
        parts, at = [], 0
        for found in () if "link" in within else _ADDRESS.finditer(text):
            parts += [_text(text[at : found.start()]), _text(found[0], found[0])]
            at = found.end()
        return [*parts, _text(text[at:])]

    def code_span(self, content: str) -> list[Json]:
        return _styled([_text(content)], "code")

    def mark(
        self, node: SyntaxTreeNode, inner: list[Json], beside: object, within: Within
    ) -> list[Json]:
        return _styled(inner, _STYLES[node.type])

    def link(self, node: SyntaxTreeNode, label: list[Json]) -> list[Json]:
        address, words = address_of(node), "".join(one["text"] for one in label)
        if not _LINKED.match(address):
            return [*label, _text(f" ({address})")] if words else [_text(address)]
        url = encode(address)
        if any("url" in one for one in label):  # a picture, with another address
            label = [*label, _text(" "), _text(address)]
        return (
            [one if "url" in one else {**one, "type": "link", "url": url} for one in label]
            if words
            else [_text(address, url)]
        )


_SLACK = _Slack([], 2 * LONGEST)


def _is_paragraph(node: SyntaxTreeNode) -> bool:
    return node.type in ("paragraph", "heading", "hr")


def _border(within: Within) -> Json:
    return {"border": 1} if "blockquote" in within else {}


def _text(text: str, url: str = "") -> Json:
    return {"type": "link", "url": url, "text": text} if url else {"type": "text", "text": text}


def _styled(elements: Sequence[Json], style: str) -> list[Json]:
    return [{**one, "style": {**one.get("style", {}), style: True}} for one in elements]


def _joined(elements: Sequence[Json]) -> list[Json]:
    """Return words of one style in one element; Slack refuses empty ones."""
    return [
        {**look, "text": text}
        for look, some in groupby(elements, lambda one: {**one, "text": ""})
        if (text := "".join(element["text"] for element in some))
    ]


# --- the bot's message: its blocks, and buttons below them ----------------------------------------

_LONGEST_LABEL, _LONGEST_FALLBACK = 75, 4_000


def content(post: Post) -> Json:
    """Return a message's blocks, and its words for notifications and screen readers."""
    inner = plain_blocks(post.text) if post.is_plain else blocks(post.text)
    words = shown(inner[0]["elements"]) if "elements" in inner[0] else post.text
    escaped = _escape(words[:LONGEST])
    if len(escaped) > _LONGEST_FALLBACK:
        escaped = _escape(words[: _LONGEST_FALLBACK // 5])
    return {"text": escaped, "blocks": [*inner, *_row(post.buttons)]}


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _row(buttons: Sequence[Button]) -> list[Json]:
    return [{"type": "actions", "elements": [*map(_button, buttons, range(99))]}] if buttons else []


def _button(button: Button, number: int) -> Json:
    label = button.label if len(button.label) <= _LONGEST_LABEL else f"{button.label[:74]}…"
    text = {"type": "plain_text", "text": label, "emoji": True}
    return {"type": "button", "action_id": f"choice{number}", "text": text, "value": button.data}
