"""Tokens counted from a mapped file: the same as tiktoken counts, for all that is counted so."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.context import meter
from memory.context.meter import Meter
from memory.context.vocabulary import (
    FILE,
    LONGEST_PIECE,
    LONGEST_TEXT,
    TokenTable,
    build,
    is_ordinary,
    list_ordinary,
)
from tests.memory.rooms import Looked

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY = TokenTable()
ORDINARY = list_ordinary()
_SAID = "the don't It'S we'LL 've Straße ΑΘΗΝΑ вчера שלום مرحبا naïve 1 12 1234567 ² Ⅷ 3.14"
_SPACES = ["  ", "\n", "\r\n", "\n\n\n", "\t", " \n ", "\xa0", "\x00", "\x85"]
_SIGNS = ["...", "!!!\n\n", "-" * 60, "👍🏽", "🙂", "→", "™", "№", "_", "<|endoftext|>", "x" * 40]
_CODE = ["{'a': [1, 2]}", "https://x.test/?q=%20", "SELECT * FROM t;", "def f(x):\n    return x\n"]
WORDS = st.sampled_from([*_SAID.split(), *_SPACES, *_SIGNS, *_CODE])
TEXTS = st.lists(st.one_of(WORDS, st.text(st.sampled_from(ORDINARY), max_size=6)), max_size=30)


def by_tiktoken(text: str) -> int:
    return len(meter._load().encode_ordinary(text))  # the reference, with the same ranks


def test_the_file_is_made_of_the_ranks() -> None:
    ranks = meter._ranks(meter._rank_file())
    assert FILE.read_bytes() == build(ranks)
    assert VOCABULARY.rank(b"hello") == ranks[b"hello"]
    assert VOCABULARY.rank(b"\xff\xfe\xfd") > len(ranks)


def test_each_character_is_of_the_kind_that_tiktoken_takes_it_for() -> None:
    shapes = ["{}", "a{}a", " {}", "{} ", "1{}2", ".{}.", "{}\n", "\n{}"]
    shapes += ["'{}", "{}'s", "  {}  ", "{0}{0}{0}"]
    texts = [shape.format(one) for one in ORDINARY for shape in shapes]
    assert len(ORDINARY) > 5_000
    assert [text for text in texts if VOCABULARY.count(text) != by_tiktoken(text)] == []


@given(TEXTS)
def test_what_is_counted_is_counted_as_by_tiktoken(parts: list[str]) -> None:
    text = "".join(parts)
    assert VOCABULARY.count(text) == by_tiktoken(text)


@given(st.text(max_size=200))
def test_what_is_not_ordinary_is_left_to_tiktoken(text: str) -> None:
    counted = VOCABULARY.count(text)
    assert counted == (by_tiktoken(text) if is_ordinary(text) else None)


def test_the_documents_of_this_project_are_counted_alike() -> None:
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = path.read_text()[:LONGEST_TEXT]
        assert VOCABULARY.count(text) in (by_tiktoken(text), None), path


async def test_what_it_does_not_know_is_counted_all_the_same() -> None:
    own = Meter()
    await own.ready()
    for text in ("你好，世界", "ありがとう", "a" * (LONGEST_PIECE + 1), "x " * LONGEST_TEXT):
        assert VOCABULARY.count(text) is None
        assert own.count(text) == await own.text(text)
        if len(text) < LONGEST_TEXT:
            assert own.count(text) == by_tiktoken(text)
    said = "What did we say about the plan for this week?"
    assert own.clip(said, 100) == said
    assert own.count(own.clip(said, 5)) == 5


HUGE = ("x", "what we said, ", "a\n", "\n", "明天中午", "\N{GRINNING FACE}é", '{"a":1.5},')


@pytest.mark.parametrize("piece", HUGE)
@pytest.mark.parametrize("tokens", [1, 100, 5_000])
async def test_of_a_huge_text_no_more_is_looked_at_than_is_kept(piece: str, tokens: int) -> None:
    own = Meter()
    await own.ready()
    text = Looked(piece * (2_000_000 // len(piece)))
    kept = await own.clip_aside(text, tokens)
    assert text.startswith(kept)
    assert text.looked <= 2 * len(kept) + 2 * LONGEST_TEXT
    longer = str(text)[: len(kept) + 1]
    assert own.count(kept) <= tokens
    assert own.count(longer) >= tokens, "there is no longer one"


@given(st.text(max_size=60), st.integers(1, 40), st.integers(1, 3_000))
def test_what_is_kept_of_a_text_counts_as_much_as_is_allowed(
    piece: str, times: int, tokens: int
) -> None:
    own, text = Meter(), piece * times
    asyncio.run(own.ready())
    kept = own.clip(text, tokens)
    assert text.startswith(kept)
    if kept == text:
        assert own.count(text) <= tokens
    else:
        assert own.count(text) > tokens


def test_a_file_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    part = tmp_path / "part.table"
    for cut in (8, 1_000, 1_500_000, -1):
        part.write_bytes(FILE.read_bytes()[:cut])
        with pytest.raises(ValueError, match=r"not whole|not a table|buffer"):
            TokenTable(part)


@pytest.mark.usefixtures("processes")
def test_ordinary_text_needs_no_tiktoken() -> None:
    code = """
import asyncio, sys
from memory.context.meter import Meter
async def main():
    meter = Meter()
    await meter.ready()
    assert await meter.text("Good morning — how are you? 🙂 Größe, вчера") > 5
    assert "tiktoken" not in sys.modules
    assert await meter.text("你好") > 0
    assert "tiktoken" in sys.modules
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
