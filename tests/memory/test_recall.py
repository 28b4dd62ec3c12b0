"""Memory search: the best results first, every message, and none of other people."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memory import audience_memory
from memory.keys import ConversationKey
from memory.messages import Message, ToolCall
from memory.record import search
from memory.record.daily import KEPT, Note, NoteSearch
from memory.record.database import Database
from memory.record.engines.sqlite import connect
from memory.record.migrations import MIGRATIONS
from memory.record.search import SearchHits, index
from memory.record.search.index import Ranges
from memory.record.search.likeness import Likeness
from memory.record.search.reach import Scope
from tests.memory.harness import KEY, MemoryHarness

pytestmark = pytest.mark.databases

MONDAY = datetime(2023, 5, 8, 10, tzinfo=UTC)
THREAD = ConversationKey("pipe/main/thread", KEY.audience)
STRANGER = ConversationKey("pipe/other", "pipe-other")


async def tell(
    harness: MemoryHarness, *said: str, at: datetime = MONDAY, key: ConversationKey = KEY
) -> None:
    """Record messages of Ann and Bob in turn, one per minute, Ann first; as complete turns."""
    conversation = await harness.conversation(key)
    messages = [
        Message("assistant" if n % 2 else "user", text, speaker="Bob" if n % 2 else "Ann")
        for n, text in enumerate(said)
    ]
    turns = [messages[n : n + 2] for n in range(0, len(messages), 2)]
    await conversation.turns.append(turns, [at + timedelta(minutes=n) for n in range(len(said))])


async def recalled(
    harness: MemoryHarness, text: str, most: int = 5, key: ConversationKey = KEY
) -> list[str]:
    """Return the model's search results."""
    return texts((await (await harness.conversation(key)).memory.recall(text, most)).said)


async def searched(harness: MemoryHarness, text: str, key: ConversationKey = KEY) -> list[str]:
    """Return a person's search results."""
    return texts((await (await harness.conversation(key)).memory.search(text, 10)).said)


def texts(found: SearchHits) -> list[str]:
    return [hit.entry.message.text for hit in found.hits]


async def test_the_message_that_answers_stands_before_those_that_share_a_word(
    harness: MemoryHarness,
) -> None:
    await tell(
        harness, "The class was fun.", "Which class?", "I began pottery class.", "Great class!"
    )
    assert (await recalled(harness, "When did Ann start her pottery class?"))[0] == (
        "I began pottery class."
    )


class NearPlaces(Likeness):
    """Make some messages of the first conversation similar in meaning to the question."""

    def __init__(self, *seqs: int, far: float = 4.0) -> None:
        self.near, self.asked = {index.place_of(1, seq): far for seq in seqs}, list[str]()

    def compare(
        self, database: Database, text: str, names: Collection[str], ranges: Ranges
    ) -> Mapping[int, float]:
        self.asked += [text, *sorted(names)]
        return {place: self.near[place] for place in ranges.only(self.near)}


async def test_the_model_is_given_what_means_the_same(harness: MemoryHarness) -> None:
    harness.likeness = near = NearPlaces(3)
    await harness.restart()
    await tell(
        harness, "A dog barked.", "So?", "We got a puppy!", "Nice.", "I like tea.", "Me, too."
    )
    found = await recalled(harness, "Has Ann a dog?", 2)
    assert sorted(found) == ["A dog barked.", "We got a puppy!"]
    assert near.asked == ["Has Ann a dog?", "ann", "bob"]
    assert (await recalled(harness, "xylophone", 1)) == ["We got a puppy!"], "no word is shared"
    assert await searched(harness, "dog") == ["A dog barked."], "a person looks for words"


async def test_a_meaning_that_is_hardly_nearer_does_not_outdo_the_words(
    harness: MemoryHarness,
) -> None:
    harness.likeness = NearPlaces(3, far=0.5)
    await harness.restart()
    await tell(harness, "The dog barked.", "So?", "We got a puppy!", "Nice.")
    assert (await recalled(harness, "the dog", 1)) == ["The dog barked."]


async def test_what_was_removed_is_not_found_by_its_meaning(harness: MemoryHarness) -> None:
    harness.likeness = NearPlaces(1, 3)
    await harness.restart()
    await tell(harness, "We got a puppy!", "Nice.", "It is a poodle.", "Sweet.")
    await (await harness.conversation()).editor.drop([1])
    assert "We got a puppy!" not in await recalled(harness, "dog")
    assert "It is a poodle." in await recalled(harness, "dog")


async def test_an_answer_without_the_words_is_found_by_its_question(harness: MemoryHarness) -> None:
    await tell(harness, "It rained.", "It did.")
    await tell(harness, "How many cats have you?", "Three!", at=MONDAY + timedelta(days=9))
    assert "Three!" in (await recalled(harness, "cats", 2))
    assert await searched(harness, "cats") == ["How many cats have you?"]


async def test_what_a_question_asks_for_decides(harness: MemoryHarness) -> None:
    """Queries may name a person, a time, oneself, a month, a day, an ordinal."""
    await tell(harness, "I had the tea, and it is fine.", "I like the tea a lot, it is good.")
    await tell(harness, "Yesterday the tea was cold.", "Some.", at=MONDAY + timedelta(days=1))
    await tell(harness, "There were 3 teas then.", "Some.", at=MONDAY + timedelta(days=2))
    await tell(harness, "That tea is red.", "Some.", at=MONDAY + timedelta(days=40))
    for question, answer in {
        "What does Bob like about the tea?": "I like the tea a lot, it is good.",
        "When did we drink tea?": "Yesterday the tea was cold.",
        "What did I say about tea?": "I had the tea, and it is fine.",
        "Which tea in June?": "That tea is red.",
        "Which tea on 17.6.2023?": "That tea is red.",
        "Which tea on the 10th of May?": "There were 3 teas then.",
    }.items():
        assert (await recalled(harness, question))[0] == answer, question


LONG = " ".join(
    f"Step {n}: plan the budget of part {n}, check its login, and name what my app still needs."
    for n in range(40)
)


async def test_long_replies_do_not_stand_before_what_was_said_in_a_sentence(
    harness: MemoryHarness,
) -> None:
    """They contain so many words that each question has some of them, and are adjacent to all
    messages."""
    said = "My first sprint ends on a Friday."
    for day in range(8):
        question = said if day == 3 else f"What is step {day} of my app?"
        await tell(harness, question, f"{LONG} The sprint ends, and the first starts: a Friday.",
                   at=MONDAY + timedelta(days=day))  # fmt: skip
    assert (await recalled(harness, "When does my first sprint end?", 1)) == [said]
    assert LONG not in (await recalled(harness, "Which budget has my first sprint?", 1))[0]


async def test_what_was_said_on_a_day_is_found_by_its_date(harness: MemoryHarness) -> None:
    for day in range(5):
        await tell(harness, f"It is {'warm' if day % 2 else 'cold'}.", "Hm.",
                   at=MONDAY + timedelta(days=7 * day + 2))  # fmt: skip
    for named in ("May 10", "10.5.2023", "2023-05-10", "10th of May", "5月10日"):
        assert (await searched(harness, named))[:2] == ["Hm.", "It is cold."]
        spoken_of = await recalled(harness, f"What did we speak of on {named}?", 2)
        assert sorted(spoken_of) == ["Hm.", "It is cold."]


async def test_what_did_i_say_is_answered_by_ones_own_words(harness: MemoryHarness) -> None:
    tea = "Tea from Assam is"
    await tell(harness, "Hm.", "Ah.", f"{tea} strong.", f"{tea} strong?", "Yes.", f"{tea} dark.")
    for person, answer in (("I", f"{tea} strong."), ("Bob", f"{tea} dark.")):
        assert await recalled(harness, f"What did {person} say of the Assam tea?", 1) == [answer]


async def test_a_date_counts_for_little_where_words_tell_more(harness: MemoryHarness) -> None:
    said = "I adopted a walrus on May 20."
    await tell(harness, said, "Lovely.")
    await tell(harness, "Hm.", "Ah.", at=MONDAY + timedelta(days=12))
    assert await recalled(harness, "Who adopted a walrus on 20 May 2023?", 1) == [said]


async def test_a_question_at_the_end_of_a_story_is_heard(harness: MemoryHarness) -> None:
    await tell(
        harness,
        "我叔叔的邮箱地址是li@example.com。",
        "好的。",
        "今天天气真好，适合散步。",
        "是啊。",
    )
    story = "今天天气真好，适合出去散步。最近小区里的花开得特别美，邻居家的小狗也越来越可爱了。"
    assert (await recalled(harness, f"{story}对了，我真正想问的是：叔叔的邮箱地址是什么？", 1)) == [
        "我叔叔的邮箱地址是li@example.com。"
    ]


async def test_words_are_found_in_other_forms_and_in_any_case(harness: MemoryHarness) -> None:
    await tell(harness, "She PAINTED the Straße.", "Lovely stories!")
    for word in ("painting", "strasse", "story"):
        assert await searched(harness, word), word


async def test_chinese_and_japanese_words_are_found(harness: MemoryHarness) -> None:
    await tell(harness, "私は黒い猫が好きです", "東京都に行きます", "我想吃北京烤鸭", "Good.")
    for word in ("猫", "猫が", "黒い猫", "東京", "京都", "北京烤鸭", "烤鸭"):
        found = (await (await harness.conversation()).memory.search(word, 3)).said.hits[0]
        assert any(found.text[span.start : span.end] in word for span in found.spans), word


async def test_a_language_without_lists_is_searched_by_all_words(harness: MemoryHarness) -> None:
    await tell(harness, "Моя сестра живёт в Лиссабоне.", "Понятно.", "А брат — в Порту.", "Хорошо.")
    assert (await recalled(harness, "Где живёт моя сестра?", 1)) == [
        "Моя сестра живёт в Лиссабоне."
    ]
    assert await searched(harness, "сестры") == ["Моя сестра живёт в Лиссабоне."], (
        "by its beginning"
    )


async def test_nobody_finds_another_audiences_words(harness: MemoryHarness) -> None:
    await tell(harness, "My secret is Lisbon.", "I keep it.", key=STRANGER)
    await tell(harness, "The weather is fine.", "Yes.")
    await tell(harness, "In the thread it is Porto.", "Yes.", key=THREAD)
    assert await recalled(harness, "secret Lisbon keep") == []
    assert await searched(harness, "secret Lisbon ec") == []
    assert await searched(harness, "secret", STRANGER) == ["My secret is Lisbon."]
    assert await searched(harness, "Porto") == ["In the thread it is Porto."], (
        "a thread is not other"
    )


async def test_the_model_finds_neither_the_running_turn_nor_what_was_cleared(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    await harness.says("I live in Lisbon.")
    await harness.says("Lisbon is warm.", key=THREAD)
    await conversation.editor.clear()
    await harness.says("Porto is windy.")
    running = await conversation.turns.open("Is it Lisbon or Porto?")
    assert sorted(await recalled(harness, "Lisbon Porto", 2)) == [
        "Lisbon is warm.",
        "Porto is windy.",
    ]
    assert "I live in Lisbon." in await searched(harness, "Lisbon")
    await running.record(Message("assistant", "Porto."))
    await conversation.editor.undo()
    assert "I live in Lisbon." in await recalled(harness, "Lisbon")


async def test_what_left_with_a_summary_is_found_until_it_is_cleared(
    harness: MemoryHarness,
) -> None:
    harness.limit(max_turns=2)
    for text in ("I live in Lisbon.", "It is warm.", "And dry.", "And bright."):
        await harness.says(text)
    assert await recalled(harness, "Lisbon", 1) == ["I live in Lisbon."]
    conversation = await harness.conversation()
    await conversation.editor.clear()
    assert await recalled(harness, "Lisbon") == []
    await harness.restart()
    assert await recalled(harness, "Lisbon") == []


async def test_what_is_forgotten_is_not_found_and_counts_for_nothing(
    harness: MemoryHarness,
) -> None:
    await tell(
        harness, "Hm.", "Ah.", "Is the piano old?", "Aha.", "Hm?", "It is nice.", "So it is."
    )
    assert "It is nice." in await recalled(harness, "piano")
    conversation = await harness.conversation()
    await conversation.forget([2])
    assert await recalled(harness, "piano") == []
    assert await recalled(harness, "nice") == ["It is nice.", "So it is.", "Hm?"], (
        "t1 stands too far away"
    )
    await conversation.forget()
    assert await recalled(harness, "nice") == []
    await tell(harness, "The piano is new.", "Nice.")
    assert await searched(harness, "piano") == ["The piano is new."]


async def count(harness: MemoryHarness) -> int:
    return await harness.store.read(
        lambda db: db.execute_sql("SELECT COUNT(*) FROM passage").fetchone()[0]
    )


async def test_each_message_is_indexed_once(harness: MemoryHarness) -> None:
    await tell(harness, *(f"Tea number {n}" for n in range(3 * index.BATCH)))
    assert await count(harness) == 0, "no turn waits for it"
    await searched(harness, "tea")
    assert await count(harness) == 3 * index.BATCH
    await tell(harness, "More tea?", "Please.")
    assert await searched(harness, "please") == ["Please."]
    assert await count(harness) == 3 * index.BATCH + 2


async def test_many_turns_are_indexed_without_a_search(
    harness: MemoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audience_memory, "TURNS", 2)
    await harness.says("Tea?")
    await harness.settle()
    assert await count(harness) == 0
    await harness.says("Milk?")
    await harness.settle()
    assert await count(harness) == 4


async def test_a_crash_between_message_and_index_loses_nothing(harness: MemoryHarness) -> None:
    await tell(harness, *(f"Tea number {n}" for n in range(index.BATCH + 2)))
    with pytest.raises(ZeroDivisionError):
        await harness.store.write(lambda db: index.catch_up(db, 1) and 1 / 0)
    assert await count(harness) == 0, "a batch is whole or not there"
    await harness.store.write(lambda db: index.catch_up(db, 1))
    await harness.restart()
    assert await searched(harness, f"number {index.BATCH + 1}")
    assert await count(harness) == index.BATCH + 2


@pytest.mark.sqlite
async def test_a_database_of_an_older_parley_is_indexed_at_the_first_search(tmp_path: Path) -> None:
    database = connect(tmp_path / "parley.db")
    for step in MIGRATIONS[:3]:
        step(database)
    database.execute_sql("PRAGMA user_version = 3")
    database.execute_sql(
        "INSERT INTO conversation VALUES (1, ?, ?, 1, 1, 0, 0)", (KEY.id, KEY.audience)
    )
    database.execute_sql("INSERT INTO message VALUES (1, 1, 1, 1, 'user', 'Tea!', '{}', 1, 0, 0)")
    database.close()
    harness = MemoryHarness(tmp_path)
    await harness.open()
    assert await searched(harness, "tea") == ["Tea!"]
    await harness.close()


@pytest.mark.sqlite
async def test_an_index_of_an_older_parley_is_used_as_it_is(tmp_path: Path) -> None:
    """Keep the index, in which the signs of a message have new numbers: a question, a time,
    oneself, a user."""
    step = next(n for n, step in enumerate(MIGRATIONS) if step.name == "search_signs")
    database = connect(tmp_path / "parley.db")
    for older in MIGRATIONS[:step]:
        older(database)
    database.execute_sql(f"PRAGMA user_version = {step}")
    database.execute_sql(
        "INSERT INTO conversation (id, key, audience, last_seq, last_turn, created_at, active_at) "
        "VALUES (1, ?, ?, 2, 1, 0, 0)",
        (KEY.id, KEY.audience),
    )
    for seq, role, signs in ((1, "user", 2 + 4 + 16), (2, "assistant", 1 + 8)):
        place = 1 << 32 | seq
        database.execute_sql(
            "INSERT INTO message (conversation, seq, turn, role, text, extra, tokens, at) "
            "VALUES (1, ?, 1, ?, 'Tea!', '{}', 1, 0)",
            (seq, role),
        )
        database.execute_sql("INSERT INTO passage_words (rowid, words) VALUES (?, 'tea')", (place,))
        database.execute_sql("INSERT INTO passage VALUES (?, 1, 1, ?, '')", (place, signs))
    database.execute_sql("INSERT INTO sitting VALUES (?, ?, 0, 2, 2, '')", (1 << 32 | 1, place))
    database.close()
    harness = MemoryHarness(tmp_path)
    await harness.open()
    assert await searched(harness, "tea") == ["Tea!", "Tea!"]
    with sqlite3.connect(tmp_path / "parley.db") as reader:
        assert reader.execute("SELECT signs FROM passage").fetchall() == [(15,), (0,)]
    reader.close()
    await harness.close()


async def test_tools_are_found_by_name_input_and_result_but_not_by_searches(
    harness: MemoryHarness,
) -> None:
    def step(tool: str, input: str, result: str) -> Sequence[Message]:
        call = ToolCall("c", tool, input)
        return (
            Message("assistant", "", (call,)),
            Message("tool", result, call_id="c", tool=tool),
            Message("assistant", "Done."),
        )

    conversation = await harness.conversation()
    await conversation.turns.append(
        [
            [Message("user", "Go."), *step("read_file", '{"path": "rhubarb.txt"}', "cinnamon")],
            [Message("user", "Go."), *step("memory_search", '{"query": "nutmeg"}', "cardamom")],
        ]
    )
    assert await searched(harness, "rhubarb")
    assert await searched(harness, "cinnamon") == ["cinnamon"]
    assert (await conversation.memory.recall("nutmeg cardamom", 5)).said.total == 0


async def test_any_text_may_be_looked_for(harness: MemoryHarness) -> None:
    await tell(harness, "Tea or milk?", "Tea.")
    for query in (
        "",
        "  \n",
        '"',
        "'; DROP TABLE message; --",
        "AND OR NOT NEAR(tea, 2)",
        "tea* ^tea words:tea -tea {tea}",
        "(((",
        ".*[a-z]+(?P<x>",
        "\x00\ud800",
        "😀",
        "tea " * 50_000,
        "x" * 200_000,
        " ".join(map(str, range(3_000, 30_000))),
    ):
        found = await recalled(harness, query)
        assert ("Tea." in found) == ("tea" in query), query[:30]


async def test_a_person_finds_what_is_no_word_letter_by_letter(harness: MemoryHarness) -> None:
    await tell(harness, "I write c++ 🎉", "And Haskell?")
    assert await searched(harness, "🎉") == ["I write c++ 🎉"]
    assert await searched(harness, "kell") == ["And Haskell?"]
    assert await searched(harness, "%_") == []


async def test_a_word_that_is_everywhere_is_looked_up_in_the_newest_messages(
    harness: MemoryHarness,
) -> None:
    await tell(harness, *(f"Tea number {n}" for n in range(index.MOST + 100)))
    found = (await (await harness.conversation()).memory.search("tea", 10)).said
    assert found.total == index.MOST
    assert texts(found)[0].startswith("Tea number")
    assert await searched(harness, "number 7"), "what is rare is found however old it is"


async def test_more_words_are_no_more_questions_to_the_database(
    harness: MemoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tell(harness, "Green tea or red wine?", "Red wine, please; the tea was cold yesterday.")
    await searched(harness, "tea")  # so that everything is indexed

    async def count_statements(text: str) -> int:
        asked: list[str] = []

        def find(database: Database) -> None:
            execute = database.execute_sql

            def count(sql: str, params: Any = None) -> Any:
                asked.append(sql)
                return execute(sql, params)

            with monkeypatch.context() as patch:
                patch.setattr(database, "execute_sql", count)
                assert search.find(database, Scope(KEY.audience), text, 5, UTC).hits

        await harness.store.read(find)
        return len(asked)

    assert (
        0
        < await count_statements("tea")
        == await count_statements(
            "Was the cold green tea served with red wine yesterday, or some milk?"
        )
    )


async def test_a_long_message_is_found_by_its_end(harness: MemoryHarness) -> None:
    await tell(harness, f"{'filler ' * 200_000} walrus", "I see.")
    found = (await (await harness.conversation()).memory.search("walrus", 1)).said.hits[0]
    assert found.text[found.spans[0].start : found.spans[0].end] == "walrus"


DAYS = [date(2023, 5, day) for day in (8, 9)]
WRITTEN = [
    Note(DAYS[0], "They spoke of tea, and of the weather."),
    Note(DAYS[0], "Ann paints; she sold a painting."),
    Note(DAYS[1], "They spoke of tea again."),
]


def test_notes_are_ranked_as_what_was_said_is() -> None:
    notes = NoteSearch()
    found = notes.find("me", WRITTEN, "What has Ann painted, and when was tea?", 2, UTC)
    assert found.hits[0].note == WRITTEN[1]
    assert found.total == 3
    assert [WRITTEN[1].text[s.start : s.end] for s in found.hits[0].spans] == ["Ann", "paint"]
    assert notes.find("me", WRITTEN, "tea on May 9", 3, UTC).hits[0].note == WRITTEN[2]
    assert notes.find("me", WRITTEN, "bicycle", 3, UTC).total == 0
    assert notes.find("me", [], "tea", 3, UTC).total == 0
    assert notes.find("another", WRITTEN[:1], "tea", 3, UTC).total == 1


def test_notes_that_are_in_no_file_any_more_do_not_stay_in_memory() -> None:
    notes = NoteSearch()
    for name in ("me", "another"):
        notes.find(name, [Note(DAYS[0], f"The code of {name} is quokka.")], "code", 3, UTC)
    assert holds(notes, "code of me")
    notes.find("me", [], "code", 3, UTC)
    assert not holds(notes, "code of me")
    assert holds(notes, "code of another")


def holds(notes: NoteSearch, text: str) -> bool:
    """Return whether a text is anywhere in the data that a search keeps between calls."""
    return text in repr([vars(one) for one in notes._indexed.values()])  # by no other way seen


def _add(notes: list[Note], note: Note) -> list[Note]:
    return sorted([*notes, note], key=lambda one: one.day)


@settings(max_examples=3)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["add", "take", "change", "search elsewhere"]),
            st.integers(0, 6),
            st.sampled_from(["tea", "tea and cake", "rain", "a long walk", ""]),
        ),
        max_size=8,
    )
)
def test_a_search_of_changed_files_is_a_fresh_one(steps: list[tuple[str, int, str]]) -> None:
    kept, now = NoteSearch(), [*WRITTEN]
    for what, where, text in steps:
        if what == "add":
            now = _add(now, Note(date(2023, 5, 8 + where % 3), f"{text} {where}"))
        elif what == "take" and now:
            now.pop(where % len(now))
        elif what == "change" and now:
            now[where % len(now)] = replace(now[where % len(now)], text=text or "nothing")
        elif what == "search elsewhere":
            for n in range(KEPT):
                kept.find(f"{n}", WRITTEN, "tea", 3, UTC)
        for question in ("tea", "what about the walk in the rain on May 9?", text):
            fresh = NoteSearch().find("me", now, question, 5, UTC)
            found = kept.find("me", now, question, 5, UTC)
            assert [hit.note for hit in found.hits] == [hit.note for hit in fresh.hits]
            assert found.total == fresh.total
