"""The book of settings: what holds, where it comes from, and what a change in the chat may be."""

from __future__ import annotations

import json
import re
import timeit
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import tzlocal
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bot.runtime import limits_of
from bot.settings import SettingError, Settings, SettingsStore, load_layers
from bot.settings.docs import PAGE, page
from bot.settings.schema import SETTINGS
from memory.context.limits import DEFAULT_WINDOW, Limits
from memory.settings import ContextSettings

STRATEGIES = ("trim", "slim", "full", "truncate", "summarize", "structured", "stubs")
STRATEGY = "trim, slim, full, truncate, summarize, structured or stubs"
ANN, BOB = "telegram/ann", "telegram/bob"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text('{"agent_max_steps": 10, "agent_max_context_turns": 10, "model": "file-model"}')
    return path


@pytest.fixture
def book(config: Path) -> SettingsStore:
    return SettingsStore(load_layers(config, {"PARLEY_AGENT_MAX_CONTEXT_TURNS": "11"}))


def plain_book(folder: Path) -> SettingsStore:
    (folder / "config.json").write_text("{}")
    return SettingsStore(load_layers(folder / "config.json", {}))


def refusal(book: SettingsStore, key: str, text: str, conversation_id: str = "") -> str:
    with pytest.raises(SettingError) as caught:
        book.check(key, text, conversation_id)
    return str(caught.value)


def test_each_layer_outranks_the_ones_before_it(book: SettingsStore) -> None:
    def turns() -> tuple[int, str]:
        info = book.describe("agent_max_context_turns", ANN)
        assert info.value == book.effective(ANN).agent_max_context_turns
        return info.value, info.layer

    assert book.describe("turn_timeout", ANN).layer == "default"
    assert book.describe("agent_max_steps", ANN).layer == "file"
    assert turns() == (11, "environment")
    book.set("agent_max_context_turns", 12)
    assert turns() == (12, "/config")
    book.set("agent_max_context_turns", 13, ANN)
    assert turns() == (13, "--here")
    book.unset("agent_max_context_turns", ANN)
    assert turns() == (12, "/config")
    book.unset("agent_max_context_turns")
    assert turns() == (11, "environment")


def test_a_change_for_one_conversation_is_felt_in_no_other(book: SettingsStore) -> None:
    book.set("context.strategy", "full", ANN)

    assert book.effective(ANN).context.strategy == "full"
    assert book.effective(BOB).context.strategy == "trim"
    assert book.effective().context.strategy == "trim"


def test_a_global_change_reaches_a_conversation_with_changes_of_its_own(
    book: SettingsStore,
) -> None:
    book.set("context.strategy", "full", ANN)
    book.set("agent_max_steps", 3)

    assert book.effective(ANN).agent_max_steps == 3
    assert book.effective(ANN).context.strategy == "full"


def test_taking_back_what_was_never_set_is_fine(book: SettingsStore) -> None:
    book.unset("agent_max_steps", ANN)
    book.unset("agent_max_steps")

    assert book.effective(ANN).agent_max_steps == 10


def test_a_setting_tells_all_that_config_shows(book: SettingsStore) -> None:
    info = book.describe("agent_max_context_turns")

    assert info.default == 20
    assert info.unit == "turns"
    assert info.wants == "a whole number from 1 to 1000"
    assert info.meaning.startswith("Above this many turns")
    assert book.describe("context.strategy").choices == STRATEGIES
    assert book.describe("context.strategy").wants == STRATEGY
    assert book.describe("context.auto_compact").choices == ("true", "false")
    assert book.describe("log_level").wants == "debug, info, warning or error"


def test_every_setting_has_a_meaning_and_says_what_it_wants(book: SettingsStore) -> None:
    infos = book.describe_all()

    assert [info.key for info in infos] == list(SETTINGS)
    assert all(info.meaning.endswith(".") and info.wants for info in infos)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("agent_max_steps", "20", 20),
        ("agent_max_steps", " 20 ", 20),
        ("context.strategy", "full", "full"),
        ("context.strategy", '"full"', "full"),
        ("model", "gpt-4o-mini", "gpt-4o-mini"),
        ("model", "My Model.gguf", "My Model.gguf"),
        ("model", "1984", "1984"),
        ("system_prompt", "Be brief.\nBe kind.", "Be brief.\nBe kind."),
        ("system_prompt", '"Yes" is a word', '"Yes" is a word'),
        ("system_prompt", '""', ""),
        ("fallback_models", "one, two", ["one", "two"]),
        ("fallback_models", '["one", "two, three"]', ["one", "two, three"]),
        ("fallback_models", "one", ["one"]),
        ("fallback_models", "", []),
        ("fallback_models", "[]", []),
        ("owners", "telegram/42, pipe/ann", ["telegram/42", "pipe/ann"]),
        ("timezone", "Asia/Kolkata", "Asia/Kolkata"),
        ("context.fold_turns", "auto", "auto"),
        ("context.fold_turns", "7", 7),
        ("context.compression_trigger", "0.6", 0.6),
        ("context.compression_trigger", "1", 1),
        ("context.auto_compact", "no", False),
        ("context.auto_compact", "Yes", True),
        ("context.merge_system", "on", True),
        ("context.merge_system", "false", False),
        ("context.compression_prompt", "{task} first", "{task} first"),
    ],
)
def test_what_a_person_types_becomes_a_value(
    book: SettingsStore, key: str, text: str, value: Any
) -> None:
    assert book.check(key, text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("20.0", "1e3", "20k", "50,000", "1_000", "+5", "007", "0x10", "-5", "0", "1001", "20 30"),
        *(
            "null",
            "true",
            "NaN",
            "Infinity",
            "１２",
            "٣",
            "",
            "abc",
            '"20"',
            "[20]",
            "{}",
            "9" * 5000,
        ),
    ],
)
def test_a_number_is_taken_only_where_it_can_mean_one_thing(book: SettingsStore, text: str) -> None:
    sentence = refusal(book, "agent_max_context_turns", text)

    assert sentence.startswith("agent_max_context_turns can't be ")
    assert sentence.endswith("; it must be a whole number from 1 to 1000.")


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        (
            "agent_max_context_turns",
            "abc",
            "agent_max_context_turns can't be 'abc'; it must be a whole number from 1 to 1000.",
        ),
        ("model", "null", "model can't be null; it must be a model's name, embedded or auto."),
        ("model", "", "model can't be ''; it must be a model's name, embedded or auto."),
        ("model", "a\nb", "model can't be 'a\\nb'; it must be a model's name, embedded or auto."),
        ("model", "\ud800", "model can't be '\\ud800'; it must be a model's name, embedded or "
         "auto."),
        (
            "fallback_models",
            "one,,two",
            "fallback_models can't be [\"one\", \"\", \"two\"]; it must be a list of up to 20 "
            "names of models: a, b.",
        ),
        (
            "fallback_models",
            "null",
            "fallback_models can't be null; it must be a list of up to 20 names of models: a, b.",
        ),
        (
            "owners",
            "ann",
            "owners can't be [\"ann\"]; it must be a list of people as CHANNEL/USER: telegram/42, "
            "pipe/ann.",
        ),
        (
            "owners",
            "[" * 100_000,
            f"owners can't be '{'[' * 60}…'; it must be a list of people as CHANNEL/USER: "
            "telegram/42, pipe/ann.",
        ),
        (
            "timezone",
            "/etc/passwd",
            "timezone can't be '/etc/passwd'; it must be an IANA name such as Europe/Berlin, or "
            "auto.",
        ),
        ("context.strategy", "Full", f"context.strategy can't be 'Full'; it must be {STRATEGY}; "
                                     "did you mean 'full'?"),
        ("system_prompt", "file:.env", "system_prompt can't name a file here; write the text "
         "itself."),
        ("max_turns", "5", "There is no setting 'max_turns'; did you mean "
         "'agent_max_context_turns'?"),
        ("zzz", "5", "There is no setting 'zzz'; /config lists them."),
    ],
)  # fmt: skip
def test_a_refusal_says_what_is_wanted(
    book: SettingsStore, key: str, text: str, sentence: str
) -> None:
    assert refusal(book, key, text) == sentence


SCHEMA = '{"type": "object", "properties": {"goal": {"type": "string"}}}'


@pytest.mark.parametrize(
    ("key", "values", "wants"),
    [
        ("max_tokens", (-1, 2_000_001, True, 1.5), "a whole number from 0 to 2000000"),
        ("full_turns", (0, 11, 2.5, "three"), "a whole number from 1 to 10"),
        ("max_terse_entries", (0, 501, None), "a whole number from 1 to 500"),
        ("fold_turns", (0, 101, 7.0, "Auto", True), "a whole number from 1 to 100, or auto"),
        ("keep_recent", (0, 1001, [10]), "a whole number from 1 to 1000"),
        ("compression_trigger", (-0.1, 1.01, -1, "high", True), "a number from 0.0 to 1.0"),
        ("trigger_ratio", (0, 0.91, -0.5, None), "a number above 0 and at most 0.9"),
        ("reserve_ratio", (0.009, 0.51, {}), "a number from 0.01 to 0.5"),
        ("auto_compact", (0, 1, "maybe", None), "true or false"),
        ("truncate_oversized", (0, "y"), "true or false"),
        ("snip_oversized", (2,), "true or false"),
        ("merge_system", ([True],), "true or false"),
        ("compression_prompt", ("x" * 20_001,), "text of at most 20000 characters"),
        ("summary_template", ("x" * 20_001,), "text of at most 20000 characters"),
        (
            "summary_schema",
            ("[]", "{", {"type": "object"}, {"type": "string"}, [SCHEMA]),
            "a JSON Schema of an object with properties, of at most 20000 characters",
        ),
    ],
)
def test_a_value_out_of_range_is_refused_in_the_file_and_in_the_chat_alike(
    tmp_path: Path, key: str, values: tuple[Any, ...], wants: str
) -> None:
    for value in values:
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"context": {key: value}}))
        with pytest.raises(SettingError, match=re.escape(f"; it must be {wants}")):
            load_layers(config, {})
        text = value if isinstance(value, str) else json.dumps(value)
        assert f"; it must be {wants}" in refusal(plain_book(tmp_path), f"context.{key}", text)


def test_not_a_number_is_no_number(book: SettingsStore) -> None:
    for text in ("NaN", "Infinity", "-Infinity"):
        assert "it must be a number" in refusal(book, "context.compression_trigger", text)


@pytest.mark.parametrize("value", [SCHEMA, json.loads(SCHEMA)])
def test_a_schema_may_be_an_object_or_its_text(tmp_path: Path, value: Any) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"context": {"summary_schema": value}}))
    book = SettingsStore(load_layers(config, {}))

    assert json.loads(book.effective().context.summary_schema) == json.loads(SCHEMA)
    assert json.loads(str(book.check("context.summary_schema", SCHEMA))) == json.loads(SCHEMA)


def test_the_limits_of_a_conversation_are_what_is_set(tmp_path: Path) -> None:
    book = plain_book(tmp_path)
    by_default = limits_of(book.effective(), DEFAULT_WINDOW, "")
    assert replace(by_default, context=ContextSettings()) == Limits()
    fields = ContextSettings().model_dump()
    assert by_default.context.model_dump(include=set(fields)) == fields

    book.set("context.fold_turns", 7)
    book.set("context.trigger_ratio", 0.5)
    book.set("agent_max_context_turns", 9)
    limits = limits_of(book.effective(), 8000, "small")

    assert (limits.fold_turns, limits.context.trigger_ratio, limits.max_turns) == (7, 0.5, 9)
    assert (limits.window, limits.model) == (8000, "small")


def test_a_group_is_no_setting_but_names_its_settings(book: SettingsStore) -> None:
    sentence = refusal(book, "context", "5")

    assert sentence.startswith("context is a group of settings: context.max_tokens, context.")


@pytest.mark.parametrize("key", ["owners", "plugins_dir", "log_level", "timezone"])
def test_what_concerns_the_whole_bot_is_not_set_for_one_conversation(
    book: SettingsStore, key: str
) -> None:
    assert refusal(book, key, "debug", ANN) == (
        f"{key} applies to the whole bot; it can't be set for one conversation."
    )
    with pytest.raises(SettingError):
        book.set(key, SETTINGS[key].default, ANN)
    assert not book.describe(key).is_per_conversation


def test_a_change_is_checked_together_with_what_holds_already(book: SettingsStore) -> None:
    book.set("context.max_tokens", 8000)

    assert refusal(book, "context.tool_result_limit", "9000", ANN) == (
        "context.tool_result_limit can't be 9000; it must be at most context.max_tokens, which "
        "is 8000."
    )


def test_a_global_change_that_a_conversation_cannot_live_with_names_it(book: SettingsStore) -> None:
    book.set("context.max_tokens", 8000, ANN)

    assert refusal(book, "context.tool_result_limit", "9000") == (
        "In the conversation telegram/ann, context.tool_result_limit can't be 9000; it must be "
        "at most context.max_tokens, which is 8000."
    )


def test_taking_a_change_back_is_checked_too(book: SettingsStore) -> None:
    book.set("context.max_tokens", 8000)
    book.set("context.max_tokens", 20_000, ANN)
    book.set("context.tool_result_limit", 9000, ANN)

    with pytest.raises(SettingError, match=r"at most context\.max_tokens, which is 8000"):
        book.unset("context.max_tokens", ANN)
    assert book.effective(ANN).context.max_tokens == 20_000


def test_a_check_alone_changes_nothing(book: SettingsStore) -> None:
    book.check("agent_max_steps", "3")

    assert book.effective().agent_max_steps == 10


def test_changes_from_the_database_are_taken_up_where_they_still_fit(book: SettingsStore) -> None:
    faults = book.adopt(
        {
            ANN: {"context.tool_result_limit": 9000, "agent_max_steps": 4},
            "": {"context.max_tokens": 8000, "gone": 1, "model": None},
        }
    )

    assert book.effective(ANN).agent_max_steps == 4
    assert book.effective(ANN).context.tool_result_limit == 0
    assert book.effective().context.max_tokens == 8000
    assert faults == (
        "An earlier /config is ignored: There is no setting 'gone'; /config lists them.",
        "An earlier /config is ignored: model is null; it must be a model's name, "
        "embedded or auto.",
        "An earlier /config is ignored: context.tool_result_limit is 9000; it must be at most "
        "context.max_tokens, which is 8000.",
    )


def test_layers_that_do_not_fit_each_other_are_refused_at_the_start(config: Path) -> None:
    config.write_text('{"context": {"max_tokens": 8000}}')
    layers = load_layers(config, {"PARLEY_CONTEXT__TOOL_RESULT_LIMIT": "9000"})

    with pytest.raises(SettingError, match=r"at most context\.max_tokens, which is 8000"):
        SettingsStore(layers)


def test_asking_at_every_step_costs_next_to_nothing(book: SettingsStore) -> None:
    book.set("agent_max_steps", 3, ANN)

    assert min(timeit.repeat(lambda: book.effective(ANN), number=1000, repeat=3)) < 0.01


def test_the_time_zone_is_the_one_set_or_the_machines(
    book: SettingsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    book.set("timezone", "Asia/Kolkata")
    assert book.effective().zone == ZoneInfo("Asia/Kolkata")

    book.unset("timezone")
    assert book.effective().zone == ZoneInfo(tzlocal.get_localzone_name() or "UTC")


TYPED = st.one_of(
    st.text(alphabet=st.characters(), max_size=80),
    st.integers().map(str),
    st.integers(min_value=1, max_value=1000).map(str),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda inside: st.lists(inside)
    ).map(json.dumps),
    st.sampled_from(
        ["trim", "full", "auto", "debug", "UTC", "a/b", "[", "null", "file:x", "\ud800"]
    ),
)


@given(key=st.sampled_from(list(SETTINGS)), text=TYPED, scope=st.sampled_from(["", ANN]))
def test_whatever_is_typed_is_a_valid_value_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, key: str, text: str, scope: str
) -> None:
    book = plain_book(tmp_path_factory.getbasetemp())
    before = book.describe_all(ANN)
    try:
        value = book.check(key, text, scope)
    except SettingError as error:
        sentence = str(error)
        assert "\n" not in sentence
        assert sentence.endswith((".", "?"))
        assert len(sentence) < 400
        assert book.describe_all(ANN) == before
        assert book.effective(ANN) == Settings()
    else:
        assert book.describe_all(ANN) == before
        book.set(key, json.loads(json.dumps(value)), scope)
        assert book.describe(key, scope).value == value


@given(key=st.text(max_size=80))
def test_whatever_is_taken_for_a_setting_gets_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, key: str
) -> None:
    book = plain_book(tmp_path_factory.getbasetemp())
    if key not in SETTINGS:
        assert "\n" not in refusal(book, key, "1")


def test_the_page_about_the_configuration_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"
