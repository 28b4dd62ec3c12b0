"""Stateless requests: used exactly as sent, answered by the protocol, and not stored."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr
from openai import (
    APIError,
    APIStatusError,
    AsyncOpenAI,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    RateLimitError,
)
from pydantic import BaseModel

import channels.serving as serving_http
from agent.models.history import INTERRUPTED
from bot import completions
from tests.fakes.openai_server import (
    Answer,
    Break,
    Call,
    Fail,
    Hang,
    Received,
    Say,
    StreamError,
    echo,
    openai_overflow,
)
from tests.waiting import PATIENCE, until
from tests.web.site import Site, events_of, serving
from tests.web.test_completions import PIXEL, TOOL, client, named, sent, user

Json = dict[str, Any]
WEATHER = Call("weather", '{"place": "Lisbon"}', "call_7")


def assistant(text: str | None, *calls: Call) -> Json:
    wire = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for c in calls
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": wire} if wire else {})}


async def asked(site: Site, *messages: Json, **more: Any) -> Any:
    async with client(site) as openai:
        return await openai.chat.completions.create(model="x", messages=list(messages), **more)


async def streamed(site: Site, *messages: Json, **more: Any) -> list[Any]:
    """Return the chunks of an answer."""
    async with client(site) as openai:
        stream = await openai.chat.completions.create(
            model="x", messages=list(messages), stream=True, **more
        )
        return [chunk async for chunk in stream]


async def counted(site: Site, table: str, where: str = "1") -> int:
    statement = f"SELECT COUNT(*) FROM {table} WHERE {where}"
    found = await site.app.store.read(lambda db: db.execute_sql(statement).fetchone()[0])
    return int(found)


def folders(folder: Path) -> list[str]:
    return sorted(one.name for one in (folder / "data" / "audiences").glob("*"))


# Taken at its word


async def test_the_whole_history_reaches_the_model_as_it_was_sent(tmp_path: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}
    abroad = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi", "name": "ann"},
        assistant("Hello."),
        {"role": "developer", "content": "Be brief, really."},
        user([{"type": "text", "text": "And these?"}, picture, abroad]),
        assistant(None, WEATHER),
        {"role": "tool", "tool_call_id": "call_7", "content": "Rain."},
        user("/imagine a cat"),
        assistant("A cat is"),
    ]
    async with serving(tmp_path, echo) as site:
        answer = await asked(site, *messages, tools=[TOOL], user="any@one, of any/shape", seed=7)
        between = assistant(INTERRUPTED)  # which strict endpoints require after a tool
        assert sent(site) == [*messages[:7], between, *messages[7:]]
    assert answer.choices[0].message.content == "re: A cat is"


async def test_no_strategy_cuts_what_a_client_sends(tmp_path: Path) -> None:
    settings = {"agent_max_context_turns": 2, "agent_max_context_tokens": 1_000}
    history = [one for n in range(30) for one in (user(f"Question {n}? " * 50), assistant("Yes."))]
    async with serving(tmp_path, echo, settings) as site:
        await asked(site, *history, user("And now?"))
        assert sent(site)[1:] == [*history, user("And now?")]
        assert await counted(site, "view_event") == 0
        assert await counted(site, "summary") == 0


async def test_the_owners_instructions_stand_where_the_client_has_none(tmp_path: Path) -> None:
    async with serving(tmp_path, echo, {"system_prompt": "You are a pirate."}) as site:
        await asked(site, user("Hi"))
        assert sent(site)[0]["content"].startswith("You are a pirate.")
        await asked(site, {"role": "system", "content": "You are a nurse."}, user("Hi"))
        assert "pirate" not in str(sent(site))


async def test_nothing_of_a_request_is_kept_but_what_it_cost(tmp_path: Path) -> None:
    call = Call("write_file", '{"path": "files/secret.txt", "content": "1234"}', "c")
    async with serving(tmp_path, [Say(calls=(call,)), Say("Done.")]) as site:
        answer = await asked(site, user("Keep 1234 for me."))
        assert answer.choices[0].message.content == "Done."
        assert "secret.txt" in str(sent(site)), "the tool was run"
        for table in ("message", "inbox", "outbox", "conversation"):
            assert await counted(site, table) == 0
        assert await counted(site, "usage", "conversation IS NULL AND purpose = 'request'") == 2
        _, listed = await site.get("/api/sessions")
        assert listed["sessions"] == []
        bill = await site.commands("/usage")
    assert answer.usage.prompt_tokens == bill["data"]["all chats"]["ever"]["prompt"]
    assert [name for name in folders(tmp_path) if "request" in name] == []


async def test_what_a_killed_process_left_of_a_request_is_gone_after_the_next_start(
    tmp_path: Path,
) -> None:
    left = tmp_path / "data" / "audiences" / ".request-1" / "files"
    left.mkdir(parents=True)
    (left / "secret.txt").write_text("1234")
    async with serving(tmp_path, echo) as site:
        await asked(site, user("Hi"))
    assert [name for name in folders(tmp_path) if "request" in name] == []


async def test_a_request_longer_than_the_window_gets_the_protocols_own_error(
    tmp_path: Path,
) -> None:
    script = [openai_overflow(9_000, 8_000)]
    async with serving(tmp_path, script, {"context": {"max_tokens": 4_000}}) as site:
        with pytest.raises(BadRequestError, match="maximum context length is 4000") as refused:
            await asked(site, user("word " * 5_000))
        assert not site.server.requests
        body: Any = refused.value.body
        told = body["code"], body["param"], body["type"]
        assert told == ("context_length_exceeded", "messages", "invalid_request_error")
        with pytest.raises(BadRequestError) as refused:  # only the provider knows this one's
            await asked(site, user("Hi"))
        assert refused.value.code == "context_length_exceeded"


# What the client asks for


SENT_ON: tuple[Json, ...] = (
    {"stop": "\n"},
    {"stop": ["a", "b"]},
    {"top_p": 0.5, "presence_penalty": 1.0, "frequency_penalty": -1.0, "temperature": 0.0},
    {"seed": 7, "logit_bias": {"50256": -100}},
    {"max_tokens": 12},
    {"response_format": {"type": "json_object"}},
    {"reasoning_effort": "low"},
    {"tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": False},
    {"tools": [TOOL], "tool_choice": "required"},
    {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "weather"}}},
    {"tools": [TOOL], "tool_choice": "none"},
)


async def test_the_parameters_of_the_protocol_are_sent_on_as_they_are(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        for more in SENT_ON:
            await asked(site, user("Hi"), **more)
            body = site.server.turns[-1].body
            assert {name: body.get(name) for name in more} == more
        await asked(site, user("Hi"), tools=[])
        assert "tools" not in site.server.turns[-1].body
        asking = {"tool_choice": "auto", "parallel_tool_calls": False}
        await asked(site, user("Hi"), tools=[], **asking)
        body = site.server.turns[-1].body
    assert not {"tools", *asking} & set(body), "nothing is said about tools that are not there"


async def test_without_a_clients_tools_the_bots_own_are_offered_that_need_no_conversation(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, echo) as site:
        await asked(site, user("Hi"))
        offered = {tool["function"]["name"] for tool in site.server.turns[-1].body["tools"]}
        await asked(site, user("Hi"), tool_choice="none")
        assert "tools" not in site.server.turns[-1].body
    assert {"read_file", "calculate"} <= offered
    assert not offered & {"context_search", "memory_search", "delegate"}


async def test_a_tool_that_asks_first_is_told_that_nobody_can_be_asked(tmp_path: Path) -> None:
    call = Call("web_fetch", '{"url": "https://example.com/"}', "c")
    settings = {"tools": {"web_fetch": True}}
    async with serving(tmp_path, [Say(calls=(call,)), Say("I could not.")], settings) as site:
        await asked(site, user("Read example.com"))
        assert "nobody can be asked" in sent(site)[-1]["content"]


# The client's tools


async def test_the_calls_of_a_clients_tools_are_handed_out_and_their_results_taken_back(
    tmp_path: Path,
) -> None:
    script = [Say("Let me look.", (WEATHER,), finish="tool_calls"), Say("It rains.")]
    async with serving(tmp_path, script) as site:
        first = await asked(site, user("Lisbon?"), tools=[TOOL])
        choice = first.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "Let me look."
        (call,) = choice.message.tool_calls
        assert (call.id, call.function.name) == ("call_7", "weather")
        assert json.loads(call.function.arguments) == {"place": "Lisbon"}
        assert [tool["function"]["name"] for tool in site.server.turns[-1].body["tools"]] == [
            "weather"
        ]
        result = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
        said = choice.message.model_dump(exclude_none=True)
        second = await asked(site, user("Lisbon?"), said, result, tools=[TOOL])
        assert second.choices[0].message.content == "It rains."
        assert sent(site)[-1] == result


async def test_calls_stream_with_their_index(tmp_path: Path) -> None:
    other = Call("weather", '{"place": "Oslo"}', "call_8")
    script = [Say("", (WEATHER, other), finish="tool_calls")]
    async with (
        serving(tmp_path, script) as site,
        client(site) as openai,
        openai.chat.completions.stream(model="x", messages=[user("Both?")], tools=[TOOL]) as stream,
    ):
        kinds = [event.type async for event in stream]
        whole = await stream.get_final_completion()
    calls = whole.choices[0].message.tool_calls
    assert [(c.id, json.loads(c.function.arguments)["place"]) for c in calls] == [
        ("call_7", "Lisbon"),
        ("call_8", "Oslo"),
    ]
    assert whole.choices[0].finish_reason == "tool_calls"
    assert kinds.count("tool_calls.function.arguments.done") == 2


async def test_a_client_of_before_there_were_tools_is_understood(tmp_path: Path) -> None:
    script = [Say("", (WEATHER,), finish="tool_calls"), Say("Rain.")]
    functions = [TOOL["function"]]
    async with serving(tmp_path, script) as site:
        first = await asked(
            site, user("Lisbon?"), functions=functions, function_call={"name": "weather"}
        )
        assert site.server.turns[-1].body["tool_choice"]["function"] == {"name": "weather"}
        choice = first.choices[0]
        assert choice.finish_reason == "function_call"
        said = {
            "role": "assistant",
            "content": None,
            "function_call": choice.message.function_call.model_dump(),
        }
        result = {"role": "function", "name": "weather", "content": "Rain."}
        await asked(site, user("Lisbon?"), said, result, functions=functions)
        assert [message["role"] for message in sent(site)] == [
            "system",
            "user",
            "assistant",
            "tool",
        ]


# The official SDK


class Place(BaseModel):
    name: str
    people: int


async def test_a_form_is_filled_in(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, [Say('{"name": "Lisbon", "people": 500000}')]) as site,
        client(site) as openai,
    ):
        answer = await openai.chat.completions.parse(
            model="x", messages=[user("Lisbon?")], response_format=Place
        )
        form = site.server.turns[-1].body["response_format"]
    assert answer.choices[0].message.parsed == Place(name="Lisbon", people=500_000)
    assert form["json_schema"]["schema"]["required"] == ["name", "people"]


FINISHED = (
    (Say("It was a dark and", finish="length"), "length"),
    (Say("", finish="length"), "length"),
    (Say("", finish="content_filter"), "content_filter"),
    (Say("", finish="stop"), "stop"),
    (Say("It was.", finish="eos_token"), "stop"),
)


async def test_the_answer_and_its_reason_are_the_models_own(tmp_path: Path) -> None:
    script = [said for said, _ in FINISHED for _ in range(2)]
    async with serving(tmp_path, script) as site:
        for said, finish in FINISHED:
            chunks = await streamed(site, user("Hi"))
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            assert (text, chunks[-1].choices[0].finish_reason) == (said.text, finish)
            (choice,) = (await asked(site, user("Hi"))).choices
            assert (choice.message.content, choice.finish_reason) == (said.text, finish)


async def test_what_a_model_thought_is_handed_on(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _: Say("4.", reasoning="2 and 2 …")) as site:
        answer = await asked(site, user("2+2?"))
        assert answer.choices[0].message.reasoning_content == "2 and 2 …"
        chunks = await streamed(site, user("2+2?"))
    thoughts = [getattr(chunk.choices[0].delta, "reasoning_content", "") for chunk in chunks]
    assert "".join(filter(None, thoughts)) == "2 and 2 …"


FAILED: tuple[tuple[Any, int], ...] = (
    (Fail(429, {"message": "slow down", "type": "rate_limit"}), 429),
    (Fail(500, {"message": "oops"}), 503),
    (Fail(401, {"message": "Incorrect API key provided"}), 502),
    (Fail(402, {"message": "pay"}), 502),
    (Fail(404, {"message": "no such model"}), 502),
    (Fail(400, {"message": "your schema is none"}), 400),
    (StreamError({"message": "overloaded"}), 502),
    (Break(""), 502),
)


@pytest.mark.parametrize("conversation", ["", "trip"])
async def test_an_error_has_the_status_that_a_retry_goes_by(
    tmp_path: Path, conversation: str
) -> None:
    now = [FAILED[0][0]]
    more = named(conversation) if conversation else {}
    async with serving(tmp_path, lambda _: now[0]) as site:
        for answer, status in FAILED:
            now[0] = answer
            for is_streamed in (True, False):
                with pytest.raises(APIStatusError) as refused:
                    await asked(site, user("Hi"), stream=is_streamed, **more)
                assert refused.value.status_code == status, answer
                error: Any = refused.value.body
                assert error["message"]
                assert error["type"]
                if status in (429, 503) and not conversation:
                    assert int(refused.value.response.headers["Retry-After"]) > 0


async def test_an_error_names_no_command_which_a_program_could_not_send(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _: Fail(400, {"message": "what is this"})) as site:
        with pytest.raises(BadRequestError, match="send less, start over, or") as caught:
            await asked(site, user("Hi"))
    assert "`/" not in str(caught.value)


async def test_a_model_that_takes_too_long_is_a_time_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = completions._RunningRequest.events
    shorter = lambda request, seconds: events(request, seconds / 50)  # noqa: E731
    monkeypatch.setattr(completions._RunningRequest, "events", shorter)
    async with serving(tmp_path, [Hang()], {"turn_timeout": 5}) as site:
        with pytest.raises(InternalServerError) as refused:
            await asked(site, user("Hi"))
    assert refused.value.status_code == 504


async def test_the_sdk_asks_again_and_gets_its_answer(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, [Break(""), Break(""), Say("Here.")]) as site,
        AsyncOpenAI(base_url=f"{site.url}/v1", api_key="none", max_retries=1) as openai,
    ):
        answer = await openai.chat.completions.create(
            model="x", messages=[{"role": "user", "content": "Hi"}]
        )
    assert answer.choices[0].message.content == "Here."


async def test_what_breaks_off_in_a_stream_is_an_error_and_no_end(tmp_path: Path) -> None:
    broken: list[Answer] = [Break("It was a dark"), StreamError({"message": "x"}, "It was")]
    async with serving(tmp_path, [*broken, *broken]) as site:
        for _ in broken:
            with pytest.raises(APIError, match="broke off"):
                await streamed(site, user("Hi"))
        for _ in broken:
            request = {"model": "x", "stream": True, "messages": [user("Hi")]}
            async with site.http.post(f"{site.url}/v1/chat/completions", json=request) as response:
                told = [event.data async for event in events_of(response)]
            assert told[-1]["error"]["type"] == "server_error"
            assert "[DONE]" not in told


def awaited(site: Site) -> asyncio.Event:
    """Return an event that is set once the cost of a call is booked."""
    booked = asyncio.Event()
    services = site.app.conversations.services
    book = services.on_spent

    def hear(key: Any, person: str, call: Any) -> None:
        book(key, person, call)
        booked.set()

    force_setattr(services, "on_spent", hear)
    return booked


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_client_that_leaves_takes_its_request_along_and_what_it_took_is_booked(
    tmp_path: Path, is_streamed: bool
) -> None:
    async with serving(tmp_path, [Hang()]) as site:
        booked = awaited(site)
        ask = streamed if is_streamed else asked
        waiting = asyncio.create_task(ask(site, user("Hi")))
        await asyncio.wait_for(site.server.reached.acquire(), PATIENCE)
        waiting.cancel()
        await asyncio.wait({waiting})
        await asyncio.wait_for(site.server.hung_up.acquire(), PATIENCE)
        await asyncio.wait_for(booked.wait(), PATIENCE)
        assert await counted(site, "usage", "is_reported = 0 AND prompt > 0") == 1
    assert [name for name in folders(tmp_path) if "request" in name] == []


async def test_so_it_does_when_a_part_of_the_answer_was_there(tmp_path: Path) -> None:
    request = {"model": "x", "stream": True, "messages": [user("Hi")]}
    async with serving(tmp_path, [Hang("It was")]) as site:
        booked = awaited(site)
        async with site.http.post(f"{site.url}/v1/chat/completions", json=request) as response:
            async for event in events_of(response):
                if event.data["choices"][0]["delta"].get("content"):
                    break
            response.close()
        await asyncio.wait_for(site.server.hung_up.acquire(), PATIENCE)
        await asyncio.wait_for(booked.wait(), PATIENCE)
        assert await counted(site, "usage", "is_reported = 0 AND completion > 0") == 1


# The rest of the protocol


async def test_the_one_model_is_shown_and_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path) as site, client(site) as openai:
        assert (await openai.models.retrieve("parley")).id == "parley"
        with pytest.raises(NotFoundError) as refused:
            await openai.models.retrieve("gpt-4o")
    assert refused.value.code == "model_not_found"


async def test_what_is_not_there_says_so_in_the_protocols_shape(tmp_path: Path) -> None:
    async with serving(tmp_path) as site, client(site) as openai:
        with pytest.raises(NotFoundError, match="/v1/embeddings does not exist"):
            await openai.embeddings.create(model="x", input="y")
        with pytest.raises(NotFoundError, match="/v1/completions does not exist"):
            await openai.completions.create(model="x", prompt="y")


async def test_two_chats_of_one_user_do_not_meet(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        await asyncio.gather(
            *(asked(site, user(f"My PIN is {n}."), user="u1") for n in range(1000, 1010))
        )
        for request in site.server.requests:
            assert str(request.body["messages"]).count("My PIN is") == 1


# Where it meets the rest of the bot


async def test_a_bot_that_stops_does_not_wait_for_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_http, "GRACE", 0)
    async with serving(tmp_path, [Hang()]) as site:
        waiting = asyncio.create_task(asked(site, user("Hi")))
        await asyncio.wait_for(site.server.reached.acquire(), PATIENCE)
    with pytest.raises(APIError):
        await waiting
    await until(lambda: not [name for name in folders(tmp_path) if "request" in name])


async def test_a_request_over_the_spending_limit_is_refused_as_the_protocol_has_it(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, echo, {"spend_limit_total": 0.000001}) as site:
        await asked(site, user("Hi"))
        with pytest.raises(RateLimitError, match="spent") as refused:
            await asked(site, user("Hi"))
        assert len(site.server.requests) == 1
    assert refused.value.code == "insufficient_quota"


async def test_a_model_that_steps_in_after_half_an_answer_does_not_make_one_of_two(
    tmp_path: Path,
) -> None:
    def answers(request: Received) -> Any:
        return Say("The whole.") if request.body["model"] == "second" else Break("Half of it")

    async with serving(tmp_path, answers, {"fallback_models": ["second"]}) as site:
        answer = await asked(site, user("Hi"))
        assert answer.choices[0].message.content == "The whole."
        with pytest.raises(APIError, match="broke off"):
            await streamed(site, user("Hi"))


async def test_a_request_has_ten_thousand_messages_at_most(tmp_path: Path) -> None:
    many = [user("x") for _ in range(10_000)]
    async with serving(tmp_path, echo) as site:
        status, _ = await site.post("/v1/chat/completions", {"messages": many})
        assert status == 200
        assert sent(site)[1:] == [user("\n\n".join("x" * 10_000))]
        status, body = await site.post("/v1/chat/completions", {"messages": [*many, user("x")]})
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")


async def test_a_call_of_a_tool_that_is_not_there_can_not_be_had(tmp_path: Path) -> None:
    others: list[Json] = [{}, {"tools": []}, named("trip")["extra_body"]]
    async with serving(tmp_path) as site:
        for choice in ("required", {"type": "function", "function": {"name": "f"}}):
            for more in others:
                body = {"messages": [user("Hi")], "tool_choice": choice, **more}
                status, answer = await site.post("/v1/chat/completions", body)
                assert (status, answer["error"]["param"]) == (400, "tool_choice")


MISFITS: tuple[tuple[Json, str], ...] = (
    ({"temperature": 7}, "temperature must be at most 2.0."),
    ({"stream": "maybe"}, "stream must be true or false."),
    ({"stop": 5}, "stop must be text or a list."),
    ({"max_tokens": 1.5}, "max_tokens must be a whole number."),
    ({"messages": []}, "messages must not be empty."),
    ({"messages": [user(5)]}, "messages.0.content must be text or a list."),
    ({"messages": [user([{"type": 5}])]}, "messages.0.content.0.type must be text."),
    (
        {"messages": [{"role": "boss", "content": "Hi"}]},
        "messages.0.role must be 'system', 'developer', 'user', 'assistant', 'tool' or 'function'.",
    ),
    ({"tools": [{"function": {"name": ""}}]}, "tools.0.function.name must not be empty."),
    ({"logit_bias": {"1": float("nan")}}, "NaN"),
    (
        {"tools": [{**TOOL, "function": {"name": "f", "parameters": {"maximum": float("inf")}}}]},
        "NaN",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"minimum": -float("inf")}}},
        "NaN",
    ),
)


async def test_what_does_not_fit_is_said_in_a_plain_sentence(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        for field, says in MISFITS:
            body = {"messages": [user("Hi")], **field}
            status, answer = await site.post("/v1/chat/completions", body)
            told = answer["error"]["message"]
            assert status == 400, field
            assert told == says or (says == "NaN" and says in told)
