"""Sentences that ask for something which can be finished, and lasting orders."""

from __future__ import annotations

from memory.text.request_signs import asks
from tests.tables import each_row

TASKS = ["book the table", "send the report", "such den Zug heraus", "schick mir die Liste"]


@each_row("task", TASKS)
def test_an_order_from_now_on_is_no_request(task: str) -> None:
    for always in ("Never {}", "Always {}", "Please never {}", "From now on, {}", "{}, every time"):
        assert not asks(always.format(task)), always
    for always in ("{} niemals", "{} immer", "Ab sofort {}", "{} nie ohne Rückfrage"):
        assert not asks(always.format(task)), always


@each_row("task", TASKS)
def test_a_request_beside_a_complaint_is_one(task: str) -> None:
    for beside in (
        *("The printer never works, please {}", "{}, I never get a seat", "{} as always"),
        *("{} whenever you can", "Der Drucker streikt immer, also bitte {}", "{} wie immer"),
        *("Wir haben immer noch keinen Termin, bitte {}", "{} von heute", "{}"),
    ):
        assert asks(beside.format(task)), beside


@each_row("said", ["别再提她了", "以后请用中文回答", "请不要发给老板", "每次都提醒我带伞"])
def test_an_order_from_now_on_in_chinese_is_no_request(said: str) -> None:
    assert not asks(said)


@each_row("said", ["别忘了买牛奶", "打印机永远卡纸，请帮我叫人修", "请帮我订一张票"])
def test_a_request_in_chinese_is_one(said: str) -> None:
    assert asks(said)
