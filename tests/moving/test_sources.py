"""Tests of reading each program's data: every kind of content that its files are known to have."""

from __future__ import annotations

import json
import re
import sqlite3
import zipfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.settings import load_layers
from plugins.moving.chatgpt import ChatGpt, without_citations
from plugins.moving.commands import as_agent
from plugins.moving.cowagent import CowAgent
from plugins.moving.open_webui import OpenWebUi
from plugins.moving.source import ForeignChat, ForeignMessage, MovingError, Persona
from plugins.moving.workspace import ForeignSource
from tests.moving.other_programs import (
    gpt_conversation,
    gpt_message,
    webui_chat,
    write_cow_database,
    write_cow_workspace,
    write_webui_database,
)

Json = dict[str, Any]


def read(source: ForeignSource) -> list[ForeignChat]:
    total = source.count()
    found = list(source.chats())
    assert total >= len(found), "the progress line's total"
    assert all(isinstance(one, ForeignChat) for one in found)
    return [one for one in found if isinstance(one, ForeignChat)]


def said(messages: Sequence[ForeignMessage]) -> list[tuple[str, str]]:
    return [(one.role, one.text) for one in messages]


def chatgpt(folder: Path, *conversations: Json) -> ChatGpt:
    path = folder / "conversations.json"
    path.write_text(json.dumps(conversations))
    return ChatGpt(path)


def test_chatgpts_kinds_of_content(tmp_path: Path) -> None:
    hidden = {"is_visually_hidden_from_conversation": True}
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "S", "content": "Hm."}]}
    code = {"content_type": "code", "language": "python", "text": "print(1)"}
    output = {"content_type": "execution_output", "text": "1"}
    error = {"content_type": "system_error", "name": "x", "text": "It broke."}
    quote = {"content_type": "tether_quote", "title": "T", "url": "u", "text": "a quote"}
    made = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-x"}
    spoken = {"content_type": "audio_transcription", "text": "spoken words"}
    context = {
        "content_type": "model_editable_context",
        "model_set_context": "1. [2024-01-01]. Ann\n2. Goats",
    }
    source = chatgpt(
        tmp_path,
        gpt_conversation(
            "c",
            "C",
            [
                gpt_message("system", "You are ChatGPT"),
                gpt_message("assistant", context),
                gpt_message("user", "hidden", metadata=hidden),
                gpt_message("user", {"content_type": "multimodal_text", "parts": [spoken]}),
                gpt_message("assistant", thoughts),
                gpt_message("assistant", code, recipient="python"),
                gpt_message("tool", output, tool="python"),
                gpt_message("tool", error, tool="python"),
                gpt_message("tool", quote, tool="browser"),
                gpt_message("assistant", '{"prompt": "a goat"}', recipient="dalle.text2im"),
                gpt_message(
                    "tool", {"content_type": "multimodal_text", "parts": [made]}, tool="dalle"
                ),
                gpt_message("assistant", "Here."),
            ],
        ),
    )
    (chat,) = read(source)
    assert said(chat.messages) == [
        ("user", "spoken words"),
        ("assistant", ""),
        ("assistant", ""),
        ("tool", "1"),
        ("tool", "It broke."),
        ("tool", "a quote"),
        ("assistant", ""),
        ("tool", "[image]"),
        ("assistant", "Here."),
    ]
    assert chat.messages[1].reasoning == "Hm."
    assert json.loads(chat.messages[2].calls[0].arguments) == {"input": "print(1)"}
    assert chat.messages[6].calls[0].arguments == '{"prompt": "a goat"}'
    assert chat.messages[4].is_error
    assert source.read_profile().memory == ["Ann", "Goats"]
    assert [*source.skipped.counts.items()] == [
        (("picture that the model had made", "pictures that the model had made"), 1)
    ]


def test_chatgpts_newest_version_is_taken_and_the_others_are_counted(tmp_path: Path) -> None:
    whole = gpt_conversation(
        "c", "C", [gpt_message("user", "Old question"), gpt_message("assistant", "Old answer")]
    )
    nodes = whole["mapping"]
    for name, parent, role, text in (
        ("new", "root", "user", "New question"),
        ("newer", "new", "assistant", "New answer"),
    ):
        message = {"id": name, "create_time": 1_800_000_000.0, **gpt_message(role, text)}
        nodes[name] = {"id": name, "message": message, "parent": parent, "children": []}
    for current in ("newer", None, "gone"):
        source = chatgpt(tmp_path, {**whole, "current_node": current})
        (chat,) = read(source)
        assert said(chat.messages) == [("user", "New question"), ("assistant", "New answer")]
        assert sum(source.skipped.counts.values()) == 2


def test_chatgpts_export_in_several_files(tmp_path: Path) -> None:
    for number in range(3):
        one = gpt_conversation(f"c{number}", str(number), [gpt_message("user", "Hi")])
        (tmp_path / f"conversations-{number:03}.json").write_text(json.dumps([one]))
    (tmp_path / "shared_conversations.json").write_text("[]")
    assert [one.title for one in read(ChatGpt(tmp_path))] == ["0", "1", "2"]


@pytest.mark.parametrize("is_beside", [True, False])
def test_open_webuis_messages_in_a_table_of_their_own(tmp_path: Path, is_beside: bool) -> None:
    chat, own = webui_chat("w", "W", []), webui_chat("i", "I", [])
    current = None if is_beside else "m2"
    chat["chat"] = {"title": "W", "history": {"messages": {}, "currentId": current}}
    path = write_webui_database(tmp_path, [chat, own])
    with closing(sqlite3.connect(path)) as database, database:
        if is_beside:
            database.execute("ALTER TABLE chat ADD COLUMN current_message_id TEXT")
            database.execute("UPDATE chat SET current_message_id = 'm2'")
        database.execute("UPDATE chat SET meta = '{\"internal\": true}' WHERE id = 'i'")
        database.execute(
            """CREATE TABLE chat_message (id TEXT, chat_id TEXT, user_id TEXT, role TEXT,
                parent_id TEXT, content JSON, files JSON, created_at BIGINT)"""
        )
        for name, parent, role, content in (
            ("m1", None, "user", '"Hi"'),
            ("m2", "m1", "assistant", '"Ho"'),
            ("m0", "m1", "assistant", '"Another"'),
        ):
            row = (f"w-{name}", "w", "u-ann", role, parent, content, None, 1_700_000_000)
            database.execute("INSERT INTO chat_message VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    source = OpenWebUi(tmp_path)
    (found,) = read(source)
    assert said(found.messages) == [("user", "Hi"), ("assistant", "Ho")]
    assert any("had with itself" in one for one, _ in source.skipped.counts)


def test_a_database_in_use_is_read_with_what_was_written_last(tmp_path: Path) -> None:
    path = write_webui_database(tmp_path, [])
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
        chat = webui_chat("w", "W", messages)
        database.execute(
            "INSERT INTO chat (id, user_id, title, archived, chat) VALUES (?, ?, ?, 0, ?)",
            ("w", "u-ann", "W", json.dumps(chat["chat"])),
        )
        database.commit()
        assert [one.title for one in read(OpenWebUi(path))] == ["W"]


def test_nothing_is_written_beside_a_database_that_rests(tmp_path: Path) -> None:
    path = write_webui_database(tmp_path, [])
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
    before = sorted(tmp_path.iterdir())
    tmp_path.chmod(0o500)
    try:
        assert read(OpenWebUi(path)) == []
        assert sorted(tmp_path.iterdir()) == before
    finally:
        tmp_path.chmod(0o700)


def test_open_webuis_parts_of_a_text(tmp_path: Path) -> None:
    text = (
        'First.\n<details type="reasoning" done="true" duration="1">\n'
        "<summary>Thought for 1 second</summary>\n&gt; One\n&gt; &lt;two&gt;\n</details>\n"
        '<details type="code_interpreter" done="true">\n<summary>Analyzed</summary>\n1 + 1\n'
        '</details>\nLast. <details type="open'
    )
    asked = [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    messages: list[Json] = [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": text},
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps([webui_chat("w", "W", messages)]))
    source = OpenWebUi(path)
    (chat,) = read(source)
    assert said(chat.messages) == [
        ("user", "Look"),
        ("assistant", "First."),
        ("assistant", ""),
        ("assistant", ""),
        ("tool", ""),
        ("assistant", 'Last. <details type="open'),
    ]
    assert chat.messages[2].reasoning == "One\n<two>"
    assert [one.arguments for one in chat.messages[3].calls] == ['{"code": "1 + 1"}']
    assert source.picture(chat.messages[0].pictures[0]) == b"\0\0\0"


def test_cowagents_newer_and_older_places(tmp_path: Path) -> None:
    newer, older = tmp_path / "newer", tmp_path / "older"
    messages = [("user", "Hi"), ("assistant", "Ho")]
    write_cow_database(older / "sessions" / "conversations.db", {"feishu_1": messages})
    newer.mkdir()
    write_cow_workspace(newer, {"session_1": messages})
    with closing(sqlite3.connect(newer / "memory/long-term/index.db")) as database, database:
        database.execute("ALTER TABLE sessions ADD COLUMN agent_id TEXT NOT NULL DEFAULT ''")
        database.execute("ALTER TABLE messages ADD COLUMN agent_id TEXT NOT NULL DEFAULT ''")
        database.execute("ALTER TABLE sessions ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0")
        database.execute("UPDATE sessions SET agent_id = 'writer', pinned = 1, title = 'Talk'")
        database.execute("UPDATE messages SET agent_id = 'writer'")
    (old,), (new,) = read(CowAgent(older)), read(CowAgent(newer))
    assert (old.identity, said(old.messages)) == ("feishu_1", messages)
    assert (new.identity, new.title, new.standing) == ("writer/session_1", "Talk", "pinned")
    assert said(new.messages) == messages


def test_templates_that_nobody_filled_in_are_no_memory(tmp_path: Path) -> None:
    (tmp_path / "USER.md").write_text(
        "# USER.md\n\n*这个文件(填写)*\n\n## 信息\n\n- **姓名**: *(在首次对话时询问)*\n---\n"
    )
    (tmp_path / "AGENT.md").write_text("# AGENT.md\n\n## 名字\n\n- **名字**: *(填写)*\n")
    (tmp_path / "MEMORY.md").write_text("# MEMORY.md\n")
    own = CowAgent(tmp_path).read_profile()
    assert not [line for line in own.memory if "姓名" in line]
    assert own.personas == []


def test_a_persona_names_no_file_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-secret\n")
    (tmp_path / "notes.md").write_text("sk-secret")
    config = tmp_path / "config.json"
    secrets = ("{{secret.OPENAI_API_KEY}}", "{{ secret. }}")
    for prompt in ("file:.env", "notes.md", ".env.txt", *secrets):
        agent = as_agent(Persona("a/b c", "{{secret.OPENAI_API_KEY}}", prompt))
        config.write_text(json.dumps({"agents": [agent]}))
        assert agent["id"] == "a-b-c"
        assert "sk-secret" not in str(load_layers(config, {}).agents["a-b-c"])


def test_a_folder_without_anything_is_said_to_be_so(tmp_path: Path) -> None:
    for kind in (ChatGpt, OpenWebUi, CowAgent):
        with pytest.raises(MovingError, match="There is no"):
            kind(tmp_path)


def test_half_an_emoji_costs_no_conversation(tmp_path: Path) -> None:
    said = gpt_message("user", 'cut \ud83d off, kept \U0001f600, written "\\ud83d"')
    (chat,) = read(chatgpt(tmp_path, gpt_conversation("c", "Half \ud83d", [said])))
    assert chat.title == "Half \ufffd"
    assert chat.messages[0].text == 'cut \ufffd off, kept \U0001f600, written "\\ud83d"'


def test_conversations_without_ids_are_not_taken_for_one(tmp_path: Path) -> None:
    found = []
    for words in ("first", "second"):
        node = {"message": gpt_message("user", words), "parent": None}
        found.append({"mapping": {"0": node}, "current_node": "0"})
    one, other = read(chatgpt(tmp_path, *found))
    assert one.identity != other.identity
    path = tmp_path / "chats.json"
    path.write_text(
        json.dumps([{"messages": [{"role": "user", "content": one}]} for one in ("1st", "2nd")])
    )
    one, other = read(OpenWebUi(path))
    assert one.identity != other.identity


def test_numbers_where_open_webui_has_json_are_nothing_to_read(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Hi"}]
    place = write_webui_database(tmp_path, [webui_chat("w1", "One", said)], models=[("m", "", "")])
    with closing(sqlite3.connect(place)) as database, database:
        database.execute("UPDATE model SET params = 7, meta = 8.5")
        database.execute("UPDATE chat SET chat = '5'")  # which the JSON column turns into a number
        database.execute("CREATE TABLE chat_message (id, chat_id, role, content, files)")
        database.execute("INSERT INTO chat_message VALUES ('w1-a', 'w1', 'user', 42, 7)")
    source = OpenWebUi(place)
    assert [*read(source)[0].messages] == [ForeignMessage("user", "")]
    assert source.read_profile().personas == []


def test_a_file_that_only_has_the_name_of_a_database_is_passed_over(tmp_path: Path) -> None:
    write_cow_workspace(tmp_path, {"s": [("user", "Hi")]}, {"model": ["m"], "temperature": 0.5})
    (tmp_path / "thumbs.db").write_text("no database")
    source = CowAgent(tmp_path)
    assert [chat.identity for chat in read(source)] == ["s"]
    assert source.read_profile().settings == [], "there is no temperature for all models here"
    with zipfile.ZipFile(tmp_path / "cow.zip", "w") as archive:
        archive.write(tmp_path / "memory" / "long-term" / "index.db", "memory/long-term/index.db")
        archive.write(tmp_path / "MEMORY.md", "MEMORY.md")
    with pytest.raises(MovingError, match="unpack it"):
        CowAgent(tmp_path / "cow.zip")


def test_what_is_neither_text_nor_picture_is_counted_by_its_kind(tmp_path: Path) -> None:
    attached = {
        "attachments": [
            {"id": "file-Abc1", "name": "plan.pdf", "mime_type": "application/pdf"},
            {"id": "file-Pic1", "name": "a.png", "mime_type": "image/png"},
        ]
    }
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-Pic1"}
    sound = {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_9"}
    multimodal = {"content_type": "multimodal_text", "parts": [picture, sound, "Look"]}
    source = chatgpt(
        tmp_path,
        gpt_conversation(
            "c",
            "C",
            [
                gpt_message("user", multimodal, metadata=attached),
                gpt_message("assistant", {"content_type": "super_widget", "widget": {"a": 1}}),
                gpt_message("assistant", {"content_type": "new_text", "text": "It is a plan."}),
            ],
        ),
    )
    (chat,) = read(source)
    assert said(chat.messages)[0] == ("user", "Look")
    assert said(chat.messages)[-1] == ("assistant", "It is a plan.")
    assert {one: number for (one, _), number in source.skipped.counts.items()} == {
        "file that was attached": 1,
        "recording": 1,
        "content of a kind that is not read (super_widget)": 1,
    }
    said_there = [
        {"role": "user", "content": "Hi", "files": [{"type": "file", "name": "a.pdf"}]},
        {"role": "assistant", "content": [{"type": "hologram"}, {"type": "text", "text": "Ho"}]},
    ]
    path = tmp_path / "chats.json"
    path.write_text(json.dumps([webui_chat("w", "W", said_there)]))
    webui = OpenWebUi(path)
    assert said(read(webui)[0].messages) == [("user", "Hi"), ("assistant", "Ho")]
    assert {one for one, _ in webui.skipped.counts} == {
        "file that was attached",
        "content of a kind that is not read (hologram)",
    }


@pytest.mark.parametrize("is_listed", [True, False])
@given(gone=st.sets(st.integers(0, 8), min_size=1, max_size=4))
def test_a_missing_node_loses_itself_alone(
    tmp_path_factory: pytest.TempPathFactory, is_listed: bool, gone: set[int]
) -> None:
    roles = ("user", "assistant")
    whole = gpt_conversation("c", "C", [gpt_message(roles[n % 2], f"S{n}") for n in range(10)])
    for number in gone:
        whole["mapping"].pop(f"c-{number}")
    if not is_listed:
        for node in whole["mapping"].values():
            node["children"] = []
    (chat,) = read(chatgpt(tmp_path_factory.mktemp("gpt"), whole))
    assert [text for _, text in said(chat.messages)] == [
        f"S{n}" for n in range(10) if n not in gone
    ]


def test_a_missing_node_brings_no_other_version_in(tmp_path: Path) -> None:
    texts = ("Q1", "A1", "Q2", "A2", "Q3", "A3")
    messages = [gpt_message(("user", "assistant")[n % 2], text) for n, text in enumerate(texts)]
    whole = gpt_conversation("c", "C", messages)
    nodes = whole["mapping"]
    for name, parent, text in (("old", "root", "Old Q1"), ("late", "c-3", "Other Q3")):
        message = {"id": name, "create_time": 1_800_000_000.0, **gpt_message("user", text)}
        nodes[name] = {"id": name, "message": message, "parent": parent, "children": []}
    nodes.pop("c-2")
    (chat,) = read(chatgpt(tmp_path, whole))
    assert [text for _, text in said(chat.messages)] == ["Q1", "A1", "A2", "Q3", "A3"]


CITED = {
    "Lisbon is sunny \ue200cite\ue202turn0search0\ue202turn1news12\ue201.": "Lisbon is sunny.",
    "Sunny.\ue200cite\ue202turn0search0\ue201 Warm.": "Sunny. Warm.",
    "See \ue200url\ue202the guide\ue202turn0search1\ue201!": "See the guide!",
    'In \ue200entity\ue202["city","Lisbon","Portugal"]\ue201 now': "In Lisbon now",
    "Read\ue200filecite\ue202turn0file0\ue202L1-L9\ue201.": "Read.",
    "\ue203Sunny\ue204 \ue200cite\ue202turn0search3\ue201": "Sunny",
    "Sunny citeturn0search0turn2view1.": "Sunny.",
    "Sunny 【4†source】 and 【12:0†plan.pdf】.": "Sunny and.",
    "Sunny 【7†L12-L14】【oaicite:3】": "Sunny",
    "Sunny :contentReference[oaicite:0]{index=0}.": "Sunny.",
    "【注意】 cite this, excite, [1]": "【注意】 cite this, excite, [1]",
}


@pytest.mark.parametrize("text", CITED)
def test_marks_of_citations_go_and_their_words_stay(tmp_path: Path, text: str) -> None:
    asked, told = gpt_message("user", text), gpt_message("assistant", text)
    (chat,) = read(chatgpt(tmp_path, gpt_conversation("c", "C", [asked, told])))
    assert said(chat.messages) == [("user", text), ("assistant", CITED[text])]


@given(st.text(alphabet="a \n【】†:4[]{}\\citeurn01", max_size=60))
def test_a_text_without_marks_stays_as_it_is(text: str) -> None:
    marked = re.search(r"【(\d+(:\d+)?†|oaicite)|citeturn", text)
    assert marked or without_citations(text) == text
