"""Tests of reading the data of OpenClaw, Hermes and Claude Code."""

from __future__ import annotations

import copy
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.record.store import StoreError
from plugins.moving.claude_code import ClaudeCode
from plugins.moving.hermes import Hermes, unfold
from plugins.moving.hermes_text import drop_notes
from plugins.moving.openclaw import OpenClaw
from plugins.moving.openclaw_session import drop_envelope
from plugins.moving.reading import unpack
from plugins.moving.source import (
    ForeignChat,
    ForeignMessage,
    MovingError,
    SkippedItems,
    UnreadableChat,
)
from plugins.moving.workspace import ForeignSource, read_hermes_job, read_openclaw_job
from tests.moving.agent_programs import (
    GOATS,
    SECRET,
    claude_line,
    claw_events,
    compress,
    result,
    use,
    write_claude,
    write_claw_database,
    write_claw_lines,
    write_claw_workspace,
    write_hermes,
    write_hermes_rest,
)
from tests.tables import each_row

Json = dict[str, Any]
SOURCES: dict[str, Callable[[Path], ForeignSource]] = {
    "openclaw": OpenClaw,
    "hermes": Hermes,
    "claude-code": ClaudeCode,
}


def read(source: ForeignSource) -> list[ForeignChat]:
    found = list(source.chats())
    assert [str(one) for one in found if isinstance(one, UnreadableChat)] == []
    return [one for one in found if isinstance(one, ForeignChat)]


def said(messages: Sequence[ForeignMessage]) -> list[tuple[str, str]]:
    return [(one.role, one.text) for one in messages]


def skipped(source: ForeignSource) -> dict[str, int]:
    return {one: number for (one, _), number in source.skipped.counts.items()}


# --- OpenClaw --------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_claw_database, write_claw_lines])
def test_openclaws_sessions_of_today_and_of_before(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    write(tmp_path, claw_events(GOATS))
    (chat,) = read(OpenClaw(tmp_path))
    assert (chat.identity, chat.title) == ("s1", "Hotel")
    assert said(chat.messages) == [
        ("user", "Where is Casa Amarela?"),
        ("assistant", ""),
        ("tool", "a map"),
        ("tool", "casa amarela is yellow"),
        ("assistant", "In Lisbon."),
    ]
    assert [call.id for call in chat.messages[1].calls] == ["c1", "c2"]
    assert [one.call_id for one in chat.messages[2:4]] == ["c2", "c1"]
    assert chat.messages[1].reasoning == "Look."
    assert chat.messages[0].at
    assert chat.messages[0].at.timestamp() == 1_700_000_060.0


def test_a_session_in_both_places_comes_once(tmp_path: Path) -> None:
    write_claw_lines(tmp_path, claw_events(GOATS))
    write_claw_database(tmp_path, claw_events(GOATS))
    assert len(read(OpenClaw(tmp_path))) == 1


def test_openclaws_leaf_chooses_the_branch_and_the_other_is_counted(tmp_path: Path) -> None:
    words = [
        {"role": role, "content": text}
        for role, text in zip(("user", "assistant") * 2, "abcd", strict=True)
    ]
    events = claw_events(words)
    late = {
        "type": "message",
        "id": "e5",
        "parentId": "e2",
        "message": {"role": "user", "content": "x"},
    }
    for control, texts in (
        ([], "abx"),
        ([{"type": "leaf", "id": "l1", "parentId": "e5", "targetId": "e4"}], "abcd"),
        ([{"type": "leaf", "id": "l1", "parentId": "e5", "targetId": "gone"}], "abx"),
    ):
        write_claw_lines(tmp_path, [*events, late, *control])
        source = OpenClaw(tmp_path)
        (chat,) = read(source)
        assert "".join(one.text for one in chat.messages) == texts
        assert sum(skipped(source).values()) == 5 - len(texts)


def test_openclaws_first_versions_gave_events_no_ids(tmp_path: Path) -> None:
    told = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    begun: Json = {"type": "session", "id": "s1"}
    events = [begun, *({"type": "message", "message": x} for x in told)]
    write_claw_lines(tmp_path, events)
    (chat,) = read(OpenClaw(tmp_path))
    assert said(chat.messages) == [("user", "a"), ("assistant", "b")]


META = 'Sender (untrusted metadata):\n```json\n{"name": "Ann"}\n```\n\n'
MARKED = 'Conversation info: ⟦openclaw:ctx⟧\n```json\n{"a": [1]}\n```\n'
STAMP = "[Telegram Ann id:7 +5m 2026-01-15 10:00 UTC] "


@given(
    st.lists(st.sampled_from((META, MARKED, STAMP)), max_size=4), st.text("a[]`\n: ", max_size=9)
)
def test_what_openclaw_writes_around_a_message_is_taken_off(around: list[str], text: str) -> None:
    said = f"Hi{text}!"
    assert drop_envelope("".join(around) + said) == said


def test_openclaws_heartbeats_and_mirrors_are_no_messages(tmp_path: Path) -> None:
    mirror = {"provider": "openclaw", "model": "delivery-mirror"}
    words: list[Json] = [
        {"role": "user", "content": f"{META}Hello\n"},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi."}], **mirror},
        {"role": "user", "content": "Read HEARTBEAT.md if it exists (workspace context). …"},
        {"role": "assistant", "content": [{"type": "text", "text": "HEARTBEAT_OK"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Sent."}], **mirror},
    ]
    write_claw_lines(tmp_path, claw_events(words))
    source = OpenClaw(tmp_path)
    (chat,) = read(source)
    texts = [(role, text.strip()) for role, text in said(chat.messages)]
    assert texts == [("user", "Hello"), ("assistant", "Hi."), ("assistant", "Sent.")]
    assert skipped(source) == {"question of the heartbeat": 1}


@pytest.mark.parametrize(
    "tag", ["[[reply_to_current]] ", "[[ reply_to: 77 ]]\n", "[[audio_as_voice]]"]
)
def test_openclaws_tags_of_delivery_are_no_words(tmp_path: Path, tag: str) -> None:
    mirror = {"provider": "openclaw", "model": "delivery-mirror"}
    words: list[Json] = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [{"type": "text", "text": f"{tag}See [[notes]]."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "See [[notes]]."}], **mirror},
        {"role": "user", "content": f"What is {tag.strip()}?"},
        {"role": "assistant", "content": [{"type": "text", "text": f"{tag}NO_REPLY"}]},
    ]
    write_claw_lines(tmp_path, claw_events(words))
    (chat,) = read(OpenClaw(tmp_path))
    assert said(chat.messages) == [
        *(("user", "Hello"), ("assistant", "See [[notes]]."), ("user", f"What is {tag.strip()}?"))
    ]


def test_files_that_were_sent_to_openclaws_gateway_come_or_are_counted(tmp_path: Path) -> None:
    media = [
        {"url": "media://inbound/a1.png", "contentType": "image/png", "kind": "image"},
        {"url": "media://inbound/letter.txt", "contentType": "text/plain", "kind": "document"},
        {"url": "media://inbound/../../gone.png", "contentType": "image/png"},
    ]
    write_claw_lines(
        tmp_path,
        claw_events([{"role": "user", "content": "Look", "__openclaw": {"media": media}}]),
    )
    (tmp_path / "media" / "inbound").mkdir(parents=True)
    (tmp_path / "media" / "inbound" / "a1.png").write_bytes(b"png")
    source = OpenClaw(tmp_path)
    (chat,) = read(source)
    assert [source.picture(one) for one in chat.messages[0].pictures] == [b"png", None]
    assert skipped(source) == {"file that was attached": 1}


@pytest.mark.parametrize(
    "job",
    [
        {"declarationKey": "heartbeat:main", "payload": {"kind": "heartbeat"}},
        {"declarationKey": "memory-core:memory-dreaming-promotion"},
        {"declarationKey": "skill-collection-review:main"},
    ],
)
def test_openclaws_own_tasks_are_nobodys_jobs(job: Json) -> None:
    one, seen = {"name": "x", "payload": {"message": "Dream"}, **cron("0 3 * * *")}, SkippedItems()
    assert read_openclaw_job({**one, **job}, seen) == []
    assert read_openclaw_job({**one, "declarationKey": "mine"}, seen) != []
    assert not seen.remarks


def test_runs_of_subagents_and_tasks_are_counted(tmp_path: Path) -> None:
    write_claw_database(tmp_path, claw_events(GOATS), "agent:main:cron:7:run:8", "a")
    write_claw_database(tmp_path, claw_events(GOATS), "agent:main:subagent:9", "b")
    source = OpenClaw(tmp_path)
    assert read(source) == []
    assert skipped(source) == {"run of a scheduled task": 1, "session of a subagent": 1}


def test_openclaws_workspace_is_memory_a_persona_and_names(tmp_path: Path) -> None:
    write_claw_workspace(tmp_path)
    source = OpenClaw(tmp_path)
    own = source.read_profile()
    assert own.memory == ["- Ann likes coffee", "- Ann keeps two goats"]
    assert [*own.days.values()] == ["- Ann sold a cheese"]
    assert [(one.name, "Bessie" in one.prompt) for one in own.personas] == [("openclaw", True)]
    told = " ".join(source.skipped.remarks)
    assert "Its skills: milking." in told
    assert "openclaw.json: not read." in told
    assert "workspace/AGENTS.md: instructions for OpenClaw itself." in told
    assert SECRET not in f"{own} {told}"


def test_packed_events_end_at_a_limit() -> None:
    assert unpack(compress(b"a" * 1_000), 1_000) == b"a" * 1_000
    assert unpack(compress(bytes(50_000_000)), 1_000) is None
    assert unpack(compress(b"a" * 1_000)[:-5], 1_000) is None
    assert unpack(b"no zstd", 1_000) is None


# --- Hermes ----------------------------------------------------------------------------------

CALLED = {"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
ASKED: list[Json] = [
    {"role": "user", "content": "Where is Casa Amarela?"},
    {"role": "assistant", "content": "Let me look.", "tool_calls": [CALLED]},
    {"role": "tool", "content": "casa amarela is yellow", "tool_call_id": "c1"},
    {"role": "assistant", "content": "In Lisbon."},
]


def test_hermes_database_and_its_older_files(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    for folder in (new, old / "sessions"):
        folder.mkdir(parents=True)
    write_hermes(new, [{"role": "session_meta", "content": ""}, *ASKED])
    (old / "sessions" / "h1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in ASKED))
    (old / "sessions" / "session_h2.json").write_text(json.dumps({"messages": ASKED}))
    (old / "sessions" / "session_h1.json").write_text(json.dumps({"messages": ASKED}))
    found = [*read(Hermes(new)), *read(Hermes(old))]
    assert [one.identity for one in found] == ["h1", "h1", "h2"]
    for chat in found:
        assert said(chat.messages) == [(one["role"], one["content"]) for one in ASKED]
        assert chat.messages[1].calls[0].name == "terminal"


def test_what_was_taken_back_in_hermes_stays_away_and_what_was_summarised_comes(
    tmp_path: Path,
) -> None:
    picture = [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    rows: list[Json] = [
        {"role": "user", "content": picture, "active": 0, "compacted": 1},
        {"role": "assistant", "content": "A goat.", "active": 0, "compacted": 1},
        {"role": "user", "content": "No!", "active": 0},
        {"role": "user", "content": "[CONTEXT COMPACTION - REFERENCE ONLY] x"},
        {"role": "assistant", "content": "A goat."},
        {"role": "user", "content": "Whose?"},
    ]
    write_hermes(tmp_path, rows)
    source = Hermes(tmp_path)
    (chat,) = read(source)
    assert said(chat.messages) == [("user", "Look"), ("assistant", "A goat."), ("user", "Whose?")]
    assert source.picture(chat.messages[0].pictures[0]) == b"\0\0\0"
    assert skipped(source) == {"message that was taken back": 1}


def test_hermes_sessions_that_go_on_are_one_and_those_of_subagents_none(tmp_path: Path) -> None:
    summary = {"role": "user", "content": "[CONTEXT SUMMARY]: x"}
    write_hermes(tmp_path, ASKED, {"reason": "compression"})
    later = [ASKED[0], summary, ASKED[3], {"role": "user", "content": "And now?"}]
    write_hermes(tmp_path, later, {"parent": "h1", "title": "Later"}, "h2")
    write_hermes(tmp_path, ASKED, {"parent": "h2"}, "sub")
    write_hermes(tmp_path, ASKED, {"parent": "h2", "marks": '{"_branched_from": "h2"}'}, "branch")
    write_hermes(tmp_path, ASKED, {"source": "cron"}, "cron_1")
    source = Hermes(tmp_path)
    branch, chat = read(source)
    assert (branch.identity, chat.identity, chat.title) == ("branch", "h1", "Later")
    assert [text for _, text in said(chat.messages)][3:] == ["In Lisbon.", "And now?"]
    assert skipped(source) == {"session of a subagent": 1, "run of a scheduled task": 1}


SUMMARY = "[CONTEXT COMPACTION — REFERENCE ONLY] x\n\n--- END OF CONTEXT SUMMARY ---"
TASKS = "[Your active task list was preserved across context compression]\n- [ ] 1. milk (pending)"


def written_into(text: str) -> str:
    """Return a message into which Hermes has written a summary."""
    return (
        f"[PRIOR CONTEXT — for reference only; not a new message]\n{text}\n\n"
        f"[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]\n\n{SUMMARY}"
    )


def call_row(name: str, text: str = "") -> Json:
    """Return a reply with one call."""
    made = {"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return {"role": "assistant", "content": text, "tool_calls": [made]}


@pytest.mark.parametrize("where", ["reply", "call", "picture", "question", "tasks"])
def test_a_compaction_in_the_midst_of_hermes_doubles_nothing(tmp_path: Path, where: str) -> None:
    picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    asked: Json = {"role": "user", "content": [{"type": "text", "text": "Look"}, *picture]}
    answer = call_row("c1", "One.")
    result: Json = {"role": "tool", "tool_call_id": "c1", "content": "a map", "tool_name": "read"}
    last: Json = {"role": "assistant", "content": "In Lisbon."}
    first = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    seen = "Look\n\n[Attached image — stripped after compression]"
    kept: dict[str, list[Json]] = {
        "reply": [{**asked, "content": written_into("Look")}, answer, result, last],
        "call": [{**answer, "content": written_into("One.")}, {**result, "content": "…"}, last],
        "picture": [
            {"role": "user", "content": SUMMARY},
            *({"role": "user", "content": seen}, answer, result, last),
        ],
        "question": [
            {"role": "user", "content": SUMMARY},
            *(answer, result, last, {"role": "user", "content": f"Look\n\n{TASKS}"}),
        ],
        "tasks": [
            *(first[0], {"role": "user", "content": f"Look\n\n{SUMMARY}"}, answer, result, last),
            {"role": "user", "content": TASKS},
        ],
    }
    before = [{**one, "active": 0, "compacted": 1} for one in (*first, asked, answer, result, last)]
    write_hermes(tmp_path, [*before, *kept[where], {"role": "user", "content": "Whose?"}])
    (chat,) = read(Hermes(tmp_path))
    assert [one.text for one in chat.messages] == [
        *("Hi", "Hello.", "Look", "One.", "a map", "In Lisbon.", "Whose?")
    ]
    assert chat.messages[2].pictures
    assert [call.id for call in chat.messages[3].calls] == ["c1"]


CLOSER = "[If you need a closer look, use vision_analyze with image_url: "
NOTES = (
    f"[The user attached an image. Here's what it contains:\nA [red]\n\ngoat]\n{CLOSER}/x/r.png]",
    f"[The user sent an image~ Here's what I can see:\nA goat]\n{CLOSER}/h/image_cache/i.png ~]",
    "[The user sent a document: 'a.pdf'. It is saved at: /h/a.pdf. Its text is not inlined]",
    "[Triggering message id: `7` — use as `message_id` for reply via the discord tools.]",
)


@given(st.lists(st.sampled_from(NOTES), max_size=4), st.text("a[]\n~: ", max_size=9))
def test_what_hermes_writes_around_a_message_is_taken_off(notes: list[str], text: str) -> None:
    said, paths, files = drop_notes("".join(f"{one}\n\n" for one in notes) + f"Hi{text}!")
    assert said == f"Hi{text}!"
    assert len(paths) + files == sum("Triggering" not in one for one in notes)


def test_what_hermes_says_in_a_persons_place_is_counted(tmp_path: Path) -> None:
    head = '[IMPORTANT: The user has invoked the "milking" skill, indicating more.]\n\n# Milking'
    more = "The user has provided the following instruction alongside the skill invocation: "
    texts = {
        "[ASYNC DELEGATION BATCH COMPLETE — deleg_8]\nA background fan-out": "",
        "[Continuing toward your standing goal]\nGoal: Count": "",
        "[System: Your previous response was truncated. Go on.]": "",
        "[IMPORTANT: Background process 7 matched x]": "",
        TASKS: "",
        f"{head}\n\n{more}the goat\n\n[Runtime note: x]": "/milking the goat",
        head: "/milking",
        "[sic] I said": "[sic] I said",
        "Which?\n\n[Image attached at: /x/red.png]": "Which?",
        NOTES[0]: "",
    }
    write_hermes(tmp_path, [{"role": "user", "content": one} for one in texts])
    (tmp_path / "image_cache").mkdir()
    (tmp_path / "image_cache" / "r.png").write_bytes(b"png")
    source = Hermes(tmp_path)
    (chat,) = read(source)
    assert [one.text for one in chat.messages if one.text] == [*filter(None, texts.values())]
    assert source.picture(chat.messages[-1].pictures[0]) == b"png"
    assert sum(skipped(source).values()) == 5


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 6)), max_size=5))
def test_compactions_lose_nothing_and_double_nothing(
    cuts: list[tuple[int, int, int]],
) -> None:
    whole = [ForeignMessage("user", f"m{number}") for number in range(50)]
    written, context, at = [*whole[:8]], [*whole[:8]], 8
    for head, tail, more in cuts:  # no end of the kept part contains a summary
        cut = [one.text.startswith("[") for one in context]
        first = min(head, cut.index(True) if True in cut else head)
        last = min(tail, cut[::-1].index(True) if True in cut else len(context) - first)
        kept = [*context[:first], ForeignMessage("user", "[CONTEXT COMPACTION] x")]
        kept += context[len(context) - last :]
        context = [*kept, *whole[at : at + more]]
        written += context
        at += more
    assert unfold(written) == whole[:at]


@pytest.mark.parametrize("parents", ["-aa", "bcb", "bca", "-ab"])
def test_no_session_of_hermes_is_lost_whatever_goes_on_with_it(
    tmp_path: Path, parents: str
) -> None:
    for name, parent in zip("abc", parents, strict=True):
        row = {"parent": parent.strip("-"), "reason": "compression"}
        write_hermes(tmp_path, [{"role": "user", "content": name}], row, name)
    texts = [text for chat in read(Hermes(tmp_path)) for _, text in said(chat.messages)]
    assert sorted(texts) == ["a", "b", "c"]


def test_hermes_folder_is_memory_a_persona_and_names(tmp_path: Path) -> None:
    write_hermes_rest(tmp_path)
    source = Hermes(tmp_path)
    own = source.read_profile()
    assert own.memory == ["Ann keeps two goats", "The barn is red"]
    assert own.personas[0].prompt == "You are Bessie."
    told = " ".join(source.skipped.remarks)
    assert "Its skills: milking." in told
    assert "config.yaml: not read." in told
    assert "profiles/work" in told
    assert SECRET not in f"{own} {told}"


# --- Claude Code -----------------------------------------------------------------------------


def test_claude_codes_calls_side_by_side_keep_their_results(tmp_path: Path) -> None:
    lines: list[Json | str] = [
        claude_line("u1", None, "user", "Where is Casa Amarela?"),
        {"type": "attachment", "uuid": "x1", "parentUuid": "u1", "attachment": {}},
        claude_line("a1", "x1", "assistant", [{"type": "text", "text": "Hm."}], reply="m1", at=1),
        claude_line("a2", "a1", "assistant", use("c1"), reply="m1", at=2),
        claude_line("a3", "a2", "assistant", use("c2"), reply="m1", at=3),
        claude_line("r1", "a2", "user", result("c1", "yellow"), at=4),
        claude_line("r2", "a3", "user", result("c2", "a map"), at=5),
        claude_line(
            "a4", "r2", "assistant", [{"type": "text", "text": "Lisbon."}], reply="m2", at=6
        ),
        claude_line("s1", "a1", "assistant", "aside", isSidechain=True),
        {"type": "ai-title", "aiTitle": "Hotel"},
        {"type": "summary", "summary": "Older", "leafUuid": "a4"},
        "{damaged",
    ]
    write_claude(tmp_path, lines)
    source = ClaudeCode(tmp_path)
    (chat,) = read(source)
    assert (chat.identity, chat.title) == ("s1", "Hotel")
    assert said(chat.messages) == [
        ("user", "Where is Casa Amarela?"),
        ("assistant", "Hm."),
        ("tool", "yellow"),
        ("tool", "a map"),
        ("assistant", "Lisbon."),
    ]
    assert [one.call_id for one in chat.messages[2:4]] == ["c1", "c2"]
    assert skipped(source) == {
        "message of a subagent": 1,
        "line of a session that is damaged": 1,
    }


def test_claude_codes_newest_branch_is_taken_across_compactions(tmp_path: Path) -> None:
    lines = [
        claude_line("u1", None, "user", "Old question"),
        claude_line("a1", "u1", "assistant", "Old answer", at=1),
        {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "b",
            "parentUuid": None,
            "logicalParentUuid": "a1",
        },
        claude_line("c", "b", "user", "A summary.", isCompactSummary=True, at=2),
        claude_line("u2", "c", "user", "First try", at=3),
        claude_line("a2", "u2", "assistant", "First answer", at=4),
        claude_line(
            "u3",
            "c",
            "user",
            "<command-name>/review</command-name>\n<command-args>it</command-args>",
            at=5,
        ),
        claude_line("o", "u3", "user", "<local-command-stdout>ok</local-command-stdout>", at=6),
        claude_line("a3", "o", "assistant", "Second answer", at=7),
    ]
    write_claude(tmp_path, lines)
    source = ClaudeCode(tmp_path)
    (chat,) = read(source)
    assert [text for _, text in said(chat.messages)] == [
        *("Old question", "Old answer", "/review it", "Second answer")
    ]
    assert [*skipped(source).values()] == [2]


def test_a_fork_of_claude_code_says_that_its_beginning_is_elsewhere(tmp_path: Path) -> None:
    """As Claude Code 2.1.332 forks a session after a compaction: the messages that it has kept come
    again, below the summary."""
    lines = [
        {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "b",
            "parentUuid": None,
            "logicalParentUuid": "a1",
        },
        claude_line("c", "b", "user", "A summary.", isCompactSummary=True, at=2),
        claude_line("a1", "c", "assistant", "Old answer", at=1),
        claude_line("u2", "a1", "user", "And now?", at=3),
        claude_line("a2", "u2", "assistant", "New answer", at=4),
    ]
    results = write_claude(tmp_path, lines).with_suffix("") / "tool-results"
    results.mkdir(parents=True)
    (results / "b1.txt").write_text("1\n2\n")
    source = ClaudeCode(tmp_path)
    (chat,) = read(source)
    assert [text for _, text in said(chat.messages)] == ["Old answer", "And now?", "New answer"]
    source.read_profile()
    assert skipped(source) == {
        "beginning of a fork": 1,
        "long result of a tool, but for its beginning": 1,
    }


def test_pictures_that_tools_returned_are_counted(tmp_path: Path) -> None:
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    lines: list[Json] = [
        {"role": "user", "content": "a"},
        {"role": "toolResult", "content": [picture]},
    ]
    write_claw_lines(tmp_path / "claw", claw_events(lines))
    seen = [{"type": "tool_result", "tool_use_id": "c1", "content": [picture]}]
    write_claude(tmp_path / "claude", [claude_line("u1", None, "user", seen)])
    for source in (OpenClaw(tmp_path / "claw"), ClaudeCode(tmp_path / "claude")):
        read(source)
        assert skipped(source) == {"picture that a tool returned": 1}


REMINDER = "<system-reminder>\nNever mind.\n</system-reminder>\n"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (f"{REMINDER}Hello\n\n{REMINDER}", "Hello"),
        (REMINDER, None),
        ("<ide_opened_file>a.py</ide_opened_file>\nHello", "Hello"),
        ("What is <system-reminder>x</system-reminder>?",) * 2,
        ("Is <command-name>/x</command-name> a tag?",) * 2,
        ("Is </system-reminder> one?\n<system-reminder>",) * 2,
        ("<command-message>a</command-message>\n<command-name>/a</command-name>", "/a"),
        ("<bash-input>cat < a</bash-input>", "!cat < a"),
        ("<bash-stdout>b</bash-stdout><bash-stderr></bash-stderr>", None),
        ("[Request interrupted by user for tool use]", None),
    ],
)
def test_what_claude_code_writes_around_a_persons_words_is_taken_off(
    tmp_path: Path, written: str, text: str | None
) -> None:
    write_claude(tmp_path, [claude_line("u1", None, "user", written)])
    (chat,) = read(ClaudeCode(tmp_path))
    assert said(chat.messages) == ([] if text is None else [("user", text)])


def test_claude_codes_queued_question_is_one_and_its_errors_are_no_answers(tmp_path: Path) -> None:
    queued = {"type": "queued_command", "prompt": "And goats?", "commandMode": "prompt"}
    task = {**queued, "commandMode": "task-notification", "prompt": "Done."}
    write_claude(
        tmp_path,
        [
            {"type": "summary", "summary": "Of another session", "leafUuid": "elsewhere"},
            claude_line("u1", None, "user", "Cows?"),
            claude_line("a1", "u1", "assistant", use("c1")),
            claude_line("q1", "a1", "", "", attachment=queued) | {"type": "attachment"},
            claude_line("q2", "q1", "", "", attachment=task) | {"type": "attachment"},
            claude_line("r1", "q2", "user", result("c1", "two")),
            claude_line("a2", "r1", "assistant", "Both.")
            | {"message": {"role": "assistant", "model": "<synthetic>", "content": "API Error"}},
        ],
    )
    (chat,) = read(ClaudeCode(tmp_path))
    assert chat.title == ""
    assert said(chat.messages) == [
        ("user", "Cows?"),
        ("assistant", ""),
        ("tool", "two"),
        ("user", "And goats?"),
    ]


def test_claude_codes_folder_is_memory_instructions_and_names(tmp_path: Path) -> None:
    path = write_claude(tmp_path, [claude_line("u1", None, "user", "Hi")])
    (tmp_path / "CLAUDE.md").write_text("Be brief.")
    (path.parent / "memory").mkdir()
    (path.parent / "memory" / "goats.md").write_text(
        "---\nname: goats\n---\n\nAnn keeps two goats\n"
    )
    (path.parent / "agent-1.jsonl").write_text("")
    for place in ("skills/milking", "commands"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "skills" / "milking" / "SKILL.md").write_text("# Milking")
    (tmp_path / "commands" / "tidy.md").write_text("Tidy up")
    source = ClaudeCode(tmp_path)
    own = source.read_profile()
    assert own.memory == ["Ann keeps two goats"]
    assert own.personas[0].prompt == "Be brief."
    assert "Its skills: milking." in source.skipped.remarks
    assert skipped(source)["session of a subagent"] == 1
    assert skipped(source)["command of its own (commands/)"] == 1
    assert SECRET not in f"{own} {source.skipped}"
    assert [one.identity for one in read(ClaudeCode(path))] == ["s1"]
    assert [one.identity for one in read(ClaudeCode(path.parent))] == ["s1"]


# --- tasks -----------------------------------------------------------------------------------

SOON = time.time() + 86_400


def cron(fields: str, zone: str = "") -> Json:
    return {"schedule": {"kind": "cron", "expr": fields, "tz": zone}}


OPENCLAW_JOBS: list[tuple[Json, Any]] = [
    (cron("0 7 * * *", "Europe/Rome"), ("cron 0 7 * * *", 0.0, "Europe/Rome")),
    ({"schedule": {"kind": "every", "everyMs": 3_600_000}}, ("every 3600", 0.0, "")),
    ({"schedule": {"kind": "at", "atMs": SOON * 1_000}}, ("", SOON, "")),
    ({"schedule": {"kind": "at", "at": "2020-01-01T00:00:00Z"}}, "its time has passed"),
    (cron("0 0 7 * * *"), "not five fields"),
    (cron("0 7 * * *", "../x"), "its time zone"),
    ({"schedule": {"kind": "stream"}}, "it comes at no time"),
    ({"schedule": {"kind": "every", "everyMs": True}}, "it comes too often"),
    ({**cron("0 7 * * *"), "payload": {"kind": "command"}}, "it asks the model nothing"),
]
HERMES_JOBS: list[tuple[Json, Any]] = [
    ({"schedule": {"kind": "interval", "minutes": 30}}, ("every 1800", 0.0, "")),
    ({"schedule": {"kind": "once", "run_at": "2020-01-01T00:00:00"}}, "its time has passed"),
    ({**cron("0 7 * * *"), "no_agent": True}, "it runs a script"),
]


@each_row(
    ("reader", "job", "found"),
    [
        *((read_openclaw_job, *row) for row in OPENCLAW_JOBS),
        *((read_hermes_job, *row) for row in HERMES_JOBS),
    ],
)
def test_tasks_become_jobs_or_are_named(reader: Any, job: Json, found: Any) -> None:
    skipped = SkippedItems()
    whole = {"name": "Feed", "prompt": "Feed them", "payload": {"message": "Feed them"}, **job}
    made = reader(whole, skipped)
    if isinstance(found, str):
        assert made == []
        assert "The scheduled task Feed: " in skipped.remarks[0]
        assert found in skipped.remarks[0]
    else:
        (one,) = made
        assert (one.rule, one.anchor, one.zone) == (found[0], pytest.approx(found[1]), found[2])
        assert skipped.remarks == []


# --- arbitrary content of a folder -----------------------------------------------------------


def test_a_folder_without_anything_is_said_to_be_so(tmp_path: Path) -> None:
    for kind in SOURCES.values():
        with pytest.raises(MovingError, match="There is no"):
            kind(tmp_path)


def test_links_are_not_followed_and_a_billion_lines_are_too_many(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(json.dumps(claude_line("u1", None, "user", SECRET)))
    path = write_claude(tmp_path / "c", [claude_line("u1", None, "user", "Hi")])
    path.with_name("s2.jsonl").symlink_to(tmp_path / "secret")
    (tmp_path / "c" / "CLAUDE.md").symlink_to(tmp_path / "secret")
    source = ClaudeCode(tmp_path / "c")
    assert [one.identity for one in read(source)] == ["s1"]
    assert source.read_profile().personas == []
    for line in (b"\n", b"1\n", b"{}\n"):
        path.write_bytes(line * 4_000_000)
        (found,) = ClaudeCode(path).chats()
        assert isinstance(found, UnreadableChat)
        assert "larger than" in str(found)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.sampled_from([*SOURCES]), st.randoms(use_true_random=False), st.data())
def test_damage_of_any_kind_ends_in_chats_or_a_sentence(
    kind: str, chance: random.Random, data: st.DataObject
) -> None:
    events = claw_events(copy.deepcopy(GOATS))
    lines = [
        claude_line("u1", None, "user", "Hi"),
        claude_line("a1", "u1", "assistant", use("c1"), reply="m"),
        claude_line("r1", "a1", "user", result("c1", "x")),
        {"type": "ai-title", "aiTitle": "T"},
    ]
    asked = copy.deepcopy(ASKED)
    for _ in range(chance.randint(1, 4)):
        one = chance.choice({"openclaw": events, "claude-code": lines, "hermes": asked}[kind])
        spoil(one, chance, data.draw(junk))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind == "openclaw":
            path = write_claw_lines(folder, events)
        elif kind == "claude-code":
            path = write_claude(folder, lines)
        else:
            (folder / "sessions").mkdir()
            path = folder / "sessions" / "h.jsonl"
            path.write_text("".join(json.dumps(one) + "\n" for one in asked))
        content = path.read_bytes()
        at = chance.randrange(len(content))
        path.write_bytes(
            content[:at] + bytes([chance.randrange(256)]) + content[at + chance.randint(0, 3) :]
        )
        with suppress(MovingError, StoreError):
            source = SOURCES[kind](folder)
            for chat in source.chats():
                assert isinstance(chat, ForeignChat | UnreadableChat)
            source.read_profile()


def spoil(value: Any, chance: random.Random, junk: Any) -> None:
    """Replace one value of an object: by junk, by its own name as its parent, or by nothing."""
    key = chance.choice([*value]) if isinstance(value, dict) and value else None
    if key is None:
        return
    if isinstance(value[key], dict) and chance.random() < 0.6:
        spoil(value[key], chance, junk)
    elif isinstance(value[key], list) and value[key] and chance.random() < 0.6:
        spoil(chance.choice(value[key]), chance, junk)
    elif chance.random() < 0.3:
        value["parentId"] = value["parentUuid"] = value.get("id") or value.get("uuid")
    elif chance.random() < 0.3:
        del value[key]
    else:
        value[key] = junk
