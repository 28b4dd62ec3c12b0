"""Spending limits: the cost of this month, the warnings about it, and the refusals at a limit.

A month is a calendar month in the bot's time zone. Its sums are loaded once, at the start, and then
kept in memory, so that a message needs no query.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache, partial
from typing import Literal, Protocol

from msgspec import Struct, field

from agent.models.base import Model
from bot.listing import title_of
from bot.received import Signal
from bot.spending import BudgetedModel, BudgetSpent, SpendingRules
from channels.language import _
from memory.conversation import Conversation
from memory.keys import ConversationKey, home_of
from memory.ledger import Bill, Spent
from memory.plain_text import plain_number
from memory.record import branches
from memory.record.database import Database
from memory.record.store import Store
from plugins.spending import record
from plugins.spending.settings import SpendingSettings
from plugins.wording import count, money

SHARES = (0.9, 0.7)
"""The shares of a limit at which a person is warned, once a month each."""
ALL = ""
"""The scope of all conversations, where otherwise a conversation's id is used."""
LIFTED = "lifted"


AccountKind = Literal["chat", "total", "user"]


class Account(Struct, frozen=True):
    """A month's calls against a limit in US dollars (0: none): those of a chat, of all chats, or of
    one user in all chats. `scope` is the chat or user. A lifted limit is suspended until the month
    ends."""

    scope: str
    bill: Bill
    limit: float
    is_lifted: bool = False
    kind: AccountKind = "chat"

    @property
    def is_in_force(self) -> bool:
        return self.limit > 0 and not self.is_lifted

    @property
    def is_used_up(self) -> bool:
        """Return whether the limit allows no further calls to models that cost something."""
        return self.is_in_force and self.bill.cost >= self.limit

    @property
    def setting(self) -> str:
        """Return the setting that defines the limit."""
        return f"spend_limit_{self.kind}"


class MonthTotals(Struct):
    """The bills of a month by scope, and the notes of the warnings given and limits lifted in
    it."""

    bills: defaultdict[str, Bill] = field(default_factory=lambda: defaultdict(Bill))
    notes: set[tuple[str, str]] = field(default_factory=set)


def find_reached_share(account: Account) -> float:
    """Return the highest share of the limit with a warning that is reached; 0: none."""
    if not account.is_in_force:
        return 0
    return next((share for share in SHARES if account.bill.cost >= share * account.limit), 0)


def note_of(account: Account) -> str:
    """Return the note stored after a warning; for a changed limit it differs, so the warning is
    repeated."""
    return f"{plain_number(find_reached_share(account))} of {plain_number(account.limit)}"


def format_warning(account: Account) -> str:
    """Return the line under a reply after a share is reached."""
    return _(
        "(Spending: {so_far}. At 100% I stop. `{setting}` sets the limit; /usage shows what the "
        "money went on.)",
        so_far=describe_spent(account),
        setting=account.setting,
    )


def _list_warnings(account: Account) -> Iterator[tuple[str, str]]:
    """Yield the warnings about an account, each with the note to store."""
    if find_reached_share(account):
        yield note_of(account), format_warning(account)
    if account.is_in_force and account.bill.unknown:
        yield (
            f"unknown of {plain_number(account.limit)}",
            _(
                "(Some calls of this month have no known price, so they don't count towards "
                "`{setting}`. /usage shows them.)",
                setting=account.setting,
            ),
        )


def format_refusal(account: Account) -> str:
    """Return the reply to a message that is not sent to a model."""
    return _(
        "Your message was not sent to the model: {so_far}. An owner can lift the limit for the "
        "rest of the month with {lift}, or raise it with /config {setting} {limit:g}. The "
        "demo model is free: /config model embedded. Then send your message again.",
        so_far=describe_spent(account),
        lift=_lift_command(account),
        setting=account.setting,
        limit=account.limit * 2,
    )


def _lift_command(account: Account) -> str:
    whom = f" {account.scope.removeprefix(_scope(''))}" if account.kind == "user" else ""
    return f"/usage lift{whom}"


_WHOSE = {
    "total": "all conversations together have spent {cost} of this month's {limit}{besides}",
    "chat": "this conversation has spent {cost} of this month's {limit}{besides}",
    "user": "you have spent {cost} of this month's {limit}{besides}",
}


def describe_spent(account: Account) -> str:
    """Return the spent amount, as a part of a sentence."""
    unknown = account.bill.unknown
    besides = (
        _(" (not counting {calls} of unknown price)", calls=count(unknown, "request"))
        if unknown
        else ""
    )
    return _(
        _WHOSE[account.kind],
        cost=money(account.bill.cost),
        limit=money(account.limit),
        besides=besides,
    )


class AllBills(Struct, frozen=True):
    """The calls of all conversations: of some days and of the month by conversation, of the month
    by (model, purpose), and in total. In `by_day`, branches count for their chat, and calls without
    a conversation are under ""."""

    by_day: list[dict[str, Bill]]
    by_conversation: dict[str, Bill]
    by_model: list[tuple[str, str, Bill]]
    ever: Bill


class AccountRules(Protocol):
    """The current rules for the accounts, read at each use."""

    @property
    def settings(self) -> SpendingSettings: ...

    @property
    def zone(self) -> tzinfo: ...

    def is_free(self, key: ConversationKey) -> bool:
        """Return whether the model of a conversation costs nothing."""
        ...


class MonthAccounts(SpendingRules):
    """The month's accounts. `clock` returns seconds since 1970; `changes` is notified of lifted
    limits."""

    def __init__(
        self,
        store: Store,
        rules: AccountRules,
        changes: Signal[[]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._rules = store, rules
        self._changes, self._clock = changes, clock
        self._pages: dict[str, MonthTotals] = {}

    async def load(self) -> None:
        """Load the costs and notes of this month, and of the previous one, which is current again
        after a clock is set back or the time zone changes."""
        began, zone = self.since, self._rules.zone
        last = datetime.fromtimestamp(began - 1, zone).replace(day=1, hour=0, minute=0, second=0)
        spans = (began, math.inf), (last.timestamp(), began)
        self._pages = {
            _month_of(int(since // _QUARTER), zone): await self._store.read(
                partial(_read_page, since=since, until=until, zone=zone)
            )
            for since, until in spans
        }

    def book(self, key: ConversationKey, person: str, spent: Spent) -> None:
        """Add a call to the month's accounts: the chat's, the speaker's, and the total."""
        bills = self._page.bills
        for scope in (key.home, _scope(person), ALL):
            bills[scope] = bills[scope].plus(spent)

    @property
    def since(self) -> float:
        """Return the beginning of the month, in seconds since 1970."""
        now = datetime.fromtimestamp(self._clock(), self._rules.zone)
        return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()

    def accounts(self, key: ConversationKey, user: str = "") -> tuple[Account, ...]:
        """Return the conversation's account, the total, and that of a user who is not an owner."""
        limits = self._rules.settings
        chat = self._account("chat", key.home, limits.spend_limit_chat)
        total = self._account("total", ALL, limits.spend_limit_total)
        own = (self._account("user", _scope(user), limits.spend_limit_user),) if user else ()
        return (chat, total, *own)

    def is_enough(self, key: ConversationKey, user: str = "") -> bool:
        """Return whether a limit is used up, of this conversation or of a user who is not an
        owner."""
        return any(account.is_used_up for account in self._list_limited(key, user))

    def refusal(
        self,
        key: ConversationKey,
        user: str = "",
        *,
        is_chat: bool = True,
        is_free: bool | None = None,
    ) -> str:
        """Return the reason why a message of this conversation may not be sent to the model; "" if
        it may."""
        account = self.find_used_up(key, user, is_chat=is_chat, is_free=is_free)
        return format_refusal(account) if account else ""

    def limit(
        self, model: Model, key: ConversationKey, user: str = "", *, is_chat: bool = True
    ) -> Model:
        """Return a model that answers until a limit is used up."""
        return BudgetedModel(model, MonthBudget(self, key, user, is_chat))

    def _list_limited(self, key: ConversationKey, user: str) -> Sequence[Account]:
        """Return these accounts if any limit is set, which is rarely the case."""
        limits = self._rules.settings
        is_limited = limits.spend_limit_chat or limits.spend_limit_total or limits.spend_limit_user
        return self.accounts(key, user) if is_limited else ()

    def find_used_up(
        self,
        key: ConversationKey,
        user: str = "",
        *,
        is_chat: bool = True,
        is_free: bool | None = None,
    ) -> Account | None:
        """Return the account that forbids calls to models that cost money; None if there is none,
        or if the conversation's model is free. Unless `is_chat`, the chat's account is ignored."""
        accounts = (a for a in self._list_limited(key, user) if is_chat or a.kind != "chat")
        account = next((a for a in accounts if a.is_used_up), None)
        if account is None:
            return None
        return None if (self._rules.is_free(key) if is_free is None else is_free) else account

    async def warnings(
        self, key: ConversationKey, user: str = "", conversation: Conversation | None = None
    ) -> list[str]:
        """Return the warnings that are due now, each once: the lines under the reply."""
        notes = {
            (a.scope, note): say
            for a in self._list_limited(key, user)
            for note, say in _list_warnings(a)
        }
        due = [one for one in notes if one not in self._page.notes]
        for scope, note in due:
            await self._note(scope, note)
        return [notes[one] for one in due]

    async def note_once(self, scope: str, text: str) -> bool:
        """Store a note for this month; return False if it exists already."""
        is_new = (scope, text) not in self._page.notes
        if is_new:
            await self._note(scope, text)
        return is_new

    async def list_bills(self, days: Sequence[tuple[float, float]]) -> AllBills:
        """Return the sums of the calls of all conversations: this month, in each of these time
        spans, and in total."""
        since = self.since

        def read(db: Database) -> AllBills:
            month = record.bills_by_conversation(db, since)
            return AllBills(
                [_join_branches(record.bills_by_conversation(db, *day)) for day in days],
                {name: bill for name, bill in month.items() if name},
                record.bills_by_model(db, since),
                record.bill(db),
            )

        return await self._store.read(read)

    async def list_titles(self, homes: Sequence[str]) -> dict[str, str]:
        """Return the names of chats: their title, or their first words."""

        def read(db: Database) -> dict[str, str]:
            found = {home: branches.of_chat(db, home) for home in homes}
            return {home: title_of(rows[0].title) for home, rows in found.items() if rows}

        return await self._store.read(read)

    async def lift(self, key: ConversationKey, user: str = "") -> list[Account]:
        """Suspend the limits that are used up until the month ends; return their accounts."""
        lifted = [account for account in self.accounts(key, user) if account.is_used_up]
        for account in lifted:
            await self._note(account.scope, LIFTED)
        self._changes()
        return lifted

    def _account(self, kind: AccountKind, scope: str, limit: float) -> Account:
        page = self._page
        return Account(scope, page.bills[scope], limit, (scope, LIFTED) in page.notes, kind)

    def _month_now(self) -> str:
        return _month_of(int(self._clock() // _QUARTER), self._rules.zone)

    @property
    def _page(self) -> MonthTotals:
        """Return the page of the clock's current month. Others are kept, since the clock may be set
        back."""
        month = self._month_now()
        if month not in self._pages:
            self._pages[month] = MonthTotals()
        return self._pages[month]

    async def _note(self, scope: str, text: str) -> None:
        month = self._month_now()
        self._page.notes.add((scope, text))
        await self._store.write(lambda db: record.note(db, month, scope, text))


def _read_page(database: Database, since: float, until: float, zone: tzinfo) -> MonthTotals:
    by_conversation = record.bills_by_conversation(database, since, until)
    people = record.bills_by_person(database, since, until)
    bills = defaultdict(Bill, _join_branches(by_conversation))  # a limit includes branches
    bills.update({_scope(person): bill for person, bill in people.items()})
    bills[ALL] = record.bill(database, since=since, until=until)
    return MonthTotals(bills, record.notes(database, _month_of(int(since // _QUARTER), zone)))


def _join_branches(bills: Mapping[str, Bill]) -> dict[str, Bill]:
    """Return the bills of chats, each with all its branches."""
    joined = defaultdict[str, Bill](Bill)
    for name, bill in bills.items():
        joined[home_of(name)] += bill
    return dict(joined)


_QUARTER = 900
"""The seconds of a quarter of an hour; in every time zone, days begin at a multiple of it."""


@lru_cache(maxsize=2)
def _month_of(quarter: int, zone: tzinfo) -> str:
    """Return the month as "2026-11". It is cached, since it is used several times per message."""
    return f"{datetime.fromtimestamp(quarter * _QUARTER, zone):%Y-%m}"


def _scope(person: str) -> str:
    """Return the scope of a person, which is distinct from conversation ids."""
    return f"user {person}"


class MonthBudget(Struct, frozen=True):
    """The remaining budget of a running turn under the month's limits, for a conversation and its
    speaker ("": an owner)."""

    accounts: MonthAccounts
    key: ConversationKey
    user: str = ""
    is_chat: bool = True

    def check(self, coming: float = 0.0) -> None:
        """Raise BudgetSpent if a limit is used up. The coming request itself may exceed it."""
        if account := self.accounts.find_used_up(self.key, self.user, is_chat=self.is_chat):
            raise BudgetSpent(
                f"A spending limit ({account.setting}, {money(account.limit)} a month) was reached "
                "meanwhile, so no more was sent to the model. What was done so far is kept. An "
                f"owner can lift the limit with {_lift_command(account)}; then tell me to go on."
            )
