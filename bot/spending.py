"""Spending limits: what has been spent this month, what is said about it, and when it is enough.

A month is a calendar month in the bot's time zone. Its sums are read once, at the start, and kept
in memory from then on, so that a message costs no query.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from agent.models.base import Model, ModelError, ModelReply, ModelRequest, OnDelta
from agent.models.catalogue import input_price
from channels.language import _
from memory.context.summary import Summarizer, SummaryRequest, SummaryResult
from memory.keys import ConversationKey, home_of
from memory.long_term.asking import Distiller, DistillRequest, NotAskedError
from memory.record import ledger
from memory.record.ledger import Bill, Spent
from memory.record.store import Store
from plugins.api import Account, AccountKind
from plugins.wording import count, money

SHARES = (0.9, 0.7)
"""The shares of a limit at which a person is told, once each a month."""
ALL = ""
"""Stands for all conversations where otherwise a conversation's id stands."""
LIFTED = "lifted"


class SpendingLimits(Struct, frozen=True):
    """The most that a calendar month may cost, in US dollars; 0: no limit."""

    chat: float
    total: float
    user: float = 0


def find_reached_share(account: Account) -> float:
    """The greatest share of the limit that is told of and is reached; 0: none."""
    if not account.is_in_force:
        return 0
    return next((share for share in SHARES if account.bill.cost >= share * account.limit), 0)


def note_of(account: Account) -> str:
    """Return the note that is kept once a person was told; a changed limit is told of anew."""
    return f"{find_reached_share(account):g} of {account.limit:g}"


def format_warning(account: Account) -> str:
    """The line under a reply once a share is reached."""
    return _(
        "(Spending: {so_far}. At 100% I stop. `{setting}` sets the limit; /usage shows what the "
        "money went on.)",
        so_far=describe_spent(account),
        setting=account.setting,
    )


def refusal(account: Account) -> str:
    """The answer to a message that no model is asked about."""
    return _(
        "Your message was not sent to the model: {so_far}. An owner can lift the limit for the "
        "rest of the month with {lift}, or raise it with /config {setting} {limit:g}. The "
        "embedded model is free: /config model embedded. Then send your message again.",
        so_far=describe_spent(account),
        lift=_lift_command(account),
        setting=account.setting,
        limit=account.limit * 2,
    )


def _lift_command(account: Account) -> str:
    whom = f" {account.scope.removeprefix(_scope(''))}" if account.kind == "user" else ""
    return f"/usage lift{whom}"


_WHOSE = {
    "total": "all chats together have spent {cost} of this month's {limit}{besides}",
    "chat": "this chat has spent {cost} of this month's {limit}{besides}",
    "user": "you have spent {cost} of this month's {limit}{besides}",
}


def describe_spent(account: Account) -> str:
    """Return the amount that was spent, as a part of a sentence."""
    unknown = account.bill.unknown
    besides = (
        _(" (not counting {calls} of unknown price)", calls=count(unknown, "call"))
        if unknown
        else ""
    )
    return _(
        _WHOSE[account.kind],
        cost=money(account.bill.cost),
        limit=money(account.limit),
        besides=besides,
    )


class Spending:
    """The month's accounts. `limits` and `zone` are asked each time; `clock` gives seconds since
    1970; `is_free` says whether a conversation's model costs nothing; `on_lift` hears that limits
    rest."""

    def __init__(
        self,
        store: Store,
        limits: Callable[[], SpendingLimits],
        zone: Callable[[], tzinfo],
        is_free: Callable[[ConversationKey], bool],
        clock: Callable[[], float] = time.time,
        on_lift: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._limits, self._zone = store, limits, zone
        self._on_lift = on_lift
        self._is_free, self._clock = is_free, clock
        self._month = ""
        self._bills: defaultdict[str, Bill] = defaultdict(Bill)
        self._notes: set[tuple[str, str]] = set()

    async def take_up(self) -> None:
        """Read what was spent and said so far this month."""
        month, since = self._month_now(), self.since
        read = self._store.read
        notes = await read(lambda db: ledger.notes(db, month))
        by_conversation = await read(lambda db: ledger.bills_by_conversation(db, since))
        people = await read(lambda db: ledger.bills_by_person(db, since))
        whole = await read(lambda db: ledger.bill(db, since=since))
        self._notes, self._month = notes, month
        self._bills.clear()
        for name, bill in by_conversation.items():
            self._bills[home_of(name)] += bill  # a limit holds for a chat with all its branches
        self._bills.update({_scope(person): bill for person, bill in people.items()})
        self._bills[ALL] = whole

    def book(self, key: ConversationKey, person: str, spent: Spent) -> None:
        """Add a call to the month's accounts: the chat's, that of who spoke, and that of all."""
        self._turn_the_page()
        for scope in (key.home, _scope(person), ALL):
            self._bills[scope] = self._bills[scope].plus(spent)

    @property
    def since(self) -> float:
        """Return the time at which the month began, in seconds since 1970."""
        return self._midnight().replace(day=1).timestamp()

    @property
    def since_midnight(self) -> float:
        """Return the time at which the day began, in seconds since 1970."""
        return self._midnight().timestamp()

    def _midnight(self) -> datetime:
        now = datetime.fromtimestamp(self._clock(), self._zone())
        return now.replace(hour=0, minute=0, second=0, microsecond=0)

    def accounts(self, key: ConversationKey, user: str = "") -> tuple[Account, ...]:
        """The conversation's account, that of all, and that of a user who is no owner."""
        self._turn_the_page()
        limits = self._limits()
        chat = self._account("chat", key.home, limits.chat)
        total = self._account("total", ALL, limits.total)
        own = (self._account("user", _scope(user), limits.user),) if user else ()
        return (chat, total, *own)

    def is_enough(self, key: ConversationKey, user: str = "") -> bool:
        """Return whether no more may be spent on this conversation, or by a user who is no
        owner."""
        return any(account.is_used_up for account in self.accounts(key, user))

    def refusal(self, key: ConversationKey, user: str = "") -> str:
        """Return why a message of this conversation may not be sent to the model; "": it may."""
        account = self.find_used_up(key, user)
        return refusal(account) if account else ""

    def find_used_up(
        self, key: ConversationKey, user: str = "", *, is_chat: bool = True
    ) -> Account | None:
        """The account by which no model may be asked that costs money; None: one may, or the
        conversation's costs none. What belongs to no conversation is not of a chat."""
        accounts = (a for a in self.accounts(key, user) if is_chat or a.kind != "chat")
        account = next((a for a in accounts if a.is_used_up), None)
        return None if account is None or self._is_free(key) else account

    def refusal_of_request(self, key: ConversationKey, user: str = "") -> str:
        """The same for a request that belongs to no conversation."""
        account = self.find_used_up(key, user, is_chat=False)
        return refusal(account) if account else ""

    async def warnings(self, key: ConversationKey, user: str = "") -> list[str]:
        """Return the warnings to give now, once: the lines under the reply."""
        near = filter(find_reached_share, self.accounts(key, user))
        due = [a for a in near if (a.scope, note_of(a)) not in self._notes]
        for account in due:
            await self._note(account.scope, note_of(account))
        return [format_warning(account) for account in due]

    async def note_once(self, scope: str, text: str) -> bool:
        """Keep that something was said this month; False: it was before."""
        self._turn_the_page()
        is_new = (scope, text) not in self._notes
        if is_new:
            await self._note(scope, text)
        return is_new

    async def lift(self, key: ConversationKey, user: str = "") -> list[Account]:
        """Let the limits that are used up rest until the month ends; returns which."""
        lifted = [account for account in self.accounts(key, user) if account.is_used_up]
        for account in lifted:
            await self._note(account.scope, LIFTED)
        self._on_lift()
        return lifted

    def _account(self, kind: AccountKind, scope: str, limit: float) -> Account:
        return Account(scope, self._bills[scope], limit, (scope, LIFTED) in self._notes, kind)

    def _month_now(self) -> str:
        return _month_of(int(self._clock() // _QUARTER), self._zone())

    def _turn_the_page(self) -> None:
        month = self._month_now()
        if month != self._month:
            self._month = month
            self._bills.clear()
            self._notes.clear()

    async def _note(self, scope: str, text: str) -> None:
        month = self._month
        self._notes.add((scope, text))
        await self._store.write(lambda db: ledger.note(db, month, scope, text))


_QUARTER = 900
"""Seconds of a quarter of an hour, at which a day begins in every time zone."""


@lru_cache(maxsize=2)
def _month_of(quarter: int, zone: tzinfo) -> str:
    """Return the month as "2026-11": asked for several times a message, and seldom a new one."""
    return f"{datetime.fromtimestamp(quarter * _QUARTER, zone):%Y-%m}"


def _scope(person: str) -> str:
    """Return the scope of a person, where a conversation's id may stand too."""
    return f"user {person}"


class ThriftySummarizer(Struct, frozen=True):
    """Asks the model for summaries as long as money may be spent; an empty one otherwise, so that a
    plain extract serves."""

    summarizer: Summarizer
    is_enough: Callable[[ConversationKey], bool]

    async def summarize(self, request: SummaryRequest) -> SummaryResult:
        if self.is_enough(request.key):
            return SummaryResult("", "")
        return await self.summarizer.summarize(request)


class BudgetSpent(ModelError):
    """A turn, or a run of a job, has spent what it may. The text says so."""

    is_worth_another_model = False


class Budget(Protocol):
    """The amount that may still be spent."""

    def check(self, coming: float = 0.0) -> None:
        """Raise BudgetSpent where a request that will cost at least so much may not be sent."""


class MonthBudget(Struct, frozen=True):
    """The amount that the limits of the month leave to a turn that is under way: of a conversation,
    and of the user who speaks ("": an owner)."""

    spending: Spending
    key: ConversationKey
    user: str = ""
    is_chat: bool = True

    def check(self, coming: float = 0.0) -> None:
        """Raise BudgetSpent where a limit is used up; what is coming may go beyond it."""
        if account := self.spending.find_used_up(self.key, self.user, is_chat=self.is_chat):
            raise BudgetSpent(
                f"A spending limit ({account.setting}, {money(account.limit)} a month) was reached "
                "meanwhile, so no more was sent to the model. What was done so far is kept. An "
                f"owner can lift the limit with {_lift_command(account)}; then tell me to go on."
            )


class RunBudget(Struct, frozen=True):
    """The amount that a run of a job may cost, in US dollars, and that all runs of the job on one
    day may (0: no limit). `spent` is asked what the run has cost so far; `earlier` is what the
    others of the day have."""

    run: float
    day: float
    spent: Callable[[], float]
    earlier: float = 0.0

    def check(self, coming: float = 0.0) -> None:
        """Raise BudgetSpent where a request that will cost at least so much may not be sent."""
        spent = self.spent()
        today = spent + self.earlier
        if self.run and (spent >= self.run or spent + coming > self.run):
            raise BudgetSpent(
                f"A run of this job may cost {money(self.run)}. This one has cost {money(spent)}, "
                "so it ended here."
            )
        if self.day and (today >= self.day or today + coming > self.day):
            raise BudgetSpent(
                f"This job may cost {money(self.day)} a day. Its runs have cost {money(today)} "
                "today, so no more was sent to the model."
            )


class BudgetedModel(Struct):
    """A model that answers as long as a budget allows it: that of the month or of a job's run,
    sub-agents too. A request that would surely be too much is not sent; what the answer to one
    costs is not known before, so that a turn may end with one request more than its budget."""

    model: Model
    budget: Budget
    _read: int = 0  # tokens of the last request, and those to come are longer

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def window(self) -> int:
        return self.model.window

    @property
    def provider(self) -> str:
        return self.model.provider

    @property
    def takes_tools(self) -> bool:
        return self.model.takes_tools

    @property
    def sees(self) -> bool:
        return self.model.sees

    @property
    def is_free(self) -> bool:
        return self.model.is_free

    @property
    def is_up(self) -> bool:
        return self.model.is_up

    @property
    def caches_by_itself(self) -> bool:
        return self.model.caches_by_itself

    @property
    def counts(self) -> bool:
        return self.model.counts

    async def count(self, request: ModelRequest) -> int:
        return await self.model.count(request)

    async def ready(self) -> None:
        await self.model.ready()

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        price = None if self.is_free else input_price(self.name, self.provider)
        self.budget.check(price.cached * self._read if price else 0.0)
        reply = await self.model.reply(request, on_delta)
        self._read = reply.usage.prompt if reply.usage else 0
        return reply

    async def close(self) -> None:
        """It is another's to close."""


class ThriftyDistiller(Struct, frozen=True):
    """Asks the model to distil the memory as long as money may be spent."""

    distiller: Distiller
    is_enough: Callable[[DistillRequest], bool]

    def window(self, key: ConversationKey, model: str) -> int:
        return self.distiller.window(key, model)

    async def ask(self, request: DistillRequest) -> tuple[str, str]:
        if self.is_enough(request):
            raise NotAskedError(
                _(
                    "This month's spending limit is used up (/usage shows it), so no model was "
                    "asked."
                )
            )
        return await self.distiller.ask(request)
