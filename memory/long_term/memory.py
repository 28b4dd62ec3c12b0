"""The long-term memory of an audience: its `MEMORY.md`, with all its versions.

The text in force is in the file, which a person may edit by hand at any time. Such an edit is
stored as a version of its own before anything else is written. A change is written to disk as a
draft, then to the database, then in place of the file. So a full disk or a crash leaves the old
text or the new one, never a partial one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from memory.corrections.ended_values import EndedValue
from memory.keys import ConversationKey
from memory.long_term import ended as ended_file
from memory.long_term.document import (
    DeletedTurns,
    LineOperation,
    Lines,
    MemoryLine,
    Source,
    add_line,
    apply,
    compose,
    diff_lines,
    drop_forgotten,
    fact,
    facts,
    is_important,
    parse,
    render,
)
from memory.long_term.ended import EndedInAudience, add_by_hand, lines_to_change, mark_undone
from memory.record import daily, memory_file, summaries
from memory.record.daily import Note
from memory.record.memory_file import MemoryFileError, State, Version
from memory.services import MemoryServices
from memory.tasks import run_shielded

CORRECTION = "correction"
"""The actor of a version that corrects values as a person did in the chat."""
BY_HAND = "file"
"""The actor of a version that was edited in the file."""
HELD: tuple[State, ...] = ("held",)
PROPOSED: tuple[State, ...] = ("proposed",)
UNDONE: tuple[State, ...] = ("undone",)


class AudienceState(Struct):
    """The state of an audience's file while the bot runs. Code that changes the file or its
    versions holds `changing`; `forgotten` counts the deletions, and `is_distilling` is true during
    a distillation."""

    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    forgotten: int = 0
    is_distilling: bool = False


class MemoryState(Struct, frozen=True):
    """The text in force (`version` is None if there never was one), and the pending proposal."""

    lines: Lines
    version: Version | None
    proposal: Version | None

    @property
    def proposed(self) -> Lines:
        """The lines with the proposal applied."""
        return apply(self.lines, self.proposal.operations) if self.proposal else self.lines


def _and(before: str, new: str) -> str:
    """Join two texts, unless the first contains the second."""
    return before if new in before.split(", ") else f"{before}, {new}"


def _by(person: str) -> str:
    """Return " by" with a person's id; "" at the terminal, where people have no names."""
    return f" by {person}" if "/" in person else ""


def _source_of(one: EndedInAudience) -> Source:
    """Return the turn of a correction, as the source of a corrected line."""
    return Source("person", one.day, one.at, "", one.conversation, f"t{one.value.turn}")


class LongTermMemory:
    """The `MEMORY.md` of a conversation's audience. Raises StoreError, and MemoryFileError with a
    sentence if the file can't be used."""

    def __init__(
        self, services: MemoryServices, key: ConversationKey, state: AudienceState
    ) -> None:
        self._services, self.key, self.state = services, key, state
        self.audience = key.audience
        self.path = memory_file.path_of(services.data, key.audience)

    # --- reading --------------------------------------------------------------------------

    async def read(self) -> MemoryState:
        """Return the text in force, including manual edits of the file."""
        async with self.state.changing:
            return await self.read_held()

    async def read_held(self) -> MemoryState:
        """Return the same for a caller that holds `changing`."""
        return await run_shielded(self._read())

    async def versions(self, most: int | None = None) -> list[Version]:
        """Return the stored versions, newest first, at most `most` (None: all)."""
        await self.read()
        return await self._versions((), most)

    async def version(self, number: int) -> tuple[Version, Lines] | None:
        """Return the version of this number, and the lines that were in force before it."""
        found = await self._read_version(number)
        if found is None:
            return None
        before = await self._read_version(found.base)
        return found, before.lines if before else ()

    async def _read_version(self, number: int) -> Version | None:
        return await self._services.store.read(
            lambda db: memory_file.find_version(db, self.audience, number)
        )

    async def _versions(self, states: Collection[State], most: int | None = None) -> list[Version]:
        return await self._services.store.read(
            lambda db: memory_file.versions(db, self.audience, states, most)
        )

    async def _read(self) -> MemoryState:
        current, proposal, written = await self._services.store.read(self._find)
        text = render(parse(await asyncio.to_thread(memory_file.read, self.path)))
        held = render(current.lines) if current else ""
        if text == held:
            if current and not current.is_written:
                await self._mark_written(current.id)
        elif text == (render(written.lines) if written else ""):
            await self._put(held)  # a crash prevented this write
            await self._mark_written(current.id if current else 0)
        else:
            current = await self._adopt_edit(text, current)
        return MemoryState(current.lines if current else (), current, proposal)

    def _find(self, db: Any) -> tuple[Version | None, Version | None, Version | None]:
        """Return the versions that are in force, proposed, and in the file."""
        held = memory_file.versions(db, self.audience, HELD, 1)
        proposed = memory_file.versions(db, self.audience, PROPOSED, 1)
        written = memory_file.find_written(db, self.audience)
        return next(iter(held), None), next(iter(proposed), None), written

    async def _adopt_edit(self, text: str, before: Version | None) -> Version:
        """Store a manual edit of the file as a version."""
        now = self._now()
        source = Source("file", f"{now:%Y-%m-%d}", f"{now:%H:%M}")
        lines = parse(text, before.lines if before else (), source)
        base = before.number if before else 0
        version = Version(0, "held", BY_HAND, "edited in the file", lines, base=base)

        def keep(db: Any) -> Version:
            stored = memory_file.add(db, self.audience, version)
            memory_file.mark_written(db, self.audience, stored.id)
            return stored

        return await self._services.store.write(keep)

    # --- changes by a person ---------------------------------------------------------------

    async def remember(self, text: str, person: str) -> MemoryLine:
        """Add a person's line under the important ones; it is in force at once."""
        now = self._now()
        where = self.key.id
        source = Source("person", f"{now:%Y-%m-%d}", f"{now:%H:%M}", person, where)
        line = fact(text, source.day, source)
        async with self.state.changing:
            before = await self.read_held()
            lines = add_line(before.lines, line, is_important=True)
            if render(lines) != render(before.lines):
                await self._put_in_force(before, Version(0, "held", person, "/remember", lines))
        return line

    async def edit(
        self, text: str, person: str, base: int | None = None, known: Lines = ()
    ) -> Version:
        """Replace the whole file by a person's text; the proposal is settled by it. `base` is the
        version that the person edited: lines that were added since stay. `known` are lines with
        their sources, as they were in another installation."""
        memory_file.check_size(text)
        now = self._now()
        source = Source("person", f"{now:%Y-%m-%d}", f"{now:%H:%M}", person, self.key.id)
        async with self.state.changing:
            before = await self.read_held()
            lines = parse(text, known + before.proposed + before.lines, source)
            if base is not None:
                lines = await self._with_newer(lines, before.lines, base)
            new = Version(0, "held", person, "edited", lines)
            return await self._put_in_force(before, new, before.proposal)

    async def _with_newer(self, lines: Lines, current: Lines, base: int) -> Lines:
        """Return the lines, plus those that are in force now and were not in the version `base`."""
        seen = await self._read_version(base)
        known = {line.raw for line in (*(seen.lines if seen else ()), *lines)}
        for line in reversed([line for line in facts(current) if line.raw not in known]):
            lines = add_line(lines, line, is_important=is_important(current, line))
        return lines

    async def approve(self, person: str, seen: str = "") -> Version | None:
        """Put the proposal in force; return None if there is none, or if it is not the one that the
        person has `seen` ("": any)."""
        async with self.state.changing:
            before = await self.read_held()
            if before.proposal is None or seen not in ("", before.proposal.digest):
                return None
            why = f"{before.proposal.why}, approved{_by(person)}" if person else before.proposal.why
            made = before.proposal
            new = Version(0, "held", made.actor, why, before.proposed, made.operations)
            return await self._put_in_force(before, new, before.proposal)

    async def refuse(self, seen: str = "") -> Version | None:
        """Refuse the proposal; return None if there is none, or if it is not the one that was
        `seen`."""
        async with self.state.changing:
            proposal = (await self.read_held()).proposal
            if proposal is None or seen not in ("", proposal.digest):
                return None
            refused = replace(proposal, state="refused")
            await self._services.store.write(lambda db: memory_file.rewrite(db, refused))
            return refused

    async def undo(self, number: int = 0) -> tuple[Version, Version | None] | None:
        """Undo the newest version in force; return it and the one now in force. None if there is
        none, or if it is not the one of this number."""
        async with self.state.changing:
            current = (await self.read_held()).version
            if current is None or number not in (0, current.number):
                return None
            back = await self._read_version(current.base)
            if back is None and current.base:
                raise MemoryFileError(
                    f"The version before v{current.number} is not kept any more, so it can't be "
                    "restored; /memory edit changes the memory."
                )
            await run_shielded(self._move(replace(current, state="undone"), back))
            await self._mark_undone(current, True)
            return current, back

    async def redo(self, number: int = 0) -> Version | None:
        """Redo the last undone version if nothing has changed since; with a number, only if it is
        that version."""
        async with self.state.changing:
            current = (await self.read_held()).version
            first = current.number if current else 0
            undone = [one for one in await self._versions(UNDONE) if one.base == first]
            if not undone or number not in (0, undone[0].number):
                return None
            await run_shielded(self._move(replace(undone[0], state="held"), undone[0]))
            await self._mark_undone(undone[0], False)
            return undone[0]

    async def _mark_undone(self, version: Version, is_undone: bool) -> None:
        """Store whether the corrections of a version are undone with it."""

        def is_undone_now(one: EndedInAudience) -> bool:
            return is_undone if one.version == version.number else one.is_undone

        await asyncio.to_thread(mark_undone, self._services.data, self.audience, is_undone_now)
        self._services.on_change(self.key)

    # --- proposals by a model ----------------------------------------------------------------

    async def propose(
        self,
        operations: Sequence[LineOperation],
        sections: Sequence[str],
        by: str,
        why: str = "distilled",
    ) -> None:
        """Add operations to the proposal, and mark these sections as distilled. Operations that
        change no line are not proposed; a pending proposal is extended and names both authors. The
        caller holds `changing`. A value that a person has ended is replaced in the new lines."""
        before = await self._read()
        path = ended_file.path_of(self._services.data, self.audience)
        values = await asyncio.to_thread(ended_file.read, path)
        new = [one.line for one in operations if one.line is not None]
        now = {old.raw: line for old, line, _ in lines_to_change(new, values)}
        operations = [replace(o, line=o.line and now.get(o.line.raw, o.line)) for o in operations]
        together = before.proposal.operations if before.proposal else ()
        for operation in operations:
            together = compose(together, operation)
        is_new = bool(diff_lines(before.lines, apply(before.lines, together)))

        def keep(db: Any) -> None:
            memory_file.mark_distilled(db, self.audience, sections)
            if before.proposal is not None and is_new:
                made = before.proposal
                actor, how = _and(made.actor, by), _and(made.why, why)
                changed = replace(made, operations=together, actor=actor, why=how)
                memory_file.rewrite(db, changed)
            elif before.proposal is not None:
                memory_file.delete(db, before.proposal.id)
            elif is_new:
                base = before.version.number if before.version else 0
                new = Version(0, "proposed", by, why, operations=together, base=base)
                memory_file.add(db, self.audience, new)

        await self._services.store.write(keep)

    async def correct(self, ended: Sequence[EndedInAudience], why: str) -> int:
        """Propose to correct values in the lines that contain them; return the number of lines."""
        async with self.state.changing:
            before = await self.read_held()
            changes = lines_to_change(facts(before.proposed), ended)
            operations = [
                LineOperation("replace", replace(new, sources=made), old.raw, why, sources=made)
                for old, new, last in changes
                for made in [(*old.sources, _source_of(last))]
            ]
            if operations:
                await self.propose(operations, (), CORRECTION, why)
        return len(operations)

    async def end(
        self,
        changes: Mapping[str, str],
        values: Sequence[EndedValue],
        person: str,
        why: str,
        event: int = 0,
    ) -> None:
        """Replace lines (by their text in the file; "": remove), and store corrections, as a person
        ordered, or as the edit of a summary by this `event` implies."""
        now = self._now()
        source = Source("person", f"{now:%Y-%m-%d}", f"{now:%H:%M}", person, self.key.id)
        async with self.state.changing:
            before = await self.read_held()
            lines = tuple(
                replace(line, raw=changes[line.raw], sources=(*line.sources, source))
                if line.raw in changes
                else line
                for line in before.lines
                if changes.get(line.raw, line.raw)
            )
            number = 0
            if render(lines) != render(before.lines):
                made = await self._put_in_force(before, Version(0, "held", person, why, lines))
                number = made.number
            if values:
                day, at, until = source.day, source.at, now.timestamp()
                where = self.key.id, day, at, until, number
                new = [EndedInAudience(one, *where, event=event) for one in values]
                data = self._services.data
                await asyncio.to_thread(add_by_hand, data, self.audience, new)
                self._services.on_change(self.key)

    async def mark_removed_distilled(self) -> None:
        """Mark the sections of turns that a person removed as distilled, so that they are never
        distilled. Called before the transcript with that information is deleted."""

        def mark_removed_distilled(db: Any) -> None:
            away = summaries.removed_jobs(db, self.audience)
            removed = [note.digest for note in notes if note.job in away]
            memory_file.mark_distilled(db, self.audience, removed)

        notes = await asyncio.to_thread(self._sections)
        await self._services.store.write(mark_removed_distilled)

    def _sections(self) -> list[Note]:
        data = self._services.data
        days = daily.days(data, self.audience)
        return [note for day in days for note in daily.notes(data, self.audience, day)]

    # --- deleting ----------------------------------------------------------------------------

    @asynccontextmanager
    async def hold_while_forgetting(self, forgotten: DeletedTurns) -> AsyncIterator[None]:
        """Remove all forgotten data from the file and all versions. They stay locked until the
        block has deleted the rest."""
        async with self.state.changing:
            self.state.forgotten += 1
            await run_shielded(self._forget(forgotten))
            yield

    async def count(self, forgotten: DeletedTurns) -> int:
        """Return the number of lines that this would remove."""
        state = await self.read()
        return len(facts(state.proposed)) - len(facts(drop_forgotten(state.proposed, forgotten)))

    async def _forget(self, forgotten: DeletedTurns) -> None:
        state = await self._read()
        kept = drop_forgotten(state.lines, forgotten)
        everything = [line for one in await self._versions(()) for line in one.lines]
        hit = [line for line in everything if any(s.is_of(forgotten) for s in line.sources)]
        again = {source.digest for line in hit for source in line.sources if source.digest}
        if kept != state.lines:
            await self._put(render(kept))

        def forget(db: Any) -> None:
            memory_file.forget(db, self.audience, forgotten)
            memory_file.unmark_distilled(db, self.audience, again)

        await self._services.store.write(forget)

    @asynccontextmanager
    async def hold_while_forgetting_all(self) -> AsyncIterator[None]:
        """Delete all versions; the block deletes the file with its folder."""
        async with self.state.changing:
            self.state.forgotten += 1
            await self._services.store.write(lambda db: memory_file.forget_all(db, self.audience))
            yield

    # --- writing -----------------------------------------------------------------------------

    async def _put_in_force(
        self, before: MemoryState, new: Version, settled: Version | None = None
    ) -> Version:
        """Put a version in force after this state; delete the proposal that it settles."""
        new = replace(new, base=before.version.number if before.version else 0)

        def keep(db: Any) -> Version:
            if settled is not None:
                memory_file.delete(db, settled.id)
            return memory_file.add(db, self.audience, new)

        return await run_shielded(self._change(new.lines, keep))

    async def _move(self, changed: Version, now: Version | None) -> None:
        """Change the state of a version, and put another one (None: none) in force."""

        def keep(db: Any) -> Version | None:
            memory_file.rewrite(db, changed)
            return now

        await self._change(now.lines if now else (), keep)

    async def _change(self, lines: Lines, keep: Callable[[Any], Any]) -> Any:
        text = render(lines)
        memory_file.check_size(text)
        await asyncio.to_thread(memory_file.write_draft, self.path, text)
        try:
            stored = await self._services.store.write(keep)
        except BaseException:
            await asyncio.to_thread(memory_file.drop_draft, self.path)
            raise
        await asyncio.to_thread(memory_file.publish, self.path)
        await self._mark_written(stored.id if stored else 0)
        self._services.on_change(self.key)
        return stored

    async def _put(self, text: str) -> None:
        await asyncio.to_thread(memory_file.write_draft, self.path, text)
        await asyncio.to_thread(memory_file.publish, self.path)

    async def _mark_written(self, version: int) -> None:
        await self._services.store.write(
            lambda db: memory_file.mark_written(db, self.audience, version), is_synced=False
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(time.time(), self._services.rules.zone())
