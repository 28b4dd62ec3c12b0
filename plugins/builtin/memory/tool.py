"""The tool `memory_search`: what the model finds of all that was said and written down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from typing import Annotated

from pydantic import Field

from memory.record.recall import Recalled
from memory.record.recall.notes import NoteHit
from memory.record.search import Hit, Span
from memory.turns import Entry
from plugins.api import ToolContext, ToolError, tool
from plugins.builtin.context.show import moment
from plugins.builtin.context.turns import role, said

NOTES = 3
"""Parts of the daily memory files that are shown."""
_PAUSE = timedelta(hours=1)  # after so long a new block begins, with its time
_HIT, _BESIDE = 600, 160  # characters that are shown of a hit, and of a message beside it


@tool(needs_conversation=True)
async def memory_search(
    context: ToolContext,
    query: Annotated[str, Field(max_length=1_000)],
    limit: Annotated[int, Field(ge=1, le=20)] = 5,
) -> str:
    """Search all that was said in this chat, however long ago, and the daily memory.

    Use it when something is asked about that you can't see above. Returns the best hits first, each
    with its turn, its time and the messages beside it.

    Args:
        query: What you want to know, as a question or in words that may have been used.
        limit: How many hits.
    """
    if context.conversation is None:
        raise ToolError("There is no conversation to search here.")
    found = await context.conversation.memory.recall(query, limit)
    blocks = _blocks(found.said.hits)
    if any(line.entry.message.has_outside for block in blocks for line in block):
        context.from_outside()
    said = (_block(block, context.key.id, context.timezone) for block in blocks)
    parts = [*said, *map(_noted, found.notes.hits[:NOTES])]
    return "\n\n".join(parts) or "Nothing was found; other words may find it."


@dataclass(frozen=True, slots=True)
class _Line:
    """A message that is shown: a hit, or one beside it. `rank` counts up from the best hit."""

    rank: int
    conversation: str
    entry: Entry
    hit: Hit | None = None

    @property
    def place(self) -> tuple[str, int]:
        return self.conversation, self.entry.seq

    def follows(self, other: _Line) -> bool:
        """Whether it was said right after another one, without a long pause."""
        is_next = self.place == (other.conversation, other.entry.seq + 1)
        return is_next and self.entry.at - other.entry.at < _PAUSE


def _blocks(hits: Sequence[Recalled]) -> list[list[_Line]]:
    """Messages that follow one another in a block, each once; the block of the best hit first."""
    lines: dict[tuple[str, int], _Line] = {}
    for line in (*_beside(hits), *_themselves(hits)):  # a hit stands in place of a neighbour
        lines[line.place] = line
    blocks: list[list[_Line]] = []
    for place in sorted(lines):
        if blocks and lines[place].follows(blocks[-1][-1]):
            blocks[-1].append(lines[place])
        else:
            blocks.append([lines[place]])
    return sorted(blocks, key=lambda block: min(line.rank for line in block))


def _beside(hits: Sequence[Recalled]) -> Iterator[_Line]:
    for rank, one in reversed(list(enumerate(hits))):
        for entry in filter(None, (one.before, one.after)):
            yield _Line(rank, one.conversation, entry)


def _themselves(hits: Sequence[Recalled]) -> Iterator[_Line]:
    for rank, one in enumerate(hits):
        yield _Line(rank, one.conversation, one.hit.entry, one.hit)


def _block(lines: Sequence[_Line], here: str, zone: tzinfo) -> str:
    first = lines[0]
    where = "" if first.conversation == here else f" in {first.conversation}"
    heading = f"--- {moment(first.entry.at, zone)}{where} ---"
    return "\n".join((heading, *map(_as_text, lines)))


def _as_text(line: _Line) -> str:
    message, hit = line.entry.message, line.hit
    who = " ".join(filter(None, (role(message), message.speaker, f"t{line.entry.turn}")))
    return f"[{who}] {around(hit.text, hit.spans, _HIT) if hit else said(message, _BESIDE)}"


def _noted(hit: NoteHit) -> str:
    note = hit.note
    heading = " ".join(filter(None, (str(note.day), note.at, note.turns)))
    return f"[daily memory, {heading}]\n{around(note.text, hit.spans, _HIT)}"


def around(text: str, spans: Sequence[Span], most: int) -> str:
    """At most so many characters of a text, on one line: those with the most of the words."""
    if len(text) <= most:
        return " ".join(text.split())
    starts = [max(0, span.start - most // 4) for span in spans] or [0]
    start = max(starts, key=lambda s: sum(s <= w.start and w.end <= s + most for w in spans))
    before, after = "…" if start else "", "…" if start + most < len(text) else ""
    return f"{before}{' '.join(text[start : start + most].split())}{after}"
