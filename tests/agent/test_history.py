"""Histories in the form that the strictest endpoints accept, whatever was recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models import anthropic_request, responses
from agent.models.base import ModelRequest
from agent.models.brain import NOBODY
from agent.models.endpoint import Endpoint
from agent.models.history import (
    INTERRUPTED,
    NO_OUTPUT,
    NO_RESULT,
    NOTHING,
    alternate,
    clean_name,
    normalize,
)
from memory.messages import RequestExtras
from tests.agent.claude_rules import RULES as ANTHROPIC
from tests.agent.endpoints import TOOL
from tests.agent.request_rules import CHAT, Rule, check, find_faults
from tests.agent.request_rules import RULES as RESPONSES
from tests.fakes import openai_responses
from tests.tables import each_row

Json = dict[str, Any]

IDS = st.sampled_from(["", "c", "call_0", "call_0_2", "x" * 70])
NAMES = st.sampled_from(
    ["look", "functions.look", " look", "a" * 90, "", "…", "look<|channel|>commentary"]
) | st.text(max_size=6)
ARGUMENTS = st.sampled_from(
    ["{}", '{"a": 1}', "", "null", "[]", '{"a": NaN}', '{"a": -Infinity}', '{"a": "cut…[cut off]']
)
WORDS = st.sampled_from(
    ["", " ", "Hello.", "So it is. ", "<system-reminder>\nBrief.\n</system-reminder>"]
)
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CONTENTS: st.SearchStrategy[Any] = (
    WORDS | st.just([]) | st.just([{"type": "text", "text": "See"}, PICTURE])
)


def call(own: str, name: str = "look", arguments: str = "{}") -> Json:
    return {"id": own, "type": "function", "function": {"name": name, "arguments": arguments}}


def asking(*calls: Json, text: str | None = None) -> Json:
    return {"role": "assistant", "content": text, "tool_calls": [*calls]}


def said(role: str, content: Any) -> Json:
    return {"role": role, "content": content}


def result(own: str, content: str = "A moon.") -> Json:
    return {"role": "tool", "tool_call_id": own, "content": content}


MESSAGES = st.one_of(
    st.builds(said, st.just("user"), CONTENTS),
    st.builds(said, st.just("assistant"), WORDS | st.none()),
    st.builds(result, IDS, WORDS),
    st.lists(st.builds(call, IDS, NAMES, ARGUMENTS), min_size=1, max_size=3).map(
        lambda calls: asking(*calls)
    ),
)
HISTORIES = st.builds(
    lambda system, rest: [*([said("system", "Be brief.")] if system else []), *rest],
    st.booleans(),
    st.lists(MESSAGES, max_size=12),
)


def words(content: Any) -> str:
    """Return the text of a message's content."""
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    return "\n".join(part.get("text", "") for part in parts)


def sent(messages: list[Json]) -> list[Mapping[str, Any]]:
    return alternate(normalize(messages))


@settings(max_examples=300)
@given(HISTORIES)
def test_whatever_was_recorded_what_is_sent_keeps_every_rule_and_stays_as_it_is(
    messages: list[Json],
) -> None:
    made = sent(messages)
    assert find_faults(made, CHAT) == []
    again = alternate(normalize(made))
    assert len(again) == len(made)
    assert all(one is other for one, other in zip(again, made, strict=True))
    for text in words_of(messages):
        assert json.dumps(text)[1:-1] in json.dumps(made)
    kept = [one["content"] for one in messages if one["role"] == "user" and one["content"]]
    for content in kept:  # no text of a person is lost
        if isinstance(content, str) and content.strip():
            assert any(content in words(one["content"]) for one in made)


TURNS = st.lists(
    st.builds(
        lambda rest, last: [said("user", "Well?"), *rest, said("assistant", last)],
        st.lists(MESSAGES, max_size=6),
        WORDS,
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150)
@given(TURNS, st.data())
def test_a_later_turn_changes_nothing_that_was_sent_before(
    turns: list[list[Json]], data: st.DataObject
) -> None:
    first = data.draw(st.integers(1, len(turns)))
    before = sent([one for turn in turns[:first] for one in turn])
    after = sent([one for turn in turns for one in turn])
    assert after[: len(before)] == before


# --- the bodies of the other two protocols ---

CONTENTS_OF_ANY_KIND: st.SearchStrategy[Any] = CONTENTS | st.sampled_from(
    [
        [{"type": "text", "text": ""}],
        [{"type": "image_url", "image_url": {"url": "data:image/bmp;base64,AAAA"}}],
        [{"type": "image_url", "image_url": {"url": "data:image/svg+xml;utf8,<svg/>"}}],
        [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}],
    ]
)
SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
UNREADABLE = {"type": "redacted_thinking", "data": "d"}
OF_CLAUDE = st.sampled_from(
    [SIGNED, UNREADABLE, {**SIGNED, "signature": ""}, {**SIGNED, "x": "y"}, {"type": "thinking"}]
)
SEALED = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": openai_responses.seal("Hm."),
}
OF_OPENAI = st.sampled_from(
    [SEALED, {**SEALED, "id": "rs_2"}, {**SEALED, "id": ""}, {**SEALED, "encrypted_content": ""}]
)
LAYOUTS = st.lists(OF_CLAUDE | OF_OPENAI | st.integers(-1, 9) | IDS, max_size=5)
USUAL = st.builds(lambda thought, own: [thought, own], OF_CLAUDE | OF_OPENAI, IDS)
KEPT = (
    LAYOUTS.map(json.dumps)
    | USUAL.map(json.dumps)
    | st.sampled_from(["", "[", "{}", '{"reasoning_content": "Hm."}'])
)
BESIDES = st.builds(
    lambda thoughts, errors: RequestExtras(thoughts, frozenset(errors)),
    st.dictionaries(IDS | st.just("call"), KEPT, max_size=5),
    st.sets(IDS, max_size=2),
)
ANY_MESSAGES = st.lists(
    MESSAGES
    | st.builds(said, st.just("user"), CONTENTS_OF_ANY_KIND)
    | st.builds(said, st.sampled_from(["system", "developer"]), WORDS)
    | st.builds(said, st.just("assistant"), CONTENTS_OF_ANY_KIND)
    | st.builds(lambda own, content: {**result(own), "content": content}, IDS, CONTENTS)
    | st.builds(lambda one, text: asking(one, text=text), st.builds(call, IDS, NAMES), WORDS),
    max_size=14,
)
PARAMETERS = st.sampled_from([None, {"tool_choice": "required"}, {"parallel_tool_calls": False}])
REQUESTS = st.builds(
    lambda messages, tools, beside, parameters, is_once: ModelRequest(
        messages, tools, beside=beside, parameters=parameters, is_once=is_once
    ),
    ANY_MESSAGES,
    st.sampled_from([(), (TOOL,)]),
    BESIDES,
    PARAMETERS,
    st.booleans(),
)


@settings(max_examples=400)
@given(REQUESTS, st.sampled_from(["", "high"]))
def test_whatever_was_recorded_claude_is_sent_a_body_that_keeps_every_rule(
    request: ModelRequest, effort: str
) -> None:
    neutral = anthropic_request.to_neutral("claude", request, effort)
    made = anthropic_request.to_body(neutral, request.beside)
    assert find_faults(made, ANTHROPIC) == []
    assert anthropic_request.to_body(neutral, request.beside) == made, "for the cache"
    for text in words_of(request.messages):
        assert json.dumps(text)[1:-1] in json.dumps(made["messages"])


@settings(max_examples=400)
@given(REQUESTS)
def test_whatever_was_recorded_the_responses_api_is_sent_a_body_that_keeps_every_rule(
    request: ModelRequest,
) -> None:
    neutral = responses.to_neutral(Endpoint("m"), NOBODY, request)
    made = responses.to_body(neutral, request.beside)
    assert find_faults(made, RESPONSES) == []
    assert openai_responses.refusal(made) == "", "so the fake has them, too"
    for text in words_of(request.messages):
        assert json.dumps(text)[1:-1] in json.dumps(made["input"])


def words_of(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the texts of people, none of which may be lost."""
    contents = [one["content"] for one in messages if one["role"] == "user"]
    return [one for one in contents if isinstance(one, str) and one.strip()]


def body_of_claude(*messages: Json, **more: Any) -> Json:
    return {"model": "claude", "max_tokens": 9, "messages": [*messages], **more}


def text_block(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def use_block(own: str, name: str = "look", given: Any = None) -> Json:
    return {"type": "tool_use", "id": own, "name": name, "input": {} if given is None else given}


def result_block(own: str, *content: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": own, "content": [*content]}


ASKED = said("user", [text_block("Hi")])
MARK = {"cache_control": {"type": "ephemeral"}}
TOOLS: Json = {"tools": [{"name": "look", "input_schema": {"type": "object"}}]}
BAD_BODIES_OF_CLAUDE: dict[str, Json] = {
    "order of roles": body_of_claude(ASKED, ASKED),
    "kinds of blocks": body_of_claude(ASKED, said("assistant", [result_block("c")]), **TOOLS),
    "calls and results": body_of_claude(ASKED, said("assistant", [use_block("c")]), ASKED, **TOOLS),
    "ids of calls": body_of_claude(
        ASKED,
        said("assistant", [use_block("c.1")]),
        said("user", [result_block("c.1")]),
        **TOOLS,
    ),
    "names of tools": body_of_claude(
        ASKED,
        said("assistant", [use_block("c", "a" * 65)]),
        said("user", [result_block("c")]),
        **TOOLS,
    ),
    "arguments": body_of_claude(
        ASKED,
        said("assistant", [use_block("c", given=[])]),
        said("user", [result_block("c")]),
        **TOOLS,
    ),
    "calls without tools": body_of_claude(
        ASKED, said("assistant", [use_block("c")]), said("user", [result_block("c")])
    ),
    "forced tools": body_of_claude(
        ASKED, **TOOLS, tool_choice={"type": "any"}, thinking={"type": "adaptive"}
    ),
    "empty texts": body_of_claude(said("user", [text_block(" ")])),
    "blanks at the end": body_of_claude(ASKED, said("assistant", [text_block("So ")])),
    "thoughts": body_of_claude(ASKED, said("assistant", [text_block("So"), SIGNED])),
    "marks of the cache": body_of_claude(
        said("user", [text_block("Hi", **MARK) for _ in range(5)])
    ),
    "pictures": body_of_claude(
        said(
            "user",
            [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/bmp", "data": "AA=="},
                }
            ],
        )
    ),
}


@each_row("rule", ANTHROPIC)
def test_a_body_for_claude_that_breaks_a_rule_is_told(rule: Rule) -> None:
    body = BAD_BODIES_OF_CLAUDE[rule.name]
    faults = find_faults(body, ANTHROPIC)
    assert any(fault.startswith(f"{rule.name}: ") for fault in faults)
    with pytest.raises(AssertionError, match="breaks rules of its protocol"):
        check(body, [rule])
    assert find_faults(body_of_claude(ASKED), [rule]) == []


def called(own: str, name: str = "look", arguments: str = "{}") -> Json:
    return {"type": "function_call", "call_id": own, "name": name, "arguments": arguments}


def put_out(own: str) -> Json:
    return {"type": "function_call_output", "call_id": own, "output": "A moon."}


def shown(url: str) -> Json:
    return {"type": "input_image", "image_url": url, "detail": "auto"}


BAD_INPUTS: dict[str, list[Json]] = {
    "input": [],
    "empty contents": [said("user", " ")],
    "pictures": [said("user", [shown("file:///etc/passwd")])],
    "ids of items": [SEALED, said("assistant", "One."), SEALED, said("assistant", "Two.")],
    "ids of calls": [called("c"), put_out("c"), called("c"), put_out("c")],
    "calls and outputs": [put_out("c")],
    "names of tools": [called("c", "a.b"), put_out("c")],
    "arguments": [called("c", arguments='{"a": NaN}'), put_out("c")],
    "thoughts": [SEALED, said("user", "Hi")],
    "choice of tools": [said("user", "Hi")],
}


@each_row("rule", RESPONSES)
def test_a_body_for_the_responses_api_that_breaks_a_rule_is_told(rule: Rule) -> None:
    body: Json = {"input": BAD_INPUTS[rule.name], "tool_choice": "auto"}
    assert any(one.startswith(f"{rule.name}: ") for one in find_faults(body, RESPONSES))
    good = [SEALED, called("c"), put_out("c"), said("user", "Hi")]
    assert find_faults({"input": good}, RESPONSES) == []


def test_each_rule_says_who_demands_it() -> None:
    rules: tuple[Rule, ...] = (*CHAT, *ANTHROPIC, *RESPONSES)
    assert all(rule.name and rule.source for rule in rules)


def test_thoughts_stand_at_the_beginning_of_what_was_said() -> None:
    """Two answers in a row are one message, unless the second one has thoughts: they would be
    behind the first one's text, where the API does not find them."""
    kept = RequestExtras({"c": json.dumps([SIGNED, "c"])})
    messages = [said("user", "Look!"), said("assistant", "Wait."), asking(call("c")), result("c")]
    neutral = anthropic_request.to_neutral("claude", ModelRequest(messages, (TOOL,)))
    made = anthropic_request.to_body(neutral, kept)["messages"]
    assert [one["role"] for one in made] == ["user", "assistant", "user", "assistant", "user"]
    assert made[3]["content"][0] == SIGNED


def test_a_thought_that_came_twice_is_sent_once() -> None:
    thoughts = {own: json.dumps([SEALED, own]) for own in ("c", "d")}
    messages = [said("user", "Look!"), *(asking(call("c")), result("c"))]
    messages += [asking(call("d")), result("d")]
    neutral = responses.to_neutral(Endpoint("m"), NOBODY, ModelRequest(messages, (TOOL,)))
    made = responses.to_body(neutral, RequestExtras(thoughts))["input"]
    assert [one.get("type", "message") for one in made] == [
        *("message", "reasoning", "function_call", "function_call_output"),
        *("function_call", "function_call_output"),
    ]


# --- by example ---


def test_a_name_has_letters_that_all_take() -> None:
    names = ("functions.time", "time<|channel|>commentary", " time", "a" * 90, "…", "")
    cleaned = ["functions_time", "time_channel_commentary", "time", "a" * 64, "unknown", "unknown"]
    assert [clean_name(name) for name in names] == cleaned


def test_each_call_has_its_own_result_though_ids_come_again() -> None:
    twice = [
        said("user", "Look!"),
        asking(call("c"), call("c")),
        *(result("c", "One."), result("c", "Two."), result("d", "Whose?")),
        asking(call("c")),
        said("user", "Stop."),
    ]
    made = sent(twice)
    assert [one["id"] for one in made[1]["tool_calls"]] == ["c", "c_2"]
    assert made[2:4] == [result("c", "One."), result("c_2", "Two.")]
    assert made[5:] == [
        result("c_3", NO_RESULT),
        said("assistant", INTERRUPTED),
        said("user", "Stop."),
    ]


def test_roles_take_turns() -> None:
    note = "<system-reminder>\nBrief.\n</system-reminder>"
    messages = [
        said("system", "Be."),
        said("assistant", "Good morning."),
        *(said("user", "One."), said("user", [PICTURE]), said("user", note)),
        *(asking(call("c")), result("c"), said("user", note), said("user", "Two.")),
        *(said("assistant", ""), said("assistant", "Yes.")),
    ]
    parts = [{"type": "text", "text": "One."}, PICTURE, {"type": "text", "text": note}]
    assert sent(messages) == [
        *(said("system", "Be."), said("user", NOTHING), said("assistant", "Good morning.")),
        *(said("user", parts), asking(call("c")), result("c", f"A moon.\n\n{note}")),
        *(said("assistant", INTERRUPTED), said("user", "Two.")),
        said("assistant", f"{NOTHING}\n\nYes."),
    ]


def test_an_empty_reply_behind_another_one_adds_nothing() -> None:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}]
    assert alternate([*said, {"role": "assistant", "content": ""}]) == said


def test_a_request_that_breaks_a_rule_is_an_error_in_tests() -> None:
    with pytest.raises(AssertionError, match=r"order of roles: message 1 is of user"):
        check([said("user", "One."), said("user", "Two.")], CHAT)


def test_a_result_of_nothing_and_a_request_of_nobody_are_filled() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked: list[dict[str, Any]] = [
        {"role": "user", "content": "Look!"},
        {"role": "assistant", "tool_calls": [call]},
    ]
    result = {"role": "tool", "tool_call_id": "c", "content": " "}
    assert alternate([*asked, result])[-1]["content"] == NO_OUTPUT
    alone = alternate([{"role": "system", "content": "Be."}])
    assert [(one["role"], one["content"]) for one in alone][1:] == [("user", NOTHING)]
