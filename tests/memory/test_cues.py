"""A cue is found wherever its pattern is, and facts at their signs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.context import facts, requests
from memory.context.wording import Cue, WordsOf, stems

CUES = {
    "LATER": requests._LATER,
    "PROMISES": requests._PROMISES,
    "DONE": requests._DONE,
}
PIECES = st.sampled_from(
    [
        *(
            "4 May",
            "May 4th",
            "4. Mai",
            "04.05.2026",
            "4.5.",
            "12:30",
            "3pm",
            "10 Uhr",
            "$5",
            "20 €",
        ),
        *("1,234.50", "12%", "5k", "v2.1", "ABC-12", "snake_case", "camelCase", "x1", "31/12/24"),
        *(
            "https://x.org/a?b=1",
            "a@b.co",
            "/etc/passwd",
            "5月4日",
            "下午3点",
            "and",
            "Mai",
            "(",
            ",",
        ),
        *("a" * 70 + "1", "\n", "“", "-", "2026-05-04"),
    ]
)
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from([" ", "", "  "])), max_size=12).map(
    lambda pairs: "".join(map("".join, pairs))
)


@pytest.mark.parametrize("name", CUES)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_cue_has_a_word_of_each_match(name: str, data: st.DataObject) -> None:
    cue: Cue = CUES[name]
    pattern = re.compile(cue.pattern.pattern, cue.pattern.flags)
    text = data.draw(st.from_regex(pattern)) + data.draw(st.sampled_from(["", " and", "。"]))
    assert cue.is_in(text, WordsOf()(text)) == bool(pattern.search(text))


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_words_have_the_stems_of_their_text(text: str) -> None:
    assert WordsOf().stems([text, "Hotels 酒店"]) == stems(f"{text}\nHotels 酒店")


@pytest.mark.parametrize(
    ("kind", "pattern"), [("url", facts._URL), ("time", facts._TIME), ("number", facts._NUMBER)]
)
@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_facts_stand_at_their_signs(kind: str, pattern: re.Pattern[str], text: str) -> None:
    (finder,) = (one for one in (*facts._EXACT, *facts.IN_PROSE) if one.kind == kind)
    there = {found.start() for found in pattern.finditer(text)}
    found = [start for start, *_ in finder.find(text)]
    assert found == sorted(there & set(found))
    plain = {m.start() for m in pattern.finditer(text) if len(re.findall(r"\d", m[0])) > 1}
    assert kind != "number" or plain <= set(found)
