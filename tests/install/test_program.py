"""Sentences name the program as it is installed; the extras are all requirement files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from bot import packages
from bot.command_line import CommandRefused
from channels import program
from channels.program import EXTRAS, ROOT, as_called
from tests.install.test_portable import _files, _tree

OF_CHECKOUT = re.compile(r"main\.py|\bmake (?:run|channel|clean)|requirements[\w-]*\.txt|\.venv")


def _said(file: Path) -> list[str]:
    """The texts of a module that are no docstrings and may be said to somebody."""
    tree = _tree(file)
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documents
        and " " in node.value
        and OF_CHECKOUT.search(node.value)
    ]


def test_no_sentence_of_the_wheel_names_what_only_a_checkout_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "IS_WHEEL", True)
    # What runs before the packages are there, writes a checkout's pages, or is the rule itself.
    left_out = (
        "bot/own_python.py",
        "bot/settings/docs.py",
        "plugins/docs.py",
        "channels/program.py",
    )
    found = [
        (file.relative_to(ROOT).as_posix(), text, as_called(text))
        for file in _files()
        for text in _said(file)
    ]
    assert len(found) > 40
    for file, text, called in found:
        assert file in left_out or not OF_CHECKOUT.search(called), (file, text, called)


def test_a_checkout_is_called_as_it_is() -> None:
    assert as_called("Run `python main.py init`.") == "Run `python main.py init`."


def test_each_requirement_file_of_the_program_is_an_extra() -> None:
    folders = ("agent", "bot", "channels", "memory", "plugins")
    files = [file for name in folders for file in (ROOT / name).rglob("requirements*.txt")]
    assert {file.relative_to(ROOT).as_posix() for file in files} == {*EXTRAS.values()}


def test_an_extra_is_installed_by_pip_or_by_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    command = packages.install_command("embedded")
    assert command[1:4] == ("-m", "pip", "install")
    assert "--no-deps" in command
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    monkeypatch.setattr("bot.packages.shutil.which", lambda name: f"/bin/{name}")
    command = packages.install_command("discord")
    assert command[:3] == ("/bin/uv", "pip", "install")
    assert command[-1] == str(ROOT / "channels/discord/requirements.txt")
    monkeypatch.setattr("bot.packages.shutil.which", lambda name: None)
    with pytest.raises(CommandRefused, match="Neither pip nor uv is here"):
        packages.install_command("discord")
