"""A whole bot whose daily files are distilled, with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from channels.message import Reply
from memory.keys import ConversationKey
from memory.record import daily
from memory.record.daily import Section
from tests.fakes.openai_server import Answer, Received, Say
from tests.whole.testbot import TestBot

NOW = datetime.now(UTC)
HERE = ConversationKey("pipe/main", "pipe-main")
SETTINGS = {"timezone": "UTC"}

Operations = Sequence[dict[str, Any]]


def distilled_to(*answers: Operations | str) -> Callable[[Received], Answer]:
    """A model that distils to these operations, one list (or raw text) per call, and echoes."""
    left = list(answers)

    def answer(request: Received) -> Answer:
        if not request.is_distilling:
            return Say(f"You said: {request.body['messages'][-1]['content']}")
        said = left.pop(0)
        return Say(said if isinstance(said, str) else json.dumps({"operations": list(said)}))

    return answer


def add(text: str, *sections: str, important: bool = False) -> dict[str, Any]:
    return {"do": "add", "text": text, "from": list(sections or ("S1",)), "important": important}


def change(line: str, text: str, *sections: str) -> dict[str, Any]:
    new = {"line": line, "text": text, "from": list(sections or ("S1",)), "why": "it changed"}
    return {"do": "replace", **new}


def write(
    folder: Path,
    text: str,
    job: int,
    back: int = 0,
    turns: str = "t1 to t3",
    key: ConversationKey = HERE,
) -> str:
    """Put a section into a daily file, this many days ago; return the day."""
    at = NOW - timedelta(days=back)
    daily.append(folder / "data", Section(key, at, turns, text, job))
    return f"{at:%Y-%m-%d}"


def file_of(folder: Path) -> Path:
    return folder / "data" / "audiences" / "pipe-main" / "memory" / "MEMORY.md"


def remembered(folder: Path) -> str:
    file = file_of(folder)
    return file.read_text() if file.exists() else ""


def prompt(bot: TestBot) -> str:
    return str(bot.sent_to_model()[0]["content"])


def commands(reply: Reply) -> list[str]:
    return [action.command for action in reply.actions]


def texts(folder: Path) -> list[str]:
    """Return the facts in the file, without their dates."""
    lines = remembered(folder).splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("- ")]


def summing_up(request: Received) -> Answer:
    """Make summaries repeat everything that they are shown; distil nothing."""
    if request.is_distilling:
        return Say('{"operations": []}')
    last = str(request.body["messages"][-1]["content"])
    return Say(f"Summary: {' '.join(last.split()[:60])}" if request.is_summary else "Well.")
