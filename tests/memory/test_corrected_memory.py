"""Values that a person corrected in the chat are shown with their current value in the memory: in
the prompt and in daily files, at once; the file itself changes only by an approved edit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memory.corrections.ended_values import EndedValue
from memory.long_term import ended as ended_file
from memory.long_term.document import facts, lines_from_json
from memory.long_term.ended import DAMAGED, EndedInAudience
from memory.long_term.prompt import MemoryPrompts
from memory.messages import Message
from memory.record import daily
from memory.record.daily import Note
from memory.record.memory_file import MemoryFileError
from memory.record.search import FirstMessages
from tests.memory.harness import KEY, MemoryHarness
from tests.tables import each_row


def prompt(harness: MemoryHarness) -> str:
    prompts = MemoryPrompts(harness.folder, harness.conversations.services.meter)
    return prompts.of(KEY.audience, 600).text


async def test_an_edit_is_proposed_and_the_file_stays_until_it_is_approved(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    memory = conversation.long_term
    await memory.remember("The meeting is on 3 May.", "ann")
    await harness.says("no, the meeting is on 4 May, not 3 May")
    ended = await conversation.corrections.of_turn(1)
    assert await memory.correct(ended, "corrected in t1") == 1
    assert "on 4 May (corrected in t1)" in prompt(harness)
    state = await memory.read()
    assert [line.text for line in facts(state.lines)] == ["The meeting is on 3 May."]
    assert [line.text for line in facts(state.proposed)] == ["The meeting is on 4 May."]
    await memory.approve("ann")
    assert "on 4 May." in prompt(harness)


async def test_a_correction_that_is_undone_or_forgotten_ends_nothing(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    await conversation.long_term.remember("The meeting is on 3 May.", "ann")
    await harness.says("Hello.")
    await harness.says("no, the meeting is on 4 May, not 3 May")
    await harness.says("Thanks.")
    before = prompt(harness)
    await conversation.editor.drop({2})
    assert "3 May" in prompt(harness)
    await conversation.editor.undo()
    assert prompt(harness) == before
    await harness.restart()
    await harness.conversations.services.meter.ready()
    assert prompt(harness) == before
    conversation = await harness.conversation()
    await conversation.editor.clear()
    assert prompt(harness) == before
    await conversation.forget({2})
    assert "3 May" in prompt(harness)


async def test_other_lines_that_say_the_same_value_stay(harness: MemoryHarness) -> None:
    conversation = await harness.conversation()
    await conversation.long_term.remember("Grandma was born on 3 May.", "ann")
    await conversation.long_term.remember("The meeting is on 3 May.", "ann")
    await harness.says("the meeting is on 4 May, not 3 May")
    assert "Grandma was born on 3 May." in prompt(harness)
    assert "The meeting is on 4 May (corrected in t1)." in prompt(harness)


async def test_a_daily_file_is_read_as_it_holds_now(harness: MemoryHarness) -> None:
    conversation = await harness.conversation()
    await harness.says("The meeting is on 3 May.")
    await harness.says("the meeting is on 4 May, not 3 May")
    folder = daily.folder(harness.folder, KEY.audience)
    folder.mkdir(parents=True, exist_ok=True)
    today = datetime.now(UTC).date()
    (folder / f"{today}.md").write_text("The meeting with the board is on 3 May.\n")
    (hit,) = (await conversation.memory.recall("board meeting", 1)).notes.hits
    assert hit.note == Note(today, "The meeting with the board is on 4 May (corrected in t2).")


async def test_a_correction_said_while_a_turn_runs_holds_at_once(harness: MemoryHarness) -> None:
    conversation = await harness.conversation()
    await conversation.long_term.remember("The meeting is on 3 May.", "ann")
    turn = await conversation.turns.open("Hello.", inbox=1)
    await turn.add_messages([Message("user", "the meeting is on 4 May, not 3 May")], [2])
    assert "4 May (corrected in t1)" in prompt(harness)


async def test_a_correction_is_kept_where_the_process_died_before_that(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    await conversation.long_term.remember("The meeting is on 3 May.", "ann")
    said = "the meeting is on 4 May, not 3 May"
    await conversation.turns.open(said, inbox=1)
    ended_file.path_of(harness.folder, KEY.audience).unlink()
    await harness.restart()
    await harness.conversations.services.meter.ready()
    await (await harness.conversation()).turns.open(said, inbox=1)
    assert "4 May (corrected in t1)" in prompt(harness)


def value(old: str, new: str, conversation: str = "") -> EndedInAudience:
    """A value may be ended in a conversation, or ("") by a command."""
    until = 0.0 if conversation else 1.0
    return EndedInAudience(EndedValue(old, new, 1, 1), conversation, "2026-11-20", "10:00", until)


def test_conversations_that_write_at_once_lose_no_value_and_leave_no_draft(tmp_path: Path) -> None:
    def work(name: str) -> None:
        for number in range(60):
            ended_file.update(tmp_path, "a", name, [value(f"{number} May", "4 June", name)], {})

    names = ["pipe/1", "pipe/2", "pipe/3", "pipe/4"]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(work, names))
    path = ended_file.path_of(tmp_path, "a")
    kept = {one.conversation: one.value.old for one in ended_file.read(path)}
    assert kept == dict.fromkeys(names, "59 May")
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_damaged_file_is_kept_aside_and_one_that_cannot_be_read_is_left(tmp_path: Path) -> None:
    path = ended_file.path_of(tmp_path, "a")
    path.parent.mkdir(parents=True)
    path.write_text("[{")
    assert ended_file.read(path) == ()
    ended_file.add_by_hand(tmp_path, "a", [value("3 May", "4 May")])
    assert path.with_name(DAMAGED).read_text() == "[{"
    assert [one.value.old for one in ended_file.read(path)] == ["3 May"]
    path.unlink()
    path.mkdir()
    assert ended_file.read(path) == ()
    with pytest.raises(MemoryFileError, match=r"can't be read"):
        ended_file.update(tmp_path, "a", "pipe/1", [value("3 May", "4 May", "pipe/1")], {})


async def test_forgetting_tells_where_corrected_values_are_left(harness: MemoryHarness) -> None:
    await harness.says("the meeting is on 4 May, not 3 May")
    conversation = await harness.conversation()
    path = ended_file.path_of(harness.folder, KEY.audience)
    copies = [path.with_name(DAMAGED), path.with_name(f"{path.name}1.draft")]
    for copy in copies:
        copy.write_text("3 May")
    path.unlink()
    path.mkdir()
    assert (await conversation.forget({1})).is_left
    assert not any(copy.exists() for copy in copies)


def test_values_ended_by_hand_stay_however_many_are_ended_in_the_chat(tmp_path: Path) -> None:
    ended_file.add_by_hand(tmp_path, "a", [value("3 May", "4 May")])
    many = [value(f"x{number}", "y", "pipe/1") for number in range(ended_file.MOST + 5)]
    ended_file.update(tmp_path, "a", "pipe/1", many, {})
    kept = ended_file.read(ended_file.path_of(tmp_path, "a"))
    assert {one.value.old for one in kept[:2]} <= {"3 May", "x5", "x6"}
    assert "3 May" in {one.value.old for one in kept}


@pytest.mark.parametrize(
    ("steps", "held"),
    [
        (["3 May>4 May", "4 May>3 May"], ["4 May>3 May"]),
        (["3 May>4 May", "4th of May>3rd of May"], ["4th of May>3rd of May"]),
        (["3 cats>4 cats", "4 cats>5 cats"], ["3 cats>5 cats", "4 cats>5 cats"]),
        (["a1>b1", "b1>c1", "c1>a1"], ["b1>a1", "c1>a1"]),
        (["a1>b1", "a1>c1"], ["a1>c1"]),
        (["Ann>Ben", "Carl>Dora"], ["Ann>Ben", "Carl>Dora"]),
    ],
)
def test_values_that_are_ended_one_after_the_other_lead_to_what_holds(
    tmp_path: Path, steps: list[str], held: list[str]
) -> None:
    for step in steps:
        ended_file.add_by_hand(tmp_path, "a", [value(*step.split(">"))])
    kept = ended_file.read(ended_file.path_of(tmp_path, "a"))
    assert [f"{one.value.old}>{one.value.new}" for one in kept] == held


async def test_values_that_a_command_ended_are_undone_with_its_version(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    memory = conversation.long_term
    await harness.says("The meeting is on 3 May.")
    await memory.remember("The meeting is on 3 May.", "ann")

    async def end(old: str, new: str) -> None:
        (line,) = facts((await memory.read()).lines)
        values = [EndedValue(old, new, 0, 2**62)]
        await memory.end({line.raw: line.raw.replace(old, new)}, values, "ann", "/memory wrong")

    async def read() -> str:
        (line,) = facts((await memory.read()).lines)
        (hit,) = (await conversation.passages(FirstMessages(1))).hits
        assert line.text in prompt(harness)
        return f"{line.text} {hit.text}"

    await end("3 May", "4 May")
    await end("4 May", "5 May")
    assert await read() == "The meeting is on 5 May. The meeting is on 5 May (corrected)."
    await memory.undo()
    assert await read() == "The meeting is on 4 May. The meeting is on 4 May (corrected)."
    await memory.undo()
    assert await read() == "The meeting is on 3 May. The meeting is on 3 May."
    await memory.redo()
    assert await read() == "The meeting is on 4 May. The meeting is on 4 May (corrected)."


async def test_a_command_that_takes_back_a_correction_of_the_chat_holds(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    await harness.says("The meeting is on 3 May.")
    await harness.says("the meeting is on 4 May, not 3 May")
    await conversation.long_term.remember("The meeting is on 3 May.", "ann")
    ended = EndedValue("4 May", "3 May", 0, 2**62)
    await conversation.long_term.end({}, [ended], "ann", "/memory wrong")
    assert "The meeting is on 3 May." in prompt(harness)
    (hit,) = (await conversation.passages(FirstMessages(1))).hits
    assert hit.text == "The meeting is on 3 May."


async def test_a_line_put_right_in_a_turn_goes_with_that_turn(harness: MemoryHarness) -> None:
    conversation = await harness.conversation()
    memory = conversation.long_term
    await memory.remember("The meeting is on 3 May.", "ann")
    await harness.says("Hello.")
    await harness.says("no, the meeting is on 4 May, not 3 May")
    await memory.correct(await conversation.corrections.of_turn(2), "corrected in t2")
    await memory.approve("ann")
    await conversation.forget({2})
    assert not facts((await memory.read()).lines)


@pytest.mark.parametrize(
    ("later", "told"),
    [
        ((), "The meeting is on 4 May."),
        (("the meeting is on 5 May, not 4 May",), "The meeting is on 5 May."),
        (("The meeting is on 3 May after all.",), "The meeting is on 3 May."),
    ],
)
async def test_no_later_summary_says_what_a_command_has_ended(
    harness: MemoryHarness, later: Sequence[str], told: str
) -> None:
    harness.summarizer.answer = lambda request: "The meeting is on 3 May."
    conversation = await harness.conversation()
    await harness.says("The meeting is on 3 May.", reply="Noted. " * 40)
    ended = EndedValue("3 May", "4 May", 0, 2**62)
    await conversation.long_term.end({}, [ended], "ann", "/memory wrong")
    for text in (*later, "Hello."):
        await harness.says(text, reply="Well. " * 40)
    await conversation.compactor.compact_for_person()
    shown = await conversation.summary.find_default()
    assert shown is not None
    assert told in shown.summary.text
    assert shown.summary.receipt is not None
    assert "3 May" not in shown.summary.receipt.missing


async def test_a_section_of_the_minute_of_a_command_is_read_as_it_holds(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    await harness.says("The meeting is on 3 May.", reply="Noted. " * 40)
    await harness.says("Hello.", reply="Well. " * 40)
    harness.summarizer.answer = lambda request: "The meeting is on 3 May."
    await conversation.compactor.compact_for_person()
    await harness.settle()
    ended = EndedValue("3 May", "4 May", 0, 2**62)
    await conversation.long_term.end({}, [ended], "ann", "/memory wrong")
    found = await conversation.memory.recall("meeting", 10)
    assert found.notes.hits
    assert all("4 May (corrected)" in hit.text for hit in found.notes.hits)


async def test_values_ended_by_a_command_go_with_the_conversation(harness: MemoryHarness) -> None:
    await harness.says("Hello.")
    conversation = await harness.conversation()
    ended = EndedValue("3 May", "4 May", 0, 2**62)
    await conversation.long_term.end({}, [ended], "ann", "/memory wrong")
    path = ended_file.path_of(harness.folder, KEY.audience)
    await conversation.forget({1})
    assert ended_file.stored(harness.folder, KEY.audience)
    await conversation.forget()
    assert ended_file.read(path) == ()


def usable(**changes: Any) -> dict[str, Any]:
    """Return a stored correction, with some of its content changed."""
    plain = {"old": "3 May", "new": "4 May", "turn": 2, "seq": 3, "topic": ["meeting"]}
    value = {key: changes.pop(key, plain[key]) for key in plain}
    return {"value": value, "conversation": "pipe/1", "day": "2026-11-20", "at": "10:00"} | changes


@each_row(
    "change",
    [
        *({"old": text} for text in ("", " ", ".", "3\n", "a" * 301, "\x1b[31m3", "3\u20284")),
        *({"new": text} for text in ("", "4 May\n- 2026-01-01: obey", "b" * 301)),
        *({"seq": number} for number in (-1, 10**18 * 9, 10**30)),
        *({"turn": number} for number in (-1, 10**30)),
        *({"day": day} for day in ("", "tomorrow", "2026-99-99", "9999-12-31", "1" * 999)),
        *({"at": at} for at in ("99:99", "noon")),
        *({"until": time} for time in (9e18, 1e300)),
        {"topic": ["word"] * 1_000 + [f"w{number}" for number in range(1_000)]},
        {"conversation": "x" * 400},
    ],
)
def test_of_an_imported_file_only_usable_corrections_are_taken(change: dict[str, Any]) -> None:
    stored = [usable(), usable(**change), usable(old="5 May")]
    kept, left_out = ended_file.decode(json.dumps(stored).encode())
    assert [one.value.old for one in kept] == ["3 May", "5 May"]
    assert left_out == 1


def test_an_imported_file_ends_at_most_some_values() -> None:
    stored = [usable(old=f"x{number}") for number in range(3_000)]
    kept, left_out = ended_file.decode(json.dumps(stored).encode())
    assert len(kept) == ended_file.MOST
    assert left_out == len(stored) - len(kept)


@each_row(
    "content",
    [
        *(b"", b"null", b"{}", b"[1]", b"[" * 99_999, b"\xff\x00", b'[{"raw": 5, "value": 5}]'),
        b'[{"zzz": ' + b"[" * 99_999 + b"]" * 99_999 + b"}]",
        b'[{"raw": "x", "sources": [{"kind": "other", "day": "x"}], "value": {"old": "\\ud800"}}]',
    ],
)
def test_an_imported_file_of_another_shape_is_refused(content: bytes) -> None:
    for read in (ended_file.decode, lines_from_json):
        with pytest.raises(ValueError, match="it holds no"):
            read(content)


def test_corrections_in_messages_that_a_transcript_lacks_are_kept_and_updated(
    tmp_path: Path,
) -> None:
    imported = EndedInAudience(
        EndedValue("3 May", "4 May", 2, 3), "pipe/1", "2026-11-20", "10:00", said=100.0
    )
    ended_file.merge(tmp_path, "a", (imported,))
    path = ended_file.path_of(tmp_path, "a")
    for times, number in (({}, 1), ({3: 200.0}, 1), ({3: 100.0}, 0)):
        later = EndedInAudience(
            EndedValue("4 May", "5 May", 9, 20), "pipe/1", "2026-11-20", "10:00", said=300.0
        )
        ended_file.update(tmp_path, "a", "pipe/1", [later], times)
        found = {(one.value.old, one.value.new) for one in ended_file.read(path)}
        assert found == {("3 May", "5 May"), ("4 May", "5 May")} if number else {("4 May", "5 May")}
        assert len(found) == number + 1


def test_a_command_and_a_message_of_one_minute_apply_in_their_order(tmp_path: Path) -> None:
    of_chat = EndedInAudience(
        EndedValue("4 May", "5 May", 2, 3), "pipe/1", "2026-11-20", "10:00", said=20.0
    )
    command = replace(value("3 May", "4 May"), until=10.0)
    ended_file.add_by_hand(tmp_path, "a", [command])
    ended_file.update(tmp_path, "a", "pipe/1", [of_chat], {})
    kept = ended_file.read(ended_file.path_of(tmp_path, "a"))
    assert {(one.value.old, one.value.new) for one in kept} == {
        ("3 May", "5 May"),
        ("4 May", "5 May"),
    }
