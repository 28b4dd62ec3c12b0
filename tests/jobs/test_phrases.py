"""A corpus of phrases that say when, in five languages (`phrases.toml`)."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.jobs.when import WhenError, read

GROUPS: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "phrases.toml").read_text(encoding="utf-8")
)["group"]


def understood(phrase: str, now: float, zone: ZoneInfo, expected: str) -> tuple[str, str]:
    """Return what was understood, written as in the corpus, and the text that is left."""
    try:
        found = read(re.sub(r"[|^]", "", phrase), now, zone)
    except WhenError:
        return "asks", ""
    when = f"{datetime.fromtimestamp(found.anchor, zone):%Y-%m-%d %H:%M}"
    if expected.startswith("in "):
        when = f"in {found.anchor - now:.0f} seconds"
    if found.rule:
        when = found.rule + (f" @ {when}" if found.rule.startswith("days") else "")
    is_span = re.match("in ", phrase) and not expected.startswith("~")
    mark = "~" if found.is_assumed and not is_span and not expected.startswith("in ") else ""
    return mark + when + (f" # {found.zone}" if found.zone else ""), found.rest


def test_every_phrase_of_the_corpus_means_what_it_should() -> None:
    wrong, count = [], 0
    for group in GROUPS:
        zone = ZoneInfo(group["zone"])
        now = datetime.fromisoformat(group["now"]).replace(tzinfo=zone).timestamp()
        for phrase, expected in group["phrases"]:
            count += 1
            got = understood(phrase, now, zone, expected)
            first, is_behind, _when = phrase.partition("^")
            text = first.strip() if is_behind else phrase.partition("|")[2]
            if got != (expected, text):
                wrong.append(f"{phrase}: {got}, not {expected}")
    assert wrong == []
    assert count >= 300


def test_fields_of_crontab_with_endless_numbers_are_refused_with_a_sentence() -> None:
    for fields in ("0-59/1 " + "1" * 5_000 + " * * *", "1," * 5_000 + "1 * * * *"):
        with pytest.raises(WhenError, match="too long"):
            read(f"cron {fields} x", 1.8e9, ZoneInfo("UTC"))


WORDS = (
    "tomorrow 9 9:00 at um in every monday und and 1930 pm am halb neun 明天 点 3点 半 每周一 三五 "
    "à 19h30 a las y media hour half 5-6 3/4 31.12. until EST , : - x"
)


@given(st.lists(st.sampled_from(WORDS.split()), max_size=12))
def test_no_mixture_of_words_breaks_the_reading_or_loses_a_text(
    words: list[str],
) -> None:
    text = " ".join((*words, "kitchen"))
    with suppress(WhenError):
        assert read(text, 1.8e9, ZoneInfo("Europe/Berlin")).rest.endswith("kitchen")
