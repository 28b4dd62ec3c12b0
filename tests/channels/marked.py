"""What is marked to be translated, found in the code.

`python -m tests.channels.marked` adds it to the catalogues, to be translated there by hand, and
takes out what the code has no more.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from babel.messages.catalog import Catalog
from babel.messages.pofile import write_po

from channels.language import CATALOGUE, LANGUAGES, words_of
from channels.web.words import list_words
from plugins.api import HookContext
from plugins.builtin.context import show
from plugins.builtin.help import GROUPS, STRATEGIES, THE_BOT
from plugins.loader import load

ROOT = Path(__file__).parents[2]
ROOMS = ("bot", "channels", "plugins")
_MARKS = {"_": 1, "number_of": 3, "_verb": 3}
PARTS = (
    *("system prompt", "memory", "tools", "summary", "activity log", "summaries of turns"),
    *("turns", "running turn", "user", "assistant", "tool", "note"),
)


def collect() -> set[str]:
    """Every English text that `_` and its like are given."""
    found = {*_named(), *list_words()}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            found.update(_in_file(path))
    return found


def _named() -> Iterator[str]:
    """Those that are given by a name that only the running bot knows."""
    for command in load(Path("/nonexistent"), HookContext()).commands.values():
        yield command.summary
        yield from (sub.summary for sub in command.subs)
    yield from (*GROUPS, THE_BOT, *PARTS, *show.KINDS.values())
    for what, when in STRATEGIES.values():
        yield from (what, when)
    for action in (show.DETAILS, show.MAP, show.COMPACT, show.CLEAR, show.UNDO):
        yield action.label


def _in_file(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    if "channels.language import" not in text:
        return
    name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    module = import_module(name.removesuffix(".__init__"))
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            for argument in call.args[: _MARKS.get(call.func.id, 0)]:
                yield from _texts(argument, module)


def _texts(argument: ast.expr, module: ModuleType) -> Iterator[str]:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield argument.value
    elif isinstance(argument, ast.Name):
        value = getattr(module, argument.id, None)
        if isinstance(value, str):
            yield value
    elif isinstance(argument, ast.IfExp):
        yield from _texts(argument.body, module)
        yield from _texts(argument.orelse, module)
    elif isinstance(argument, ast.Starred):
        return


def update() -> None:
    """Bring the catalogues up to date."""
    texts = sorted(collect())
    for language in LANGUAGES[1:]:
        path, known = CATALOGUE / f"{language}.po", words_of(language)
        catalog = Catalog(locale=language)
        for text in texts:
            catalog.add(text, known.get(text, ""))
        with path.open("wb") as file:
            write_po(file, catalog, width=100, no_location=True, omit_header=True, sort_output=True)
        missing = [text for text in texts if text not in known]
        sys.stdout.writelines(f"{language}: {text!r} is not translated yet\n" for text in missing)


if __name__ == "__main__":
    update()
