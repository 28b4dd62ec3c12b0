"""Tests of the rules of `benchmarks.providers`: each finds the breach it is made for, so that a
count of zero refusals is meaningful."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from benchmarks.provider_answers import Script, by_chat, by_messages, by_responses
from benchmarks.provider_profiles import PROFILES
from benchmarks.provider_rules import Asked, sign
from benchmarks.provider_server import ProviderServer
from benchmarks.providers import measure
from tests.tables import each_row

Json = dict[str, Any]

USER: Json = {"role": "user", "content": "Look!"}
RESULT: Json = {"role": "tool", "tool_call_id": "callcall1", "content": "A moon."}


def call(name: str = "look", arguments: str = "{}", own: str = "callcall1", **more: Any) -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": own, "type": "function", "function": function, **more}


def asking(*calls: Json, **more: Any) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": [*(calls or [call()])], **more}


def use(own: str = "c") -> Json:
    return {"type": "tool_use", "id": own, "name": "look", "input": {}}


def broken(profile: str, body: Json) -> set[str]:
    """Return the names of the rules of a provider that a request breaks."""
    found = PROFILES[profile]
    model = found.models[0]
    if found.protocol == "messages":
        body = {"max_tokens": 100, **body}
    whole = {"model": model, **body}
    asked = Asked(whole, json.dumps(whole).encode(), model)
    return {rule.name for rule in found.rules for _ in rule.breaches(asked)}


CHATS: list[tuple[str, str, list[Json]]] = [
    ("openai", "names of tools", [USER, asking(call("functions.look")), RESULT]),
    ("openai", "arguments", [USER, asking(call(arguments='{"a": NaN}')), RESULT]),
    ("openai", "arguments", [USER, asking(call(arguments='"{}"')), RESULT]),
    ("openai", "calls and results", [USER, asking(), USER]),
    ("openai", "ids of calls", [USER, asking(call(own="i" * 41)), {**RESULT}]),
    ("openai", "fields", [USER, asking(reasoning_content="Hm."), RESULT]),
    ("mistral", "order of roles", [USER, asking(), RESULT, USER]),
    ("mistral", "order of roles", [USER, {"role": "assistant", "content": "Yes."}]),
    ("mistral", "ids of calls", [USER, asking(call(own="c")), {**RESULT, "tool_call_id": "c"}]),
    ("deepseek", "reasoning back", [USER, asking(), RESULT]),
    ("moonshot", "reasoning back", [USER, asking(reasoning_content=""), RESULT]),
    ("moonshot", "empty messages", [USER, {"role": "assistant", "content": ""}, USER]),
    ("gemini", "signatures", [USER, asking(), RESULT]),
    ("vllm", "alternation", [USER, asking(), RESULT, USER]),
    ("vllm", "one system prompt", [USER, {"role": "system", "content": "Be."}]),
    ("groq", "reasoning not back", [USER, asking(reasoning_content="Hm."), RESULT]),
]


@each_row(("profile", "rule", "messages"), CHATS)
def test_a_history_that_a_provider_refuses_is_refused(
    profile: str, rule: str, messages: list[Json]
) -> None:
    assert rule in broken(profile, {"messages": messages})


def test_what_another_model_has_signed_is_refused() -> None:
    foreign = f"one.{sign('another', 'one')}"
    detail = {"type": "reasoning.text", "text": "Hm.", "signature": sign("another", "Hm.")}
    google = call(extra_content={"google": {"thought_signature": foreign}})
    thought = {"type": "thinking", "thinking": "Hm.", "signature": sign("another", "Hm.")}
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": foreign}
    said = {"role": "assistant", "content": "Yes."}
    bodies: dict[str, Json] = {
        "openrouter": {"messages": [USER, asking(reasoning_details=[detail]), RESULT]},
        "gemini": {"messages": [USER, asking(google), RESULT]},
        "anthropic": {
            "messages": [{"role": "user", "content": []}, {**said, "content": [thought]}]
        },
        "responses": {"input": [USER, sealed, said]},
    }
    for profile, body in bodies.items():
        assert "signatures" in broken(profile, body), profile


def test_claude_and_the_responses_api_have_rules_of_their_own() -> None:
    text = {"type": "text", "text": "Look!"}
    result = {"type": "tool_result", "tool_use_id": "c"}
    ask, say = {"role": "user", "content": [text]}, {"role": "assistant", "content": [use()]}
    assert "calls and results" in broken("anthropic", {"messages": [ask, say, ask]})
    twice = {**say, "content": [use(), use()]}
    late = {"role": "user", "content": [result]}
    assert "ids of calls" in broken("anthropic", {"messages": [ask, twice, late]})
    blank = {"role": "assistant", "content": [{"type": "text", "text": "Yes. \n"}]}
    assert "trailing blanks" in broken("anthropic", {"messages": [ask, blank]})
    model = PROFILES["anthropic"].models[0]
    owed = {**say, "content": [use(f"c_thought_{model}")]}
    answer = {**late, "content": [{**result, "tool_use_id": f"c_thought_{model}"}]}
    thinking = {"thinking": {"type": "adaptive"}, "messages": [ask, owed, answer]}
    assert "thoughts first" in broken("anthropic", thinking)
    function = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "A moon."}
    doubled = {"input": [USER, function, output, function, output]}
    assert "ids of calls" in broken("responses", doubled)
    assert "calls and results" in broken("responses", {"input": [USER, function]})


def test_results_and_thoughts_with_other_calls_than_their_own_mislead_the_model() -> None:
    own = call(arguments='{"what": "#1#"}')
    assert "right pairs" in broken(
        "deepseek",
        {"messages": [USER, asking(own, reasoning_content="#2#"), {**RESULT, "content": "#1#"}]},
    )
    assert "right pairs" in broken(
        "openai", {"messages": [USER, asking(own), {**RESULT, "content": "Seen: #2#"}]}
    )


def test_every_rule_says_where_it_can_be_read_and_its_name_is_its_own() -> None:
    for profile in PROFILES.values():
        assert all(rule.source for rule in profile.rules)
        names = [rule.name for rule in profile.rules]
        assert len({*names}) == len(names), profile.name


def test_the_same_seed_gives_the_same_answers() -> None:
    def said() -> list[bytes]:
        script = Script(random.Random(3))
        moves = [script.answer("blocks", may_call=True) for _ in range(40)]
        pieces: list[bytes] = []
        for move in moves:
            pieces += by_chat(move, "m", "details", 1)
            pieces += by_responses(move, "m", 1) + by_messages(move, "m", 1)
        return pieces

    assert said() == said()


def test_a_refusal_is_a_lesson_once_and_a_fault_from_then_on() -> None:
    async def refused() -> list[tuple[int, int, int]]:
        server = ProviderServer(Script(random.Random(1)))
        counted = []
        for words in ("One?", "Two?", "Three?", "Three?"):
            body = {"model": "m", "messages": [USER, asking(), RESULT, {**USER, "content": words}]}
            asked = Asked(body, json.dumps(body).encode(), "m")
            assert server.check(PROFILES["moonshot"], asked) is not None
            tally = server.tallies["moonshot"]
            seen = (tally.lessons.total(), tally.refused.total(), tally.repeated)
            counted.append(seen)
        return counted

    # The second may have been sent before the first was refused.
    assert asyncio.run(refused()) == [(1, 0, 0), (2, 0, 0), (2, 1, 0), (2, 2, 1)]


async def test_a_strict_provider_refuses_nothing_of_a_short_talk() -> None:
    server, crashes, _ = await measure(["mistral"], 12, 2)
    assert not crashes
    assert server.tallies["mistral"].requests
    assert not server.tallies["mistral"].faults
