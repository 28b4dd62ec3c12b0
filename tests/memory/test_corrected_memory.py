"""Values that a person corrected in the chat are read as they hold in what is remembered: in the
prompt and in daily files, at once; the file itself changes by an approved edit alone.
"""

from __future__ import annotations

from datetime import UTC, datetime

from memory.long_term.document import facts
from memory.long_term.prompt import MemoryPrompts
from memory.record import daily
from memory.record.daily import Note
from tests.memory.rooms import KEY, Lodge


def prompt(lodge: Lodge) -> str:
    prompts = MemoryPrompts(lodge.folder, lodge.conversations.services.meter)
    return prompts.of(KEY.audience, 600).text


async def test_an_edit_is_proposed_and_the_file_stays_until_it_is_approved(lodge: Lodge) -> None:
    conversation = await lodge.conversation()
    memory = conversation.long_term
    await memory.remember("The meeting is on 3 May.", "ann")
    await lodge.says("no, the meeting is on 4 May, not 3 May")
    ended = await conversation.ended_in(1)
    assert await memory.correct(ended, "corrected in t1") == 1
    assert "on 4 May (corrected in t1)" in prompt(lodge)
    state = await memory.read()
    assert [line.text for line in facts(state.lines)] == ["The meeting is on 3 May."]
    assert [line.text for line in facts(state.proposed)] == ["The meeting is on 4 May."]
    await memory.approve("ann")
    assert "on 4 May." in prompt(lodge)


async def test_a_correction_that_is_undone_or_forgotten_ends_nothing(lodge: Lodge) -> None:
    conversation = await lodge.conversation()
    await conversation.long_term.remember("The meeting is on 3 May.", "ann")
    await lodge.says("Hello.")
    await lodge.says("no, the meeting is on 4 May, not 3 May")
    await lodge.says("Thanks.")
    before = prompt(lodge)
    await conversation.editor.drop({2})
    assert "3 May" in prompt(lodge)
    await conversation.editor.undo()
    assert prompt(lodge) == before
    await lodge.restart()
    await lodge.conversations.services.meter.ready()
    assert prompt(lodge) == before
    conversation = await lodge.conversation()
    await conversation.editor.clear()
    assert prompt(lodge) == before
    await conversation.forget({2})
    assert "3 May" in prompt(lodge)


async def test_other_lines_that_say_the_same_value_stay(lodge: Lodge) -> None:
    conversation = await lodge.conversation()
    await conversation.long_term.remember("Grandma was born on 3 May.", "ann")
    await conversation.long_term.remember("The meeting is on 3 May.", "ann")
    await lodge.says("the meeting is on 4 May, not 3 May")
    assert "Grandma was born on 3 May." in prompt(lodge)
    assert "The meeting is on 4 May (corrected in t1)." in prompt(lodge)


async def test_a_daily_file_is_read_as_it_holds_now(lodge: Lodge) -> None:
    conversation = await lodge.conversation()
    await lodge.says("The meeting is on 3 May.")
    await lodge.says("the meeting is on 4 May, not 3 May")
    folder = daily.folder(lodge.folder, KEY.audience)
    folder.mkdir(parents=True, exist_ok=True)
    today = datetime.now(UTC).date()
    (folder / f"{today}.md").write_text("The meeting with the board is on 3 May.\n")
    (hit,) = (await conversation.memory.recall("board meeting", 1)).notes.hits
    assert hit.note == Note(today, "The meeting with the board is on 4 May (corrected in t2).")
