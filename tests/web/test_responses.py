"""OpenAI's Responses API, checked with OpenAI's own SDK as the client and its types."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, BadRequestError, NotFoundError
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from channels.web import responses
from tests.fakes.openai_server import Break, Call, Received, Say, echo
from tests.web.site import Site, events_of, serving
from tests.web.test_completions import PIXEL, client, sent
from tests.web.test_keys import TOKEN, new_key

Json = dict[str, Any]
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
WEATHER: Json = {
    "type": "function",
    "name": "weather",
    "description": "The weather somewhere.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    "strict": True,
}
CALLS = (Call("weather", '{"place": "Lisbon"}', "c1"), Call("weather", '{"place": "Porto"}', "c2"))


async def asked(site: Site, input: Any, key: str = "none", **more: Any) -> Any:
    async with client(site, key) as openai:
        return await openai.responses.create(model="x", input=input, **more)


async def told(site: Site, input: Any, **more: Any) -> list[Json]:
    """Yield the events of a response, each of which must be one of the API's."""
    request = {"model": "x", "input": input, "stream": True, **more}
    async with site.http.post(f"{site.url}/v1/responses", json=request) as response:
        assert response.status == 200, await response.text()
        events = [event async for event in events_of(response)]
    for event in events:
        EVENT.validate_python(event.data)
        assert event.data["type"] == event.kind
    return [event.data for event in events]


def model(request: Received) -> Say:
    """A model that calls the client's tools until it has their results."""
    has_results = request.body["messages"][-1]["role"] == "tool"
    if request.body.get("tools") and not has_results:
        return Say("Let me see.", CALLS, finish="tool_calls")
    return Say("It is sunny.")


# The answer


async def test_a_question_is_answered_with_what_it_took(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        answer = await asked(site, "Hi")
        status, raw = await site.post("/v1/responses", {"input": "Hi"})
    assert (answer.output_text, answer.status) == ("re: Hi", "completed")
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    assert answer.usage.input_tokens > 0
    assert status == 200
    assert raw["store"] is False
    assert Response.model_validate(raw).output_text == "re: Hi"


async def test_an_answer_with_calls_streams_in_the_apis_own_order(tmp_path: Path) -> None:
    async with serving(tmp_path, model) as site:
        events = await told(site, "Weather?", tools=[WEATHER])
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    kinds = [kind.removeprefix("response.") for kind, _ in groupby(e["type"] for e in events)]
    call = [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert kinds == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.done", "content_part.done", "output_item.done"),
        *call,
        *call,
        "completed",
    ]
    whole = events[-1]["response"]
    for place, item in enumerate(whole["output"]):
        own = [event for event in events if event.get("output_index") == place]
        names = {e["item_id"] if "item_id" in e else e["item"]["id"] for e in own}
        assert names == {item["id"]}
        assert own[-1]["item"] == item
        deltas = "".join(event["delta"] for event in own if event["type"].endswith(".delta"))
        assert deltas == item.get("arguments", "Let me see.")
    assert {event["response"]["id"] for event in events if "response" in event} == {whole["id"]}


async def test_what_streams_is_what_comes_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, model) as site, client(site) as openai:
        for tools in ([], [WEATHER]):
            at_once = await asked(site, "Weather?", tools=tools)
            async with openai.responses.stream(model="x", input="Weather?", tools=tools) as stream:
                streamed = await stream.get_final_response()
            assert streamed.output_text == at_once.output_text
            assert [item.type for item in streamed.output] == [item.type for item in at_once.output]
            assert streamed.usage == at_once.usage


async def test_the_bots_own_tools_run_where_the_client_has_none(tmp_path: Path) -> None:
    script = [Say("Let me see.", (Call("calculate", '{"expression": "2+2"}', "c"),)), Say("Four.")]
    async with serving(tmp_path, script) as site:
        events = await told(site, "2+2?")
    (item,) = events[-1]["response"]["output"]
    assert item["content"][0]["text"] == "Let me see.\n\nFour."


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
async def test_an_answer_that_was_cut_short_is_incomplete(
    tmp_path: Path, finish: str, reason: str
) -> None:
    async with serving(tmp_path, lambda _: Say("It was", finish=finish)) as site:
        answer = await asked(site, "Tell me a story.", max_output_tokens=20)
        events = await told(site, "Tell me a story.")
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", reason)
    assert events[-1]["type"] == "response.incomplete"
    assert events[-2]["item"]["status"] == "incomplete"


async def test_what_breaks_off_in_a_stream_is_a_failed_response(tmp_path: Path) -> None:
    async with serving(tmp_path, [Break("It was a dark")]) as site:
        events = await told(site, "Hi")
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert "broke off" in events[-1]["response"]["error"]["message"]
    assert events[-1]["response"]["status"] == "failed"


async def test_what_a_model_thought_is_told_where_a_summary_is_wanted(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _: Say("4.", reasoning="2 and 2 …")) as site:
        silent = await asked(site, "2+2?", reasoning={"effort": "low"})
        answer = await asked(site, "2+2?", reasoning={"summary": "auto"})
        events = await told(site, "2+2?", reasoning={"summary": "auto"})
    assert [item.type for item in silent.output] == ["message"]
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    assert answer.output[0].summary[0].text == "2 and 2 …"
    thoughts = [e["delta"] for e in events if e["type"] == "response.reasoning_summary_text.delta"]
    assert thoughts == ["2 and 2 …"]
    for one in (silent, answer):
        assert one.usage is not None
        assert one.usage.output_tokens_details.reasoning_tokens == len("2 and 2 …".encode()) // 4


# What is sent


async def test_calls_go_out_and_their_results_come_back(tmp_path: Path) -> None:
    async with serving(tmp_path, model) as site:
        first = await asked(site, "Weather?", tools=[WEATHER], instructions="Be brief.")
        calls = [item for item in first.output if item.type == "function_call"]
        assert [call.call_id for call in calls] == ["c1", "c2"]
        assert {call.name for call in calls} == {"weather"}
        results = [
            {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
            for call in calls
        ]
        history = [{"role": "user", "content": "Weather?"}, *first.output, *results]
        last = await asked(site, history, tools=[WEATHER], instructions="Be brief.")
        messages = sent(site)
        (offered,) = site.server.turns[-1].body["tools"]
    assert last.output_text == "It is sunny."
    assert [message["role"] for message in messages] == [
        *("system", "user", "assistant", "tool", "tool")
    ]
    assert messages[0]["content"] == "Be brief."
    assert messages[2]["content"] == "Let me see."
    assert [call["id"] for call in messages[2]["tool_calls"]] == ["c1", "c2"]
    assert [message["tool_call_id"] for message in messages[3:]] == ["c1", "c2"]
    assert offered["function"]["parameters"] == WEATHER["parameters"]
    assert offered["function"]["strict"] is True


ITEMS: tuple[tuple[list[Json], list[Json]], ...] = (
    (
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        ],
        [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    ),
    (
        [
            {"role": "user", "content": "Hi"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [
                    {"type": "output_text", "text": "Ho", "annotations": [], "logprobs": []},
                    {"type": "refusal", "refusal": "No."},
                ],
            },
            {"role": "user", "content": "And?"},
        ],
        [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Ho\nNo."},
            {"role": "user", "content": "And?"},
        ],
    ),
    (
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What?"},
                    {"type": "input_image", "image_url": PIXEL, "detail": "low"},
                ],
            }
        ],
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What?"},
                    {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
                ],
            }
        ],
    ),
)


async def test_items_reach_the_model_as_messages(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with serving(tmp_path, lambda _: Say("Well."), {"system_prompt": ""}) as site:
        for items, messages in ITEMS:
            with subtests.test(items=items):
                await asked(site, items)
                found = [one for one in sent(site) if one in messages or one["role"] != "system"]
                assert found == messages


async def test_parameters_are_sent_on_in_the_shape_of_chat_completions(tmp_path: Path) -> None:
    async with serving(tmp_path, model) as site:
        await asked(
            site,
            "Hi",
            temperature=0.5,
            top_p=0.9,
            max_output_tokens=50,
            text={"verbosity": "low"},
            tools=[WEATHER, {**WEATHER, "name": "other"}],
            tool_choice={
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "weather"}],
            },
            parallel_tool_calls=False,
            metadata={"a": "b"},
            truncation="auto",
            include=["reasoning.encrypted_content"],
            extra_body={"something_new": 1},
        )
        body = site.server.turns[-1].body
    assert (body["temperature"], body["top_p"], body["verbosity"]) == (0.5, 0.9, "low")
    assert [tool["function"]["name"] for tool in body["tools"]] == ["weather"]
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", False)
    assert 50 in (body.get("max_tokens"), body.get("max_completion_tokens"))


async def test_a_form_is_filled_in(tmp_path: Path) -> None:
    class Place(BaseModel):
        name: str

    async with serving(tmp_path, lambda _: Say('{"name": "Lisbon"}')) as site:
        async with client(site) as openai:
            answer = await openai.responses.parse(model="x", input="Where?", text_format=Place)
        form = site.server.turns[-1].body["response_format"]
    assert answer.output_parsed == Place(name="Lisbon")
    assert (form["type"], form["json_schema"]["name"]) == ("json_schema", "Place")


REFUSED: tuple[tuple[Json, str], ...] = (
    ({"previous_response_id": "resp_1"}, "send the whole conversation as `input`"),
    ({"conversation": "conv_1"}, "send the whole conversation as `input`"),
    ({"background": True}, "leave `background` out"),
    ({"prompt": {"id": "p"}}, "no prompt templates"),
    ({"tools": [{"type": "web_search"}]}, "no tool of the type web_search"),
    ({"tools": [{"type": "function"}]}, "tools.name is missing"),
    ({"tool_choice": "required"}, "there are no `tools`"),
    ({"input": ""}, "must not be empty"),
    ({"input": []}, "must not be empty"),
    ({"input": [{"type": "computer_call", "id": "x"}]}, "no item of the type computer_call"),
    ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "content of a file"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "files by their ids"),
    ({"temperature": 3}, "temperature"),
    ({"top_logprobs": 2}, "token probabilities"),
)


async def test_what_is_not_done_gets_a_sentence(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with serving(tmp_path, echo) as site:
        for more, sentence in REFUSED:
            with subtests.test(more=more):
                asking = {"model": "x", "input": "Hi", **more}
                status, answer = await site.post("/v1/responses", asking)
                assert not site.server.requests
                assert status == 400
                assert sentence in answer["error"]["message"]
                assert answer["error"]["type"] == "invalid_request_error"


async def test_a_picture_from_within_is_refused_as_a_part_of_the_input(tmp_path: Path) -> None:
    parts = [{"type": "input_image", "image_url": "http://localhost/x.png"}]
    async with serving(tmp_path, echo) as site:
        with pytest.raises(BadRequestError) as refused:
            await asked(site, [{"role": "user", "content": parts}])
    assert refused.value.param == "input"


# Items that are named


async def test_items_may_be_named_by_whom_they_were_given_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(tmp_path, model, token=TOKEN) as site:
        ann, bob = [await new_key(tmp_path, capsys, name) for name in ("ann", "bob")]
        first = await asked(site, "Weather?", ann, tools=[WEATHER])
        named = [{"type": "item_reference", "id": item.id} for item in first.output]
        results = [
            {"type": "function_call_output", "call_id": call.id, "output": "sunny"}
            for call in CALLS
        ]
        history = [{"role": "user", "content": "Weather?"}, *named, *results]
        assert (await asked(site, history, ann, tools=[WEATHER])).output_text == "It is sunny."
        assert [call["id"] for call in sent(site)[-3]["tool_calls"]] == ["c1", "c2"]
        with pytest.raises(NotFoundError, match="set `store` to false"):
            await asked(site, history, bob, tools=[WEATHER])


async def test_items_are_not_kept_where_the_client_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        first = await asked(site, "Hi", store=False)
        with pytest.raises(NotFoundError, match="are kept for an hour"):
            await asked(site, [{"type": "item_reference", "id": first.output[0].id}])


def test_the_oldest_items_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MOST_KEPT", 2_000)
    kept = responses.StoredItems()
    for number in range(100):
        kept.keep("ann", [{"id": f"msg_{number}", "text": "x" * 80}])
    found = [number for number in range(100) if kept.find("ann", f"msg_{number}")]
    assert found == [*range(100 - len(found), 100)]
    assert 10 < len(found) < 25
    monkeypatch.setattr(responses, "KEPT_FOR", -1.0)
    assert kept.find("ann", "msg_99") is None


async def test_a_conversation_that_the_bot_keeps_may_be_named(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        for text in ("I am Ann.", "Who am I?"):
            answer = await asked(site, text, extra_body={"parley_conversation": "ann"})
        assert answer.output_text == "re: Who am I?"
        assert [m["content"] for m in sent(site)[1:]] == ["I am Ann.", "re: I am Ann.", "Who am I?"]


async def test_a_request_longer_than_the_window_gets_the_protocols_own_error(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, echo, {"context": {"max_tokens": 4_000}}) as site:
        with pytest.raises(APIStatusError) as refused:
            await asked(site, "word " * 20_000)
    assert refused.value.code == "context_length_exceeded"
    assert re.match("input", str(refused.value.param))
