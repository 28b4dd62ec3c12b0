"""The display of changes of `MEMORY.md`: as a diff, as data, and with their reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from channels.language import _, number_of
from memory.long_term.document import LONGEST, LineOperation, MemoryLine, Source
from plugins.wording import format_list, literal

Changes = Sequence[tuple[str, str]]
"""Signs ("-" or "+") and lines, as `diff_lines` has them."""


def count_changes(changes: Changes) -> str:
    """Return how many lines came and went, as a sentence."""
    new = sum(sign == "+" for sign, _raw in changes)
    gone = len(changes) - new
    parts = [
        *[number_of(new, "{n} line added", "{n} lines added")] * bool(new),
        *[number_of(gone, "{n} line gone", "{n} lines gone")] * bool(gone),
    ]
    return f"{format_list(parts)}." if parts else _("No line is different.")


def to_data(changes: Changes) -> list[dict[str, str]]:
    """For programs."""
    return [{"sign": sign, "line": raw} for sign, raw in changes]


def to_block(changes: Changes) -> str:
    """As a diff that channels colour; "" for none."""
    if not changes:
        return ""
    lines = "\n".join(f"{sign} {raw.removeprefix('- ')[: 2 * LONGEST]}" for sign, raw in changes)
    return f"```diff\n{lines.replace('```', chr(39) * 3)}\n```"


def list_reasons(operations: Sequence[LineOperation]) -> str:
    """Return why each change is wanted, and where that was said."""
    names: Mapping[str, str] = {"add": "new", "replace": "changed", "remove": "gone"}
    lines = []
    for one in operations:
        text = one.line.text if one.line else MemoryLine(one.old).text
        where = "; ".join(dict.fromkeys(map(_place, one.sources)))
        reason = f" ({literal(one.why)})" if one.why else ""
        said = _(
            "- {what}: “{words}”{reason}",
            what=_(names[one.do]),
            words=literal(text[:80]),
            reason=reason,
        )
        lines.append(said + (_(", from {where}", where=where) if where else ""))
    return "\n".join(lines)


def _place(source: Source) -> str:
    return " ".join(filter(None, (source.day, source.at, literal(source.turns))))
