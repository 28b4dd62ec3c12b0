"""Tests of the tools of MCP servers: found by `tool_search`, called by `use_tool`, and
untrusted."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from bot.settings import SettingError, load_layers
from channels.message import Address, Reply
from memory.keys import ConversationKey
from plugins.mcp.catalogue import ListedTool
from plugins.mcp.servers import Servers
from tests.fakes.openai_server import OpenAIServer
from tests.mcp.fakes.http_server import McpHttpServer
from tests.mcp.testbot import (
    NOTES,
    calls_in,
    last_result,
    notes,
    running_programs,
    script,
    with_servers,
)
from tests.waiting import PATIENCE, until
from tests.whole.process import AFRESH, talking
from tests.whole.testbot import TestBot, run_bot

KEY = ConversationKey("pipe/main", "pipe-main")


@pytest.mark.usefixtures("processes")
async def test_a_tool_is_found_called_as_any_other_and_its_result_is_marked(tmp_path: Path) -> None:
    """No server is started before a tool search; results of servers taint the context."""
    async with run_bot(tmp_path, script, with_servers(notes=notes(tmp_path))) as bot:
        await bot.says("Hello")
        assert calls_in(tmp_path) == []
        conversation = await bot.app.conversations.get(KEY)
        assert not conversation.context.view().has_outside
        await bot.says('call tool_search {"query": "add a note"}')
        assert calls_in(tmp_path) == ["started"]
        assert '"name": "notes__add_note"' in last_result(bot)
        assert "<untrusted" in last_result(bot), "strangers say what it does"
        assert conversation.context.view().has_outside
        await bot.says("/context clear")
        assert not conversation.context.view().has_outside
        await bot.says('use notes__find_notes {"words": "milk"}')
        assert "One note." in last_result(bot)
        assert "<untrusted" in last_result(bot)
        turn = (await conversation.context.turns([3]))[0]
        sent = [c["function"] for m in bot.sent_to_model() for c in m.get("tool_calls", ())]
    call, result = turn.entries[1].message.tool_calls[0], turn.entries[2].message
    assert (call.name, call.parse()) == ("notes__find_notes", {"words": "milk"})
    assert (result.tool, result.is_untrusted) == ("notes__find_notes", True)
    assert [one["name"] for one in sent] == ["use_tool"], "the model sees what it wrote"
    assert calls_in(tmp_path) == ["started", "find_notes milk"]


@pytest.mark.usefixtures("processes")
async def test_a_server_is_one_line_of_the_prompt_which_is_the_same_whatever_it_does(
    tmp_path: Path,
) -> None:
    servers = with_servers(
        notes=notes(tmp_path, about="my notes"), gone={"command": "no-such-program"}
    )
    async with run_bot(tmp_path, script, servers) as bot:
        await bot.says("Hello")
        before = bot.server.turns[-1].body
        await bot.says('call tool_search {"query": "note"}')
        await bot.says('use notes__add_note {"text": "x"}')
        await bot.says("Thanks")
        after = bot.server.turns[-1].body
        history = (await bot.says("/context history")).text
    prompt = before["messages"][0]["content"]
    assert "\n- gone\n- notes: my notes" in prompt
    assert "add_note" not in prompt
    assert after["messages"][0] == before["messages"][0]
    assert after["tools"] == before["tools"]
    assert "changed: tools" not in history


@pytest.mark.usefixtures("processes")
async def test_failures_resources_and_new_tools_reach_the_model_and_subagents_have_them_all(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, script, with_servers(notes=notes(tmp_path))) as bot:
        await bot.says("use notes__fail")
        assert "Error executing tool fail" in last_result(bot)
        await bot.says("use notes__add_note")
        assert "text" in last_result(bot)
        await bot.says("use notes__nothing")
        assert "There is no tool 'notes__nothing' here" in last_result(bot)
        await bot.says('call tool_search {"query": "resources"}')
        assert "notes__list_resources" in last_result(bot)
        await bot.says("use notes__list_resources")
        assert "notes://today: Today's notes." in last_result(bot)
        await bot.says('use notes__read_resource {"uri": "notes://today"}')
        assert "Buy milk." in last_result(bot)
        await bot.says('call delegate {"task": "use notes__add_note {\\"text\\": \\"x\\"}"}')
        assert "add_note x" in calls_in(tmp_path)
        await bot.says("use notes__learn")
        await until(lambda: any("1 new: fail_again" in one.reply.text for one in bot.sent))
        await bot.says("use notes__fail_again")
        assert "Error executing tool" in last_result(bot)


@pytest.mark.usefixtures("processes")
async def test_only_tools_that_are_allowed_are_there_and_owners_alone_use_them(
    tmp_path: Path,
) -> None:
    servers = with_servers(notes=notes(tmp_path, tools=["find_*"]))
    async with run_bot(tmp_path, script, servers) as bot:
        await bot.says('call tool_search {"query": "notes"}')
        assert "notes__find_notes" in last_result(bot)
        assert "notes__add_note" not in last_result(bot)
        await bot.says('use notes__add_note {"text": "x"}')
        assert "There is no tool 'notes__add_note' here" in last_result(bot)
        await bot.app.access.open_chat(Address("pipe", "main", user="bob"), "pipe")
        await bot.says("use notes__find_notes", user="bob")
        assert "There is no tool 'notes__find_notes'" in last_result(bot)
        await bot.says('use notes__find_notes {"words": "y"}')
    assert calls_in(tmp_path) == ["started", "find_notes y"]


@pytest.mark.usefixtures("processes")
async def test_a_person_is_asked_before_each_call_and_a_job_needs_it_granted(
    tmp_path: Path,
) -> None:
    servers = with_servers(notes=notes(tmp_path, approve="ask", allow=["find_*"]))
    async with run_bot(tmp_path, script, servers) as bot:
        await bot.says('use notes__find_notes {"words": "a"}')
        assert calls_in(tmp_path)[-1] == "find_notes a", "it is allowed in the settings"
        await bot.writes('use notes__add_note {"text": "x"}', id="asked")
        question = await asked(bot)
        assert "Run `notes__add_note` with exactly this:" in question.text
        assert "text: x" in question.text
        await bot.says(question.actions[-1].command)
        await bot.reply_to("asked")
        assert "the person said no" in last_result(bot)
        job = 'every day 8:00 use notes__add_note {"text": "%s"}'
        await bot.says("/jobs add " + job % "no")
        await bot.says("/jobs add --allow notes__add_note " + job % "yes")
        for number in (1, 2):
            await bot.says(f"/jobs run {number}")
            await bot.app.idle()
        told = [one["content"] for r in bot.server.requests for one in r.body["messages"]]
    assert any("nobody attends this job" in str(one) for one in told)
    assert calls_in(tmp_path) == ["started", "find_notes a", "add_note yes"]


async def asked(bot: TestBot) -> Reply:
    """Return the pending question."""
    async with bot._arrived:
        await bot._arrived.wait_for(
            lambda: any("Allow the model to do this?" in o.reply.text for o in bot.sent)
        )
    return next(o.reply for o in bot.sent if "Allow the model to do this?" in o.reply.text)


@pytest.mark.usefixtures("processes")
async def test_a_server_serves_the_owners_private_chats_and_others_only_where_it_is_widened(
    tmp_path: Path,
) -> None:
    servers = with_servers(notes=notes(tmp_path), ours=notes(tmp_path, serves=["users", "chat/x"]))
    settings = servers | {"owners": ["chat/ann"]}
    async with run_bot(tmp_path, script, settings, channel="chat") as bot:
        for chat in ("group", "x"):
            await bot.app.access.open_chat(Address("chat", chat, user="ann"), "chat/ann")
        for chat, names in (("ann", ["notes", "ours"]), ("group", []), ("x", ["ours"])):
            await bot.says("Hello", chat, "ann")
            prompt = bot.sent_to_model()[0]["content"]
            assert [one for one in ("notes", "ours") if f"\n- {one}" in prompt] == names, chat
        await bot.says('use notes__add_note {"text": "y"}', "x", "ann")
        assert "There is no tool 'notes__add_note'" in last_result(bot)
        await bot.says('use ours__add_note {"text": "z"}', "x", "bob")
    assert [line for line in calls_in(tmp_path) if line != "started"] == ["add_note z"]


def test_what_is_wrong_in_the_settings_is_said_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    wrong = {
        "none": {},
        "Two": {"command": "a"},
        "typo": {"command": "a", "arg": []},
        "kind": {"url": "ftp://a"},
    }
    config.write_text(json.dumps({"mcp": {"servers": wrong}}))
    with pytest.raises(SettingError) as found:
        load_layers(config, {})
    said = str(found.value)
    assert "mcp.servers.none in config.json needs a command, or a url, and not both." in said
    assert "mcp.servers.typo.arg in config.json is not known; did you mean 'args'?" in said
    assert 'mcp.servers.Two.name in config.json is "Two"; it must be up to 24 small' in said
    assert 'mcp.servers.kind.url in config.json is "ftp://a"; it must be an address' in said


# --- /mcp -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("processes")
async def test_a_server_that_an_owner_adds_is_there_at_once_and_after_a_restart(
    tmp_path: Path,
) -> None:
    line = f"{sys.executable} {NOTES} {tmp_path}"
    async with run_bot(tmp_path, script) as bot:
        assert "There are no MCP servers here" in (await bot.says("/mcp")).text
        said = (await bot.says(f"/mcp add notes {line}")).text
        assert "The server notes is added." in said
        assert "outside of the sandbox" in said
        assert "It has 7 tools" in said
        assert calls_in(tmp_path) == ["started"]
        assert "There is a server notes already" in (await bot.says("/mcp add notes x")).text
    async with run_bot(tmp_path, script) as bot:
        assert "| notes | 7 |" in (await bot.says("/mcp list")).text
        listed = (await bot.says("/mcp tools notes")).text
        assert "notes__add_note" in listed.replace("\\", "")
        assert calls_in(tmp_path) == ["started"], "what it lists is known"
        assert "is removed" in (await bot.says("/mcp remove notes")).text
        assert "There are no MCP servers here" in (await bot.says("/mcp")).text


@pytest.mark.usefixtures("processes")
async def test_servers_are_added_as_others_write_them(tmp_path: Path) -> None:
    async with McpHttpServer() as server, run_bot(tmp_path, script) as bot:
        program = {"command": sys.executable, "args": [str(NOTES), str(tmp_path)], "cwd": "/x"}
        written = {"mcpServers": {"My Notes": program, "loop": {"type": "http", "url": server.url}}}
        text = json.dumps(written, indent=2)
        said = await bot.says(f"/mcp add Here it is:\n```json\n{text}\n```")
        assert "The server my-notes is added. It is a program that runs on" in said.text
        assert "The server loop is added. It has 1 tool" in said.text
        assert "Ignored: cwd." in said.text
        listed = (await bot.says("/mcp")).text
        assert "| my-notes | 7 |" in listed
        assert "| loop | 1 |" in listed
        assert "There is a server my-notes already" in (await bot.says(f"/mcp add {text}")).text
        await bot.says("/mcp remove loop")
        said = await bot.says(
            f'/mcp add other {{"servers": {{"x": {{"serverUrl": "{server.url}"}}}}}}'
        )
        assert "The server other is added. It has 1 tool" in said.text
        key = {"servers": {"x": {"url": server.url, "headers": {"Authorization": "Bearer abc"}}}}
        said = await bot.says(f"/mcp add {json.dumps(key)}")
        assert "headers.Authorization holds a key as plain text" in said.text.replace("\\", "")


async def test_whether_a_connection_is_there_is_known_to_who_asks(tmp_path: Path) -> None:
    async with McpHttpServer(refusal="example") as server:
        settings = with_servers(loop={"url": server.url, "approve": "never"})
        async with run_bot(tmp_path, script, settings) as bot:
            await bot.says("use loop__act")
            assert "Acted." in last_result(bot)
            assert "running" in (await bot.says("/mcp")).text
            await server.stop()
            said = (await bot.says("/mcp")).text
            assert "failed: it can't be reached" in said.replace("\\", "")
            await server.start()
            await bot.says("use loop__act")
            assert "Acted." in last_result(bot)
            await server.restart()
            assert "running" in (await bot.says("/mcp")).text
    assert server.calls == ["act", "act"]


async def test_what_can_not_be_added_is_said(tmp_path: Path) -> None:
    usage = "Say `/mcp add NAME PROGRAM ARGUMENTS`"
    refused = {
        "": usage,
        "Notes x": usage,
        "notes": usage,
        'notes {"command": "x", "env": {"API_KEY": "abc"}}': "env.API_KEY holds a key as",
        'notes {"url": "x"}': "it must be an address",
        'nope {"command": "x{{secret.NOPE}}"}': "NOPE is neither in the environment nor",
        "plain sh -c {{secret.PLAIN}}": "nothing says that PLAIN is a secret",
        "gone no-such-program-there": "there is no program 'no-such-program-there'",
    }
    async with run_bot(tmp_path, script, None, {"PLAIN": "a-value-that-is-said"}) as bot:
        for typed, answer in refused.items():
            said = (await bot.says(f"/mcp add {typed}")).text
            assert answer in said.replace("\\", ""), typed
            assert "a-value-that-is-said" not in said
        await bot.app.access.open_chat(Address("pipe", "bob", user="bob"), "pipe")
        for command in ("add x y", "remove x", "restart x", "trim"):
            said = (await bot.says(f"/mcp {command}", "bob", "bob")).text
            assert said.startswith("Only an owner may"), command


@pytest.mark.usefixtures("processes")
async def test_tokens_and_calls_of_each_server_and_tool_are_told_and_trimmed(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, script, with_servers(notes=notes(tmp_path))) as bot:
        await bot.says('use notes__add_note {"text": "x"}')
        detail = await bot.says("/context detail")
        assert "6 of 7 tools never called: /mcp trim" in detail.text
        assert detail.data is not None
        (server,) = detail.data["servers"]
        (tool,) = (one for one in server["tools"] if one["name"] == "notes__add_note")
        assert (tool["calls"], tool["tokens"] > 10) == (1, True)
        hidden = await bot.says("/mcp trim")
        assert "6 tools that were never called are hidden" in hidden.text
        await bot.says('call tool_search {"query": "notes"}')
        assert "notes__add_note" in last_result(bot)
        assert "notes__find_notes" not in last_result(bot)
        await bot.says("use notes__find_notes")
        assert "There is no tool 'notes__find_notes' here" in last_result(bot)
        (undo,) = (one.command for one in hidden.actions)
        assert "Other tools are hidden" in (await bot.says("/mcp trim undo 12345678")).text
        assert "All tools" in (await bot.says(undo)).text
        assert "Other tools are hidden" in (await bot.says(undo)).text, "pressed twice"
        await bot.says("use notes__find_notes")
        assert "One note." in last_result(bot)


@pytest.mark.usefixtures("processes")
async def test_a_secret_reaches_the_server_and_nobody_else(tmp_path: Path) -> None:
    server = {
        "command": "sh",
        "args": ["-c", 'echo "$API_KEY" > key; exec "$0" "$@"', sys.executable, str(NOTES), "."],
        "env": {"API_KEY": "{{secret.NOTES_KEY}}"},
    }
    environ = {"NOTES_KEY": "s3cret-enough"}
    async with run_bot(tmp_path, script, with_servers(notes=server), environ) as bot:
        await bot.says("/mcp tools notes")
        shown = (await bot.says("/config mcp.servers")).text
    assert "s3cret" not in shown
    folder = tmp_path / "data" / "audiences" / "pipe-main"
    assert (folder / "key").read_text() == "s3cret-enough\n"
    assert (folder / "calls").read_text() == "started\n", "it works in the audience's folder"


@pytest.mark.usefixtures("processes")
async def test_what_people_are_told_of_a_server_has_no_secret_in_it(tmp_path: Path) -> None:
    environ = {"NOTES_KEY": "s3cret-enough"}
    server = {
        "command": "sh",
        "args": ["-c", "echo no way with $0 >&2; exit 1", "{{secret.NOTES_KEY}}"],
    }
    async with run_bot(tmp_path, script, with_servers(notes=server), environ) as bot:
        for line in ("/mcp tools notes", "/mcp", "/mcp restart notes", "/context detail"):
            reply = await bot.says(line)
            assert "s3cret" not in reply.text + str(reply.data), line
        assert "no way with ***" in (await bot.says("/mcp")).text.replace("\\", "")
        await bot.says("use notes__find_notes")
        assert "s3cret" not in last_result(bot)
        await until(lambda: any("as an owner" in one.reply.text for one in bot.sent))
        assert not any("s3cret" in one.reply.text for one in bot.sent)


# --- over the network -----------------------------------------------------------------------------


@asynccontextmanager
async def listening(folder: Path, kind: str) -> AsyncIterator[str]:
    """Run the server of notes, at an address of this machine."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(NOTES), str(folder), kind, "0"), stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            told = await process.stderr.readuntil(b" (Press")
        (url,) = re.findall(r"running on (http://\S+)", told.decode())
        yield f"{url}/{'sse' if kind == 'sse' else 'mcp'}"
    finally:
        process.kill()
        await process.communicate()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_servers_are_reached_over_the_network(tmp_path: Path, kind: str) -> None:
    async with listening(tmp_path, kind) as url:
        server = {"url": url, "transport": kind, "approve": "never"}
        settings = with_servers(notes=server)
        async with run_bot(tmp_path, script, settings) as bot:
            await bot.says('call tool_search {"query": "add a note"}')
            assert "notes__add_note" in last_result(bot)
            await bot.says('use notes__add_note {"text": "x"}')
            assert "Added: x" in last_result(bot)
            await bot.says('use notes__read_resource {"uri": "notes://today"}')
            assert "Buy milk." in last_result(bot)
            before = len(calls_in(tmp_path))
    assert before == 2


async def test_an_address_that_nobody_serves_is_said_to_be_none(tmp_path: Path) -> None:
    server = {"url": "http://127.0.0.1:9/mcp", "approve": "never"}
    async with run_bot(tmp_path, script, with_servers(notes=server)) as bot:
        await bot.says("use notes__add_note")
        assert "The server notes is not available: " in last_result(bot)


async def test_an_answer_over_the_network_is_no_longer_than_a_message_may_be(
    tmp_path: Path,
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n"
        )
        writer.write(head + b"\r\n")
        try:
            while not writer.is_closing():
                writer.write(b"[" * 100_000)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        settings = with_servers(notes={"url": f"http://127.0.0.1:{port}/"})
        async with run_bot(tmp_path, script, settings) as bot:
            await bot.says("use notes__add_note")
            assert "its answer can't be read: it is longer than 4 MB" in last_result(bot)


# --- other features
# --------------------------------------------------------------------------------


@pytest.mark.usefixtures("processes")
async def test_a_call_that_is_stopped_leaves_the_server_as_it_is_also_in_a_small_window(
    tmp_path: Path,
) -> None:
    """In a small window, the bot's own tools are only listed, like the servers'."""
    small = with_servers(notes=notes(tmp_path)) | {"context": {"max_tokens": 3_000}}
    async with run_bot(tmp_path, script, small) as bot:
        await bot.says("use notes__find_notes")
        await bot.writes('use notes__wait {"seconds": 0.5}', id="long")
        await until(lambda: "wait" in calls_in(tmp_path))
        await bot.says("/stop")
        assert "Stopped" in (await bot.reply_to("long")).reply.text
        await bot.says('use notes__add_note {"text": "after"}')
        assert "Added: after" in last_result(bot)
        names = [one["function"]["name"] for one in bot.server.turns[-1].body["tools"]]
        assert names == ["tool_search", "use_tool"]
        await bot.says("/config tools.share 1")
        await bot.says("Hello")
        names = [one["function"]["name"] for one in bot.server.turns[-1].body["tools"]]
    assert names[-2:] == ["tool_search", "use_tool"]
    assert "write_file" in names
    assert calls_in(tmp_path).count("started") == 1


@pytest.mark.usefixtures("processes")
async def test_a_server_that_nobody_uses_is_ended_and_started_again(tmp_path: Path) -> None:
    settings = with_servers(notes=notes(tmp_path))
    settings["mcp"]["idle"] = 1
    async with run_bot(tmp_path, script, settings) as bot:
        await bot.says("use notes__find_notes")
        await until(lambda: not running_programs(NOTES, tmp_path))
        await bot.says("use notes__find_notes")
        assert "One note." in last_result(bot)
        assert not any("as an owner" in one.reply.text for one in bot.sent)
    assert calls_in(tmp_path).count("started") == 2


@pytest.mark.usefixtures("processes")
async def test_a_call_that_a_crash_cut_short_is_not_made_again(tmp_path: Path) -> None:
    config = with_servers(notes=notes(tmp_path))
    async with OpenAIServer(script) as endpoint:
        async with talking(tmp_path, endpoint, config) as bot:
            await bot.tell('use notes__wait {"seconds": 3600}', id="long")
            await until(lambda: "wait" in calls_in(tmp_path))
            await bot.kill()
        await until(lambda: not running_programs(NOTES, tmp_path))
        async with talking(tmp_path, endpoint) as bot:
            assert (await bot.reply_to("long"))["text"] == "Done."
            assert await bot.ended() == 0
        told = str(endpoint.turns[-1].body["messages"][-1]["content"])
    assert "notes__wait was interrupted by a restart; it may have happened" in told
    assert calls_in(tmp_path) == ["started", "wait"]


async def test_where_the_extra_is_missing_it_is_said_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "mcp", None)
    for name in ("plugins.mcp.client", "plugins.mcp.pipes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    async with run_bot(tmp_path, script, with_servers(notes=notes(tmp_path))) as bot:
        await bot.says("use notes__add_note")
        assert "install it with `python main.py add mcp" in last_result(bot)


@pytest.mark.usefixtures("processes")
async def test_without_servers_the_sdk_is_never_imported(tmp_path: Path) -> None:
    async with (
        OpenAIServer(script) as endpoint,
        talking(tmp_path, endpoint, shell=AFRESH) as bot,
    ):
        await bot.says("Hello")
        maps = await asyncio.to_thread(Path(f"/proc/{bot.process.pid}/maps").read_text)
        assert await bot.ended() == 0
    assert "rpds" not in maps
    assert "pydantic_core" in maps, "what is imported is seen there"


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("change", ["description", "parameters", "gone", "another"])
async def test_a_yes_is_for_the_tool_as_it_was_when_it_was_asked_for(
    tmp_path: Path, change: str
) -> None:
    servers = with_servers(notes=notes(tmp_path, approve="ask"))
    async with run_bot(tmp_path, script, servers) as bot:
        await bot.says('call tool_search {"query": "add a note"}')
        await bot.writes('use notes__add_note {"text": "x"}', id="asked")
        yes = (await bot.reply_to("")).reply.actions[0]
        known = bot.app.features.service(Servers)
        listed = {
            name: ListedTool.from_json(name, one.listed)
            for name, one in (await known.known())["notes"].items()
        }
        match change:
            case "description":
                listed["add_note"] = replace(listed["add_note"], description="Sends a mail.")
            case "parameters":
                listed["add_note"] = replace(listed["add_note"], parameters={"type": "object"})
            case "gone":
                del listed["add_note"]
            case _:
                listed["another"] = ListedTool("another")
        await known.keep_listing("notes", [*listed.values()])
        await bot.says(yes.command)
        await bot.reply_to("asked")
        is_called = "add_note x" in calls_in(tmp_path)
        assert is_called == (change == "another")
        assert ("was not called" in last_result(bot)) == (not is_called)
