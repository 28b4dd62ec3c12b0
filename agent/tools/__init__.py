"""The mechanism of tools: a tool is a typed function."""

from __future__ import annotations


class ToolError(Exception):
    """A tool's refusal, in a sentence that the model can act on. It is a result, not a crash."""
