"""`/invite` and `/logins`: the people who may sign in on the page, and those who are signed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from bot.app import Kernel
from bot.settings import SettingsStore
from channels.base import Channel, WithPage
from channels.language import _, format_datetime
from memory.record.people import Role
from plugins.accounts.logins import PageLogins
from plugins.accounts.record import LoginRow
from plugins.api import Action, Ask, Command, Reply, command, hookimpl, refusal
from plugins.wording import cell, literal, table


class AccountsFeature:
    """The logins and keys, made from the kernel's parts."""

    def __init__(self, kernel: Kernel) -> None:
        self._logins = PageLogins(kernel.store, kernel.access)
        self._address = PageAddress(kernel.config.book, kernel.channels)
        kernel.changes.connect(self._logins.wake)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._logins, self._address)

    @hookimpl
    def parley_logins(self) -> PageLogins:
        return self._logins

    @hookimpl
    def parley_setting_changed(self) -> Callable[[], None]:
        return self._logins.wake  # another process may have signed somebody out, too


@hookimpl
def parley_open(kernel: Kernel) -> AccountsFeature:
    return AccountsFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [invite, logins]


OWNER = "owner"


class PageAddress(Struct, frozen=True):
    """The address of the page."""

    book: SettingsStore
    channels: Mapping[str, Channel]

    def __str__(self) -> str:
        """Return the URL of the page; "" if unknown."""
        page: object = self.channels.get("web")
        own = page.url if isinstance(page, WithPage) else ""
        return self.book.effective().web.url.rstrip("/") or own


@command(
    "invite", "Invite somebody to the page with a link that works once (owners)", "NAME [owner]"
)
async def invite(ask: Ask) -> Reply:
    """`/invite ann`: as a user; `/invite ann owner`: as an owner."""
    ask.require_owner("give people access")
    if not (ask.address.is_private or not ask.address.user):
        raise refusal("Others would read the link here; send this in a private chat with me.")
    match ask.words:
        case [name] | [name, "user"]:
            role: Role = "user"
        case [name, word] if word.lower() == OWNER:
            role = "owner"
        case _:
            raise refusal("/invite needs a name, like /invite ann, or /invite ann owner.")
    code = await ask.service(PageLogins).invite(name, role, ask.person.id)
    link = f"{ask.service(PageAddress)}/#join={code}"
    where = _("the page's address and {link}", link=literal(link)) if link.startswith("/") else link
    text = _(
        "Send this to {name}, and to nobody else: {where}\n\nThe first to open it gets access to "
        "the page as {what}, with conversations and a memory of their own. It works once, within "
        "three days. Somebody who has access already can choose a new password with it.",
        name=literal(name),
        where=where,
        what=_("an owner") if role == OWNER else _("a user"),
    )
    return Reply(text, {"link": link, "name": name, "role": role})


@command("logins", "Show where people are signed in on the page, and sign them out", "[end N|all]")
async def logins(ask: Ask) -> Reply:
    """`/logins`, `/logins end 3`, `/logins end all`; owners see everybody's."""
    person = "" if ask.person.is_owner else ask.person.id
    found = await ask.service(PageLogins).list_all(person)
    match [word.lower() for word in ask.words]:
        case []:
            return _list_logins(ask, found)
        case ["end", "all"]:
            ending = list(found)
        case ["end", number]:
            ending = [one for one in found if str(one.id) == number]
        case _:
            raise refusal("/logins shows them, /logins end N ends one, /logins end all all.")
    if not ending:
        raise refusal("There is no such login; /logins lists them.")
    for one in ending:
        await ask.service(PageLogins).end(one.id)
    names = ", ".join(str(one.id) for one in ending)
    return Reply(_("Signed out: {names}.", names=names), {"ended": [one.id for one in ending]})


def _list_logins(ask: Ask, found: Sequence[LoginRow]) -> Reply:
    if not found:
        return Reply(_("No account is signed in."), {"logins": []})
    header = ("no.", "who", "browser", "since", "last used")
    rows = [
        (
            one.id,
            _(_owner_name(one)),
            one.browser or _("unknown"),
            _at(ask, one.at),
            _at(ask, one.used),
        )
        for one in found
    ]
    shown = table(header, [tuple(cell(str(value)) for value in row) for row in rows])
    data = {
        "logins": [
            {"number": one.id, "who": _owner_name(one), "browser": one.browser, "at": one.at}
            | {"used": one.used}
            for one in found
        ]
    }
    actions = tuple(Action(_("Sign out {id}", id=one.id), f"/logins end {one.id}") for one in found)
    return Reply(shown, data, actions)


OWN = "the owner, by the token"


def _owner_name(one: LoginRow) -> str:
    return one.person if one.person.partition("/")[2] else OWN


def _at(ask: Ask, at: float) -> str:
    return format_datetime(at, ask.bot.zone())
