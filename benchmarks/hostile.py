"""The behaviour of the bot when somebody means harm: each family of attempts, with its bound.

python -m benchmarks.hostile                 all families, some minutes
python -m benchmarks.hostile --short         a few of each, for CI
python -m benchmarks.hostile patterns texts  these alone

A bot that is attacked runs as a process of its own, under limits of memory, files and time; so does
what parses a hostile text. All traffic stays on 127.0.0.1. The exit code is 1 where a bound did not
hold.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from agent.tools import ToolError
from agent.tools.page import decode
from agent.tools.text_lines import SECONDS, Search
from benchmarks import (
    damaged_files,
    half_open,
    hostile_endpoint,
    hostile_events,
    hostile_files,
    hostile_mail,
    hostile_parsing,
    hostile_requests,
    hostile_results,
    loop_held,
)
from tests.hostile.parsers import PARSERS
from tests.hostile.texts import TEXTS
from tests.whole.process import MAIN

DAY = 86_400
LONGEST_HELD = 1.0
"""Seconds for which no answer may hold the event loop, even on a busy machine."""
PATTERNS = (
    r"(?:a{65535}){65535}",
    r"(?:(?:a{9999}){9999}){9999}",
    r"(a+)+$",
    r"(?:\p{L}{1,5000}){1,5000}",
    r"(((((((((a{20}){20}){20}){20}){20}){20}){20}){20}){20})",
    "(" * 400 + ")" * 400,
    "|".join(f"a{{{n}}}b" for n in range(1, 80)),
)
"""Regular expressions that explode during compilation or search."""
ENCODINGS = ("punycode", "idna", "unicode_escape", "rot13", "zlib", "utf-7", "nonsense", "utf-16")
"""Names that a page may declare as its encoding."""
SHORT_ENDPOINTS = ("no newline", "gzip bomb", "40,000 calls", "redirect elsewhere")
SHORT_TEXTS = ("backticks, growing", "tildes, growing", "a table, wide")
SHORT_SIZE = 60_000
"""Characters of the large texts. A tenth of it exceeds one message at Telegram, too."""
DRAWN_TEXTS = (
    "backticks, a run",
    "quotes, nested",
    "lists, nested",
    "a table, wide",
    "a table of one wide cell",
    "strings in code",
    "bold within bold",
    "lists and quotes, nested",
)
TERSE_TEXTS = tuple(name for name in TEXTS if "terse" in name or "backticks" in name)


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one attempt."""

    family: str
    what: str
    measured: str
    wanted: str
    is_well: bool


Family = Callable[[bool], AsyncIterator[Row]]
"""A function that makes the attempts of a family; few of them if `is_short`."""


async def patterns(is_short: bool) -> AsyncIterator[Row]:
    """Try patterns that the model may ask `grep` to search for."""
    del is_short
    lines = ["a" * 5_000 + "b", "what we said about the plan"] * 20
    wanted = f"{SECONDS + 1} s, nothing in this process"
    for pattern in PATTERNS:
        before, start = _resident(), time.perf_counter()
        said = await _searched(pattern, lines)
        seconds, grown = time.perf_counter() - start, _resident() - before
        is_well = seconds <= SECONDS + 1 and grown < 20
        name = pattern if len(pattern) < 40 else f"{pattern[:36]}…"
        yield Row("patterns", name, f"{seconds:.1f} s, {grown:+d} MB, {said}", wanted, is_well)


async def _searched(pattern: str, lines: Sequence[str]) -> str:
    """Return the result of a search with the same time limit as in `grep`."""
    search = Search(pattern, ignore_case=False)
    try:
        async with asyncio.timeout(SECONDS):
            return await asyncio.to_thread(_hits, search, lines)
    except TimeoutError:
        return "stopped"
    except ToolError as error:
        return "stopped" if "stopped" in str(error) else "refused"
    finally:
        search.end()


def _hits(search: Search, lines: Sequence[str]) -> str:
    with search:
        return f"{len(search.hits(lines))} hits"


async def texts(is_short: bool) -> AsyncIterator[Row]:
    """Try texts in each parser of answers, pages or files: a text ten times as long may take at
    most 15 times the CPU."""
    chosen: dict[str, Iterable[str]] = dict.fromkeys(PARSERS, TEXTS)
    if is_short:
        chosen |= {"the terminal": DRAWN_TEXTS, "the terse tag, streaming": TERSE_TEXTS}
    for parser, names in chosen.items():
        size = hostile_parsing.LARGE
        if is_short and parser != "the terminal":  # tables are linear from 2 KB on
            size = SHORT_SIZE
        costs = await asyncio.to_thread(_costs, parser, names, size)
        bad = [cost for cost in costs if not cost.is_linear]
        worst = bad or [max(costs, key=lambda cost: cost.large or 0)]
        said = f"{len(costs) - len(bad)} of {len(costs)} linear; {'; '.join(map(str, worst[:3]))}"
        yield Row("texts", parser, said, f"all, at most x {hostile_parsing.MOST}", not bad)


def _costs(parser: str, texts: Iterable[str], size: int) -> list[hostile_parsing.Cost]:
    return list(hostile_parsing.measured([(parser, text) for text in texts], size))


async def loop(is_short: bool) -> AsyncIterator[Row]:
    """Measure how long such answers block the event loop, at Telegram and on the page."""
    chosen = [name for name in TEXTS if not is_short or name in SHORT_TEXTS]
    found = await loop_held.measured(chosen, loop_held.SIZES[:1] if is_short else loop_held.SIZES)
    worst = max(found, key=lambda held: held.seconds)
    over = sum(held.seconds > loop_held.AIM for held in found)
    said = f"{worst.seconds * 1e3:.0f} ms ({worst.place}, {worst.text}); {over} over the aim"
    wanted = f"{LONGEST_HELD:g} s; the aim is {loop_held.AIM * 1e3:.0f} ms"
    yield Row("loop", f"{len(found)} hostile answers", said, wanted, worst.seconds < LONGEST_HELD)


async def parsers(is_short: bool) -> AsyncIterator[Row]:
    """Measure the readers of requests and calls in the event loop: the worst 100 KB must take at
    most 100 ms."""
    sizes = hostile_requests.SIZES[: 2 if is_short else 3]
    for row in _read_costs("parsers", hostile_requests.measured(sizes)):
        yield row


async def events(is_short: bool) -> AsyncIterator[Row]:
    """Measure the conversion of each messenger's JSON into events, with the bounds of `parsers`; in
    a thread, since some readers need their own loop."""
    sizes = hostile_requests.SIZES[: 1 if is_short else 3]
    measured = hostile_events.measured(sizes)
    for row in await asyncio.to_thread(list, _read_costs("events", measured)):
        yield row


def _read_costs(family: str, costs: Iterable[hostile_requests.ReadCost]) -> Iterator[Row]:
    logging.getLogger().addHandler(logging.NullHandler())  # log records cost as usual
    for cost in costs:
        what = f"{cost.reader}, {cost.size / 1e3:g} KB"
        shown = " ".join(cost.what.split())[:60]
        said = f"{cost.seconds * 1e3:.0f} ms ({shown})"
        yield Row(family, what, said, f"{cost.most * 1e3:g} ms for each 100 KB", cost.is_well)


async def mails(is_short: bool) -> AsyncIterator[Row]:
    """Measure the reader of a mail's bytes, which runs in its own process."""
    for row in _read_costs("mails", hostile_mail.measured(is_short=is_short)):
        yield row


async def results(is_short: bool) -> AsyncIterator[Row]:
    """Measure results of MCP servers: the reading of their bytes, and a megabyte through the whole
    bot."""
    sizes = hostile_requests.SIZES[: 2 if is_short else 3]
    for row in _read_costs("results", hostile_results.messages(sizes)):
        yield row
    for way in hostile_results.WAYS:
        texts = tuple(hostile_results.TEXTS)[: 1 if is_short else None]
        found = await hostile_results.results([way], texts)
        worst = max(found, key=lambda one: one.cpu)
        held = max(one.held for one in found)
        said = f"{worst.cpu:.2f} s ({worst.text}); the loop was held for {held * 1e3:.0f} ms"
        wanted = f"{hostile_results.MOST:g} s of CPU; {LONGEST_HELD:g} s, the aim is 100 ms"
        is_well = all(one.is_well for one in found) and held < LONGEST_HELD
        yield Row("results", f"1 MB by {way}", said, wanted, is_well)


async def imports(is_short: bool) -> AsyncIterator[Row]:
    """Measure exports of other programs, and documents: a file ten times as large may take 15 times
    the CPU. The short run has only small exports."""
    sizes = (10_000, 100_000) if is_short else hostile_files.SIZES
    documents = () if is_short else hostile_files.documents(sizes)
    for cost in itertools.chain(hostile_files.imports(sizes, 25 if is_short else 3), documents):
        said = f"{cost.small:.2f} s, {cost.large:.2f} s ({cost.what[:60]})"
        wanted = f"at most x {hostile_files.MOST}"
        yield Row("imports", cost.kind, said, wanted, cost.is_well)


async def encodings(is_short: bool) -> AsyncIterator[Row]:
    """Try names that a page may declare as its encoding."""
    content = b"xn--" + b"abcdefgh-" * (20_000 if is_short else 220_000)
    for label in ENCODINGS:
        start = time.perf_counter()
        await asyncio.to_thread(decode, content, label)
        seconds = time.perf_counter() - start
        what = f"{label}, {len(content) / 1e6:.1f} MB"
        yield Row("encodings", what, f"{seconds:.2f} s", "2 s", seconds < 2)


async def answers(is_short: bool) -> AsyncIterator[Row]:
    """Measure model endpoints that answer endlessly, compressed, in one line, or from elsewhere."""
    families = tuple(
        one for one in hostile_endpoint.FAMILIES if not is_short or one.name in SHORT_ENDPOINTS
    )
    async for row in hostile_endpoint.rows(families):
        is_well = bool(row.after) and row.seconds < 60 and not row.elsewhere
        said = f"{row.seconds:.1f} s, {row.peak} MB, then “{row.after[:40]}”"
        wanted = "a sentence, under 1 GB, and the next message works"
        yield Row("answers", row.family, said, wanted, is_well)


async def connections(is_short: bool) -> AsyncIterator[Row]:
    """Measure connections that never send a request."""
    run = half_open.half_open
    outcome = await asyncio.to_thread(run, 1_100, 4.0 if is_short else 20.0)
    slowest = max(outcome.page or float("inf"), outcome.pipe or float("inf"))
    is_well = slowest < half_open.PATIENCE and outcome.logged < 100_000
    line = outcome.line
    yield Row("connections", line.what, line.value, line.target, is_well)


async def files(is_short: bool) -> AsyncIterator[Row]:
    """Try files that were damaged: flipped, cut, zeroed, emptied, by seed."""
    kinds = list(damaged_files.KINDS)
    dice = random.Random(7)
    chosen = dice.sample(kinds, 3) if is_short else kinds
    with tempfile.TemporaryDirectory() as folder:
        healthy = Path(folder)
        await damaged_files.lived_in(healthy)
        each = 1 if is_short else 3
        for kind in chosen:
            (row,) = await asyncio.to_thread(damaged_files.damaged, healthy, each, 1, [kind])
            said = (
                f"{row.tries} tries: {row.starts} starts, {row.sentences} sentences, "
                f"{row.tracebacks} tracebacks, {row.silent} silent losses"
            )
            yield Row("files", kind, said, "no traceback, nothing lost unsaid", row.is_well)


async def clocks(is_short: bool) -> AsyncIterator[Row]:
    """Try a start with a wrong clock: it must delete nothing."""
    with tempfile.TemporaryDirectory() as folder:
        healthy = Path(folder)
        await damaged_files.lived_in(healthy)
        for days in (40,) if is_short else (8, 40, 4_000, -40):
            before, left = await asyncio.to_thread(_at_other_time, healthy, days)
            said = f"{left} of {before} messages are there"
            yield Row("clocks", f"{days:+,} days", said, "all of them", left >= before > 0)


def _at_other_time(healthy: Path, days: int) -> tuple[int, int]:
    """Return the number of messages before and after a start with a clock that is off by that many
    days."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        shutil.copytree(healthy, folder)
        before = _messages(folder)
        moved = (
            "import runpy, sys, time\n"
            "now = time.time\n"
            f"time.time = lambda: now() + {days * DAY}\n"
            "sys.argv = sys.argv[1:]\n"
            "sys.path.insert(0, sys.argv[0].rpartition('/')[0])\n"
            "runpy.run_path(sys.argv[0], run_name='__main__')\n"
        )
        arguments = (str(MAIN), "--config", str(folder / "config.json"))
        subprocess.run(
            [sys.executable, "-c", moved, *arguments, "--data", str(folder / "data"), "--jsonl"],
            input='{"text": "/status"}\n',
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return before, _messages(folder)


def _messages(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "data" / "parley.db")) as database:
        ((count,),) = database.execute("SELECT count(*) FROM message")
    return int(count)


def _resident() -> int:
    """Return the peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


FAMILIES: dict[str, Family] = {
    "patterns": patterns,
    "texts": texts,
    "parsers": parsers,
    "events": events,
    "mails": mails,
    "results": results,
    "imports": imports,
    "encodings": encodings,
    "clocks": clocks,
    "files": files,
    "answers": answers,
    "connections": connections,
    "loop": loop,
}


def as_line(row: Row) -> str:
    """Return a row of the table."""
    verdict = "" if row.is_well else "**"
    return f"| {row.family} | `{row.what}` | {verdict}{row.measured}{verdict} | {row.wanted} |"


async def _run(names: Sequence[str], is_short: bool) -> int:
    print("| family | attempt | what happened | bound |\n|---|---|---|---|")
    count = failed = 0
    for name in names:
        async for row in FAMILIES[name](is_short):
            print(as_line(row), flush=True)
            count, failed = count + 1, failed + (not row.is_well)
    print(f"\n{count} attempts; in {failed} of them a bound did not hold.")
    return int(failed > 0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("family", nargs="*", choices=[*FAMILIES, []], help="these alone")
    parser.add_argument("--short", action="store_true", help="a few attempts of each")
    options = parser.parse_args()
    return asyncio.run(_run(options.family or list(FAMILIES), options.short))


if __name__ == "__main__":
    sys.exit(main())
