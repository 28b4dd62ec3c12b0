"""The connection to a model: its provider and key, tried out before they are stored in `.env` and
the configuration, which are changed together; and the model servers found on this machine. Used by
`main.py init` and the page."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from dotenv.parser import parse_stream
from msgspec import Struct, field

from agent.models.base import ModelError, ModelRequest
from agent.models.brain import PROVIDERS
from agent.models.endpoint import COMPATIBLE, Endpoint, Protocol
from agent.models.selection import AUTO, USUAL, connect
from bot.settings import Layers, SettingError
from bot.settings.files import read_env, read_text, read_tree
from bot.settings.layers import variable
from channels.message import clean_text
from plugins.wording import clip

_PLAIN = re.compile(r"[\w./:@%+=,-]+", re.ASCII)
_BLANK = re.compile(r"(?:[^\S\n]*\n)*")
"""The empty lines before an assignment, which the parser includes in it."""


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return the text of a `.env` with these values, otherwise unchanged. Raises SettingError for a
    value that would not be read back unchanged."""
    rest = without(text, values.keys())
    if rest and not rest.endswith("\n"):
        rest += "\n"
    whole = rest + "".join(f"{name}={_quote(value)}\n" for name, value in values.items())
    if _read(whole) != {**_read(text), **values}:
        raise SettingError(f"{' and '.join(values)} can't be written into this .env.")
    return whole


def without(text: str, names: Collection[str]) -> str:
    """Return the text of a `.env` without the lines that set these names. A value may span several
    lines, which may look like assignments."""
    kept = []
    for one in parse_stream(StringIO(text)):
        whole = one.original.string
        kept.append(_BLANK.match(whole)[0] if one.key in names else whole)  # type: ignore[index]
    return "".join(kept)


def _read(text: str) -> dict[str, str | None]:
    return {one.key: one.value for one in parse_stream(StringIO(text)) if one.key}


def _quote(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return "'" + re.sub(r"[\\']", r"\\\g<0>", value) + "'"


def with_model(tree: Mapping[str, Any], model: str, provider: str) -> dict[str, Any]:
    """Return a configuration in which this model answers, served by this provider ("": the one in
    `.env`)."""
    brain = {**tree["brain"]} if isinstance(tree.get("brain"), dict) else {}
    for name in ("provider", "config", "model"):  # other settings that would select the model
        brain.pop(name, None)
    if provider:
        brain["provider"] = provider
    kept = {name: value for name, value in tree.items() if not name.startswith("brain")}
    return {**kept, "model": model, **({"brain": brain} if brain else {})}


def write_all(contents: Mapping[Path, str]) -> None:
    """Replace all files or none, except for a crash between two of them; Ctrl-C is delayed. New
    files and `.env` are accessible to their owner alone; other existing ones keep their mode."""
    ready: dict[Path, str] = {}
    try:
        for path, text in contents.items():
            target = path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            ready[target] = name
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if target.exists() and path.name != ".env":
                os.chmod(name, target.stat().st_mode & 0o777)
        with _uninterrupted():
            for target, name in ready.items():
                os.replace(name, target)
    finally:
        for name in ready.values():
            Path(name).unlink(missing_ok=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C goes to the main thread
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


PARLEY = "parley"
"""The listed model by which another Parley, or this one, is recognised."""
PATIENCE = 4.0
"""Seconds in which a server on this machine must list its models."""


class LocalServer(Struct, frozen=True):
    """A server that answers on this machine, and its models."""

    provider: str
    base_url: str
    models: tuple[str, ...]

    @property
    def name(self) -> str:
        return PROVIDERS[self.provider].title


def usual_addresses() -> dict[str, str]:
    """Return the usual addresses of servers on this machine, by provider."""
    return {name: one.base_url for name, one in PROVIDERS.items() if one.is_free}


async def find_servers(addresses: Mapping[str, str]) -> list[LocalServer]:
    """Return the servers at these addresses that answer and have a model. A Parley is left
    out: its usual port is llama.cpp's, too, and a bot that is connected to itself asks itself."""
    found = await asyncio.gather(*(_ask(*one) for one in addresses.items()))
    return [server for server in found if server is not None]


async def _ask(provider: str, base_url: str) -> LocalServer | None:
    endpoint = Endpoint(USUAL, base_url, "", timeout=PATIENCE, provider=provider)
    model = connect(endpoint, COMPATIBLE)
    try:
        async with asyncio.timeout(PATIENCE):
            names = tuple(one.name for one in await model.list_models())
    except (ModelError, TimeoutError):
        return None
    finally:
        await model.close()
    return LocalServer(provider, base_url, names) if names and PARLEY not in names else None


SECONDS = 60.0
"""Seconds within which the model must give its first answer."""
FIRST = "openai"
"""The provider that is listed first."""
_OWN_KEY, _OWN_ADDRESS = "OPENAI_API_KEY", "OPENAI_BASE_URL"
_VALUE = re.compile(r"[\w./:-]{1,500}", re.ASCII)
_KEY = re.compile(r"[!-&(-~]{0,4000}")  # the characters of a key: no blanks, no apostrophes
_ADDRESS = re.compile(r"https?://[^\s'\"]{1,2000}")
_MODEL = re.compile(r"[^\s\x00-\x1f\x7f](.{0,198}[^\s\x00-\x1f\x7f])?")
_LONGEST_REASON = 300
NO_ADDRESS = "This is no address: it begins with http:// or https://, and has no blanks."
NO_KEY = "This is no key: it has blanks or other characters that keys don't have."
NO_VALUE = "It is made of letters, digits and . / : - alone."
NO_MODEL = "Type the name of a model, as its provider writes it."


class ServedModel(Struct, frozen=True):
    """The model's provider and key. `provider` is "" for a custom address, `key_name` is the name
    of the key in `.env`; `variables` are the other parts of the address there."""

    provider: str
    base_url: str
    key_name: str
    key: str = ""
    model: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the fields without the key, which must not get into a log."""
        return f"ServedModel({self.provider!r}, {self.model!r})"

    def endpoint(self, model: str, seconds: float = SECONDS) -> Endpoint:
        provider = "" if self.provider == FIRST else self.provider
        return Endpoint(
            model,
            self.base_url,
            self.key,
            timeout=seconds,
            max_retries=0,  # the person waits, and can retry
            setting="the address",
            provider=provider,
            key_name="the key",
        )

    @property
    def protocol(self) -> Protocol:
        known = PROVIDERS.get(self.provider)
        return known.speaks if known else COMPATIBLE

    @property
    def secrets(self) -> dict[str, str]:
        """The values to be written into `.env`."""
        found = {**self.variables}
        if self.key_name and self.key:
            found[self.key_name] = self.key
        if not self.provider:
            found[_OWN_ADDRESS] = self.base_url
        return found

    @property
    def unwanted(self) -> frozenset[str]:
        """The names to be removed from `.env`: another endpoint, or a key that would be sent to
        this address and belongs to another."""
        if self.provider == FIRST:
            return frozenset({_OWN_ADDRESS})
        return frozenset({_OWN_KEY} if not self.provider and not self.key else ())


def order_providers(first: Collection[str] = ()) -> list[str]:
    """Return the names of all providers in the order of the offer."""
    return [*first, *sorted(PROVIDERS.keys() - {*first}, key=lambda name: (name != FIRST, name))]


def find_provider(text: str) -> str:
    """Return the id of the provider that a person names by its id or title ("Groq", "z.ai",
    "Google Gemini"); "" if there is none."""
    named = text.casefold()
    return next(
        (name for name, one in PROVIDERS.items() if named in (name, one.title.casefold())), ""
    )


def is_address(text: str) -> bool:
    return _ADDRESS.fullmatch(text) is not None


def at_address(address: str) -> ServedModel:
    """Return the model server at a custom address. Raises SettingError."""
    if not is_address(address):
        raise SettingError(NO_ADDRESS)
    return ServedModel("", address.rstrip("/"), _OWN_KEY)


def of_provider(name: str, variables: Mapping[str, str]) -> ServedModel:
    """Return a known provider. Raises SettingError."""
    known = PROVIDERS.get(name)
    if known is None:
        raise SettingError(f"{clip_reason(name)!r} is no provider that is known here.")
    given = {one: variables.get(one, "").strip().rstrip("/") for one in known.variables}
    for one, value in given.items():
        check_value(one, value)
    return ServedModel(name, known.address(given), known.key_name, variables=given)


def check_value(name: str, value: str) -> None:
    """Check a part of an address. Raises SettingError."""
    if not value:
        raise SettingError(f"{name} is missing: your provider's console has it.")
    if not _VALUE.fullmatch(value):
        raise SettingError(NO_VALUE)


def check_key(served: ServedModel, key: str) -> None:
    """Check that this may be the key. Raises SettingError."""
    if not _KEY.fullmatch(key):
        raise SettingError(NO_KEY)
    if served.key_name and served.provider and not key:
        raise SettingError(f"{PROVIDERS[served.provider].title} wants a key.")


def check_model(model: str) -> None:
    """Check that this may be the name of a model. Raises SettingError."""
    if not _MODEL.fullmatch(model) or not model.isprintable():
        raise SettingError(NO_MODEL)


async def list_models(served: ServedModel, seconds: float = SECONDS) -> list[str]:
    """Return the names of the models that the server lists. Raises ModelError."""
    model = connect(served.endpoint("", seconds), served.protocol)
    try:
        return [one.name for one in await model.list_models()]
    finally:
        await model.close()


async def try_out(served: ServedModel, seconds: float = SECONDS) -> str:
    """Ask the model for a word, and return its answer. Raises ModelError."""
    model = connect(served.endpoint(served.model, seconds), served.protocol)
    question = {"role": "user", "content": "Say hello in one word."}
    try:
        async with asyncio.timeout(seconds):
            text = (await model.reply(ModelRequest([question]), lambda text: None)).text
    except TimeoutError:
        place = served.endpoint(served.model).shown_url
        raise ModelError(f"{place} did not answer within {seconds:g} seconds.") from None
    finally:
        await model.close()
    return clip("".join(letter for letter in text if letter.isprintable()), 80)


def clip_reason(text: str) -> str:
    """Return a server's message as one line of limited length."""
    line = " ".join(clean_text(text).split())
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}…"


class OverwriteNeeded(Struct, frozen=True):
    """A question whether an existing line may be overwritten."""

    question: str
    is_usual: bool = True


class PlannedFiles(Struct, frozen=True):
    """The new contents of the files, the questions before they are written, and the change of each
    file in words."""

    contents: Mapping[Path, str]
    overwritten: tuple[OverwriteNeeded, ...]
    words: Mapping[Path, str]

    def write(self) -> list[str]:
        """Write all files, or none; return the changes in words. Raises OSError."""
        write_all(self.contents)
        return [self.words[path] for path in self.contents]


def plan_files(
    config: Path, served: ServedModel, more: Mapping[str, Any] | None = None
) -> PlannedFiles:
    """Return the files to be written for this model; `more` are other settings to be written with
    it. Raises SettingError."""
    env = config.with_name(".env")
    before = read_text(env, "keys and settings") if env.exists() else ""
    known = read_env(env)
    changed = {name: value for name, value in served.secrets.items() if known.get(name) != value}
    unwanted = served.unwanted & known.keys()
    asked = [
        OverwriteNeeded(f"{env} has another {name}. Replace it?", is_usual=False)
        for name in changed
        if name in known
    ]
    contents: dict[Path, str] = {}
    if changed or unwanted:
        contents[env] = with_values(without(before, unwanted), changed)
    provider = "" if served.provider == FIRST else served.provider
    tree = read_tree(config) if config.exists() else {}
    wanted = {**with_model(tree, served.model, provider), **(more or {})}
    if wanted != tree:
        asked += _confirmation_question(config, tree, served.model)
        contents[config] = json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
    if _OWN_ADDRESS in unwanted:
        asked.append(OverwriteNeeded(f"{env} names another endpoint. Remove that line?"))
    if _OWN_KEY in unwanted:
        asked.append(
            OverwriteNeeded(f"{env} has a key that would be sent to {served.base_url}. Remove it?")
        )
    written = " and ".join(changed) or ("no other endpoint" if unwanted else "")
    words = {env: f"{env} has {written}", config: f"{config} has the model {served.model}"}
    return PlannedFiles(contents, tuple(asked), words)


def _confirmation_question(
    config: Path, tree: Mapping[str, Any], model: str
) -> list[OverwriteNeeded]:
    """Return the question before a change of the person's configuration. Raises SettingError."""
    if config.suffix.lower() in (".yaml", ".yml"):
        raise SettingError(
            f"{config} is YAML, whose comments would be lost; set model to {model} there yourself."
        )
    was = tree.get("model", AUTO)
    return (
        []
        if was in (AUTO, model)
        else [OverwriteNeeded(f"{config} says {was} answers. Change it?")]
    )


def find_stronger(served: ServedModel, layers: Layers) -> str:
    """Return the name of an environment variable that overrides the new values, or ""."""
    outer = layers.outer
    held = [name for name, value in served.secrets.items() if outer.get(name, value) != value]
    held += sorted(name for name in served.unwanted if outer.get(name))
    keys = layers.environment.as_written
    held += [variable(key) for key in keys if key == "model" or key.startswith("brain.")]
    return held[0] if held else ""


def find_kept_key(served: ServedModel, secrets: Mapping[str, str]) -> str:
    """Return the stored key, if it was given for exactly this address; it is sent to no other.
    Otherwise return ""."""
    is_same = all(secrets.get(name) == value for name, value in served.variables.items())
    is_elsewhere = served.provider == FIRST and secrets.get(_OWN_ADDRESS)
    is_usable = served.provider and is_same and not is_elsewhere
    return secrets.get(served.key_name, "") if is_usable else ""
