"""Values that a person corrected are marked in search results of the model and of people, together
with the correction. The transcript keeps the original message.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from memory.corrections.corrected import apply_corrections, correct
from memory.corrections.ended_values import OLD, EndedValue, occurs_once, show_corrected
from memory.corrections.finder import Correction, find_corrections
from memory.messages import Message, ToolCall
from memory.record.search import ExactMessage, FirstMessages, Words
from memory.record.search.corrected import correct as correct_entry
from memory.record.search.index import place_of
from memory.turns import Entry
from tests.memory.harness import KEY, MemoryHarness


async def test_people_and_letter_by_letter_searches_show_it_too(harness: MemoryHarness) -> None:
    await harness.says("The meeting is on 3 May.", reply="Noted.")
    await harness.says("no, it's 4 May, not 3 May", reply="Changed.")
    conversation = await harness.conversation()
    for hits in (
        (await conversation.memory.search("meeting", 10)).said.hits,
        (await conversation.search(["meet"], 10)).hits,
        (await conversation.passages(Words("meeting", 0, 0))).hits,
    ):
        assert [hit.text for hit in hits][:2] in (
            ["The meeting is on 4 May (corrected in t2)."],
            [f"no, it's 4 May, not {OLD}", "The meeting is on 4 May (corrected in t2)."],
            ["The meeting is on 4 May (corrected in t2).", f"no, it's 4 May, not {OLD}"],
        )


async def test_a_correction_that_was_not_found_by_itself_takes_no_place(
    harness: MemoryHarness,
) -> None:
    await harness.says("The meeting with the architects is on 3 May in Oslo.", reply="Noted.")
    await harness.says("no, it's 4 May, not 3 May", reply="Changed.")
    await harness.says("Good.")
    conversation = await harness.conversation()
    hits = (await conversation.memory.recall("meeting with the architects in Oslo", 2)).said.hits
    assert [hit.text for hit in hits] == [
        "The meeting with the architects is on 4 May (corrected in t2) in Oslo.",
        "Noted.",
        f"no, it's 4 May, not {OLD}",
    ]


async def test_the_transcript_keeps_what_was_said(harness: MemoryHarness) -> None:
    await harness.says("It is on 3 May.", reply="Noted.")
    await harness.says("no, it's 4 May, not 3 May", reply="Changed.")
    conversation = await harness.conversation()
    (whole,) = (await conversation.passages(ExactMessage(1, 1))).hits
    assert whole.text == "It is on 3 May."
    assert "It is on 3 May." in [message.text for message in conversation.context.view().messages]


async def test_a_correction_that_was_taken_away_corrects_nothing(harness: MemoryHarness) -> None:
    await harness.says("It is on 3 May.", reply="Noted.")
    await harness.says("no, it's 4 May, not 3 May", reply="Changed.")
    conversation = await harness.conversation()

    async def first() -> str:
        return (await conversation.passages(FirstMessages(1))).hits[0].text

    assert await first() == "It is on 4 May (corrected in t2)."
    await conversation.editor.drop({2})
    assert await first() == "It is on 3 May."
    await conversation.editor.undo()
    assert await first() == "It is on 4 May (corrected in t2)."
    await harness.restart()
    conversation = await harness.conversation()
    assert await first() == "It is on 4 May (corrected in t2)."


async def test_a_branch_corrects_for_itself_alone(harness: MemoryHarness) -> None:
    await harness.says("It is on 3 May.", reply="Noted.")
    await harness.says("Fine.", reply="Good.")
    conversation = await harness.conversation()
    branch = await harness.conversations.fork(KEY, 1)
    await harness.says("no, it's 4 May, not 3 May", key=branch)
    here = (await conversation.passages(FirstMessages(1))).hits[0].text
    there = (await (await harness.conversation(branch)).passages(FirstMessages(1))).hits[0].text
    assert (here, there) == ("It is on 3 May.", "It is on 4 May (corrected in t2).")


async def test_a_correction_that_is_not_indexed_yet_is_left_out(harness: MemoryHarness) -> None:
    await harness.says("The meeting with the architects is on 3 May in Oslo.", reply="Noted.")
    await harness.says("no, it's 4 May, not 3 May", reply="Changed.")
    conversation = await harness.conversation()
    await conversation.memory.recall("architects", 1)
    place = place_of(conversation.context.row, 3)
    delete = "DELETE FROM passage WHERE place = ?"
    await harness.store.write(lambda db: db.execute_sql(delete, (place,)))
    hits = (await conversation.memory.recall("architects in Oslo", 1)).said.hits
    assert [hit.text for hit in hits] == [
        "The meeting with the architects is on 4 May (corrected in t2) in Oslo."
    ]


async def test_as_many_messages_as_before_are_read_again_where_they_are_others(
    harness: MemoryHarness,
) -> None:
    await harness.says("It is on 3 May.", reply="Noted.")
    await harness.says("no, it's 4 May, not 3 May", reply="Changed.")
    conversation = await harness.conversation()

    async def ended() -> list[str]:
        book, row = (await conversation.corrections.for_search()).book, conversation.context.row
        return [one.new for one in await harness.store.read(lambda db: book.of(db, row))]

    assert await ended() == ["4 May"]
    book = (await conversation.corrections.for_search()).book
    heard = {**book._heard}
    await conversation.forget({2})
    await harness.says("no, it's 5 May, not 3 May", reply="Changed.")
    book._heard.update(heard)  # as in another process that read before the deletion
    assert await ended() == ["5 May"]


async def test_what_is_said_after_a_command_is_found_as_it_was_said(harness: MemoryHarness) -> None:
    await harness.says("The meeting is on 3 May.", reply="Noted.")
    conversation = await harness.conversation()
    ended = EndedValue("3 May", "4 May", 0, 2**62)
    await conversation.long_term.end({}, [ended], "ann", "/memory wrong")
    await harness.says("The party is on 3 May.", reply="A party on 3 May.")
    found = [hit.text for hit in (await conversation.passages(FirstMessages(4))).hits]
    said = ["The party is on 3 May.", "A party on 3 May."]
    assert found == ["The meeting is on 4 May (corrected).", "Noted.", *said]
    recalled = (await conversation.memory.recall("party meeting", 2)).said.hits
    assert {hit.text for hit in recalled} >= {found[0], said[0]}


def test_a_person_who_says_the_old_value_again_means_it() -> None:
    ended = [EndedValue("3 May", "4 May", 2, 3, said_again=7)]
    assert show_corrected("3 May is her birthday", ended, "user", 7) == "3 May is her birthday"
    assert show_corrected("Then 3 May.", ended, "assistant", 8) == "Then 3 May."
    assert show_corrected("Then 3 May.", ended, "assistant", 6) == "Then 4 May (corrected in t2)."
    assert show_corrected("3 May", ended, "tool", 2) == "3 May"


def test_other_forms_of_the_old_value_are_the_old_value() -> None:
    ended = [EndedValue("3 May", "4 May", 2, 3)]
    for text in ("2026-05-03", "May 3rd", "3. Mai", "the 3rd of May"):
        assert "4 May (corrected in t2)" in show_corrected(f"It is on {text}.", ended), text
    assert show_corrected("It is on 13 May.", ended) == "It is on 13 May."


def test_a_new_value_that_has_the_old_one_in_it_is_left_alone() -> None:
    ended = [EndedValue("Ann", "Ann Lee", 2, 3)]
    shown = show_corrected("Ann called; Ann Lee came.", ended)
    assert shown == "Ann Lee (corrected in t2) called; Ann Lee came."
    assert show_corrected(shown, ended) == shown


def test_only_what_speaks_of_the_same_thing_is_changed() -> None:
    for old, new, text in (
        ("300 euros", "200 euros", 'He said: "it costs 300 euros".'),
        ("300", "200", "Run `price = 300`."),
        ("300", "200", "```\nprice = 300\n```"),
        ("300", "200", "~~~\nprice = 300\n~~~"),
        ("300", "200", "> it was 300"),
        ("300", "200", "他说「要300」。"),
        ("Tim", "Tom", "Write to tim@x.org, or see https://x.org/Tim and /srv/Tim/a.csv."),
        ("Tim", "Tom", "A book by Tim O'Reilly, and one that Uncle Tim wrote; @tim and tim.py."),
        ("Porto", "Lisbon", "Her flight is to Porto Alegre, or Porto-Novo."),
    ):
        ended = [EndedValue(old, new, 2, 3)]
        assert show_corrected(text, ended) == text
        assert correct(text, [Correction(old, new, 1)]) == text


def test_a_name_is_changed_behind_a_verb_or_a_title_and_before_a_day() -> None:
    ended = [EndedValue("Tim", "Tom", 0, 3)]
    for text in ("Ask {}.", "It is for Mr {}.", "Noted: call {} Monday.", "Is {}'s car red?"):
        changed = text.format("Tom (corrected)")
        assert show_corrected(text.format("Tim"), ended) == changed


def test_the_number_of_a_house_is_ended_where_a_message_denies_it() -> None:
    ended = [EndedValue("24", "42", 2, 5, frozenset({"橡树", "树路"}))]
    shown = [
        show_corrected(text, ended, "user", 5) for text in ("是橡树路42号，不是24号。", "24号")
    ]
    assert shown == ["是橡树路42号，不是[the old value]号。", "[the old value]号"]
    assert show_corrected("我住在橡树路24号。", ended, "user", 1) == (
        "我住在橡树路42 (corrected in t2)号。"
    )
    plain = [replace(one, is_marked=False) for one in ended]
    assert apply_corrections("我住在橡树路24号。是橡树路42号，不是24号。", plain) == (
        "我住在橡树路42号。是橡树路42号。"
    )


def test_what_no_second_thing_has_is_ended_whatever_a_sentence_is_about() -> None:
    for old, new in (("555-0134", "555-0143"), ("https://a.example/x", "https://a.example/y")):
        ended = [EndedValue(old, new, 2, 5, frozenset({"plumber"}), is_shared=True)]
        assert old not in show_corrected(f"Noted: {old}", ended, "assistant", 1)
    ended = [EndedValue("14", "16", 2, 5, frozenset({"chairs"}), is_shared=True)]
    assert show_corrected("Bob is 14.", ended, "user", 1) == "Bob is 14."


def test_a_value_alone_in_code_is_the_value() -> None:
    ended = [EndedValue("/a/b.csv", "/a/c.csv", 0, 3)]
    assert show_corrected("It is `/a/b.csv`.", ended) == "It is `/a/c.csv (corrected)`."


def test_a_number_is_changed_beside_what_it_counts() -> None:
    said = ["I have 3 kids and 3 dogs.", "I have 4 kids, not 3."]
    (one,) = find_corrections(said)
    ended = EndedValue(one.old, one.new, 0, 3, one.topic, one.is_shared)
    assert show_corrected(said[0], [ended]) == "I have 4 (corrected) kids and 3 dogs."
    assert correct(said[0], [one]) == "I have 4 kids and 3 dogs."


def test_arguments_of_tool_calls_are_shown_as_they_were() -> None:
    call = ToolCall("1", "send", '{"day": "3 May"}')
    message = Message("assistant", "On 3 May.", tool_calls=(call,))
    shown = correct_entry(
        Entry(1, 1, message, 9, datetime.now(UTC)), [EndedValue("3 May", "4 May", 0, 3)]
    ).message
    assert shown.text == "On 4 May (corrected)."
    assert shown.tool_calls == (call,)


def test_a_value_in_two_forms_is_not_there_once() -> None:
    assert occurs_once("The meeting is on 4 May.", "4 May")
    assert not occurs_once("The meeting is on 4 May, the dentist on May 4.", "4 May")
    assert not occurs_once("The meeting is on 14 May.", "4 May")
