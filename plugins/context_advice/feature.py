"""The hook of advice on the settings."""

from __future__ import annotations

from plugins.api import Verb, hookimpl
from plugins.context_advice.commands import show

_SUMMARY = "settings worth changing, judging by this conversation's figures"


@hookimpl
def parley_verbs() -> list[Verb]:
    return [Verb("context", "advise", _SUMMARY, show, after="json")]
