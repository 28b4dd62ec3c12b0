"""The values that people corrected in the conversations of an audience, stored beside its
`MEMORY.md`. Remembered lines and daily files are shown to the model with the current values. The
files themselves change only by an approved edit."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from memory.corrections.edited import AT_ONCE
from memory.corrections.ended_values import (
    EndedByPerson,
    EndedValue,
    find_places,
    show_corrected,
    supersede,
)
from memory.corrections.sentences import content_words
from memory.long_term.document import MemoryLine, Source
from memory.patterns import lazy
from memory.record import daily, folders
from memory.record.daily import Note
from memory.record.memory_file import MemoryFileError

log = logging.getLogger(__name__)

NAME = ".corrected.json"
MOST = 500
"""The maximum of stored values of an audience that were corrected in the chat, the newest; those
corrected by a command are kept as well."""
DAMAGED = ".corrected.damaged.json"
"""The name to which an unreadable file is renamed."""
_LONGEST, _MOST_WORDS = 300, 200  # characters of an imported value; words of its topic
_CONTROL = lazy(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_WORD = lazy(r"\w")
_DAY = 24 * 3600  # seconds, by which the clocks of two computers may differ
_COVERED, _HERE, _LATER = 1, 2, 3
"""The positions of a correction in a section, of the section, and of a later correction."""
_ONE_WRITER = threading.Lock()  # keeps both of two concurrent corrections


class EndedInAudience(Struct, frozen=True):
    """A value that was corrected in a conversation, on a day ("2026-11-20") at a time of day. For a
    command, `until` is the time (seconds since 1970) up to which texts are corrected; it is 0 for a
    correction in a message, whose time is `said`. `version` is the version of `MEMORY.md` that the
    command made, `event` the event of the edited summary (0: none); while that is undone, the
    correction is not applied. `is_kept`: the transcript does not have the message any more, or the
    context was cleared of it."""

    value: EndedValue
    conversation: str
    day: str
    at: str = ""
    until: float = 0.0
    version: int = 0
    is_undone: bool = False
    event: int = 0
    said: float = 0.0
    is_kept: bool = False

    @property
    def time(self) -> tuple[str, str, float]:
        """The time by which corrections are ordered."""
        return self.day, self.at, self.until or self.said

    @property
    def by_person(self) -> EndedByPerson:
        """The correction, as summaries and searches apply it."""
        where = "" if self.until else self.conversation
        return EndedByPerson(self.value, self.until or self.said, where)


def path_of(data: Path, audience: str) -> Path:
    """Return the path of an audience's file of corrections."""
    return daily.folder(data, audience) / NAME


def exists(path: Path) -> bool:
    """Return whether an audience has corrections; a check without a thread."""
    return path.exists()


def is_mentioned(path: Path, text: str) -> bool:
    """Return whether a text has a value that was ended, in force or not: to order hundreds of
    corrections would take longer than the rest of a message."""
    folded = text.casefold()
    return any(one.value.old.casefold() in folded for one in _read_stored(path))


def read(path: Path) -> tuple[EndedInAudience, ...]:
    """Return the corrections in force; none if there is no usable file, which is logged."""
    return _with_outcomes(_read_stored(path))


def _read_stored(path: Path) -> Kept:
    try:
        return _load(path)
    except MemoryFileError as error:
        log.warning("%s", error)
    except msgspec.MsgspecError as error:
        log.warning("%s holds no corrections: %s", path, error)
    return ()


def _load(path: Path) -> tuple[EndedInAudience, ...]:
    """Return the stored corrections. Raises MemoryFileError, and MsgspecError for a damaged
    file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise _refusal(path, error, "read") from error
    return msgspec.json.decode(content, type=tuple[EndedInAudience, ...])


def _refusal(path: Path, error: OSError, verb: str) -> MemoryFileError:
    return MemoryFileError(f"{path} can't be {verb}: {error.strerror or error}.")


def update(
    data: Path,
    audience: str,
    conversation: str,
    new: Sequence[EndedInAudience],
    times: Mapping[int, float],
) -> bool:
    """Replace the stored corrections of a conversation; return whether they changed. Those in
    messages that its transcript lacks are kept; `times` are those of the others (Unix), by seq.
    Raises MemoryFileError, and StoreError if other processes have taken over."""

    def change(before: Kept) -> Kept:
        found = {(one.value.seq, one.value.old) for one in new}
        others = [one for one in before if one.until or one.conversation != conversation]
        kept = [
            replace(one, is_kept=True)
            for one in before
            if not one.until and one.conversation == conversation and one.said
            if not one.by_person.is_in(times) and (one.value.seq, one.value.old) not in found
        ]
        return (*others, *kept, *new)

    return _change(data, audience, change)


def add_by_hand(data: Path, audience: str, new: Sequence[EndedInAudience]) -> None:
    """Add corrections that were made by a command. Raises MemoryFileError, and StoreError if other
    processes have taken over."""

    _change(data, audience, lambda before: (*before, *new))


def mark_undone(data: Path, audience: str, is_undone: Callable[[EndedInAudience], bool]) -> bool:
    """Set which corrections by commands and edits are undone; return whether that changed. Raises
    MemoryFileError, and StoreError if other processes have taken over."""

    def change(before: Kept) -> Kept:
        return tuple(replace(one, is_undone=is_undone(one)) for one in before)

    return _change(data, audience, change)


Kept = tuple[EndedInAudience, ...]


def _with_outcomes(kept: Kept) -> Kept:
    """Return the corrections in force, oldest first, updated by later ones. Those of a transcript
    are updated by each other already."""
    held = sorted((one for one in kept if not one.is_undone), key=lambda one: one.time)
    found = []
    for place, one in enumerate(held, 1):
        value: EndedValue | None = one.value
        for later in held[place:]:
            is_of_chat = one.is_kept and one.conversation == later.conversation
            if value is not None and (one.until or later.until or is_of_chat):
                value = supersede(value, later.value)
        if value is not None:
            found.append(replace(one, value=value))
    return tuple(found)


def _change(data: Path, audience: str, change: Callable[[Kept], Kept]) -> bool:
    """Change the stored corrections of an audience; return whether they changed."""
    path = path_of(data, audience)
    with _ONE_WRITER:
        try:
            before = _load(path)
        except msgspec.MsgspecError as error:
            _put_aside(path, error)
            before = ()
        after = _within_most(change(before))
        if after == before:
            return False
        try:
            _write(path, msgspec.json.encode(after))
        except OSError as error:
            raise _refusal(path, error, "written") from error
    return True


def decode(content: bytes) -> tuple[Kept, int]:
    """Return the usable corrections of another installation's file that are in force, at most
    `MOST`, and the number of the others. No version of another `MEMORY.md` undoes them. Raises
    ValueError."""
    try:
        stored = msgspec.json.decode(content, type=Kept)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"it holds no corrections ({error})") from None
    held = [one for one in stored if not one.is_undone]
    found = [
        replace(one, version=0, event=0, said=one.said or _to_time(one), is_kept=not one.until)
        for one in held[-MOST:]
        if _is_usable(one)
    ]
    return tuple(found), len(held) - len(found)


def _is_usable(one: EndedInAudience) -> bool:
    """Return whether a correction may be of this program, and was made in the past."""
    value = one.value
    words = (value.old, value.new, one.conversation, *value.topic)
    numbers = (value.turn, value.seq, value.said_again)
    is_past = max(one.until, one.said, _to_time(one)) <= time.time() + _DAY
    return (
        len(value.topic) <= _MOST_WORDS
        and all(len(word) <= _LONGEST and not _CONTROL.search(word) for word in words)
        and all(_WORD.search(word) for word in (value.old, value.new))
        and all(0 <= number <= AT_ONCE for number in numbers)
        and _to_time(one) > 0
        and is_past
    )


def _to_time(one: EndedInAudience) -> float:
    """Return the time of a correction that was stored by an earlier release."""
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(f"{one.day} {one.at or '23:59'}:59").timestamp()
    return 0.0


def merge(data: Path, audience: str, new: Kept) -> None:
    """Add imported corrections that are not there yet, in the order of their times. Raises
    MemoryFileError, and StoreError if other processes have taken over."""

    def change(before: Kept) -> Kept:
        known = {(one.conversation, one.value, one.until) for one in before}
        added = [one for one in new if (one.conversation, one.value, one.until) not in known]
        return tuple(sorted((*before, *added), key=lambda one: one.time)) if added else before

    _change(data, audience, change)


def forget(data: Path, audience: str, is_forgotten: Callable[[EndedInAudience], bool]) -> None:
    """Delete these corrections. Delete a damaged file that was kept, and drafts that a crash left,
    since they may contain forgotten data. Raises MemoryFileError, and StoreError if other processes
    have taken over."""
    path = path_of(data, audience)
    with _ONE_WRITER:
        for copy in (path.with_name(DAMAGED), *path.parent.glob(f"{NAME}*.draft")):
            try:
                if os.path.lexists(copy):
                    folders.check_may_write()
                    copy.unlink()
            except OSError as error:
                raise _refusal(copy, error, "deleted") from error
    _change(data, audience, lambda before: tuple(one for one in before if not is_forgotten(one)))


def _within_most(kept: Kept) -> Kept:
    corrections = [one for one in kept if not one.until]
    evicted = {id(one) for one in corrections[:-MOST]}
    return tuple(one for one in kept if id(one) not in evicted)


def _put_aside(path: Path, why: Exception) -> None:
    aside = path.with_name(DAMAGED)
    log.error("%s holds no corrections (%s); it is kept as %s", path, why, aside)
    folders.check_may_write()
    try:
        os.replace(path, aside)
    except OSError as error:
        raise _refusal(path, error, "moved") from error


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    folders.check_may_write()
    number, draft = tempfile.mkstemp(".draft", NAME, path.parent)
    try:
        with open(number, "wb") as file:
            file.write(content)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def stored(data: Path, audience: str) -> tuple[EndedByPerson, ...]:
    """Return the corrections of an audience, as summaries and searches apply them."""
    kept = read(path_of(data, audience))
    return tuple(one.by_person for one in kept if one.until or one.said)


def find_restored(data: Path, audience: str) -> tuple[EndedValue, ...]:
    """Return the corrections by commands that are undone, reversed: a summary that was written in
    the meantime has the new value about the same topic, and the old one is in force again."""
    return tuple(
        EndedValue(
            *(one.value.new, one.value.old, 0, 0, one.value.topic),
            is_shared=bool(one.value.topic),
            is_marked=False,
        )
        for one in _read_stored(path_of(data, audience))
        if one.is_undone
    )


def show_line(line: MemoryLine, ended: Iterable[EndedInAudience]) -> str:
    """Return the text of a line of `MEMORY.md`, as the model reads it."""
    return show_corrected(line.text, [one.value for one in ended if _ends_line(one, line)])


def show_note(note: Note, ended: Iterable[EndedInAudience]) -> str:
    """Return the text of a section of a daily file, as the model reads it, and as it is written."""
    source = Source("section", str(note.day), note.at, "", note.conversation, note.turns)
    last = max((last for _, last in source.spans), default=0)
    values = [
        replace(one.value, seq=_COVERED if not one.until and one.value.turn <= last else _LATER)
        for one in ended
        if _is_before(source, one) and _is_about(one, note.text, [source])
    ]
    return show_corrected(note.text, values, "assistant", _HERE)


def _ends_line(one: EndedInAudience, line: MemoryLine) -> bool:
    sources = line.sources
    if sources and not any(_is_before(source, one) for source in sources):
        return False
    if line.said > one.day or (one.until and not sources and line.said == one.day):
        return False
    return _is_about(one, line.text, sources)


def _is_before(source: Source, one: EndedInAudience) -> bool:
    """Return whether the source is from before the correction."""
    if one.until:  # the person has seen the lines of that minute, but not the sections
        when, now = (source.day, source.at), (one.day, one.at)
        return when < now or (when == now and source.kind == "section")
    if source.conversation == one.conversation and source.spans:
        return min(first for first, _ in source.spans) <= one.value.turn
    return (source.day, source.at or one.at) <= (one.day, one.at)


def _is_about(one: EndedInAudience, text: str, sources: Collection[Source]) -> bool:
    """Return whether a text is from the same conversation, or about the same topic."""
    if any(source.conversation == one.conversation for source in sources):
        return True
    words = content_words(text) - content_words(one.value.old)
    return not words or not one.value.topic.isdisjoint(words)


def lines_to_change(
    lines: Iterable[MemoryLine], ended: Sequence[EndedInAudience]
) -> list[tuple[MemoryLine, MemoryLine, EndedInAudience]]:
    """Return the lines with a corrected value, each with its replacement and the newest correction
    in it."""
    found = []
    for line in lines:
        values = [one for one in ended if _ends_line(one, line)]
        plain = [replace(one.value, is_marked=False) for one in values]
        text = show_corrected(line.text, plain)
        if text != line.text:
            last = [one for one in values if any(find_places(line.text, one.value.old))][-1]
            found.append((line, replace(line, raw=line.raw.replace(line.text, text)), last))
    return found
