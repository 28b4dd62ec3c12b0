"""What a person corrected in the chat is read as it holds in what is remembered: in the prompt and
in daily files, at once; the file itself changes by an approved edit alone.
"""

from __future__ import annotations

from datetime import UTC, datetime

from memory.context.ended_values import find_places
from memory.keys import ConversationKey
from memory.long_term.document import facts
from memory.long_term.prompt import MemoryPrompts
from memory.record import daily
from memory.record.daily import Note
from tests.memory.rooms import KEY, Lodge
from tests.memory.test_corrected_search import rows


async def test_no_remembered_line_shows_the_model_a_value_that_was_corrected(lodge: Lodge) -> None:
    meter = lodge.conversations.services.meter
    prompts, wrong = MemoryPrompts(lodge.folder, meter), list[tuple[list[str], str]]()
    await meter.ready()
    for number, (said, old, new) in enumerate(rows()):
        key = ConversationKey(f"pipe/{number}", f"pipe-{number}")
        conversation = await lodge.conversation(key)
        await conversation.long_term.remember(said[0], "ann")
        for message in said:
            await lodge.says(message, key=key)
        text = prompts.of(key.audience, 600).text.partition("<memory>")[2]
        notes = (await conversation.memory.recall(said[0], 10)).notes.hits
        for shown in (text, *(hit.text for hit in notes), *(hit.note.text for hit in notes)):
            shown = shown.split(": ", 1)[-1]
            if [*find_places(shown, old)] or new.removesuffix("th") not in shown:
                wrong.append((said, shown))
    assert wrong == [], "\n".join(map(str, wrong))


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
