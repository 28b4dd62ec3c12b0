"""Tests of the cost: shown by day, chat, model and purpose; with warnings, and a stop at a
limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from bot.received import Signal
from memory.keys import ConversationKey
from memory.ledger import Bill, Spent
from memory.record import conversations
from memory.record.database import Database
from memory.record.store import Store
from plugins.spending import record as ledger
from plugins.spending.accounts import Account, MonthAccounts, find_reached_share, format_warning
from plugins.spending.saving import MonthSpending
from plugins.spending.settings import SpendingSettings
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.testbot import TestBot, run_bot

pytestmark = pytest.mark.databases

DAY = datetime(2026, 11, 20, tzinfo=UTC)
KEY = ConversationKey("pipe/main", "pipe-main")


def echo(request: Received) -> Answer:
    return Say("Yes.")


async def spent(bot: TestBot, chat: str = "main") -> float:
    """Return the cost of a chat this month, as shown by /usage."""
    data = (await bot.says("/usage", chat=chat)).data
    assert data is not None
    cost: float = data["limits"]["spend_limit_chat"]["bill"]["cost"]
    return cost


async def limit(bot: TestBot, setting: str, turns: float) -> None:
    """Set a limit to that many times the cost of the first turn."""
    await bot.says(f"/config {setting} {await spent(bot) * turns:.9f}")


async def test_usage_shows_days_chats_models_and_purposes(tmp_path: Path) -> None:
    settings = {"agent_max_context_turns": 2, "timezone": "UTC"}
    async with run_bot(tmp_path, echo, settings) as bot:
        for chat in ("main", "main", "main", "other"):
            await bot.says("Hi", chat=chat)
        await bot.app.conversations.flush()
        usage = await bot.says("/usage")
        now = datetime.now(UTC)
    assert usage.data is not None
    assert set(usage.data["this month by chat"]) == {"pipe/main", "pipe/other"}
    assert set(usage.data["this month by model"]) == {"gpt-4o-mini, answer", "gpt-4o-mini, summary"}
    assert len(usage.data["by day"]) == 1, "a day without calls is left out"
    today = usage.data["by day"][f"{now:%a} {now:%Y-%m-%d}"]
    assert today == pytest.approx(usage.data["all chats"]["ever"])  # the sum in another order
    assert today["calls"] == sum(b["calls"] for b in usage.data["this month by model"].values())
    assert today["cost"] > 0
    assert "no budget is set (`/config spend_limit_chat 5`" in usage.text
    assert "| gpt-4o-mini, summary | " in usage.text


async def test_usage_has_the_days_of_a_month_with_their_chats_as_data(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"timezone": "UTC"}) as bot:
        for chat in ("main", "main", "other"):
            await bot.says("Hi", chat=chat)
        await bot.says("/fork t1")
        await bot.says("Hi")
        price = Spent("request", "gpt-4o-mini", 10, 0, 10, 0.5)
        await bot.app.store.write(lambda db: ledger.insert(db, None, None, price))
        usage = (await bot.says("/usage")).data or {}
        (today,) = usage["days"]
        assert today["day"] == f"{datetime.now(UTC):%Y-%m-%d}"
        assert [one["chat"] for one in today["chats"]] == ["", "pipe/main", "pipe/other"]
        assert today["calls"] == usage["all chats"]["ever"]["calls"] == 5
        assert sum(one["cost"] for one in today["chats"]) == pytest.approx(today["cost"])

        def move(db: Database) -> None:
            for row, days in ((1, 3), (2, 29), (3, 31)):
                db.execute_sql("UPDATE usage SET at = at - ? WHERE id = ?", (days * 86_400, row))

        await bot.app.store.write(move)
        days = ((await bot.says("/usage")).data or {})["days"]
        ages = [(datetime.now(UTC).date() - date.fromisoformat(one["day"])).days for one in days]
        assert ages == [0, 3, 29]
        assert [one["calls"] for one in days] == [2, 1, 1]


async def test_an_unknown_price_is_said_to_be_unknown(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"model": "nobody-knows-me"}) as bot:
        await bot.says("Hi")
        usage = (await bot.says("/usage")).text
        assert "| this conversation, total | 1 |" in usage
        assert "| unknown |" in usage
        assert "unknown (1 request of unknown price)" in usage
        await bot.says("/config spend_limit_chat 0.000001")
        assert (await bot.says("Hi")).text.startswith("Yes."), "it counts as nothing"
        assert "2 requests of unknown price" in (await bot.says("/usage")).text


async def test_that_a_limit_does_not_hold_for_an_unknown_price_is_said_once(tmp_path: Path) -> None:
    said = (
        "(Some calls of this month have no known price, so they don't count towards "
        "`spend_limit_total`. /usage shows them.)"
    )
    async with run_bot(tmp_path, echo, {"model": "of-no-price", "spend_limit_total": 5}) as bot:
        assert (await bot.says("Hi")).text == f"Yes.\n\n{said}"
        assert (await bot.says("Hi")).text == "Yes."
    async with run_bot(tmp_path, echo, {"model": "of-no-price"}) as bot:
        assert (await bot.says("Hi", chat="other")).text == "Yes.", "there is no limit"


async def test_a_limit_is_warned_of_at_70_and_90_percent_once_and_stops_at_100(
    tmp_path: Path,
) -> None:
    # A model whose cached tokens cost the same as others, so that each turn costs the same.
    async with run_bot(tmp_path, echo, {"model": "gpt-4"}) as bot:
        assert (await bot.says("One")).text == "Yes."
        await limit(bot, "spend_limit_chat", 4.2)
        assert (await bot.says("Two")).text == "Yes."
        assert "`spend_limit_chat` sets the limit" in (await bot.says("Three")).text
        assert "At 100% I stop" in (await bot.says("Four")).text
        assert "(Spending" not in str(bot.sent_to_model()), "the model is not told"
        assert (await bot.says("Five")).text == "Yes.", "each share is told of once"
        requests = len(bot.server.requests)
        stopped = await bot.says("Six")
        assert stopped.text.startswith(
            "Your message was not sent to the model: this conversation has"
        )
        assert "/usage lift" in stopped.text
        assert len(bot.server.requests) == requests
        assert "5 turns" in (await bot.says("/context")).text
        assert (await bot.says("One", chat="other")).text.startswith("Yes."), "another chat may"
    async with run_bot(tmp_path, echo) as bot:
        assert "was not sent" in (await bot.says("Seven")).text, "a restart forgets nothing"


async def test_a_turn_under_way_ends_where_a_limit_is_reached(tmp_path: Path) -> None:
    again = Say("Looking.", calls=(Call("current_time", "{}"),))
    script = [Say("Yes."), *[again] * 9]
    settings = {"model": "gpt-4"}  # its cached tokens cost the same
    async with run_bot(tmp_path, script, settings) as bot:
        await bot.says("One")
        await limit(bot, "spend_limit_chat", 2.5)
        said = await bot.says("Look around")
        assert said.text.startswith("(A spending limit (spend_limit_chat, $")
        assert "lift the limit with /usage lift" in said.text
        assert said.problem == "spent"
        assert len(bot.server.requests) == 3, "one request may go beyond it"
        bot.server.answers.clear()


async def test_a_turn_under_way_heeds_a_limit_that_is_set_meanwhile(tmp_path: Path) -> None:
    gate = asyncio.Event()
    again = Say(calls=(Call("current_time", "{}"),), gate=gate)
    settings = {"model": "gpt-4"}
    async with run_bot(tmp_path, [Say("Yes."), again, Say("More.")], settings) as bot:
        await bot.says("One")
        await bot.writes("Look", id="look")
        await limit(bot, "spend_limit_total", 0.5)
        gate.set()
        assert "spend_limit_total" in (await bot.reply_to("look")).reply.text
        assert len(bot.server.requests) == 2
        bot.server.answers.clear()


async def test_an_owner_lifts_a_limit_until_the_month_ends_or_raises_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("One")
        assert "nothing to lift" in (await bot.says("/usage lift")).text
        await limit(bot, "spend_limit_total", 0.5)
        refused = await bot.says("Two", chat="other")
        assert "all conversations together have spent" in refused.text
        assert "/config spend_limit_total" in refused.text
        usage = await bot.says("/usage")
        assert [action.command for action in usage.actions] == ["/usage lift"]
        assert "lift" not in (await bot.says("/usage lift", user="mallory")).text.lower()
        assert "spend_limit_total" in (await bot.says("/usage lift")).text
        assert (await bot.says("Two", chat="other")).text == "Yes."
    async with run_bot(tmp_path, echo) as bot:
        assert (await bot.says("Three")).text == "Yes.", "lifted stays lifted"
        assert "lifted until the month ends" in (await bot.says("/usage")).text
        await bot.says("/config spend_limit_total 20")
        await bot.says("/config spend_limit_chat 0.000001")
        assert "spend_limit_chat" in (await bot.says("Four")).text
        await bot.says("/config spend_limit_chat 20")
        assert (await bot.says("Four")).text == "Yes."


async def test_summaries_cost_nothing_more_once_a_limit_is_reached(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        for number in range(4):
            await bot.says(f"My number is {number}.")
        await limit(bot, "spend_limit_chat", 0.5)
        await bot.says("/new")
        await bot.app.conversations.flush()
        assert len(bot.server.requests) == 4
        memory = (await bot.says("/memory")).text
    assert "- t1: My number is 0. → Yes." in memory, "a plain extract serves"


async def test_a_limit_is_an_amount_of_money(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        for value in ("-1", "abc", "1e9", "NaN", "Infinity", "true"):
            answer = (await bot.says(f"/config spend_limit_chat {value}")).text
            assert "it must be a number from 0 (no limit) to 100000" in answer
        assert (await bot.says("Hi")).text == "Yes."


async def test_a_user_is_stopped_in_all_chats_and_others_are_not(tmp_path: Path) -> None:
    settings = {"owners": ["pipe/boss"], "model": "gpt-4"}  # its cached tokens cost the same
    async with run_bot(tmp_path, echo, settings) as bot:
        await bot.says("/pair here")
        assert (await bot.says("One", user="kid")).text == "Yes."
        await limit(bot, "spend_limit_user", 2.5)
        answers = [(await bot.says("More", user="kid")).text for _ in range(8)]
        refused = answers[-1]
        assert refused.startswith("Your message was not sent to the model: you have spent")
        told = [text for text in answers if text.startswith("Yes.") and "you have spent" in text]
        assert told, "before it is reached"
        assert "/usage lift pipe/kid" in refused
        assert "/config spend_limit_user" in refused
        usage = await bot.says("/usage", user="kid")
        assert "You, this month" in usage.text
        assert "All chats" not in usage.text
        for other in ("sister", "boss", ""):
            assert (await bot.says("Hi", user=other)).text.startswith("Yes."), other
    async with run_bot(tmp_path, echo, settings) as bot:
        assert "not sent" in (await bot.says("Five", user="kid")).text, "after a restart too"
        await bot.says("/forget chat yes")
        assert "not sent" in (await bot.says("Five", user="kid")).text, "/forget pays no bill"
        assert "for this user" in (await bot.says("/usage lift pipe/kid")).text
        assert (await bot.says("Five", user="kid")).text.startswith("Yes.")


async def test_a_summary_is_booked_to_who_spoke_last(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("/pair here")
        await bot.says("One", user="kid")
        await bot.says("/new", user="kid")
        await bot.app.conversations.flush()
        bills = await bot.app.store.read(ledger.bills_by_person)
        assert bills["pipe/kid"].calls == 2
        (_, _, own) = bot.app.features.service(MonthSpending).accounts(KEY, "pipe/kid")
        assert own.bill.calls == 2


# Tests of the rules themselves, with a clock that the test sets.


def account(cost: float, limit: float, **more: object) -> Account:
    return Account("pipe/main", Bill(cost=cost), limit, **more)  # type: ignore[arg-type]


def test_shares_of_a_limit() -> None:
    for cost, share in ((0, 0), (6.99, 0), (7, 0.7), (9, 0.9), (10, 0.9)):
        assert find_reached_share(account(cost, 10)) == share
        assert account(cost, 10).is_used_up is (cost >= 10)
        assert find_reached_share(account(cost, 0)) == 0, "0: no limit"
        assert not account(cost, 0).is_used_up
        assert not account(cost, 10, is_lifted=True).is_used_up


def test_calls_of_unknown_price_are_named_in_the_warning() -> None:
    some = Account("pipe/main", Bill(calls=9, cost=7.5, unknown=2), 10)
    assert (
        "$7.50 of this month's $10.00 (not counting 2 requests of unknown price)"
        in format_warning(some)
    )


class Clock:
    """A clock that a test sets."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at.timestamp()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path / "parley.db")
    yield store
    await store.close()


class Rules:
    """Spending rules under a test's control."""

    def __init__(self, limit: float, is_free: bool) -> None:
        self.settings, self.zone = SpendingSettings(spend_limit_chat=limit), UTC
        self._is_free = is_free

    def is_free(self, key: ConversationKey) -> bool:
        return self._is_free


def spending(store: Store, clock: Clock, is_free: bool = False) -> MonthAccounts:
    return MonthAccounts(store, Rules(10, is_free), Signal(), clock)


def call(cost: float) -> Spent:
    return Spent("answer", "gpt-4o-mini", 100, 0, 10, cost)


async def test_a_new_month_begins_with_nothing_spent(store: Store) -> None:
    clock = Clock(datetime(2026, 11, 30, 23, 59, tzinfo=UTC))
    month = spending(store, clock)
    await month.load()
    month.book(KEY, "", call(12))
    assert len(await month.warnings(KEY)) == 1
    assert month.refusal(KEY)
    clock.at = datetime(2026, 12, 1, tzinfo=UTC)
    assert not month.refusal(KEY)
    month.book(KEY, "", call(7.5))
    assert "$7.50" in (await month.warnings(KEY))[0], "told of anew in the new month"


async def test_a_month_that_comes_again_has_what_was_spent_and_said_in_it(store: Store) -> None:
    row = await store.write(lambda db: conversations.find_or_create(db, KEY))
    await store.write(lambda db: ledger.insert(db, row.id, 1, call(9.5)))
    now = datetime.now(UTC).replace(day=28)
    clock = Clock(now + timedelta(days=10))  # after the end of the month
    month = spending(store, clock)
    await month.load()
    month.book(KEY, "", call(12))
    assert month.refusal(KEY)
    assert await month.lift(KEY)
    clock.at = now  # set back, to before the start of the bot
    assert len(await month.warnings(KEY)) == 1
    month.book(KEY, "", call(1))
    assert month.refusal(KEY), "9.50 and 1 of 10"
    clock.at = now + timedelta(days=10)
    assert not month.refusal(KEY), "it is lifted"
    assert month.accounts(KEY)[0].bill.cost == 12
    clock.at = now
    assert month.refusal(KEY)
    assert await month.warnings(KEY) == []


async def test_a_changed_limit_is_warned_of_anew(store: Store) -> None:
    month = spending(store, Clock(DAY))
    await month.load()
    month.book(KEY, "", call(9.5))
    assert len(await month.warnings(KEY)) == 1
    assert await month.warnings(KEY) == []
    month._rules = Rules(12, is_free=False)
    assert len(await month.warnings(KEY)) == 1


async def test_a_model_that_costs_nothing_is_not_stopped(store: Store) -> None:
    month = spending(store, Clock(DAY), is_free=True)
    await month.load()
    month.book(KEY, "", call(12))
    assert not month.refusal(KEY)


LEDGER = """
from plugins.api import hookimpl
from plugins.spending import record

@hookimpl
def parley_ledger():
    return {}
"""


async def test_there_is_one_ledger_with_all_its_functions(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "plugins"
    folder.mkdir(parents=True)
    (folder / "second.py").write_text(LEDGER.format("record"))
    (folder / "wrong.py").write_text(LEDGER.format("7"))
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hello")
        assert await spent(bot) > 0
        status = (await bot.says("/status")).text
    assert "'second' was left out: another plugin keeps the ledger already." in status
    assert (
        "'wrong' was left out: parley_ledger must return an object with a method insert" in status
    )
