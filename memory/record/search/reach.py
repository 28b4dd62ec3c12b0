"""The reach of a search: the places of an audience's conversations, without what was removed by a
person.

What branches share is indexed once, where it was said. A search from a branch sees it as the branch
does: without what was removed there, and with what was removed in another branch only.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from memory.context.replay import NOTHING_AWAY, TakenAway, replay
from memory.keys import home_of as chat_of
from memory.record import transcript
from memory.record.branches import Ancestor, lineage
from memory.record.database import Database
from memory.record.search import index
from memory.record.search.index import IndexedConversation, Range, Ranges, home_of, range_of


class Scope(Struct, frozen=True):
    """The scope of a search: all that is kept of an audience. For the model (`is_model`) only what
    no person removed, and of the conversation in which a turn runs only what was said before that:
    `running` is the conversation's row, and the seq at which the turn begins. `here` is the row of
    the conversation that asks (0: none does)."""

    audience: str
    is_model: bool = False
    running: tuple[int, int] = (0, 0)
    here: int = 0


class Reach:
    """`ranges` are the places that may be found."""

    def __init__(self, database: Database, scope: Scope) -> None:
        self._database, self._scope = database, scope
        there = index.conversations(database, scope.audience)
        self._names = {one.row: one.name for one in there}
        line = lineage(database, scope.here) if scope.here in self._names else []
        self._shared = {link.conversation: link.seq for link in line[:-1]}
        rows = {link.conversation for link in line}
        here = [one for one in there if one.row in rows and one.lacks_some]
        mine = self._find_taken_away(scope.here, bool(here))
        away = {one.row: self._away(one, mine) for one in there}
        visible = (part for one in there for part in self._visible(one, away[one.row], mine))
        self.ranges = Ranges(visible, [*self._gaps(away), *self._find_shared_gaps(line, mine)])

    def name(self, place: int) -> str:
        """Return the id of the conversation that a place is in, as who asks knows it."""
        row, seq = home_of(place)
        if seq <= self._shared.get(row, 0):
            row = self._scope.here
        name = self._names[row]
        # What is kept of a conversation for its branches alone has a name that nobody knows.
        return chat_of(name) if "//-" in name else name

    def _away(self, one: IndexedConversation, mine: TakenAway) -> TakenAway:
        if one.row == self._scope.here:
            return mine
        return self._find_taken_away(one.row, one.lacks_some)

    def _find_taken_away(self, row: int, lacks_some: bool) -> TakenAway:
        """Find the part of a conversation that may not be found."""
        if not (self._scope.is_model and lacks_some):
            return NOTHING_AWAY
        return replay(transcript.events_of(self._database, row), "").taken_away

    def _visible(
        self, one: IndexedConversation, away: TakenAway, mine: TakenAway
    ) -> Iterator[Range]:
        """Yield the places of a conversation that may be found, but for the gaps in them."""
        shared = self._shared.get(one.row, 0)
        if shared and mine.cleared <= shared:
            yield range_of(one.row, mine.cleared, shared)
        running, begin = self._scope.running
        first = max(away.cleared, shared + 1 if shared else 0)
        if self._scope.is_model and one.row == running:
            yield range_of(one.row, first, begin - 1)
        else:
            yield range_of(one.row, first)

    def _gaps(self, away: dict[int, TakenAway]) -> Iterator[Range]:
        """Yield the places of the turns that a person dropped, but for those that are shared."""
        for row, taken in away.items():
            if taken.dropped:
                for first, last in transcript.spans(self._database, row, taken.dropped):
                    if first > self._shared.get(row, 0):
                        yield range_of(row, first, last)

    def _find_shared_gaps(self, line: list[Ancestor], mine: TakenAway) -> Iterator[Range]:
        """Yield the places of those that were dropped of what is shared."""
        if mine.dropped:
            for first, last in transcript.spans(self._database, self._scope.here, mine.dropped):
                owner = next(link for link in line if first <= link.seq)
                yield range_of(owner.conversation, first, last)
