"""REST over the wire: a real server, a real client, the whole bot behind it."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from plugins.builtin.context import context
from tests.fakes.openai_server import Call, Hang, Say, echo
from tests.waiting import PATIENCE
from tests.web.site import Event, Site, asked_raw, serving

COUNTING = (Call("calculate", '{"expression": "2+2"}', "c1"),)
EVIL = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>[a](javascript:alert(3))![b](http://x/)"
)


async def test_a_message_is_answered_with_its_turn_and_what_it_took(tmp_path: Path) -> None:
    async with serving(tmp_path, [Say("**Hello!**")]) as site:
        answer = await site.says("Hi", id="m1")
    assert (answer["id"], answer["turn"], answer["text"]) == ("m1", "t1", "**Hello!**")
    assert answer["html"] == "<p><strong>Hello!</strong></p>\n"
    assert answer["usage"]["prompt"] > answer["usage"]["completion"] > 0


async def test_a_message_streams_its_pieces_its_tools_and_its_answer(tmp_path: Path) -> None:
    script = [Say("Let me see.", COUNTING), Say("Four.")]
    async with serving(tmp_path, script) as site, site.streams("2+2?") as events:
        seen = [event async for event in events]
    kinds = [event.kind for event in seen if event.kind != "context"]
    assert (kinds[0], kinds[-1]) == ("turn", "done")
    assert [e.data["state"] for e in seen if e.kind == "tool"] == ["running", "done"]
    assert "".join(e.data["text"] for e in seen if e.kind == "delta") == "Let me see.Four."
    assert seen[-1].data["text"] == "Four."


async def test_what_a_model_thinks_streams_apart_from_its_answer_and_is_void_with_it(
    tmp_path: Path,
) -> None:
    script = [Say(reasoning="Hm, no.", finish="length"), Say("Four.", reasoning="Two and two.")]
    async with serving(tmp_path, script) as site, site.streams("2+2?") as events:
        seen = [event async for event in events if event.kind != "context"]
    void = [event.kind for event in seen].index("restart")
    thoughts = [(at > void, e.data["text"]) for at, e in enumerate(seen) if e.kind == "thought"]
    assert "".join(text for is_later, text in thoughts if is_later) == "Two and two."
    assert "".join(text for is_later, text in thoughts if not is_later) == "Hm, no."
    assert "".join(e.data["text"] for e in seen if e.kind == "delta") == "Four."
    assert seen[-1].data["text"] == "Four."


async def test_a_message_that_comes_twice_is_taken_once_and_answered_twice(tmp_path: Path) -> None:
    async with serving(tmp_path, [Say("Once.")]) as site:
        first, second = await asyncio.gather(site.says("Hi", id="m1"), site.says("Hi", id="m1"))
        assert first == second == await site.says("Hi", id="m1")


async def test_a_message_of_an_earlier_process_is_said_to_be_known(tmp_path: Path) -> None:
    async with serving(tmp_path, [Say("Once.")]) as site:
        await site.says("Hi", id="m1")
    async with serving(tmp_path) as site, asyncio.timeout(PATIENCE):
        again, path = {"text": "Hi", "id": "m1"}, "/api/sessions/main/messages"
        answers = await asyncio.gather(*(site.post(path, again) for _ in range(4)))
    for status, body in answers:
        assert (status, "already been taken" in body["error"]["message"]) == (409, True)


async def test_the_transcript_has_all_that_was_said_in_order(tmp_path: Path) -> None:
    async with serving(tmp_path, [Say("Wait.", COUNTING), Say("*Four.*")]) as site:
        await site.says("2+2?")
        _, body = await site.get("/api/sessions/main/messages")
    roles = [(m["turn"], m["role"], m["text"], m["calls"]) for m in body["messages"]]
    assert roles == [
        ("t1", "user", "2+2?", []),
        ("t1", "assistant", "Wait.", ["calculate"]),
        ("t1", "tool", "4", []),
        ("t1", "assistant", "*Four.*", []),
    ]
    assert body["messages"][-1]["html"] == "<p><em>Four.</em></p>\n"


async def test_a_transcript_is_read_from_its_end_in_pages(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        for number in range(1, 6):
            await site.says(f"{number}")
        _, last = await site.get("/api/sessions/main/messages?limit=2")
        _, before = await site.get("/api/sessions/main/messages?limit=2&before=4")
    assert [m["turn"] for m in last["messages"]] == ["t4", "t4", "t5", "t5"]
    assert [m["turn"] for m in before["messages"]] == ["t2", "t2", "t3", "t3"]


async def test_sessions_are_listed_the_newest_first_by_title_or_first_question(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, echo) as site:
        await site.says("What about Lisbon?", "one")
        await site.says("And 100% Rome?", "two")
        assert await titles(site) == {"two": "And 100% Rome?", "one": "What about Lisbon?"}
        await site.commands("/title The trip", "one")
        assert (await titles(site))["one"] == "The trip"
        assert set(await titles(site, "?q=lisbon")) == {"one"}
        assert set(await titles(site, "?q=100%25")) == {"two"}
        assert set(await titles(site, "?q=nowhere")) == set()


async def test_a_session_that_is_deleted_is_gone_with_its_title(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        await site.says("A secret.", "one")
        await site.commands("/title Secrets", "one")
        await site.commands("/forget chat yes", "one")
        assert await titles(site) == {}
        await site.says("Again.", "one")
        assert await titles(site) == {"one": "Again."}


async def titles(site: Site, query: str = "") -> dict[str, str]:
    _, body = await site.get(f"/api/sessions{query}")
    return {session["id"]: session["title"] for session in body["sessions"]}


async def test_every_command_is_a_post_and_answers_with_data_and_controls(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        await site.says("One.")
        reply = await site.commands("/context clear")
        assert reply["data"]["turns"] == ["t1"]
        assert reply["actions"] == [
            {
                "label": "Undo",
                "command": "/context undo e1",
                "asks_first": False,
                "question": "",
            }
        ]
        assert "did you mean" in (await site.commands("/contxt"))["text"]
        back = await site.commands("/context undo")
    assert back["data"]["turns"] == ["t1"]


async def test_a_program_can_tell_a_refused_command_from_an_answer(tmp_path: Path) -> None:
    async with serving(tmp_path, [Say("Hello.")]) as site:
        assert (await site.says("/nonsense"))["problem"] == "command_refused"
        assert (await site.commands("/context drop t9"))["problem"] == "command_refused"
        assert (await site.commands("/context"))["problem"] == ""
        assert (await site.says("Hi"))["problem"] == ""


async def test_a_picture_is_fetched_by_the_address_in_the_reply_and_no_other(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, echo) as site:
        await site.says("One.")
        (address,) = (await site.commands("/context map"))["images"]
        async with site.http.get(f"{site.url}{address}") as response:
            assert response.content_type == "image/png"
            assert (await response.read()).startswith(b"\x89PNG")
        status, _ = await site.get("/api/pictures/..%2F..%2Fparley.db")
        assert status == 404


async def test_the_context_is_told_with_its_turns_changes_and_settings(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        for number in range(3):
            await site.says(f"{number}")
        await site.commands("/context pin t1")
        _, state = await site.get("/api/sessions/main/context")
    assert state["overview"]["tokens"] == sum(state["overview"]["parts"].values())
    assert state["overview"]["tokens"] == sum(one["tokens"] for one in state["map"]["blocks"])
    assert (state["map"]["limit"]["of"], state["map"]["limit"]["most"]) == ("turns", 20)
    assert [turn for turn, _size in state["map"]["sizes"]] == [1, 2, 3]
    assert [(t["turn"], t["state"]) for t in state["turns"]][:2] == [
        ("t1", ["pinned"]),
        ("t2", ["in context"]),
    ]
    assert [event["kind"] for event in state["events"]] == ["pin"]
    assert {"key", "value", "layer", "choices"} <= set(state["settings"][0])
    assert [one["turn"] for one in state["requests"]] == ["t1", "t2", "t3"]


async def test_the_context_is_told_where_nobody_keeps_what_was_sent(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        site.app.features.commands["context"] = context  # as without the feature's verbs
        await site.says("Hello")
        status, state = await site.get("/api/sessions/main/context")
    assert (status, state["requests"]) == (200, [])
    assert state["overview"]["tokens"] > 0


async def test_an_emergency_compaction_from_outside_says_what_it_freed(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        for number in range(4):
            await site.says(f"{number}: {'many words ' * 50}")
        status, freed = await site.post("/api/sessions/main/compact")
        assert (status, freed["turns"]) == (200, ["t1"])  # 5 messages stay, and no partial turn
        assert freed["freed"] == freed["tokens_before"] - freed["tokens_after"] > 0
        _, state = await site.get("/api/sessions/main/context")
        assert state["events"][-1]["actor"] == "emergency"
        assert (await site.commands("/context undo"))["data"]["turns"] == ["t1", "t2", "t3", "t4"]


async def test_nothing_to_compact_is_said_and_not_an_error_of_the_bot(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        status, body = await site.post("/api/sessions/main/compact")
    assert (status, "nothing to compact" in body["error"]["message"]) == (409, True)


# --- following -----------------------------------------------------------------------------


async def test_who_was_cut_off_goes_on_without_loss(tmp_path: Path) -> None:
    async with serving(tmp_path, [Say("one two three four", pieces=9)]) as site:
        async with site.follows() as events:
            first = await anext(events)
            assert first.kind == "snapshot"
            await site.says("Count.")
            seen = [await anext(events) for _ in range(4)]
        async with site.follows(**{"Last-Event-ID": seen[-1].place}) as events:
            seen += await until_done(events)
    assert "".join(e.data["text"] for e in seen if e.kind == "delta") == "one two three four"
    numbers = [int(e.place.partition("-")[2]) for e in seen]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def test_who_comes_in_the_middle_is_shown_what_is_there(tmp_path: Path) -> None:
    async with serving(tmp_path, [Hang("Half an ans")]) as site:
        text = ""
        async with site.streams("Tell me.") as answering:
            while text != "Half an ans":
                event = await anext(answering)
                text += event.data["text"] if event.kind == "delta" else ""
            async with site.follows(query="?as=html") as events:
                draft = (await anext(events)).data["draft"]
                assert draft["question"] == "Tell me."
                assert draft["parts"] == [{"keep": 0, "blocks": ["<p>Half an ans</p>\n"]}]
                await site.commands("/stop")
                done = (await until_done(events))[-1]
    assert "Stopped, as you asked." in done.data["text"]


async def test_a_place_of_another_process_or_of_none_is_answered_with_a_snapshot(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as site:
        _, said = await site.get("/api/sessions/main/messages")
        for place in ("0abc-7", said["event"].partition("-")[0] + "-" + "9" * 5_000):
            async with site.follows(**{"Last-Event-ID": place}) as events:
                event = await anext(events)
            assert (event.kind, event.data) == ("snapshot", {"draft": None})


async def test_who_asks_for_the_headers_of_the_events_alone_gets_them_and_an_end(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as site:
        host = site.url.removeprefix("http://")
        head = f"HEAD /api/sessions/main/events HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        async with asyncio.timeout(PATIENCE):
            answer = await asked_raw(site.url, f"{head}\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"text/event-stream" in answer


async def test_two_pages_of_a_session_are_told_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site, site.follows() as one, site.follows() as two:
        await anext(one)
        await anext(two)
        await site.says("Hi")
        assert await until_done(one) == await until_done(two)


async def test_the_page_is_shown_the_answer_so_far_as_html(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site, site.follows(query="?as=html") as events:
        await anext(events)
        await site.says("**Hi**")
        kinds = {event.kind for event in await until_done(events)}
    assert kinds <= {"draft", "context", "done"}


async def until_done(events: object) -> list[Event]:
    seen: list[Event] = []
    async for event in events:  # type: ignore[attr-defined]
        seen.append(event)
        if event.kind == "done":
            break
    return seen


async def test_forty_chats_at_once_are_each_answered_in_order(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:

        async def chat(name: str) -> list[tuple[str, str]]:
            answers = [await site.says(f"{name} {number}", name) for number in range(2)]
            return [(answer["turn"], answer["text"]) for answer in answers]

        names = [f"chat{number}" for number in range(40)]
        said = await asyncio.gather(*map(chat, names))
    assert said == [[("t1", f"re: {name} 0"), ("t2", f"re: {name} 1")] for name in names]


# --- bad input -----------------------------------------------------------------------------


async def test_script_is_never_markup(tmp_path: Path) -> None:
    async with serving(tmp_path, [Say(EVIL)]) as site:
        html = (await site.says(EVIL))["html"]
    assert "<script" not in html
    assert "<img" not in html
    assert 'href="javascript' not in html


async def test_files_are_taken_up_to_the_limit(tmp_path: Path) -> None:
    async with serving(tmp_path, echo, upload=2_000_000) as site:
        for size, status in ((2_000_000, 200), (2_000_001, 413)):
            upload = {
                "name": "<script>.bin",
                "media_type": "application/octet-stream",
                "data": base64.b64encode(bytes(size)).decode(),
            }
            message = {"text": "See.", "attachments": [upload]}
            answered, body = await site.post("/api/sessions/main/messages", message)
            assert answered == status, body


async def test_a_body_that_is_much_too_long_is_not_even_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        status, body = await site.post("/api/sessions/main/messages", {"text": "x" * 5_000_000})
    assert (status, body["error"]["type"]) == (413, "invalid_request_error")


MISFITS: tuple[tuple[object, str], ...] = (
    ({}, "text is missing."),
    ({"text": 5}, "text must be text."),
    ({"text": "Hi", "colour": "red"}, "colour is not known here."),
    ({"text": "Hi", "id": "a b"}, "id has characters that it may not have, or too many."),
    ([1], "The body must be an object."),
)


async def test_a_body_or_a_name_that_does_not_fit_is_said_to(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        for body, says in MISFITS:
            status, answer = await site.post("/api/sessions/main/messages", body)
            assert (status, answer["error"]["message"]) == (400, says)
        for name in ("a%20b", "x" * 101, "%3Cscript%3E", "%00"):
            assert (await site.get(f"/api/sessions/{name}/messages"))[0] == 404


async def test_health_and_readiness_are_told_to_anyone(tmp_path: Path) -> None:
    async with serving(tmp_path, token="a long random text") as site:
        assert await site.get("/health") == (200, {"status": "ok"})
        assert await site.get("/ready") == (200, {"status": "ready"})
