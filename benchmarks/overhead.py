"""The cost of a message through the whole bot, beside the floor of the same machine.

python -m benchmarks.overhead

The bot runs as in production, `python main.py`, in its own process and with the default settings;
the model has its own process, too, and answers at once. Messages and replies go through the pipe.
CPU is the time that the kernel charged to the bot's process with all its threads, so the work of
the benchmark and of the model is not included. Linux only.

The figures are compared with those that were committed last, `benchmarks/figures.json`; figures
that depend on the machine are compared as a multiple of the floor. Figures that got worse by more
than the usual variation are named, and the program fails. `--write` stores the new ones.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import select
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any
from urllib.parse import urlsplit

from benchmarks import figures

ROOT = Path(__file__).resolve().parent.parent
MODEL = (sys.executable, "-m", "tests.fakes.openai_server")
BOT = (sys.executable, "main.py")
SCRIPTED = (sys.executable, "-m", "benchmarks.scripted_bot")
QUESTION = "What did we say about the plan for this week, and what of it is still to be done?"
CONTEXT = 20
"""Messages that a measured request holds, on average: 15 to 25."""
WARM = 30
"""First messages of a process, which load slow imports; they are not measured."""
BEFORE, COUNTED = 7, 6
"""Turns of a cycle: those that fill the context, and those that are measured. No cut occurs in
between."""
COMMANDS = 50
"""Times that `/context` is requested."""
MESSAGES = 50
"""The number of messages before memory is measured."""
PROMPT = "›".encode()
_SET_FOR_TESTS = ("PYTHONDONTWRITEBYTECODE",)
"""A normal Python stores compiled files, so that only the first start is slower."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The setup of a run: the bot's folder, and the model that answers it."""

    folder: Path
    model: str
    program: tuple[str, ...] = field(default=BOT, kw_only=True)

    @property
    def command(self) -> tuple[str, ...]:
        self.folder.mkdir(exist_ok=True)
        config = self.folder / "config.json"
        config.write_text('{"model": "gpt-4o-mini"}')
        return (*self.program, "--config", str(config), "--data", str(self.folder / "data"))

    @property
    def environ(self) -> dict[str, str]:
        given = {"OPENAI_BASE_URL": self.model, "OPENAI_API_KEY": "none", "TERM": "xterm"}
        kept = {name: value for name, value in os.environ.items() if name not in _SET_FOR_TESTS}
        return {**kept, **given}


@dataclass(frozen=True, slots=True)
class Sample:
    """The cost of one message: CPU of the bot and time from line to line, in milliseconds."""

    cpu: float
    latency: float


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one process, in MB: resident, and proportional where pages are shared."""

    resident: float
    proportional: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table. `target`, `floors` (the multiple of the floor) and `figure` (for the
    comparison with earlier runs) may be empty."""

    what: str
    value: str
    target: str = ""
    floors: str = ""
    figure: float | None = None


def cpu_of(process: subprocess.Popen[bytes]) -> float:
    """Return the CPU milliseconds of a process so far; its clock is the kernel's, to the
    nanosecond."""
    return time.clock_gettime(~process.pid << 3 | 2) * 1e3  # clock_getcpuclockid(3)


def memory_of(process: subprocess.Popen[bytes]) -> Memory:
    rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    sizes = {
        name: int(size) / 1024 for name, size in re.findall(r"^(\w+): +(\d+) kB", rollup, re.M)
    }
    return Memory(sizes["Rss"], sizes["Pss"])


@contextmanager
def running(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the block ends, and yield it. The end of its input stops it, or else a
    signal."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, **how) as process:
        try:
            yield process
            if process.stdin is not None:
                process.stdin.close()
                process.wait(30)
        finally:
            process.kill()


class Pipe:
    """A bot in pipe mode."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._in, self._out = process, process.stdin, process.stdout

    def say(self, text: str, chat: str) -> None:
        self._in.write(json.dumps({"text": text, "chat": chat}).encode() + b"\n")
        self._in.flush()

    def hear(self) -> dict[str, Any]:
        """Return the next reply."""
        while True:
            line: dict[str, Any] = json.loads(self._out.readline())
            if "reply_to" in line:
                return line

    def ask(self, text: str, chat: str) -> dict[str, Any]:
        self.say(text, chat)
        return self.hear()

    def sample(self, chat: str, text: str = QUESTION) -> Sample:
        """Measure one message. Work that the bot does after its reply counts in the next sample."""
        cpu, start = cpu_of(self.process), time.perf_counter()
        reply = self.ask(text, chat)
        latency = (time.perf_counter() - start) * 1e3
        assert reply["turn"] or text != QUESTION, f"this is no answer: {reply['text']}"
        return Sample(cpu_of(self.process) - cpu, latency)


@contextmanager
def piped(setup: Setup) -> Iterator[Pipe]:
    command = (*setup.command, "--jsonl")
    with running(command, env=setup.environ, stdin=subprocess.PIPE) as process:
        yield Pipe(process)


# --- a message ---


def cycle(bot: Pipe, chat: str) -> list[Sample]:
    """Measure messages of a conversation that has just begun or was just cleared."""
    for _ in range(BEFORE):
        bot.ask(QUESTION, chat)
    return [bot.sample(chat) for _ in range(COUNTED)]


def young_and_old(bot: Pipe, cycles: int) -> tuple[list[Sample], list[Sample]]:
    """Take samples of new chats and of the long one by turns, so that noise affects both alike."""
    young, old = [], []
    for number in range(cycles):
        young += cycle(bot, f"young {number}")
        bot.ask("/context clear", "old")
        old += cycle(bot, "old")
    return young, old


@dataclass(frozen=True, slots=True)
class Crowd:
    """Many chats at once: messages per second, CPU milliseconds per message."""

    rate: float
    cpu: float


def crowd(bot: Pipe, chats: int, messages: int) -> Crowd:
    """Measure many chats; each sends its next message as soon as it has its reply."""
    left = {f"crowd {number}": messages for number in range(chats)}
    cpu, start = cpu_of(bot.process), time.perf_counter()
    for chat in left:
        bot.say(QUESTION, chat)
    for _ in range(chats * messages):
        chat = bot.hear()["chat"]
        left[chat] -= 1
        if left[chat]:
            bot.say(QUESTION, chat)
    seconds, used = time.perf_counter() - start, cpu_of(bot.process) - cpu
    return Crowd(chats * messages / seconds, used / (chats * messages))


# --- the floor ---


def floor(setup: Setup, rounds: int = 300) -> Sample:
    """Measure the minimum for any bot: a commit, a request of 20 messages, the reading of an
    answer, and JSON."""
    with closing(sqlite3.connect(setup.folder / "floor.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=wal")
        database.execute("PRAGMA synchronous=full")
        database.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, text TEXT)")
        samples = [_bare(database, setup.model) for _ in range(rounds)]
    return typical(samples)


def _bare(database: sqlite3.Connection, url: str) -> Sample:
    cpu, start = time.process_time(), time.perf_counter()
    messages = [{"role": "user", "content": QUESTION}] * CONTEXT
    text = _answer(url, {"model": "gpt-4o-mini", "messages": messages, "stream": True})
    database.execute("INSERT INTO message (text) VALUES (?)", (text,))
    return Sample((time.process_time() - cpu) * 1e3, (time.perf_counter() - start) * 1e3)


def _answer(url: str, body: Mapping[str, Any]) -> str:
    parts = urlsplit(url)
    content = json.dumps(body).encode()
    head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    head += f"Connection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port or 80)) as connection:
        connection.sendall(head.encode() + content)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    chunks = [json.loads(chunk) for chunk in re.findall(rb"^data: (\{.*)", answer, re.M)]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    return "".join(delta.get("content", "") for delta in deltas)


# --- start and memory ---


class Window:
    """A bot in a terminal of 100 columns."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process, self._terminal = process, terminal

    def wait_for(self, sign: Callable[[bytes], bool]) -> None:
        """Read the output until it satisfies `sign`, which gets everything since this call."""
        drawn = b""
        while not sign(drawn):
            select.select([self._terminal], [], [], 0.1)
            drawn += _available(self._terminal)
            assert self.process.poll() is None, drawn.decode(errors="replace")

    def type(self, line: str) -> None:
        os.write(self._terminal, line.encode() + b"\r")


def _available(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except BlockingIOError:
        return b""


@contextmanager
def windowed(setup: Setup) -> Iterator[Window]:
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    os.set_blocking(terminal, False)
    command = subprocess.Popen(
        setup.command,
        cwd=ROOT,
        env=setup.environ,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    with command as process:
        os.close(inside)
        try:
            yield Window(process, terminal)
        finally:
            process.kill()
            os.close(terminal)


def start_to_prompt(setup: Setup) -> float:
    """Return the seconds until the input line is drawn."""
    start = time.perf_counter()
    with windowed(setup) as window:
        window.wait_for(lambda drawn: PROMPT in drawn)
        return time.perf_counter() - start


def start_to_reply(setup: Setup) -> float:
    """Return the seconds until a first command is answered in pipe mode."""
    start = time.perf_counter()
    with piped(setup) as bot:
        bot.ask("/version", "main")
        return time.perf_counter() - start


def memory_in_pipe(setup: Setup) -> Memory:
    with piped(setup) as bot:
        for _ in range(MESSAGES):
            bot.ask(QUESTION, "main")
        return memory_of(bot.process)


def memory_in_terminal(setup: Setup) -> Memory:
    with windowed(setup) as window:
        window.wait_for(lambda drawn: PROMPT in drawn)
        for number in range(1, MESSAGES + 1):
            window.type(QUESTION)
            window.wait_for(lambda _, number=number: _sent(setup) >= number)  # type: ignore[misc]
        return memory_of(window.process)


def _sent(setup: Setup) -> int:
    """Count the replies that the terminal has shown, by the bot's database."""
    query = "SELECT count(*) FROM outbox WHERE is_sent AND channel = 'terminal'"
    with closing(sqlite3.connect(setup.folder / "data" / "parley.db")) as database:
        (count,) = database.execute(query).fetchone()
    return int(count)


# --- the table ---


def typical(samples: Sequence[Sample]) -> Sample:
    return Sample(median(s.cpu for s in samples), median(s.latency for s in samples))


def of_messages(setup: Setup, wanted: argparse.Namespace) -> Iterator[Line]:
    least = floor(setup)
    yield Line("the floor: CPU", f"{least.cpu:.2f} ms", "", "1")
    yield Line("the floor: time", f"{least.latency:.2f} ms", "", "1")

    def line(what: str, cpu: float, target: str = "") -> Line:
        floors = cpu / least.cpu
        return Line(what, f"{cpu:.2f} ms", target, f"{floors:.1f}", floors)

    with piped(setup) as bot:
        life = [bot.sample("old") for _ in range(wanted.stored // 2)][WARM:]
        young, old = young_and_old(bot, wanted.cycles)
        asked = typical([bot.sample("old", "/context") for _ in range(COMMANDS)])
        many = crowd(bot, wanted.chats, 10)
    new, long = typical(young), typical(old)
    yield line("CPU a message, chat of 20 messages", new.cpu, "7 floors")
    yield line(f"CPU a message, chat of {wanted.stored:,} messages", long.cpu, "7 floors")
    multiple = long.cpu / new.cpu
    yield Line("… as a multiple", f"{multiple:.2f}", "1.3", figure=multiple)
    yield line("CPU a message by the scripted model, without the SDK", scripted(setup, wanted).cpu)
    yield line("CPU a message, mean, with cuts and their summaries", fmean(s.cpu for s in life))
    floors = new.latency / least.latency
    yield Line("time from line to line", f"{new.latency:.1f} ms", "", f"{floors:.1f}", floors)
    floors = asked.latency / least.latency
    yield Line(
        "/context, to its answer", f"{asked.latency:.1f} ms", "3 ms", f"{floors:.1f}", floors
    )
    yield Line(f"{wanted.chats} chats at once", f"{many.rate:.0f} messages/s", "300")
    yield line(f"{wanted.chats} chats at once: CPU a message", many.cpu)


def scripted(setup: Setup, wanted: argparse.Namespace) -> Sample:
    """Measure a message with a model that is a function in the bot's own process."""
    apart = Setup(setup.folder / "scripted", setup.model, program=SCRIPTED)
    with piped(apart) as bot:
        for _ in range(WARM):
            bot.ask(QUESTION, "warm")
        cycles = (cycle(bot, f"young {number}") for number in range(wanted.cycles))
        return typical([sample for one in cycles for sample in one])


def of_process(setup: Setup, wanted: argparse.Namespace) -> Iterator[Line]:
    starts = {
        "start to the prompt in a terminal": start_to_prompt,
        "start to a first reply in pipe mode": start_to_reply,
    }
    for what, measure in starts.items():
        seconds = median(measure(setup) for _ in range(wanted.starts))
        yield Line(what, f"{seconds:.2f} s", "0.3 s")
    modes = {"pipe mode": (memory_in_pipe, 95), "a terminal": (memory_in_terminal, 105)}
    for mode, (weigh, most) in modes.items():
        memory = weigh(setup)
        after = f"after {MESSAGES} messages in {mode}"
        size = memory.resident
        yield Line(f"resident {after}", f"{size:.0f} MB", f"{most} MB", figure=size)
        yield Line(f"proportional {after}", f"{memory.proportional:.0f} MB")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stored", type=int, default=2_000, help="messages of the long chat")
    parser.add_argument("--cycles", type=int, default=20, help=f"of {COUNTED} samples each")
    parser.add_argument("--chats", type=int, default=100, help="that talk at once")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="for the database; where files are temporary")
    parser.add_argument("--write", action="store_true", help="keep these figures")
    return parser.parse_args()


def main() -> None:
    wanted = options()
    measured: dict[str, float] = {}
    print(f"{'':58}{'measured':>14}{'at most':>9}{'x floor':>9}")
    with (
        tempfile.TemporaryDirectory(dir=wanted.folder) as folder,
        running(MODEL) as model,
    ):
        assert model.stdout is not None
        setup = Setup(Path(folder), model.stdout.readline().decode().strip())
        for part in (of_process, of_messages):
            for line in part(setup, wanted):
                print(f"{line.what:58}{line.value:>14}{line.target:>9}{line.floors:>9}", flush=True)
                if line.figure is not None:
                    measured[line.what] = line.figure
    figures.conclude("message", measured, is_kept=wanted.write)


if __name__ == "__main__":
    main()
