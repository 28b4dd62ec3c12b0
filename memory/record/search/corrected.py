"""The corrections in conversations, read from their transcripts. A turn that is removed, forgotten
or not in a branch corrects nothing there."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from memory.context.layout import RemovedTurns
from memory.corrections.ended_values import (
    EndedByPerson,
    EndedValue,
    find_places,
    show_corrected,
    update_by_commands,
)
from memory.corrections.finder import Correction, CorrectionFinder, in_force, use_again
from memory.record import conversations, transcript
from memory.record.database import Database
from memory.turns import Entry

_CAUGHT_UP = 1_000  # the maximum of unread messages that a caller waits for
KEPT = 16
"""The number of conversations whose corrections stay in memory: the last used ones."""


class FoundCorrection(Struct, frozen=True):
    """A correction, and its message."""

    correction: Correction
    turn: int
    seq: int


class _MessagesRead(Struct):
    """The messages of a conversation that were read so far, as far as corrections need them."""

    finder: CorrectionFinder = field(default_factory=CorrectionFinder)
    messages: int = 0
    seq: int = 0
    found: list[FoundCorrection] = field(default_factory=list)
    again: dict[str, int] = field(default_factory=dict)

    def find_in(self, role: str, text: str, turn: int, seq: int) -> None:
        if role != "user":
            self.finder.note(text)
            return
        new = [FoundCorrection(one, turn, seq) for one in self.finder.find_in(text)]
        for correction in self.found if not new else ():
            old = correction.correction.old
            if old not in self.again and any(find_places(text, old)):
                self.again[old] = seq
        self.found = [
            replace(one, correction=use_again(one.correction, text)) for one in self.found
        ]
        self.found += new


class CorrectionBook:
    """The corrections of all conversations of a store; thread-safe."""

    def __init__(self) -> None:
        self._heard: OrderedDict[int, _MessagesRead] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def of(
        self, database: Database, conversation: int, away: RemovedTurns | None = None
    ) -> tuple[EndedValue, ...]:
        """Return the values that were corrected in a conversation, except by removed turns (`away`,
        which is read if it is not given)."""
        with self._one_at_a_time:
            record = self._catch_up(database, conversation)
            found, again = [*record.found], dict(record.again)
        if not found:
            return ()
        removed = transcript.removed_turns(database, conversation) if away is None else away
        corrections = {n: one for n, one in enumerate(found) if not removed.has(one.turn)}
        held = in_force(replace(one.correction, at=n) for n, one in corrections.items())
        return tuple(_to_ended(one, corrections[one.at], again.get(one.old, 0)) for one in held)

    def heard(self, database: Database, conversation: int) -> tuple[FoundCorrection, ...] | None:
        """Return the corrections of a conversation with their turns; None if many messages are
        unread."""
        with self._one_at_a_time:
            known = self._heard.get(conversation) or _MessagesRead()
            if transcript.count_from(database, conversation, known.seq + 1)[0] > _CAUGHT_UP:
                return None
            return tuple(self._catch_up(database, conversation).found)

    def forget(self) -> None:
        """Clear the cache; corrections are read again when needed."""
        with self._one_at_a_time:
            self._heard.clear()

    def _catch_up(self, database: Database, conversation: int) -> _MessagesRead:
        record = self._heard.pop(conversation, None) or _MessagesRead()
        there, newest = transcript.count_from(database, conversation, 0)
        if (there, newest) != (record.messages, record.seq):
            count, _ = transcript.count_from(database, conversation, record.seq + 1)
            if record.messages + count != there:  # something was deleted
                record = _MessagesRead()
            for role, text, turn, seq in transcript.spoken(database, conversation, record.seq + 1):
                record.find_in(role, text, turn, seq)
            record.messages, record.seq = there, newest
        self._heard[conversation] = record
        while len(self._heard) > KEPT:
            self._heard.popitem(last=False)
        return record


class Corrections(Struct, frozen=True):
    """The corrections that a search applies: those in the transcripts, and the `stored` ones: by
    commands, for all conversations, and in messages that a transcript does not have."""

    book: CorrectionBook
    stored: Sequence[EndedByPerson] = ()

    def of(
        self, database: Database, conversation: int, away: RemovedTurns | None = None
    ) -> tuple[EndedValue, ...]:
        """Return the values that were corrected in a conversation, updated by later commands."""
        ended = self.book.of(database, conversation, away)
        if self.stored:
            times = find_times(database, conversation, ended)
            name = conversations.find_name(database, conversation)
            heard = [(times[one.seq], one) for one in ended]
            of_chat = (one for one in self.stored if one.conversation == name != "")
            heard += [(one.until, one.value) for one in of_chat if not one.is_in(times)]
            commands = [one for one in self.stored if not one.conversation]
            ended = tuple(update_by_commands(heard, commands))
        return ended

    def show(self, entry: Entry, ended: Sequence[EndedValue]) -> Entry:
        """Return an entry with these corrected values replaced, and those that a command corrected
        after it was sent."""
        time = entry.at.timestamp()
        commands = (one for one in self.stored if not one.conversation)
        by_hand = (one.value for one in commands if time <= one.until)
        return correct(entry, (*by_hand, *ended))


def find_times(
    database: Database, conversation: int, ended: Sequence[EndedValue]
) -> Mapping[int, float]:
    """Return the times (Unix) of the messages that ended values, by their seqs; 0 for one that does
    not exist any more."""
    seqs = {one.seq for one in ended}
    entries = transcript.entries_at(database, conversation, seqs)
    return dict.fromkeys(seqs, 0.0) | {entry.seq: entry.at.timestamp() for entry in entries}


def _to_ended(one: Correction, found: FoundCorrection, again: int) -> EndedValue:
    return EndedValue(
        one.old, one.new, found.turn, found.seq, one.topic, one.is_shared, again, others=one.others
    )


def correct(entry: Entry, ended: Sequence[EndedValue]) -> Entry:
    """Return an entry with corrections applied; the transcript keeps the original."""
    message = entry.message
    text = show_corrected(message.text, ended, message.role, entry.seq)
    if text == message.text:
        return entry
    return replace(entry, message=replace(message, text=text))
