"""Questions about tool calls that need a person's yes: asked in the chat, answered by a command.

Questions live in memory: a turn that goes on after a restart comes to its call again, and asks
anew. Where several processes share the conversations, an answer may come to one that does not have
the question; a question's name is chosen such that its owner is found by it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec
from msgspec import Struct, field

from agent.tools import ToolError
from agent.tools.base import NOT_RUN, Permission
from bot.access import ALPHABET
from bot.delivery import Delivery
from bot.links import Links
from bot.ports import Processes
from channels.language import _, explain
from channels.message import Action, Address, Reply
from memory.keys import ConversationKey
from memory.record.store import StoreError
from plugins.api import CommandError, Person

PATIENCE = 600.0
"""Seconds for which an answer is waited for; then it is no."""
_NAME_LENGTH = 4


class _Question(Struct):
    """A question that waits; `askers` counts the tool calls that want the same."""

    name: str
    key: ConversationKey
    address: Address
    wanted: Permission
    answer: asyncio.Future[bool] = field(default_factory=asyncio.Future)
    askers: int = 0


class GivenAnswer(Struct, frozen=True):
    """A person's answer, given at an address, to the question of this name."""

    name: str
    person: Person
    address: Address
    is_allowed: bool


Verdict = Literal["taken", "refused", "unknown"]
"""The result of an answer: it counts, this person may not give it, or nothing waits for it."""


ANSWER = "approvals.answer"
"""The call by which a process hands an answer to the one that has the question."""


class Approvals:
    """Asks, waits, and takes the answers."""

    def __init__(
        self,
        delivery: Delivery,
        links: Links,
        processes: Processes,
        patience: float = PATIENCE,
    ) -> None:
        self._delivery, self._links, self._processes = delivery, links, processes
        self._patience = patience
        self._questions: dict[str, _Question] = {}
        self._allowed: set[tuple[str, str]] = set()
        self._waited: defaultdict[str, float] = defaultdict(float)
        self._waiting_since: dict[str, tuple[float, int]] = {}

    async def ask(self, key: ConversationKey, address: Address, wanted: Permission) -> None:
        """Ask in the chat at this address, unless that was allowed already; returns when it is
        allowed. Raises ToolError when it is not."""
        if (key.id, wanted.covers) in self._allowed:
            return
        question = await self._put_question(key, address, wanted)
        question.askers += 1
        try:
            with self._count_waiting(key):
                async with asyncio.timeout(self._patience):
                    is_allowed = await asyncio.shield(question.answer)
        except TimeoutError:
            raise ToolError(
                f"{NOT_RUN} nobody allowed it within {_minutes(self._patience)}."
            ) from None
        finally:
            question.askers -= 1
            if not question.askers:
                self._questions.pop(question.name, None)
        if not is_allowed:
            raise ToolError(f"{NOT_RUN} the person said no. Go on without it.")

    async def _put_question(
        self, key: ConversationKey, address: Address, wanted: Permission
    ) -> _Question:
        """Return the question, put to the person; one that waits already serves for the same
        site."""
        for known in self._questions.values():
            if wanted.covers and (known.key, known.wanted.covers) == (
                key,
                wanted.covers,
            ):
                return known
        question = _Question(self._new_name(key), key, address, wanted)
        self._questions[question.name] = question
        with self._delivery.speaking_to(address, key.id):
            asked = self._reply(question)
        try:
            await self._delivery.tell(address, asked.text, asked.actions)
        except StoreError as error:
            del self._questions[question.name]
            raise ToolError(f"{NOT_RUN} the person could not be asked ({error})") from None
        except asyncio.CancelledError:  # the turn was stopped meanwhile
            del self._questions[question.name]
            raise
        return question

    def _new_name(self, key: ConversationKey) -> str:
        while True:
            name = "".join(secrets.choice(ALPHABET) for _ in range(_NAME_LENGTH))
            if name not in self._questions and self._processes.are_together(key.id, name):
                return name

    def _reply(self, question: _Question) -> Reply:
        wanted, name = question.wanted, question.name
        address = question.address
        is_alone = address.is_private and not wanted.is_for_owner
        who = "" if is_alone or not address.user else _(" Only an owner may allow it.")
        further = (
            _(" A yes allows {covers} here until the next start.", covers=wanted.covers)
            if wanted.covers
            else ""
        )
        text = _(
            "May I? {what}\n\nSay `/approve {name}` or `/deny {name}` within "
            "{minutes}.{further}{who}",
            what=explain(wanted.what),
            name=name,
            minutes=_minutes(self._patience),
            further=further,
            who=who,
        )
        return Reply(text, actions=_buttons(name))

    def list_waiting(self, key: ConversationKey) -> list[Reply]:
        """Return the questions that wait in a chat, as they were asked: what a person sees is one
        chat, and a branch that was left may wait for them."""
        waiting = (one for one in self._questions.values() if one.key.home == key.home)
        return [self._reply(one) for one in waiting]

    async def answer(self, name: str, person: Person, address: Address, is_allowed: bool) -> None:
        """Take a person's answer, given at an address. Raises CommandError."""
        answer = GivenAnswer(name.strip().upper(), person, address, is_allowed)
        verdict = self.take(answer)
        if verdict == "unknown":
            body = msgspec.json.encode(answer)
            done = await self._processes.call_owner(answer.name, ANSWER, body)
            verdict = msgspec.json.decode(done, type=Verdict) if done else "unknown"
        if verdict == "unknown":
            raise CommandError(
                _(
                    "No question is waiting under the name {name!r}: it was answered or stopped, "
                    "or asked again after a restart.",
                    name=name.strip()[:20],
                )
            )
        if verdict == "refused":
            raise CommandError(_("Only an owner may allow this; you are {id}.", id=person.id))

    async def take_passed_on(self, body: bytes) -> bytes:
        """Take a `GivenAnswer` as JSON that another process was given; returns the verdict."""
        return msgspec.json.encode(self.take(msgspec.json.decode(body, type=GivenAnswer)))

    def take(self, answer: GivenAnswer) -> Verdict:
        """Take an answer to a question that waits here."""
        question = self._questions.get(answer.name)
        if question is None or question.answer.done():
            return "unknown"
        person, address, is_allowed = answer.person, answer.address, answer.is_allowed
        is_here = (address.channel, address.chat) == (
            question.address.channel,
            question.address.chat,
        ) or self._links.key_of(address).id == question.key.home
        is_asker = is_here and address.is_private and not question.wanted.is_for_owner
        may = person.is_owner or is_asker or (is_here and not is_allowed)
        if not may:
            return "refused"
        if is_allowed and question.wanted.covers:
            self._allowed.add((question.key.id, question.wanted.covers))
        question.answer.set_result(is_allowed)
        return "taken"

    def count_waited(self, key: ConversationKey) -> float:
        """Seconds for which turns of a conversation have waited for a person, since the start."""
        since, _ = self._waiting_since.get(key.id, (time.monotonic(), 0))
        return self._waited.get(key.id, 0.0) + time.monotonic() - since

    @contextmanager
    def _count_waiting(self, key: ConversationKey) -> Iterator[None]:
        """Count the time that goes by in here; calls that wait side by side wait once."""
        since, count = self._waiting_since.get(key.id, (time.monotonic(), 0))
        self._waiting_since[key.id] = (since, count + 1)
        try:
            yield
        finally:
            since, count = self._waiting_since.pop(key.id)
            if count > 1:
                self._waiting_since[key.id] = (since, count - 1)
            else:
                self._waited[key.id] += time.monotonic() - since


def _buttons(name: str) -> tuple[Action, ...]:
    return (Action(_("Approve"), f"/approve {name}"), Action(_("Deny"), f"/deny {name}"))


def _minutes(seconds: float) -> str:
    return _("{n:g} minutes", n=seconds / 60) if seconds >= 120 else _("{n:g} seconds", n=seconds)
