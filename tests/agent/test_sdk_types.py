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
LOOK = """
import ast, json, pkgutil, sys
from importlib import import_module
said = {"loaded": len([one for one in sys.modules if one.startswith("openai.types")])}
import openai.types.chat
try:
    openai.types.chat.NoSuchThing
except AttributeError as error:
    said["error"] = str(error)
from openai.types.shared import *
said["fields"] = [*Reasoning.model_fields]
said["dir"] = len(dir(openai.types.chat)) > 50
found = said["found"] = {}
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
json.dump(said, sys.stdout)
"""


def look_after(statement: str) -> dict[str, Any]:
    """Return what a Python of its own finds in the SDK after this import."""
    command = [sys.executable, "-c", f"{statement}\n{LOOK}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.usefixtures("processes")
def test_every_name_leads_to_what_it_always_was_and_nearly_none_is_loaded_before() -> None:
    whole, one_by_one = look_after("import openai"), look_after("import agent.models.openai_client")
    assert whole.pop("loaded") > 400
    assert one_by_one.pop("loaded") < 80
    assert len(whole["found"]) > 1_000
    assert whole["dir"]
    assert one_by_one == whole


def test_a_package_that_does_more_than_to_import_is_run_whole() -> None:
    assert read_places("from .a import B as B\nfrom ..c import D") == {
        "B": (".a", "B"),
        "D": ("..c", "D"),
    }
    assert read_places("from .a import B\nB.model_rebuild()") is None
    assert read_places("from .a import *") is None
    assert read_places("import os") is None
