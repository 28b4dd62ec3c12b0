"""The hooks of spending, and `/usage`.

`/usage` shows the cost of model calls by day, chat, model and purpose, and the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict

from bot.app import Kernel
from bot.checks import Finding
from bot.settings import Settings
from channels.language import _, figure, format_weekday
from memory.keys import ConversationKey, home_of
from memory.ledger import Bill
from plugins.api import Action, Ask, BranchInfo, Command, Reply, command, hookimpl, refusal
from plugins.spending import record
from plugins.spending.accounts import Account
from plugins.spending.saving import MonthSpending
from plugins.spending.settings import SpendingSettings
from plugins.wording import amount, cell, clip, literal, money, name_branch, series, table

DAYS = 7
FAR = 30
"""The number of days in the data."""
CHATS = 10
"""The maximum number of chats listed, the most expensive first."""
SUBS = (
    (
        "lift",
        "suspend the spending limit that was reached, until the month ends; add a user "
        "(such as telegram/42) for theirs",
    ),
)
PURPOSES = ("answer", "summary", "title", "memory", "aside", "subagent", "request")
"""The purposes of calls that have a translated name."""
HEADINGS = HERE, BY_CHAT, BY_DAY, BY_MODEL, ALL, EVER = (
    *("this chat, total", "this month by chat", "by day"),
    *("this month by model", "all chats", "ever"),
)
WRITTEN = "into the cache:"
"""The column of tokens written to a cache that charges for it; shown only if there are any."""
THOUGHT = "reasoning:"
"""The column of reasoning tokens; shown only if there are any."""
_OWN = ("web/", "terminal/")
"""Chats of the person at this machine, who is the owner."""
LIFT = Action("Lift the limit", "/usage lift")

Bills = Mapping[str, Bill]
_Day = tuple[date, Bill, Bills]
"""A day with model calls: its total cost, and the cost of the most expensive chats."""


@command("usage", "Show the tokens and the cost of this conversation and of all others", subs=SUBS)
async def usage(ask: Ask) -> Reply:
    """Show the cost; `/usage lift` suspends limits."""
    match ask.words:
        case []:
            return await _show(ask)
        case [word] if word.lower() == "lift":
            return await _lift(ask, "")
        case [word, who] if word.lower() == "lift":
            return await _lift(ask, who)
    raise ask.refuse_word("usage", ask.text)


async def _show(ask: Ask) -> Reply:
    """Show everything to an owner, and to others the cost of this chat and their own."""
    person = ask.person
    accounts = ask.service(MonthSpending).accounts(ask.conversation.key, person.limited)
    shown = [account for account in accounts if person.is_owner or account.kind != "total"]
    groups: dict[str, Bills] = {"": {HERE: ask.conversation.context.bill}}
    days: list[_Day] = []
    if ask.person.is_owner:
        all_states, days = await _all_bills(ask)
        groups |= all_states
    branches = await ask.bot.branches.all(ask.conversation.key)
    keys = groups.get(BY_CHAT, {})
    given = await _list_titles(
        ask, [*keys, *(chat for _day, _whole, chats in days for chat in chats)]
    )
    titles = {home: literal(title) for home, title in given.items()}
    names = titles | _name_branches(ask.conversation.key, branches, keys, titles) | _reword(groups)
    columns = _columns([bill for bills in groups.values() for bill in bills.values()])
    rows = [row for title, bills in groups.items() for row in _rows(title, bills, names, columns)]
    data: dict[str, Any] = {
        "limits": {account.setting: to_builtins(account) for account in shown},
        **{title or "chat": _data(bills) for title, bills in groups.items()},
        **({"days": [_describe_day(*day, given) for day in days]} if person.is_owner else {}),
    }
    is_stopped = any(account.is_used_up for account in shown)
    text = "\n\n".join([*map(_limit, shown), table(("usage", *columns), rows)])
    return Reply(text, data, (LIFT,) if is_stopped else ())


def _reword(groups: Mapping[str, Bills]) -> dict[str, str]:
    """Return the days, and the purposes of models, in the person's language, by their names in the
    data."""
    days = {key: date.fromisoformat(key.split()[-1]) for key in groups.get(BY_DAY, {})}
    models = [key.rpartition(", ") for key in groups.get(BY_MODEL, {})]
    return {
        **{key: format_weekday(day) for key, day in days.items()},
        **{"".join(model): series((model[0], _(model[2]))) for model in models},
    }


async def _all_bills(ask: Ask) -> tuple[dict[str, Bills], list[_Day]]:
    """Return the bills of all chats by their heading, and the days with any calls. Days are
    calendar days in the person's time zone."""
    zone = ask.bot.zone()
    today = datetime.now(zone).date()
    days = [today - timedelta(days=back) for back in range(FAR)]
    midnights = [(_midnight(day, zone), _midnight(day + timedelta(days=1), zone)) for day in days]
    bills = await ask.service(MonthSpending).list_bills(midnights)
    used = [
        (day, sum(chats.values(), Bill()), _most_expensive(chats))
        for day, chats in zip(days, bills.by_day, strict=True)
        if chats
    ]
    groups: dict[str, Bills] = {
        BY_DAY: {f"{day:%a} {day}": whole for day, whole, _chats in used if day in days[:DAYS]},
        BY_CHAT: _most_expensive(bills.by_conversation),
        BY_MODEL: {f"{model}, {purpose}": bill for model, purpose, bill in bills.by_model},
        ALL: {EVER: bills.ever},
    }
    return groups, used


def _describe_day(
    day: date, whole: Bill, chats: Bills, titles: Mapping[str, str]
) -> dict[str, Any]:
    """Return a day's cost as data, with the most expensive chats by their ids ("": calls without a
    chat) and titles, as far as the person may read these."""
    return {
        "day": day.isoformat(),
        "cost": whole.cost,
        "calls": whole.calls,
        "unknown": whole.unknown,
        "chats": [
            {"chat": name, "title": titles.get(home_of(name), ""), "cost": bill.cost}
            for name, bill in chats.items()
        ],
    }


def _midnight(day: date, zone: tzinfo) -> float:
    return datetime.combine(day, time(), zone).timestamp()


def _most_expensive(bills: Bills) -> Bills:
    best = sorted(bills.items(), key=lambda item: (-item[1].cost, -item[1].prompt, item[0]))
    return dict(best[:CHATS])


async def _list_titles(ask: Ask, keys: Iterable[str]) -> dict[str, str]:
    """Return the titles of the person's own chats. The titles of other people's chats are private,
    and in a chat with several people none is shown."""
    here, homes = ask.conversation.key.home, {home_of(key) for key in keys}
    if not (ask.address.is_private or not ask.address.user):
        return {}
    own = {one for one in homes if one == here or (one.count("/") == 1 and one.startswith(_OWN))}
    found = await ask.service(MonthSpending).list_titles(sorted(own))
    return {home: title for home, title in found.items() if title}


def _name_branches(
    here: ConversationKey,
    branches: Sequence[BranchInfo],
    keys: Iterable[str],
    chats: Mapping[str, str],
) -> dict[str, str]:
    """Return the names of rows that would show a branch by its key; the branches of this chat by
    their titles. `chats` are the names of chats."""
    names = {}
    titles = {here.branch(one.number).id: one.title for one in branches if branches[1:]}
    for key in (ConversationKey(key, "") for key in keys):
        if key.id in titles or key.is_branch:
            chat, title = chats.get(key.home, key.home), titles.get(key.id, "")
            is_same = chat in (literal(title), literal(clip(title)))
            branch = name_branch(key.number, "" if is_same else title)
            names[key.id] = _("{chat} ({branch})", chat=chat, branch=branch)
    return names | ({HERE: _("this branch, total")} if branches[1:] else {})


def _columns(bills: Sequence[Bill]) -> list[str]:
    """Return the headings of the columns that have values."""
    absent = {
        *((WRITTEN,) if not any(bill.written for bill in bills) else ()),
        *((THOUGHT,) if not any(bill.reasoning for bill in bills) else ()),
    }
    return [name for name in _COLUMNS if name not in absent]


def _rows(
    title: str, bills: Bills, names: Mapping[str, str], columns: Sequence[str]
) -> Iterable[tuple[str, ...]]:
    if title and bills:
        yield (f"**{_shown(title)}**", *[""] * len(columns))
    for name, bill in bills.items():
        yield (cell(names.get(name, _shown(name))), *(_COLUMNS[column](bill) for column in columns))


def _shown(name: str) -> str:
    """Return the label of a heading or a row by its name in the data."""
    labels = {
        HERE: _("this conversation, total"),
        BY_CHAT: _("this month by conversation"),
        ALL: _("all conversations"),
        EVER: _("in total"),
    }
    return labels.get(name) or _(name)


def _cost(bill: Bill) -> str:
    return _("unknown") if bill.unknown == bill.calls > 0 else money(bill.cost, bill.unknown)


_COLUMNS: Mapping[str, Callable[[Bill], str]] = {
    "requests:": lambda bill: figure(f"{bill.calls:,}"),
    "input tokens:": lambda bill: amount(bill.prompt),
    "cached:": lambda bill: amount(bill.cached),
    WRITTEN: lambda bill: amount(bill.written),
    "output tokens:": lambda bill: amount(bill.completion),
    THOUGHT: lambda bill: amount(bill.reasoning),
    "cost:": _cost,
}
COLUMNS = tuple(_COLUMNS)


def _limit(account: Account) -> str:
    """Describe an account of the month in a sentence."""
    whose = {
        "total": _("All conversations together"),
        "chat": _("This conversation"),
        "user": _("You"),
    }[account.kind]
    spent = _(
        "{whose}, this month: {cost}",
        whose=whose,
        cost=money(account.bill.cost, account.bill.unknown),
    )
    if not account.limit:
        return _(
            "{spent}; no budget is set (`/config {setting} 5` sets $5).",
            spent=spent,
            setting=account.setting,
        )
    rest = _(", lifted until the month ends") if account.is_lifted else ""
    return _(
        "{spent} of a budget of {limit} (`{setting}`{rest}).",
        spent=spent,
        limit=money(account.limit),
        setting=account.setting,
        rest=rest,
    )


def _data(bills: Bills) -> dict[str, Any]:
    return {name: asdict(bill) for name, bill in bills.items()}


_LIFTED_FOR = {"total": "", "chat": " for this conversation", "user": " for this user"}


async def _lift(ask: Ask, who: str) -> Reply:
    """Lift the limits that stop this chat, or a user ("telegram/42")."""
    ask.require_owner("lift a spending limit")
    lifted = await ask.service(MonthSpending).lift(ask.conversation.key, who)
    if not lifted:
        whom = literal(who) or _("this chat")
        raise refusal(
            "No spending limit is stopping {whom} now, so there is nothing to lift.", whom=whom
        )
    names = _(" and ").join(account.setting for account in lifted)
    where = _(_LIFTED_FOR[lifted[-1].kind])
    return Reply(
        _(
            "Lifted until the month ends{where}: {names}. After that it applies again.",
            where=where,
            names=names,
        ),
        {"lifted": [account.setting for account in lifted]},
    )


@hookimpl
def parley_open(kernel: Kernel) -> MonthSpending:
    return MonthSpending(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [usage]


@hookimpl
def parley_ledger() -> object:
    return record


def list_risks_with_users(settings: Settings) -> Iterator[Finding]:
    """Yield the risk of unlimited spending by people other than the owners."""
    limits = settings.section(SpendingSettings)
    if not (limits.spend_limit_total or limits.spend_limit_user):
        sentence = "Others have access, and nothing limits what they can spend."
        yield Finding("spending", "low", sentence, "/config spend_limit_user 5")
