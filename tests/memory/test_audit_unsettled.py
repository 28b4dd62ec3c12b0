"""A summary may not tell a rejected option as chosen, an open matter as decided, or a value beside
the word of another one."""

from __future__ import annotations

import pytest

from memory.audit.judge import Candidate, audit
from memory.audit.source import AuditSource
from tests.memory.audit_corpus import SIXTH
from tests.memory.audit_turns import turns_of

_LEAST_REJECTED = 32
"""Of 40 summaries with one fault; the rules were tuned with them."""


def _accepts(lines: list[str], text: str) -> bool:
    turns = turns_of(lines)
    size = sum(turn.tokens for turn in turns)
    source = AuditSource(lines[::2], lines[1::2], size, turns=turns)
    return audit(Candidate(text, 1 + len(text.encode()) // 4), source).accepts()


@pytest.mark.parametrize(("chat", "text"), SIXTH.good)
def test_a_good_summary_is_accepted(chat: str, text: str) -> None:
    assert _accepts(SIXTH.chats[chat], text)


def test_most_summaries_with_one_fault_are_rejected() -> None:
    taken = [kind for chat, kind, text in SIXTH.bad if _accepts(SIXTH.chats[chat], text)]
    assert len(SIXTH.bad) - len(taken) >= _LEAST_REJECTED, taken
