"""Digitorn's blocks of the configuration: `runtime.context`, brains, and agents as layers.

The YAML is copied from the document.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.models.selection import Credentials, place_of
from bot.choices import choice_of, summary_choice_of
from bot.settings import Layers, SettingError, Settings, SettingsStore, load_layers
from bot.settings.files import RUNTIME_CONTEXT
from bot.stages import credentials

RUNTIME_CONTEXT_BLOCK = """\
runtime:
  context:
    max_tokens: 200000         # 0 = auto-detect from provider
    output_reserved: 4096      # tokens reserved for the LLM reply
    strategy: summarize        # truncate | summarize
    keep_recent: 10            # most-recent messages preserved verbatim
    compression_trigger: 0.75  # pressure ratio (0.0-1.0) that fires compaction
    summary_max_tokens: 1024   # cap on the synthesised summary
    auto_compact: true         # auto-inject a context_pressure hook
    summary_brain:             # optional cheap brain dedicated to summaries
      provider: deepseek
      model: deepseek-chat
      backend: openai_compat
      config:
        api_key: "{{secret.DEEPSEEK_API_KEY}}"
"""
SUMMARY_BRAIN_BLOCK = """\
runtime:
  context:
    strategy: summarize
    summary_brain:
      provider: deepseek      # cheap model for summaries
      model: deepseek-chat
      backend: openai_compat
      config:
        api_key: "{{secret.DEEPSEEK_API_KEY}}"
      temperature: 0.0
      max_tokens: 1024
"""
AGENTS_BLOCK = """\
agents:
  - id: explorer
    brain:
      provider: deepseek
      model: deepseek-chat
      context:
        max_tokens: 65536     # explorer has a smaller window
        keep_recent: 15
        strategy: truncate    # cheap for read-only browsing
  - id: writer
    brain:
      provider: anthropic
      model: claude-sonnet-4-5
      context:
        max_tokens: 200000    # writer keeps full Sonnet window
        keep_recent: 8
        strategy: summarize   # smart summaries for long edits
"""
KEY = {"DEEPSEEK_API_KEY": "hush-hush-deep"}
ANN, BOB = "pipe/ann", "pipe/bob"

Configured = Callable[..., Layers]


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    """Return layers from YAML, or from an object as JSON."""

    def load(content: str | dict[str, Any], **environ: str) -> Layers:
        is_yaml = isinstance(content, str)
        path = tmp_path / ("config.yaml" if is_yaml else "config.json")
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return load_layers(path, environ)

    return load


@pytest.fixture
def refusal(configured: Configured) -> Callable[..., str]:
    def refused(content: str | dict[str, Any], **environ: str) -> str:
        with pytest.raises(SettingError) as caught:
            SettingsStore(configured(content, **environ))
        return str(caught.value)

    return refused


def in_force(layers: Layers) -> Settings:
    return SettingsStore(layers).effective()


# --- runtime.context ---


def test_the_block_runtime_context_is_taken_as_it_stands_in_the_document(
    configured: Configured,
) -> None:
    context = in_force(configured(RUNTIME_CONTEXT_BLOCK, **KEY)).context

    assert context.max_tokens == 200_000
    assert context.output_reserved == 4096
    assert context.strategy == "summarize"
    assert context.keep_recent == 10
    assert context.compression_trigger == 0.75
    assert context.summary_max_tokens == 1024
    assert context.auto_compact is True
    assert context.summary_brain.model == "deepseek-chat"
    assert len(RUNTIME_CONTEXT) == 8


def test_the_same_in_json_and_in_the_native_block(configured: Configured) -> None:
    fields = {"max_tokens": 65536, "keep_recent": 15, "strategy": "truncate"}

    assert (
        in_force(configured({"runtime": {"context": fields}}))
        == in_force(configured({"context": fields}))
        == in_force(configured({"runtime.context": fields}))
    )


UNKNOWN = "config.json has an unknown setting"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"context": {"max_token": 5}},
         f"{UNKNOWN} 'runtime.context.max_token'; did you mean 'runtime.context.max_tokens'?"),
        ({"context": {"full_turns": 5}},
         f"{UNKNOWN} 'runtime.context.full_turns'; did you mean 'context.full_turns'?"),
        ({"tools": []}, f"{UNKNOWN} 'runtime.tools'; did you mean 'runtime.hooks'?"),
        (5, "runtime in config.json is 5; it must be a group of settings."),
        ({"context": []}, "runtime.context in config.json is []; it must be a group of settings."),
        ({"context": {"keep_recent": 0}},
         "runtime.context.keep_recent in config.json is 0; it must be a whole number from 1 to "
         "1000."),
        ({"context": {"strategy": "slim"}},
         "runtime.context.strategy in config.json is 'slim'; it must be truncate or summarize; "
         "set the others in context.strategy."),
    ],
)  # fmt: skip
def test_what_does_not_fit_in_runtime_gets_one_sentence(
    refusal: Callable[..., str], content: object, sentence: str
) -> None:
    assert refusal({"runtime": content}) == sentence


def test_runtime_context_and_context_may_set_different_things_alone(
    configured: Configured, refusal: Callable[..., str]
) -> None:
    runtime = {"context": {"max_tokens": 5000}}
    context = in_force(configured({"runtime": runtime, "context": {"full_turns": 5}})).context
    assert (context.max_tokens, context.full_turns) == (5000, 5)
    assert refusal({"runtime": runtime, "context": {"max_tokens": 5000}}) == (
        "config.json has both 'runtime.context.max_tokens' and 'context.max_tokens', which are "
        "the same; keep one of them."
    )


# --- a brain for summaries ---


def test_the_documented_brain_for_summaries_has_its_own_endpoint_and_key(
    configured: Configured,
) -> None:
    layers = configured(SUMMARY_BRAIN_BLOCK, OPENAI_API_KEY="hush-open", **KEY)
    choice = summary_choice_of(in_force(layers))
    place = place_of(choice.brain, credentials(layers))

    assert choice.model == "deepseek-chat"
    assert (place.base_url, place.api_key) == ("https://api.deepseek.com/v1", "hush-hush-deep")
    assert (choice.brain.temperature, choice.brain.max_tokens) == (0.0, 1024)
    assert choice_of(in_force(layers)).brain.temperature is None, "the model that answers has none"
    for shown in (repr(choice), repr(place), repr(in_force(layers)), repr(layers.secrets)):
        assert "hush" not in shown


def test_a_key_is_shown_by_its_name_and_masked_in_logs(configured: Configured) -> None:
    layers = configured(
        {"context": {"summary_brain": {"model": "m", "config": {"api_key": "{{ secret.DEEP }}"}}}},
        DEEP="hush-hush",
    )
    info = SettingsStore(layers).describe("context.summary_brain.config.api_key")

    assert info.value == "{{ secret.DEEP }}"
    assert "hush" not in str(SettingsStore(layers).describe_all())
    assert layers.secrets.to_mask() == {"hush-hush"}


def test_a_key_as_plain_text_is_refused_and_not_repeated(refusal: Callable[..., str]) -> None:
    for written in ("sk-123456", "{{secret.A}}-{{secret.B}}", "{{secret.A}} x"):
        brain = {"model": "m", "config": {"api_key": written}}
        assert refusal({"context": {"summary_brain": brain}}, A="a", B="b") == (
            "context.summary_brain.config.api_key in config.json holds a key as plain text; put it "
            "into .env as NAME=…, and write {{secret.NAME}} here."
        )
        assert refusal({"agents": [{"id": "a", "brain": brain}]}, A="a", B="b").startswith(
            "brain.config.api_key of the agent a in config.json holds a key as plain text;"
        )
        name = "PARLEY_CONTEXT__SUMMARY_BRAIN__CONFIG__API_KEY"
        assert refusal({}, A="a", B="b", **{name: written}).startswith(f"{name} holds a key as ")


@pytest.mark.parametrize(
    ("brain", "sentence"),
    [
        ({"provider": "deepsek", "model": "m"},
         ".provider in config.json is 'deepsek'; it must be one of anthropic, azure, bedrock, "
         "cerebras, dashscope, deepseek, gemini, groq, llama.cpp, lmstudio, minimax, mistral, "
         "moonshot, ollama, openai, openrouter, siliconflow, together, vllm, volcengine, xai, zai, "
         "or any name with a config.base_url; did you mean "
         "'deepseek'?"),
        ({"model": "m", "backend": "grpc"},
         ".backend in config.json is 'grpc'; it must be auto, openai_compat, openai_responses or "
         "anthropic."),
        ({"model": "m", "temperature": 2.5},
         ".temperature in config.json is 2.5; it must be a number from 0 to 2, or null."),
        ({"model": "m", "max_tokens": -1},
         ".max_tokens in config.json is -1; it must be a whole number from 0 to 1000000."),
        ({"model": "m", "config": {"base_url": "ftp://x"}},
         ".config.base_url in config.json is 'ftp://x'; it must be an address with http:// or "
         "https://."),
        ("deepseek-chat", " in config.json is 'deepseek-chat'; it must be a group of settings."),
    ],
)  # fmt: skip
def test_a_brain_that_does_not_fit_gets_one_sentence(
    refusal: Callable[..., str], brain: object, sentence: str
) -> None:
    told = refusal({"context": {"summary_brain": brain}})
    assert told == f"context.summary_brain{sentence}"


def test_a_brain_names_its_model_by_a_field_that_there_is(refusal: Callable[..., str]) -> None:
    assert refusal({"context": {"summary_brain": {"provider": "groq"}}}) == (
        "summary_brain names a provider but no model; name one."
    )
    assert refusal({"context": {"summary_brain": {"modle": "m"}}}) == (
        f"{UNKNOWN} 'context.summary_brain.modle'; did you mean 'context.summary_brain.model'?"
    )


def test_a_brain_cannot_be_changed_from_the_chat(configured: Configured) -> None:
    book = SettingsStore(configured(RUNTIME_CONTEXT_BLOCK, **KEY))

    for key in ("provider", "model", "config.base_url", "config.api_key", "context.max_tokens"):
        with pytest.raises(
            SettingError, match="can only be set in the configuration or the environment"
        ):
            book.check(f"context.summary_brain.{key}", "x")


def test_the_environment_may_name_a_brain_too(configured: Configured) -> None:
    prefix = "PARLEY_CONTEXT__SUMMARY_BRAIN__"
    layers = configured(
        RUNTIME_CONTEXT_BLOCK, **KEY, **{f"{prefix}PROVIDER": "ollama", f"{prefix}MODEL": "small"}
    )
    place = place_of(summary_choice_of(in_force(layers)).brain, credentials(layers))

    assert place.base_url == "http://127.0.0.1:11434/v1"
    assert not place.api_key, "the key that the file names belongs to another endpoint"
    assert place.is_free


# --- where a brain is served ---


def brain_of(configured: Configured, **brain: Any) -> Any:
    content = {"context": {"summary_brain": {"model": "m", **brain}}}
    return summary_choice_of(in_force(configured(content, THEIRS="their-key"))).brain


def test_where_a_model_is_served_and_with_which_key(configured: Configured) -> None:
    given = Credentials("own-key", "http://own/v1", {"GROQ_API_KEY": "groq-key", "": ""})
    theirs = {"api_key": "{{secret.THEIRS}}"}

    def place(**brain: Any) -> tuple[str, str, str]:
        found = place_of(brain_of(configured, **brain), given)
        return found.base_url, found.api_key, found.missing

    assert place() == ("http://own/v1", "own-key", "")
    assert place(provider="openai") == ("http://own/v1", "own-key", "")
    assert place(provider="groq") == ("https://api.groq.com/openai/v1", "groq-key", "")
    assert place(provider="groq", config=theirs)[1] == "their-key"
    assert place(provider="groq", config={"base_url": "http://proxy/v1"})[1] == "groq-key"
    assert place(provider="mistral")[2] == "MISTRAL_API_KEY"
    assert place(provider="ollama") == ("http://127.0.0.1:11434/v1", "", "")
    own_server = {"base_url": "http://nas/v1"}
    assert place(provider="nas", config=own_server) == ("http://nas/v1", "", "")
    assert place(config=own_server) == ("http://nas/v1", "", ""), "no key goes to a new address"
    assert place(config=own_server | theirs) == ("http://nas/v1", "their-key", "")


# --- agents ---


def test_what_an_agent_leaves_out_falls_back_to_everybodys(configured: Configured) -> None:
    book = SettingsStore(configured({"runtime": {"context": {"summary_max_tokens": 99}}}))
    assert book.effective().context.summary_max_tokens == 99
    content = {
        "runtime": {"context": {"summary_max_tokens": 99, "keep_recent": 5}},
        "system_prompt": "Be kind.",
        "model": "own",
        "agents": [{"id": "a", "brain": {"context": {"keep_recent": 7}}}],
    }
    book = SettingsStore(configured(content))
    book.set("agent", "a", ANN)
    settings = book.effective(ANN)

    assert (settings.context.summary_max_tokens, settings.context.keep_recent) == (99, 7)
    assert (settings.system_prompt, settings.model) == ("Be kind.", "own")


def test_an_agent_ranks_above_config_and_below_here(configured: Configured) -> None:
    content = {
        "context": {"keep_recent": 2},
        "agents": [{"id": "a", "brain": {"context": {"keep_recent": 5}}}],
    }
    book = SettingsStore(configured(content, PARLEY_CONTEXT__KEEP_RECENT="3"))
    key = "context.keep_recent"

    def held() -> tuple[int, str]:
        info = book.describe(key, ANN)
        assert info.value == book.effective(ANN).context.keep_recent
        return info.value, info.layer

    assert held() == (3, "environment")
    book.set(key, 4)
    assert held() == (4, "/config")
    book.set("agent", "a", ANN)
    assert held() == (5, "agent a")
    book.set(key, 6, ANN)
    assert held() == (6, "--here")
    book.unset(key, ANN)
    assert held() == (5, "agent a")
    book.unset("agent", ANN)
    assert held() == (4, "/config")
    assert book.describe("context.max_tokens", ANN).layer == "default"


def test_an_agent_may_answer_everywhere_and_one_conversation_do_without(
    configured: Configured,
) -> None:
    agents = [{"id": "a", "system_prompt": "You are A."}]
    book = SettingsStore(configured({"agent": "a", "agents": agents}))
    book.set("agent", "default", ANN)

    assert book.effective(BOB).system_prompt == "You are A."
    assert book.effective(ANN).system_prompt == ""
    assert book.describe("system_prompt", BOB).layer == "agent a"
    assert book.describe("agent").choices == ("default", "a")


def test_an_agents_prompt_may_stand_in_a_file_and_its_values_name_secrets(
    configured: Configured, tmp_path: Path
) -> None:
    (tmp_path / "who.md").write_text("You are Ann.\n")
    agents = [{"id": "a", "system_prompt": "who.md", "brain": {"model": "{{secret.NAME}}"}}]
    book = SettingsStore(configured({"agents": agents}, NAME="m1"))
    settings = book.with_agent("a")

    assert (settings.system_prompt, settings.model) == ("You are Ann.", "m1")


def test_an_agents_own_endpoint_gets_no_key_and_no_fallbacks_of_another(
    configured: Configured,
) -> None:
    content = {
        "fallback_models": ["gpt-4o"],
        "context": {
            "summary_brain": {
                "provider": "deepseek",
                "model": "deepseek-chat",
                "config": {"api_key": "{{secret.DEEPSEEK_API_KEY}}"},
                "temperature": 0.5,
            }
        },
        "agents": [
            {
                "id": "a",
                "brain": {
                    "provider": "nas",
                    "model": "m",
                    "config": {"base_url": "http://nas/v1"},
                    "context": {"summary_brain": {"provider": "groq", "model": "small"}},
                },
            }
        ],
    }
    layers = configured(content, OPENAI_API_KEY="own", **KEY)
    book = SettingsStore(layers)
    book.set("agent", "a", ANN)
    settings = book.effective(ANN)

    assert settings.fallback_models == ()
    assert place_of(settings.brain, credentials(layers)).api_key == ""
    summaries = summary_choice_of(settings)
    assert place_of(summaries.brain, credentials(layers)).missing == "GROQ_API_KEY"
    assert summaries.brain.temperature == 0.5, "what is no endpoint falls back"
    info = book.describe("context.summary_brain.config.api_key", ANN)
    assert (info.value, info.layer) == ("", "agent a")


def test_quirks_belong_to_the_endpoint_that_they_were_set_for(configured: Configured) -> None:
    content = {
        "brain": {
            "config": {"base_url": "http://nas/v1"},
            "quirks": {"call_ids": 9, "without": ["stream_options"], "local": True},
        },
        "context": {"summary_brain": {"model": "small"}},
        "agents": [
            {"id": "a", "brain": {"quirks": {"call_ids": 8}}},
            {"id": "b", "brain": {"provider": "groq", "model": "m", "quirks": {"sees": False}}},
        ],
    }
    book = SettingsStore(configured(content))
    given = {"local": True, "call_ids": 9, "without": ("stream_options",)}
    assert dict(book.effective().brain.quirks.given) == given
    assert dict(book.with_agent("a").brain.quirks.given) == given | {"call_ids": 8}
    assert dict(book.with_agent("b").brain.quirks.given) == {"sees": False}
    assert dict(summary_choice_of(book.effective()).brain.quirks.given) == given


@pytest.mark.parametrize(
    ("quirks", "sentence"),
    [
        (
            {"call_ids": "nine"},
            "brain.quirks.call_ids in config.json is 'nine'; it must be null, or a whole "
            "number from 0 to 40.",
        ),
        (
            {"hides": "("},
            "brain.quirks.hides in config.json is '('; it must be null, or a regular expression.",
        ),
        (
            {"thougts": ""},
            "config.json has an unknown setting 'brain.quirks.thougts'; did you mean "
            "'brain.quirks.thoughts'?",
        ),
    ],
)
def test_a_quirk_that_does_not_fit_gets_one_sentence(
    refusal: Callable[..., str], quirks: object, sentence: str
) -> None:
    assert refusal({"brain": {"quirks": quirks}}) == sentence


def test_a_summary_brain_without_a_provider_is_served_where_the_agent_is(
    configured: Configured,
) -> None:
    brain = {
        "provider": "groq",
        "model": "big",
        "temperature": 0.3,
        "context": {"summary_brain": {"model": "small"}},
    }
    book = SettingsStore(configured({"agents": [{"id": "a", "brain": brain}]}))
    choice = summary_choice_of(book.with_agent("a"))

    assert (choice.model, choice.brain.provider) == ("small", "groq")
    assert choice.brain.temperature is None


@pytest.mark.parametrize(
    ("agents", "sentence"),
    [
        ({}, "agents in config.json is {}; it must be a list of agents."),
        (["a"], "agents[0] in config.json is 'a'; it needs an id and a brain."),
        ([{"id": "a b"}], "agents[0] in config.json has the id 'a b'; an id has up to 64 letters, "
                          "digits, - or _."),
        ([{"id": "a"}, {"id": "a"}],
         "agents in config.json has two agents 'a'; rename one of them."),
        ([{"id": "default"}],
         "agents in config.json has an agent 'default', which means none of them; rename it."),
        ([{"id": "a", "description": 5}], "agents[0] in config.json has the description 5; it must "
                                          "be text of at most 1000 characters."),
        ([{"id": "a", "brain": {"context": {"keep_recnt": 5}}}],
         "the agent a in config.json has an unknown setting 'brain.context.keep_recnt'; did you "
         "mean 'brain.context.keep_recent'?"),
        ([{"id": "a", "context": {"keep_recent": 5}}],
         "the agent a in config.json has an unknown setting 'context'; did you mean "
         "'brain.context'?"),
        ([{"id": "a", "brain": {"context": {"keep_recent": 0}}}],
         "brain.context.keep_recent of the agent a in config.json is 0; it must be a whole number "
         "from 1 to 1000."),
        ([{"id": "a", "brain": {"provider": "groq"}}],
         "The agent a in config.json has a brain.provider but no brain.model; name one."),
        ([{"id": "a", "brain": {"context": {"max_tokens": 500}}}],
         "For the agent a, context.tool_result_limit is 900; it must be at most "
         "context.max_tokens, which is 500."),
    ],
)  # fmt: skip
def test_agents_that_do_not_fit_get_one_sentence(
    refusal: Callable[..., str], agents: object, sentence: str
) -> None:
    assert refusal({"context": {"tool_result_limit": 900}, "agents": agents}) == sentence


def test_an_agent_that_nobody_knows_is_not_chosen(
    configured: Configured, refusal: Callable[..., str]
) -> None:
    agents = [{"id": "writer"}]
    book = SettingsStore(configured({"agents": agents}))

    with pytest.raises(SettingError, match=r"no agent 'writr'.*; did you mean 'writer'"):
        book.check("agent", "writr", ANN)
    with pytest.raises(SettingError, match="there are: default, writer"):
        book.set("agent", "zzz")
    assert refusal({"agent": "writr", "agents": agents}) == (
        "There is no agent 'writr' in the configuration; did you mean 'writer'?"
    )


def test_an_agent_that_is_gone_from_the_file_falls_back_with_a_sentence(
    configured: Configured,
) -> None:
    book = SettingsStore(configured({}))

    faults = book.adopt({ANN: {"agent": "writer", "agent_max_steps": 3}})

    assert faults == (
        "The conversation pipe/ann had chosen the agent 'writer', which is no longer in the "
        "configuration; it goes on without one.",
    )
    assert book.effective(ANN).agent == "default"
    assert book.effective(ANN).agent_max_steps == 3


def test_a_change_for_all_that_an_agent_cannot_live_with_names_it(configured: Configured) -> None:
    agents = [{"id": "a", "brain": {"context": {"max_tokens": 500}}}]
    book = SettingsStore(configured({"agents": agents}))

    with pytest.raises(SettingError, match=r"For the agent a, context\.tool_result_limit is 900"):
        book.set("context.tool_result_limit", 900)
    assert book.effective().context.tool_result_limit == 0
