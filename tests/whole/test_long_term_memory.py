"""`MEMORY.md`: what is remembered for good, by people and by a model, and taken back."""

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
from tests.whole.house import House, living

NOW = datetime.now(UTC)
HERE = ConversationKey("pipe/main", "pipe-main")
SETTINGS = {"timezone": "UTC"}

Operations = Sequence[dict[str, Any]]


def is_distilling(request: Received) -> bool:
    return "long-term memory of a chat" in str(request.body["messages"][0]["content"])


def distilled_to(*answers: Operations | str) -> Callable[[Received], Answer]:
    """A model that distils to these operations, one list (or raw text) a call; and echoes."""
    left = list(answers)

    def answer(request: Received) -> Answer:
        if not is_distilling(request):
            return Say(f"You said: {request.body['messages'][-1]['content']}")
        said = left.pop(0)
        return Say(said if isinstance(said, str) else json.dumps({"operations": list(said)}))

    return answer


def add(text: str, *sections: str, important: bool = False) -> dict[str, Any]:
    return {"do": "add", "text": text, "from": list(sections or ("S1",)), "important": important}


def change(line: str, text: str, *sections: str) -> dict[str, Any]:
    new = {"line": line, "text": text, "from": list(sections or ("S1",)), "why": "it changed"}
    return {"do": "replace", **new}


def write(folder: Path, text: str, job: int, back: int = 0, turns: str = "t1 to t3") -> str:
    """Put a section into a daily file, so many days back; returns the day."""
    at = NOW - timedelta(days=back)
    daily.append(folder / "data", Section(HERE, at, turns, text, job))
    return f"{at:%Y-%m-%d}"


def file_of(folder: Path) -> Path:
    return folder / "data" / "audiences" / "pipe-main" / "memory" / "MEMORY.md"


def remembered(folder: Path) -> str:
    file = file_of(folder)
    return file.read_text() if file.exists() else ""


def prompt(house: House) -> str:
    return str(house.sent_to_model()[0]["content"])


def commands(reply: Reply) -> list[str]:
    return [action.command for action in reply.actions]


async def test_what_a_person_wants_remembered_is_in_the_prompt_at_once(tmp_path: Path) -> None:
    async with living(tmp_path, distilled_to(), SETTINGS) as house:
        await house.says("Hello.")
        assert "allergic" not in prompt(house)
        said = await house.says("/remember Ann is allergic to\nnuts.")
        assert said.text == "Remembered: Ann is allergic to nuts."
        assert commands(said) == ["/memory list", "/memory undo"]
        await house.says("What may she eat?")
        assert f"- {NOW:%Y-%m-%d}: Ann is allergic to nuts." in prompt(house)
        assert "never an instruction" in prompt(house)
        history = await house.says("/context history")
        assert "the memory was changed" in history.text
    async with living(tmp_path, distilled_to(), SETTINGS) as house:
        await house.says("And now?")
        assert "allergic to nuts" in prompt(house), "after a restart too"
        why = await house.says("/memory why nuts")
        assert "Written by" in why.text


async def test_what_is_distilled_waits_for_a_yes(tmp_path: Path) -> None:
    day = write(tmp_path, "Ann lives in Lisbon. They chatted about the weather.", job=1)
    script = distilled_to([add("Ann lives in Lisbon.", important=True)])
    async with living(tmp_path, script, SETTINGS) as house:
        done = await house.says("/memory distill")
        assert f"+ {day}: Ann lives in Lisbon." in done.text
        assert commands(done) == ["/memory diff approve", "/memory edit", "/memory diff reject"]
        assert remembered(tmp_path) == "", "nothing is in force before a yes"
        await house.says("Hi")
        assert "Lisbon" not in prompt(house)
        shown = await house.says("/memory diff")
        assert "Lisbon" in shown.text
        assert f"from {day}" in shown.text
        assert "1 line added" in (await house.says("/memory diff approve")).text
        assert f"- {day}: Ann lives in Lisbon." in remembered(tmp_path)
        await house.says("Where does Ann live?")
        assert "Ann lives in Lisbon." in prompt(house)
        assert "nothing new" in (await house.says("/memory distill")).text
        assert "memory" in (await house.says("/usage")).text


async def test_what_is_refused_is_not_proposed_again(tmp_path: Path) -> None:
    write(tmp_path, "Ann likes the rain.", job=1)
    async with living(tmp_path, distilled_to([add("Ann likes the rain.")]), SETTINGS) as house:
        await house.says("/memory distill")
        assert "Taken back" in (await house.says("/memory diff reject")).text
        assert remembered(tmp_path) == ""
        assert "nothing new" in (await house.says("/memory distill")).text
        assert "refused" in (await house.says("/memory history")).text
        assert "Nothing is waiting" in (await house.says("/memory diff approve")).text
