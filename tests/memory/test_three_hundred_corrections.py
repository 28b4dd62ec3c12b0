"""300 corrections in three languages: except for one, no old value remains in the model's input: in
searches, in the memory, and in the context after a compaction whose summariser states it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import pytest

from memory.context.summary import SummaryRequest
from memory.conversation import Conversation
from memory.corrections.ended_values import find_places
from memory.keys import ConversationKey
from memory.long_term.prompt import MemoryPrompts
from memory.record.search import Hit, Tail
from tests.memory.harness import MemoryHarness, texts

_CORPORA = Path(__file__).parent / "corrections"
_LEAVES = " ".join(
    f"Step {n} of tea: pluck the leaves, let them wither, and dry." for n in range(12)
)
_CHAT = ("Tell me about tea.", _LEAVES, "And coffee?", "Coffee is made of beans.")


MISSED = {"en": 0, "de": 1, "zh": 0}
"""Corrections that are not found: the review that a person corrected to "the meeting" may be
another thing, and a wrong value is worse than an old one."""


def rows(*names: str) -> list[tuple[list[str], str, str]]:
    """Return the messages, the last one with the correction, the old value and the new one."""
    found = []
    for name in names:
        for line in (_CORPORA / f"{name}.tsv").read_text(encoding="utf-8").splitlines():
            said, old, new = line.split("\t")
            found.append((said.split(" | "), old, new))
    return found


def _shown(hits: Iterable[Hit]) -> list[str]:
    """Return all texts shown by a search: hits, and their neighbours."""
    return [
        text
        for hit in hits
        for text in (
            hit.text,
            *(entry.message.text for entry in (hit.entry, hit.before, hit.after) if entry),
        )
    ]


def _state(text: str, request: SummaryRequest) -> str:
    return text


async def _read(conversation: Conversation, prompts: MemoryPrompts, asked: str) -> dict[str, str]:
    """Return everything that the model reads of these messages, by its path."""
    found = await conversation.memory.recall(asked, 10)
    passages = await conversation.passages(Tail(10))
    remembered = prompts.of(conversation.key.audience, 600).text.partition("<memory>")[2]
    return {
        "request": "\n".join(texts(conversation.context.view())),
        "memory": remembered.partition(": ")[2],
        "recall": "\n".join(_shown(found.said.hits)),
        "notes": "\n".join(hit.text for hit in found.notes.hits),
        "passages": "\n".join(_shown(passages.hits)),
    }


_Left = dict[int, tuple[str, str, str]]
"""Texts that have the old value, or lack the new one, by the number of the correction."""


async def _find_left(
    harness: MemoryHarness, corpus: Sequence[tuple[list[str], str, str]]
) -> list[_Left]:
    """Return the old values left in memory and searches, and in requests."""
    meter = harness.conversations.services.meter
    prompts = MemoryPrompts(harness.folder, meter)
    wrong, left = _Left(), _Left()
    await meter.ready()
    for number, (said, old, new) in enumerate(corpus):
        key = ConversationKey(f"pipe/{number}", f"pipe-{number}")
        conversation = await harness.conversation(key)
        await conversation.long_term.remember(said[0], "ann")
        for message in said:
            await harness.says(message, reply=f"Noted: {message}", key=key)
        for question, reply in zip(_CHAT[::2], _CHAT[1::2], strict=True):
            await harness.says(question, reply=reply, key=key)
        hostile = f"{said[0]} They asked about tea: its leaves wither, and dry."
        harness.summarizer.answer = partial(_state, hostile)
        await conversation.compactor.compact_for_person()
        await harness.settle()
        for name, text in (await _read(conversation, prompts, said[0])).items():
            text = text.replace(_LEAVES, "")
            has_old_value = any(find_places(text, old))
            if text and (has_old_value or new.removesuffix("th") not in text):
                one = (name, old if has_old_value else new, text)
                (left if name == "request" else wrong)[number] = one
    return [wrong, left]


async def test_no_value_is_read_that_was_named_in_short_or_is_of_no_kind(
    harness: MemoryHarness,
) -> None:
    assert await _find_left(harness, rows("rules")) == [{}, {}]


@pytest.mark.parametrize("language", MISSED)
async def test_no_old_value_is_read_and_every_new_one_is(
    harness: MemoryHarness, language: str
) -> None:
    corpus = rows(language)
    assert len(corpus) == 100
    wrong, left = await _find_left(harness, corpus)
    left = {number: one for number, one in left.items() if number not in wrong}
    assert len(wrong) <= MISSED[language], f"{len(wrong)}:\n" + "\n".join(map(str, wrong.values()))
    assert not left, "\n".join(map(str, left.values()))
