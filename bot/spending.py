"""Spending limits. The rules belong to a feature (hook `parley_spending`); without one, all calls
to models are allowed."""

from __future__ import annotations

from typing import Protocol

from agent.models.base import Model, ModelError, ModelReply, ModelRequest, ModelWrapper, OnDelta
from agent.models.catalogue import input_price
from agent.models.selection import ModelChoice
from bot.settings import Settings
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.ledger import Spent


class BudgetSpent(ModelError):
    """Raised if a turn, or a run of a job, has used up its budget. The text says so."""

    is_worth_another_model = False


class Budget(Protocol):
    """The amount that may still be spent."""

    def check(self, coming: float = 0.0) -> None:
        """Raise BudgetSpent if a request that costs at least this much may not be sent."""


class SpendingRules:
    """The spending rules of a feature; this base class limits nothing. `user` is the sender, "" for
    an owner; `is_chat` says that a request belongs to a conversation."""

    async def load(self) -> None:
        """Load the amounts spent so far."""

    def book(self, key: ConversationKey, person: str, spent: Spent) -> None:
        """Book the cost of a call."""

    def refusal(
        self,
        key: ConversationKey,
        user: str = "",
        *,
        is_chat: bool = True,
        is_free: bool | None = None,
    ) -> str:
        """Return why a message may not be sent to the model; "" if it may. `is_free`: the model
        costs nothing (None: as the conversation's model)."""
        return ""

    def is_enough(self, key: ConversationKey, user: str = "") -> bool:
        """Return whether calls that cost money are forbidden."""
        return False

    def limit(
        self, model: Model, key: ConversationKey, user: str = "", *, is_chat: bool = True
    ) -> Model:
        """Return a model for a turn that begins, which answers as long as the rules allow it."""
        return model

    def begin(self, key: ConversationKey, user: str = "") -> None:
        """Choose the model for the turn that begins."""

    def choice(self, key: ConversationKey, settings: Settings) -> ModelChoice | None:
        """Return the model that answers in this turn; None: the configured one. For given settings
        it is either always or never None."""
        return None

    def describe_choice(self, key: ConversationKey) -> str:
        """Return why another model answers than the configured one; "" if none does."""
        return ""

    def find_problem(self) -> str:
        """Return a fault of the settings, in a sentence, or ""."""
        return ""

    async def warnings(
        self, key: ConversationKey, user: str = "", conversation: Conversation | None = None
    ) -> list[str]:
        """Return the warnings to show once below an answer: of a `conversation`, or to a side
        question."""
        return []


UNLIMITED = SpendingRules()


class BudgetedModel(ModelWrapper):
    """A model that answers as long as a budget allows it: that of the month or of a job's run,
    including sub-agents. A request that would surely exceed it is not sent. The cost of an answer
    is unknown before it, so a turn may end one request over its budget."""

    def __init__(self, inner: Model, budget: Budget) -> None:
        self.inner, self.budget = inner, budget
        self._read = 0  # tokens of the last request; the next ones are longer

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        model = self.inner
        price = None if model.is_free else input_price(model.name, model.provider)
        self.budget.check(price.cached * self._read if price else 0.0)
        reply = await model.reply(request, on_delta)
        self._read = reply.usage.prompt if reply.usage else 0
        return reply

    async def close(self) -> None:
        """Do nothing: the wrapped model is closed elsewhere."""
