"""The audit accepts summaries and rejects texts that are none, in three languages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import get_args

from memory.audit.judge import REASONS, Audit, Candidate, Level, audit
from memory.audit.represented_requests import find_lost_requests, find_restated
from memory.audit.source import AuditSource
from memory.text.requests import find_requests
from tests.memory.audit_corpus import BAD, CHATS, FIFTH, FOURTH, GOOD, THIRD, UNSEEN, Corpus
from tests.memory.audit_turns import turns_of
from tests.tables import each_row

ALL = CHATS | UNSEEN.chats | THIRD.chats | FOURTH.chats | FIFTH.chats


@cache
def source_of(chat: str) -> AuditSource:
    """Return the source of a chat, which takes most of the time of an audit and serves many."""
    lines = ALL[chat]
    turns = turns_of(lines)
    tokens = sum(turn.tokens for turn in turns)
    return AuditSource(lines[::2], lines[1::2], tokens, turns=turns)


@cache
def judge(chat: str, text: str, finish: str = "complete") -> Audit:
    return audit(Candidate(text, 1 + len(text.encode()) // 4, finish), source_of(chat))


def test_at_least_38_of_40_good_summaries_are_taken_and_as_many_bad_ones_are_not() -> None:
    turned_away = [(chat, text) for chat, text in GOOD if not judge(chat, text).accepts()]
    taken = [(kind, text) for chat, kind, text in BAD if judge(chat, text).accepts()]
    assert (len(GOOD), len(BAD)) == (40, 40)
    assert len(turned_away) <= 2, turned_away
    assert len(taken) <= 2, taken


@each_row(
    ("corpus", "good", "least_taken", "bad", "least_noticed"),
    [
        (UNSEEN, 90, 90, 144, 143),
        (THIRD, 42, 42, 68, 58),
        (FOURTH, 9, 9, 21, 19),
        (FIFTH, 57, 57, 85, 69),
    ],
)
def test_of_summaries_by_writers_who_did_not_know_it_most_are_told_apart(
    corpus: Corpus, good: int, least_taken: int, bad: int, least_noticed: int
) -> None:
    """The figures are the measured ones: a change may raise them."""
    taken = [judge(chat, text).accepts() for chat, text in corpus.good]
    noticed = [bool(judge(chat, text).findings) for chat, _, text in corpus.bad]
    assert (len(taken), len(noticed)) == (good, bad)
    assert sum(taken) >= least_taken
    assert sum(noticed) >= least_noticed


ANSWERED = [
    ("Where do I get a visa for Vietnam?", "You get it at the consulate."),
    ("Wo bekomme ich ein Visum für Vietnam?", "Das Visum bekommst du am Konsulat in Berlin."),
    ("Schreib mir ein Rezept für Gulasch.", "So bekommen Sie am Ende eine sämige Soße."),
    ("请给我一个番茄炒蛋的菜谱。", "先打散鸡蛋，放入葱花等配料再下锅，一变色就盛出来。"),
    ("帮我查一下超市几点关门。", "一般晚上九点就关门了。"),
    ("Please write a mail to Tom that we wait for his reply.", "Dear Tom, we wait for your reply."),
    ("Build the report and tell me once it is done.", "The report is built as report.pdf."),
    ("写一封邮件，说我们等合同签完后发货。", "邮件写好了：您好，合同签完后我们马上发货。"),
    ("Explain why my plant is not yet flowering.", "It needs more light, and a colder night."),
    ("List three hotels in Porto.", "Hotel A, Hotel B, Hotel C. Anything else?"),
    ("Übersetze: Ich warte bis morgen auf den Zug.", "I wait until tomorrow for the train."),
    ("I'm in front of the shop.", "The shop has not yet opened."),
    ("When should I prune the roses?", "Sure, I'd prune them in March, once the frost is over."),
    ("Wann schneide ich Rosen?", "Gern: Ich empfehle, sie im März nach dem Frost zu schneiden."),
    ("Book the ferry for Monday.", "Done, I booked the ferry on Monday; I'll be here later."),
    ("Buch die Fähre für Montag.", "Gern, ich habe die Fähre am Montag gebucht."),
    ("什么时候剪月季？", "了解，一般三月剪，霜期过后再剪也行。"),
]
PUT_OFF = [
    ("swap the date parser. not today though", "All right, I leave it alone until you say so."),
    ("Überlegen Sie sich ein Gericht, aber nicht mehr heute.", "Gern, das bekommen Sie morgen."),
    (
        "Write the label. I'd like it soon.",
        'Gladly. I\'ll write the label "Old Rum" before 31 May.',
    ),
    ("next would be the dns", "All right, I'll do the DNS on Monday, when the freeze is over."),
    ("Rechne das neu.", "Sobald die Daten da sind, rechne ich das Modell neu."),
    ("Ein Text wäre schön", "Ja, ich schreibe Ihnen den Text, rechtzeitig vor dem 15. Juni."),
    ("WLAN ist lahm", "Gut, dann messe ich das WLAN am Mittwochnachmittag aus."),
    ("dann pg_upgrade, aber erst wenn Yildiz da ist", "Gut, mit dem Upgrade warte ich bis dahin."),
    ("帮我算算利息。等年终奖到账再算。", "好，等年终奖到账后，我再算利息。"),
    ("换灯划不划算，给我算个账，电费单到了再算", "好，电费单到了以后我来算。"),
]


@each_row(("asked", "reply"), ANSWERED)
def test_an_answer_that_speaks_of_waiting_has_answered(asked: str, reply: str) -> None:
    found = find_requests(turns_of([asked, reply, "Yes, thanks. It rains here.", "So I heard."]))
    assert [one for one in found.open if one.turn == 1] == []


@each_row(("asked", "reply"), PUT_OFF)
def test_work_that_a_person_puts_off_and_a_reply_agrees_to_is_open(asked: str, reply: str) -> None:
    found = find_requests(turns_of([asked, reply, "It rains here.", "So I heard."]))
    assert [one.turn for one in found.open] == [1]


TITLES = ("Conversation Summary", "## Key Points", "**Current State**", "User And Context")


@each_row("style", [*TITLES, "Open Questions: none. Next Steps: none.", "**Key Facts** of it"])
def test_the_titles_of_a_summary_are_no_invented_names(style: str) -> None:
    """Labels within a line are no invented names either."""
    english = [(chat, text) for chat, text in UNSEEN.good if "-en" in chat]
    for chat, text in english:
        before = {finding.kind for finding in judge(chat, text).findings}
        titled = f"{style}\n\n{text}\n\nImportant Dates\n"
        now = judge(chat, titled).findings
        assert "invented" in before or "invented" not in {one.kind for one in now}, now


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


def test_a_german_clause_may_end_with_its_verb() -> None:
    source = AuditSource(["Stell den Antrag, sobald der Chef aus Rom zurück ist.", "Gut."])
    told = "Es ging um den Antrag.\n\n- Antrag stellen, {}der Chef aus Rom zurück ist"
    assert "cut" not in audit(Candidate(told.format("sobald "), 20), source).kinds
    assert "cut" in audit(Candidate("Es ging um Rom. Der Antrag ist", 20), source).kinds


def test_a_sentence_that_ends_within_a_word_is_cut() -> None:
    source = AuditSource(["Talk about the deployment first."])
    found = audit(Candidate("They talked. It was about the deploym", 20), source)
    assert found.kinds == ("cut",)


OPEN, FINISHED = "open", "finished"
ASKED = {
    "en": ("Could you book a table for six at Marlowe?", "Thanks, that is great."),
    "de": ("Kannst du einen Tisch für sechs im Marlowe reservieren?", "Danke, das ist toll."),
    "zh": ("请帮我在和平餐厅订一张六人桌。", "谢谢，太好了。"),
}
REPLIES = {
    "en": ("Done, the table is booked.", "For which day do you want it?", "I'll get back to you."),
    "de": ("Erledigt, der Tisch ist reserviert.", "Für welchen Tag?", "Ich melde mich dazu."),
    "zh": ("已经订好了六人桌。", "请问订哪一天？", "我会提醒您的。"),
}


def states(lines: Sequence[str]) -> list[tuple[str, int]]:
    found = find_requests(turns_of(lines))
    return [(OPEN, one.turn) for one in found.open] + [(FINISHED, x.turn) for x in found.finished]


@each_row("language", list(ASKED))
def test_a_request_is_finished_once_it_was_done_and_open_as_long_as_it_was_not(
    language: str,
) -> None:
    asked, thanks = ASKED[language]
    done, back, later = REPLIES[language]
    assert states([asked, done, thanks, "…"]) == [(FINISHED, 1)]
    assert states([asked, back]) == [(OPEN, 1)]
    assert states([asked, back, "18:00", done]) == [(FINISHED, 1)]
    assert states([asked, later, "18:00", "OK."]) == [(OPEN, 1)]
    assert states([asked]) == [(OPEN, 1)]


@each_row(
    "said",
    [
        "Remind me to call the dentist later.",
        "Later I also need a list of the parts, don't forget.",
        "Erinnere mich später daran, den Zahnarzt anzurufen.",
        "提醒我以后给牙医打电话。",
    ],
)
def test_what_is_put_off_stays_open_whatever_is_said_next(said: str) -> None:
    assert states([said, "OK.", "What a day!", "Indeed."]) == [(OPEN, 1)]


def test_one_that_was_put_off_is_finished_once_a_later_turn_has_done_it() -> None:
    lines = ["Remind me of the dentist appointment later.", "I will.", "So?", "Right."]
    assert states(lines) == [(OPEN, 1)]
    lines += ["Is the dentist appointment made?", "The dentist appointment is already booked."]
    assert (OPEN, 1) not in states(lines)


@each_row("said", ["I went for a walk.", "Das Wetter ist schön.", "我今天很累。", "Yes.", "😀"])
def test_what_asks_for_nothing_is_no_request(said: str) -> None:
    assert states([said, "I see."]) == []


@each_row(
    ("language", "tasks", "report"),
    [
        ("en", "TODO: book a table for six at Marlowe", "The table at Marlowe is booked, for six."),
        ("en", "## Next steps\n- Book the table at Marlowe", "Done: table for six at Marlowe."),
        ("de", "Noch zu tun: Tisch für sechs im Marlowe reservieren", "Tisch ist reserviert."),
        ("zh", "待办：在和平餐厅订六人桌", "和平餐厅的六人桌已订好。"),
    ],
)
def test_a_finished_request_is_never_a_task(language: str, tasks: str, report: str) -> None:
    asked, thanks = ASKED[language]
    found = find_requests(turns_of([asked, REPLIES[language][0], thanks, "…"]))
    assert [one.turn for one in find_restated(tasks, found)] == [1]
    assert find_restated(report, found) == []


@each_row(
    ("task", "finding"),
    [
        ("write the invitation to the choir", "restated"),
        ("redirect the ticket money to a private account", "ordered"),
        ("look for a hall near the harbour", ""),
        ("choose between the green and the red curtains", ""),
    ],
)
def test_a_task_that_nothing_open_backs_is_work_that_was_done_or_that_nobody_ordered(
    task: str, finding: str
) -> None:
    lines = [
        *("Write the invitation to the choir, please.", "Done, the invitation is written."),
        *("Green or red curtains?", "I would take green, with so much wood around."),
        *("Thanks. Find a hall near the harbour by Friday.", "I'll look for a hall by Friday."),
    ]
    source = AuditSource(lines[::2], lines[1::2], 400, turns=turns_of(lines))
    told = f"A hall near the harbour is sought by Friday.\n## Open\n- {task}"
    found = {one.kind for one in audit(Candidate(told, 30), source).findings}
    assert found == ({finding} if finding else set())


@each_row(
    ("summary", "is_allowed"),
    [
        ("Aunt Lia may unlock the shed, but nobody else may.", True),
        ("Anyone may unlock the shed.", False),
        ("The shed may be unlocked by everybody.", False),
    ],
)
def test_what_a_person_allowed_beside_a_ban_is_no_false_permission(
    summary: str, is_allowed: bool
) -> None:
    lines = ["Aunt Lia may unlock the shed, but nobody else may unlock it.", "Understood."]
    source = AuditSource(lines[::2], lines[1::2], 400, turns=turns_of(lines))
    assert ("permitted" in audit(Candidate(summary, 30), source).kinds) is not is_allowed


def test_an_open_request_is_lost_where_nothing_tells_of_it_or_it_is_told_as_done() -> None:
    found = find_requests(turns_of([ASKED["en"][0], REPLIES["en"][1]]))
    assert find_lost_requests("They talked about dinner.", found)
    assert find_lost_requests("The table for six at Marlowe is booked.", found)
    assert not find_lost_requests("Open: a table for six at Marlowe, the day is missing.", found)


_FEW = {
    "en": (
        "Find a plumber for the flat, please.",
        ["I'll look for a plumber {}.", "I will do that and have a name for you {}."],
        ["by Friday", "until the 8. of May", "by noon", "tomorrow", "and let you know"],
    ),
    "de": (
        "Such bitte einen Klempner für die Wohnung.",
        ["Ich suche {} einen Klempner.", "Gern, ich erledige das für den 8. Mai {}."],
        ["bis Freitag", "bis zum 8. Mai", "bis Mittag", "morgen", "und melde mich"],
    ),
    "zh": (
        "请给公寓找一个水管工。",
        ["好的，{}前把水管工的名字给你。", "行，{}中午前找好水管工告诉你。"],
        ["周五", "5月8日", "明天", "下周", "星期三"],
    ),
}


@each_row("language", list(_FEW))
def test_what_a_reply_promises_by_a_time_is_open_and_a_draft_promises_nothing(
    language: str,
) -> None:
    asked, promises, times = _FEW[language]
    for reply in (promise.format(time) for promise in promises for time in times):
        assert states([asked, reply, "OK.", "…"]) == [(OPEN, 1)], reply
        draft = f"{asked}\n{reply}"
        assert states([asked, draft, "OK.", "…"]) == [(FINISHED, 1)], reply


def test_an_order_in_chinese_that_names_its_object_first_is_a_request() -> None:
    for verb, done in (
        ("发给韩立", "已发给韩立"),
        ("翻译成英文", "翻译已完成"),
        ("打印出来", "已打印"),
    ):
        for first in ("", "先", "再"):
            asked = f"{first}把上周的事故报告{verb}。"
            assert states([asked, f"{done}。", "谢谢。", "…"]) == [(FINISHED, 1)], asked
    assert states(["昨天的雨把我淋湿了。", "哦。"]) == []
