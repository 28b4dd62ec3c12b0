"""The direction of imports, as import-linter can't see it: no module needs itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from bot.messengers import BUILT_IN

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("bot", "plugins", "agent", "channels", "memory")


def imports() -> dict[str, set[str]]:
    """What each module of the rooms imports of them, also within functions and for types alone."""
    files = {_name(path): path for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    return {
        name: set(_imported(path, files)) - {name} - _packages_of(name)
        for name, path in files.items()
    }


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _packages_of(name: str) -> set[str]:
    """The packages that a module stands in: they are imported before it in any case."""
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts))}


def _imported(path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield from (one for one in (name, node.module) if one in files)


def test_no_module_imports_itself_over_others_not_even_for_types() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_a_cycle_would_be_found() -> None:
    known = imports()
    assert "memory.turns" in known["memory.context_state"]
    known["memory.turns"].add("memory.context_state")
    with pytest.raises(CycleError):
        TopologicalSorter(known).prepare()


def test_each_class_has_a_name_of_its_own() -> None:
    """One name, one thing: a reader who finds a class by its name has found the right one."""
    places = defaultdict[str, list[str]](list)
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(_name(path))
    assert len(places) > 300
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_nothing_but_the_cluster_itself_knows_of_the_cluster() -> None:
    """A bot of one process imports nothing of it, nor RabbitMQ's client."""
    knowing = {
        name
        for name, imported in imports().items()
        if any(one.startswith("bot.cluster") for one in imported)
    }
    assert knowing, "it looks where the modules are"
    assert {name for name in knowing if not name.startswith("bot.cluster")} == set()


@pytest.mark.usefixtures("processes")
def test_a_bot_without_claude_imports_nothing_of_it() -> None:
    code = "import sys, bot.assembly; print([m for m in sys.modules if 'anthropic' in m])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


SDKS = (
    *("discord", "slack_bolt", "slack_sdk", "pywa", "nio", "lark_oapi", "imapclient"),
    *("aiosmtplib", "telegram"),
)


def loaded_after(code: str) -> set[str]:
    """The modules of messengers' SDKs that are there once this has run."""
    show = f"print(*[one for one in sys.modules if one.partition('.')[0] in {SDKS}])"
    whole = f"import sys\n{code}\n{show}"
    done = subprocess.run([sys.executable, "-c", whole], cwd=ROOT, capture_output=True, check=True)
    return {*done.stdout.decode().split()}


@pytest.mark.usefixtures("processes")
def test_a_start_imports_nothing_of_any_messenger() -> None:
    assert (
        loaded_after("import main, bot.assembly, channels.terminal.terminal, channels.pipe")
        == set()
    )


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", BUILT_IN)
def test_what_says_how_a_channel_is_made_imports_no_sdk(name: str) -> None:
    assert loaded_after(f"from channels.{name} import CHANNEL") == set()


@pytest.mark.usefixtures("processes")
def test_the_line_of_a_terminal_waits_for_nothing_that_is_not_needed_to_type() -> None:
    code = "import sys, bot.early, channels.terminal.early; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    loaded = {*done.stdout.decode().split()}
    assert "prompt_toolkit.application" in loaded
    assert not loaded & {"pydantic", "peewee", "openai", "rich.console", "channels.base", "agent"}
