"""REST over the wire: a real server, a real client, the whole bot behind it."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.openai_server import Call, Say
from tests.web.site import serving


async def test_a_message_is_answered_with_its_turn_and_what_it_took(tmp_path: Path) -> None:
    async with serving(tmp_path, [Say("**Hello!**")]) as site:
        answer = await site.says("Hi", id="m1")
    assert (answer["id"], answer["turn"], answer["text"]) == ("m1", "t1", "**Hello!**")
    assert answer["html"] == "<p><strong>Hello!</strong></p>\n"
    assert answer["usage"]["prompt"] > answer["usage"]["completion"] > 0


async def test_a_message_streams_its_pieces_its_tools_and_its_answer(tmp_path: Path) -> None:
    script = [Say("Let me see.", (Call("calculate", '{"expression": "2+2"}', "c1"),)), Say("Four.")]
    async with serving(tmp_path, script) as site, site.streams("2+2?") as events:
        seen = [event async for event in events]
    kinds = [event.kind for event in seen if event.kind != "context"]
    assert (kinds[0], kinds[-1]) == ("turn", "done")
    assert [e.data["state"] for e in seen if e.kind == "tool"] == ["running", "done"]
    assert "".join(e.data["text"] for e in seen if e.kind == "delta") == "Let me see.Four."
    assert seen[-1].data["text"] == "Four."
