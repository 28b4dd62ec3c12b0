"""What things look like: each function renders one thing to text with ANSI styles, `width` columns
wide and ending with a newline. NO_COLOR and TERM=dumb are rich's to honour.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.segment import Segment, SegmentLines
from rich.text import Text
from rich.theme import Theme

from channels.message import Action
from channels.splitting import has_vast_table, split
from channels.terminal.controls import one_line, without_controls

_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold dim",
        "markdown.block_quote": "italic",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)
_ECHO_LINES, _ECHO_CHARACTERS = 12, 1_000
_MOST_STEPS = 6
_PAGE, _LONGEST = 8_000, 100_000
"""Characters of Markdown that are read at once, and in all."""
_TOOL_SHOWN = 2_000  # characters of a call


def markdown(source: str, width: int) -> str:
    return "\n".join(_rendered(page, width) for page in _pages(source))


def unfinished(source: str, width: int, height: int) -> str:
    """A markdown block that still grows: its end, as far as `height` lines can show it."""
    from channels.terminal.markdown import ending  # noqa: PLC0415 - as in _pages

    return markdown(ending(source, width, height), width)


def command_reply(source: str, width: int) -> str:
    """Indented: what the bot says of itself is not what the model says."""
    return "\n".join(_rendered(Padding(page, (0, 0, 0, 2)), width) for page in _pages(source))


def _pages(source: str) -> Iterator[RenderableType]:
    """A text, a piece after the other: what the parser takes long over stays short. What comes
    behind the longest is shown as its source."""
    # rich.markdown is slow to import, and the first prompt doesn't wait for it.
    from channels.terminal.markdown import Page  # noqa: PLC0415

    clean = without_controls(source)
    pieces = [clean] if len(clean) <= _PAGE else split(clean[:_LONGEST], _PAGE)
    for piece in pieces:
        yield Text(piece) if has_vast_table(piece) else Page(piece)
    if rest := clean[_LONGEST:]:
        yield Text(rest)


def next_steps(actions: Sequence[Action], width: int) -> str:
    """What can be said next; of many the first, since the reply has them all."""
    commands = [one_line(action.command) for action in actions[:_MOST_STEPS]]
    if len(actions) > _MOST_STEPS:
        commands.append("…")
    return _rendered(Padding(Text(f"Next: {' · '.join(commands)}", "dim"), (0, 0, 0, 2)), width)


def note(text: str, width: int) -> str:
    return _rendered(Text(without_controls(text).strip(), "dim"), width)


def question(text: str, width: int, *, is_waiting: bool = False) -> str:
    """What the person said, on its way from the input line; the beginning of a long text only."""
    lines = without_controls(text[:_ECHO_CHARACTERS]).split("\n")[:_ECHO_LINES]
    shown = "\n  ".join(lines)
    if len(text) > _ECHO_CHARACTERS or len(lines) < text.count("\n") + 1:
        shown += f"\n  … ({len(text):,} characters)"
    return _rendered(Text(f"› {shown}", "dim" if is_waiting else "bold cyan"), width)


def tool(name: str, arguments: str, outcome: str, width: int) -> str:
    """`⚙ read_file notes.txt … ok`, in one line at any width."""
    shown = f"⚙ {name[:_TOOL_SHOWN]} {_values(arguments)[:_TOOL_SHOWN]}"
    call = Text(one_line(shown), "dim")
    call.truncate(max(1, width - len(outcome) - 3), overflow="ellipsis")
    call.append(f" … {outcome}".rstrip(), "red" if outcome == "failed" else "dim")
    return _rendered(call, width)


def _values(arguments: str) -> str:
    """The values of a call's JSON arguments; what is not an object is shown as it came."""
    try:
        parsed = json.loads(arguments)
        return arguments if not isinstance(parsed, dict) else " ".join(map(str, parsed.values()))
    except (ValueError, RecursionError):
        return arguments


def _rendered(thing: RenderableType, width: int) -> str:
    out = StringIO()
    console = Console(file=out, width=max(1, width), force_terminal=True, theme=_THEME)
    lines = [_trimmed(line) for line in console.render_lines(thing, pad=False)]
    while lines and not lines[0]:
        lines.pop(0)
    console.print(SegmentLines(lines, new_lines=True), end="")
    return out.getvalue()


def _trimmed(line: Iterable[Segment]) -> list[Segment]:
    """Without the blanks at its end, which would wrap when the window becomes narrower."""
    segments = list(line)
    while segments and not segments[-1].text.strip():
        segments.pop()
    if segments:
        last = segments.pop()
        segments.append(Segment(last.text.rstrip(), last.style))
    return segments
