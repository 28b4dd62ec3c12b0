"""The rendering: each function renders one item to text with ANSI styles, `width` columns wide and
ending with a newline. NO_COLOR and TERM=dumb are handled by rich. Text of models, tools and files
may have any content, but must not control the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.segment import Segment, SegmentLines
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from channels.base import ContextUsage
from channels.language import _, figure
from channels.message import Action
from channels.splitting import has_vast_table, split
from channels.terminal import figures, theme
from channels.terminal.code import fit_lines, free, hold, split_fences

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, modes
    r"|\x1b[\]PX^_][^\n\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, …: titles, clipboard
    r"|\x1b[ -/]*[0-~]"  # two-character sequences
)
# C0 without tab and newline, DEL and C1; characters that reorder what is read; lone surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_NO_CHARACTERS = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")  # for programs alone, as in spaces.py


def without_controls(text: str) -> str:
    """Return `text` without escape sequences, control characters and noncharacters."""
    return _NO_CHARACTERS.sub("", _CONTROLS.sub("", _SEQUENCES.sub("", text)))


def one_line(text: str) -> str:
    return " ".join(without_controls(text).split())


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
_PLAIN, _DIM = Style.null(), Style(dim=True)
_ECHO_LINES, _ECHO_CHARACTERS = 12, 1_000
_MOST_STEPS = 6
_PAGE, _LONGEST = 8_000, 100_000
"""The number of characters of Markdown that are parsed at once, and in all."""
_TOOL_SHOWN = 2_000  # characters of a call


def markdown(source: str, width: int, *, is_dim: bool = False, is_folded: bool = False) -> str:
    """Render an answer. If `is_folded`, code is wrapped like all other text, for callers whose
    output is not wrapped."""
    style = _DIM if is_dim else _PLAIN
    pages = (_render(page, width, style, is_folded=is_folded) for page in _pages(source))
    return "\n".join(filter(None, pages))


def render_tail(source: str, width: int, height: int) -> str:
    """Render a growing markdown block: its end, as far as `height` lines can show it."""
    from channels.terminal.markdown import clip_to_end  # noqa: PLC0415 - as in _pages

    return markdown(clip_to_end(source, width, height), width, is_folded=True)


def command_reply(source: str, width: int) -> str:
    """Render the reply of a command, indented to distinguish it from the model's text."""
    return "\n".join(_render(Padding(page, (0, 0, 0, 2)), width) for page in _pages(source))


def context_reply(source: str, figure: figures.ContextFigure, width: int) -> str:
    """Render a reply about a context, with a figure below its first line."""
    head, rest = figures.around_bar(source)
    indent = (0, 0, 0, 2)
    drawing = figures.Map(figure) if figure.blocks else figures.PartBar(figure)
    shown = [
        *(_render(Padding(page, indent), width) for page in _pages(head)),
        _render(Padding(drawing, indent), width),
        *(_render(Padding(page, indent), width) for page in _pages(rest, has_parts=True)),
    ]
    return "\n".join(filter(None, shown))


def _pages(source: str, has_parts: bool = False) -> Iterator[RenderableType]:
    """Yield a text in pieces: parts that are slow to parse stay short, but code stays whole. Text
    beyond the maximum is shown as its source. If `has_parts`, those in a table get their
    colours."""
    # rich.markdown is slow to import, and not needed for the first prompt.
    from channels.terminal.markdown import Page  # noqa: PLC0415

    clean = without_controls(source)
    if len(clean) <= _PAGE:
        yield Text(hold(clean)) if has_vast_table(clean) else Page(clean, has_parts)
        return
    room = _LONGEST
    for piece, is_code in split_fences(clean):
        if is_code:
            yield Page(piece)
            continue
        words, rest, room = piece[:room], piece[room:], max(0, room - len(piece))
        for part in split(words, _PAGE):
            yield Text(hold(part)) if has_vast_table(part) else Page(part, has_parts)
        if rest:
            yield Text(hold(rest))


def next_steps(actions: Sequence[Action], width: int, text: str = "") -> str:
    """Render the possible next commands, without those in the reply's text; at most `_MOST_STEPS`.
    "": there are none."""
    actions = [action for action in actions if f"`{action.command}`" not in text]
    if not actions:
        return ""
    commands = [_label_of(action) for action in actions[:_MOST_STEPS]]
    if len(actions) > _MOST_STEPS:
        commands.append("…")
    return _render(
        Padding(Text(_("Next: {commands}", commands=" · ".join(commands)), "dim"), (0, 0, 0, 2)),
        width,
    )


def _label_of(action: Action) -> str:
    """Return a command; one that answers a question with its label, since its name is a code."""
    command = one_line(action.command)
    return f"{action.label}: {command}" if action.question else command


def note(text: str, width: int) -> str:
    return _render(Text(hold(without_controls(text).strip()), "dim"), width)


def reasoning(text: str, width: int, most: int = 0) -> str:
    """Render a model's reasoning before its answer: the last `most` lines, or all."""
    lines = _render(Text(hold(without_controls(text).strip()), "dim italic"), width).splitlines(
        True
    )
    return "".join(lines[-most:])


def question(text: str, width: int, *, is_dim: bool = False) -> str:
    """Render the person's message; only the beginning of a long text."""
    lines = without_controls(text[:_ECHO_CHARACTERS]).split("\n")[:_ECHO_LINES]
    shown = "\n  ".join(lines)
    if len(text) > _ECHO_CHARACTERS or len(lines) < text.count("\n") + 1:
        shown += "\n  … " + _("({characters:,} characters)", characters=len(text))
    return _render(Text(hold(f"› {shown}"), "dim" if is_dim else "bold cyan"), width)


def tool(name: str, arguments: str, outcome: str, width: int) -> str:
    """Render a call as `⚙ read_file notes.txt … ok`, in one line at any width."""
    shown = f"⚙ {name[:_TOOL_SHOWN]} {_values(arguments)[:_TOOL_SHOWN]}"
    call = Text(one_line(shown), "dim")
    text = _(outcome) if outcome else ""
    call.truncate(max(1, width - cell_len(text) - 3), overflow="ellipsis")
    gap = " " if call.plain.endswith("…") else " … "  # truncated: the sign is there already
    call.append(f"{gap}{text}".rstrip(), "red" if outcome == "failed" else "dim")
    return _render(call, width)


def _values(arguments: str) -> str:
    """Return the values of a call's JSON arguments; other text is returned unchanged."""
    try:
        parsed = json.loads(arguments)
        return arguments if not isinstance(parsed, dict) else " ".join(map(str, parsed.values()))
    except (ValueError, RecursionError):
        return arguments


def _render(
    thing: RenderableType, width: int, style: Style = _PLAIN, *, is_folded: bool = False
) -> str:
    out = StringIO()
    console = Console(file=out, width=max(1, width), force_terminal=True, theme=_THEME)
    drawn = console.render_lines(thing, pad=False, style=style)
    lines = [
        [_suited(_without_controls(segment)) for segment in line]
        for one in drawn
        for line in fit_lines(_trim(one), console, style, is_folded=is_folded)
    ]
    while lines and not lines[0]:
        lines.pop(0)
    console.print(SegmentLines(lines, new_lines=True), end="", crop=False)
    return out.getvalue()


def _suited(segment: Segment) -> Segment:
    """Let the colour of what is drawn suit the background."""
    style = segment.style
    fixed = theme.fixed_colour(style.color.name) if style and style.color else None
    return segment._replace(style=style + Style(color=fixed)) if style and fixed else segment


def _without_controls(segment: Segment) -> Segment:
    """Remove control characters again: Markdown may also write them as numbers (&#8238;)."""
    clean = free(_CONTROLS.sub("", segment.text))
    return segment if clean == segment.text else segment._replace(text=clean)


def _trim(line: Iterable[Segment]) -> list[Segment]:
    """Remove the spaces at the end of a line, which would wrap if the window became narrower.
    Spaces with a colour of their own are visible and stay."""
    segments = list(line)
    while segments and not (segments[-1].text.strip() or _is_seen(segments[-1])):
        segments.pop()
    if segments and not _is_seen(segments[-1]):
        last = segments.pop()
        segments.append(Segment(last.text.rstrip(), last.style))
    return segments


def _is_seen(segment: Segment) -> bool:
    style = segment.style
    return bool(segment.control or (style and (style.reverse or style.bgcolor)))


_CELLS = 8
_WARM, _HOT = 0.75, 0.9


def bar_text(usage: ContextUsage, width: int) -> str:
    """Return `gpt-5-mini · 12.4k/50k ▓▓░░░░░░ · 7/20 turns · $0.02`, shorter if it exceeds `width`
    columns. The limit that is reached first comes first, with the meter. A cost is left out if it
    is unknown, and before the first turn.

    `~` marks a number of tokens that is our estimate and not the provider's count.
    """
    tokens = ("" if usage.is_measured else "~") + _of(usage.tokens, usage.max_tokens)
    meter = _meter(usage.share)
    model, turns, cost = one_line(usage.model), _of(usage.turns, usage.max_turns), _cost(usage)
    text = _("{n} turn", n=turns) if turns == "1" else _("{n} turns", n=turns)
    by_turns = usage.nearest == "turns"
    first, second = (text, tokens) if by_turns else (tokens, text)
    forms = (
        (model, f"{first} {meter}", second, cost),
        (_shorten(model), f"{first} {meter}", second, cost),
        (f"{first} {meter}", second, cost),
        (first, second, cost),
        (first, second),
        (first,),
    )
    lines = (" · ".join(filter(None, form)) for form in forms)
    return next((line for line in lines if cell_len(line) <= width), "")


_SHORT_NAME = 24  # columns


def _shorten(name: str) -> str:
    """Return a model's name without the text behind a comma, and without its maker."""
    name = name.partition(",")[0].rpartition("/")[2]
    text = Text(name)
    text.truncate(_SHORT_NAME, overflow="ellipsis")
    return text.plain


def bar_style(usage: ContextUsage) -> str:
    """Return the style class of the line: yellow from 75% of the nearest limit on, red from
    90%."""
    share = usage.share
    return "class:bar.hot" if share >= _HOT else "class:bar.warm" if share >= _WARM else "class:bar"


def _meter(full: float) -> str:
    """Draw the share in use; a share above 0 has at least one cell."""
    cells = min(_CELLS, max(round(full * _CELLS), int(full > 0)))
    return "▓" * cells + "░" * (_CELLS - cells)


def _of(part: int, whole: int) -> str:
    return f"{_short(part)}/{_short(whole)}" if whole else _short(part)


def _short(number: int) -> str:
    """Return a short number: 9 -> "9", 12400 -> "12.4k", 50000 -> "50k", 1000000 -> "1M"."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= 0.9995 * size:
            scaled = number / size
            short = f"{scaled:.{0 if scaled >= 100 else 1}f}".removesuffix(".0")
            return figure(short) + unit
    return str(number)


def _cost(usage: ContextUsage) -> str:
    """Return the cost; "" before the first turn, since no cost yet doesn't mean that the model is
    free."""
    if usage.cost is None:
        return ""
    if usage.cost == 0:
        return "$0" if usage.turns else ""
    return figure(f"${usage.cost:.2f}" if usage.cost >= 0.005 else "<$0.01")


_SHORT = 2_000
"""The number of characters up to which a block is parsed again with each new line."""
_GROWTH = 1.2
"""The factor by which a longer text must have grown before it is parsed again."""


class StreamedAnswer:
    """The text of one step. Complete markdown blocks are taken from it in order, once; the rest is
    its tail."""

    def __init__(self) -> None:
        self._taken = ""
        self._lines = ""  # complete lines, without controls
        self._pieces: list[str] = []  # of the growing line, as received
        self._looked_at = 0  # the length of the lines when they had no complete block
        self._has_new_line = False

    def add(self, delta: str) -> None:
        if "\n" not in delta:
            self._pieces.append(delta)
            return
        *lines, rest = (self._line + delta).split("\n")
        self._pieces = [rest]
        self._lines += "".join(without_controls(line) + "\n" for line in lines)
        self._has_new_line = True

    @property
    def _line(self) -> str:
        """The growing line: it may end within a sequence."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    @property
    def tail(self) -> str:
        return self._lines + without_controls(self._line)

    @property
    def is_begun(self) -> bool:
        """Return whether a part of it was taken, and so can't be withdrawn."""
        return bool(self._taken.strip())

    def take(self) -> str:
        """Return the blocks completed since the last call; "" if there are none."""
        if not self._has_new_line or len(self._lines) < _GROWTH * self._looked_at:
            return ""
        # rich.markdown is slow to import, and not needed for the first prompt.
        from channels.terminal.markdown import measure_finished  # noqa: PLC0415

        self._has_new_line = False
        end = measure_finished(self._lines)
        block, self._lines = self._lines[:end], self._lines[end:]
        self._looked_at = 0 if end or len(self._lines) < _SHORT else len(self._lines)
        self._taken += block
        return block

    def take_all(self) -> str:
        rest, self._lines, self._pieces, self._looked_at = self.tail, "", [], 0
        self._taken += rest
        return rest

    def rest_of(self, final: str) -> str | None:
        """Return the part of the final text that was not taken yet; None if it doesn't begin with
        the taken text."""
        text, taken = without_controls(final).strip(), self._taken.strip()
        return text.removeprefix(taken) if text.startswith(taken) else None
