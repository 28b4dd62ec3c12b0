"""Tests that modules call no system-specific functions, except those listed here; and of file
names."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from agent.tools import ToolError
from agent.tools.workspace import resolve
from bot.attachments import safe_name
from bot.received import key_of
from channels.message import Address
from memory import keys
from memory.keys import file_name, find_fault, find_fault_here, find_same, fold, make_portable
from plugins.operations.backup import BackupError, SavedDatabase, backup
from plugins.operations.restore import unpack
from tests.install import windows

ROOT = Path(__file__).parents[2]
MAY_USE = {
    "agent/tools/child_process.py": {"os.killpg"},
    "agent/tools/limited.py": {"resource"},
    "bot/process.py": {"uvloop", "socket.AF_UNIX", "add_signal_handler"},
    "bot/data_folder.py": {"fcntl", "os.O_DIRECTORY"},
    "channels/line_streams.py": {"add_reader", "select.PIPE_BUF", "select.POLLOUT", "select.poll"},
    "channels/listening.py": {"resource"},
    "channels/readiness.py": {"add_reader"},
    "memory/record/folders.py": {"dir_fd"},
    "plugins/operations/audit.py": {"os.geteuid"},
    "plugins/operations/service.py": {"os.geteuid"},
    "plugins/shell/box.py": {"add_reader"},
}
"""Modules that check first whether the system has the function, or that are disabled without it."""


def _used(tree: ast.AST) -> Iterator[str]:
    """Yield the names in a module that Windows does not have."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (n.name for n in names if n.name.split(".")[0] in windows.NO_MODULES)
            case ast.ImportFrom(module=str(module), names=names):
                if module.split(".")[0] in windows.NO_MODULES:
                    yield module
                lacking = windows.NO_NAMES.get(module, ())
                yield from (f"{module}.{n.name}" for n in names if n.name in lacking)
            case ast.Attribute(value=ast.Name(id=module), attr=name) if (
                name in windows.NO_NAMES.get(module, ())
            ):
                yield f"{module}.{name}"
            case ast.Attribute(attr=name) if name in windows.NO_LOOP:
                yield name
            case ast.keyword(arg=str(name)) if name.endswith("dir_fd"):
                yield "dir_fd"


@cache
def _files() -> list[Path]:
    folders = ("agent", "bot", "channels", "memory", "plugins")
    return [ROOT / "main.py", *(one for name in folders for one in (ROOT / name).rglob("*.py"))]


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def test_only_modules_that_ask_first_use_what_windows_lacks() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for file in _files():
        for name in _used(_tree(file)):
            found[file.relative_to(ROOT).as_posix()].add(name)
    assert dict(found) == MAY_USE


def test_only_one_module_locks_files() -> None:
    locking = {
        file.relative_to(ROOT).as_posix()
        for file in _files()
        for node in ast.walk(_tree(file))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and {"filelock", "fcntl", "msvcrt"}
        & {getattr(node, "module", None), *(alias.name for alias in node.names)}
    }
    assert locking == {"bot/data_folder.py"}


_PIECES = (
    *("con", "NUL", "aux", "com1", "LPT9", "COM¹", "conin$", "notes", "a", "É", "ß", "日本"),
    *(".", "..", " ", "  ", "...", ":", "C:", "\\", "/", "?", "*", '"', "<", ">", "|", "\t", "\0"),
    *(".txt", ".tar.gz", "-", "_", "~", "%", "\U0001f600", "\ud800", "x" * 120),
)


def _names(seed: int, count: int = 3_000) -> Iterator[str]:
    chance = random.Random(seed)
    yield from _PIECES
    for _ in range(count):
        yield "".join(chance.choices(_PIECES, k=chance.randint(1, 4)))


def test_a_name_that_was_made_portable_is_one_on_every_system() -> None:
    for name in _names(1):
        made = make_portable(name)
        assert not windows.is_ill_named(made), (name, made)
        assert make_portable(made) == made, name
        if len(made) < 200:
            assert not find_fault(made), (name, made)
        if not find_fault(name):
            assert made == name
            assert not windows.is_ill_named(name)


def test_names_that_the_bot_gives_are_portable() -> None:
    for name in _names(2):
        for given in (safe_name(name), file_name(name)):
            assert not find_fault(given), (name, given)
            assert not windows.is_ill_named(given), (name, given)


def test_chats_whose_names_differ_only_in_case_have_folders_that_differ_in_more() -> None:
    folders: dict[str, Address] = {}
    chance = random.Random(3)
    for name in _names(4, 1_000):
        for chat in {name, name.upper(), name.lower(), name.title()}:
            clean = chat.encode("utf-8", "ignore").decode() or "x"
            address = Address(chance.choice(("web", "pipe")), clean)
            audience = key_of(address).audience
            assert not find_fault(audience), (chat, audience)
            before = folders.setdefault(fold(audience), address)
            assert before == address, (chat, audience)


@pytest.mark.parametrize("must_write", [True, False])
def test_a_path_that_means_something_else_on_windows_is_refused_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, must_write: bool
) -> None:
    paths = ("files/a:b", "C:notes.txt", "files/CON", "files/nul.txt", "files/x.", "files/x /y")
    for path in paths:
        if "/" in path or not must_write:
            assert resolve(tmp_path, path, must_write=must_write), "elsewhere it is a plain name"
    monkeypatch.setattr(keys, "IS_STRICT", True)

    for path in paths:
        with pytest.raises(ToolError, match=r"can't be the name of a file on Windows: "):
            resolve(tmp_path, path, must_write=must_write)
    assert find_fault_here(["files", "notes.txt"]) == ""


def test_a_backup_with_a_name_that_is_none_on_windows_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    (data / "audiences/web-main/files").mkdir(parents=True)
    (data / "audiences/web-main/files/nul .txt").write_text("x")
    backup(data, tmp_path / "one.tar.gz", SavedDatabase("parley.sqlite3", lambda _: None), "0.3.0")
    monkeypatch.setattr(keys, "IS_STRICT", True)
    (tmp_path / "new").mkdir()
    with pytest.raises(BackupError, match=r"'audiences/web-main/files/nul \.txt', which can't be"):
        unpack(tmp_path / "one.tar.gz", tmp_path / "new")


def test_names_that_some_disk_takes_for_one_are_found() -> None:
    assert find_same("files/A.txt", ["files/a.txt"]) == "files/a.txt"
    assert find_same("files/É", ["files/e\u0301", "x"]) == "files/e\u0301"
    assert find_same("files/a", ["files/a", "files/b"]) == ""
