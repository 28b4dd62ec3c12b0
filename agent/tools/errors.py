"""What a tool may refuse with."""


class ToolError(Exception):
    """A tool's refusal, in a sentence that the model can act on. It is a result, not a crash."""
