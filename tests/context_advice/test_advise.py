"""Tests of `/context advise`: each row of Digitorn's tuning table, and our own rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from agent.models.catalogue import long_context_of
from memory.context.change import Actor, Change, ViewEvent
from memory.context.cut_cost import InputPrice
from memory.context.forms import SUMMARY, assign_form
from memory.context.settings import Limits
from memory.ledger import Bill
from plugins.builtin.context.cost import Cache, SoftLimit
from plugins.context_advice.facts import Facts, Results
from plugins.context_advice.feature import as_text
from plugins.context_advice.rows import CALLS_RULE, ROWS, Advice, advice
from plugins.rules import parse
from plugins.rules.conditions import ContextPressure
from tests.fakes.openai_server import Answer, Call, Received, Say, openai_overflow
from tests.whole.testbot import run_bot

NOW = datetime.fromtimestamp(0, UTC)


def event(
    turn: int,
    what: Literal["compact", "undo"] = "compact",
    actor: Actor = "strategy",
    reason: str = "",
    sizes: tuple[int, int] = (9_000, 3_000),
    **more: Any,
) -> ViewEvent:
    strategy = more.pop("strategy", "summarize")
    change = Change(target=more.pop("target", 0))
    if what == "compact":
        change = Change(assign_form({1}, SUMMARY))
    return ViewEvent(
        NOW, "view" if what == "compact" else what, actor, reason, change, strategy, turn,
        tokens_before=sizes[0], tokens_after=sizes[1], **more,
    )  # fmt: skip


def cuts(*turns: int, strategy: str = "summarize", **more: Any) -> tuple[ViewEvent, ...]:
    return tuple(event(turn, strategy=strategy, id=turn, **more) for turn in turns)


def facts(strategy: str = "summarize", **known: Any) -> Facts:
    limits = Limits().but(
        strategy=strategy, window=12_000, output_reserved=2_000, **known.pop("limits", {})
    )
    answers = known.pop("answers", Bill(calls=40, prompt=200_000, cost=0.4))
    return Facts(limits, turns=40, tokens=5_000, answers=answers, **known)


def only(found: tuple[Advice, ...]) -> Advice:
    (one,) = found
    return one


def test_where_all_is_well_it_says_so_with_the_figures() -> None:
    well = facts(events=cuts(10, 25, 40))
    assert advice(well) == ()
    text = as_text(well, ())
    assert text.startswith("All is well")
    assert "3 compactions in 40 turns, one every 15.0 turns, by the strategy" in text


# --- Digitorn's tuning checklist -----------------------------------------------------------


def test_compaction_that_fires_every_two_or_three_turns_wants_a_trigger_of_085() -> None:
    one = only(advice(facts(events=cuts(31, 33, 36))))
    assert "every 2.5 turns" in one.found
    assert one.commands == ("/config context.compression_trigger 0.85 --here",)
    assert advice(facts(events=cuts(28, 32, 36))) == ()


def test_where_the_trigger_is_high_already_the_window_is_raised() -> None:
    high = {"compression_trigger": 0.9}
    one = only(advice(facts(events=cuts(31, 33, 36), limits=high, max_tokens=12_000)))
    assert one.commands == ("/config context.max_tokens 0 --here",)
    one = only(advice(facts(events=cuts(31, 33, 36), limits=high)))
    assert one.commands == ("/config context.keep_recent 5 --here",)


def test_an_agent_that_loses_the_thread_after_truncate_wants_longer_summaries() -> None:
    events = cuts(20, strategy="truncate")
    undone = (*events, event(21, "undo", "person", target=20))
    for signs in (facts("truncate", events=events, searches=2), facts("truncate", events=undone)):
        assert only(advice(signs)).commands == (
            "/config context.strategy summarize --here",
            "/config context.summary_max_tokens 2048 --here",
        )


def test_summaries_that_cost_more_than_they_save_want_a_cheaper_brain() -> None:
    known: dict[str, Any] = {
        "events": cuts(20, 35),
        "answers": Bill(calls=40, prompt=1_000_000, cost=1.0),
    }
    # 6000 tokens less in 15 + 5 requests: 120000 tokens, at $1 for a million.
    one = only(advice(facts(summaries=Bill(calls=2, cost=0.13), **known)))
    assert "$0.13 for $0.12" in one.found
    assert "context.summary_brain.model" in one.do
    assert one.commands == ("/config context.strategy truncate --here",)
    assert advice(facts(summaries=Bill(calls=2, cost=0.11), **known)) == ()


def test_summaries_of_unknown_price_are_weighed_in_tokens() -> None:
    known: dict[str, Any] = {"events": cuts(20, 35), "answers": Bill(calls=40, unknown=40)}
    one = only(advice(facts("trim", summaries=Bill(2, 130_000, unknown=2), **trimmed(known))))
    assert "130k tokens for 120k" in one.found
    assert one.commands == ()
    assert advice(facts("trim", summaries=Bill(2, 110_000, unknown=2), **trimmed(known))) == ()


def trimmed(known: dict[str, Any]) -> dict[str, Any]:
    return known | {"events": cuts(20, 35, strategy="trim")}


def test_overflows_want_an_earlier_trigger_and_a_look_at_the_largest_result() -> None:
    overflow = event(30, actor="emergency", reason="context_overflow")
    results = Results({"read_file": 4_000, "grep": 100}, 3, 4_000, "read_file", 29)
    one = only(advice(facts(events=(overflow,), results=results, limits={"keep_recent": 8})))
    assert "read_file fills 40% of the window" in one.do
    assert "t29" in one.do
    assert one.commands == (
        "/config context.compression_trigger 0.6 --here",
        "/config context.tool_result_limit 1000 --here",
    )


def test_where_a_rule_makes_the_cuts_an_overflow_wants_nothing_of_the_trigger() -> None:
    overflow = event(30, actor="emergency", reason="context_overflow")
    off = {"auto_compact": False}
    for strategy in ("truncate", "summarize"):
        (one,) = advice(facts(strategy, events=(overflow,), hooks=(CALLS_RULE,), limits=off))
        assert "`many_calls`" in one.do
        assert one.commands == ()


def test_calls_that_clutter_the_context_want_a_rule_that_counts_them() -> None:
    results = Results({f"tool{n}": 300 for n in range(10)}, 50, 100, "tool1", 3)
    own = {"id": "own", "on": "error", "action": {"type": "log", "message": "x"}}
    one = only(advice(facts("structured", results=results, hooks=(own,))))
    line = one.commands[0].removeprefix("/config hooks ")
    assert json.loads(line) == [own, CALLS_RULE], "the rules that are there stay"
    one = only(advice(facts(results=results, hooks=(own,), limits={"compression_trigger": 0.6})))
    rules = parse(json.loads(one.commands[0].removeprefix("/config hooks ")))
    conditions = [rule.condition for rule in rules]
    assert ContextPressure(threshold=0.6) in conditions, "cuts come as they came before"
    assert advice(facts(results=results, hooks=(CALLS_RULE,))) == ()


def test_without_auto_compact_a_rule_of_ones_own_is_wanted() -> None:
    off = {"auto_compact": False}
    assert only(advice(facts(limits=off))).commands == ("/config context.auto_compact true --here",)
    assert advice(facts(limits=off, hooks=(CALLS_RULE,))) == ()
    assert advice(facts("trim", limits=off)) == ()


# --- our own rows --------------------------------------------------------------------------


def test_one_tool_that_fills_the_context_wants_a_limit_for_results() -> None:
    results = Results({"read_file": 2_600, "grep": 100}, 3, 2_000, "read_file", 29)
    one = only(advice(facts(results=results)))
    assert "read_file fills the context: its results hold 2.6k of 5k tokens" in one.found
    assert one.commands == ("/config context.tool_result_limit 500 --here",)


def test_slim_with_a_provider_that_caches_wants_folding() -> None:
    cached = Bill(calls=40, prompt=200_000, cached=90_000)
    one = only(advice(facts("slim", answers=cached, limits={"fold_turns": 1})))
    assert one.commands == ("/config context.fold_turns auto --here",)
    assert advice(facts("slim", answers=cached, limits={"fold_turns": 7})) == ()
    assert advice(facts("slim", limits={"fold_turns": 1})) == ()


def test_trim_that_cuts_often_wants_more_of_what_it_ran_out_of() -> None:
    for turns, tokens, size, command in (
        (4, 9_500, 3_000, "agent_max_context_turns 8"),
        (40, 4_000, 4_100, "agent_max_context_tokens 8000"),
        (40, 8_000, 8_100, "agent_max_context_tokens 10000"),
    ):
        limits = {"max_turns": turns, "max_tokens": tokens}
        events = cuts(34, 36, 39, strategy="trim", sizes=(size, 1_000))
        (told,) = only(advice(facts("trim", events=events, limits=limits))).commands
        assert told == f"/config {command} --here"


def test_where_tools_fill_a_small_window_they_are_only_listed() -> None:
    one = only(advice(facts("full", tools=2_500)))
    assert "2.5k of the 10k tokens" in one.found
    assert one.commands == ("/config tools.offer lean --here",)
    assert not advice(facts("full", tools=2_400))


def test_where_old_results_fill_the_context_they_become_stubs() -> None:
    for strategy, command in (
        ("trim", "/config context.stub_tools true --here"),
        ("full", "/config context.strategy stubs --here"),
    ):
        one = only(advice(facts(strategy, freeable=2_000)))
        assert "2k of 5k tokens" in one.found
        assert one.commands == (command,)
    assert not advice(facts("trim", freeable=1_200))
    assert not advice(facts("stubs", freeable=2_000))
    assert not advice(facts("trim", freeable=2_000, limits={"stub_tools": True}))


def test_each_strategy_has_an_answer_to_overflows() -> None:
    for strategy in ("trim", "slim", "full", "truncate", "structured"):
        overflow = event(30, actor="emergency", reason="context_overflow", strategy=strategy)
        (command,) = only(advice(facts(strategy, events=(overflow,)))).commands
        assert command.startswith("/config ")


def test_nothing_is_advised_about_a_conversation_without_a_turn() -> None:
    for strategy in ("trim", "slim", "full", "truncate", "summarize", "structured", "stubs"):
        assert advice(Facts(Limits().but(strategy=strategy), turns=0, tokens=0)) == ()
    assert len(ROWS) == len({row.__name__ for row in ROWS})


# --- in a whole bot ------------------------------------------------------------------------


async def test_what_is_advised_can_be_typed_and_helps(tmp_path: Path) -> None:
    def reads(request: Received) -> Answer:
        is_asked = request.body["messages"][-1]["role"] == "user"
        call = Call("read_file", '{"path": "big.txt"}')
        return Say(calls=(call,) * 4) if is_asked and request.is_turn else Say("Read.")

    files = tmp_path / "data" / "audiences" / "pipe-main" / "files"
    files.mkdir(parents=True)
    (files / "big.txt").write_text("word " * 3_000)
    settings = {"context": {"strategy": "truncate", "max_tokens": 16_000, "soft_limit": 16_000}}
    async with run_bot(tmp_path, reads, settings) as bot:
        assert (await bot.says("/context advise")).text.startswith("All is well")
        await bot.says("Read it!")
        reply = await bot.says("/context advise")
        assert "read_file fills the context" in reply.text
        (action,) = reply.actions
        assert f"`{action.command}`" in reply.text
        assert "is now" in (await bot.says(action.command)).text
        await bot.says("Read it again!")
        assert "<<<TRUNCATED>>>" in bot.sent_to_model()[-1]["content"]


GONE = ("/context drop t2", "/context clear", "/context compact t1-t2")


@pytest.mark.parametrize("leaves", GONE)
async def test_a_huge_result_that_is_gone_is_not_named_after_an_overflow(
    tmp_path: Path, leaves: str
) -> None:
    refused = list[object]()

    def model(request: Received) -> Answer:
        last = request.body["messages"][-1]
        if last["role"] == "tool" and not refused:
            refused.append(last)
            return openai_overflow(16_500, 16_000)
        is_asked = last["role"] == "user" and "Read it" in str(last["content"])
        if is_asked and request.is_turn:
            return Say(calls=(Call("read_file", '{"path": "big.txt"}'),))
        return Say("Fine.")

    files = tmp_path / "data" / "audiences" / "pipe-main" / "files"
    files.mkdir(parents=True)
    (files / "big.txt").write_text(("word " * 20 + "\n") * 350)
    settings = {"context": {"strategy": "truncate", "max_tokens": 16_000}}
    async with run_bot(tmp_path, model, settings) as bot:
        for text in ("Hello!", "Read it!", "And now?"):
            await bot.says(text)
        assert "look at t2: a result of read_file" in (await bot.says("/context advise")).text
        await bot.says(leaves)
        told = (await bot.says("/context advise")).text
    assert "did not fit" in told
    assert "look at t2" not in told
    assert "tool_result_limit" not in told


async def test_every_line_that_is_advised_is_taken(tmp_path: Path) -> None:
    overflow = event(30, actor="emergency", reason="context_overflow")
    results = Results({"read_file": 4_000}, 60, 4_000, "read_file", 29)
    lost = facts("truncate", events=cuts(31, 33, 35, strategy="truncate"), searches=1)
    all_at_once = (
        facts(events=(overflow, *cuts(31, 33, 36)), results=results),
        facts(limits={"auto_compact": False}),
        facts("slim", answers=Bill(1, 10, 5), limits={"fold_turns": 1}),
        facts("trim", events=cuts(34, 36, 39, strategy="trim"), limits={"max_tokens": 9_000}),
        lost,
    )
    lines = [line for known in all_at_once for one in advice(known) for line in one.commands]
    assert len(lines) > 8
    async with run_bot(tmp_path) as bot:
        for line in lines:
            assert "(from: " in (await bot.says(line)).text, line


def test_cuts_that_cost_more_than_they_save_until_the_next_one_are_told_with_their_figures() -> (
    None
):
    cache = Cache(tokens=9_000, price=InputPrice(0.000_01, 0.000_001), strategy="truncate")
    sizes = (9_000, 6_000)
    often = cuts(28, 32, 36, strategy="truncate", sizes=sizes, broken=8_500, anew=5_500)
    one = only(advice(facts("truncate", events=often, cache=cache)))
    assert one.found == (
        "Compactions cost more than they save: each one bills 8.5k tokens at the "
        "full price once more ($0.0495), which pays off after 17 turns, but the next comes "
        "after 4.0 turns."
    )
    assert one.commands == ("/config context.compression_trigger 0.85 --here",)
    seldom = cuts(0, 20, 40, strategy="truncate", sizes=sizes, broken=8_500, anew=5_500)
    assert advice(facts("truncate", events=seldom, cache=cache)) == ()


# --- long contexts ---------------------------------------------------------------------------


def test_a_context_longer_than_the_model_handles_well_is_told_with_the_source() -> None:
    soft = SoftLimit("llama3.3:70b", long_context_of("llama3.3:70b"))
    assert soft.tokens == 16_000
    assert advice(_long("trim", soft, 15_000)) == ()
    one = only(advice(_long("trim", soft, 20_000)))
    assert one.found == (
        "20k tokens are more than llama3.3:70b handles well: up to 16k it finds at least half of "
        "what it finds in a short text, and beyond that less (NoLiMa, 2025)."
    )
    assert one.commands == (
        "/config agent_max_context_tokens 16000 --here",
        "/config context.soft_limit 40000 --here",
    )


def test_of_a_model_without_figures_it_says_just_that() -> None:
    soft = SoftLimit("home-made", long_context_of("home-made"))
    one = only(advice(_long("trim", soft, 33_000)))
    assert one.found == (
        "33k tokens may be more than home-made handles well: no figures are known for this model; "
        "others get worse from about 32k on."
    )


def test_what_a_person_has_set_outranks_what_is_known() -> None:
    soft = SoftLimit("gpt-4o-mini", long_context_of("gpt-4o-mini"), 50_000)
    assert advice(_long("trim", soft, 40_000)) == ()
    one = only(advice(_long("trim", soft, 60_000)))
    assert one.found == "60k tokens are more than context.soft_limit, which is 50k."


def _long(strategy: str, soft: SoftLimit, tokens: int) -> Facts:
    return replace(facts(strategy, soft=soft), tokens=tokens)


async def test_context_says_when_it_is_longer_than_the_model_handles_well(tmp_path: Path) -> None:
    def long(request: Received) -> Answer:
        return Say("A long answer. " * 900)

    async with run_bot(tmp_path, long) as bot:
        before = await bot.says("/context")
        await bot.says("Tell me everything.")
        after = await bot.says("/context")
        await bot.says("/config context.soft_limit 100000 --here")
        told = await bot.says("/context")
    assert "handles well" not in before.text + told.text
    assert "are more than gpt-4o-mini handles well: up to 4k it finds at least half" in after.text
    assert "(NoLiMa, 2025)" in after.text
    assert after.data is not None
    assert after.data["soft_limit"] == {"tokens": 4_000, "source": "NoLiMa 2025"}
