"""The reach of a search: the places of an audience's conversations, except removed turns.

Shared messages of branches are indexed once, in their own conversation. A search from a branch sees
them as the branch does: without turns removed there, but with turns removed only in other branches.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from memory.context.layout import NO_REMOVED_TURNS, RemovedTurns
from memory.keys import home_of as chat_of
from memory.record import transcript
from memory.record.branches import lineage
from memory.record.database import Database
from memory.record.search import index
from memory.record.search.index import IndexedConversation, Range, Ranges, home_of, range_of


class Scope(Struct, frozen=True):
    """The scope of a search: all stored messages of an audience. For the model (`is_model`),
    removed turns are left out, and so is the running turn and what follows: `running` is its
    conversation's row and its first seq. `here` is the row of the conversation that the search runs
    in (0: none)."""

    audience: str
    is_model: bool = False
    running: tuple[int, int] = (0, 0)
    here: int = 0


class SearchScope:
    """The places that a search may return (`ranges`)."""

    def __init__(self, database: Database, scope: Scope) -> None:
        self._database, self._scope = database, scope
        there = index.conversations(database, scope.audience)
        self._names = {one.row: one.name for one in there}
        line = lineage(database, scope.here) if scope.here in self._names else []
        self._shared = {link.conversation: link.seq for link in line[:-1]}
        rows = {link.conversation for link in line}
        here = [one for one in there if one.row in rows and one.lacks_some]
        mine = self._find_removed(scope.here, bool(here))
        away = {one.row: self._away(one, mine) for one in there}
        visible = (part for one in there for part in self._visible(one))
        self.ranges = Ranges(visible, [*self._gaps(away)])

    def seen_from(self, place: int) -> int:
        """Return the row of the conversation that a place belongs to, seen from the searching
        one."""
        row, seq = home_of(place)
        return self._scope.here if seq <= self._shared.get(row, 0) else row

    def name(self, place: int) -> str:
        """Return the id of that conversation."""
        name = self._names[self.seen_from(place)]
        # A conversation that is kept for its branches alone has an internal name.
        return chat_of(name) if "//-" in name else name

    def _away(self, one: IndexedConversation, mine: RemovedTurns) -> RemovedTurns:
        if one.row == self._scope.here:
            return mine
        return self._find_removed(one.row, one.lacks_some)

    def _find_removed(self, row: int, lacks_some: bool) -> RemovedTurns:
        """Return the part of a conversation that the search must not return."""
        if not (self._scope.is_model and lacks_some):
            return NO_REMOVED_TURNS
        return transcript.removed_turns(self._database, row)

    def _visible(self, one: IndexedConversation) -> Iterator[Range]:
        """Yield the places of a conversation that may be returned, including the gaps."""
        running, begin = self._scope.running
        if self._scope.is_model and one.row == running:
            if shared := self._shared.get(one.row, 0):
                yield range_of(one.row, 0, shared)
            yield range_of(one.row, shared + 1 if shared else 0, begin - 1)
        else:
            yield range_of(one.row, 0)

    def _gaps(self, away: dict[int, RemovedTurns]) -> Iterator[Range]:
        """Yield the places of removed turns. For turns shared with the searching conversation, only
        its own removals count."""
        for row, taken in away.items():
            is_here = row == self._scope.here
            for owner, first, last in transcript.places_of(self._database, row, taken.spans):
                begin = first if is_here else max(first, self._shared.get(row, 0) + 1)
                if (is_here or owner == row) and begin <= last:
                    yield range_of(owner, begin, last)
