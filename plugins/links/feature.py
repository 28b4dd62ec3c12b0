"""`/link` and `/unlink`: a person's chats on several channels, with one conversation and memory.

A code of one chat is typed in another, and a yes said in the first; then both go on in one
conversation.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from bot.access import digest_of, name_of, new_code, refuse_guesser
from bot.app import Kernel
from bot.received import format_home, key_of
from bot.sending import address_of
from channels.base import BranchChanged
from channels.guess_limit import Throttle
from channels.language import _
from channels.message import Address
from memory.record import transcript
from memory.record.mailbox import AddressColumns
from memory.turns import Turn
from plugins.api import Action, Ask, Command, PrivatePort, Reply, command, hookimpl, refusal
from plugins.links import record
from plugins.links.record import LinkCode, LinkRequest
from plugins.wording import clip, format_turns, literal, sentences

VALID = 600.0
"""Seconds for which a code is valid, and for which its giver can confirm."""

PRIVATE = "A chat can only be linked where nobody else reads it: send this in a private chat."
WRONG = (
    f"No chat gave this code. Codes are valid for {VALID / 60:g} minutes, and once; send /link on "
    "your other channel for a new one."
)
NOBODY = (
    f"No chat is waiting for your answer here; a request ends after {VALID / 60:g} minutes. Send "
    "/link for a new code."
)
WHICH = "Say which: {chats} wait for your answer."
SAME = "This code was given here; type it on your other channel, in a private chat with the bot."
LEADS = (
    "Other chats are linked to this conversation ({chats}), so it can't be linked to another; "
    "/unlink them first."
)
OFF_RECORD = "{chat} is off the record, so nothing was linked; /private off there ends that."
LINKED = "This chat is linked to the conversation of {chat} already; /unlink ends that."


class Asked(Struct, frozen=True):
    """A chat that requests a link, and the address where its code was given."""

    request: LinkRequest
    giver: AddressColumns


def is_alone(address: Address) -> bool:
    """Return whether only one person reads this chat."""
    return address.is_private or not address.user


class ChatLinks:
    """Chats of one person that share a conversation. Chats are named like "telegram/42"; refusals
    raise CommandError."""

    def __init__(self, kernel: Kernel) -> None:
        self._store, self._clock, self._links = kernel.store, time.time, kernel.links
        self._conversations, self._delivery = kernel.conversations, kernel.delivery
        self._bus = kernel.bus
        self._guesses = Throttle("codes for /link")
        kernel.links.read_from(record.list_links)

    async def give_code(self, address: Address) -> str:
        """Return a code for linking another chat to this one's conversation. Raises CommandError,
        and StoreError."""
        if not is_alone(address):
            raise refusal(PRIVATE)
        code, now = new_code(), self._clock()
        place = AddressColumns(address.channel, address.chat, address.thread, address.user)
        target = self._links.key_of(address).id
        kept = LinkCode(target, digest_of(code), name_of(address), place, now)
        await self._store.write(lambda db: record.put_code(db, kept, now - VALID))
        return f"{code[:4]}-{code[4:]}"

    async def _request(self, address: Address, code: str) -> Asked:
        """Store a request to link the chat at this address to the conversation of a code. Raises
        CommandError, and StoreError."""
        if not is_alone(address):
            raise refusal(PRIVATE)
        home, person, now = key_of(address).id, name_of(address), self._clock()
        digest = digest_of(code)
        self._check_free(home)
        refuse_guesser(self._guesses.wait(person))
        place = AddressColumns(address.channel, address.chat, address.thread, address.user)

        def work(db: Any) -> LinkCode | None:
            found = record.find_code(db, digest, now - VALID)
            if found is None or found.target == home:
                return found
            request = LinkRequest(home, found.target, person, found.giver, place, now)
            return found if record.ask(db, found, request, now - VALID) else None

        found = await self._store.write(work)
        refuse_guesser(self._guesses.check(person, digest, found is not None))
        if found is None:
            raise refusal(WRONG)
        if found.target == home:
            raise refusal(SAME)
        request = LinkRequest(home, found.target, person, found.giver, place, now)
        return Asked(request, found.place)

    async def _answer_request(
        self, address: Address, which: str, private: PrivatePort | None = None
    ) -> LinkRequest:
        """Answer a chat's request to join this chat's conversation, by the chat's name ("": the
        only one), as the giver of the code. The answer is yes if `private` is given. Raises
        CommandError, and StoreError."""
        target, giver, now = self._links.key_of(address).id, name_of(address), self._clock()
        waiting = await self._store.read(
            lambda db: record.list_requests(db, target, giver, now - VALID)
        )
        found = [one for one in waiting if which in ("", format_home(one.home))]
        if len(found) > 1:
            raise refusal(WHICH, chats=", ".join(format_home(one.home) for one in found))
        if not found or not is_alone(address):
            raise refusal(NOBODY)
        if private is not None:
            self._check_free(found[0].home)
            if private.status(self._links.resolve(found[0].home)) is not None:
                raise refusal(OFF_RECORD, chat=format_home(found[0].home))
        link_at = now if private is not None else None
        if not await self._store.write(lambda db: record.end_request(db, found[0], link_at)):
            raise refusal(NOBODY)
        if private is not None:
            await self._links.changed()
        return found[0]

    def _check_free(self, home: str) -> None:
        """Raise CommandError if a chat is linked already."""
        if (target := self._links.resolve(home).id) != home:
            raise refusal(LINKED, chat=format_home(target))
        if followers := self._links.followers(home):
            raise refusal(LEADS, chats=", ".join(map(format_home, followers)))

    async def ask(self, address: Address, code: str) -> str:
        """Ask the giver of the code whether this chat may join the conversation; return the name of
        that conversation's chat."""
        asked = await self._request(address, code)
        here, there = format_home(asked.request.home), format_home(asked.request.target)
        giver = address_of(asked.giver)
        with self._delivery.speaking_to(giver):
            question = _(
                "{here} wants to join this conversation, with the code that you got here. People "
                "there will be able to read all of it, from the beginning. Is that you? "
                "`/link yes {here}` or `/link no {here}`, within 10 minutes.",
                here=literal(here),
            )
            yes = Action(_("Link {chat}", chat=here), f"/link yes {here}", question=f"link {here}")
            no = Action(_("Don't link"), f"/link no {here}", question=f"link {here}")
        await self._delivery.notify(giver, question, (yes, no))
        return there

    async def agree(self, address: Address, which: str, private: PrivatePort) -> str:
        """Link a requesting chat ("": the only one) to this chat's conversation, and notify it;
        return its name."""
        request = await self._answer_request(address, which, private)
        self._show(request.home)
        asker, there = address_of(request.place), format_home(request.target)
        with self._delivery.speaking_to(asker):
            text = _(
                "This chat is linked to the conversation of {chat} now: both share context, "
                "memory and files, and people there can read what you write here. Each answer "
                "appears where it was asked for. What was said here before is kept apart: /link "
                "before shows it, /unlink goes back to it.",
                chat=literal(there),
            )
            unlink = Action(_("Unlink"), "/unlink")
        await self._delivery.notify(asker, text, (unlink,))
        return format_home(request.home)

    async def decline(self, address: Address, which: str) -> str:
        """Decline a chat's request ("": the only one), and notify it; return its name."""
        request = await self._answer_request(address, which)
        asker = address_of(request.place)
        with self._delivery.speaking_to(asker):
            text = _(
                "{chat} said no; this chat stays as it is.",
                chat=literal(format_home(request.target)),
            )
        await self._delivery.notify(asker, text)
        return format_home(request.home)

    async def end(self, address: Address, which: str) -> list[str]:
        """Unlink this chat (""), or another one that is linked to it (its name, or "all"); return
        the unlinked chats."""
        home = self._links.key_of(address).id
        ending = [key_of(address).id] if home != key_of(address).id else []
        if which:
            to_here = [link.home for link in self._links.list_to(home)]
            ending = [one for one in to_here if which in ("all", format_home(one))]
        for one in ending:
            await self._store.write(lambda db, one=one: record.end(db, one))  # type: ignore[misc]
            await self._links.changed()
            self._show(one)
        return [format_home(one) for one in ending]

    def linked_chat(self, address: Address) -> str:
        """Return the chat whose conversation this chat is linked to; "" if it has its own."""
        home = self._links.key_of(address).id
        return "" if home == key_of(address).id else format_home(home)

    def list_linked(self, address: Address) -> list[str]:
        """Return the other chats that are linked to this conversation."""
        home = self._links.key_of(address).id
        return [format_home(link.home) for link in self._links.list_to(home)]

    async def read_own(self, address: Address, most: int) -> Sequence[Turn]:
        """Return the last turns of this chat's own conversation, from the time when it was not
        linked."""
        own = self._conversations.branches.current(key_of(address)).id
        return await self._store.read(lambda db: transcript.newest_turns(db, own, most))

    def _show(self, home: str) -> None:
        """Notify the watchers of a chat that its conversation has changed."""
        key = self._conversations.branches.current(self._links.resolve(home))
        self._bus.publish(home, BranchChanged(key.number))


@hookimpl
def parley_open(kernel: Kernel) -> ChatLinks:
    return ChatLinks(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [link, unlink]


BEFORE, YES, NO = "before", "yes", "no"
SHOWN, LONGEST = 10, 300
"""The maximum of turns shown of the chat's own conversation, and of characters of a message."""
ALL = "all"


@command(
    "link",
    "Link chats on several channels into one conversation, with a code",
    "[CODE|yes|no|before]",
    (
        (YES, "link the chat that asks for it"),
        (NO, "don't let it"),
        (BEFORE, "the messages of this chat from the time when it was not linked"),
    ),
    leads=True,
)
async def link(ask: Ask) -> Reply:
    """`/link`, `/link K7QM-2XRD`, `/link yes telegram/42`, `/link before`."""
    text = ask.text.strip()
    word, _space, which = text.partition(" ")
    if text.lower() == BEFORE:
        return await _show_own(ask)
    if word.lower() in (YES, NO):
        return await _answer(ask, which.strip(), is_yes=word.lower() == YES)
    if text:
        return await _follow(ask, text)
    code = await ask.service(ChatLinks).give_code(ask.address)
    sentence = _(
        "Type this in a private chat with me on your other channel, within 10 minutes:\n\n`/link "
        "{code}`\n\nThen I ask you here to confirm. From then on, both chats are one conversation, "
        "with one memory and one budget, and people there can read all of it. Permissions stay "
        "separate.",
        code=code,
    )
    parts = (sentence, _describe(ask))
    data = {"code": code, "linked": ask.service(ChatLinks).list_linked(ask.address)}
    return Reply("\n\n".join(filter(None, parts)), data, _unlinking(ask))


async def _follow(ask: Ask, code: str) -> Reply:
    there = await ask.service(ChatLinks).ask(ask.address, code)
    text = _(
        "Now confirm it in the chat {chat}, where you got the code, within 10 minutes. This chat "
        "joins that conversation then; until then nothing changes.",
        chat=literal(there),
    )
    return Reply(text, {"target": there})


async def _answer(ask: Ask, which: str, is_yes: bool) -> Reply:
    if not is_yes:
        here = await ask.service(ChatLinks).decline(ask.address, which)
        return Reply(_("{chat} was not linked; nothing has changed.", chat=literal(here)))
    here = await ask.service(ChatLinks).agree(ask.address, which, ask.bot.private)
    text = _(
        "{chat} is linked to this conversation now. People who write there can read this "
        "conversation; /unlink {chat} ends that.",
        chat=literal(here),
    )
    return Reply(text, {"linked": here}, (Action(_("Unlink"), f"/unlink {here}"),))


def _describe(ask: Ask) -> str:
    """Name the chats that share this conversation."""
    linked = ask.service(ChatLinks).list_linked(ask.address)
    lines = []
    if there := ask.service(ChatLinks).linked_chat(ask.address):
        lines.append(_("This chat is linked to the conversation of {chat}.", chat=literal(there)))
    if linked:
        names = ", ".join(map(literal, linked))
        lines.append(
            _("These chats are linked to it: {chats}. /unlink NAME ends that for one.", chats=names)
        )
    return sentences(*lines)


def _unlinking(ask: Ask) -> tuple[Action, ...]:
    linked = ask.service(ChatLinks).list_linked(ask.address)
    return tuple(Action(_("Unlink {name}", name=name), f"/unlink {name}") for name in linked)


async def _show_own(ask: Ask) -> Reply:
    if not ask.service(ChatLinks).linked_chat(ask.address):
        raise refusal("This chat is linked to no other; all that was said is in it.")
    turns = await ask.service(ChatLinks).read_own(ask.address, SHOWN)
    if not turns:
        return Reply(_("Nothing was said in this chat before it was linked."), {"turns": []})
    which = format_turns([turn.number for turn in turns])
    head = _(
        "This was said last before the chat was linked ({which}); /unlink goes back to it.",
        which=which,
    )
    data = {"turns": [turn.id for turn in turns]}
    return Reply("\n\n".join((head, *map(_format, turns))), data)


def _format(turn: Turn) -> str:
    messages = [
        entry.message for entry in turn.entries if entry.message.role in ("user", "assistant")
    ]
    lines = [
        f"{'You' if message.role == 'user' else 'I'}: {literal(clip(message.text, LONGEST))}"
        for message in messages
        if message.text.strip()
    ]
    return f"**t{turn.number}**\n" + "\n".join(lines)


@command(
    "unlink",
    "Return to this chat's own conversation",
    "[CHAT|all]",
    ((ALL, "all chats linked to this conversation"),),
    leads=True,
)
async def unlink(ask: Ask) -> Reply:
    """`/unlink`, `/unlink telegram/42`, `/unlink all`."""
    which = ask.text.strip()
    ended = await ask.service(ChatLinks).end(ask.address, which)
    if ended and not which:
        text = _(
            "This chat has its own conversation again, as it was; nothing was copied. What was "
            "said meanwhile stays in the other one."
        )
        return Reply(text, {"ended": ended})
    if ended:
        names = ", ".join(map(literal, ended))
        return Reply(
            _("{names}: from now on in a conversation of their own.", names=names), {"ended": ended}
        )
    linked = ask.service(ChatLinks).list_linked(ask.address)
    if linked:
        raise refusal(
            "Say which: /unlink {name}, or /unlink {all}. These chats are linked to this "
            "conversation: {linked}.",
            name=linked[0],
            all=ALL,
            linked=", ".join(linked),
        )
    raise refusal("No chat is linked here; /link gives a code to link one with.")
