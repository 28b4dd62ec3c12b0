"""The cheaper model that answers when a budget is nearly spent, until the month ends, and the
notice about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from msgspec.structs import replace

from agent.models.base import Model
from agent.models.selection import ModelChoice
from bot.app import Kernel
from bot.choices import choice_of, price
from bot.runtime import RuntimeConfig
from bot.settings import Settings
from bot.settings.schema import NO_AGENT
from channels.language import _, explain
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.plain_text import plain_number
from plugins.api import hookimpl
from plugins.spending.accounts import Account, MonthAccounts, describe_spent
from plugins.spending.settings import SpendingSettings
from plugins.wording import literal, money, usage_of

HERE = "--here"
_MOST_KNOWN = 1_000  # conversations


def find_nearly_spent(accounts: Sequence[Account], percent: int) -> Account | None:
    """Return the first account of which this percentage is spent; None if there is none."""
    near = (a for a in accounts if a.is_in_force and a.bill.cost * 100 >= percent * a.limit)
    return next(near, None)


class ConfiguredRules:
    """The rules for the accounts, from the settings."""

    def __init__(self, config: RuntimeConfig) -> None:
        self.config = config
        self._version, self._settings = -1, SpendingSettings()

    @property
    def settings(self) -> SpendingSettings:
        book = self.config.book
        if self._version != book.version:  # read several times per message, rarely changed
            self._version = book.version
            self._settings = book.effective().section(SpendingSettings)
        return self._settings

    @property
    def zone(self) -> tzinfo:
        return self.config.book.effective().zone

    def is_free(self, key: ConversationKey) -> bool:
        return self.config.at(key).model.is_free


class MonthSpending(MonthAccounts):
    """The month's accounts, and the switch of a conversation to the cheaper model,
    `spend_soft_model` (`bot.spending.SpendingRules`). The model is chosen when a turn begins, and
    stays the same for the whole turn.

    The cheaper model is used if the chat's budget, the total budget, or the speaker's budget is
    nearly spent and the configured model costs more, unless a person chose a model for this
    conversation.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel.store, ConfiguredRules(kernel.config), kernel.changes)
        self._book, self._models = kernel.config.book, kernel.config.models
        self._near: dict[str, Account | None] = {}

    @hookimpl
    def parley_spending(self) -> MonthSpending:
        return self

    def begin(self, key: ConversationKey, user: str = "") -> None:
        """Choose the model for the turn that begins; `user` is the speaker, unless an owner."""
        settings = self._book.effective(key.id).section(SpendingSettings)
        if settings.spend_soft_model:
            if len(self._near) > _MOST_KNOWN:
                self._near.clear()
            accounts = self.accounts(key, user)
            self._near[key.id] = find_nearly_spent(accounts, settings.spend_soft_limit)

    def choice(self, key: ConversationKey, settings: Settings) -> ModelChoice | None:
        """Return the model that answers in a conversation with these settings; None if no cheaper
        model is set."""
        soft_model = settings.section(SpendingSettings).spend_soft_model
        if not soft_model:
            return None
        usual = choice_of(settings)
        if key.id not in self._near:
            self.begin(key)
        if self._near[key.id] is None or self._book.describe("model", key.id).layer == HERE:
            return usual
        cheaper = self._cheaper(soft_model)
        if self._models.why_not(cheaper):
            return usual
        return cheaper if is_cheaper(self._models.of(cheaper), self._models.of(usual)) else usual

    def find_problem(self) -> str:
        """Return the reason why the cheaper model could not answer, in a sentence; "" if it
        could."""
        name = self._rules.settings.spend_soft_model
        why = self._models.why_not(self._cheaper(name)) if name else ""
        return (
            _("`spend_soft_model` could not take over: {error}", error=explain(why)) if why else ""
        )

    def _cheaper(self, name: str) -> ModelChoice:
        """Return the cheaper model, at the provider of the default model."""
        base = replace(choice_of(self._book.with_agent(NO_AGENT)), fallbacks=(name,))
        return self._models.chain(base)[-1]

    async def warnings(
        self, key: ConversationKey, user: str = "", conversation: Conversation | None = None
    ) -> list[str]:
        """Return the lines that are due now, each once: about the first answer of the cheaper
        model, and about a limit that is near."""
        sentences = await self._notify_chat(conversation) if conversation else []
        return sentences + await super().warnings(key, user)

    async def _notify_chat(self, conversation: Conversation) -> list[str]:
        key = conversation.key
        account = self._near.get(key.id)
        if account is None or not self.describe_choice(key):
            return []
        is_new = await self.note_once(key.home, f"saving at {plain_number(account.limit)}")
        tokens = usage_of(conversation.context).tokens
        return [f"({self.describe_choice(key, tokens)})"] if is_new else []

    def describe_choice(self, key: ConversationKey, tokens: int = 0) -> str:
        """Return the sentence about the cheaper model in this conversation; "" if the usual one
        answers. `tokens` is the size of the conversation."""
        settings = self._book.effective(key.id)
        usual, now = choice_of(settings), self.choice(key, settings)
        account = self._near.get(key.id)
        if now is None or usual == now or account is None:
            return ""
        cheaper, dear = self._models.of(now), self._models.of(usual)
        return _(
            "Spending: {so_far}. So {cheaper} answers here instead of {usual}, until the "
            "month ends or there is money again{price}. `/model NAME --here` keeps a model "
            "of your own.",
            so_far=describe_spent(account),
            cheaper=literal(cheaper.name),
            usual=literal(dear.name),
            price=_describe_price(cheaper, dear, tokens),
        )


def is_cheaper(one: Model, other: Model) -> bool:
    """Return whether a model costs less than another, as far as both prices are known."""
    if one.is_free or other.is_free:
        return not other.is_free
    costs, others = price(one.name, one.provider), price(other.name, other.provider)
    return costs is None or others is None or sum(costs) < sum(others)


def _describe_price(cheaper: Model, dear: Model, tokens: int) -> str:
    """Return the price difference, and the cost of filling the other model's cache with this
    conversation."""
    costs = (0.0, 0.0) if cheaper.is_free else price(cheaper.name, cheaper.provider)
    others = price(dear.name, dear.provider)
    if costs is None or others is None:
        return ""
    text = _(
        ". A million tokens cost {read} to read and {written} to write instead of {dear_read} and "
        "{dear_written}",
        read=money(costs[0]),
        written=money(costs[1]),
        dear_read=money(others[0]),
        dear_written=money(others[1]),
    )
    once = tokens * costs[0] / 1e6
    if not once:
        return text
    return text + _("; reading this conversation again costs {once} once", once=money(once))
