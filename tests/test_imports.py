"""Tests of the direction of imports that import-linter cannot check: no module depends on
itself."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from bot.messengers import BUILT_IN
from memory.context.change import Change

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("bot", "plugins", "agent", "channels", "memory")


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return the modules of the packages that each module imports, including imports within
    functions and for types only."""
    files = {_name(path): path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")}
    return {
        name: frozenset(_imported(path, files)) - {name} - _packages_of(name)
        for name, path in files.items()
    }


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _packages_of(name: str) -> set[str]:
    """Return the packages that contain a module: they are always imported before it."""
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts))}


@cache
def _nodes(path: Path) -> Sequence[ast.AST]:
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef)
    return [
        node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, kinds)
    ]


def _imported(path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    for node in _nodes(path):
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
    known = dict(imports())
    assert "memory.turns" in known["memory.context_state"]
    known["memory.turns"] |= {"memory.context_state"}
    with pytest.raises(CycleError):
        TopologicalSorter(known).prepare()


def test_each_class_has_a_name_of_its_own() -> None:
    """Allow a name once: a reader who finds a class by its name has found the right one."""
    places = defaultdict[str, list[str]](list)
    for layer in LAYERS:
        for path in (ROOT / layer).rglob("*.py"):
            for node in _nodes(path):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(_name(path))
    assert len(places) > 300
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


NAME_FIELDS = frozenset(
    f"memory.{name}"
    for name in (
        *("context.change", "context.layout", "context.plan", "context.strategies.slim"),
        "record.old_events",
    )
)
"""The modules that name the fields of a change of the context; others call its methods."""


def test_few_modules_know_the_fields_of_an_event() -> None:
    found = {
        name
        for name, imported in imports().items()
        if any(one.startswith("memory.context") for one in (name, *imported))
        and any(map(_names_field, ast.walk(ast.parse(_path_of(name).read_text("utf-8")))))
    }
    assert found == NAME_FIELDS
    assert len(found) <= 8


def _names_field(node: ast.AST) -> bool:
    """Return whether this reads a field of a change, or makes a change by the name of a field."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "Change" and bool(node.keywords)
    if not isinstance(node, ast.Attribute) or node.attr not in Change.__struct_fields__:
        return False
    return ast.unparse(node.value).split(".")[-1] in ("change", "limited")


def _path_of(name: str) -> Path:
    path = ROOT.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


FEATURES = {
    path.parent.name: ast.parse(path.read_text("utf-8"))
    for path in (ROOT / "plugins").glob("*/__init__.py")
    if path.parent.name not in ("builtin", "rules")  # they are below bot
}


def _feature_of(name: str) -> str:
    """Return the feature that a module belongs to; "" for the kernel."""
    parts = name.split(".")
    return parts[1] if parts[0] == "plugins" and len(parts) > 1 and parts[1] in FEATURES else ""


def find_required(feature: str) -> Sequence[str]:
    """Return the features that one declares in its REQUIRES."""
    for node in FEATURES[feature].body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "REQUIRES":
            return tuple(ast.literal_eval(node.value))
    return ()


def test_no_module_imports_a_feature_but_its_own_and_those_it_requires() -> None:
    allowed = {"": {""}} | {name: {"", name, *find_required(name)} for name in FEATURES}
    wrong = {
        (name, one)
        for name, imported in imports().items()
        for one in imported
        if _feature_of(one) not in allowed[_feature_of(name)]
    }
    assert wrong == set()
    assert any(_feature_of(name) for name in imports()), "it looks where the modules are"


def test_the_linter_knows_each_feature() -> None:
    """Check the list in import-linter's settings of the folders of plugins/ that are above bot."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    contracts = (one.get("layers", [""]) for one in tools["importlinter"]["contracts"])
    (layers,) = (one for one in contracts if "plugins." in one[0])
    assert {*layers[0].split(" : ")} == {f"plugins.{name}" for name in FEATURES}


SDKS = (
    *("discord", "slack_bolt", "slack_sdk", "pywa", "nio", "lark_oapi", "imapclient"),
    *("aiosmtplib", "telegram"),
)


STEPS = {
    "line": "import bot.early, channels.terminal.early",
    "bot": "import bot.assembly",
    "start": "import main, channels.terminal.terminal, channels.pipe",
    **{name: f"from channels.{name} import CHANNEL" for name in BUILT_IN},
}


@pytest.mark.usefixtures("processes")
def test_what_a_start_does_not_need_is_not_imported() -> None:
    """Import one thing after the other in one interpreter, which prints the loaded modules after
    each."""
    code = ["import json, sys", "after = {}"]
    for name, step in STEPS.items():
        code += [step, f"after[{name!r}] = [*sys.modules]"]
    whole = "\n".join([*code, "print(json.dumps(after))"])
    done = subprocess.run([sys.executable, "-c", whole], cwd=ROOT, capture_output=True, check=True)
    after: dict[str, list[str]] = json.loads(done.stdout)
    line = {*after["line"]}
    assert "prompt_toolkit.application" in line
    assert not line & {"pydantic", "peewee", "openai", "rich.console", "channels.base", "agent"}
    assert [name for name in after["bot"] if "anthropic" in name] == []
    for step, names in after.items():
        assert [name for name in names if name.partition(".")[0] in SDKS] == [], step
