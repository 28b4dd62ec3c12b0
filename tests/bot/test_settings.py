"""The book of settings: the values in force, their sources, and the limits of changes in the
chat."""

from __future__ import annotations

import json
import re
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
from bot.settings.schema import SETTINGS
from memory.context.settings import DEFAULT_WINDOW, ContextSettings, Limits
from tests.docs.settings import PAGE, page

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


def test_a_change_for_one_conversation_is_felt_in_no_other_and_a_global_one_in_all(
    book: SettingsStore,
) -> None:
    book.set("context.strategy", "full", ANN)
    assert book.effective(ANN).context.strategy == "full"
    assert book.effective(BOB).context.strategy == "trim"
    assert book.effective().context.strategy == "trim"
    book.set("agent_max_steps", 3)
    assert book.effective(ANN).agent_max_steps == 3
    assert book.effective(ANN).context.strategy == "full"
    book.unset("agent_max_steps", ANN)  # which was never set
    book.unset("agent_max_steps")
    assert book.effective(ANN).agent_max_steps == 10


def test_a_setting_tells_all_that_config_shows(book: SettingsStore) -> None:
    info = book.describe("agent_max_context_turns")
    assert (info.default, info.unit) == (20, "turns")
    assert info.wants == "a whole number from 0 to 1000"
    assert info.meaning.startswith("Above this many turns")
    assert book.describe("context.strategy").choices == STRATEGIES
    assert book.describe("context.strategy").wants == STRATEGY
    assert book.describe("context.auto_compact").choices == ("true", "false")
    assert book.describe("log_level").wants == "debug, info, warning or error"
    infos = book.describe_all()
    assert [info.key for info in infos] == list(SETTINGS)
    assert all(info.meaning.endswith(".") and info.wants for info in infos)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("agent_max_steps", {"20": 20, " 20 ": 20}),
        ("context.strategy", {"full": "full", '"full"': "full"}),
        ("model", {"My Model.gguf": "My Model.gguf", "1984": "1984"}),
        ("system_prompt", {"Be brief.\nBe kind.": "Be brief.\nBe kind.", '""': "",
                           '"Yes" is a word': '"Yes" is a word'}),
        ("fallback_models", {"one, two": ["one", "two"], "one": ["one"], "": [], "[]": [],
                             '["one", "two, three"]': ["one", "two, three"]}),
        ("timezone", {"Asia/Kolkata": "Asia/Kolkata"}),
        ("context.fold_turns", {"auto": "auto", "7": 7}),
        ("context.compression_trigger", {"0.6": 0.6, "1": 1}),
        ("context.auto_compact", {"no": False, "Yes": True, "on": True, "false": False}),
    ],
)  # fmt: skip
def test_what_a_person_types_becomes_a_value(
    book: SettingsStore, key: str, values: dict[str, Any]
) -> None:
    assert {text: book.check(key, text) for text in values} == values


def test_a_number_is_taken_only_where_it_can_mean_one_thing(book: SettingsStore) -> None:
    numbers = [
        "20.0",
        "1e3",
        "20k",
        "50,000",
        "1_000",
        "+5",
        "007",
        "0x10",
        "-5",
        "1001",
        "NaN",
        "Infinity",
        "１２",
        "٣",
    ]
    others = ("20 30", "null", "true", "", "abc", "[20]", "{}", "9" * 5000)
    for text in (*numbers, *others):
        sentence = refusal(book, "agent_max_context_turns", text)
        assert sentence.startswith("agent_max_context_turns can't be ")
        assert sentence.endswith("; it must be a whole number from 0 to 1000.")
    for text in ("NaN", "Infinity", "-Infinity"):
        assert "it must be a number" in refusal(book, "context.compression_trigger", text)


MODEL, LIST = "a model's name, embedded or auto", "a list of up to 20 names of models: a, b"
PEOPLE = "a list of people as CHANNEL/USER: telegram/42, pipe/ann"


@pytest.mark.parametrize(
    ("key", "text", "shown", "wants"),
    [
        ("agent_max_context_turns", "abc", "'abc'", "a whole number from 0 to 1000"),
        ("model", "null", "null", MODEL),
        ("model", "a\nb", "'a\\nb'", MODEL),
        ("model", "\ud800", "'\\ud800'", MODEL),
        ("fallback_models", "one,,two", '["one", "", "two"]', LIST),
        ("fallback_models", "null", "null", LIST),
        ("owners", "ann", '["ann"]', PEOPLE),
        ("owners", "[" * 100_000, f"'{'[' * 60}…'", PEOPLE),
        ("timezone", "/etc/passwd", "'/etc/passwd'",
         "an IANA name such as Europe/Berlin, or auto"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_is_wanted(
    book: SettingsStore, key: str, text: str, shown: str, wants: str
) -> None:
    assert refusal(book, key, text) == f"{key} can't be {shown}; it must be {wants}."


@pytest.mark.parametrize(
    ("key", "text", "wants"),
    [
        ("context.stub_tools", '"true"', "true or false"),
        ("context.stub_tools", "'FALSE'", "true or false"),
        ("agent_max_steps", '"5"', "a whole number from 1 to 200"),
        ("agent_max_steps", "'500'", "a whole number from 1 to 200"),
    ],
)
def test_a_value_in_quotation_marks_is_said_to_be(
    book: SettingsStore, key: str, text: str, wants: str
) -> None:
    told = refusal(book, key, text)
    assert told.endswith(f"; it must be {wants}, without quotation marks.")


def test_a_refusal_says_what_was_meant(book: SettingsStore) -> None:
    assert refusal(book, "context.strategy", "Full") == (
        f"context.strategy can't be 'Full'; it must be {STRATEGY}; did you mean 'full'?"
    )
    assert refusal(book, "system_prompt", "file:.env") == (
        "system_prompt can't name a file here; write the text itself."
    )
    assert refusal(book, "max_turns", "5") == (
        "There is no setting 'max_turns'; did you mean 'agent_max_context_turns'?"
    )
    assert refusal(book, "zzz", "5") == "There is no setting 'zzz'; /config lists them."
    group = refusal(book, "context", "5")
    assert group.startswith("context is a group of settings: context.max_tokens, context.")


SCHEMA = '{"type": "object", "properties": {"goal": {"type": "string"}}}'


@pytest.mark.parametrize(
    ("key", "values", "wants"),
    [
        ("max_tokens", (-1, 2_000_001, True, 1.5), "a whole number from 0 to 2000000"),
        ("fold_turns", (0, 101, 7.0, "Auto", True), "a whole number from 1 to 100, or auto"),
        ("compression_trigger", (-0.1, 1.01, "high", True), "a number from 0.0 to 1.0"),
        ("trigger_ratio", (0, 0.91, -0.5, None), "a number above 0 and at most 0.9"),
        ("auto_compact", (0, 1, "maybe", None, [True]), "true or false"),
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
    config, chat = tmp_path / "config.json", plain_book(tmp_path)
    for value in values:
        config.write_text(json.dumps({"context": {key: value}}))
        with pytest.raises(SettingError, match=re.escape(f"; it must be {wants}")):
            load_layers(config, {})
        text = value if isinstance(value, str) else json.dumps(value)
        assert f"; it must be {wants}" in refusal(chat, f"context.{key}", text)


def test_each_limit_of_the_context_has_the_range_that_is_documented(book: SettingsStore) -> None:
    ranges = {
        "full_turns": "a whole number from 1 to 10",
        "max_terse_entries": "a whole number from 1 to 500",
        "keep_recent": "a whole number from 1 to 1000",
        "reserve_ratio": "a number from 0.01 to 0.5",
    }
    assert {key: book.describe(f"context.{key}").wants for key in ranges} == ranges


def test_a_schema_may_be_an_object_or_its_text(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    for value in (SCHEMA, json.loads(SCHEMA)):
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


def test_what_concerns_the_whole_bot_is_not_set_for_one_conversation(book: SettingsStore) -> None:
    for key in ("owners", "plugins_dir", "log_level", "timezone"):
        assert refusal(book, key, "debug", ANN) == (
            f"{key} applies to the whole bot; it can't be set for one conversation."
        )
        with pytest.raises(SettingError):
            book.set(key, SETTINGS[key].default, ANN)
        assert not book.describe(key).is_per_conversation


def test_a_change_is_checked_together_with_what_holds_already(book: SettingsStore) -> None:
    sentence = (
        "context.tool_result_limit can't be 9000; it must be at most context.max_tokens, which "
        "is 8000."
    )
    book.set("context.max_tokens", 8000, ANN)
    assert refusal(book, "context.tool_result_limit", "9000", ANN) == sentence
    assert refusal(book, "context.tool_result_limit", "9000") == (
        f"In the conversation {ANN}, {sentence}"
    )
    book.set("context.max_tokens", 8000)
    book.set("context.max_tokens", 20_000, ANN)
    book.set("context.tool_result_limit", 9000, ANN)
    with pytest.raises(SettingError, match=r"at most context\.max_tokens, which is 8000"):
        book.unset("context.max_tokens", ANN)
    assert book.effective(ANN).context.max_tokens == 20_000


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


def test_settings_in_force_are_made_once_for_all_who_ask(book: SettingsStore) -> None:
    book.set("agent_max_steps", 3, ANN)
    assert book.effective(ANN) is book.effective(ANN)


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
