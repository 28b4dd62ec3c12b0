"""The audit tells summaries from what is none, in three languages."""

from __future__ import annotations

from typing import get_args

from memory.context.audit import REASONS, Audit, AuditSource, Candidate, Level, audit
from tests.memory.audit_corpus import BAD, CHATS, GOOD
from tests.memory.audit_turns import turns_of
from tests.tables import each_row


def judge(chat: str, text: str, finish: str = "complete") -> Audit:
    lines = CHATS[chat]
    turns = turns_of(lines)
    source = AuditSource(
        lines[::2],
        lines[1::2],
        sum(turn.tokens for turn in turns),
        turns=turns,
    )
    return audit(Candidate(text, 1 + len(text.encode()) // 4, finish), source)


def test_at_least_38_of_40_good_summaries_are_taken_and_as_many_bad_ones_are_not() -> None:
    turned_away = [(chat, text) for chat, text in GOOD if not judge(chat, text).accepts()]
    taken = [(kind, text) for chat, kind, text in BAD if judge(chat, text).accepts()]
    assert (len(GOOD), len(BAD)) == (40, 40)
    assert len(turned_away) <= 2, turned_away
    assert len(taken) <= 2, taken


@each_row("finish", ["length", "filtered", "refused", "interrupted", "unknown"])
def test_a_summary_that_did_not_end_by_itself_is_none(finish: str) -> None:
    chat, text = GOOD[0]
    assert judge(chat, text, finish).kinds == ("cut",)
    assert judge(chat, text, finish).accepts("warn")


def test_what_is_always_turned_away_is_so_at_every_level() -> None:
    kinds = {kind: judge(chat, text) for chat, kind, text in BAD}
    for level in get_args(Level):
        assert not judge("trip", " \n").accepts(level)
        assert not kinds["a refusal"].accepts(level)
        assert not kinds["a tool call"].accepts(level)
    assert kinds["in English for a German chat"].accepts("warn")
    assert kinds["in English for a German chat"].accepts("off")


def test_each_finding_has_a_reason_for_people() -> None:
    found = {kind for chat, _kind, text in BAD for kind in judge(chat, text).kinds}
    assert found <= set(REASONS)


@each_row(
    ("said", "summary"),
    [
        ("请处理数据分析部分，然后写报告。", "用户要求处理数据。\n- 下一步：数据分析"),
        ("清水寺の近くのホテルを予約して。", "旅行の計画です。宿は清水寺の近くのホテ"),
        ("Talk about the deployment first.", "They talked. Much is open.\nNext step: deploy"),
        ("Talk about the deployment first.", "They talked. Much is open.\n- deploy"),
        ("Wie lang ist die Kündigungsfrist?", "Es ging um Fristen. Er fragte.\nOffen: Kündigung"),
    ],
)
def test_an_item_and_a_word_of_chinese_may_begin_one_that_was_said(said: str, summary: str) -> None:
    assert "cut" not in audit(Candidate(summary, 20), AuditSource([said])).kinds


def test_a_sentence_that_ends_within_a_word_is_cut() -> None:
    source = AuditSource(["Talk about the deployment first."])
    found = audit(Candidate("They talked. It was about the deploym", 20), source)
    assert found.kinds == ("cut",)
