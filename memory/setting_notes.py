"""The base of the settings of all layers, and notes that stand beside them: when a change of one
takes effect; the next step is meant where nothing is said.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict

TURN: JsonDict = {"holds": "from the next turn on"}
FIXED: JsonDict = {"fixed": True, "holds": "from the next start on"}
"""Not to be changed in the chat: who may write there must not send a key to another address."""


class StrictModel(BaseModel):
    """Values that are taken as they are named and of the type that is named, and nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
