"""Notes on settings, which all layers write beside theirs: when a change of it takes effect; the
next step is meant where nothing is said."""

from __future__ import annotations

from pydantic.config import JsonDict

TURN: JsonDict = {"holds": "from the next turn on"}
FIXED: JsonDict = {"fixed": True, "holds": "from the next start on"}
"""Not to be changed in the chat: who may write there must not send a key to another address."""
