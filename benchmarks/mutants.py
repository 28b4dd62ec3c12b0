"""Mutation test: how many small mistakes in the core do the fast tests notice?

    python -m benchmarks.mutants --save before.json     # choose mutants, try them, keep the outcome
    python -m benchmarks.mutants --like before.json     # the same mutants, other tests

A mutant is one function with one changed operator, constant, condition, return or call. In one
pytest process the tests are collected once. A first child process runs them with a mark in front of
each statement that is to be changed, which tells the tests that reach it. Then a child process for
each mutant replaces the function's code by the mutant's, and runs the tests that reach it, the
quickest first, until one fails. Nothing is written to the source.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import importlib
import json
import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).parents[1]
TARGETS = ("memory", "agent/loop.py", "agent/models", "bot/delivery.py", "bot/turns.py")
_MOST = 150  # tests that are run for a mutant at most
_SECONDS = 20.0  # seconds for these tests; a longer child hangs, and a hang counts as noticed
_HANG = 60.0

_SWAPPED: dict[type, type] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Mutant(NamedTuple):
    """A change of the code: the `number`th change of this kind in a function of a file."""

    file: str
    function: str
    kind: str
    number: int


class Change(NamedTuple):
    """A place that can be changed: its node, and a function that makes the change in place."""

    kind: str
    node: ast.AST


def list_changes(function: ast.AST) -> Iterator[Change]:
    """Yield the changes that are possible in a function, in a fixed order."""
    for node in ast.walk(function):
        match node:
            case ast.Compare(ops=[operator]) if type(operator) in _SWAPPED:
                yield Change("comparison", node)
            case ast.BinOp(op=operator) if type(operator) in _SWAPPED:
                yield Change("arithmetic", node)
            case ast.BoolOp():
                yield Change("and/or", node)
            case ast.UnaryOp(op=ast.Not()):
                yield Change("not", node)
            case ast.If() | ast.IfExp() | ast.While():
                yield Change("condition", node)
            case ast.Constant(value=bool() | int()):
                yield Change("constant", node)
            case ast.Return(value=ast.expr()):
                yield Change("return", node)
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield Change("call", node)


def apply(kind: str, node: Any) -> None:
    """Make the change of this kind to a node."""
    match kind:
        case "comparison":
            node.ops = [_SWAPPED[type(node.ops[0])]()]
        case "arithmetic" | "and/or":
            node.op = _SWAPPED[type(node.op)]()
        case "not":
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
        case "condition":
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case "constant":
            is_flag = isinstance(node.value, bool)
            node.value = not node.value if is_flag else node.value + 1
        case "return":
            node.value = ast.Constant(None)
        case "call":
            node.value = ast.Constant(None)


def find_functions(tree: ast.Module) -> dict[str, ast.AST]:
    """Map the qualified names of functions and methods to their nodes; nested functions are part of
    the enclosing one."""
    found: dict[str, ast.AST] = {}

    def look(body: Sequence[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                look(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[prefix + node.name] = node

    look(tree.body, "")
    return found


def choose(count: int, seed: int) -> list[Mutant]:
    """Choose mutants at random among all that are possible."""
    every: list[Mutant] = []
    for target in TARGETS:
        place = ROOT / target
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            for name, function in find_functions(ast.parse(path.read_text())).items():
                numbers: defaultdict[str, int] = defaultdict(int)
                for change in list_changes(function):
                    file = str(path.relative_to(ROOT))
                    every.append(Mutant(file, name, change.kind, numbers[change.kind]))
                    numbers[change.kind] += 1
    return random.Random(seed).sample(every, count)


class Source:
    """A module's source, from which code with changes is compiled."""

    def __init__(self, file: str) -> None:
        self.file, self.tree = file, ast.parse((ROOT / file).read_text())
        self.module = importlib.import_module(file.removesuffix(".py").replace("/", "."))

    def find(self, mutant: Mutant, tree: ast.Module) -> tuple[ast.AST, ast.AST] | None:
        """Return the function and the node to change; None if the source no longer has it."""
        function = find_functions(tree).get(mutant.function)
        if function is None:
            return None
        same = [c.node for c in list_changes(function) if c.kind == mutant.kind]
        return (function, same[mutant.number]) if mutant.number < len(same) else None

    def compile(self, tree: ast.Module, function: str) -> CodeType:
        """Return the code of a function in a changed tree."""
        code = compile(ast.fix_missing_locations(tree), str(self.module.__file__), "exec")
        return _code_of(code, function)

    def line(self, mutant: Mutant) -> int:
        found = self.find(mutant, self.tree)
        return int(getattr(found[1], "lineno", 0)) if found else 0


def _code_of(code: CodeType, name: str) -> CodeType:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == name:
                return constant
            if name.startswith(f"{constant.co_qualname}."):
                return _code_of(constant, name)
    raise LookupError(name)


def replace_code(source: Source, function: str, code: CodeType) -> None:
    """Give all function objects of this name in the module the new code."""
    for found in gc.get_objects():
        if isinstance(found, FunctionType) and found.__qualname__ == function:
            old = found.__code__
            if old.co_filename == code.co_filename and old.co_freevars == code.co_freevars:
                found.__code__ = code


class Marks:
    """The marks in front of statements that are to be changed, and a record of those reached."""

    def __init__(self, mutants: Sequence[Mutant], sources: dict[str, Source]) -> None:
        self.passed: set[int] = set()
        vars(sys.modules["builtins"])["__passed__"] = self.passed.add
        by_function: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for number, mutant in enumerate(mutants):
            by_function[mutant.file, mutant.function].append(number)
        for (file, name), numbers in by_function.items():
            source, tree = sources[file], copy.deepcopy(sources[file].tree)
            found = [(n, source.find(mutants[n], tree)) for n in numbers]
            for number, places in found:
                if places is not None:
                    _mark(*places, number)
            if any(places for _, places in found):
                replace_code(source, name, source.compile(tree, name))


def _mark(function: ast.AST, node: ast.AST, number: int) -> None:
    """Put a call in front of the statement that holds a node."""
    for holder in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(holder, field, None)
            if not isinstance(body, list):
                continue
            for place, statement in enumerate(body):
                is_inner = any(n is node for s in _blocks(statement) for n in ast.walk(s))
                if not is_inner and any(inner is node for inner in ast.walk(statement)):
                    call = ast.parse(f"__passed__({number})").body[0]
                    body.insert(place, ast.copy_location(call, statement))
                    return


def _blocks(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statements inside a statement, which have marks of their own."""
    for field in ("body", "orelse", "finalbody"):
        yield from getattr(statement, field, ())
    for handler in getattr(statement, "handlers", ()):
        yield from handler.body
    for case in getattr(statement, "cases", ()):
        yield from case.body


def run(item: pytest.Item, after: pytest.Item | None) -> bool:
    """Run a test; return whether it passed."""
    reports = runtestprotocol(item, log=False, nextitem=after)
    return not any(report.failed for report in reports)


class Runner:
    """A pytest plugin that tries the mutants instead of running the tests."""

    def __init__(self, mutants: list[Mutant], jobs: int) -> None:
        self.mutants, self.jobs, self.reached = mutants, jobs, [0] * len(mutants)
        self.caught: dict[int, bool] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.unfreeze()  # conftest.py hides what was imported from gc.get_objects
        self.sources = {m.file: Source(m.file) for m in self.mutants}
        begun = time.monotonic()
        reaching = self._find_tests(session.items)
        self._tell(f"{len(session.items)} tests, {time.monotonic() - begun:.0f} s")
        waiting = [n for n in range(len(self.mutants)) if reaching[n]]
        running: dict[int, tuple[int, float]] = {}
        while waiting or running:
            while waiting and len(running) < self.jobs:
                number = waiting.pop()
                tests = [session.items[i] for _, i in sorted(reaching[number])[:_MOST]]
                self.reached[number] = len(tests)
                running[self._fork(lambda n=number, t=tests: self._try(n, t))] = (
                    number, time.monotonic(),
                )  # fmt: skip
            self._collect(running)
        return True

    def _find_tests(self, items: list[pytest.Item]) -> dict[int, list[tuple[float, int]]]:
        """Map each mutant to the tests that reach it, with the time that each takes."""
        reaching: dict[int, list[tuple[float, int]]] = defaultdict(list)
        files = [ROOT / f".mutants-{os.getpid()}-{job}" for job in range(self.jobs)]
        children = [
            self._fork(lambda j=job, f=file: self._watch(items, range(j, len(items), self.jobs), f))
            for job, file in enumerate(files)
        ]
        for child, file in zip(children, files, strict=True):
            os.waitpid(child, 0)
            for line in file.read_text().splitlines():
                place, seconds, passed = json.loads(line)
                for number in passed:
                    reaching[number].append((seconds, place))
            file.unlink()
        return reaching

    def _watch(self, items: list[pytest.Item], places: range, file: Path) -> bool:
        """Run tests with marks; write the marks each test reached, and its time."""
        marks = Marks(self.mutants, self.sources)
        with file.open("w") as found:
            for place in places:
                marks.passed.clear()
                begun = time.monotonic()
                if run(items[place], None):
                    row = (place, time.monotonic() - begun, sorted(marks.passed))
                    found.write(json.dumps(row) + "\n")
        return True

    def _try(self, number: int, tests: list[pytest.Item]) -> bool:
        """Return whether all of the tests pass with a mutant."""
        mutant = self.mutants[number]
        source = self.sources[mutant.file]
        places = source.find(mutant, source.tree)
        assert places is not None
        apply(mutant.kind, places[1])
        replace_code(source, mutant.function, source.compile(source.tree, mutant.function))
        deadline = time.monotonic() + _SECONDS
        for test, after in zip(tests, [*tests[1:], None], strict=True):
            if not run(test, after):
                return False
            if time.monotonic() > deadline:
                break
        return True

    def _fork(self, work: Any) -> int:
        sys.stdout.flush()
        child = os.fork()
        if child:
            return child
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)

    def _collect(self, running: dict[int, tuple[int, float]]) -> None:
        """Record the outcome of children that have ended, and kill those that hang."""
        child, status = os.waitpid(-1, os.WNOHANG)
        if child in running:
            number, _ = running.pop(child)
            self.caught[number] = status != 0
            if len(self.caught) % 25 == 0:
                self._tell(f"{len(self.caught)} tried, {sum(self.caught.values())} caught")
            return
        for pid, (_, begun) in running.items():
            if time.monotonic() - begun > _HANG:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)

    def _tell(self, text: str) -> None:
        os.write(2, f"{text}\n".encode())

    def report(self) -> list[dict[str, Any]]:
        """Return the mutants with the outcome of each."""
        return [
            {
                **mutant._asdict(),
                "line": self.sources[mutant.file].line(mutant),
                "tests": self.reached[number],
                "caught": self.caught.get(number, False),
            }
            for number, mutant in enumerate(self.mutants)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=27)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--save", type=Path, help="write the mutants and their outcome here")
    parser.add_argument("--like", type=Path, help="try the mutants of this file again")
    parser.add_argument("tests", nargs="*", default=["tests"])
    wanted = parser.parse_args()
    before = json.loads(wanted.like.read_text()) if wanted.like else []
    mutants = [Mutant(*(row[name] for name in Mutant._fields)) for row in before]
    runner = Runner(mutants or choose(wanted.count, wanted.seed), wanted.jobs)
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tier", "fast", "--no-summary"]
    pytest.main([*options, *wanted.tests], plugins=[runner])
    rows = runner.report()
    for row in rows:
        if not row["caught"]:
            how = f"{row['tests']} tests" if row["tests"] else "no test reaches it"
            print(f"{row['file']}:{row['line']} {row['function']}: {row['kind']} ({how})")
    caught = sum(row["caught"] for row in rows)
    print(f"{caught} of {len(rows)} mutants caught, {caught / len(rows):.1%}")
    if before:
        lost = [r for r, old in zip(rows, before, strict=True) if old["caught"] and not r["caught"]]
        print(f"before: {sum(row['caught'] for row in before)}; caught before and not now:")
        print(*(f"  {r['file']}:{r['line']} {r['function']}: {r['kind']}" for r in lost), sep="\n")
    if wanted.save:
        wanted.save.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
