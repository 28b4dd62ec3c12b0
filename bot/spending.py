"""Limits of what may be spent. The rules are a feature's (hook `parley_spending`); without one,
every model may be asked."""

from __future__ import annotations

from typing import Protocol

from agent.models.base import Model, ModelError, ModelInFront, ModelReply, ModelRequest, OnDelta
from agent.models.catalogue import input_price
from agent.models.selection import ModelChoice
from bot.settings import Settings
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.ledger import Spent


class BudgetSpent(ModelError):
    """A turn, or a run of a job, has spent what it may. The text says so."""

    is_worth_another_model = False


class Budget(Protocol):
    """The amount that may still be spent."""

    def check(self, coming: float = 0.0) -> None:
        """Raise BudgetSpent where a request that will cost at least so much may not be sent."""


class SpendingRules:
    """The rules of a feature for the calls to models; here, nothing is limited. `user` is who
    speaks, "" for an owner; `is_chat` says that a request belongs to a conversation."""

    async def load(self) -> None:
        """Read what was spent so far."""

    def book(self, key: ConversationKey, person: str, spent: Spent) -> None:
        """Hear of a call that was paid."""

    def refusal(
        self,
        key: ConversationKey,
        user: str = "",
        *,
        is_chat: bool = True,
        is_free: bool | None = None,
    ) -> str:
        """Return why a message may not be sent to the model; "": it may. `is_free`: that model
        costs nothing (None: as that of the conversation does)."""
        return ""

    def is_enough(self, key: ConversationKey, user: str = "") -> bool:
        """Return whether no call may be made that costs something."""
        return False

    def limit(
        self, model: Model, key: ConversationKey, user: str = "", *, is_chat: bool = True
    ) -> Model:
        """Return a model that answers in a turn that begins as long as the rules allow it."""
        return model

    def begin(self, key: ConversationKey, user: str = "") -> None:
        """Decide which model answers in the turn that begins."""

    def choice(self, key: ConversationKey, settings: Settings) -> ModelChoice | None:
        """Return the model that answers in this turn; None: the one that is set. It is None for
        certain settings either always or never."""
        return None

    def describe_choice(self, key: ConversationKey) -> str:
        """Return why another model answers than the one that is set; "" where none does."""
        return ""

    def find_problem(self) -> str:
        """Return a fault of the settings, in a sentence; "" where there is none."""
        return ""

    async def warnings(
        self, key: ConversationKey, user: str = "", conversation: Conversation | None = None
    ) -> list[str]:
        """Return the lines to say now, once, below an answer: of a `conversation`, or to a question
        beside it."""
        return []


UNLIMITED = SpendingRules()


class BudgetedModel(ModelInFront):
    """A model that answers as long as a budget allows it: that of the month or of a job's run,
    sub-agents too. A request that would surely be too much is not sent; what the answer to one
    costs is not known before, so that a turn may end with one request more than its budget."""

    def __init__(self, inner: Model, budget: Budget) -> None:
        self.inner, self.budget = inner, budget
        self._read = 0  # tokens of the last request, and those to come are longer

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        model = self.inner
        price = None if model.is_free else input_price(model.name, model.provider)
        self.budget.check(price.cached * self._read if price else 0.0)
        reply = await model.reply(request, on_delta)
        self._read = reply.usage.prompt if reply.usage else 0
        return reply

    async def close(self) -> None:
        """Do nothing: it is another's to close."""
