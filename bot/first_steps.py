"""`main.py init`: who serves the model, with which key, which model; tried out, and written down.

Nothing is written before the model has answered and everything has been asked; then `.env` and the
configuration change at once, each whole or not at all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from agent.models import catalogue, embedded
from agent.models.base import ModelError, ModelRequest
from agent.models.endpoint import (
    ANTHROPIC,
    COMPATIBLE,
    OPENAI_URL,
    Endpoint,
    Protocol,
    is_anthropic_installed,
)
from agent.models.providers import PROVIDERS
from agent.models.selection import AUTO, UNCACHED, USUAL, connect
from bot.command_line import Commands, say
from bot.local_servers import LocalServer, find_servers, usual_addresses
from bot.settings import SettingError
from bot.settings.files import read_env, read_text, read_tree
from bot.setup_files import with_model, with_values, without, write_all
from memory.settings import MemorySettings

SECONDS = 60.0
"""For which the model may think about its first answer."""
_INTERRUPTED = 130
_MOST_SHOWN = 30  # names of models
_WIDE = 100_000  # tokens of a window that holds far more than the usual limit of turns
TURNS = "agent_max_context_turns"
_VALUE = re.compile(r"[\w./:-]+", re.ASCII)
_KEY = re.compile(r"[!-&(-~]*")  # what a key is made of: no blanks, no apostrophes
_ADDRESS = re.compile(r"https?://[^\s'\"]+")


class GivenUp(Exception):
    """The person has had enough; nothing was written."""


class ServedModel(Struct, frozen=True):
    """The answers about the model's provider and key. `provider` is "" for an address of one's own,
    `key_name` the name that the key has in `.env`; `variables` is what else stands there of the
    address."""

    provider: str
    base_url: str
    key_name: str
    key: str = ""
    model: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    def endpoint(self, model: str) -> Endpoint:
        provider = "" if self.provider == "openai" else self.provider
        return Endpoint(
            model,
            self.base_url,
            self.key,
            timeout=SECONDS,
            provider=provider,
            key_name=self.key_name,
        )

    @property
    def protocol(self) -> Protocol:
        known = PROVIDERS.get(self.provider)
        return known.speaks if known else COMPATIBLE

    @property
    def secrets(self) -> dict[str, str]:
        """Return the values that `.env` is to hold."""
        found = {**self.variables}
        if self.key_name and self.key:
            found[self.key_name] = self.key
        if not self.provider:
            found["OPENAI_BASE_URL"] = self.base_url
        return found


def add_command(commands: Commands) -> None:
    """Add `init` to the command line's."""
    parser = commands.add_parser("init", help="set up a model: three questions and a try")
    parser.set_defaults(run=_init)


def _init(options: argparse.Namespace) -> int:
    streams = (sys.stdin, sys.stdout)
    if not all(stream and stream.isatty() for stream in streams):
        sys.stderr.write(
            "`init` asks questions, so run it in a terminal; or write OPENAI_API_KEY=… into .env "
            "yourself.\n"
        )
        return 2
    return 0 if set_up(options.config) else 1


def offer(config: Path) -> bool:
    """At the first start without a key: offer to set up a model. Returns whether one was."""
    _say(
        f"There is no key yet, so the {embedded.SHOWN} would answer: on this machine, for free, "
        "and often wrong."
    )
    try:
        wants = _agrees("Set up a better model now? It takes three answers.")
    except GivenUp:
        return False
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    return wants and set_up(config)


def set_up(config: Path) -> bool:
    """Ask, try, and write; returns whether it was written."""
    try:
        served = _find_model()
        written = _write(config, served)
    except (GivenUp, KeyboardInterrupt):
        say("\nNothing was written.")
        return False
    except (OSError, SettingError) as error:
        say(f"Nothing was written: {error}")
        return False
    say(f"Done: {' and '.join(written)}." if written else "All of that was written down already.")
    if served.protocol == ANTHROPIC and not is_anthropic_installed():
        say(UNCACHED)
    for name, value in served.secrets.items():
        if os.environ.get(name, value) != value:
            say(f"Mind that {name} is set in the environment, too, and that one is used.")
    say("`/model` shows which model answers; a bot that runs already wants a restart.")
    return True


# Asking


def _ask(question: str, default: str = "") -> str:
    try:
        return _read_line(f"{question}{f' [{default}]' if default else ''}: ") or default
    except EOFError:
        raise GivenUp from None


def _read_line(question: str, is_secret: bool = False) -> str:
    """Return a line from the terminal. `input` and `getpass` lose a Ctrl-C that comes between their
    question and their reading; here it is a key like any other."""
    from prompt_toolkit import PromptSession  # noqa: PLC0415 - slow to import, seldom needed
    from prompt_toolkit.output.vt100 import Vt100_Output  # noqa: PLC0415

    output = Vt100_Output.from_pty(sys.stdout)
    output.enable_cpr = False  # a question of its own, which not every terminal answers
    session = PromptSession[str](output=output, is_password=is_secret, complete_while_typing=False)
    return session.prompt(question).strip()


def _agrees(question: str, is_usual: bool = True) -> bool:
    answer = _ask(f"{question} ({'Y/n' if is_usual else 'y/N'})").lower()
    return answer.startswith("y") if answer else is_usual


def _find_model() -> ServedModel:
    """Ask until a model has answered."""
    while True:
        served = _ask_for_model(_ask_for_key(_ask_for_place()))
        if _answers(served):
            return served
        if not _agrees("Try again?"):
            raise GivenUp


def _say(text: str) -> None:
    """Write a paragraph that wraps at words."""
    say(textwrap.fill(text, shutil.get_terminal_size().columns, subsequent_indent="  "))


def _ask_for_place() -> ServedModel:
    local = {server.provider: server for server in asyncio.run(find_servers(usual_addresses()))}
    names = [*local, *sorted(PROVIDERS.keys() - local, key=lambda name: (name != "openai", name))]
    _say("1 of 3: Who serves the model? " + number(names))
    for server in local.values():
        _say(f"{server.name} runs on this machine, with {', '.join(server.models[:_MOST_SHOWN])}.")
    _say(
        "Type a number or a name, or the address of an endpoint that speaks OpenAI's protocol "
        "(http://127.0.0.1:8000/v1)."
    )
    while True:
        place = choose(_ask("Who", names[0]), names)
        if _ADDRESS.fullmatch(place):
            return ServedModel("", place.rstrip("/"), "OPENAI_API_KEY")
        if known := PROVIDERS.get(place.lower()):
            variables = {name: _ask_for_value(name) for name in known.variables}
            served = ServedModel(
                place.lower(), known.address(variables), known.key_name, variables=variables
            )
            if known.is_free and place.lower() not in local:
                _say_absent(served)
            return served
        _say(f"{place!r} is neither a name in the list nor an address that begins with http.")


def _say_absent(served: ServedModel) -> None:
    name = LocalServer(served.provider, "", ()).name
    _say(
        f"{name} does not answer at {served.base_url}, or has no model yet. Start it, or load a "
        "model there, before you go on."
    )


def number(names: Sequence[str]) -> str:
    """Return a list in which each name has its number, on the same line."""
    return ", ".join(f"{place}\N{NO-BREAK SPACE}{name}" for place, name in enumerate(names, 1))


def choose(answer: str, names: Sequence[str]) -> str:
    """Return the name that a number stands for, or the answer itself."""
    is_number = answer.isascii() and answer.isdigit() and 0 < int(answer[:6]) <= len(names)
    return names[int(answer) - 1] if is_number else answer


def _ask_for_value(name: str) -> str:
    """Ask for the part of an address that has this name."""
    while True:
        value = _ask(f"Its address has your {name}, which is").rstrip("/")
        if _VALUE.fullmatch(value):
            return value
        say("It is made of letters, digits and . / : - alone.")


def _ask_for_key(served: ServedModel) -> ServedModel:
    if not served.key_name:
        say(f"2 of 3: {served.provider} wants no key.")
        return served
    more = "" if served.provider else "; empty, if it wants none"
    say(f"2 of 3: The key, as {served.key_name} has it (it is not shown{more}).")
    while True:
        try:
            key = _read_line("Key: ", is_secret=True)
        except EOFError:
            raise GivenUp from None
        if key and not _KEY.fullmatch(key):
            say("This is no key: it has blanks or other characters that keys don't have.")
        elif key or not served.provider:
            return replace(served, key=key)
        else:
            _say(f"{served.provider} wants a key. Ctrl-C cancels.")


def _ask_for_model(served: ServedModel) -> ServedModel:
    names = _list_models(served)
    usual = USUAL if served.base_url == OPENAI_URL and (not names or USUAL in names) else ""
    usual = usual or (names[0] if names else "")
    shown = number(names[:_MOST_SHOWN]) + (
        f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    )
    _say(f"3 of 3: Which model?{f' It lists {shown}.' if names else ''}")
    while not (model := choose(_ask("Model", usual), names)):
        _say("Type the name of a model, as its provider writes it. Ctrl-C cancels.")
    return replace(served, model=model)


def _list_models(served: ServedModel) -> list[str]:
    """Return the models that it lists; none where it lists none, or can't be reached."""

    async def ask() -> list[str]:
        model = connect(served.endpoint(USUAL), served.protocol)
        try:
            return [one.name for one in await model.list_models()]
        finally:
            await model.close()

    try:
        return asyncio.run(ask())
    except ModelError:
        return []


def _answers(served: ServedModel) -> bool:
    """Ask the model for a word, and say what came of it."""
    say(f"Asking {served.model} for a word…")
    started = time.monotonic()
    try:
        text = asyncio.run(_try_out(served))
    except ModelError as error:
        say(f"That did not work: {error}")
        return False
    except TimeoutError:
        say(f"That did not work: there was no answer within {SECONDS:g} seconds.")
        return False
    word = "".join(letter for letter in text[:80] if letter.isprintable()).strip()
    say(f"It answered after {time.monotonic() - started:.1f} s: “{word}”")
    return True


async def _try_out(served: ServedModel) -> str:
    model = connect(served.endpoint(served.model), served.protocol)
    question = {"role": "user", "content": "Say hello in one word."}
    try:
        async with asyncio.timeout(SECONDS):
            return (await model.reply(ModelRequest([question]), lambda text: None)).text
    finally:
        await model.close()


# Writing


def _write(config: Path, served: ServedModel) -> list[str]:
    """Write what was answered; returns what was changed, in words. Raises GivenUp, OSError and
    SettingError."""
    env = config.parent / ".env"
    before = read_text(env, "keys and settings") if env.exists() else ""
    known = read_env(env)
    changed = {name: value for name, value in served.secrets.items() if known.get(name) != value}
    for name in changed:
        if name in known and not _agrees(f"{env} has another {name}. Replace it?", is_usual=False):
            raise GivenUp
    contents: dict[Path, str] = {}
    if changed:
        contents[env] = with_values(before, changed)
    provider = "" if served.provider == "openai" else served.provider
    tree = read_tree(config) if config.exists() else {}
    wanted = _with_limit(with_model(tree, served.model, provider), served)
    if wanted != tree:
        _check_config(config, tree, served.model)
        contents[config] = json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
    if elsewhere := {"OPENAI_BASE_URL"} & known.keys() - served.secrets.keys():
        is_in_the_way = served.provider == "openai"
        if is_in_the_way and not _agrees(f"{env} names another endpoint. Take that line out?"):
            raise GivenUp
        if is_in_the_way:
            contents[env] = without(contents.get(env, before), elsewhere)
    write_all(contents)
    words = {env: f"{env} has {' and '.join(changed) or 'no other endpoint'}"}
    words[config] = f"{config} says that {served.model} answers"
    return [words[path] for path in contents]


def _check_config(config: Path, tree: Mapping[str, Any], model: str) -> None:
    """Let the person agree to a change of what they wrote. Raises GivenUp and SettingError."""
    if config.suffix.lower() in (".yaml", ".yml"):
        raise SettingError(
            f"{config} is YAML, whose comments would be lost; set model to {model} there yourself."
        )
    was = tree.get("model", AUTO)
    if was not in (AUTO, model) and not _agrees(f"{config} says {was} answers. Change it?"):
        raise GivenUp


def _with_limit(tree: dict[str, Any], served: ServedModel) -> dict[str, Any]:
    """Return a configuration with the limit of turns that the person wants, where the model's
    window is wide and nothing is said of limits yet."""
    window = catalogue.window_of(served.model, served.provider)
    if window < _WIDE or TURNS in tree or "context" in tree:
        return tree
    usual = MemorySettings.model_fields[TURNS].default
    _say(
        f"A chat keeps its last {usual} turns in the context, and older ones are summarised; "
        f"{served.model} can read {window:,} tokens at once."
    )
    by_tokens = _agrees("Go by tokens only, without a limit of turns?", is_usual=False)
    return {**tree, TURNS: 0} if by_tokens else tree
