"""Tests of files from users: imports, skills, configurations, `.env` and environment.

Each is accepted, or refused with a sentence.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.prompt import Library, SkillError, front_matter
from bot.settings import SettingError, load_layers
from bot.settings.schema import SETTINGS
from tests.fakes.openai_server import Call, Received, Say
from tests.fuzz.lasting import FEW, Lasting, lasting

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([2**63, 10**40, 1e308, "{{secret.X}}", "{{file:x}}", "a\ud800", "\x00", ""])
    | st.text(max_size=8)
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


# Imports of context files


@pytest.fixture(scope="module")
def importing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lasting, Path, Any]]:
    """Yield a bot, the file it imports, and an export in the file's format."""

    def script(request: Received) -> Say:
        is_first = request.body["messages"][-1]["role"] == "user"
        return Say("" if is_first else "Done.", (Call("list_files", "{}"),) if is_first else ())

    folder = tmp_path_factory.mktemp("bot")
    with lasting(folder, script, messages_per_minute=0) as bot:
        bot.says("What is there?")
        exported = (bot.says("/context export").data or {})["files"][0]
        file = folder / "data" / "audiences" / "pipe-main" / "files" / "in.json"
        yield bot, file, json.loads(Path(exported).read_text())


def changed(whole: Any, chance: random.Random, values: list[Any]) -> Any:
    """Return the same object, with a few of its parts removed, doubled, or replaced."""
    for value in values:
        place, key = chance.choice(list(_places(whole)))
        match chance.randrange(3):
            case 0:
                place[key] = value
            case 1:
                del place[key]
            case _ if isinstance(place, list):
                place.insert(key, json.loads(json.dumps(place[key])))
    return whole


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    keys = tree if isinstance(tree, dict) else range(len(tree))
    for key in list(keys):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


ODD = st.sampled_from(["t0", "x", "t-1", "t99999999999999999999", "user", "tool", "a[b", ""])


@FEW
@given(st.randoms(use_true_random=False), st.lists(ODD | ANYTHING, max_size=4))
def test_whatever_is_imported_is_taken_or_refused_with_a_sentence(
    importing: tuple[Lasting, Path, Any], chance: random.Random, values: list[Any]
) -> None:
    bot, file, exported = importing
    content = json.dumps(changed(json.loads(json.dumps(exported)), chance, values))
    file.write_text(content, "utf-8")
    _import(bot)


@FEW
@given(st.binary(max_size=60) | ANYTHING.map(lambda value: json.dumps(value).encode()))
@example(b"[" * 100_000)
@example(b'{"format": "parley-context", "version": 1, "messages": [' + b"[" * 100_000)
def test_a_file_that_is_no_export_is_refused(
    importing: tuple[Lasting, Path, Any], content: bytes
) -> None:
    bot, file, _ = importing
    file.write_bytes(content)
    assert _import(bot).startswith("Nothing was imported")


def _import(bot: Lasting) -> str:
    """Import the file; the imported data can be discussed, searched, and removed."""
    reply = bot.says("/context import files/in.json")
    if reply.actions:
        bot.says("/context search a[b")
        bot.says("And now?")
        bot.says(reply.actions[0].command)
        bot.says("/context clear")
    return reply.text


@pytest.mark.parametrize(
    ("turn", "tool"),
    [("t0", "read["), ("x", "(a+)+$"), ("t-1", "*"), ("t1 t2", "\\"), ("t" + "9" * 20, "%_")],
)
def test_turns_and_tools_may_have_any_names(
    importing: tuple[Lasting, Path, Any], turn: str, tool: str
) -> None:
    bot, file, exported = importing
    calls = [{"id": "c", "name": tool, "arguments": "{}"}]
    messages = [
        {"turnId": turn, "role": "user", "content": f"Ask {tool} for it"},
        {"turnId": turn, "role": "assistant", "tool_calls": calls},
        {"turnId": turn, "role": "tool", "tool": tool, "tool_call_id": "c", "content": "Found."},
        {"turnId": turn, "role": "assistant", "content": "It is found."},
    ]
    file.write_text(json.dumps({**exported, "messages": messages}))
    assert _import(bot).startswith("Imported 1 turn")
    bot.says(f"/context search {tool}")
    bot.says(f"/memory search {tool}")


# Skills

MATTER = st.one_of(
    st.text(max_size=60),
    ANYTHING.map(json.dumps),
    st.builds("name: {}\ndescription: {}\n{}".format, *[st.text(max_size=12)] * 3),
    st.sampled_from(["&a [*a]", "!!python/object:os.system x", "a: !!timestamp 99-99", "? [a]: b"]),
)


@FEW
@given(MATTER)
@example("[" * 1_000)
@example("a: 0o9999999999999999\nb: 9999-99-99")
def test_whatever_a_skill_begins_with_it_is_read_or_left_out(matter: str) -> None:
    with suppress(SkillError):
        assert isinstance(front_matter(f"---\n{matter}\n---\nDo it."), dict)


@given(
    st.binary(max_size=80).map(b"---\n".__add__)
    | MATTER.map(lambda m: f"---\n{m}\n---".encode("utf-8", "replace"))
)
@example(b'---\nname: "a\\ud800"\ndescription: "b\\udfff"\n---\n')
def test_whatever_stands_in_a_skills_file_the_others_are_there(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    root = tmp_path_factory.getbasetemp() / "skills-of-any-shape"
    for name, text in (("odd", content), ("good", b"---\nname: good\ndescription: x\n---\nDo it.")):
        (root / "skills" / name).mkdir(parents=True, exist_ok=True)
        (root / "skills" / name / "SKILL.md").write_bytes(text)
    found = Library(root).of(root)
    assert "good" in {skill.name for skill in found}
    for skill in found:
        assert "\n" not in skill.name + skill.description
        (skill.name + skill.description).encode()


# Settings

KEYS = st.sampled_from([*SETTINGS, "agents", "runtime", "brain", "hooks", "context", "telegram"])
TREES = st.dictionaries(KEYS | st.text(max_size=6), ANYTHING, max_size=4)
NESTED = st.dictionaries(
    st.sampled_from(["context", "runtime", "web", "telegram", "channels", "hooks", "agents"]),
    TREES | st.lists(TREES, max_size=2),
    max_size=3,
)


@given(TREES | NESTED | ANYTHING, st.sampled_from(["json", "yaml"]))
@example({"hooks": [{"a\n": 1}]}, "json")
def test_whatever_a_configuration_holds_it_is_taken_or_refused_with_sentences(
    tmp_path_factory: pytest.TempPathFactory, tree: object, kind: str
) -> None:
    config = tmp_path_factory.getbasetemp() / f"any.{kind}"
    config.write_text(json.dumps(tree), "utf-8")
    _load(config, {})


@given(st.text(max_size=80), st.sampled_from(["json", "yaml"]))
@example("a: " * 50, "yaml")
@example("[" * 50_000, "json")
@example("{a: " * 50_000, "yaml")
@example("- " * 50_000, "yaml")
def test_a_file_that_is_no_configuration_is_refused_with_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, text: str, kind: str
) -> None:
    config = tmp_path_factory.getbasetemp() / f"text.{kind}"
    config.write_text(text, "utf-8", errors="replace")
    _load(config, {})


NAMES = st.sampled_from([f"PARLEY_{key.upper().replace('.', '__')}" for key in SETTINGS])


@given(st.dictionaries(NAMES | st.from_regex(r"\APARLEY_\w{0,9}\Z"), st.text(max_size=12)))
def test_whatever_the_environment_holds_it_is_taken_or_refused_with_sentences(
    tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]
) -> None:
    config = tmp_path_factory.getbasetemp() / "empty.json"
    config.write_text("{}")
    _load(config, environ)


@given(st.text(max_size=60) | st.builds("{}={}\n".format, NAMES, st.text(max_size=12)))
def test_whatever_an_env_file_holds_it_is_taken_or_refused_with_sentences(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "with-env"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / ".env").write_text(text, "utf-8", errors="replace")
    _load(folder / "config.json", {})


def _load(config: Path, environ: dict[str, str]) -> None:
    try:
        load_layers(config, environ)
    except SettingError as error:
        for sentence in str(error).split("\n"):
            assert sentence.strip().endswith((".", "?")), sentence
