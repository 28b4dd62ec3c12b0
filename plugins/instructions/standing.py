"""The service of the standing instructions: which rules apply where, and their changes.

All are in memory, since the system prompt is rebuilt at every step. The table has them too, and
each change is written there first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from bot.access import name_of
from bot.app import Kernel
from channels.language import _, figure, number_of
from channels.message import Address
from memory.keys import ConversationKey
from memory.record.store import StoreError
from memory.tasks import BackgroundTasks
from plugins.api import CommandError, Person, UserWords, refusal
from plugins.instructions import record as rows
from plugins.instructions.detect import (
    cut_forwarded,
    find_instructions,
    is_forwarded,
    is_plain,
    normalise,
)
from plugins.instructions.endings import find_endings, find_rewordings
from plugins.instructions.record import (
    Instruction,
    InstructionChange,
    Scope,
    State,
    in_place_of,
    place_at,
)
from plugins.instructions.settings import RuleSettings
from plugins.wording import clip, literal, quoted

log = logging.getLogger(__name__)

SECTION = "standing instructions"
HEADING = (
    "Standing instructions of the people you work for, in their own words. Each of them holds in "
    "every turn, until they revoke it, also where you no longer see the turn in which it was said. "
    "Where two of them contradict each other, the lower one is newer and holds."
)
SHORTEST = 4
"""The minimum length of a rule in characters, without surrounding punctuation."""
SHARE = 1 / 4
"""The maximum share of a model's window, without the room for its reply, for the rules."""
NAMED = 5
"""The maximum number of rules named in the text about a compaction."""
MOST_OPEN = 10
"""The maximum number of rules of a person, unless an owner, that wait for approval in a chat; for
further ones nobody is asked."""
_MOST_KNOWN = 1_000  # places whose section is cached
_MOST_ENDINGS = 100  # turns whose possible endings are cached
_UNDOES = {"edit": ("text",), "move": ("audience", "home")}
_OPEN: tuple[State, ...] = ("active", "proposed")


def format_section(rules: Iterable[Instruction]) -> str:
    """Return the section of the system prompt with these rules; "" for none."""
    once = {rule.digest: rule.text for rule in rules}
    lines = "\n".join(f"- {text}" for text in once.values())
    return f"{HEADING}\n{lines}" if lines else ""


T = TypeVar("T")


def _remember(
    of_turns: dict[tuple[str, int], dict[int, T]], turn: tuple[str, int], rules: dict[int, T]
) -> None:
    """Cache data about rules for a turn, and evict the oldest turns."""
    of_turns.setdefault(turn, {}).update(rules)
    while len(of_turns) > _MOST_ENDINGS:
        of_turns.pop(next(iter(of_turns)))


class StandingInstructions:
    """The standing instructions, and the operations that change them."""

    def __init__(self, kernel: Kernel) -> None:
        self._store, self._config, self._changed = kernel.store, kernel.config, kernel.changes
        self._access, self._meter = kernel.access, kernel.conversations.services.meter
        self.rules: dict[int, Instruction] = {}
        self._sections: dict[tuple[str, str], str] = {}
        self._endings: dict[tuple[str, int], dict[int, bool]] = {}
        self._rewordings: dict[tuple[str, int], dict[int, str]] = {}
        self._lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.tasks = BackgroundTasks()

    # --- lookup -----------------------------------------------------------------------------------

    async def load(self) -> None:
        """Load all rules."""
        self._loop = asyncio.get_running_loop()
        async with self._lock:
            self.take(await self._store.read(rows.load))

    def take(self, rules: Iterable[Instruction]) -> None:
        """Replace the rules in memory."""
        self.rules, self._sections = {rule.id: rule for rule in rules}, {}

    def drop(self) -> None:
        """Reload the rules after the transaction that deletes some, and notify other processes. It
        may be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: self.tasks.start(self._drop()))

    async def _drop(self) -> None:
        try:
            async with self._lock:  # a write is queued after that transaction
                self.take(await self._store.write(rows.load, is_synced=False, is_long=True))
        except StoreError:
            log.exception("the standing instructions could not be read anew")
        else:
            self._changed()

    def reload(self) -> None:
        """Reload the rules, since another process has changed some."""
        self.tasks.start(self._reload())

    async def _reload(self) -> None:
        try:
            await self.load()
        except StoreError:
            log.exception("the standing instructions could not be read anew")

    def find(self, key: ConversationKey, *states: State) -> list[Instruction]:
        """Return the rules for a conversation in these states, in the order of their creation."""
        if not self.rules:
            return []
        every = self.rules.values()
        found = [r for r in every if r.state in states and r.reaches(key.audience, key.home)]
        return sorted(found, key=lambda rule: rule.id)

    def section(self, key: ConversationKey) -> str:
        """Return the section of a conversation's system prompt."""
        if not self.rules:
            return ""
        place = (key.audience, key.home)
        if place not in self._sections:
            if len(self._sections) > _MOST_KNOWN:
                self._sections = {}
            self._sections[place] = format_section(self.find(key, "active"))
        return self._sections[place]

    def describe_in_force(self, key: ConversationKey) -> tuple[str, dict[str, Any]]:
        """Describe the rules that stay in force after turns were removed, as text and as data."""
        rules = self.find(key, "active")
        if not rules:
            return "", {}
        named = [quoted(literal(clip(rule.text, 80))) for rule in rules[:NAMED]]
        if len(rules) > NAMED:
            named.append(_("{n} more", n=len(rules) - NAMED))
        said = number_of(
            len(rules),
            "{n} standing instruction stays in force: {named} (`/rules` lists it, `/rules "
            "revoke all` revokes those of this conversation).",
            "{n} standing instructions stay in force: {named} (`/rules` lists them, `/rules "
            "revoke all` revokes those of this conversation).",
            named=", ".join(named),
        )
        return said, {"in_force": [rule.text for rule in rules]}

    async def count(self, rules: Sequence[Instruction]) -> int:
        """Return the tokens of these rules in the system prompt."""
        await self._meter.ready()
        return await self._meter.text(format_section(rules))

    async def count_one(self, rule: Instruction) -> int:
        """Return the tokens of a rule without the heading."""
        await self._meter.ready()
        return await self._meter.text(f"\n- {rule.text}")

    def settings(self, key: ConversationKey) -> RuleSettings:
        return self._config.book.effective(key.id).section(RuleSettings)

    def get(self, key: ConversationKey, number: int) -> Instruction:
        """Return the rule with this number. Raises CommandError if it does not apply there."""
        rule = self.rules.get(number)
        if rule is None or rule.state not in _OPEN or not rule.reaches(key.audience, key.home):
            raise refusal("There is no rule {n} here; /rules lists them.", n=number)
        return rule

    # --- detection in messages --------------------------------------------------------------------

    async def handle(self, said: UserWords) -> None:
        """Detect instructions in a person's message."""
        mode = self.settings(said.key).detect
        if mode == "off":
            return
        decides = said.person.is_owner or said.address.is_private
        written = cut_forwarded(said.written)
        for found in find_instructions(written):
            is_certain = found.is_sure and is_plain(written, found.start)
            is_auto = mode == "auto" and decides and is_certain
            await self._propose_or_keep(said, found.text, is_auto=is_auto)
        if self.rules:
            await self._end(said, written, is_auto=mode == "auto" and decides)
        spoken = said.spoken if said.spoken and not is_forwarded(said.written) else ()
        for text in spoken:  # other voices may be in the recording: a person must approve
            for found in find_instructions(text):
                await self._propose_or_keep(said, found.text, is_auto=False)

    async def _propose_or_keep(self, said: UserWords, text: str, *, is_auto: bool) -> None:
        """Propose a detected rule, or keep it."""
        async with self._lock:
            new = self._make(said.key, text, "auto" if is_auto else "found", said.person.id)
            known = self._find_like(new)
            is_waiting = (
                known is not None and known.state == "proposed" and known.place == new.place
            )
            if known is not None and known.state != "revoked" and not (is_auto and is_waiting):
                return
            new = in_place_of(known, replace(new, turn=said.turn))
            if is_auto:
                try:
                    await self._save(
                        "auto", said.key, said.person.id, [replace(new, state="active")]
                    )
                except CommandError:  # it is proposed instead; keeping it reports the error
                    new = replace(new, origin="found")
                else:
                    return
            if not is_waiting and self._is_full(said.key, said.person):
                log.info("%s: too many rules wait for a yes; one is not asked about", said.key.id)
                return
            await self._save("", said.key, said.person.id, [new])

    async def _end(self, said: UserWords, written: str, *, is_auto: bool) -> None:
        """Revoke the rules that a message ends, or ask the person whether to revoke them."""
        key = said.key
        before = [
            r for r in self.find(key, "active") if (r.turn, r.conversation) != (said.turn, key.id)
        ]
        if not before:
            return  # the usual case
        for ending in find_endings(written, [rule.text for rule in before]):
            rule = before[ending.at]
            is_theirs = said.person.is_owner or rule.scope != "everywhere"
            is_certain = ending.is_sure and is_plain(written, ending.start)
            is_ended = is_auto and is_theirs and is_certain
            if is_ended:
                await self.apply(key, said.person.id, "revoke", [replace(rule, state="revoked")])
            _remember(self._endings, (key.id, said.turn), {rule.id: is_ended})
        reworded = find_rewordings(written, [rule.text for rule in before])
        if new := {before[at].id: text for at, text in reworded.items()}:
            _remember(self._rewordings, (key.id, said.turn), new)

    def find_endings(self, key: ConversationKey, turn: int) -> list[tuple[Instruction, bool]]:
        """Return the rules that a turn seems to end, and whether it did."""
        found = self._endings.get((key.id, turn), {})
        rules = ((self.rules.get(number), is_ended) for number, is_ended in found.items())
        return [
            (rule, is_ended)
            for rule, is_ended in rules
            if rule is not None and rule.state == ("revoked" if is_ended else "active")
        ]

    def find_rewordings(self, key: ConversationKey, turn: int) -> list[tuple[Instruction, str]]:
        """Return the rules of which a turn corrects a value, with their new text, without those
        that the turn seems to end."""
        ended = self._endings.get((key.id, turn), {})
        found = self._rewordings.get((key.id, turn), {})
        rules = ((self.rules.get(number), text) for number, text in found.items())
        return [
            (rule, text)
            for rule, text in rules
            if rule is not None and rule.state == "active" and rule.id not in ended
        ]

    def _is_full(self, key: ConversationKey, person: Person | None) -> bool:
        """Return whether so many rules of a person wait for approval that another one is
        refused."""
        if person is not None and person.is_owner:
            return False
        name = person.id if person else ""
        return sum(rule.person == name for rule in self.find(key, "proposed")) >= MOST_OPEN

    async def propose(self, key: ConversationKey, turn: int, address: Address, text: str) -> str:
        """Ask a person to keep a rule that the model proposes; return the text for the model."""
        if self.settings(key).detect == "off":
            return "Not proposed: rules.detect is off. The person can give it with /rules add."
        person = name_of(address)
        words = await self._store.read(lambda db: rows.find_words(db, key.home, person, text))
        if words is None or len(normalise(words)) < SHORTEST:
            return (
                "Not proposed: these are no words of the person's own messages here. Only what the "
                "person has said can become a rule; quote a whole sentence of theirs exactly."
            )
        async with self._lock:
            new = replace(self._make(key, words, "model", person), turn=turn)
            known = self._find_like(new)
            if known is not None and known.state != "revoked":
                sentences = {
                    "active": "It holds already.",
                    "dismissed": "The person said no to it.",
                }
                return sentences.get(known.state, "The person was asked already.")
            if self._is_full(key, self._access.identify(address)):
                return "Not proposed: too many rules of this person wait for a yes (/rules)."
            await self._save("", key, person, [in_place_of(known, new)])
        return "The person is asked below your answer whether to keep it."

    # --- decisions of a person --------------------------------------------------------------------

    async def add(
        self, key: ConversationKey, person: Person, text: str, scope: Scope, *, is_proposal: bool
    ) -> Instruction:
        """Keep a rule that a person gives, or propose it. Raises CommandError."""
        async with self._lock:
            new = place_at(self._make(key, text, "person", person.id), key, scope)
            if len(normalise(text)) < SHORTEST:
                raise refusal("This is too short for a rule. Say it in a sentence.")
            known = self._find_like(new)
            if known is not None and known.state == "active":
                raise refusal("This is rule {n} already.", n=known.id)
            new = in_place_of(known, new)
            if is_proposal:
                if (known is None or known.state != "proposed") and self._is_full(key, person):
                    raise refusal(
                        "{n} of your rules already await approval; an owner keeps or "
                        "dismisses them with /rules.",
                        n=MOST_OPEN,
                    )
                await self._check_size(key, [replace(new, state="active")])
                return (await self._save("", key, person.id, [new]))[0]
            return (await self._save("add", key, person.id, [replace(new, state="active")]))[0]

    async def apply(
        self, key: ConversationKey, person: str, kind: str, wanted: Sequence[Instruction]
    ) -> list[Instruction]:
        """Store rules with their new contents. Raises CommandError."""
        async with self._lock:
            for rule in wanted:
                self._refuse_duplicate(rule)
            return await self._save(kind, key, person, wanted)

    async def find_last(self, key: ConversationKey, number: int) -> list[InstructionChange]:
        """Return the changes that `/rules undo` would undo: the last in this chat, or of this rule
        there."""
        return await self._store.read(lambda db: rows.find_last(db, key.home, number))

    async def undo(
        self, key: ConversationKey, person: str, changes: Sequence[InstructionChange]
    ) -> list[Instruction]:
        """Restore rules to their state before the changes. A rule that did not exist then is
        dismissed, so that it is not proposed again. Raises CommandError."""
        async with self._lock:
            wanted = []
            for change in changes:
                if (now := self.rules.get(change.rule)) is None:
                    continue
                was = change.was or replace(now, state="dismissed")
                fields = _UNDOES.get(change.kind, ("state",))  # other changes may have set the rest
                before = replace(now, **{name: getattr(was, name) for name in fields})
                self._refuse_duplicate(before)
                wanted.append(before)
            return await self._save("", key, person, wanted, undone=changes)

    async def list_changes(self, key: ConversationKey, most: int) -> list[InstructionChange]:
        """Return the changes in a chat, the newest first."""
        return await self._store.read(lambda db: rows.list_changes(db, key.home, most))

    def get_any(self, number: int) -> Instruction | None:
        """Return a rule in any state."""
        return self.rules.get(number)

    async def import_entry(
        self, key: ConversationKey, rule: Instruction, *, is_rehearsal: bool
    ) -> bool:
        """Import a rule of an export, unless an equal one exists. If it would exceed the limit, it
        waits for approval. Return whether it is new."""
        async with self._lock:
            if self._find_like(rule) is not None:
                return False
            if not is_rehearsal:
                try:
                    await self._save("", key, rule.person, [rule])
                except CommandError:
                    await self._save("", key, rule.person, [replace(rule, state="proposed")])
            return True

    # --- implementation ---------------------------------------------------------------------------

    def _make(
        self, key: ConversationKey, text: str, origin: rows.Origin, person: str
    ) -> Instruction:
        return Instruction(
            text.strip(), "proposed", key.audience, key.home, key.id, 0, person, origin, time.time()
        )

    def _find_like(self, new: Instruction) -> Instruction | None:
        """Return an equal rule that applies here: preferably an open one, and then one with the
        same place."""
        same = [
            rule
            for rule in self.rules.values()
            if rule.digest == new.digest and rule.reaches(new.audience, new.home)
        ]
        return min(same, key=lambda r: (r.state not in _OPEN, r.place != new.place), default=None)

    def _refuse_duplicate(self, rule: Instruction) -> None:
        for other in self.rules.values():
            if other.id == rule.id or other.digest != rule.digest:
                continue
            if other.state in _OPEN and other.reaches(*rule.place):
                raise refusal("Nothing was changed: rule {n} says the same there.", n=other.id)
            if other.place == rule.place:
                raise refusal(
                    "Nothing was changed: the same was dismissed or revoked there. Give it "
                    "again with /rules add."
                )

    async def _save(
        self,
        kind: str,
        key: ConversationKey,
        person: str,
        wanted: Sequence[Instruction],
        undone: Sequence[InstructionChange] = (),
    ) -> list[Instruction]:
        """Store rules with their new contents, and replace those in memory. Raises CommandError and
        StoreError."""
        await self._check_size(key, wanted)
        pairs = [(self.rules.get(rule.id), rule) for rule in wanted]

        def save(database: Any) -> list[Instruction]:
            rows.mark_undone(database, undone)
            return rows.save(database, kind, key, person, pairs)

        saved = await self._store.write(save)
        self.take((self.rules | {rule.id: rule for rule in saved}).values())
        self._changed()
        return saved

    async def _check_size(self, key: ConversationKey, wanted: Sequence[Instruction]) -> None:
        """Raise CommandError if the rules of any conversation would exceed the limit, or the room
        in the window of the model that answers here."""
        now = [*self.rules.values()]
        then = [*(self.rules | {rule.id: rule for rule in wanted if rule.id}).values()]
        then += [rule for rule in wanted if not rule.id]
        limits = self._config.at(key).limits
        most, room = self.settings(key).max_tokens, round(limits.ceiling * SHARE)
        active = [rule for rule in wanted if rule.state == "active"]
        places = {r.place for r in then if r.state == "active"} | {(key.audience, key.home)}
        for place in places:
            if not any(rule.reaches(*place) for rule in active):
                continue
            before, after = (
                await self._count_in_force(now, *place),
                await self._count_in_force(then, *place),
            )
            if after > max(before, room) and room < most:
                raise refusal(
                    "Nothing was changed: with this, the rules would have {after} tokens, and "
                    "the model's window of {window} tokens has room for {most} of them. Revoke "
                    "one (/rules revoke N), make one shorter (/rules edit N TEXT), or choose a "
                    "model with a larger window (/model).",
                    after=figure(f"{after:,}"),
                    window=figure(f"{limits.window:,}"),
                    most=figure(f"{room:,}"),
                )
            if after > max(before, most):
                raise refusal(
                    "Nothing was changed: with this, the rules would have {after} tokens, and "
                    "the most is {most} (rules.max_tokens). Revoke one (/rules revoke N), make "
                    "one shorter (/rules edit N TEXT), or raise the limit (/config "
                    "rules.max_tokens {enough}).",
                    after=figure(f"{after:,}"),
                    most=figure(f"{most:,}"),
                    enough=-(-after // 100) * 100,
                )

    async def _count_in_force(self, rules: Iterable[Instruction], audience: str, home: str) -> int:
        return await self.count(
            [r for r in rules if r.state == "active" and r.reaches(audience, home)]
        )
