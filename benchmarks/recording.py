"""docs/session.svg: a session of the real bot in a real terminal, drawn frame by frame.

Only the model's words are scripted. Requires tmux: `python -m benchmarks.recording`.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from tests.fakes.openai_server import Answer, OpenAIServer, Received, Say

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "session.svg"
COLUMNS, ROWS = 92, 30
SECONDS = 4.0
"""Seconds for which a frame is shown."""
PATIENCE = 60.0  # seconds
SETTINGS = {"model": "gpt-5-mini", "agent_max_context_turns": 6}
TALK: Sequence[tuple[str, str]] = (
    ("We are two, and want to see Lisbon in November. Our budget is 900 EUR.", "Lovely: mild."),
    ("Which quarter?", "Alfama: old, steep, and close to everything."),
    ("A hotel under 80 EUR a night?", "Casa do Largo, 74 EUR. Nuno is your contact there."),
    ("How do we get there from the airport?", "The red line to Saldanha, then the green one."),
    ("One thing for a rainy day?", "The tile museum, in a convent by the river."),
    ("And a place for dinner?", "Zé da Mouraria; book a table, it is small."),
    ("Sum our plan up.", "Alfama, Casa do Largo for 74 EUR, the tile museum, dinner at Zé's."),
)
SUMMARY = (
    "Two people plan Lisbon in November with 900 EUR. They stay in Alfama, at Casa do Largo (74 "
    "EUR a night, contact Nuno)."
)
_CELL, _LINE, _SIZE, _MARGIN = 8.4, 19.0, 14, 18
_COLOURS = {
    "black": "#22252b",
    "red": "#e06c75",
    "green": "#98c379",
    "yellow": "#e5c07b",
    "blue": "#61afef",
    "magenta": "#c678dd",
    "cyan": "#56b6c2",
    "white": "#d6d9e0",
    "bright_black": "#7d8493",
    "bright_red": "#e88a91",
    "bright_green": "#b2d79a",
    "bright_yellow": "#ecd29c",
    "bright_blue": "#8cc5f5",
    "bright_magenta": "#d8a1e8",
    "bright_cyan": "#83cdd6",
    "bright_white": "#ffffff",
}
_RUN = re.compile(r"\S+(?: \S+)*")
"""Words with single spaces between them: browsers draw several spaces as one."""
_INK, _GROUND = "#d6d9e0", "#1c1f24"


class Recorder:
    """A terminal in tmux; its screen is text with ANSI styles."""

    def __init__(self, command: str, rows: int = ROWS) -> None:
        self._socket = f"parley-recording-{time.monotonic_ns()}"
        size = ("-x", str(COLUMNS), "-y", str(rows))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, command)
        self._tmux("set", "-g", "status", "off")

    def _tmux(self, *arguments: str) -> str:
        whole = ("tmux", "-L", self._socket, *arguments)
        return subprocess.run(whole, capture_output=True, text=True, check=True).stdout

    def types(self, line: str) -> None:
        self._tmux("send-keys", "-l", line)
        self._tmux("send-keys", "Enter")

    def clears(self) -> None:
        """Clear the screen."""
        self._tmux("send-keys", "C-l")

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-e", "-N")

    def waits_for(self, *words: str) -> str:
        """Return the screen, once it shows all these words and the bot is idle."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            shown = self.screen()
            plain = Text.from_ansi(shown).plain
            if all(word in plain for word in words) and "Ctrl-C stops" not in plain:
                return shown
            time.sleep(0.1)
        raise SystemExit(f"{words} did not come; there stands\n{plain}")

    def close(self) -> None:
        self._tmux("kill-server")


def record(command: str) -> list[str]:
    """Return the frames of the session."""
    person = Recorder(command)
    try:
        person.waits_for("gpt-5-mini answers.")
        for number, (question, answer) in enumerate(TALK[:6], 1):
            person.types(question)
            frame = person.waits_for(answer, f"{number}/6 turns")
        frames = [frame]
        person.types("/context preview")
        frames.append(person.waits_for("/context preview", "t1 to t3"))
        question, answer = TALK[6]
        person.types(question)
        frames.append(person.waits_for(answer, "4/6 turns"))
        for line, signs in (
            ("/context", ("Last compaction: 2",)),
            ("/context map", ("summarised", "t4")),
            ("/context undo", ("/context redo",)),
            ("/context map", ("Undone", "in context", "context-map.png\n\n  Next", "7/6 turns")),
        ):
            person.types(line)
            frames.append(person.waits_for(line, *signs))
        return frames
    finally:
        person.close()


def svg(frames: Sequence[str]) -> str:
    """Return an SVG that shows the frames in an endless loop; viewers without animation show the
    first."""
    width = COLUMNS * _CELL + 2 * _MARGIN
    rows = max(len(Text.from_ansi(frame).plain.rstrip().splitlines()) for frame in frames)
    height = rows * _LINE + 2 * _MARGIN
    body = "\n".join(_frame(frame, number, len(frames)) for number, frame in enumerate(frames))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" '
        f'font-size="{_SIZE}" xml:space="preserve">\n'
        "<title>A session in the terminal: preview, compaction and undo</title>\n"
        f'<rect width="{width:g}" height="{height:g}" rx="10" fill="{_GROUND}"/>\n'
        f"{body}\n</svg>\n"
    )


def _frame(frame: str, number: int, count: int) -> str:
    lines = Text.from_ansi(frame).split("\n")
    texts = "\n".join(piece for row, line in enumerate(lines) for piece in _line(line, row))
    shown = ";".join("inline" if n == number else "none" for n in range(count))
    play = (
        f'<animate attributeName="display" values="{shown}" dur="{count * SECONDS:g}s" '
        'calcMode="discrete" repeatCount="indefinite"/>'
    )
    return f'<g display="{"none" if number else "inline"}">{play}\n{texts}\n</g>'


def _line(line: Text, row: int) -> Iterator[str]:
    """Yield the pieces of a line, each with its position, so that fonts cannot shift them."""
    y = _MARGIN + row * _LINE
    column = 0
    for words, style in _pieces(line):
        x, width = _MARGIN + column * _CELL, cell_len(words) * _CELL
        column += cell_len(words)
        ink, ground = _ink(style)
        if ground:
            yield f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{_LINE}" fill="{ground}"/>'
        weight = ' font-weight="bold"' if style.bold else ""
        for run in _RUN.finditer(words):
            left = x + cell_len(words[: run.start()]) * _CELL
            length = cell_len(run[0]) * _CELL
            yield (
                f'<text x="{left:g}" y="{y + 14:g}" fill="{ink}" textLength="{length:g}"{weight}>'
                f"{escape(run[0])}</text>"
            )


def _pieces(line: Text) -> Iterator[tuple[str, Style]]:
    """Yield the runs of equal style."""
    styles = [Style() for _ in line.plain]
    for span in line.spans:
        style = span.style if isinstance(span.style, Style) else Style.parse(span.style)
        for at in range(span.start, min(span.end, len(styles))):
            styles[at] += style
    begin = 0
    for at in range(1, len(styles) + 1):
        if at == len(styles) or styles[at] != styles[begin]:
            yield line.plain[begin:at], styles[begin]
            begin = at


def _ink(style: Style) -> tuple[str, str]:
    """Return the colours of letters and of their background ("": none)."""
    number = style.color.number if style.color else None
    ink = _INK if number is None or number >= len(_COLOURS) else [*_COLOURS.values()][number]
    if style.dim:
        ink = _COLOURS["bright_black"]
    return (_GROUND, ink) if style.reverse else (ink, "")


def script(request: Received) -> Answer:
    """Return the scripted words: an answer by its question, or the summary."""
    said = str(request.body["messages"][-1]["content"])
    return Say(next((answer for question, answer in TALK if said.endswith(question)), SUMMARY))


async def main() -> None:
    """Record the session, and write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(SETTINGS))
        async with OpenAIServer(script) as server:
            places = ("--config", str(config), "--data", f"{folder}/data")
            environ = (f"OPENAI_BASE_URL={server.base_url}", "OPENAI_API_KEY=key")
            unset = ("env", "-u", "TMUX", "-u", "NO_COLOR")
            bot = (sys.executable, str(ROOT / "main.py"), *places)
            command = shlex.join((*unset, *environ, *bot))
            frames = await asyncio.to_thread(record, command)
    TARGET.write_text(svg(frames))
    sys.stdout.write(f"{TARGET} has {len(frames)} frames.\n")


if __name__ == "__main__":
    asyncio.run(main())
