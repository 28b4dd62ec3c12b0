"""A corpus of phrases that say when, in five languages (`phrases.toml`)."""

from __future__ import annotations

import re
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from plugins.when import WhenError, read

GROUPS: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "phrases.toml").read_text(encoding="utf-8")
)["group"]


def understood(phrase: str, now: float, zone: ZoneInfo, expected: str) -> tuple[str, str]:
    """What was understood, written as in the corpus, and the text that is left."""
    try:
        found = read(phrase.replace("|", ""), now, zone)
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
            if got != (expected, phrase.partition("|")[2]):
                wrong.append(f"{phrase}: {got}, not {expected}")
    assert wrong == []
    assert count >= 300
