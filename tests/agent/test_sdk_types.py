"""The SDK's types, which are imported one by one: each is what it always was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.models.sdk_types import read_places

ROOT = Path(__file__).resolve().parents[2]
IMPORT = "import agent.models.openai_client"
USUALLY = "import openai"
LOOK = """
import ast, json, pkgutil, sys
from importlib import import_module
import openai.types
found = {}
names = ["openai.types", *(one.name for one in pkgutil.walk_packages(
    openai.types.__path__, "openai.types.") if one.ispkg)]
for name in names:
    package = import_module(name)
    source = open(package.__file__).read()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom) and statement.level:
            for one in statement.names:
                value = getattr(package, one.asname or one.name)
                home = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
                found[f"{name} {one.asname or one.name}"] = [*home, str(type(value))]
json.dump(found, sys.stdout)
"""


def run(*lines: str) -> Any:
    """What a Python of its own prints, as JSON."""
    command = [sys.executable, "-c", "\n".join(lines)]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


@pytest.mark.usefixtures("processes")
def test_every_name_leads_to_what_it_always_was() -> None:
    whole, one_by_one = run(USUALLY, LOOK), run(IMPORT, LOOK)
    assert len(whole) > 1_000
    assert one_by_one == whole


@pytest.mark.usefixtures("processes")
def test_the_client_does_without_nearly_all_of_them() -> None:
    names = '[one for one in sys.modules if one.startswith("openai.types")]'
    count = f"import sys; print(len({names}))"
    assert run(USUALLY, count) > 400
    assert run(IMPORT, count) < 80


@pytest.mark.usefixtures("processes")
def test_all_names_of_a_package_can_be_imported_at_once() -> None:
    said = run(IMPORT, "from openai.types.shared import *", "print(len(Reasoning.model_fields))")
    assert said > 0
    assert run(IMPORT, "import openai.types.chat as one, json", "print(len(dir(one)))") > 50


@pytest.mark.usefixtures("processes")
def test_a_name_that_is_not_there_is_missed_as_ever() -> None:
    lines = (
        "import json, openai.types.chat",
        "try: openai.types.chat.NoSuchThing",
        "except AttributeError as error: print(json.dumps(str(error)))",
    )
    assert run(IMPORT, *lines) == run(USUALLY, *lines)


def test_a_package_that_does_more_than_to_import_is_run_whole() -> None:
    assert read_places("from .a import B as B\nfrom ..c import D") == {
        "B": (".a", "B"),
        "D": ("..c", "D"),
    }
    assert read_places("from .a import B\nB.model_rebuild()") is None
    assert read_places("from .a import *") is None
    assert read_places("import os") is None
