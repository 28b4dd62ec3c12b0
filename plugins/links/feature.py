"""`/link` and `/unlink`: a person's chats on several channels, with one conversation and memory."""

from __future__ import annotations

from collections.abc import Sequence

from bot.kernel import Kernel
from channels.language import _
from memory.turns import Turn
from plugins.api import Action, Ask, Command, CommandError, Reply, command, hookimpl
from plugins.links.linking import ChatLinks
from plugins.wording import clip, format_turns, literal


class LinksFeature:
    """The links, made from the kernel's parts."""

    def __init__(self, kernel: Kernel) -> None:
        self._links = ChatLinks(kernel)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._links,)


@hookimpl
def parley_open(kernel: Kernel) -> LinksFeature:
    return LinksFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [link, unlink]


BEFORE, YES, NO = "before", "yes", "no"
SHOWN, LONGEST = 10, 300
"""Turns of the chat's own conversation that are shown, and characters of a message."""
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
    said = _(
        "Type this in a private chat with me on your other channel, within 10 minutes:\n\n`/link "
        "{code}`\n\nThen I ask you here to confirm. From then on, both chats are one conversation, "
        "with one memory and one budget, and people there can read all of it. Permissions stay "
        "separate.",
        code=code,
    )
    parts = (said, _describe(ask))
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
    if there := ask.service(ChatLinks).leads_to(ask.address):
        lines.append(_("This chat is linked to the conversation of {chat}.", chat=literal(there)))
    if linked:
        names = ", ".join(map(literal, linked))
        lines.append(
            _("These chats are linked to it: {chats}. /unlink NAME ends that for one.", chats=names)
        )
    return " ".join(lines)


def _unlinking(ask: Ask) -> tuple[Action, ...]:
    linked = ask.service(ChatLinks).list_linked(ask.address)
    return tuple(Action(_("Unlink {name}", name=name), f"/unlink {name}") for name in linked)


async def _show_own(ask: Ask) -> Reply:
    if not ask.service(ChatLinks).leads_to(ask.address):
        raise CommandError(_("This chat is linked to no other; all that was said is in it."))
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
    said = [entry.message for entry in turn.entries if entry.message.role in ("user", "assistant")]
    lines = [
        f"{'You' if message.role == 'user' else 'I'}: {literal(clip(message.text, LONGEST))}"
        for message in said
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
        raise CommandError(
            _(
                "Say which: /unlink {name}, or /unlink {all}. These chats are linked to this "
                "conversation: {linked}.",
                name=linked[0],
                all=ALL,
                linked=", ".join(linked),
            )
        )
    raise CommandError(_("No chat is linked here; /link gives a code to link one with."))
