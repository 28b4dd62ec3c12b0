"""The terminal: the first thing that a person sees of Parley."""

from channels.terminal.terminal import Terminal

__all__ = ["Terminal"]
