"""The part of a log that may leave the machine: the bot's own sentences, without people's texts.

Private data can't be enumerated, so known data is searched instead: the sentences in the bot's
source, without the inserted values, and the places in source files that a traceback names. Other
lines are replaced by their number.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from functools import cache
from importlib import metadata
from pathlib import Path

from msgspec import Struct, field

from bot.logs import LAYERS
from bot.paragraphs import count
from bot.recent import LEFT_OUT, Sentence, mask_text
from plugins.operations.log_reading import LogEntry

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = (
    ROOT / "requirements.txt",
    *(file for room in LAYERS for file in sorted((ROOT / room).rglob("requirements*.txt"))),
)
_PIN = re.compile(r"^([\w.-]+)(?:\[.*\])?==(\S+)", re.MULTILINE)
_PACKAGES, _PYTHON = Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("stdlib"))
_FORMAT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]")
_TURN = re.compile(r"(.*) (t\d{1,7})", re.DOTALL)
_FILE = re.compile(r'File "(.+)", line (\d{1,6})(?:, in ([\w.<>]{1,100}))?')
_ERROR = re.compile(r"([A-Za-z_][\w.]{0,150})(?::.*)?", re.DOTALL)
_MARKS = re.compile(r"[\s~^|+-]*(?:\d{1,2} -+)?")
_PHRASES = frozenset(
    {
        "Traceback (most recent call last):",
        "Exception Group Traceback (most recent call last):",
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
    }
)


def _of_format(text: str) -> Sentence:
    """Return a sentence with the placeholders of `logging`: "%s took %d s"."""
    kinds = tuple(one[-1] in "dfg" for one in _FORMAT.findall(text))
    pieces = tuple(piece.replace("%%", "%") for piece in _FORMAT.split(text))
    return Sentence(pieces, kinds)


@cache
def _logged_in(module: str) -> Sequence[Sentence]:
    """Return the sentences that a module of Parley logs."""
    path = _find_module(module)
    if path is None or module.partition(".")[0] not in LAYERS:
        return ()
    found = [_of_format(text) for text in _log_calls(ast.parse(path.read_text("utf-8")))]
    return sorted((one for one in found if one.letters), key=lambda one: -one.letters)


def _log_calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="log")),
                args=[ast.Constant(value=str(text)), *_],
            ):
                yield text


@cache
def _find_module(module: str) -> Path | None:
    """Return the source of a module by its name, of Parley or of an installed package."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    for base in (ROOT, _PACKAGES, _PYTHON):
        place = base.joinpath(*parts)
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file() and _name_file(path):
                return path
    return None


@cache
def _name_file(path: Path) -> str:
    """Return the name of a source file of Parley, of a named package, or of Python; "" for any
    other, such as a plugin."""
    if ".." in path.parts or not path.is_file():
        return ""
    for name, base in (("site-packages", _PACKAGES), ("python", _PYTHON), ("", ROOT)):
        if path.is_relative_to(base):
            inner = path.relative_to(base)
            top = inner.parts[0].removesuffix(".py")
            is_known = {
                "": top in (*LAYERS, "main"),
                "site-packages": top in _public_packages(),
                "python": top in sys.stdlib_module_names,
            }[name]
            return "/".join(filter(None, (name, inner.as_posix()))) if is_known else ""
    return ""


@cache
def read_pins() -> Mapping[str, str]:
    """Return the distinct packages in the folders' requirements, with the tested version."""
    return {
        _normalise(name): version
        for file in REQUIREMENTS
        if file.is_file()
        for name, version in _PIN.findall(file.read_text("utf-8"))
    }


def _normalise(package: str) -> str:
    """Return the normalised name of a package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()


@cache
def _public_packages() -> frozenset[str]:
    """Return the import names of the packages in the bot's requirements."""
    named = read_pins()
    found = metadata.packages_distributions().items()
    return frozenset(
        top for top, owners in found if any(_normalise(one) in named for one in owners)
    )


@cache
def _source(path: Path) -> Sequence[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ()


class LogMasker(Struct):
    """Masks entries one after the other; a chat has the same number in all of them."""

    _chats: dict[str, str] = field(default_factory=dict)
    _processes: dict[str, str] = field(default_factory=dict)

    def mask(self, entry: LogEntry) -> list[str]:
        """Return an entry as lines without data about people."""
        level = entry.level if entry.level in _LEVELS else LEFT_OUT
        process = _number(self._processes, entry.process, "process")
        about = " ".join(filter(None, (process, self._name_turn(entry.turn))))
        module = entry.logger if _find_module(entry.logger) else LEFT_OUT
        text = mask_text(entry.text, _logged_in(entry.logger), has_numbers=True)
        at = entry.at.astimezone(UTC)
        head = f"{at:%Y-%m-%dT%H:%M:%S}Z {level} [{about or '-'}] {module}: {text}"
        return [head, *(f"    {line}" for line in mask_traceback(entry.rest))]

    def _name_turn(self, turn: str) -> str:
        if turn == "-":
            return ""
        found = _TURN.fullmatch(turn)
        chat, number = (found[1], f" {found[2]}") if found else (turn, "")
        return f"{_number(self._chats, chat, 'chat')}{number}"


_LEVELS = frozenset({"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"})


def _number(known: dict[str, str], name: str, kind: str) -> str:
    return known.setdefault(name, f"{kind} {len(known) + 1}") if name else ""


def mask_traceback(lines: Sequence[str]) -> list[str]:
    """Return the lines below an entry: the places in source files and the types of errors."""
    shown: list[str] = []
    hidden, source = 0, ""
    for line in lines:
        bare = line.strip(" |+")
        indent = line[: len(line) - len(line.lstrip(" |+"))]
        known, source = _known_line(bare, source)
        if known is None:
            hidden += 1
            continue
        if hidden:
            shown.append(_count_hidden(hidden))
        hidden = 0
        shown.append(f"{indent[:40]}{known}")
    return [*shown, *([_count_hidden(hidden)] if hidden else [])]


def _count_hidden(lines: int) -> str:
    return f"({count(lines, 'line')} left out)"


def _known_line(line: str, source: str) -> tuple[str | None, str]:
    """Return a traceback line as it may be shown (None: hidden), and the source line that may
    follow. `source` is the one that may come now."""
    if line in _PHRASES or (_MARKS.fullmatch(line) and len(line) < 200):
        return line, source if not line.strip() or set(line) <= set("~^ ") else ""
    if source and line == source:
        return line, source
    if found := _FILE.fullmatch(line):
        return _name_place(*found.groups())
    if found := _ERROR.fullmatch(line):
        name = _name_error(found[1])
        return (name and f"{name}{': ' + LEFT_OUT if ':' in line else ''}"), ""
    return None, ""


def _name_place(file: str, number: str, function: str | None) -> tuple[str, str]:
    path = Path(file)
    if not (name := _name_file(path)):
        return f"File {LEFT_OUT}", ""
    lines = _source(path)
    place = int(number)
    line = lines[place - 1].strip() if 0 < place <= len(lines) else ""
    is_there = function is not None and _defines(path, function)
    where = f", in {function}" if is_there else ""
    return f'File "{name}", line {number}{where}', line


@cache
def _defines(path: Path, function: str) -> bool:
    """Return whether a file defines a function of this name, or Python uses it for a code block."""
    if function in ("<module>", "<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"):
        return True
    text = "\n".join(_source(path))
    return all(
        re.search(rf"\b(def|class) {re.escape(name)}\b", text) for name in function.split(".")
    )


@cache
def _name_error(name: str) -> str | None:
    """Return the name of an existing error type; None for other names."""
    found = getattr(builtins, name, None)
    if isinstance(found, type) and issubclass(found, BaseException):
        return name
    module, _, last = name.rpartition(".")
    path = _find_module(module) if module else None
    if path is None:
        return None
    begins = re.compile(rf"\s*class {re.escape(last)}\b")
    return name if any(map(begins.match, _source(path))) else None
