"""The texts marked for translation, found in the code.

`python -m tests.channels.marked` adds them to the catalogues, to be translated there by hand, and
removes those that the code no longer has.
"""

from __future__ import annotations

import ast
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from babel.messages.catalog import Catalog
from babel.messages.pofile import write_po

from bot.settings.schema import SETTINGS
from channels.kit.receiver import LEFT_OUT
from channels.language import CATALOGUE, DAYS, FROM_LOWER_LAYER, LANGUAGES, MONTHS, words_of
from channels.terminal import completion
from channels.web.channel import list_words
from memory.audit.judge import REASONS
from plugins.accounts import feature as account_feature
from plugins.api import HookContext
from plugins.builtin import session
from plugins.builtin.context import overview, ranges, show, values
from plugins.builtin.help import GROUPS, STRATEGIES, THE_BOT
from plugins.file_versions.feature import VersionRows
from plugins.instructions.record import InstructionRows
from plugins.jobs import feature as job_feature
from plugins.jobs import plans, recurrence
from plugins.loader import load
from plugins.spending import feature as usage
from plugins.tour import feature as tour_feature
from plugins.wording import count as wording_count

ROOT = Path(__file__).parents[2]
FOLDERS = ("bot", "channels", "plugins")
_MARKS = {
    "_": 1,
    "number_of": 3,
    "_verb": 3,
    "sentence_about": 3,
    "phrase": 3,
    "refusal": 1,
    "WhenError": 1,
    "NoTimeFound": 1,
    "Action": 1,
    "require_owner": 1,
}
PARTS = (
    *("system prompt", "standing instructions", "memory", "tools", "summary", "activity log"),
    *("summaries of turns", "turns", "running turn", "user", "assistant", "tool", "note"),
    *(
        "model",
        "other",
        "before",
        "after",
        "system",
        "new",
        "changed",
        "gone",
        "pinned",
        "archived",
    ),
    *("pinned", "archived", "and", "or", "waiting"),
)
LAYERS = ("default", "file", "environment")
_A_KEY = re.compile(r"[/↑↓A-Z][\w↑↓-]*( (Ctrl-E|Enter|keys|↓))?")


def collect() -> set[str]:
    """Return every English text that is an argument of `_` and similar functions, and each
    recognised text of a lower layer."""
    return {*_marked(), *_from_lower_layers()} - {""}


def _marked() -> Iterator[str]:
    yield from _named()
    yield from list_words()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            yield from _in_file(path)


def _named() -> Iterator[str]:
    """Yield the texts under names that only the running bot knows."""
    loaded = load(Path("/nonexistent"), HookContext())
    nouns = (InstructionRows.noun, VersionRows.noun, *(row.noun for row in loaded.rows))
    yield from (f"{{n}} {noun}{ending}" for noun in nouns for ending in ("", "s"))
    for command in loaded.commands.values():
        yield command.summary
        yield command.interrupted
        yield from (sub.summary for sub in command.subs)
    yield from (*GROUPS, THE_BOT, *PARTS, *show.KINDS.values(), *LAYERS)
    yield from (*values.STATES, *overview.BECAUSE.values(), *ranges.PLACES)
    yield from (text for standing in session.STANDINGS.values() for text in standing)
    yield from (usage.BY_DAY, usage.BY_MODEL, *usage.COLUMNS, *usage.PURPOSES, account_feature.OWN)
    yield from (*DAYS, *MONTHS, *plans.OUTCOMES)
    for unit in recurrence.UNITS.values():
        yield from (f"every {unit}", f"every {{n}} {unit}s")
    for change in job_feature.CHANGES.values():
        yield from (change.label, change.done, change.next)
    yield from (*LEFT_OUT, *REASONS.values(), *tour_feature.STARTERS.values())
    for what, when in STRATEGIES.values():
        yield from (what, when)
    for setting in SETTINGS.values():
        unit = setting.unit.replace("MB", "")
        yield from (unit, unit.removesuffix("s"), setting.holds)
        yield setting.meaning
    yield from (what for _name, what in (*completion.KEYS, *completion.TYPED, *completion.COMMANDS))
    yield from (
        name for name, _what in (*completion.KEYS, *completion.TYPED) if not _A_KEY.fullmatch(name)
    )
    yield from ("free", "ok", "stopped", "failed")  # channels/terminal


def _in_file(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    marks = (
        "channels.language import",
        "plugins.wording import",
        "def speaking(",
        "raise refusal(",
        "WhenError(",
    )
    if not any(mark in text for mark in marks):
        return
    module = _import(path)
    for call in ast.walk(_parse(path)):
        if isinstance(call, ast.Call):
            yield from _in_call(call, module)


def _in_call(call: ast.Call, module: ModuleType) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    for argument in call.args[: _MARKS.get(name, 0)]:
        yield from _texts(argument, module)
    if name == "count" and len(call.args) == 2 and getattr(module, "count", None) is wording_count:
        for noun in _texts(call.args[1], module):
            yield from (f"{{n}} {noun}", f"{{n}} {noun}s")
    if name in ("table", "wording_table"):
        for argument in call.args[:1]:
            yield from _headings(argument, module)


def _headings(argument: ast.expr, module: ModuleType) -> Iterator[str]:
    if isinstance(argument, ast.Tuple):
        for one in argument.elts:
            yield from filter(None, _texts(one, module))
    elif isinstance(argument, ast.Name):
        yield from filter(None, getattr(module, argument.id, ()))


def _texts(argument: ast.expr, module: ModuleType) -> Iterator[str]:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield argument.value
    elif isinstance(argument, ast.Name | ast.Attribute | ast.Subscript):
        value = _look_up(argument, module)
        if isinstance(value, str):
            yield value
        elif isinstance(argument, ast.Subscript) and isinstance(value, dict):
            yield from value.values()
    elif isinstance(argument, ast.IfExp):
        yield from _texts(argument.body, module)
        yield from _texts(argument.orelse, module)


def _look_up(name: ast.expr, module: ModuleType) -> object:
    """Return the value of a name in its module; for `TEXTS[key]`, all the texts."""
    if isinstance(name, ast.Name):
        return getattr(module, name.id, None)
    if isinstance(name, ast.Attribute):
        return getattr(_look_up(name.value, module), name.attr, None)
    if isinstance(name, ast.Subscript):
        return _look_up(name.value, module)
    return None


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _import(path: Path) -> ModuleType:
    name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    return import_module(name.removesuffix(".__init__"))


# --- sentences of the lower layers ----------------------------------------------------------

LAYERS_OF_CODE = ("memory", "agent", "bot", "plugins", "channels")
_PLACE = re.compile(r"\{[^{}]*\}|%[sd]")
"""A placeholder in a text, or in a line of the log."""


@cache
def find_shapes() -> frozenset[str]:
    """Return the shapes of all texts in the layers without languages: values of placeholders are
    left out."""
    found: set[str] = set()
    for folder in LAYERS_OF_CODE:
        for path in (*(ROOT / folder).rglob("*.py"), ROOT / "main.py"):
            found.update(map(shape_of, _all_texts(_parse(path))))
    refused = {
        shape.replace("{} is {};", "{} can't be {};") for shape in found
    }  # bot/settings/book
    return frozenset(found | refused | {*_OF_THE_SYSTEM})


def shape_of(text: str) -> str:
    return _PLACE.sub("{}", text)


def _all_texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )


def _from_lower_layers() -> Iterator[str]:
    """Yield the listed texts, as long as the code has them."""
    shapes = find_shapes()
    for text in list_lower_texts():
        if shape_of(text) in shapes:
            yield text


def list_lower_texts() -> Iterable[str]:
    """List the texts that reach a person, one per line."""
    lines = Path(__file__).with_name("lower_layers.txt").read_text("utf-8").splitlines()
    return [*(line.replace("\\n", "\n") for line in lines if line), *_OF_THE_SYSTEM]


_OF_THE_SYSTEM = [
    os.strerror(getattr(errno, name))
    for name in (
        *("EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "EFBIG", "EIO", "ENOENT", "EISDIR"),
        *("ENOTDIR", "EEXIST", "ENOTEMPTY", "ENAMETOOLONG", "ELOOP", "EBUSY", "EMFILE"),
        *("EADDRINUSE", "EADDRNOTAVAIL", "EXDEV"),
    )
]
"""Reasons of the operating system, which are quoted in sentences."""


def update() -> None:
    """Bring the catalogues up to date."""
    lower, texts = set(list_lower_texts()), sorted({*collect(), *list_lower_texts()} - {""})
    for language in LANGUAGES[1:]:
        path, known = CATALOGUE / f"{language}.po", words_of(language)
        catalog = Catalog(locale=language)
        for text in texts:
            comments = [FROM_LOWER_LAYER] if text in lower else []
            catalog.add(text, known.get(text, ""), auto_comments=comments)
        with path.open("wb") as file:
            write_po(file, catalog, width=100, no_location=True, omit_header=True, sort_output=True)
        missing = [text for text in texts if text not in known]
        sys.stdout.writelines(f"{language}: {text!r} is not translated yet\n" for text in missing)


if __name__ == "__main__":
    update()
