"""Markdown as WhatsApp shows it: *bold*, _italic_, ~struck~, code, quotes and lists.

There is no way to escape a sign there, and none of these counts within a word: what stands next to
a letter stays unmarked. Links are spelled out; a table is set in columns of equal width, or row by
row where it is wider than a telephone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from markdown_it.tree import SyntaxTreeNode

from channels.kit.markdown import MARKS, Dialect, Table, Within, address_of, guard_fence, spell_out

_WIDEST_TABLE = 44
"""Characters of a row that a telephone shows on a line."""
_LONGEST_READ = 8_192
"""Characters of a text in which markup is looked for at once."""
_SIGNS = {"strong": "*", "em": "_", "s": "~"}


@lru_cache(maxsize=16)
def rendered(markdown: str) -> str:
    """Render the text of one message; what leaves nothing to be seen goes as it is."""
    return _WHATSAPP.write(markdown).strip("\n") or markdown


def units(text: str) -> int:
    """Its length in UTF-16 units: an emoji counts as two."""
    return len(text) + sum(sign > "\uffff" for sign in text)


class _WhatsApp(Dialect[str]):
    ruler = "———"

    def blocks(self, nodes: Sequence[SyntaxTreeNode], within: Within) -> str:
        between = "\n" if "list_item" in within else "\n\n"
        return between.join(filter(None, (self.block(node, within) for node in nodes)))

    def heading(self, node: SyntaxTreeNode, within: Within) -> str:
        return _marked(self.inline(node, within | {"strong"}), "*")

    def code(self, content: str, info: str, within: Within) -> str:
        return f"```\n{guard_fence(content).rstrip()}\n```" if content.strip() else ""

    def quote(self, node: SyntaxTreeNode, within: Within) -> str:
        lines = self.blocks(node.children, within - {"list_item"}).split("\n")
        return "\n".join(f"> {line}".rstrip() for line in lines)

    def listing(self, node: SyntaxTreeNode, within: Within) -> str:
        items = []
        for item in node.children:
            sign = f"{item.info}." if item.info else "-"
            text = self.blocks(item.children, within | {"list_item"}).replace("\n", "\n   ")
            items.append(f"{sign} {text}")
        return "\n".join(items)

    def table(self, node: SyntaxTreeNode, within: Within) -> str:
        table = Table(node)
        if sum(table.widths) + 2 * len(table.widths) <= _WIDEST_TABLE:
            text = table.draw(between="  ", ruler="")
            return self.code(text, "", within)
        head, *body = table.rows
        return "\n\n".join(_record(head, row) for row in body) or " · ".join(head)

    def words(self, text: str, within: Within) -> str:
        return text

    def code_span(self, content: str) -> str:
        return content if "`" in content else f"`{content}`"

    def mark(
        self, node: SyntaxTreeNode, inner: str, beside: tuple[str, str], within: Within
    ) -> str:
        before, after = beside
        if not before[-1:].isalnum() and self.is_apart(node, after, within):
            return _marked(inner, _SIGNS[node.type])
        # Within a word, it may be a product: 2*3*4
        is_product = node.type == "em" and (before[-1:].isalnum() and after[:1].isalnum())
        return f"{node.markup}{inner}{node.markup}" if is_product else inner

    def is_apart(self, node: SyntaxTreeNode, after: str, within: Within) -> bool:
        return node.type in MARKS - within and not after[:1].isalnum()

    def link(self, node: SyntaxTreeNode, label: str) -> str:
        address = address_of(node).removeprefix("mailto:")
        title = f' "{node.attrs["title"]}"' if node.attrs.get("title") else ""
        return spell_out(label, address + title)


_WHATSAPP = _WhatsApp("", _LONGEST_READ, ["entity"])


def _record(head: Sequence[str], row: Sequence[str]) -> str:
    """Return a row of a wide table, its cells below one another."""
    return "\n".join(
        f"- {name}: {cell}" if name else f"- {cell}" for name, cell in zip(head, row, strict=True)
    )


def _marked(text: str, sign: str) -> str:
    """Signs around each line: they count only where both stand on one."""
    return "\n".join(
        f"{sign}{line.strip()}{sign}" if line.strip() else line for line in text.split("\n")
    )
