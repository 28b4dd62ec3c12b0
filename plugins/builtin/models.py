"""`/model` and `/usage`: who answers, and what it costs."""

from __future__ import annotations

import time
from dataclasses import asdict

from memory.record.ledger import Bill
from plugins.api import Ask, Command, Reply, command, hookimpl
from plugins.wording import amount, cell, money

DAY = 86_400


@command("model", "Show or change the model that answers", "[NAME]")
async def model(ask: Ask) -> Reply:
    """Without a name: the model in force. With one: the same as `/config model NAME`."""
    name = ask.text.strip()
    if name:
        ask.require_owner("change the model for all conversations")
        await ask.bot.settings.set("model", name, "")
    about = ask.bot.models.about(ask.conversation.key)
    window = f"a window of {amount(about.window)} tokens" if about.window else "an unknown window"
    tools = "with tools" if about.takes_tools else "without tools"
    after = f" If it fails: {', '.join(about.fallbacks)}." if about.fallbacks else ""
    now = "From the next turn on: " if name else ""
    return Reply(f"{now}{about.name} ({about.where}), {window}, {tools}.{after}", asdict(about))


@command("usage", "Show tokens and cost, of this chat and of all")
async def usage(ask: Ask) -> Reply:
    """Every call to a model is counted, by day and by model."""
    ledger = ask.bot.ledger
    here = ask.conversation.bill
    day, ever = await ledger.bill(time.time() - DAY), await ledger.bill(0)
    rows = "\n".join(_row(name, bill) for name, bill in _sums(here, day, ever))
    models = await ledger.by_model(0)
    by_model = "\n".join(_row(f"{cell(name)}, {purpose}", bill) for name, purpose, bill in models)
    head = "| | calls | prompt | of it cached | completion | cost |\n|---|---:|---:|---:|---:|---:|"
    text = f"{head}\n{rows}" + (f"\n{by_model}" if by_model else "")
    data = {
        "chat": asdict(here),
        "last_24_hours": asdict(day),
        "ever": asdict(ever),
        "by_model": [
            {"model": name, "purpose": purpose, **asdict(bill)} for name, purpose, bill in models
        ],
    }
    return Reply(text, data)


def _sums(here: Bill, day: Bill, ever: Bill) -> list[tuple[str, Bill]]:
    return [("this chat", here), ("all, last 24 hours", day), ("all, ever", ever)]


def _row(name: str, bill: Bill) -> str:
    cost = money(bill.cost, bill.unknown)
    return (
        f"| {name} | {bill.calls:,} | {amount(bill.prompt)} | {amount(bill.cached)} | "
        f"{amount(bill.completion)} | {cost} |"
    )


@hookimpl
def parley_commands() -> list[Command]:
    return [model, usage]
