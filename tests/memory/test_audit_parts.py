"""Summaries that include what a person excluded, or change a unit; and good ones in words that
the source does not use."""

from __future__ import annotations

import pytest

from memory.audit.judge import Candidate, audit
from memory.audit.source import AuditSource
from tests.memory.audit_turns import turns_of

CHAT = {
    "en": [
        "The dress rehearsal is on Thursday, without the orchestra. Response times are 350 ms.",
        "Noted: Thursday, without the orchestra; 350 ms.",
        "The landlord wants three rents as deposit in two instalments.",
        "Three rents in two instalments.",
    ],
    "de": [
        "Die Generalprobe ist am Donnerstag, ohne Orchester. Haustiere sind nicht erlaubt, außer "
        "Katzen. Den Anschluss habe ich schon umgemeldet, den Strom noch nicht.",
        "Notiert. Der Anschluss ist umgemeldet, der Strom steht noch aus.",
        "Herr Wieland ist einverstanden, sofern der Zaun nicht höher als zwei Meter wird. Der "
        "Vermieter verlangt drei Monatsmieten Kaution in zwei Raten.",
        "Verstanden, drei Monatsmieten in zwei Raten.",
    ],
    "zh": [
        "如果周六下雨，就让外婆去接，平时我自己接。",
        "好的，周六下雨外婆去接。",
        "数学老师是吴老师，班主任是周老师。",
        "记下了。",
    ],
}
WRONG = [
    ("en", "The dress rehearsal is on Thursday with the orchestra."),
    ("en", "Response times are 350 seconds."),
    ("de", "Die Generalprobe ist am Donnerstag mit Orchester."),
]
RIGHT = [
    ("en", "The dress rehearsal is on Thursday without the orchestra. Response times: 350 ms."),
    ("de", "Haustiere sind bis auf Katzen nicht erlaubt."),
    ("de", "Katzen sind erlaubt, andere Haustiere nicht."),
    ("de", "Der Anschluss ist umgemeldet, der Strom noch nicht."),
    ("de", "Herr Wieland ist einverstanden, solange der Zaun nicht höher als zwei Meter wird."),
    ("zh", "周六下雨由外婆接，平时用户自己接。班主任周老师，数学吴老师。"),
]


def _accepts(language: str, text: str) -> bool:
    lines = CHAT[language]
    source = AuditSource(lines[::2], lines[1::2], 1_000, turns=turns_of(lines))
    return audit(Candidate(text, 60), source).accepts()


@pytest.mark.parametrize(("language", "text"), WRONG)
def test_a_wrong_part_is_found(language: str, text: str) -> None:
    assert not _accepts(language, text)


@pytest.mark.parametrize(("language", "text"), RIGHT)
def test_the_same_in_other_words_is_accepted(language: str, text: str) -> None:
    assert _accepts(language, text)
