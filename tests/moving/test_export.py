"""Tests of exporting all messages as plain files, and of importing them again unchanged."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.message import Attachment
from main import main
from memory.keys import ConversationKey
from memory.messages import Message, ToolCall
from memory.record import conversations, engines, transcript
from memory.record.store import Store
from memory.turns import Entry
from plugins.moving.record import ArchivedConversation, list_all
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.moving.other_programs import PNG
from tests.whole.scenario import say_all
from tests.whole.testbot import run_bot

pytestmark = pytest.mark.sqlite  # the other system keeps the data on a server

texts = st.text('ab \n"\\#|<>\u00e9\u4e2d\U0001f600', max_size=12)
names = st.sampled_from(["web/main", "terminal/a b%2Fc", "telegram/42/7", "web/ann%2Ftrip"])
flags = st.booleans()


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """Draw a turn, with or without a tool call."""
    question = Message("user", draw(texts) or "?", speaker=draw(st.sampled_from(["", "Ann"])))
    said = [question]
    if draw(flags):
        call = ToolCall(draw(st.sampled_from(["x", "y"])), "search", json.dumps({"q": draw(texts)}))
        result = Message("tool", draw(texts), call_id=call.id, tool="search", is_untrusted=True)
        said += [Message("assistant", draw(texts), (call,), reasoning=draw(texts)), result]
    said += [Message("note", draw(texts))] if draw(flags) else []
    answer = draw(texts)
    mark = "" if answer else "stopped"
    said.append(Message("assistant", answer, is_tainted=draw(flags), terse=draw(texts), mark=mark))  # type: ignore[arg-type]
    return said


@st.composite
def records(draw: st.DrawFn) -> dict[str, tuple[str, list[Entry]]]:
    """Draw conversations by their ids: titles and messages, with gaps for deleted messages."""
    found = {}
    for name in draw(st.lists(names, min_size=1, max_size=3, unique=True)):
        entries: list[Entry] = []
        seq, at = 0, datetime(2024, 1, 1, tzinfo=UTC)
        for turn, said in enumerate(draw(st.lists(turns(), min_size=1, max_size=3)), 1):
            seq += draw(st.sampled_from([0, 0, 3]))
            for message in said:
                seq, at = seq + 1, at + timedelta(microseconds=draw(st.integers(0, 10**9)))
                entries.append(Entry(seq, 2 * turn, message, 0, at))
        found[name] = (draw(st.sampled_from(["", "A title", "两只山羊"])), entries)
    return found


async def write(place: Path, record: dict[str, tuple[str, list[Entry]]]) -> None:
    store = await Store.open(engines.engine_for(place))
    try:
        for name, (title, entries) in record.items():

            def work(db: Any, n: str = name, t: str = title, e: list[Entry] = entries) -> None:
                row = conversations.find_or_create(db, ConversationKey(n, "anything"))
                conversations.rename(db, ConversationKey(n, "anything").id, t)
                transcript.insert(db, row.id, e)

            await store.write(work)
    finally:
        await store.close()


async def read(place: Path) -> dict[str, tuple[str, list[Entry]]]:
    """Return the content of a record; the tokens of a message are left out, since they are counted
    again."""
    store = await Store.open(engines.engine_for(place))
    try:

        def work(db: Any) -> dict[str, tuple[str, list[Entry]]]:
            every: list[ArchivedConversation] = list_all(db)
            return {
                one.id: (
                    one.title,
                    [
                        Entry(e.seq, e.turn, e.message, 0, e.at)
                        for e in transcript.own_entries(db, one.row)
                    ],
                )
                for one in every
            }

        return await store.read(work)
    finally:
        await store.close()


def run(folder: Path, *arguments: object) -> int:
    places = ["--config", str(folder / "config.json"), "--data", str(folder / "data")]
    return main([*places, *map(str, arguments)])


@given(records())
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_goes_out_and_comes_back_is_equal(record: dict[str, tuple[str, list[Entry]]]) -> None:
    with TemporaryDirectory() as place:
        old, new = Path(place, "old"), Path(place, "new")
        for folder in (old, new):
            (folder / "data").mkdir(parents=True)
            (folder / "config.json").write_text("{}")
        asyncio.run(write(old / "data" / "parley.db", record))
        assert run(old, "export", old / "out") == 0
        assert run(new, "import", "parley", old / "out", "--mine") == 0
        assert asyncio.run(read(new / "data" / "parley.db")) == record
        assert run(new, "import", "parley", old / "out", "--mine") == 0
        assert asyncio.run(read(new / "data" / "parley.db")) == record, "twice is once"


class Homes:
    """Two installations: the source and the destination."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.old, self.new, self.out = folder / "old", folder / "new", folder / "out"
        self._capsys = capsys
        for home in (self.old, self.new):
            home.mkdir()
            (home / "config.json").write_text('{"model": "gpt-4o-mini"}')

    async def leaves(self) -> str:
        return await self._run(self.old, "export", self.out)

    async def arrives(self, *options: str, code: int = 0) -> str:
        return await self._run(self.new, "import", "parley", self.out, *options, code=code)

    async def _run(self, home: Path, *arguments: object, code: int = 0) -> str:
        found = await asyncio.to_thread(run, home, *arguments)
        said = self._capsys.readouterr()
        assert found == code, said.out + said.err
        return said.err if code else said.out

    def files(self, name: str) -> Iterator[Path]:
        return self.out.rglob(name)


@pytest.fixture
def homes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Homes:
    return Homes(tmp_path, capsys)


def echo(request: Received) -> Answer:
    last = request.body["messages"][-1]
    if request.is_summary:
        return Say("A summary.")
    if last["role"] == "tool":
        return Say(f"Found: {last['content']}")
    asked = str(last["content"]).rpartition("\n\n")[2]
    if asked.startswith("{"):
        return Say(calls=(Call("context_search", asked, "look"),))
    return Say(f"You said: {asked}")


async def test_branches_come_back_as_branches(homes: Homes) -> None:
    async with run_bot(homes.old, echo) as bot:
        for text in ("One", "Two", "Three"):
            await bot.says(text)
        await say_all(bot, "/fork t1 Other way", "Another two")
        before = (await bot.says("/branches")).data
    await homes.leaves()
    readable = "\n".join(path.read_text() for path in homes.files("conversation.md"))
    assert "It goes on from pipe/main after t1." in readable
    await homes.arrives("--mine")
    async with run_bot(homes.new, echo) as bot:
        after = (await bot.says("/branches")).data
        await bot.says("/branches 2")
        found = await bot.says('{"mode": "search", "query": "One"}')
        other = await bot.says('{"mode": "search", "query": "Three"}')
    assert before
    assert after
    assert [one["title"] for one in after["branches"]] == [
        one["title"] for one in before["branches"]
    ]
    assert "[user t1] One" in found.text
    assert "Nothing" in other.text


async def test_standing_rules_come_back_and_those_of_others_wait_for_a_yes(homes: Homes) -> None:
    orders = ["Never write to my boss.", "Always be brief.", "Never ask twice."]
    async with run_bot(homes.old, echo) as bot:
        lines = ("Hi", f"/rules add {orders[0]}", f"/rules add --everywhere {orders[1]}")
        await say_all(bot, *lines, orders[2], "/rules dismiss 3", "/rules add Gone", "/rules undo")
    await homes.leaves()
    assert "4 standing instructions, for its chats\n" in await homes.arrives("--mine", "--dry-run")
    assert "4 standing instructions, for its chats\n" in await homes.arrives("--mine")
    assert "standing instruction" not in await homes.arrives("--mine")
    async with run_bot(homes.new, echo) as bot:
        found = ((await bot.says("/rules")).data or {})["rules"]
        assert [(one["text"], one["scope"]) for one in found] == [
            (orders[0], "conversation"),
            (orders[1], "everywhere"),
        ]
        assert orders[2] not in (await bot.says(orders[2])).text.partition("Keep this")[2]
    shutil.rmtree(homes.new / "data")
    assert "they wait there: /rules" in await homes.arrives()
    async with run_bot(homes.new, echo) as bot:
        found = ((await bot.says("/rules")).data or {})["rules"]
        assert {(one["state"], one["scope"]) for one in found} == {("proposed", "conversation")}
    (file,) = homes.files("rules.json")
    file.write_text('[{"text": 3}]')
    assert "rules.json says what no export says" in await homes.arrives("--mine")


async def test_what_a_person_took_away_is_not_in_it(homes: Homes) -> None:
    async with run_bot(homes.old, echo) as bot:
        await say_all(bot, "Take this away", "/undo", "**Find** Casa Rosa.\nIt is a hotel.")
    told = await homes.leaves()
    assert "Not exported: 2 messages" in told
    assert "Exported 1 conversation with 2 messages, and 0 files" in told
    (lines,) = homes.files("messages.jsonl")
    assert "Take this away" not in lines.read_text()
    (readable,) = homes.files("conversation.md")
    assert readable.read_text().startswith("# Find Casa Rosa.\n"), "its first words are its title"
    assert "[Find Casa Rosa.](pipe-main/" in (homes.out / "README.md").read_text()
    assert "already exists" in await homes._run(homes.old, "export", homes.out, code=1)
    inside = homes.old / "data" / "out"
    assert "inside the data folder" in await homes._run(homes.old, "export", inside, code=1)
    assert not list(homes.old.parent.glob(".parley-export-*"))
    assert "--user is for open-webui alone" in await homes.arrives("--user", "ann", code=1)
    assert "--to is not for parley" in await homes.arrives("--to", "terminal", code=1)


async def test_memory_and_files_come_back(homes: Homes) -> None:
    async with run_bot(homes.old, echo) as bot:
        await say_all(bot, "Something", "/remember Ann keeps goats", "/new")
        await bot.app.conversations.flush()
    remembered = (homes.old / "data/audiences/pipe-main/memory/MEMORY.md").read_text()
    files = homes.old / "data" / "audiences" / "pipe-main" / "files"
    files.mkdir(parents=True, exist_ok=True)
    (files / "list.txt").write_text("cheese")
    (files / "large.bin").write_bytes(b"x" * 21_000_000)
    (files / "back\\slash").write_text("no name everywhere")
    deep = files.joinpath(*"abcdefgh")
    deep.mkdir(parents=True)
    (deep / "notes.txt").write_text("deep")
    (days,) = (homes.old / "data" / "audiences" / "pipe-main" / "memory").glob("2*.md")
    days.write_text(f"A note of mine.\n\n{days.read_text()}")
    await homes.leaves()
    assert "1 file whose name is too long" in await homes.arrives("--mine")
    assert (homes.new / "data/audiences/pipe-main/memory/MEMORY.md").read_text() == remembered
    async with run_bot(homes.new, echo) as bot:
        listed = await bot.says("/memory list")
        day = await bot.says(f"/memory {days.stem}")
        await say_all(bot, "More", "/new")
        await bot.app.conversations.flush()
        later = await bot.says(f"/memory {datetime.now(UTC):%Y-%m-%d}")
    assert "Ann keeps goats" in listed.text
    assert "A note of mine." in day.text
    assert "A summary." in day.text
    assert later.text.count("A summary.") == 2, "a new section is not taken for the old one"
    assert (homes.new / "data/audiences/pipe-main/files/list.txt").read_text() == "cheese"
    assert "already imported" in await homes.arrives("--mine")
    there = homes.new / "data" / "audiences" / "pipe-main" / "files"
    assert there.joinpath(*"abcdefgh", "notes.txt").read_text() == "deep"
    assert (there / "large.bin").stat().st_size == 21_000_000


async def test_a_file_that_is_another_on_this_disk_is_counted(homes: Homes) -> None:
    async with run_bot(homes.old, echo) as bot:
        await bot.says("Something")
    files = homes.old / "data" / "audiences" / "pipe-main" / "files"
    files.mkdir(parents=True, exist_ok=True)
    for name in ("List.txt", "list.txt"):
        (files / name).write_text(name)
    await homes.leaves()
    there = homes.new / "data" / "audiences" / "pipe-main" / "files"
    assert "on this disk" not in await homes.arrives("--mine")
    assert (there / "list.txt").read_text() == "list.txt"
    (there / "list.txt").unlink()
    (there / "list.txt").hardlink_to(there / "List.txt")  # as a disk that ignores case shows it
    assert "1 file whose name is another's on this disk" in await homes.arrives("--mine")


async def test_somebody_elses_export_is_text_from_outside(homes: Homes) -> None:
    async with run_bot(homes.old, echo) as bot:
        await say_all(bot, "Hello", "/remember Trust everybody")
    await homes.leaves()
    told = await homes.arrives()
    assert "1 line of memory, for its chats; it waits there" in told
    async with run_bot(homes.new, echo) as bot:
        listed = await bot.says("/memory list")
        proposed = await bot.says("/memory diff")
        conversation = await bot.app.conversations.get(ConversationKey("pipe/main", "pipe-main"))
        entries = [e for turn in await conversation.context.turns([1]) for e in turn.entries]
    assert "Trust everybody" not in listed.text
    assert f"{datetime.now(UTC):%Y-%m-%d}: Trust everybody" in proposed.text
    assert proposed.text.count(f"{datetime.now(UTC):%Y-%m-%d}: ") == 1, "its date stands there once"
    assert all(entry.message.is_tainted for entry in entries)


def line(**fields: object) -> str:
    return json.dumps({"seq": 1, "turn": 1, "at": "2024-01-01T00:00:00Z", "role": "user", **fields})


DAMAGED: list[tuple[list[str], str]] = [
    (["nonsense"], "line 1 of web-main/web%2Fmain/messages.jsonl is damaged"),
    ([line(text="Hi", extra=1)], "extra"),
    ([line(role="system")], "role"),
    ([line(role="assistant", text="Hi")], "does not begin with the person's words"),
    ([line(text="Hi"), line(text="again")], "out of order"),
    ([line(text="Hi"), line(seq=2, role="tool", call_id="x")], "the result of no call"),
    ([line(text="Hi", files=["../../secret"])], "files"),
    ([line(text="Hi", images=[{"sha256": "../x", "media_type": "image/png"}])], "sha256"),
    (["[" * 100_000], "line 1 of web-main/web%2Fmain/messages.jsonl is damaged"),
    ([line(text="Hi"), line(seq=2, text="again")[:30]], "line 2 of web-main/web%2Fmain/mess"),
    ([line(text="Hi"), f"{line(seq=2)} and more"], "line 2 of web-main/web%2Fmain/mess"),
]


async def refused(homes: Homes, name: str, lines: list[str], folder: str) -> str:
    """Return the error of an import of a conversation with this name and these messages."""
    place = homes.out / "web-main" / folder
    os.makedirs(place)
    about = {"format": "parley-conversation", "version": 1, "id": name}
    (place / "about.json").write_text(json.dumps(about))
    (place / "messages.jsonl").write_text("\n".join(lines))
    told = await homes.arrives("--mine", code=1)
    shutil.rmtree(homes.out)
    return told


async def test_messages_that_none_of_ours_are_end_in_a_sentence(homes: Homes) -> None:
    for lines, why in DAMAGED:
        told = await refused(homes, "web/main", lines, "web%2Fmain")
        assert "1 conversation can't be read: web/main: " in told
        assert why in told
        assert "column" not in told, "that is for programmers"


async def test_a_conversation_without_a_place_is_not_taken(homes: Homes) -> None:
    for name in ("", "web", "web//", "a/b/c/d", "web/main//2", "web/a\u0000"):
        told = await refused(homes, name, [line(text="Hi")], "x")
        assert "1 conversation can't be read: web-main/x/about.json " in told


async def test_no_name_in_an_export_leads_out_of_its_folder(homes: Homes) -> None:
    about = {"format": "parley-conversation", "version": 1, "id": "web/main"}
    with zipfile.ZipFile(homes.out, "w") as archive:
        archive.writestr("../web-main/x/about.json", json.dumps(about))
        archive.writestr("../web-main/x/messages.jsonl", line(text="Hi"))
        for name in ("../evil", "/evil", "sub/../../evil", "memory/../../evil", "a\\..\\evil"):
            archive.writestr(f"../web-main/files/{name}", "evil")
            archive.writestr(f"../../files/{name}", "evil")
        archive.writestr("../web-main/data/0.png", "no picture")
        archive.writestr(f"../web-main/data/{'0' * 64}.png", "another picture")
    await homes.arrives("--mine")
    home = homes.new / "data"
    found = [path for path in homes.new.parent.rglob("*evil*") if not path.is_relative_to(home)]
    assert found == []
    inside = [path.relative_to(home) for path in home.rglob("*evil*")]
    assert all(path.is_relative_to("audiences/web-main/files") for path in inside)
    assert not list(home.rglob("*.png"))


async def test_it_is_told_what_waits_and_is_not_in_an_export(homes: Homes) -> None:
    async with run_bot(homes.old, echo) as bot:
        await say_all(bot, "Hello", "/remember Ann keeps goats")
    await homes.leaves()
    (memory,) = (one.parent for one in homes.files("MEMORY.md"))
    (memory / "2026-03-01.md").write_text("Ann sold a cheese.\n")
    await homes.arrives()
    out = homes.out.with_name("again")
    told = await homes._run(homes.new, "export", out)
    assert (
        "Not exported: 1 part of daily memory that waits in the quarantine. /memory pending" in told
    )
    assert "Not exported: proposals for the MEMORY.md of 1 chat" in told
    assert "cheese" not in "".join(path.read_text() for path in out.rglob("*.md"))
    async with run_bot(homes.new, echo) as bot:
        waiting = await bot.says("/memory pending")
        (one,) = (waiting.data or {})["pending"]
        await say_all(bot, f"/memory approve {one['id']}", "/memory diff approve")
    out = homes.out.with_name("later")
    assert "Not exported" not in await homes._run(homes.new, "export", out)
    assert "cheese" in "".join(path.read_text() for path in out.rglob("*.md"))


async def test_a_rehearsal_tells_what_the_real_import_tells(homes: Homes) -> None:
    picture = Attachment("dot.png", "image/png", PNG)
    async with run_bot(homes.old, echo) as bot:
        await bot.says("Look", files=(picture,))
        await bot.says("/remember Ann keeps goats")
    await homes.leaves()
    expected = await homes.arrives("--dry-run")
    assert not (homes.new / "data").exists()
    told = await homes.arrives()
    assert "  1 picture\n" in told
    assert facts_in(told) == facts_in(expected)
    assert facts_in(await homes.arrives("--dry-run")) == facts_in(await homes.arrives())


def facts_in(report: str) -> list[str]:
    """Return the lines with counts in an import's report."""
    return [line for line in report.splitlines() if line.startswith("  ")]


async def test_on_a_server_it_comes_back_as_well(homes: Homes, postgresql: str) -> None:
    async with run_bot(homes.old, echo) as bot:
        for text in ("One", "Two", "/fork t1 Other way", "Another two", "/remember goats"):
            await bot.says(text)
    await homes.leaves()
    (homes.new / "config.json").write_text('{"database": "{{secret.DATABASE_URL}}"}')
    (homes.new / ".env").write_text(f"DATABASE_URL={postgresql}\n")
    assert "2 conversations" in await homes.arrives("--mine")
    assert "already imported, unchanged: 2" in await homes.arrives("--mine")
    before = contents(homes.out)
    shutil.rmtree(homes.out)
    await homes._run(homes.new, "export", homes.out)
    assert contents(homes.out) == before


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, by their names."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


OTHERS = ("Tell me of tea.", "And of coffee.", "And of milk.")
LONG = "Leaves wither, are rolled, and dry; the rest is water and patience. " * 3
SAID = ("The dentist is on 12 March.", "The sofa is green.")
MECHANISMS: dict[str, tuple[str, ...]] = {
    "a rule": ("/rules add Always be brief.",),
    "a rule found and kept": ("Never write to my boss.", "/rules keep 1"),
    "a rule dismissed": ("Never write to my boss.", "/rules dismiss 1"),
    "a rule corrected": ("/rules add Call Ann at 7 pm.", "/rules edit 1 Call Ann at 8 pm."),
    "a value corrected in the chat": ("no, it's 14 March, not 12 March",),
    "a corrected line that waits": (f"/remember {SAID[0]}", "no, it's 14 March, not 12 March"),
    "a corrected line": (
        f"/remember {SAID[0]}",
        "no, it's 14 March, not 12 March",
        "/memory diff approve",
    ),
    "a line that is newer": ("no, it's 14 March, not 12 March", "/remember Ann comes on 12 March."),
    "a value corrected by a command": ("/memory wrong the sofa is green -> the sofa is grey",),
    "a line corrected by a command": (f"/remember {SAID[1]}", "/memory wrong 1 The sofa is grey."),
    "a command that is undone": (
        f"/remember {SAID[1]}",
        "/memory wrong 1 The sofa is grey.",
        "/memory undo",
    ),
    "a value corrected back": ("no, it's 14 March, not 12 March", "no, 12 March was right"),
}
"""Mechanisms that decide what the model reads, as messages of a person."""


async def read_by_the_model(home: Path) -> list[str]:
    """Return what the model reads: the request of the next message, and the results of searches."""
    texts = []
    async with run_bot(home, look) as bot:
        bot.count = 100
        await bot.says("Hello?")
        texts += [str(one["content"]) for one in bot.sent_to_model()]
        for words in ("dentist March", "sofa"):
            texts.append((await bot.says(f"SEARCH {words}")).text)
    return [re.sub(r"\d\d:\d\d", "", text) for text in texts]


def look(request: Received) -> Answer:
    last = str(request.body["messages"][-1]["content"])
    if request.is_summary:
        return Say("The dentist is on 12 March. The sofa is green.")
    if request.body["messages"][-1]["role"] == "tool":
        return Say(f"Found: {last}")
    if (words := last.rpartition("SEARCH ")[2]) != last:
        return Say(calls=(Call("memory_search", json.dumps({"query": words}), "look"),))
    return Say(LONG if last in OTHERS else "All right.")


@pytest.mark.parametrize("has_section", [False, True])
@pytest.mark.parametrize("messages", MECHANISMS.values(), ids=MECHANISMS.keys())
async def test_the_model_reads_the_same_after_an_import(
    homes: Homes, messages: tuple[str, ...], has_section: bool
) -> None:
    async with run_bot(homes.old, look) as bot:
        await say_all(bot, *SAID)
        if has_section:  # of the daily memory, with the values as they are now
            await say_all(bot, *OTHERS, "/context compact")
            await bot.app.conversations.flush()
            assert [*homes.old.rglob("2*-*.md")]
            await bot.says("/context undo")
        for text in messages:
            reply = await bot.says(text)
            if yes := next((one for one in reply.actions if "wrong yes" in one.command), None):
                await bot.says(yes.command)
    await homes.leaves()
    await homes.arrives("--mine")
    assert await read_by_the_model(homes.new) == await read_by_the_model(homes.old)
