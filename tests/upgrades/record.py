"""Make the data of a release, by talking to it: `python -m tests.upgrades.record COMMIT`.

The backup that this commit's own `main.py backup` makes afterwards is beside this file, named after
its version and the schema of its database: `0.2.0-schema-44.tar.gz`. The highest schema of a
version is that of its release; lower ones are of programs on the way there, as people had them who
followed the repository. The tests bring each into today's version. Record a release once, with its
own code.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import closing
from functools import partial
from pathlib import Path

from tests.fakes.openai_server import Answer, Call, Hang, OpenAIServer, Received, Say
from tests.whole.process import BotProcess

HERE = Path(__file__).parent
UNANSWERED = "Is this answered after the upgrade?"
"""The last message: the release is killed during its model request."""
TALK = (
    *("My dog is called Rufus.", "Rufus likes the lake at Prien.", "What is 6 * 7?"),
    *("/context pin t1", "/config agent_max_context_turns 8"),
    *(
        f"Fact number {number}: the code of door {number} is {number * 1111}."
        for number in range(9)
    ),
    *("/context drop t10", "/context compact", "/context undo", "Thanks, that was all.", "/undo"),
    *("Where does Rufus like to swim?", "/retry", "/title Rufus and the doors"),
    *("/btw How deep is the lake?", "/remind in 400 days water the plants"),
    *("/jobs add every weekday 8:00 Say good morning", "/context summary", "/export"),
)


def answer(request: Received, is_last: asyncio.Event) -> Answer:
    """Return the model's answer to a question, a tool's result, or a request for a summary."""
    last = request.body["messages"][-1]
    text = str(last["content"])
    if UNANSWERED in text:
        is_last.set()
        return Hang()
    if "6 * 7" in text and last["role"] == "user" and request.body.get("tools"):
        return Say(calls=(Call("calculate", '{"expression": "6 * 7"}', "call_1"),))
    return Say("Rufus is a dog. " + " ".join(text.split()[:12]))


async def talk(main: Path, folder: Path) -> None:
    """Send the talk to a release, and kill it during the model request for the last question."""
    (folder / "config.json").write_text(json.dumps({"model": "gpt-4o-mini"}))
    is_last = asyncio.Event()
    async with OpenAIServer(partial(answer, is_last=is_last)) as endpoint:
        environ = {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": endpoint.base_url}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(main), "--jsonl", "--data", "data", "--config", "config.json"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=folder,
            env=os.environ | environ,
        )
        bot = BotProcess(process)
        for line in TALK:
            reply = await bot.says(line)
            sys.stdout.write(f"> {line}\n{str(reply.get('text'))[:160]}\n")
        await bot.tell(UNANSWERED, id="last")
        await is_last.wait()
        await bot.kill()


def list_recorded() -> list[Path]:
    """List the files of all versions, the oldest first."""
    return sorted(HERE.glob("*-schema-*.tar.gz"), key=lambda path: versions_of(path.name))


def versions_of(name: str) -> tuple[tuple[int, ...], int]:
    """Return the version and the schema in a file's name."""
    *version, schema = (int(number) for number in re.findall(r"\d+", name))
    return tuple(version), schema


def own_name(file: Path) -> str:
    """Return the name of a recorded file, by its content."""
    with tempfile.TemporaryDirectory() as work, tarfile.open(file) as saved:
        saved.extractall(work, filter="data")
        version = json.loads(Path(work, ".parley-backup.json").read_text())["parley"]
        with closing(sqlite3.connect(Path(work, "parley.db"))) as database:
            (schema,) = database.execute("PRAGMA user_version").fetchone()
    return f"{version}-schema-{schema}.tar.gz"


def record(commit: str) -> None:
    """Run a release to make its data, and save it with the release's own command."""
    with tempfile.TemporaryDirectory() as work:
        code, folder = Path(work, "code"), Path(work)
        git = ("git", "-C", str(HERE))
        subprocess.run([*git, "worktree", "add", "--detach", code, commit], check=True)
        try:
            asyncio.run(talk(code / "main.py", folder))
            program = (sys.executable, str(code / "main.py"), "--data", "data")
            subprocess.run(
                [*program, "backup", "made.tar.gz"], check=True, cwd=folder, stdin=DEVNULL
            )
            shutil.copyfile(folder / "made.tar.gz", HERE / own_name(folder / "made.tar.gz"))
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", code], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    record(parser.parse_args().commit)
