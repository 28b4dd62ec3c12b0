"""Tests with 1,000 random sequences: the files equal those of a model of the tree that records the
whole past."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from plugins.file_versions.archive import Running, VersionArchive
from plugins.file_versions.keeper import ChangeRow, FileStep, find_end, find_leaving

NAMES = ("files/a.txt", "files/b.txt", "files/d/c.txt")
MOST = 1_000_000
MAIN, OTHER = "pipe/main", "pipe/other"
SEQUENCES, STEPS = 1_000, 8
Tree = dict[str, str]


class Happened:
    """A change of one file by the chat's tools, with its turn, or by others (None)."""

    def __init__(self, path: str, before: str, after: str, turn: tuple[str, int] | None) -> None:
        self.path, self.before, self.after, self.turn = path, before, after, turn


class Branch:
    """A branch: the turns in its context, the newest turn, and its beginning; `left` is the number
    of changes before the chat left it."""

    def __init__(self, key: str, parent: Branch | None = None, turn: int = 0) -> None:
        self.key, self.parent, self.turn = key, parent, turn
        self.newest, self.undone, self.left = turn, list[int](), 0
        self.view: list[int] = [n for n in parent.view if n <= turn] if parent else []

    def line(self, turn: int = 1 << 60) -> list[tuple[str, int]]:
        above = self.parent.line(min(turn, self.turn)) if self.parent else []
        return [(self.key, turn), *above]

    def owner(self, turn: int) -> Branch:
        return self.parent.owner(turn) if self.parent and turn <= self.turn else self


class World:
    """A chat with real files, and a model beside it that records all changes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random, self.folder = random.Random(seed), folder
        self.workspace, self.tree, self.past = folder / "audience", Tree(), list[Happened]()
        self.archive = VersionArchive(folder / "versions", self.workspace)
        self.here = Branch(MAIN)
        self.branches = [self.here]
        self.ends: dict[tuple[str, int], int] = {(MAIN, 0): 0}
        self.restores: dict[str, tuple[int, list[str]]] = {}
        self.count = 0

    # --- changes -----------------------------------------------------------------------------

    def turn(self) -> None:
        """Run a turn in which tools write, or a command runs; a crash may interrupt it."""
        branch = self.here
        branch.newest += 1
        branch.view.append(branch.newest)
        branch.undone.clear()
        for _ in range(self.random.randrange(3)):
            self.tool((branch.key, branch.newest), branch.key, branch.newest)
        self.ends[branch.key, branch.newest] = len(self.past)

    def tool(self, turn: tuple[str, int] | None, key: str, number: int) -> None:
        narrow = self.random.random() < 0.5
        path = self.random.choice(NAMES)
        running = Running(key, number, "tool", (path,) if narrow else None)
        name = self.archive.begin(running, MOST)
        changes = [(path, self.words())] if narrow else self.command()
        self.change(changes, turn)
        if self.random.random() < 0.15:
            self.restart()  # in the middle of the tool
        else:
            self.archive.finish(name, MOST)

    def command(self) -> list[tuple[str, str]]:
        """Return some files that are written, deleted and moved; "" deletes."""
        one, two = self.random.sample(NAMES, 2)
        moved = [(two, self.tree[one]), (one, "")] if one in self.tree else []
        return self.random.choice([moved, [(one, "")], [(one, self.words()), (two, self.words())]])

    def person(self) -> None:
        self.change([(self.random.choice(NAMES), self.random.choice([self.words(), ""]))], None)

    def other_chat(self) -> None:
        self.tool(None, OTHER, 1)

    def words(self) -> str:
        self.count += 1
        return self.random.choice(["same", f"text {self.count}"])

    def change(self, changes: Iterable[tuple[str, str]], turn: tuple[str, int] | None) -> None:
        for path, content in changes:
            put(self.workspace / path, content)
            before = self.tree.pop(path, "")
            if content:
                self.tree[path] = content
            if before != content:
                self.past.append(Happened(path, before, content, turn))

    def restart(self) -> None:
        self.archive = VersionArchive(self.folder / "versions", self.workspace)
        self.archive.finish("", MOST)  # which finds the remains of a crash

    # --- branches of the conversation ----------------------------------------------------------

    def undo(self) -> None:
        if not self.here.view:
            return
        self.here.undone.append(self.here.view.pop())
        self.offer(max(self.here.view, default=self.here.undone[-1] - 1))

    def redo(self) -> None:
        if self.here.undone:
            self.here.view.append(self.here.undone.pop())
            self.offer(self.here.view[-1])

    def fork(self, turn: int | None = None) -> None:
        there = self.here.newest if turn is None else turn
        made = Branch(f"{MAIN}//{len(self.branches) + 1}", self.here.owner(there), there)
        made.view = [n for n in self.here.view if n <= there]
        self.branches.append(made)
        self.go(made)
        self.offer(there)

    def edit(self) -> None:
        if self.here.view:
            self.fork(self.random.choice(self.here.view) - 1)
            self.turn()

    def switch(self) -> None:
        if len(self.branches) > 1:
            self.go(self.random.choice([one for one in self.branches if one is not self.here]))
            self.offer(None)

    def go(self, branch: Branch) -> None:
        self.here.left = len(self.past)
        self.here = branch
        rows = self.rows()
        if rows and rows[-1].conversation != branch.key:
            self.archive.mark(Running(branch.key, branch.newest))

    def rows(self) -> list[ChangeRow]:
        return [row for row in self.archive.rows() if row.conversation != OTHER]

    # --- restoring -------------------------------------------------------------------------------

    def offer(self, turn: int | None) -> None:
        """Restore the offered files, with or without the second confirmation, or ignore the
        offer."""
        branch, rows = self.here, self.rows()
        if turn is None:
            since = find_leaving(rows, branch.key, branch.line()[1:])
            began = branch.left
        else:
            since = find_end(rows, branch.line(turn))
            began = self.ends.get((branch.owner(turn).key, turn), 0)
        self.restore(rows, since, began)

    def any_turn(self) -> None:
        self.offer(self.random.randint(0, self.here.newest))

    def restore(
        self, rows: list[ChangeRow], since: int, began: int, paths: list[str] | None = None
    ) -> None:
        steps = self.archive.plan(rows, since, set(filter(self.is_kept, rows)), paths)
        expected = self.expect(began, paths)
        assert {step.path: (self.read(step), step.needs_yes) for step in steps} == expected
        answer = self.random.choice(["no", "yes", "all"])
        chosen = [s for s in steps if answer == "all" or (answer == "yes" and not s.needs_yes)]
        if not chosen:
            return
        running = Running(self.here.key, self.here.newest, "restore", tuple(s.path for s in chosen))
        began = len(self.past)
        assert self.archive.restore(chosen, running, MOST) == {}
        for step in chosen:
            before, after = self.tree.pop(step.path, ""), expected[step.path][0]
            if after:
                self.tree[step.path] = after
            self.past.append(Happened(step.path, before, after, (self.here.key, -1)))
        self.restores[self.here.key] = (began, [step.path for step in chosen])

    def undo_restore(self) -> None:
        mine = [r for r in self.rows() if r.kind == "restore" and r.conversation == self.here.key]
        assert bool(mine) == (self.here.key in self.restores)
        if mine:
            began, paths = self.restores[self.here.key]
            self.restore(self.rows(), mine[-1].batch - 1, began, paths)

    def read(self, step: FileStep) -> str:
        return (self.folder / "versions" / step.wanted).read_text() if step.wanted else ""

    def is_kept(self, row: ChangeRow) -> bool:
        return self.holds((row.conversation, row.turn))

    def holds(self, turn: tuple[str, int]) -> bool:
        return turn[1] in self.here.view and turn[1] <= dict(self.here.line()).get(turn[0], -1)

    def expect(self, began: int, paths: list[str] | None) -> dict[str, tuple[str, bool]]:
        """Return the files that differ from that time, and whether others changed them."""
        expected = {}
        for path in NAMES if paths is None else paths:
            mine = [one for one in self.past[began:] if one.path == path and one.turn]
            if not mine or mine[0].before == self.tree.get(path, ""):
                continue
            found = [*(one.before for one in mine[1:]), self.tree.get(path, "")]
            is_foreign = [one.after for one in mine] != found
            is_kept = any(one.turn and self.holds(one.turn) for one in mine)
            expected[path] = (mine[0].before, is_foreign or is_kept)
        return expected

    def check(self) -> None:
        files = self.workspace / "files"
        places = [(place, name) for place, _, names in os.walk(files) for name in names]
        there = [Path(place, name) for place, name in places]
        real = {path.relative_to(self.workspace).as_posix(): path.read_text() for path in there}
        assert real == self.tree


def put(file: Path, content: str) -> None:
    """Write a file in place, as a command does; "" deletes it."""
    if content:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    else:
        file.unlink(missing_ok=True)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder in memory, if the system has one: a disk would take most of the time."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else tmp_path
    with TemporaryDirectory(dir=place) as made:
        yield Path(made)


def test_files_are_as_a_model_of_the_tree_says(folder: Path) -> None:
    for seed in range(SEQUENCES):
        world = World(folder / str(seed), seed)
        acts: list[Callable[[], None]] = [
            *[world.turn] * 6,
            *[world.undo] * 3,
            *[world.switch] * 2,
            *(world.redo, world.fork, world.edit, world.person, world.other_chat),
            *(world.restart, world.any_turn, world.undo_restore),
        ]
        done: list[str] = []
        try:
            for _ in range(STEPS):
                act = world.random.choice(acts)
                done.append(act.__name__)
                act()
                world.check()
        except AssertionError as error:
            raise AssertionError(f"sequence {seed}: {', '.join(done)}") from error
        shutil.rmtree(folder / str(seed), ignore_errors=True)
