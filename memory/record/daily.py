"""Daily memory files, `memory/YYYY-MM-DD.md` in an audience's folder: a section for each summary,
with the number of its job, so that none is written twice. People may edit them, so the index for
searching them is not kept on disk, but in a database in memory."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, tzinfo
from pathlib import Path

from msgspec import Struct
from msgspec.structs import astuple

from memory.keys import ConversationKey
from memory.messages import Message
from memory.patterns import lazy
from memory.record import conversations, folders, transcript
from memory.record.engines.sqlite import in_memory
from memory.record.search import Hit, find, index
from memory.record.search.reach import Scope
from memory.turns import Entry

_HEAD = lazy(
    r"^## (?P<at>\d\d:\d\d) · (?P<conversation>.+) · "
    r"(?P<turns>[^·\n]+) <!-- job (?P<job>\d+) -->\n",
    re.MULTILINE,
)
_END = lazy(r"\n<!-- end (?P<job>\d+) -->(?=(?P<gap>\n*+))")
_ONE_WRITER = threading.Lock()  # a file that is rewritten must not lose a concurrent append


class Section(Struct, frozen=True):
    """An entry of a daily file: `at` in the bot's time zone, `turns` as words."""

    key: ConversationKey
    at: datetime
    turns: str
    text: str
    job: int


def folder(data: Path, audience: str) -> Path:
    """Return the folder of an audience's daily files."""
    return data / "audiences" / audience / "memory"


def audiences(data: Path) -> list[str]:
    """List the audiences that have files."""
    return sorted(path.name for path in (data / "audiences").glob("*") if path.is_dir())


def quarantine(data: Path) -> Path:
    """Return the folder that replaces the data folder for sections that wait for a person's review.
    No model tool and no search reads it."""
    return data / "quarantine"


def release(data: Path, audience: str, job: int) -> bool:
    """Move the section of this job from the quarantine to the file of its day; return False if
    there is none."""
    waiting = quarantine(data)
    found = [n for day in days(waiting, audience) for n in notes(waiting, audience, day)]
    for note in found:
        if note.job == job:
            at = datetime.combine(note.day, time.fromisoformat(note.at))
            key = ConversationKey(note.conversation, audience)
            append(data, Section(key, at, note.turns, note.text, job))
            remove(waiting, audience, SectionFilter(frozenset({job})))
            return True
    return False


def append(data: Path, section: Section) -> Path:
    """Append a section to the day's file unless it is already there; on disk when this returns."""
    path = _file(data, section.key.audience, section.at.date())
    with _ONE_WRITER:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _is_written(data, section):
            _write(path, _block(section), os.O_APPEND)
    return path


def append_note(data: Path, audience: str, day: date, text: str) -> None:
    """Append a person's text to the day's file; on disk when this returns."""
    path = _file(data, audience, day)
    with _ONE_WRITER:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, f"{text.strip()}\n\n".encode(), os.O_APPEND)


def _is_written(data: Path, section: Section) -> bool:
    """Return whether a section is in the file of its day or in the two newest: a job that is
    repeated after midnight finds its section in the older file."""
    looked_into = {section.at.date(), *days(data, section.key.audience)[-2:]}
    end = f"<!-- end {section.job} -->"  # a section torn by a power cut has none
    return any(end in read(data, section.key.audience, day) for day in looked_into)


def _block(section: Section) -> bytes:
    """Return the section as written; comments in its text are escaped, so that none passes for a
    marker."""
    title = f"## {section.at:%H:%M} · {section.key.id} · {section.turns} <!-- job {section.job} -->"
    text = section.text.strip().replace("<!--", "&lt;!--")
    return f"{title}\n\n{text}\n\n<!-- end {section.job} -->\n\n".encode()


def _write(path: Path, block: bytes, how: int) -> None:
    """Write to a file that only its owner can read; on disk when this returns."""
    folders.check_may_write()
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600), "wb") as file:
        file.write(block)
        file.flush()
        os.fsync(file.fileno())


def days(data: Path, audience: str) -> list[date]:
    """Return the days that have a file, oldest first."""
    found = []
    for file in folder(data, audience).glob("????-??-??.md"):
        try:
            found.append(date.fromisoformat(file.stem))
        except ValueError:
            continue  # a person's own file in this folder
    return sorted(found)


def read(data: Path, audience: str, day: date) -> str:
    """Return a day's file; "" if there is none."""
    path = _file(data, audience, day)
    return path.read_text("utf-8", errors="replace") if path.is_file() else ""


class Note(Struct, frozen=True):
    """A part of a day's file: a section of a summary, with its time, conversation, turns in words
    and job; or a person's own text, for which these are empty."""

    day: date
    text: str
    at: str = ""
    conversation: str = ""
    turns: str = ""
    job: int = 0

    @property
    def digest(self) -> str:
        """A digest that identifies a section; it changes when the section is rewritten."""
        return hashlib.sha256(f"{self.day} {self.job} {self.text}".encode()).hexdigest()


def notes(data: Path, audience: str, day: date) -> Iterator[Note]:
    """Return the parts of a day's file, in order."""
    return notes_in(day, read(data, audience, day))


def notes_in(day: date, text: str) -> Iterator[Note]:
    """Yield the parts of the text of a day's file, in order."""
    end = 0
    for found in _blocks(text):
        if own := text[end : found.start].strip():
            yield Note(day, own)
        end = found.end
        yield Note(day, found.body, found.at, found.conversation, found.turns, found.job)
    if own := text[end:].strip():
        yield Note(day, own)


class _Block(Struct, frozen=True):
    """A section in a file's text, from `start` to `end`."""

    start: int
    end: int
    body: str
    at: str
    conversation: str
    turns: str
    job: int


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the sections in a text, in order: each from its title to the next end marker of its
    job. A title without an end marker is a person's own text."""
    ends: dict[str, list[re.Match[str]]] = {}
    for end in _END.finditer(text):
        ends.setdefault(end["job"], []).append(end)
    at = 0
    for head in _HEAD.finditer(text):
        following = ends.get(head["job"], [])
        nearest = bisect_left(following, head.end(), key=re.Match.start)
        if head.start() < at or nearest == len(following):
            continue
        end = following[nearest]
        at = end.end("gap")
        body = text[head.end() : end.start()].strip()
        fields = (head["at"], head["conversation"], head["turns"])
        yield _Block(head.start(), at, body, *fields, int(head["job"]))


class SectionFilter(Struct, frozen=True):
    """A selection of sections: those of these jobs, and all of a conversation ("": of none)."""

    jobs: frozenset[int] = frozenset()
    conversation: str = ""

    def means(self, section: _Block) -> bool:
        return section.job in self.jobs or section.conversation == self.conversation


def count(data: Path, audience: str, which: SectionFilter) -> int:
    """Return how many of these sections there are."""
    texts = (read(data, audience, day) for day in days(data, audience))
    return sum(which.means(section) for text in texts for section in _blocks(text))


def remove(data: Path, audience: str, which: SectionFilter) -> None:
    """Remove these sections from the files. A file that becomes empty is deleted."""
    with _ONE_WRITER:
        folders.check_may_write()
        for unfinished in folder(data, audience).glob("????-??-??.new"):
            unfinished.unlink()  # left over from a crash
        for day in days(data, audience):
            _delete_sections(_file(data, audience, day), which)


def _delete_sections(file: Path, which: SectionFilter) -> None:
    text = file.read_text("utf-8", errors="surrogateescape")
    kept, at = [], 0
    for section in filter(which.means, _blocks(text)):
        kept.append(text[at : section.start])
        at = section.end
    rest = "".join((*kept, text[at:]))
    if not rest.strip():
        folders.check_may_write()
        file.unlink()
    elif rest != text:
        unfinished = file.with_suffix(".new")
        _write(unfinished, rest.encode("utf-8", "surrogateescape"), os.O_TRUNC)
        folders.check_may_write()
        unfinished.replace(file)


def _file(data: Path, audience: str, day: date) -> Path:
    return folder(data, audience) / f"{day.isoformat()}.md"


KEPT = 4
"""The number of audiences whose notes stay in memory: the last searched ones."""
_NOTES = Scope("notes")


class NoteHit(Hit, frozen=True, kw_only=True):
    """A part of a daily file that was found."""

    note: Note


class FoundNotes(Struct, frozen=True):
    """The best hits, and the number of notes that contain any of the words."""

    hits: tuple[NoteHit, ...] = ()
    total: int = 0


class NoteSearch:
    """The search of the notes of all audiences; thread-safe."""

    def __init__(self) -> None:
        self._indexed: OrderedDict[str, _IndexedNotes] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def find(
        self, audience: str, notes: Sequence[Note], text: str, most: int, zone: tzinfo
    ) -> FoundNotes:
        """Find the notes that match a text best among all notes of an audience, given by day."""
        if not notes:
            self._forget(audience)
            return FoundNotes()
        by_day = defaultdict[date, list[Note]](list)
        for note in notes:
            by_day[note.day].append(note)
        with self._one_at_a_time:
            indexed = self._indexed.pop(audience, None)
            if indexed is not None and not indexed.may_become(by_day, zone):
                indexed.close()
                indexed = None
            indexed = indexed or _IndexedNotes(zone)
            indexed.add(by_day)
            self._indexed[audience] = indexed
            while len(self._indexed) > KEPT:
                self._indexed.popitem(last=False)[1].close()
            return indexed.find(text, most)

    def _forget(self, audience: str) -> None:
        """Delete an audience's index, since text that is deleted from the files must not stay in
        memory."""
        with self._one_at_a_time:
            if indexed := self._indexed.pop(audience, None):
                indexed.close()


class _IndexedNotes:
    """Notes in a database in memory; each is the turn of its own number."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone, self._database = zone, in_memory(is_shared=True)
        self._notes: list[Note] = []
        self._by_day: dict[date, list[Note]] = {}

    def may_become(self, by_day: Mapping[date, Sequence[Note]], zone: tzinfo) -> bool:
        """Return whether the indexed notes only need additions at the end of days to become
        these."""
        return zone == self._zone and all(
            by_day.get(day, ())[: len(there)] == there for day, there in self._by_day.items()
        )

    def add(self, by_day: Mapping[date, Sequence[Note]]) -> None:
        """Index the notes that are not indexed yet."""
        new = {day: notes[len(self._by_day.get(day, ())) :] for day, notes in by_day.items()}
        if not any(new.values()):
            return
        with self._database.atomic():
            for day, notes in new.items():
                if notes:
                    self._add_to_day(day, notes)
            for row in index.list_unindexed(self._database, _NOTES.audience):
                while index.catch_up(self._database, row):
                    pass

    def _add_to_day(self, day: date, notes: Sequence[Note]) -> None:
        key = ConversationKey(str(day), _NOTES.audience)
        row = conversations.find_or_create(self._database, key)
        at, number = datetime.combine(day, time(), self._zone), len(self._notes)
        entries = [
            Entry(row.last_seq + 1 + i, number + i, Message("note", note.text), 0, at)
            for i, note in enumerate(notes)
        ]
        transcript.insert(self._database, row.id, entries)
        self._notes += notes
        self._by_day.setdefault(day, []).extend(notes)

    def close(self) -> None:
        self._database.close()

    def find(self, text: str, most: int) -> FoundNotes:
        found = find(self._database, _NOTES, text, most, self._zone)
        hits = (NoteHit(*astuple(hit), note=self._notes[hit.entry.turn]) for hit in found.hits)
        return FoundNotes(tuple(hits), found.total)
