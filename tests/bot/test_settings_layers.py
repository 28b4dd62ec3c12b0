"""Settings from files and the environment: valid values, and the sentences about invalid ones."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.settings import Layers, SettingError, Settings, SettingsStore, load_layers
from bot.settings.files import read_env
from bot.settings.layers import variable
from bot.settings.schema import SETTINGS

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def layers(config: Path, **environ: str) -> Layers:
    return load_layers(config, environ)


def in_force(config: Path, **environ: str) -> Settings:
    return SettingsStore(layers(config, **environ)).effective()


def refusal(config: Path, **environ: str) -> str:
    with pytest.raises(SettingError) as caught:
        layers(config, **environ)
    return str(caught.value)


def test_an_empty_configuration_gives_the_documented_defaults(write: Write) -> None:
    settings = in_force(write("config.json", "{}"))
    assert settings == Settings()
    assert settings == in_force(write("config.yaml", "# nothing yet\n"))
    assert settings == in_force(Path(__file__).parents[2] / "config.json"), "the one that ships"
    assert (settings.agent_max_context_tokens, settings.agent_max_context_turns) == (50_000, 20)
    assert (settings.agent_max_steps, settings.model) == (15, "auto")
    assert (settings.context.output_reserved, settings.context.strategy) == (4096, "trim")


def test_json_and_yaml_say_the_same(write: Write) -> None:
    for name, content in (
        ("a.json", '{"agent_max_steps": 7, "context": {"strategy": "full"}, "owners": ["a/1"]}'),
        ("b.json", '\ufeff{"agent_max_steps": 7, "context.strategy": "full", "owners": ["a/1"]}'),
        ("c.yaml", "agent_max_steps: 7\ncontext:\n  strategy: full\nowners:\n- a/1\n"),
        ("d.YML", "{agent_max_steps: 7, context: {strategy: full}, owners: [a/1]}"),
    ):
        settings = in_force(write(name, content))
        assert (settings.agent_max_steps, settings.owners) == (7, ("a/1",)), name
        assert settings.context.strategy == "full", name


def test_words_that_older_yaml_takes_for_something_else_stay_words(write: Write) -> None:
    settings = in_force(write("config.yaml", "model: on\nsystem_prompt: 2024-01-31\n"))

    assert settings.model == "on"
    assert settings.system_prompt == "2024-01-31"


@pytest.mark.parametrize("place", ["context:", "runtime:\n  context:"])
def test_yaml_says_yes_and_no_in_its_words_and_a_quoted_one_is_text(
    write: Write, place: str
) -> None:
    def flag(word: str) -> bool:
        indent = " " * (place.count("  ") * 2 + 2)
        return in_force(
            write("config.yaml", f"{place}\n{indent}auto_compact: {word}\n")
        ).context.auto_compact

    assert all(map(flag, ("true", "True", "TRUE", "yes", "On")))
    assert not any(map(flag, ("false", "False", "FALSE", "no", "OFF")))
    for word in ('"true"', "'False'", "1", "y", '""', "~"):
        with pytest.raises(SettingError, match="must be true or false"):
            flag(word)


def test_the_environment_outranks_the_file(write: Write) -> None:
    config = write("config.json", '{"agent_max_steps": 7, "agent_max_context_turns": 8}')

    settings = in_force(
        config,
        PARLEY_AGENT_MAX_STEPS="9",
        PARLEY_CONTEXT__STRATEGY="full",
        PARLEY_FALLBACK_MODELS="one, two",
        HOME="/nowhere",
    )

    assert (settings.agent_max_steps, settings.agent_max_context_turns) == (9, 8)
    assert settings.context.strategy == "full"
    assert settings.fallback_models == ("one", "two")


def test_a_dotenv_file_counts_as_environment_and_ranks_below_it(write: Write) -> None:
    write(".env", "PARLEY_MODEL=small\nPARLEY_AGENT_MAX_STEPS=3\nOPENAI_API_KEY='sk-1 2'\n")
    config = write("config.json", '{"model": "big"}')

    settings = in_force(config, PARLEY_AGENT_MAX_STEPS="4")

    assert (settings.model, settings.agent_max_steps) == ("small", 4)
    assert layers(config).secrets["OPENAI_API_KEY"] == "sk-1 2"
    assert layers(config, OPENAI_API_KEY="other").secrets["OPENAI_API_KEY"] == "other"


def test_secrets_fill_the_configuration_and_are_not_shown(write: Write) -> None:
    config = write(
        "config.json", '{"fallback_models": ["x", "{{secret.MY_TOKEN}}-{{ secret.B }}"]}'
    )

    taken = layers(config, MY_TOKEN="hush-hush", B="b")
    book = SettingsStore(taken)

    assert book.effective().fallback_models == ("x", "hush-hush-b")
    shown = book.describe("fallback_models")
    assert shown.value == ["x", "{{secret.MY_TOKEN}}-{{ secret.B }}"]
    assert "hush" not in repr(taken.secrets)
    assert taken.secrets.to_mask() == {"hush-hush", "b"}


def test_a_secret_that_is_wrong_or_missing_is_told_by_its_name(write: Write) -> None:
    config = write("config.json", '{"timezone": "{{secret.KEY}}"}')
    assert refusal(config, KEY="sk-hush") == (
        "timezone in config.json is '{{secret.KEY}}'; it must be an IANA name such as "
        "Europe/Berlin, or auto."
    )
    assert refusal(write("config.json", '{"model": "{{secret.NO}}"}')) == (
        "model in config.json names {{secret.NO}}, but NO is neither in the environment nor in "
        ".env; set it in one of them."
    )
    for name in ("my-key", "a.b", "schlüssel", "钥匙"):
        config = write("config.json", f'{{"system_prompt": "{{{{secret.{name}}}}}"}}')
        assert f"names {{{{secret.{name}}}}}, but {name} is neither" in refusal(config)


def test_a_system_prompt_may_stand_in_a_file_beside_the_configuration(write: Write) -> None:
    write("who.md", "You are Ann.\n{{secret.NO}}\n")
    write("my words.txt", "You are Ann.\n{{secret.NO}}")
    for value in ("file:who.md", "who.md", "my words.txt"):
        config = write("config.json", f'{{"system_prompt": "{value}"}}')
        assert in_force(config).system_prompt == "You are Ann.\n{{secret.NO}}"
        assert SettingsStore(layers(config)).describe("system_prompt").value == value
    config = write("config.json", '{"system_prompt": "Keep notes in diary.md"}')
    assert in_force(config).system_prompt == "Keep notes in diary.md", "no name of a file"


def test_a_system_prompt_that_names_a_pipe_is_refused_and_not_waited_for(
    write: Write, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "prompt.txt")
    config = write("config.json", '{"system_prompt": "file:prompt.txt"}')
    assert "is a pipe; name a file" in refusal(config)


def test_a_system_prompt_whose_file_is_gone_or_too_long_is_refused(
    write: Write, tmp_path: Path
) -> None:
    for value in ("file:gone.md", "prompts/gone.txt"):
        config = write("config.json", f'{{"system_prompt": "{value}"}}')
        path = tmp_path / value.removeprefix("file:")
        sentence = f"{path} (the system prompt) was not found; create it, or name another."
        assert refusal(config) == sentence
    write("who.md", "x" * 100_001)
    assert refusal(write("config.json", '{"system_prompt": "who.md"}')) == (
        "system_prompt in config.json is 'who.md'; it must be text of at most 100000 characters."
    )


UNKNOWN = "config.json has an unknown setting"
STRATEGY = "it must be trim, slim, full, truncate, summarize, structured or stubs; did you mean"
PEOPLE = "it must be a list of people as CHANNEL/USER: telegram/42, pipe/ann."


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"agent_max_context_turn": 3}',
         f"{UNKNOWN} 'agent_max_context_turn'; did you mean 'agent_max_context_turns'?"),
        ('{"strategy": "full"}', f"{UNKNOWN} 'strategy'; did you mean 'context.strategy'?"),
        *((f'{{"{key}": 1}}', f"{UNKNOWN} '{key}'; did you mean 'brain.{name}'?")
          for key, name in [("base_url", "config.base_url"), ("temperature", "temperature"),
                            ("api_key", "config.api_key"), ("max_tokens", "max_tokens")]),
        ('{"context": {"Stratgy": "full"}}',
         f"{UNKNOWN} 'context.Stratgy'; did you mean 'context.strategy'?"),
        ('{"openai_api_key": "sk-hush"}',
         f"{UNKNOWN} 'openai_api_key'; keys and tokens belong in .env."),
        ('{"": 1}', f"{UNKNOWN} ''."),
        ('{"context": 5}', "context in config.json is 5; it must be a group of settings."),
        ('{"context": {"strategy": "trimm"}}',
         f"context.strategy in config.json is 'trimm'; {STRATEGY} 'trim'?"),
        ('{"timezone": "Berlin"}',
         "timezone in config.json is 'Berlin'; it must be an IANA name such as Europe/Berlin, "
         "or auto; did you mean 'Europe/Berlin'?"),
        ('{"owners": ["ann", 5]}', f'owners in config.json is ["ann", 5]; {PEOPLE}'),
        ('{"owners": "telegram/42"}', f"owners in config.json is 'telegram/42'; {PEOPLE}"),
        ('{"context.strategy": "full", "context": {"strategy": "full"}}',
         "config.json has 'context.strategy' twice; keep one of them."),
        ('{"context": {"max_tokens": 8000, "tool_result_limit": 9000}}',
         "context.tool_result_limit is 9000; it must be at most context.max_tokens, which is "
         "8000."),
        (f'{{"model": "{" x" * 500}"}}',
         f"model in config.json is '{' x' * 30}…'; it must be a model's name, embedded or auto."),
    ],
)  # fmt: skip
def test_what_does_not_fit_gets_one_clear_sentence(
    write: Write, content: str, sentence: str
) -> None:
    assert refusal(write("config.json", content)) == sentence


def test_a_number_of_steps_is_a_whole_number_in_its_range(write: Write) -> None:
    for value in [
        "true",
        "null",
        "20.0",
        "1e1",
        '"20"',
        "[20]",
        "-5",
        "0",
        "201",
        "NaN",
        "1e999",
        "{}",
    ]:
        sentence = refusal(write("config.json", f'{{"agent_max_steps": {value}}}'))
        assert sentence.startswith("agent_max_steps in config.json is ")
        unquoted = ", without quotation marks" if value == '"20"' else ""
        assert sentence.endswith(f"; it must be a whole number from 1 to 200{unquoted}.")


def test_a_port_that_there_is_not_is_refused(write: Write) -> None:
    for port in (70_000, -1):
        sentence = refusal(write("config.json", f'{{"web": {{"port": {port}}}}}'))
        assert sentence.startswith(f"web.port in config.json is {port}; it must be ")


def test_several_faults_get_a_line_each(write: Write) -> None:
    config = write("config.json", '{"modle": "a", "agent_max_steps": 0, "owners": [1, 2]}')
    lines = refusal(config, PARLEY_MODELL="b", PARLEY_TURN_TIMEOUT="soon").splitlines()
    assert [line.split(" ")[0] for line in lines] == [
        *("config.json", "agent_max_steps", "owners", "PARLEY_MODELL", "PARLEY_TURN_TIMEOUT")
    ]


def test_the_environment_is_held_to_the_same(write: Write) -> None:
    config = write("config.json", "{}")
    for name, value, sentence in (
        ("PARLEY_AGENT_MAX_STEP", "3",
         " in the environment is not a setting; did you mean PARLEY_AGENT_MAX_STEPS?"),
        ("PARLEY_", "3", " in the environment is not a setting."),
        ("PARLEY_AGENT_MAX_STEPS", "many", " is 'many'; it must be a whole number from 1 to 200."),
        ("PARLEY_CONTEXT__STRATEGY", "FULL", f" is 'FULL'; {STRATEGY} 'full'?"),
    ):  # fmt: skip
        assert refusal(config, **{name: value}) == f"{name}{sentence}"


QUOTED = 'names and texts stand in straight double quotation marks, as in "model"'
OBJECT = "it must be an object: names of settings with values."


@pytest.mark.parametrize(
    ("content", "ending"),
    [
        ("", "is not valid JSON: line 1, column 1: it is empty; write {}."),
        ("{", "is not valid JSON: line 1, column 2: something is missing at the end."),
        ("{}{}", "is not valid JSON: line 1, column 3: something stands behind the end."),
        ("{'model': 'a'}", f"is not valid JSON: line 1, column 2: {QUOTED}."),
        ("{model: 1}", f"is not valid JSON: line 1, column 2: {QUOTED}."),
        ('{"model": \u201ca\u201d}', f"is not valid JSON: line 1, column 11: {QUOTED}."),
        ('{"a": "C:\\Users"}', "is not valid JSON: line 1, column 10: a backslash in a text is "
                             r"written twice: C:\\Users."),
        ('{\n "model": }', "is not valid JSON: line 2, column 11: expecting value."),
        ('{"model": "a", "model": "b"}', "is not valid JSON: it has 'model' twice."),
        ("[" * 100_000, "is nested too deeply; settings are a flat list."),
        ('["a"]', f'holds ["a"]; {OBJECT}'),
        ("null", f"holds null; {OBJECT}"),
        (b"\xff{}", "(the configuration) is not UTF-8 text; save it as UTF-8."),
        (" " * 1_000_001, "(the configuration) is larger than 1 MB; make it smaller."),
    ],
)  # fmt: skip
def test_a_json_file_that_is_no_configuration_is_named_with_the_place(
    write: Write, content: str | bytes, ending: str
) -> None:
    config = write("config.json", content)
    assert refusal(config) == f"{config} {ending}"


def test_a_comma_too_many_or_too_few_is_named_with_its_line(write: Write) -> None:
    tree = {"model": "a", "owners": ["x/1", "x/2"], "web": {"port": 1, "host": "b"}, "agents": []}
    lines = json.dumps(tree, indent=1).splitlines()
    for number, line in enumerate(lines[:-1], 1):
        if line.endswith(","):
            changed, told = line[:-1], f"line {number} lacks a comma or a closing bracket"
        elif lines[number].strip()[:1] in ("}", "]") and not line.endswith(("[", "{")):
            closing = lines[number].strip()[0]
            changed, told = f"{line},", f"line {number} has a comma too many before {closing}"
        else:
            continue
        config = write("config.json", "\n".join([*lines[: number - 1], changed, *lines[number:]]))
        assert refusal(config) == f"{config} is not valid JSON: {told}."


@given(
    at=st.integers(0, 9),
    comment=st.sampled_from(("// mine", "/* mine */", "# mine")),
    data=st.data(),
)
def test_a_comment_is_named_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, at: int, comment: str, data: st.DataObject
) -> None:
    tree = {"model": "a", "owners": ["x/1", "x/2"], "web": {"port": 1, "host": "b"}}
    lines = json.dumps(tree, indent=1).splitlines()
    if data.draw(st.booleans(), "on a line of its own"):
        lines.insert(at, comment)
    else:
        lines[at] += f" {comment}"
    config = tmp_path_factory.mktemp("comment") / "config.json"
    config.write_text("\n".join(lines))
    told = refusal(config)
    assert told.startswith(f"{config} is not valid JSON: line {at + 1}, column "), told
    assert told.endswith(": JSON has no comments; take it out."), told


@pytest.mark.parametrize(
    ("content", "ending"),
    [
        ("a: [", "is not valid YAML: line 1, column 5: expected the node content, but found "
                 "'<stream end>'."),
        ("model: a\nmodel: b", "is not valid YAML: it has 'model' twice."),
        ("a: &x 1\nb: *x",
         "is not valid YAML: line 2, column 4: aliases and tags are not allowed."),
        ("a: !!python/name:os.system",
         "is not valid YAML: line 1, column 4: aliases and tags are not allowed."),
        ("model: a\x01", "is not valid YAML: unacceptable character #x0001: special characters "
                         "are not allowed."),
        ("[" * 10_000, "is nested too deeply; settings are a flat list."),
        ("? [a]\n: b", "is not valid YAML: line 1, column 3: found unhashable key."),
        ("just words", f"holds 'just words'; {OBJECT}"),
    ],
)  # fmt: skip
def test_a_yaml_file_that_is_no_configuration_is_named_with_the_place(
    write: Write, content: str, ending: str
) -> None:
    config = write("config.yaml", content)
    assert refusal(config) == f"{config} {ending}"


def test_yaml_that_would_unfold_to_gigabytes_is_refused(write: Write) -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(97 + n)}: &{chr(97 + n)} [*{chr(96 + n)}, *{chr(96 + n)}]\n" for n in range(1, 26)
    )
    assert "aliases and tags are not allowed" in refusal(write("config.yaml", bomb))


def test_a_configuration_that_cannot_be_read_is_named(write: Write, tmp_path: Path) -> None:
    gone = tmp_path / "config.json"
    assert refusal(gone) == f"{gone} (the configuration) was not found; create it, or name another."
    gone.mkdir()
    assert refusal(gone) == f"{gone} (the configuration) is a folder; name a file."
    inside = write("other.json", "{}") / "config.json"
    assert refusal(inside).endswith("(the configuration) cannot be read: Not a directory.")


@pytest.mark.parametrize(
    "line",
    ["B='open", 'B="open', "set B=1", "B: 1", "$env:B='1'", "B C=1", "\u201cB\u201d=1", "1B=1"],
)
def test_a_line_of_env_that_sets_nothing_is_named(write: Write, tmp_path: Path, line: str) -> None:
    write(".env", f"\ufeffA=1\r\n# a comment\r\n{line}\n")
    sentence = refusal(write("config.yaml", "{}"))
    assert sentence == f"line 3 of {tmp_path / '.env'} can't be read; write NAME=value."


@given(
    before=st.sampled_from(("", "export ", "  ", "\ufeff")),
    around=st.sampled_from(("", "'", '"')),
    equals=st.sampled_from(("=", " = ", "= ")),
    behind=st.sampled_from(("", " ", " # mine", "\r", "\r\nOTHER=1\r")),
    value=st.text("aB9-_#/+", min_size=1, max_size=9),
)
def test_each_dialect_of_env_says_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    before: str,
    around: str,
    equals: str,
    behind: str,
    value: str,
) -> None:
    env = tmp_path_factory.mktemp("env") / ".env"
    wanted = value if around else f"x{value}"  # a value without quotes may not begin with #
    env.write_bytes(f"{before}OPENAI_API_KEY{equals}{around}{wanted}{around}{behind}\n".encode())
    assert read_env(env)["OPENAI_API_KEY"] == wanted


def test_half_a_character_is_refused(write: Write) -> None:
    for name in ("config.json", "config.yaml"):
        sentence = refusal(write(name, r'{"system_prompt": "a\ud83d"}'))
        assert r"it has \ud83d, which is half of a character" in sentence


def test_no_setting_takes_an_address_with_its_password_in_plain_text(write: Write) -> None:
    address = "https://ann:hunter2@example.com/v1"
    for key in SETTINGS:
        told = (
            refusal(write("config.json", json.dumps({key: address}))),
            refusal(write("config.json", "{}"), **{variable(key): address}),
        )
        for text in told:
            assert "plain text" in text, key
            assert "hunter2" not in text
    file = write("config.json", '{"telegram.base_url": "http://ann:{{secret.PASS}}@h:1"}')
    assert in_force(file, PASS="hunter2").telegram.base_url == "http://ann:hunter2@h:1"
