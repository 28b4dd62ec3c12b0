"""The keys of the terminal, and the special texts that can be typed there: for `/help keys` and its
page."""

from __future__ import annotations

from collections.abc import Sequence

from channels.language import _

KEYS: Sequence[tuple[str, str]] = (
    ("Enter", "send; in a form, save"),
    ("Esc Enter", "a new line"),
    ("Tab", "complete: commands, settings and their values, models, turns, days, files"),
    ("↑ in an empty line", "change your last question; ↑ once more: what you typed before it"),
    ("↑ ↓", "move in a text of many lines, or through what you have typed before"),
    ("Ctrl-R", "search what you have typed before"),
    ("Ctrl-X Ctrl-E", "write in your editor ($VISUAL or $EDITOR)"),
    ("Ctrl-V", "put the picture that is in the clipboard in (with wl-paste, xclip or pngpaste)"),
    ("Ctrl-O", "show what the model thinks before it answers, or hide it"),
    ("Esc", "close a list"),
    ("Ctrl-C", "stop the answer; else clear the line, cancel a form, or close a list"),
    ("Ctrl-D", "quit, where the line is empty"),
)
TYPED: Sequence[tuple[str, str]] = (
    ("/resume [WORDS]", "the conversations of this terminal: choose one, or begin another"),
    ("/copy [N]", "copy the last answer, or the Nth last; /copy code [N]: a code block"),
    ("@FILE", 'put a file in: @notes.txt, @"two words.pdf"'),
    ("a picture dropped here", "its path becomes an @FILE"),
    ("!COMMAND", "run a command in the sandbox of the tool `shell`; the model sees its output"),
    ("//TEXT", "send a text that begins with a slash"),
    ("/help keys", "this list"),
    ("/quit", "quit"),
)
COMMANDS: Sequence[tuple[str, str]] = (
    ("resume", "Open another conversation of this terminal, or begin one"),
    ("copy", "Copy an answer or its code to the clipboard"),
    ("quit", "Quit"),
)
"""Commands that the terminal carries out itself."""


HINT = "In the terminal, too: /resume for other conversations, /help keys, @file."
"""The hint below the list of all commands."""


def table() -> str:
    """Return both lists, as Markdown."""
    does = _("description")
    keys = "\n".join(f"| {_(key)} | {_(what)} |" for key, what in KEYS)
    typed = "\n".join(f"| `{_(text)}` | {_(what)} |" for text, what in TYPED)
    return (
        f"| {_('key')} | {does} |\n|---|---|\n{keys}\n\n"
        f"| {_('typed')} | {does} |\n|---|---|\n{typed}"
    )
