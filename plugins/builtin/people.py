"""`/pair`, `/users`, `/revoke`: the people with access to the bot."""

from __future__ import annotations

from msgspec.structs import asdict

from channels.language import _, format_datetime
from memory.record.people import KnownPerson, PendingPerson
from plugins.api import Action, Ask, Command, Reply, command, hookimpl, refusal
from plugins.wording import cell, literal, table

HERE, OWNER = "here", "owner"
SUBS = ((HERE, "everybody who writes in this chat"),)


@command("pair", "Give a stranger access by their code (owners)", "CODE [owner]", SUBS)
async def pair(ask: Ask) -> Reply:
    """Give access: `/pair CODE` as a user, `/pair CODE owner` as an owner, `/pair here` to the
    whole chat."""
    ask.require_owner("give people access")
    match ask.words:
        case [word] if word.lower() == HERE:
            return await _open_chat(ask)
        case [*code, word] if code and word.lower() == OWNER:
            stranger = await ask.bot.access.approve("".join(code), "owner", ask.person.id)
            return _welcome(stranger, _("an owner"))
        case [_, *_]:
            stranger = await ask.bot.access.approve(ask.text, "user", ask.person.id)
            return _welcome(stranger, _("a user"))
    raise refusal(
        "/pair needs the code that a stranger was given, like /pair K7QM-2XRD; /pair here "
        "gives access to everybody in this chat."
    )


def _welcome(stranger: PendingPerson, what: str) -> Reply:
    undo = Action(_("Undo"), f"/revoke {stranger.person}")
    text = _(
        "{person} now has access as {what}, and was notified.",
        person=_format_person(stranger.person, stranger.name),
        what=what,
    )
    return Reply(text, {"id": stranger.person, "name": stranger.name}, (undo,))


async def _open_chat(ask: Ask) -> Reply:
    if ask.address.is_private:
        raise refusal("Nobody else writes in this chat; use /pair here in a group.")
    await ask.bot.access.open_chat(ask.address, ask.person.id)
    return Reply(
        _("Everybody who writes in this chat is a user from now on; /revoke here ends that."),
        {"id": _chat(ask)},
        (Action(_("Undo"), "/revoke here"),),
    )


@command("users", "Show who has access to the bot, and who is waiting for it (owners)", bare=("",))
async def users(ask: Ask) -> Reply:
    """List the owners from the settings, the people with access, and strangers with a code."""
    ask.require_owner("see who has access")
    owners = ask.bot.settings.describe("owners", "").value
    pending = await ask.bot.access.list_pending()
    known = ask.bot.access.known
    rows = [
        *((owner, "owner", _("by the setting `owners`")) for owner in owners),
        *((_format_person(one.id, one.name), _role(one), _since(ask, one)) for one in known),
        *((_format_person(one.person, one.name), "waits", _age(ask, one.at)) for one in pending),
    ]
    ends = _("Whoever writes to the bot gets a code from it; `/pair CODE` lets that person in.")
    shown = table(("who", "may", "since"), [tuple(map(cell, row)) for row in rows])
    data = {
        "owners": list(owners),
        "known": [asdict(one) for one in known],
        "pending": [{"id": one.person, "name": one.name, "at": one.at} for one in pending],
    }
    actions = tuple(Action(_("Revoke {id}", id=one.id), f"/revoke {one.id}") for one in known)
    only = _("Only you, the owner, have access.")
    return Reply(f"{shown if rows else only}\n\n{ends}", data, actions)


def _role(one: KnownPerson) -> str:
    return _("everyone there: user") if one.kind == "chat" else one.role


def _since(ask: Ask, one: KnownPerson) -> str:
    return _("{age}, by {by}", age=_age(ask, one.at), by=one.by)


def _age(ask: Ask, at: float) -> str:
    return format_datetime(at, ask.bot.zone())


def _format_person(identity: str, name: str) -> str:
    return f"{literal(identity)} ({literal(name)})" if name else literal(identity)


@command("revoke", "Remove a person's access (owners)", "WHO", ((HERE, "all of this chat"),))
async def revoke(ask: Ask) -> Reply:
    """Run `/revoke telegram/42`, `/revoke Ann` or `/revoke here`."""
    ask.require_owner("remove people's access")
    who = ask.text.strip()
    if not who:
        raise refusal("/revoke needs a name from /users, or here for this whole chat.")
    if who in ask.bot.settings.describe("owners", "").value:
        raise refusal(
            "{who} is an owner through the setting `owners`; /config owners shows it. Set it "
            "without them.",
            who=who,
        )
    one = await ask.bot.access.revoke(f"chat {_chat(ask)}" if who.lower() == HERE else who)
    return Reply(
        _("{person} no longer has access.", person=_format_person(one.id, one.name)), {"id": one.id}
    )


def _chat(ask: Ask) -> str:
    return f"{ask.address.channel}/{ask.address.chat}"


@hookimpl
def parley_commands() -> list[Command]:
    return [pair, users, revoke]
