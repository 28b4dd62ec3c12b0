"""Make the data of a release, by talking to it: `python -m tests.upgrades.record COMMIT NAME`.

What that commit's own `main.py backup` saves afterwards stands beside this file, as `NAME.tar.gz`.
It is done once for each release, with the code of that release; the tests bring it into today's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from functools import partial
from pathlib import Path

from tests.fakes.openai_server import Answer, Call, Hang, OpenAIServer, Received, Say
from tests.whole.process import BotProcess

HERE = Path(__file__).parent
UNANSWERED = "Is this answered after the upgrade?"
"""The last message: the release was killed while the model was asked."""
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
    """Return what the model says to a question, a tool's result, or a request for a summary."""
    last = request.body["messages"][-1]
    text = str(last["content"])
    if UNANSWERED in text:
        is_last.set()
        return Hang()
    if "6 * 7" in text and last["role"] == "user" and request.body.get("tools"):
        return Say(calls=(Call("calculate", '{"expression": "6 * 7"}', "call_1"),))
    return Say("Rufus is a dog. " + " ".join(text.split()[:12]))


async def talk(main: Path, folder: Path) -> None:
    """Say all of it to a release, and kill it while it thinks about the last question."""
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


def record(commit: str, name: str) -> None:
    """Let a release make its data, and save it with its own command."""
    with tempfile.TemporaryDirectory() as work:
        code, folder = Path(work, "code"), Path(work)
        git = ("git", "-C", str(HERE))
        subprocess.run([*git, "worktree", "add", "--detach", code, commit], check=True)
        try:
            asyncio.run(talk(code / "main.py", folder))
            program = (sys.executable, str(code / "main.py"), "--data", "data")
            subprocess.run(
                [*program, "backup", f"{name}.tar.gz"], check=True, cwd=folder, stdin=DEVNULL
            )
            shutil.move(folder / f"{name}.tar.gz", HERE / f"{name}.tar.gz")
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", code], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("name")
    options = parser.parse_args()
    record(options.commit, options.name)
