"""The mechanism of tools: a tool is a typed function."""

from __future__ import annotations


class ToolError(Exception):
    """Raised if a tool refuses a call, with a sentence that the model can act on. It is a result,
    not a crash."""
