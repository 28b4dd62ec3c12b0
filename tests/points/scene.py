"""The former place of tests/whole/requests.py; to be deleted when nothing imports it any more."""

from tests.whole.requests import (
    answering,
    calls_paid,
    content,
    daily,
    events,
    settled,
    state,
    steps,
    summaries,
    talk,
    whole,
)

__all__ = [
    "answering",
    "calls_paid",
    "content",
    "daily",
    "events",
    "settled",
    "state",
    "steps",
    "summaries",
    "talk",
    "whole",
]
