"""`trim`, with its exact numbers (CowAgent), and its promises."""

from __future__ import annotations

import asyncio
import re

import pytest

from memory.context.emergency import RequestTooLong
from memory.context.forecast import forecast
from memory.context.view import View
from memory.messages import Message
from memory.request_fitter import Overflow
from tests.memory.harness import MemoryHarness, texts


def numbers(view: View) -> list[int]:
    return [turn.number for turn in view.turns]


async def test_of_21_turns_t1_to_t10_leave(harness: MemoryHarness) -> None:
    for count in range(20):
        (view,) = await harness.says(f"question {count}")
        assert len(view.turns) == count + 1
    (view,) = await harness.says("question 21")
    assert numbers(view) == list(range(11, 22))
    (event,) = (await (await harness.conversation()).context.history())[:1]
    assert event.leaving == tuple(range(1, 11))
    assert event.reason == "21 turns were over the limit of 20"
    assert event.tokens_after < event.tokens_before


async def test_without_a_limit_of_turns_compaction_goes_by_tokens_only(
    harness: MemoryHarness,
) -> None:
    harness.limit(max_turns=0, max_tokens=5_000)
    for count in range(40):
        (view,) = await harness.says(f"question {count}")
    assert len(view.turns) == 40
    assert harness.limits.nearest(4_000, 900) == ("tokens", 0.8)
    (view,) = await harness.says("word " * 4_500)
    assert len(view.turns) < 40


async def test_a_summary_that_was_prepared_enters_the_very_request_of_the_cut(
    harness: MemoryHarness,
) -> None:
    for count in range(20):
        await harness.says(f"question {count}")
    await harness.settle()
    assert len(harness.summarizer.requests) == 1
    (view,) = await harness.says("question 21")
    assert "They talked." in texts(view)[0]
    assert texts(view)[0].endswith("question 10")
    await harness.settle()
    assert len(harness.summarizer.requests) == 1, "one summary for one cut"


async def test_a_summary_that_comes_late_is_injected_from_the_next_turn_on(
    harness: MemoryHarness,
) -> None:
    harness.summarizer.gate = asyncio.Event()
    for count in range(20):
        await harness.says(f"question {count}")
    first, second = await harness.says("question 21", ["a result"])
    assert texts(first)[0] == texts(second)[0] == "question 10"
    harness.summarizer.gate.set()
    await harness.settle()
    (view,) = await harness.says("question 22")
    assert "They talked." in texts(view)[0]
    assert len(harness.summarizer.requests) == 1


async def test_the_summary_is_in_the_daily_file_once_also_after_a_restart(
    harness: MemoryHarness,
) -> None:
    for count in range(21):
        await harness.says(f"question {count}")
    await harness.settle()
    await harness.restart()
    await harness.settle()
    (file,) = (harness.folder / "audiences" / "pipe-main" / "memory").glob("*.md")
    text = file.read_text()
    assert text.count("They talked.") == 1
    assert "pipe/main · t1 to t10" in text
    (view,) = await harness.says("question 22")
    assert "They talked." in texts(view)[0], "the injection survives the restart"


async def test_the_next_summary_continues_the_one_before(harness: MemoryHarness) -> None:
    harness.limit(max_turns=4)
    harness.summarizer.answer = lambda request: f"S{len(harness.summarizer.requests)}."
    for count in range(12):
        await harness.says(f"question {count}")
        await harness.settle()
    later = harness.summarizer.requests[1:]
    assert later, "there were several cuts"
    for index, request in enumerate(later, 1):
        assert f"S{index}." in request.text


async def test_a_summary_that_a_crash_cut_short_continues_the_edited_one(
    harness: MemoryHarness,
) -> None:
    for count in range(3):
        await harness.says(f"question {count} " + "word " * 20)
    conversation = await harness.conversation()
    await conversation.compactor.compact_for_person()
    await conversation.summary.edit("My own words.")
    for count in range(6):
        await harness.says(f"question {count}")
    harness.summarizer.gate = asyncio.Event()
    await conversation.compactor.free()
    await harness.close()
    harness.summarizer.gate = None
    before = len(harness.summarizer.requests)
    await harness.open()
    await harness.settle()
    (request,) = harness.summarizer.requests[before:]
    assert "My own words." in request.text
    assert "They talked." not in request.text


async def test_two_limits_in_one_pass_make_one_event_and_one_summary(
    harness: MemoryHarness,
) -> None:
    for count in range(20):
        await harness.says("word " * 300 + str(count))
    await harness.settle()
    harness.limit(max_tokens=2_000)
    before = len(await (await harness.conversation()).context.history())
    (view,) = await harness.says("question 21")
    await harness.settle()
    assert view.tokens <= 2_000
    events = (await (await harness.conversation()).context.history())[before:]
    assert [event.name for event in events] == ["compact"]
    assert "turns were over" in events[0].reason
    assert "tokens were over" in events[0].reason


async def test_a_conversation_of_equal_messages_is_summarised_like_any_other(
    harness: MemoryHarness,
) -> None:
    harness.limit(max_turns=12)
    for _ in range(13):
        await harness.says("yes", reply="yes")
    await harness.settle()
    assert harness.summarizer.requests[0].text.count("yes") == 12


@pytest.mark.parametrize(("length", "is_clipped"), [(20_000, False), (20_001, True)])
async def test_a_long_result_is_clipped_once_its_turn_is_over(
    harness: MemoryHarness, length: int, is_clipped: bool
) -> None:
    result = "a" * 100 + "b" * (length - 200) + "c" * 100
    _, during = await harness.says("look", [result])
    assert result in texts(during), "the fresh result is whole"
    (after,) = await harness.says("and?")
    shown = texts(after)[2]
    if is_clipped:
        assert shown.startswith("a" * 100)
        assert shown.endswith("c" * 100)
        assert "[… 1 characters left out here …]" in shown
        assert len(shown) < 20_100
    else:
        assert shown == result


async def test_few_turns_over_the_budget_are_squeezed_to_question_and_reply(
    harness: MemoryHarness,
) -> None:
    for count in range(3):
        await harness.says(f"question {count}", ["word " * 700], reply=f"reply {count}")
    harness.limit(max_tokens=2_000)
    (view,) = await harness.says("question 3")
    assert texts(view) == [
        "question 0", "reply 0", "question 1", "reply 1", "question 2", "reply 2", "question 3",
    ]  # fmt: skip
    assert not harness.summarizer.requests, "no turn has left, so nothing is summarised"


async def test_a_squeeze_that_frees_too_little_is_followed_by_a_cut(harness: MemoryHarness) -> None:
    harness.limit(max_tokens=2_000)
    for count in range(4):
        await harness.says(f"question {count} " + "word " * 700, ["tiny"])
    (view,) = await harness.says("question 4")
    assert view.tokens <= 2_000
    assert numbers(view)[0] > 1


async def test_five_or_more_turns_over_the_budget_lose_their_first_half(
    harness: MemoryHarness,
) -> None:
    for count in range(6):
        await harness.says(f"question {count} " + "word " * 300)
    harness.limit(max_tokens=1_500)
    (view,) = await harness.says("question 6")
    assert numbers(view) == [4, 5, 6, 7]


async def test_fewer_than_five_turns_that_a_halving_left_are_squeezed(
    harness: MemoryHarness,
) -> None:
    for count in range(1, 7):
        await harness.says(f"question {count}", ["word " * 700], reply=f"reply {count}")
    harness.limit(max_tokens=2_000)
    (view,) = await harness.says("and now?")
    assert texts(view) == [
        "question 4", "reply 4", "question 5", "reply 5", "question 6", "reply 6", "and now?",
    ]  # fmt: skip


async def test_a_lower_limit_holds_from_the_next_step_on_in_the_turn_that_runs(
    harness: MemoryHarness,
) -> None:
    for count in range(10):
        await harness.says(f"question {count}")
    conversation = await harness.conversation()
    turn = await conversation.turns.open("question 10")
    assert len((await turn.fit(harness.frame)).turns) == 11
    harness.limit(max_turns=4)
    assert len((await turn.fit(harness.frame)).turns) <= 4
    await turn.record(Message("assistant", "done"))


async def test_pinned_turns_stay(harness: MemoryHarness) -> None:
    await harness.says("my name is Ann")
    await (await harness.conversation()).editor.pin({1})
    harness.limit(max_turns=6)
    for count in range(20):
        (view,) = await harness.says(f"question {count}")
        assert numbers(view)[0] == 1
    await (await harness.conversation()).editor.unpin({1})
    for count in range(6):
        (view,) = await harness.says(f"question {count}")
    assert numbers(view)[0] > 1


async def test_the_forecast_names_the_cut_that_then_comes(harness: MemoryHarness) -> None:
    for count in range(15):
        await harness.says(f"question {count}")
    conversation = await harness.conversation()
    near = forecast(conversation.context.view(), harness.limits)
    assert near is not None
    assert near.now.current == 21
    left = [turn.tokens for turn in near.now.turns if turn.number in near.removed]
    assert near.freed == sum(left) > 0
    assert forecast(conversation.context.view(), harness.limits, within=6) == near
    assert forecast(conversation.context.view(), harness.limits, within=5) is None
    for count in range(6):
        await harness.says(f"question {count}")
    assert (await conversation.context.history())[0].leaving == near.plans[0].leaving


async def test_a_clear_leaves_no_summary_waiting_that_is_there(harness: MemoryHarness) -> None:
    for count in range(4):
        await harness.says(f"question {count}")
    conversation = await harness.conversation()
    await conversation.compactor.compact_for_person()
    await conversation.editor.clear()
    await harness.settle()
    assert (await conversation.memory.status()).pending == 0


async def test_a_clear_takes_nothing_out_of_the_daily_memory(harness: MemoryHarness) -> None:
    for count in range(4):
        await harness.says(f"question {count}")
    conversation = await harness.conversation()
    await conversation.compactor.compact_for_person()
    await harness.settle()
    await conversation.editor.clear()
    status = await conversation.memory.status()
    assert (len(status.days), status.pending) == (1, 0)


async def test_undo_brings_everything_back_and_holds_the_next_cut_off(
    harness: MemoryHarness,
) -> None:
    for count in range(20):
        await harness.says(f"question {count}")
    conversation = await harness.conversation()
    await harness.says("question 20")
    assert len(conversation.context.view().turns) == 11
    before = conversation.context.view().to_wire(harness.frame)
    assert await conversation.editor.undo() is not None
    assert await conversation.editor.redo() is not None
    assert conversation.context.view().to_wire(harness.frame) == before
    assert await conversation.editor.redo() is None
    assert await conversation.editor.undo() is not None
    assert len(conversation.context.view().turns) == 21
    for count in range(4):
        (view,) = await harness.says(f"later {count}")
        assert len(view.turns) == 22 + count, "no automatic cut for five turns"
    (view,) = await harness.says("later 4")
    assert len(view.turns) < 20


async def test_clear_forgets_the_summary_too_and_undo_brings_both_back(
    harness: MemoryHarness,
) -> None:
    for count in range(21):
        await harness.says(f"question {count}")
    await harness.settle()
    await harness.says("question 21")
    conversation = await harness.conversation()
    before = conversation.context.view().to_wire(harness.frame)
    cleared = await conversation.editor.clear()
    assert cleared.turns == tuple(range(11, 23))
    (view,) = await harness.says("fresh")
    assert texts(view) == ["fresh"]
    await harness.restart()
    conversation = await harness.conversation()
    assert numbers(conversation.context.view()) == [23], "the clear survives a restart"
    await conversation.editor.undo()
    assert conversation.context.view().to_wire(harness.frame)[: len(before)] == before


async def test_a_summary_that_arrives_after_a_clear_is_not_injected(harness: MemoryHarness) -> None:
    harness.summarizer.gate = asyncio.Event()
    for count in range(21):
        await harness.says(f"question {count}")
    conversation = await harness.conversation()
    await conversation.editor.clear()
    harness.summarizer.gate.set()
    await harness.settle()
    (view,) = await harness.says("fresh")
    assert texts(view) == ["fresh"]


@pytest.mark.parametrize("text", ["", "word " * 5_000], ids=["empty", "longer than the text"])
async def test_an_extract_serves_where_the_model_gives_no_good_summary(
    harness: MemoryHarness, text: str
) -> None:
    harness.summarizer.answer = lambda request: text
    for count in range(21):
        await harness.says(f"question {count}")
    await harness.settle()
    (view,) = await harness.says("question 21")
    assert "- t1: question 0 → Yes." in texts(view)[0]


@pytest.mark.parametrize(("max_turns", "restored"), [(20, 3), (30, 5)])
async def test_a_restart_restores_the_last_turns_as_text_and_can_be_undone(
    harness: MemoryHarness, max_turns: int, restored: int
) -> None:
    """CowAgent's formula: a sixth of the limit, at least three."""
    harness.limit(max_turns=max_turns)
    for count in range(10):
        await harness.says(f"question {count}", ["a result"])
    before = (await harness.conversation()).context.view().to_wire(harness.frame)
    harness.restores_exactly = False
    await harness.restart()
    conversation = await harness.conversation()
    assert texts(conversation.context.view()) == [
        text for count in range(10 - restored, 10) for text in (f"question {count}", "Yes.")
    ]
    await harness.settle()
    await conversation.editor.undo()
    assert conversation.context.view().to_wire(harness.frame) == before


async def test_a_result_over_its_limit_is_cut_on_arrival_word_for_word(
    harness: MemoryHarness,
) -> None:
    harness.limit(tool_result_limit=200)
    _, view = await harness.says("look", ["word " * 1_000])
    shown = texts(view)[2]
    assert shown.endswith(
        "\n<<<TRUNCATED>>>\n<system-reminder>The remaining content has been omitted for limited "
        "context.</system-reminder>"
    )
    assert view.turns[0].entries[-1].tokens <= 210
    (turn,) = await (await harness.conversation()).context.turns([1])
    assert turn.entries[2].message.text == "word " * 1_000, "the transcript has all of it"


@pytest.mark.parametrize("length", [200, 201])
async def test_a_result_of_exactly_the_limit_is_not_cut(
    harness: MemoryHarness, length: int
) -> None:
    harness.limit(tool_result_limit=200)
    _, view = await harness.says("look", [" word" * length])  # one token each
    assert (texts(view)[2] == " word" * length) == (length == 200)


async def test_a_message_of_200_kilobytes_is_clipped_when_nothing_else_makes_it_fit(
    harness: MemoryHarness,
) -> None:
    harness.limit(window=16_000)
    for count in range(3):
        await harness.says(f"question {count}")
    (view,) = await harness.says("start " + "word " * 40_000 + "end")
    assert 0.9 * harness.limits.ceiling < view.tokens <= harness.limits.ceiling
    assert texts(view)[-1].startswith("start ")
    assert texts(view)[-1].endswith("end")
    assert "characters left out here" in texts(view)[-1]
    assert numbers(view) == [1, 2, 3, 4], "nothing else left for it"


async def test_such_a_clip_may_leave_the_beginning_alone_and_a_restart_keeps_it(
    harness: MemoryHarness,
) -> None:
    harness.limit(window=16_000, snip_oversized=False)
    (view,) = await harness.says("start " + "word " * 40_000 + "end")
    assert view.tokens <= harness.limits.ceiling
    assert texts(view)[-1].startswith("start ")
    assert texts(view)[-1].endswith("characters left out here …]")
    await harness.restart()
    again = (await harness.conversation()).context.view()
    assert texts(again)[0] == texts(view)[-1]


async def test_without_clips_the_person_is_told_that_a_message_does_not_fit(
    harness: MemoryHarness,
) -> None:
    harness.limit(window=16_000, truncate_oversized=False)
    for count in range(3):
        await harness.says(f"question {count}")
    turn = await (await harness.conversation()).turns.open("word " * 40_000)
    with pytest.raises(RequestTooLong, match=r"The model's window of 16,000 tokens is too small"):
        await turn.fit(harness.frame)
    await turn.record(Message("assistant", "It does not fit."))


async def test_an_overflow_step_by_step_keeps_the_tool_chain_of_the_running_turn(
    harness: MemoryHarness,
) -> None:
    for count in range(10):
        await harness.says(f"question {count} " + "word " * 200)
    conversation = await harness.conversation()
    turn = await conversation.turns.open("question 10")
    view = await turn.fit(harness.frame)
    sizes = [len(view.turns)]
    while await turn.shrink_request(view, harness.frame, Overflow(4_000)):
        view = await turn.fit(harness.frame)
        sizes.append(len(view.turns))
        assert texts(view)[-1] == "question 10"
    assert sizes[0] == 11
    assert sizes[-1] == 1
    assert sorted(sizes, reverse=True) == sizes
    await turn.record(Message("assistant", "done"))
    events = [event for event in await conversation.context.history() if event.actor == "emergency"]
    assert {event.reason for event in events} == {"context_overflow"}


async def test_a_summary_whose_file_could_not_be_written_is_written_with_the_next(
    harness: MemoryHarness,
) -> None:
    """No second summary is paid for, and each section is written once, in order."""
    blocked = harness.folder / "audiences" / "pipe-main" / "memory"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("A file stands where the folder should be.")
    harness.limit(max_turns=4)
    for number in range(7):
        await harness.says(f"Question {number}.")
    await harness.settle()
    assert harness.summarizer.requests
    blocked.unlink()
    for number in range(7, 12):
        await harness.says(f"Question {number}.")
    await harness.settle()
    (file,) = blocked.glob("*.md")
    jobs = [int(job) for job in re.findall(r"<!-- end (\d+) -->", file.read_text())]
    assert jobs == [1, 2, 3, 4]
    assert len(harness.summarizer.requests) <= len(jobs) + 1, "one may be written ahead"
