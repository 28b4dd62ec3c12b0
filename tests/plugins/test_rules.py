"""Tests of hook rules: accepted input, refused input, and actions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.settings import SettingError, load_layers
from memory.context.settings import Limits
from memory.conversation import Conversation
from memory.events import Event, EventName
from memory.keys import ConversationKey
from plugins.api import HookContext
from plugins.builtin.rules import Engine
from plugins.rules import Fault, Rule, RuleFaults, auto_compact, parse
from plugins.rules.conditions import RuleEvent
from plugins.rules.rule import CompactContext
from tests.memory.harness import MemoryHarness
from tests.tables import each_row

SEED_BLOCK = """
runtime:
  hooks:
    - id: _auto_compact
      "on": turn_start
      condition:
        type: context_pressure
        threshold: 0.75         # = compression_trigger
      action:
        type: compact_context
        strategy: summarize     # = strategy
        keep_recent: 10         # = keep_recent (alias: keep_last)
        summary_max_tokens: 1024
      cooldown: 30.0
"""
"""The example in Digitorn's documentation, unchanged."""


def rules_of(text: str) -> tuple[Rule, ...]:
    """Return the rules in YAML, parsed as YAML 1.1 does: a bare `on` is true."""
    return parse(yaml.safe_load(text))


def rule(**fields: Any) -> Rule:
    (made,) = parse([{"id": "r", "on": "turn_start", "action": {"log": {"message": "x"}}} | fields])
    return made


def faults(*written: Any) -> list[str]:
    with pytest.raises(RuleFaults) as caught:
        parse(list(written))
    return [f"{fault.name('hooks')} {fault.text}" for fault in caught.value.faults]


# --- accepted input ------------------------------------------------------------------------


def test_the_documented_block_is_the_rule_that_is_injected() -> None:
    (written,) = parse(yaml.safe_load(SEED_BLOCK)["runtime"]["hooks"])
    assert written == auto_compact(Limits().but(strategy="summarize"))
    figures: dict[str, Any] = {"keep_recent": 4, "summary_max_tokens": 2_048}
    made = auto_compact(Limits().but(strategy="truncate", compression_trigger=0.6, **figures))
    assert made.condition == rule(condition={"context_pressure": {"threshold": 0.6}}).condition
    assert made.action == CompactContext(strategy="truncate", **figures)


def test_a_bare_on_and_a_quoted_one_are_the_same_and_so_are_keep_last_and_keep_recent() -> None:
    bare = rules_of("- {id: a, on: turn_end, action: compact_context}")
    quoted = rules_of("- {id: a, 'on': turn_end, action: {type: compact_context}}")
    assert bare == quoted
    assert bare[0].on == "turn_end"
    made = rule(action={"type": "compact_context", "keep_last": 7})
    assert made.action == CompactContext(keep_recent=7)


def test_what_is_left_out_has_its_documented_default() -> None:
    made = rule()
    assert (made.cooldown, made.max_fires, made.priority, made.enabled) == (0, 0, 100, True)
    assert made.condition.type == "always"
    assert rule(condition="context_pressure").condition == rule(
        condition={"type": "context_pressure", "threshold": 0.75}
    ).condition  # fmt: skip


def test_short_forms_mean_the_long_ones() -> None:
    short = {"all_of": [{"not": "tool_failed"}, {"any_of": [{"turn_count": {"every": 3}}]}]}
    long = {
        "type": "all_of",
        "conditions": [
            {"type": "not", "condition": {"type": "tool_failed"}},
            {"type": "any_of", "conditions": [{"type": "turn_count", "every": 3}]},
        ],
    }
    assert rule(condition=short) == rule(condition=long)


# --- refused input -------------------------------------------------------------------------


@each_row(
    ("fields", "sentence"),
    [
        ({"on": "turn_strat"}, """.on is "turn_strat"; did you mean 'turn_start'?"""),
        ({"cooldwn": 3}, ".cooldwn is not known; did you mean 'cooldown'?"),
        ({"action": {"type": "compact_context", "keep_recent": 7, "keep_last": 3}},
         ".action.keep_last is the same as keep_recent; write only one of them."),
        ({"cooldown": True}, ".cooldown is true; it should be a valid number."),
        ({"max_fires": 1.5}, ".max_fires is 1.5; it should be a valid integer."),
        ({"enabled": "yes"}, '.enabled is "yes"; it should be a valid boolean.'),
        ({"condition": {"type": "turn_cuont", "every": 2}},
         ".condition has the type 'turn_cuont'; did you mean 'turn_count'?"),
        ({"condition": {"type": "context_pressure", "treshold": 0.5}},
         ".condition.treshold is not known; did you mean 'threshold'?"),
        ({"condition": {"type": "turn_count"}},
         ".condition can never be true; give it a threshold, or every."),
        ({"condition": {"any_of": ["always", {"not": {"not": "tool_faild"}}]}},
         ".condition.conditions[1].condition.condition has the type 'tool_faild'; did you mean "
         "'tool_failed'?"),
        ({"condition": {"type": "tool_calls"}}, ".condition has no threshold; add it."),
        ({"condition": {"all_of": []}}, ".condition.conditions is []; tuple should have at least "
                                        "1 item after validation, not 0."),
        ({"action": {"type": "compact_context", "strategy": "summarise"}},
         """.action.strategy is "summarise"; did you mean 'summarize'?"""),
        ({"action": 5}, ".action is 5; it needs fields, first of all a type."),
        ({"on": "pre_compact", "action": "compact_context"},
         " compacts before every compaction, which would never end."),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_place_and_what_was_meant(
    fields: dict[str, Any], sentence: str
) -> None:
    written = {"id": "r", "on": "turn_start", "action": {"log": {"message": "x"}}} | fields
    assert faults(written) == [f"hooks[0]{sentence}"]


def test_all_faults_are_named_at_once() -> None:
    assert faults({"on": "turn_end"}, "nothing", {"id": "", "on": "error", "action": "log"}) == [
        "hooks[0] has no id; add it.",
        "hooks[0] has no action; add it.",
        'hooks[1] is "nothing"; it needs fields, first of all a type.',
        'hooks[2].id is ""; string should have at least 1 character.',
        "hooks[2].action has no message; add it.",
    ]
    one = {"id": "twin", "on": "turn_end", "action": "compact_context"}
    assert faults(one, one) == [
        "hooks[1].id is 'twin', which an earlier rule already has; give each its own."
    ]


def test_what_is_no_list_too_long_or_too_deep_is_refused() -> None:
    deep: Any = "always"
    for _ in range(5_000):
        deep = {"not": deep}
    assert faults({"id": "r", "on": "error", "action": "compact_context", "condition": deep}) == [
        "hooks[0] is nested too deeply; make it flatter."
    ]
    assert faults(*[{}] * 201) == ["hooks has 201 rules; 200 are the most."]
    with pytest.raises(RuleFaults, match="hooks must be a list"):
        parse({"id": "a"})


LEAF: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["turn_start", "always", "turn_count", "compact_context", "log", "type"])
)  # fmt: skip
NAMES = st.sampled_from(
    ["id", "on", "condition", "action", "type", "threshold", "every", "conditions", "match", "not",
     "all_of", "any_of", "turn_count", "content", "message", "cooldown", "x", True, 1, None]
)  # fmt: skip
TREES = st.recursive(
    LEAF, lambda inside: st.lists(inside) | st.dictionaries(NAMES, inside), max_leaves=12
)


def refusals(written: list[Any]) -> list[Fault]:
    try:
        assert all(isinstance(made, Rule) for made in parse(written))
    except RuleFaults as refusal:
        return list(refusal.faults)
    return []


@settings(max_examples=50)
@given(st.lists(TREES | st.dictionaries(NAMES, TREES), max_size=4))
def test_whatever_is_written_is_taken_or_refused_in_sentences(written: list[Any]) -> None:
    for fault in refusals(written):
        assert fault.name("hooks").startswith("hooks")
        assert fault.text[-1] in ".?"
        assert "\n" not in fault.text


# --- file and line -------------------------------------------------------------------------


def refused(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    with pytest.raises(SettingError) as caught:
        load_layers(folder / name, {})
    return str(caught.value)


def test_a_faulty_rule_is_refused_with_file_and_line(tmp_path: Path) -> None:
    text = """\
model: gpt-4o-mini
runtime:
  hooks:
    - id: fine
      on: turn_end
      action: compact_context
    - id: bad
      on: turn_end
      condition:
        type: all_of
        conditions:
          - type: tool_failed
          - type: context_pressure
            threshold: 75
      action: compact_context
"""
    assert refused(tmp_path, "config.yaml", text) == (
        "runtime.hooks[1].condition.conditions[1].threshold in config.yaml (line 14) is 75; "
        "it should be less than or equal to 1."
    )


def test_a_faulty_rule_in_json_has_a_line_too(tmp_path: Path) -> None:
    text = '{\n\t"hooks": [\n\t\t{"id": "x",\n\t\t "on": "turn_strat", "action": "log"}]}'
    assert refused(tmp_path, "config.json", text).splitlines() == [
        """hooks[0].on in config.json (line 4) is "turn_strat"; did you mean 'turn_start'?""",
        "hooks[0].action in config.json (line 4) has no message; add it.",
    ]


def test_hooks_of_the_environment_are_checked_and_those_in_two_places_refused(
    tmp_path: Path,
) -> None:
    assert refused(tmp_path, "config.yaml", "hooks: []\nruntime:\n  hooks: []\n") == (
        "config.yaml has both 'hooks' and 'runtime.hooks', which are the same; keep one of them."
    )
    (tmp_path / "config.json").write_text("{}")
    written = '[{"id": "a", "on": "tool_end", "action": {"type": "x"}}]'
    with pytest.raises(SettingError, match=r"PARLEY_HOOKS\[0\]\.action has the type 'x'"):
        load_layers(tmp_path / "config.json", {"PARLEY_HOOKS": written})


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nhooks: [*b, *b]\n"


def test_hostile_yaml_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for text, why in (
        (BOMB, "aliases and tags are not allowed"),
        ("hooks: " + "[" * 20_000 + "]" * 20_000, "nested too deeply"),
        ("hooks: []\n#" + "x" * 1_000_000, "larger than 1 MB"),
        ("hooks: [!!python/object/apply:os.system [ls]]", "aliases and tags are not allowed"),
        ("hooks: [{id: a, id: b}]", "twice"),
    ):
        assert why in refused(tmp_path, "config.yaml", text)


@given(st.text(alphabet="hoks:-[]{}&*!#'\" \n\tidnaction,1.truealwys", max_size=60))
def test_no_text_breaks_the_reading_of_rules(text: str) -> None:
    # No fixture: Hypothesis rejects fixtures that are created anew for each example.
    with TemporaryDirectory() as folder, suppress(SettingError):
        config = Path(folder) / "hooks.yaml"
        config.write_text(f"hooks:\n  - {text}")
        load_layers(config, {})


# --- conditions ----------------------------------------------------------------------------


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MemoryHarness]:
    harness = MemoryHarness(tmp_path, Limits().but(strategy="full", window=8_000))
    await harness.open()
    yield harness
    await harness.close()


@pytest.fixture
async def talk(harness: MemoryHarness) -> Conversation:
    return await harness.conversation()


def test_turn_count_holds_at_each_of_its_turns(talk: Conversation) -> None:
    for condition, turns in (
        ({"every": 10}, [10, 20, 30]),
        ({"threshold": 28}, [28, 29, 30]),
        ({"threshold": 15, "every": 10}, [20, 30]),
    ):
        made = rule(condition={"turn_count": condition}).condition
        held = [n for n in range(31) if made.holds(RuleEvent(Event("turn_end", talk.key, n), talk))]
        assert held == turns


HOLDING: tuple[Any, ...] = (
    {"tool_name": {"match": "read_file"}},
    {"tool_name": {"match": "read_*"}},
    {"tool_name": {"match": "grep|read_????"}},
    "tool_failed",
    {"content_contains": {"keyword": "No Such FILE"}},
    {"any_of": ["never", "tool_failed"]},
    {"context_pressure": {"threshold": 0}},
    {"tool_calls": {"threshold": 3}},
)
NOT_HOLDING: tuple[Any, ...] = (
    {"tool_name": {"match": ["grep", "write_*"]}},
    {"tool_name": {"match": "read.file"}},
    {"not": "tool_failed"},
    {"content_contains": {"keyword": "(.*"}},
    {"all_of": ["tool_failed", "never"]},
    {"message_count": {"threshold": 1}},
    {"context_pressure": {"threshold": 0.5}},
    {"tool_calls": {"threshold": 4}},
)


def test_a_condition_holds_or_not(talk: Conversation) -> None:
    event = Event("tool_end", talk.key, 3, "no such file: a.txt", "read_file", "{}", is_error=True)
    moment = RuleEvent(event, talk, calls=3)
    assert [one for one in HOLDING if not rule(condition=one).condition.holds(moment)] == []
    assert [one for one in NOT_HOLDING if rule(condition=one).condition.holds(moment)] == []


async def test_pressure_and_messages_are_what_the_model_sees(harness: MemoryHarness) -> None:
    pressure = rule(condition={"context_pressure": {"threshold": 0.5}}).condition
    messages = rule(condition={"message_count": {"threshold": 4}}).condition
    await harness.says("Hello")
    talk = await harness.conversation()
    moment = RuleEvent(Event("turn_start", talk.key), talk)
    assert not pressure.holds(moment)
    assert not messages.holds(moment)
    await harness.says("word " * 4_000)
    assert talk.context.pressure >= 0.5
    assert pressure.holds(moment)
    assert messages.holds(moment)


# --- the engine ----------------------------------------------------------------------------


@dataclass
class EngineOfRules:
    """An engine with a clock and a person under the control of a test."""

    talk: Conversation
    rules: tuple[Rule, ...]
    now: float = 1_000.0
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        context = self.context(lambda key, text: self.told.append(text))
        self.engine = Engine(context, lambda: self.now)

    def context(self, notify: Callable[[ConversationKey, str], None]) -> HookContext:
        return HookContext(lambda: self.rules, notify, lambda key: self.talk)

    async def hears(self, name: EventName, turn: int = 1, **about: Any) -> tuple[str, ...]:
        """Return the texts that the rules inject for the model at an event."""
        return (await self.engine.handle(Event(name, self.talk.key, turn, **about))).inject


def said(text: str, **fields: Any) -> dict[str, Any]:
    """Return a rule that injects its text for the model."""
    return {
        "id": text,
        "on": "turn_start",
        "action": {"type": "inject_message", "content": text},
    } | fields


def rules_engine(talk: Conversation, *written: dict[str, Any]) -> EngineOfRules:
    return EngineOfRules(talk, parse(list(written)))


async def test_rules_act_by_priority_and_then_as_they_are_written(talk: Conversation) -> None:
    engine = rules_engine(
        talk, said("b"), said("c"), said("a", priority=1), said("off", enabled=False)
    )
    assert await engine.hears("turn_start") == ("a", "b", "c")


async def test_a_cooldown_holds_in_each_conversation_by_itself(
    talk: Conversation, harness: MemoryHarness
) -> None:
    engine = rules_engine(talk, said("hint", cooldown=30))
    assert await engine.hears("turn_start") == ("hint",)
    engine.now += 29.9
    assert await engine.hears("turn_start") == ()
    engine.talk = await harness.conversation(ConversationKey("pipe/other", "pipe-other"))
    assert await engine.hears("turn_start") == ("hint",)
    engine.talk = talk
    engine.now += 0.1
    assert await engine.hears("turn_start") == ("hint",)


async def test_a_rule_acts_max_fires_times_in_a_session(talk: Conversation) -> None:
    engine = rules_engine(talk, said("hint", max_fires=2))
    assert [await engine.hears("turn_start") for _ in range(4)] == [("hint",), ("hint",), (), ()]
    await engine.hears("session_end")
    assert await engine.hears("turn_start") == ("hint",)


async def test_what_is_said_after_the_last_step_waits_for_the_next_turn(
    talk: Conversation,
) -> None:
    engine = rules_engine(
        talk, said("end", on="turn_end"), said("cut", on="pre_compact"), said("start")
    )
    assert await engine.hears("turn_end") == ()
    assert await engine.hears("pre_compact") == ()
    assert await engine.hears("turn_start") == ("end", "cut", "start")
    assert await engine.hears("turn_start") == ("start",)


async def test_calls_are_counted_anew_when_the_rule_has_acted(talk: Conversation) -> None:
    engine = rules_engine(
        talk, said("slow down", on="tool_end", condition={"tool_calls": {"threshold": 3}})
    )
    heard = [await engine.hears("tool_end", tool="look") for _ in range(7)]
    assert [number for number, notes in enumerate(heard, 1) if notes] == [3, 6]


async def test_calls_are_counted_anew_after_a_compaction(harness: MemoryHarness) -> None:
    for number in range(8):
        await harness.says(f"Question {number}")
    talk = await harness.conversation()
    engine = rules_engine(talk, said("many", condition={"tool_calls": {"threshold": 2}}))
    await engine.hears("tool_end")
    assert await talk.compactor.compact_by_rule(keep_recent=4) is not None
    await engine.hears("tool_end")
    assert await engine.hears("turn_start") == ()
    await engine.hears("tool_end")
    assert await engine.hears("turn_start") == ("many",)


async def test_notify_reaches_the_person_and_log_the_log(
    talk: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    engine = rules_engine(
        talk,
        {"id": "n", "on": "error", "action": {"notify": {"message": "It failed."}}},
        {"id": "l", "on": "error", "action": {"log": {"message": "failed", "level": "warning"}}},
    )
    assert await engine.hears("error", text="no answer") == ()
    assert engine.told == ["It failed."]
    assert ("WARNING", "l: failed") in [(r.levelname, r.getMessage()) for r in caplog.records]


async def test_a_rule_that_fails_or_takes_too_long_costs_itself_and_nothing_else(
    talk: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    tell = {"notify": {"message": "x"}}
    engine = rules_engine(talk, {"id": "bad", "on": "turn_start", "action": tell}, said("good"))

    def fails(key: ConversationKey, text: str) -> None:
        raise OSError("no person there")

    engine.engine = Engine(engine.context(fails))
    assert await engine.hears("turn_start") == ("good",)
    assert "the rule bad failed" in caplog.text


async def test_a_compaction_that_takes_too_long_is_ended(
    harness: MemoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    talk = await full_talk(harness)
    harness.summarizer.gate = asyncio.Event()  # a model that never answers
    action = {"type": "compact_context", "strategy": "summarize"}
    slow = {"id": "slow", "on": "turn_start", "action": action, "timeout": 0.05}
    assert await rules_engine(talk, slow, said("good")).hears("turn_start") == ("good",)
    assert "the rule slow took longer than 0.05 s" in caplog.text
    assert not await talk.context.history()


async def full_talk(harness: MemoryHarness) -> Conversation:
    """Return a conversation that fills more than three quarters of its window."""
    harness.limit(strategy="truncate", window=4_000, output_reserved=0)
    for number in range(10):
        await harness.says(f"Question {number}: " + "word " * 330)
    talk = await harness.conversation()
    assert talk.context.pressure > 0.75
    return talk


# --- arbitrary events ----------------------------------------------------------------------

EVENTS: st.SearchStrategy[EventName] = st.sampled_from(
    ["session_start", "turn_start", "tool_start", "tool_end", "turn_end", "error", "session_end"]
)
CONDITIONS = st.recursive(
    st.sampled_from(
        ["always", "never", "tool_failed", {"tool_calls": {"threshold": 2}},
         {"turn_count": {"every": 2}}, {"message_count": {"threshold": 1}}, "context_pressure",
         {"tool_name": {"match": "l*"}}, {"content_contains": {"keyword": "x"}}]
    ),
    lambda inside: st.builds(lambda c: {"not": c}, inside)
    | st.builds(lambda c: {"all_of": c}, st.lists(inside, min_size=1, max_size=3))
    | st.builds(lambda c: {"any_of": c}, st.lists(inside, min_size=1, max_size=3)),
    max_leaves=5,
)  # fmt: skip
ACTIONS = st.sampled_from(
    ["compact_context", {"inject_message": {"content": "x"}}, {"notify": {"message": "x"}}]
)
HAPPENINGS = st.lists(
    st.tuples(EVENTS, st.integers(0, 5), st.sampled_from(["", "x", "look"]), st.booleans()),
    max_size=15,
)


def numbered(parts: Iterable[tuple[Any, Any, Any, int]]) -> tuple[Rule, ...]:
    return parse(
        [
            {"id": str(n), "on": on, "condition": condition, "action": action, "max_fires": fires}
            for n, (on, condition, action, fires) in enumerate(parts)
        ]
    )


RULES = st.lists(st.tuples(EVENTS, CONDITIONS, ACTIONS, st.integers(0, 2)), max_size=5).map(
    numbered
)


async def test_no_sequence_of_events_makes_the_engine_raise_or_loop(harness: MemoryHarness) -> None:
    for number in range(4):
        await harness.says(f"Question {number}")
    talk = await harness.conversation()

    async def handle(rules: tuple[Rule, ...], happenings: list[tuple[Any, ...]]) -> None:
        engine = EngineOfRules(talk, rules)
        fires = 0
        for name, turn, text, is_error in happenings:
            notes = await engine.hears(name, turn, text=text, tool=text, is_error=is_error)
            fires += len(notes)
        assert fires + len(engine.told) <= len(rules) * len(happenings)

    for rules, happenings in samples():
        await handle(rules, happenings)


def samples() -> list[tuple[tuple[Rule, ...], list[tuple[Any, ...]]]]:
    """Return a hundred sets of rules with as many sequences of events."""
    kept: list[tuple[tuple[Rule, ...], list[tuple[Any, ...]]]] = []

    @given(RULES, HAPPENINGS)
    def keep(rules: tuple[Rule, ...], happenings: list[tuple[Any, ...]]) -> None:
        kept.append((rules, happenings))

    keep()
    return kept
