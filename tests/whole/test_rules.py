"""Hook rules and listeners in a whole bot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from channels.base import Activity, Notice
from tests.fakes.openai_server import Answer, Call, Fail, Received, Say
from tests.whole.testbot import TestBot, run_bot

EAR = """
from pathlib import Path

from plugins.api import Event, Listener, Verdict, hookimpl

HEARD = Path(__file__).with_name("heard.txt")


async def hear(event: Event) -> Verdict:
    with HEARD.open("a") as file:
        file.write(f"{event.name} t{event.turn} {event.tool or event.text}".strip() + "\\n")
    if event.name == "tool_start" and "secret" in event.arguments:
        return Verdict(veto="that file is private.", inject=("Do not ask for it again.",))
    return Verdict()


@hookimpl
def parley_listeners() -> list[Listener]:
    return [Listener("ear", hear)]
"""


def with_ear(folder: Path) -> Path:
    """Install the plugin; return the file in which it writes its events."""
    plugins = folder / "data" / "plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    (plugins / "ear.py").write_text(EAR)
    return plugins / "heard.txt"


async def test_a_plugin_hears_what_happens_in_order(tmp_path: Path) -> None:
    heard = with_ear(tmp_path)
    add = Call("calculate", '{"expression": "2+2"}', "a")
    async with run_bot(tmp_path, [Say(calls=(add,)), Say("It is 4."), Say("Yes.")]) as bot:
        await bot.says("What is 2+2?")
        await bot.says("Sure?")
    assert heard.read_text().splitlines() == [
        "session_start t1",
        "turn_start t1 What is 2+2?",
        "tool_start t1 calculate",
        "tool_end t1 calculate",
        "turn_end t1 It is 4.",
        "turn_start t2 Sure?",
        "turn_end t2 Yes.",
        "session_end t0",
    ]


async def test_a_veto_is_the_tools_result_and_notes_come_after_all_results(tmp_path: Path) -> None:
    with_ear(tmp_path)
    calls = (
        Call("read_file", '{"path": "secret.txt"}', "a"),
        Call("calculate", '{"expression": "2+2"}', "b"),
    )
    async with run_bot(tmp_path, [Say(calls=calls), Say("I may not.")]) as bot:
        await bot.says("Read it!")
        *_, first, second = bot.sent_to_model()
    assert (first["tool_call_id"], second["tool_call_id"]) == ("a", "b")
    assert first["content"] == "read_file was not run: that file is private."
    note = "<system-reminder>\nDo not ask for it again.\n</system-reminder>"
    assert second["content"] == f"4\n\n{note}"


async def test_of_a_sub_agent_only_its_tools_are_heard(tmp_path: Path) -> None:
    heard = with_ear(tmp_path)
    script = [
        Say(calls=(Call("delegate", '{"task": "Add 2 and 2."}', "a"),)),
        Say(calls=(Call("calculate", '{"expression": "2+2"}', "b"),)),
        Say("Four."),
        Say("It is 4."),
    ]
    async with run_bot(tmp_path, script) as bot:
        await bot.says("Have it added!")
    names = [line.split(" ", 1)[0] + line[line.rindex(" ") :] for line in heard_of(heard, "tool_")]
    assert names == [
        "tool_start delegate",
        "tool_start calculate",
        "tool_end calculate",
        "tool_end delegate",
    ]
    assert len(heard_of(heard, "turn_")) == 2


def heard_of(file: Path, prefix: str) -> list[str]:
    """Return the events of a kind that the plugin has received."""
    return [line for line in file.read_text().splitlines() if line.startswith(prefix)]


def rule(on: str, action: dict[str, Any], condition: Any = "always", **more: Any) -> dict[str, Any]:
    return {"id": f"my_{on}", "on": on, "condition": condition, "action": action} | more


async def test_what_a_rule_says_is_read_by_the_model(tmp_path: Path) -> None:
    hooks = [
        rule("turn_start", {"type": "inject_message", "content": "Be brief."}, max_fires=1),
        rule(
            "tool_end",
            {"type": "inject_message", "content": "Try again."},
            {"all_of": ["tool_failed", {"tool_name": {"match": "calc*"}}]},
        ),
    ]
    bad = Call("calculate", '{"expression": "2+"}', "a")
    script = [Say(calls=(bad,)), Say("No."), Say("No.")]
    async with run_bot(tmp_path, script, {"runtime": {"hooks": hooks}}) as bot:
        await bot.says("What is 2+?")
        await bot.says("Sure?")
        texts = [message["content"] for message in bot.sent_to_model()[1:]]
    brief, again = (
        f"<system-reminder>\n{text}\n</system-reminder>" for text in ("Be brief.", "Try again.")
    )
    assert texts[0] == f"What is 2+?\n\n{brief}"
    assert texts[2].endswith(f"\n\n{again}")
    assert texts[3:] == ["No.", "Sure?"]


async def test_a_rule_tells_the_person_when_a_turn_fails(tmp_path: Path) -> None:
    hooks = [rule("error", {"type": "notify", "message": "Sorry!"})]
    refusal = Fail(400, {"message": "no such model", "code": "model_not_found"})
    async with run_bot(tmp_path, [refusal], {"hooks": hooks}) as bot:
        seen: list[Activity] = []
        watching = await bot.watches(seen)
        await bot.says("Hello?")
        await bot.says("/version")
        watching.cancel()
    assert Notice("Sorry!") in seen


async def compactions(bot: TestBot) -> list[dict[str, Any]]:
    data = (await bot.says("/context history")).data
    assert data is not None
    return [event for event in data["events"] if event["kind"] == "compact"]


def talkative(request: Received) -> Answer:
    """A model that answers everything, including requests for summaries."""
    if request.body["messages"][-1]["role"] == "user" and request.is_turn:
        return Say("Yes. " * 30)
    return Say("They talked.")


async def test_a_number_of_tool_calls_compacts_whatever_the_pressure(tmp_path: Path) -> None:
    action = {"type": "compact_context", "strategy": "truncate", "keep_last": 2}
    hooks = [rule("turn_end", action, {"tool_calls": {"threshold": 5}})]
    call = Call("calculate", '{"expression": "2+2"}')

    def tools_first(request: Received) -> Answer:
        is_asked = request.body["messages"][-1]["role"] == "user"
        return Say(calls=(call,) * 2) if is_asked else Say("It is 4.")

    async with run_bot(tmp_path, tools_first, {"hooks": hooks}) as bot:
        for number in range(1, 8):  # the last one waits until the work of those before it is done
            await bot.says(f"Question {number}")
        events = await compactions(bot)
    # Two calls a turn: after t3 there are six, and after t6 six more.
    assert [event["turns"][-1] for event in events] == ["t3", "t6"]


async def test_the_injected_rule_compacts_at_the_trigger(tmp_path: Path) -> None:
    context = {
        "strategy": "summarize",
        "max_tokens": 4_000,
        "output_reserved": 100,
        "keep_recent": 2,
    }
    async with run_bot(tmp_path, talkative, {"context": context}) as bot:
        for number in range(1, 8):
            await bot.says(f"Question {number}: " + "word " * 500)
        events = await compactions(bot)
    assert events
    assert "_auto_compact" in events[0]["reason"]
    assert events[0]["actor"] == "strategy"


async def test_rules_are_changed_in_the_chat_by_owners(tmp_path: Path) -> None:
    hook = '{"id": "h", "on": "turn_start", "action": {"type": "inject_message", "content": "Hm."}}'
    async with run_bot(tmp_path, [Say("Yes."), Say("Yes.")]) as bot:
        assert "is now" in (await bot.says(f"/config hooks [{hook}]")).text
        await bot.says("Hello")
        assert "Hm." in bot.sent_to_model()[-1]["content"]
        wrong = await bot.says(f"/config hooks [{hook.replace('turn_start', 'turn_begin')}]")
        assert wrong.text == (
            "Nothing was changed: hooks[0].on is \"turn_begin\"; did you mean 'turn_end'?"
        )
        await bot.says("/config hooks --unset")
        await bot.says("Hello again")
        assert bot.sent_to_model()[-1]["content"] == "Hello again"


async def test_config_shows_one_rule_a_line(tmp_path: Path) -> None:
    async with run_bot(tmp_path, []) as bot:
        hooks = [
            {
                "id": f"rule-{n}",
                "on": "turn_start",
                "action": {"type": "inject_message", "content": "m"},
            }
            for n in range(3)
        ]
        await bot.says(f"/config hooks {json.dumps(hooks)}")
        told = (await bot.says("/config hooks")).text
        assert "`hooks` is **3 entries**" in told
        code = told.split("```json\n")[1].split("\n```")[0]
        assert [json.loads(line)["id"] for line in code.split("\n")] == [one["id"] for one in hooks]
