"""`main.py init` at a real terminal: three questions, a test request, and the written files."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Collection
from io import StringIO
from pathlib import Path

import pytest
from dotenv import dotenv_values
from dotenv.parser import parse_stream
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.connecting import find_servers, usual_addresses, with_model, with_values
from bot.first_steps import choose, number
from bot.settings import SettingError, SettingsStore, load_layers
from channels.web.chat_shapes import MODEL
from tests.fakes.openai_server import OpenAIServer, Say
from tests.whole.pseudo_terminal import Sitter, sitting

INIT = ("init",)
KEY = "sk-a-key-that-nobody-sees"


async def answers(person: Sitter, url: str, key: str, model: str) -> None:
    """Answer the three questions."""
    await person.sees("1 of 3")
    person.types(f"{url}\r")
    await person.sees("Key:")
    person.types(f"{key}\r")
    await person.sees("3 of 3")
    person.types(f"{model}\r")


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.usefixtures("processes")
async def test_a_new_installation_is_set_up_and_tried(tmp_path: Path) -> None:
    async with (
        OpenAIServer([Say("Hello!")], key=KEY) as server,
        sitting(tmp_path, arguments=INIT) as person,
    ):
        await answers(person, server.base_url, KEY, "gpt-9")
        await person.sees("It answered after")
        await person.sees("Done: .env has OPENAI_API_KEY and OPENAI_BASE_URL")
        assert await person.ended() == 0
        assert server.turns[-1].body["model"] == "gpt-9"
        assert KEY not in person.glass.raw
        secrets = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
    assert dotenv_values(tmp_path / ".env") == secrets
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert json.loads((tmp_path / "config.json").read_text()) == {"model": "gpt-9"}
    assert load_layers(tmp_path / "config.json", {}).secrets["OPENAI_API_KEY"] == KEY


@pytest.mark.usefixtures("processes")
async def test_what_an_address_wants_to_know_is_asked_for_and_written_down(tmp_path: Path) -> None:
    async with (
        OpenAIServer([Say("Hello!")], key=KEY) as server,
        sitting(tmp_path, arguments=INIT) as person,
    ):
        mine = server.base_url.removesuffix("/v1")
        await person.sees("1 of 3")
        person.types("azure\r")
        await person.sees("AZURE_OPENAI_ENDPOINT")
        person.types(f"{mine}/\r")
        await person.sees("Key:")
        person.types(f"{KEY}\r")
        await person.sees("3 of 3")
        person.types("my-deployment\r")
        await person.sees("Done: .env has AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_API_KEY")
        assert await person.ended() == 0
        assert server.listings == 0
    secrets = {"AZURE_OPENAI_ENDPOINT": mine, "AZURE_OPENAI_API_KEY": KEY}
    assert dotenv_values(tmp_path / ".env") == secrets
    written = {"model": "my-deployment", "brain": {"provider": "azure"}}
    assert json.loads((tmp_path / "config.json").read_text()) == written


@pytest.mark.usefixtures("processes")
async def test_a_wide_window_may_be_used_by_tokens_only(tmp_path: Path) -> None:
    async with (
        OpenAIServer([Say("Hello!")], key=KEY) as server,
        sitting(tmp_path, arguments=INIT) as person,
    ):
        await answers(person, server.base_url, KEY, "gpt-4.1")
        await person.sees("Go by tokens only, without a limit of turns? (y/N)")
        person.types("y\r")
        await person.sees("Done:")
        assert await person.ended() == 0
    config = json.loads((tmp_path / "config.json").read_text())
    assert config == {"model": "gpt-4.1", "agent_max_context_turns": 0}


@pytest.mark.usefixtures("processes")
async def test_a_key_that_is_refused_is_not_written(tmp_path: Path) -> None:
    async with (
        OpenAIServer([], key=KEY) as server,
        sitting(tmp_path, arguments=INIT) as person,
    ):
        await person.sees("1 of 3")
        person.types(f"{server.base_url}\r")
        await person.sees("Key:")
        person.types("sk-another-key\r")
        await person.sees("Its models can't be listed:")
        await person.sees("Type the key again, or press Enter to keep it.\nKey:")
        person.types("\r")
        await person.sees("3 of 3")
        person.types("gpt-9\r")
        await person.sees("That did not work:")
        await person.sees("Try again?")
        person.types("\r")
        await person.sees(f"Provider [{server.base_url}]")  # offered again
        person.types("\r")
        await person.sees("Key:")
        person.types("\x03")
        await person.sees("Nothing was written.")
        assert await person.ended() == 1
    assert snapshot(tmp_path) == {}


@pytest.mark.usefixtures("processes")
async def test_a_key_that_was_mistyped_is_typed_again(tmp_path: Path) -> None:
    async with (
        OpenAIServer([Say("Hello!")], key=KEY) as server,
        sitting(tmp_path, arguments=INIT) as person,
    ):
        await person.sees("1 of 3")
        person.types(f"{server.base_url}\r")
        await person.sees("Key:")
        person.types("sk-mistyped\r")
        await person.sees("to keep it.\nKey:")
        person.types(f"{KEY}\r")
        await person.sees("\nModel")
        person.types("\r")
        await person.sees("Done:")
        assert await person.ended() == 0
    assert dotenv_values(tmp_path / ".env")["OPENAI_API_KEY"] == KEY


@pytest.mark.usefixtures("processes")
async def test_an_address_where_nothing_answers_is_told_before_a_model_is_asked_for(
    tmp_path: Path,
) -> None:
    nowhere = "http://127.0.0.1:9/v1"
    async with sitting(tmp_path, arguments=INIT) as person:
        await person.sees("1 of 3")
        person.types(f"{nowhere}\r")
        await person.sees("Key:")
        person.types("\r")
        await person.sees("That did not work: Can't connect to")
        await person.sees("Try again?")
        assert "3 of 3" not in person.glass.text
        person.types("\r")
        await person.sees(f"Provider [{nowhere}]")
        person.types("\x03")
        await person.sees("Nothing was written.")
        assert await person.ended() == 1


@pytest.mark.usefixtures("processes")
async def test_what_stands_there_is_not_replaced_without_a_yes(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# mine\nOPENAI_API_KEY=sk-old\nOTHER='x y'\n")
    (tmp_path / "config.json").write_text('{"model": "gpt-8", "agent_max_steps": 5}')
    before = snapshot(tmp_path)
    async with OpenAIServer([Say("Hello!")] * 2, key=KEY) as server:
        async with sitting(tmp_path, arguments=INIT) as person:
            await answers(person, server.base_url, KEY, "gpt-9")
            await person.sees("has another OPENAI_API_KEY. Replace it?")
            person.types("\r")
            await person.sees("Nothing was written.")
            assert await person.ended() == 1
        assert snapshot(tmp_path) == before
        async with sitting(tmp_path, arguments=INIT) as person:
            await answers(person, server.base_url, KEY, "gpt-9")
            await person.sees("has another OPENAI_API_KEY. Replace it?")
            person.types("y\r")
            await person.sees("says gpt-8 answers. Change it?")
            person.types("y\r")
            await person.sees("Done:")
            assert await person.ended() == 0
        assert (tmp_path / ".env").read_text() == (
            f"# mine\nOTHER='x y'\nOPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={server.base_url}\n"
        )
    config = json.loads((tmp_path / "config.json").read_text())
    assert config == {"model": "gpt-9", "agent_max_steps": 5}
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600


@pytest.mark.usefixtures("processes")
async def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    async with (
        OpenAIServer([], key=KEY) as server,
        sitting(tmp_path, arguments=INIT) as person,
    ):
        await person.sees("Provider [OpenAI]:")
        person.types(f"{server.base_url}\r")
        await person.sees("Key:")
        person.types(f"{KEY}\r")
        await person.sees("\nModel")
        person.types("\x03")
        await person.sees("Nothing was written.")
        assert await person.ended() == 1
        assert "Traceback" not in person.glass.text
    assert snapshot(tmp_path) == {}


@pytest.mark.usefixtures("processes")
async def test_the_first_start_without_a_key_offers_it_and_goes_on_either_way(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text("{}")
    async with (
        OpenAIServer([Say("Hello!"), Say("Good day.")], key=KEY) as server,
        sitting(tmp_path) as person,
    ):
        await person.sees("1  demo model")
        await person.sees("Number [1]:")
        person.types("seven\r")
        await person.sees("not 'seven'. Ctrl-D takes")
        (number_of_another,) = re.findall(r"(\d+)  another model", person.glass.text)
        person.types(f"{number_of_another}\r")
        await answers(person, server.base_url, KEY, "gpt-9")
        await person.sees("/help lists the commands")
        await person.sees("gpt-9 answers.")
        person.types("Hi\r")
        await person.sees("Good day.")
        assert await person.leaves() == 0
    async with sitting(tmp_path) as person:  # the second start asks nothing
        await person.sees("/help lists the commands")
        await person.sees(" turns")  # the bottom line: input is read from now on
        assert "1 of 3" not in person.glass.text
        assert await person.leaves() == 0


async def test_servers_on_this_machine_are_found_with_their_models() -> None:
    assert {"ollama", "lmstudio", "llama.cpp", "vllm"} <= usual_addresses().keys()
    async with OpenAIServer([], models=("qwen3", "llama3.2")) as server:
        there = {"ollama": server.base_url, "vllm": "http://127.0.0.1:9/v1"}
        (found,) = await find_servers(there)
    assert (found.name, set(found.models)) == ("Ollama", {"qwen3", "llama3.2"})


async def test_the_page_of_a_parley_is_no_model_server() -> None:
    """It may stand at the usual port of llama.cpp: the bot would be asked through itself."""
    async with OpenAIServer([], models=(MODEL,)) as server:
        assert await find_servers({"llama.cpp": server.base_url}) == []


def test_a_list_is_numbered_and_a_number_chooses() -> None:
    names = ["ollama", "openai"]
    assert number(names) == "1\xa0ollama, 2\xa0openai"
    answers = ("1", "2", "3", "0", "openai", "", "²")
    assert [choose(one, names) for one in answers] == [
        *("ollama", "openai", "3", "0", "openai", "", "²")
    ]


NAMES = st.sampled_from(["OPENAI_API_KEY", "OPENAI_BASE_URL", "GROQ_API_KEY"])
VALUES = st.text(st.characters(codec="utf-8"))
LINES = st.sampled_from(
    [
        *("# a comment", "", "  ", "A=1", "B='x y'", "OPENAI_API_KEY=old", "export C=2 # why"),
        *("OPENAI_API_KEYS=3", "  export OPENAI_API_KEY = 'x'", "# OPENAI_API_KEY=commented"),
        *('D="1\nGROQ_API_KEY=inside\n"', "E='it\\'s'", "F=a#b", "G", "H=", "OPENAI_API_KEY"),
        *("I='open", 'J="open', "=", "K=${A}", "L=1\r", "GROQ_API_KEY='two\nlines'"),
    ]
)
FILES = st.builds(
    lambda lines, end: "\n".join(lines) + end, st.lists(LINES), st.sampled_from(["", "\n"])
)


def read_back(text: str) -> dict[str, str | None]:
    return dict(dotenv_values(stream=StringIO(text), interpolate=False))


def other_lines(text: str, values: Collection[str]) -> list[str]:
    """Return all lines that set none of these, including comments and empty lines."""
    bindings = parse_stream(StringIO(text if text.endswith("\n") else f"{text}\n"))
    return "".join(one.original.string for one in bindings if one.key not in values).split("\n")


@settings(max_examples=200)
@given(FILES, st.dictionaries(NAMES, VALUES, min_size=1))
def test_the_values_are_read_back_and_all_else_stays(before: str, values: dict[str, str]) -> None:
    try:
        text = with_values(before, values)
    except SettingError:
        if "open" in before:  # an unclosed quote may include the text after it
            return
        raise
    kept = {name: value for name, value in read_back(before).items() if name not in values}
    assert read_back(text) == {**kept, **values}
    stays = [line for line in other_lines(before, values) if line.strip()]
    assert [line for line in other_lines(text, values) if line.strip()] == stays
    assert with_values(text, values) == text


@given(st.dictionaries(NAMES, VALUES, min_size=1))
def test_any_value_that_is_no_broken_text_can_be_written(values: dict[str, str]) -> None:
    assert read_back(with_values("# mine\nA=1\n", values)) == {"A": "1", **values}


def test_a_provider_takes_the_place_of_another_one() -> None:
    tree = {"model": "a", "brain": {"provider": "groq", "temperature": 0.5}, "x": 1}
    assert with_model(tree, "b", "") == {"model": "b", "brain": {"temperature": 0.5}, "x": 1}
    assert with_model({}, "b", "groq") == {"model": "b", "brain": {"provider": "groq"}}


@pytest.mark.parametrize("provider", ["anthropic", "groq", "ollama"])
def test_what_is_written_for_a_provider_is_a_configuration_that_the_bot_takes(
    tmp_path: Path, provider: str
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(with_model({}, "some-model", provider)))
    found = SettingsStore(load_layers(config, {})).effective()
    assert (found.model, found.brain.provider) == ("some-model", provider)
