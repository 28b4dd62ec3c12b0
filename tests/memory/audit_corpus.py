"""Conversations in three languages, with good and bad summaries of each, which the audit of
summaries must tell apart (`audit_corpus.json`). Written before the audit, and not changed to suit
it.

`audit_unseen.json` has more, by two writers who did not know the audit. Rules were derived from its
conversations. `audit_third.json` was written before the rules on superseded values, tasks and
numbers, and was read only after they had been measured with it. `audit_fourth.json` was written
after that, and was read once it had been measured. `audit_fifth.json` was written before the rules
on exchanged values; half of it was read then. `audit_sixth.json` has each summary twice, the
second time with one fault; it was written before the rules on words that tie a value or a person,
and on what was rejected or left open, and these were tuned with it.

The lines of a conversation alternate: a person's, then the assistant's.
"""

from __future__ import annotations

import json
from pathlib import Path

_HERE = Path(__file__).with_suffix(".json")


class Corpus:
    """The conversations by name; the good summaries, each with its conversation; and the bad ones,
    each with its conversation and its fault."""

    def __init__(self, path: Path) -> None:
        data = json.loads(path.read_text("utf-8"))
        self.chats: dict[str, list[str]] = data["chats"]
        self.good: list[tuple[str, str]] = [(one["of"], one["text"]) for one in data["good"]]
        self.bad: list[tuple[str, str, str]] = [
            (one["of"], one["kind"], one["text"]) for one in data["bad"]
        ]


_WRITTEN_FIRST = Corpus(_HERE)
CHATS, GOOD, BAD = _WRITTEN_FIRST.chats, _WRITTEN_FIRST.good, _WRITTEN_FIRST.bad
UNSEEN = Corpus(_HERE.with_name("audit_unseen.json"))
THIRD = Corpus(_HERE.with_name("audit_third.json"))
FOURTH = Corpus(_HERE.with_name("audit_fourth.json"))
FIFTH = Corpus(_HERE.with_name("audit_fifth.json"))
SIXTH = Corpus(_HERE.with_name("audit_sixth.json"))
