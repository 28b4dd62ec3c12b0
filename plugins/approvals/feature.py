"""The hooks of approvals, and the commands `/approve` and `/deny`.

Questions about tool calls that need permission are asked in the chat, and answered by a command.

Questions are in memory only: a turn that is resumed after a restart asks again. If several
processes share the conversations, an answer may reach a process that does not have the question. A
question's name is chosen so that its owner can be found from it.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct, field

from agent.tools import ToolError
from agent.tools.base import NOT_RUN, Permission
from bot.access import ALPHABET
from bot.app import Kernel
from channels.language import _, explain
from channels.message import Action, Address, Inbound
from memory.keys import ConversationKey
from memory.record.store import StoreError
from plugins.api import Ask, Command, Person, Reply, command, hookimpl, refusal

PATIENCE = 600.0
"""Seconds to wait for an answer; then it is a no."""
_NAME_LENGTH = 4
ONCE = "once"
"""The word after a question's name that allows only the shown call."""
_SCHEME = re.compile(r"\w+://")
_SEARCH = "search "  # before the address, if a yes also covers searches there
_LONGEST_LABEL = 40  # characters of a button's label


_YES = frozenset({"yes", "y", "allow", "ja", "j", "erlauben", "是", "是的", "可以", "允许", "同意"})
_NO = frozenset({"no", "n", "deny", "nein", "ablehnen", "不", "不要", "不行", "否", "拒绝"})
"""The words by which a person answers without a button, in the bot's languages."""
_NOBODY = f"{NOT_RUN} nobody is there any more who could allow it."
_SLACK = 2.0  # the maximum delay in seconds of a platform's clock


Answer = Literal["no", "once", "always"]
"""A no, a yes to the shown call only, or a yes to all that it covers, until the next start."""


class _Question(Struct):
    """A question waiting since `asked_at` (seconds since 1970); `askers` counts the tool calls that
    wait for it."""

    name: str
    key: ConversationKey
    address: Address
    wanted: Permission
    answer: asyncio.Future[Answer] = field(default_factory=asyncio.Future)
    askers: int = 0
    is_over: bool = False
    asked_at: float = field(default_factory=time.time)


class ApprovalAnswer(Struct, frozen=True):
    """A person's answer to the question of this name, with the address it came from. `who` is their
    name, in chats with several people."""

    name: str
    person: Person
    address: Address
    answer: Answer
    who: str = ""


Verdict = Literal["taken", "refused", "unknown"]
"""The result of an answer: accepted, refused for this person, or no such question."""


ANSWER = "approvals.answer"
"""The call by which a process forwards an answer to the owner of the question."""


class Approvals:
    """Asks questions, waits, and accepts the answers."""

    def __init__(self, kernel: Kernel) -> None:
        self._delivery, self._links = kernel.delivery, kernel.links
        self._processes = kernel.processes
        self._patience = PATIENCE
        self._is_anybody_there = True
        kernel.delivery.on_listened.connect(self._end_all)
        self._questions: dict[str, _Question] = {}
        self._allowed: set[tuple[str, str]] = set()

    @hookimpl
    def parley_approvals(self) -> Approvals:
        return self

    @hookimpl
    def parley_meant(self) -> Callable[[Inbound, ConversationKey, Person], str]:
        return self.read

    @hookimpl
    def parley_calls(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        return {ANSWER: self.accept_forwarded}

    async def ask(self, key: ConversationKey, address: Address, wanted: Permission) -> None:
        """Ask in the chat at this address, unless it was allowed already; return once it is
        allowed. Raises ToolError if it is not."""
        answer: Answer = "once"
        is_own = False
        if not self._is_anybody_there:
            raise ToolError(_NOBODY)
        while answer == "once" and not is_own:
            if (key.id, wanted.covers) in self._allowed:
                return
            question, is_own = await self._put_question(key, address, wanted)
            answer = await self._wait(question)
        if answer == "no":
            raise ToolError(f"{NOT_RUN} the person said no. Go on without it.")

    async def _wait(self, question: _Question) -> Answer:
        """Return the answer to a question, for one of its waiting calls. Raises ToolError."""
        question.askers += 1
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(question.answer)
        except TimeoutError:
            self._end(question, lambda: f"✗ {_('Nobody answered in time.')}")
            raise ToolError(
                f"{NOT_RUN} nobody allowed it within {_minutes(self._patience)}."
            ) from None
        finally:
            question.askers -= 1
            if not question.askers:
                self._questions.pop(question.name, None)
                self._end(question, lambda: f"✗ {_('Stopped before it was answered.')}")

    def _end_all(self) -> None:
        """Stop waiting: no channel listens any longer, so no answer can arrive."""
        self._is_anybody_there = False
        for question in self._questions.values():
            if not question.answer.done():
                question.answer.set_exception(ToolError(_NOBODY))

    def _end(self, question: _Question, how: Callable[[], str]) -> None:
        """Update the message of a question with its outcome; only the first outcome counts."""
        if question.is_over:
            return
        question.is_over = True
        with self._delivery.speaking_to(question.address, question.key.id):
            outcome = how()
        self._delivery.close_question(question.address, question.name, outcome)

    async def _put_question(
        self, key: ConversationKey, address: Address, wanted: Permission
    ) -> tuple[_Question, bool]:
        """Return the question for a permission, and whether it shows this very call: a waiting
        question for the same site is reused."""
        for known in self._questions.values():
            is_same = (known.key, known.wanted.covers) == (key, wanted.covers)
            if wanted.covers and is_same and not known.answer.done():
                return known, False
        question = _Question(self._new_name(key), key, address, wanted)
        self._questions[question.name] = question
        with self._delivery.speaking_to(address, key.id):
            asked = self._reply(question)
        try:
            await self._delivery.notify(address, asked.text, asked.actions)
        except StoreError as error:
            del self._questions[question.name]
            raise ToolError(f"{NOT_RUN} the person could not be asked ({error})") from None
        except asyncio.CancelledError:  # the turn was stopped
            del self._questions[question.name]
            raise
        return question, True

    def _new_name(self, key: ConversationKey) -> str:
        while True:
            name = "".join(secrets.choice(ALPHABET) for _ in range(_NAME_LENGTH))
            if name not in self._questions and self._processes.are_together(key.id, name):
                return name

    def _reply(self, question: _Question) -> Reply:
        wanted, address = question.wanted, question.address
        is_alone = address.is_private and not wanted.is_for_owner
        who = "" if is_alone or not address.user else _(" Only an owner may allow it.")
        text = _(
            "Allow the model to do this?\n\n{what}\n\n"
            "Without an answer within {minutes}, it is denied.{lasts}{who}",
            what=explain(wanted.what),
            lasts=_(" A wider permission lasts until the bot is restarted.") * bool(wanted.covers),
            minutes=_minutes(self._patience),
            who=who,
        )
        return Reply(text, actions=_buttons(question.name, wanted.covers))

    def list_waiting(self, key: ConversationKey) -> list[Reply]:
        """Return the waiting questions of a chat, as they were asked. The branches of a chat are
        included, since a branch that was left may wait."""
        waiting = (one for one in self._questions.values() if one.key.home == key.home)
        return [self._reply(one) for one in waiting]

    def read(self, inbound: Inbound, key: ConversationKey, person: Person) -> str:
        """Return the command that a typed yes or no stands for, if this person may give it and
        could have seen the question; "" for other messages. If more than one question waits, it
        answers none: they are shown again."""
        word = inbound.text.strip().rstrip(".!。！").casefold()
        if word not in _YES and word not in _NO:
            return ""
        written = inbound.at.timestamp() + _SLACK
        waiting = [
            one
            for one in self._questions.values()
            if one.key.home == key.home
            and not one.answer.done()
            and one.asked_at <= written
            and self._may(one, person, inbound.address)
        ]
        if len(waiting) != 1:
            return "/approve" if waiting else ""
        name = waiting[0].name
        return f"/approve {name} {ONCE}" if word in _YES else f"/deny {name}"

    async def answer(
        self, name: str, person: Person, address: Address, choice: Answer, who: str = ""
    ) -> None:
        """Accept a person's answer from an address. Raises CommandError."""
        answer = ApprovalAnswer(name.strip().upper(), person, address, choice, who)
        verdict = self.take(answer)
        if verdict == "unknown":
            body = msgspec.json.encode(answer)
            done = await self._processes.call_owner(answer.name, ANSWER, body)
            verdict = msgspec.json.decode(done, type=Verdict) if done else "unknown"
        if verdict == "unknown":
            raise refusal(
                "No question is waiting under the name {name!r}: it was answered or stopped, "
                "or asked again after a restart.",
                name=name.strip()[:20],
            )
        if verdict == "refused":
            raise refusal("Only an owner may allow this; you are {id}.", id=person.id)

    async def accept_forwarded(self, body: bytes) -> bytes:
        """Accept a `ApprovalAnswer`, as JSON, that another process received; return the verdict."""
        return msgspec.json.encode(self.take(msgspec.json.decode(body, type=ApprovalAnswer)))

    def take(self, answer: ApprovalAnswer) -> Verdict:
        """Accept an answer to a question that waits in this process."""
        question = self._questions.get(answer.name)
        if question is None or question.answer.done():
            return "unknown"
        is_no = answer.answer == "no" and self._is_here(question, answer.address)
        if not (is_no or self._may(question, answer.person, answer.address)):
            return "refused"
        covers = question.wanted.covers
        if answer.answer == "always" and covers:
            self._allowed.add((question.key.id, covers))
        question.answer.set_result(answer.answer)
        self._end(question, lambda: _describe(answer, covers))
        return "taken"

    def _is_here(self, question: _Question, address: Address) -> bool:
        """Return whether an address is in the chat of the question, or in one linked to it."""
        asked = question.address
        is_same = (address.channel, address.chat) == (asked.channel, asked.chat)
        return is_same or self._links.key_of(address).id == question.key.home

    def _may(self, question: _Question, person: Person, address: Address) -> bool:
        """Return whether this person may allow the call."""
        is_asker = self._is_here(question, address) and address.is_private
        return person.is_owner or (is_asker and not question.wanted.is_for_owner)


def _buttons(name: str, covers: str) -> tuple[Action, ...]:
    """Return the answer buttons; a yes names what it covers, without the scheme: "example.org"."""
    once = Action(_("Allow once"), f"/approve {name} {ONCE}", question=name)
    no = Action(_("Deny"), f"/deny {name}", question=name)
    if not covers:
        return once, no
    site = covers.removeprefix(_SEARCH)
    what = _clip_site(_SCHEME.sub("", site))
    is_search = site != covers
    label = _("Allow searches at {what}", what=what) if is_search else _("Allow {what}", what=what)
    return once, Action(label, f"/approve {name}", question=name), no


def _describe(answer: ApprovalAnswer, covers: str) -> str:
    """Return the person's choice, to be shown below a question: the label of its button."""
    once, *rest = _buttons(answer.name, covers)
    labels = {"once": once.label, "always": rest[0].label if covers else once.label}
    label = labels.get(answer.answer, rest[-1].label)
    return f"✓ {label} ({answer.who})" if answer.who else f"✓ {label}"


def _clip_site(site: str) -> str:
    """Return the end of a long site name, which identifies its owner; anybody may put
    "example.org." in front of it."""
    return site if len(site) <= _LONGEST_LABEL else f"…{site[1 - _LONGEST_LABEL :]}"


def _minutes(seconds: float) -> str:
    return _("{n:g} minutes", n=seconds / 60) if seconds >= 120 else _("{n:g} seconds", n=seconds)


@hookimpl
def parley_open(kernel: Kernel) -> Approvals:
    return Approvals(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [approve, deny]


@command("approve", "Approve a request for permission, or show it again", "[NAME] [once]")
async def approve(ask: Ask) -> Reply:
    """`/approve K7QM`, `/approve K7QM once`: by an owner, or the person in a private chat. Without
    a name, list the waiting questions."""
    if not ask.words:
        return _show_waiting(ask)
    words = [word for word in ask.words if word.lower() != ONCE]
    is_once = words != ask.words
    await _answer(ask, "approve", words, "once" if is_once else "always")
    return Reply(_("Allowed once.") if is_once else _("Allowed."), {"is_allowed": True})


@command("deny", "Deny a request for permission", "NAME")
async def deny(ask: Ask) -> Reply:
    """`/deny K7QM`: by anybody with access there; the name may be omitted if one question waits."""
    waiting = ask.service(Approvals).list_waiting(ask.conversation.key)
    names = {action.question for one in waiting for action in one.actions}
    if not ask.words and not names:
        raise refusal("No question is waiting here.")
    await _answer(ask, "deny", ask.words or sorted(names), "no")
    return Reply(_("Denied; it goes on without it."), {"is_allowed": False})


def _show_waiting(ask: Ask) -> Reply:
    questions = ask.service(Approvals).list_waiting(ask.conversation.key)
    if not questions:
        raise refusal("No question is waiting here.")
    actions = tuple(action for question in questions for action in question.actions)
    return Reply("\n\n".join(question.text for question in questions), actions=actions)


async def _answer(ask: Ask, name: str, words: Sequence[str], choice: Answer) -> None:
    if len(words) != 1:
        raise refusal("/{name} needs the name from the question, like K7QM.", name=name)
    await ask.service(Approvals).answer(words[0], ask.person, ask.address, choice, ask.speaker)
