"""The problems of turns, as categories for programs."""

from __future__ import annotations

import re

from agent.models.base import (
    AccountRefused,
    ContextOverflow,
    ModelError,
    ModelRefused,
    ModelSilent,
    ModelUnreachable,
)
from bot.spending import BudgetSpent
from channels.message import Problem
from memory.context.emergency import RequestTooLong

BROKEN = (
    "Something went wrong inside the bot, so there is no answer; the log has the details "
    "(`python main.py logs`). Send your message again to try once more."
)
_FAULTS_OF_THE_REQUEST = (400, 413, 422)
_COMMAND = re.compile(r" ?[(（]`/[a-z][^`]{0,60}`[)）]")
"""A command that a sentence names for people in a chat."""


def without_commands(sentence: str) -> str:
    """Return a sentence without the commands in brackets, for places where they can't be sent."""
    return _COMMAND.sub("", sentence)


def problem_of(error: BaseException) -> Problem:
    """Return the category of an error, by which a program decides whether to retry."""
    match error:
        case BudgetSpent():
            return "spent"
        case ContextOverflow() | RequestTooLong():
            return "too_long"
        case ModelSilent():
            return "timeout"
        case ModelUnreachable():
            return "busy" if error.status == 429 else "unavailable"
        case ModelRefused() if not isinstance(error, AccountRefused):
            return "invalid" if error.status in _FAULTS_OF_THE_REQUEST else "upstream"
        case ModelError():
            return "upstream"
    return "failed"
