"""A model for background work, controlled by a test."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.models.base import Model
from bot.spending import SpendingRules
from memory.keys import ConversationKey


class Spent(SpendingRules):
    """Spending rules with an exhausted budget."""

    def is_enough(self, key: ConversationKey, user: str = "") -> bool:
        del key, user
        return True


@dataclass
class OneModel:
    """The same model in all conversations; it also records errors."""

    model: Model
    window: int = 8_000
    answers: bool = False
    spending: SpendingRules = field(default_factory=SpendingRules)
    refused: list[str] = field(default_factory=list)
    failed: int = 0

    def summary_model(self, key: ConversationKey) -> Model:
        del key
        return self.model

    def summary_window(self, key: ConversationKey) -> int:
        del key
        return self.window

    def summarizes_itself(self, key: ConversationKey) -> bool:
        del key
        return self.answers

    def model_refused(self, sentence: str) -> None:
        self.refused.append(sentence)

    def summary_failed(self) -> None:
        self.failed += 1
