"""Conversations in three languages, with good and bad summaries of each, which the audit of
summaries must tell apart (`audit_corpus.json`). Written before the audit was, and not changed to
suit it.

In a conversation the lines are said by turns: a person's, then the assistant's.
"""

from __future__ import annotations

import json
from pathlib import Path

_DATA = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))

CHATS: dict[str, list[str]] = _DATA["chats"]
GOOD: list[tuple[str, str]] = [(one["of"], one["text"]) for one in _DATA["good"]]
"""The conversation, and the summary."""
BAD: list[tuple[str, str, str]] = [(one["of"], one["kind"], one["text"]) for one in _DATA["bad"]]
"""The same, with what is wrong between them."""
