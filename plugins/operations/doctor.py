"""`python main.py doctor`: checks everything that the bot needs, and prints how to fix problems."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from importlib import metadata
from pathlib import Path

from msgspec import Struct

from agent.models.base import ModelError, ModelUnlisted
from agent.models.brain import NOBODY, PROVIDERS, Brain, find_provider
from agent.models.embedded import is_installed
from agent.models.learnt import ModelFacts, read_facts
from agent.models.listed import ListedModel
from agent.models.selection import AUTO, EMBEDDED, Credentials, ModelEndpoint, Models, place_of
from bot.checks import Finding, add_verdict, examine_features
from bot.choices import choice_of, summary_choice_of
from bot.data_folder import (
    FolderError,
    check_files,
    check_not_emptied,
    find_database,
    has_bot,
    plugins_folder,
)
from bot.messengers import read_health
from bot.settings import Layers, SettingError, Settings, SettingsStore, load_layers
from bot.settings.schema import NO_AGENT
from bot.stages import credentials
from channels.base import WithHealth
from memory.record import bot_state
from memory.record.engines import engine_for
from memory.record.rehearsal import find_schema
from memory.record.store import StoreError
from plugins.health import describe_channels
from plugins.loader import load

PINS = Path(__file__).parents[2] / "requirements.txt"
OLDEST_PYTHON = (3, 11)
LEAST_FREE = 200_000_000  # bytes
PATIENCE = 15.0  # seconds for an endpoint to list its models


class Probes(Struct, frozen=True):
    """An installation, and the doctor's access to other modules."""

    config: Path
    data: Path
    environ: Mapping[str, str]
    may_connect: bool = True

    def probe_database(self) -> str:
        """Return the fault of the database; "" for none, or if there is no database yet. Raises
        StoreError if it can't be reached."""
        try:
            place = find_database(load_layers(self.config, self.environ), self.data)
        except SettingError:
            return ""  # the check of the settings reports this
        if isinstance(place, Path):
            try:
                check_not_emptied(self.data)
            except FolderError as error:
                raise StoreError(str(error)) from None
        engine = engine_for(place)
        fault = engine.examine()
        if not fault and has_bot(place):
            find_schema(engine)  # refuses the record of a newer Parley
        return fault

    async def list_models(self, layers: Layers, brain: Brain) -> Sequence[ListedModel]:
        """Return the models of a brain's endpoint. Raises ModelError."""
        if not self.may_connect:
            return ()
        return await Models(credentials(layers)).list_models(brain)

    def has_embedded(self) -> bool:
        """Return whether the embedded model is installed."""
        return is_installed()

    async def examine_features(self, settings: Settings) -> Sequence[Finding]:
        """Return the findings of features."""
        return await examine_features(settings, self.may_connect)


async def examine(probes: Probes) -> list[Finding]:
    """Check everything, in the order in which it has to be repaired. Nothing is changed."""
    config, data = probes.config, probes.data
    record = await _probe_database(probes)
    findings = [
        check_python(sys.version_info[:3]),
        check_packages(PINS.read_text(encoding="utf-8"), find_installed_version),
        check_data_folder(data),
        record,
    ]
    try:
        layers = load_layers(config, probes.environ)
        book = SettingsStore(layers)
        settings = book.effective()
    except SettingError as error:
        env = config.with_name(".env")
        is_given = str(error).startswith("PARLEY_")
        where = "the environment, or .env" if is_given else str(config)
        if str(env) in str(error).splitlines()[0]:
            where = str(env)
        return [*findings, Finding("settings", "broken", str(error), f"Correct {where}.")]
    findings.append(Finding("settings", "ok", f"{config} is valid."))
    if record.is_ok:  # each would wait half a minute for a server that can't be reached
        database = find_database(layers, data)
        findings += await asyncio.to_thread(check_health, database)
        findings += await asyncio.to_thread(check_learnt, database)
    if settings.channels.messengers:
        findings += check_messengers(settings, layers.secrets, plugins_folder(settings, data))
    findings += check_plugins(plugins_folder(settings, data))
    findings += await probes.examine_features(settings)
    return findings + await _check_models(book, layers, probes)


def report(findings: Sequence[Finding]) -> str:
    """Return the findings as text, and the number that need attention."""
    return add_verdict([*map(_line, findings)], findings, "All is well.", "To fix")


def _line(finding: Finding) -> str:
    mark = "ok  " if finding.is_ok else "BAD "
    lines = [*finding.sentence.splitlines(), *finding.advice.splitlines()]
    return f"{mark} {finding.name}: " + "\n     ".join(lines)


def check_python(version: Sequence[int]) -> Finding:
    name = ".".join(map(str, version))
    if tuple(version) >= OLDEST_PYTHON:
        return Finding("python", "ok", f"Python {name}.")
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return Finding("python", "broken", f"Python {name} is too old.", f"Install {oldest} or newer.")


def check_packages(pins: str, version_of: Callable[[str], str | None]) -> Finding:
    """Compare the installed packages with the lines NAME==VERSION of a requirements file."""
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", pins, re.MULTILINE))
    wrong = [
        f"{name} is {version_of(name) or 'missing'}, not {version}"
        for name, version in pinned.items()
        if version_of(name) != version
    ]
    if not wrong:
        return Finding("packages", "ok", f"All {len(pinned)} have the version that was tested.")
    advice = "Run make run, or: pip install -r requirements.txt"
    return Finding("packages", "broken", "; ".join(wrong) + ".", advice)


def check_health(place: Path | str) -> list[Finding]:
    """Return the problems that recently run channels have reported."""
    if isinstance(place, Path) and not place.exists():
        return []
    try:
        found = read_health(engine_for(place))
    except StoreError:
        return []  # the database was already reported
    return [
        Finding(f"channel {name}", "broken", line, "The log says more: python main.py logs.")
        for name, one in found.items()
        for line in describe_channels({name: one}, UTC)
    ]


def check_learnt(place: Path | str) -> list[Finding]:
    """Return the facts learned about models from refusals; they are no faults."""
    if isinstance(place, Path) and not place.exists():
        return []
    try:
        rows = bot_state.read_facts_separately(engine_for(place))
    except StoreError:
        return []  # the database was already reported
    return [
        Finding(f"model {model}", "ok", " ".join(ModelFacts(read_facts(facts)).describe()))
        for _, model, facts in rows
    ]


def check_messengers(
    settings: Settings, secrets: Mapping[str, str], plugins: Path
) -> list[Finding]:
    """Return whether each configured messenger has what it needs; none is contacted."""
    from bot.messengers import make_messengers  # noqa: PLC0415 - unused by most

    found = []
    for channel in make_messengers(
        settings.channels.messengers, secrets, plugins, has_server=settings.channels.web
    ):
        health = channel.health if isinstance(channel, WithHealth) else None
        name, is_down = f"channel {channel.name}", health is not None and health.state == "down"
        sentence = health.reason if health and is_down else "It has everything it needs."
        advice = 'Check how it is set up (documentation: "Channels").' if is_down else ""
        found.append(Finding(name, "broken" if is_down else "ok", sentence, advice))
    return found


def check_plugins(folder: Path) -> list[Finding]:
    """Return the problems that prevent plugins from being loaded. Their modules are executed, as at
    a start."""
    if not folder.is_dir():
        return []
    advice = f"Correct or remove it in {folder}, or update the package that it came with."
    return [Finding("plugins", "broken", problem, advice) for problem in load(folder).problems]


def find_installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_data_folder(data: Path) -> Finding:
    """Return whether the folder can be written, or created if it does not exist yet."""
    place = next(folder for folder in (data, *data.absolute().parents) if folder.exists())
    if not place.is_dir():
        advice = "Choose another folder with --data DIR."
        return Finding("data", "broken", f"{place} is a file, not a folder.", advice)
    try:
        with tempfile.TemporaryFile(dir=place):
            free = shutil.disk_usage(place).free
        check_files(data)
    except OSError as error:
        name = error.filename if data.is_dir() and error.filename else place
        advice = "Correct its owner or permissions, or choose another folder with --data DIR."
        return Finding("data", "broken", f"{name} cannot be written: {error.strerror}.", advice)
    if free < LEAST_FREE:
        return Finding(
            "data", "broken", f"The disk of {place} is nearly full.", "Free some space on it."
        )
    return Finding("data", "ok", f"{data} can be written; {free / 1e9:.1f} GB are free.")


async def _probe_database(probes: Probes) -> Finding:
    try:
        return check_database(await asyncio.to_thread(probes.probe_database))
    except StoreError as error:  # it includes the advice
        return Finding("database", "broken", str(error))


def check_database(fault: str) -> Finding:
    advice = "Restore a backup: python main.py restore FILE" if fault else ""
    return Finding(
        "database", "broken" if fault else "ok", fault or "The database is sound.", advice
    )


class _ModelServer(Struct):
    """An endpoint that serves models, the names of those wanted there, and the agent that wants
    them ("": all)."""

    whom: str
    brain: Brain
    place: ModelEndpoint
    names: list[str]

    @property
    def models_of(self) -> list[str]:
        """The models that only this endpoint serves."""
        small = (EMBEDDED,) if self.brain.is_elsewhere else (AUTO, EMBEDDED)
        return [name for name in self.names if name not in small]

    @property
    def is_asked(self) -> bool:
        return not self.place.missing and any(name != EMBEDDED for name in self.names)

    @property
    def needs_embedded(self) -> bool:
        is_usual = self.brain.is_elsewhere or not self.place.missing
        return EMBEDDED in self.names or (AUTO in self.names and not is_usual)

    def called(self, what: str) -> str:
        return f"{what} of {self.whom}" if self.whom else what


def _list_served(book: SettingsStore, keys: Credentials) -> list[_ModelServer]:
    """Return the distinct endpoints for answers, agents and summaries."""
    served: dict[tuple[ModelEndpoint, str], _ModelServer] = {}
    for agent in (NO_AGENT, *book.agents):
        settings = book.with_agent(agent)
        whom = "" if agent == NO_AGENT else agent
        wanted = [(whom, choice_of(settings))]
        if settings.context.summary_brain.model:
            wanted.append(
                (" ".join(filter(None, ("summaries", whom))), summary_choice_of(settings))
            )
        for name, choice in wanted:
            place = place_of(choice.brain, keys)
            known = served.setdefault(
                (place, choice.brain.provider), _ModelServer(name, choice.brain, place, [])
            )
            names = [one.model for one in choice.alone if not one.is_agents]
            known.names += [one for one in names if one not in known.names]
    return list(served.values())


async def _check_models(book: SettingsStore, layers: Layers, probes: Probes) -> list[Finding]:
    served = _list_served(book, credentials(layers))
    findings = [check_key(one) for one in served]
    is_needed = any(one.needs_embedded for one in served)
    findings.append(check_embedded(probes.has_embedded(), is_needed))
    asked = (one for one in served if one.is_asked)
    return findings + [await _check_endpoint(layers, one, probes) for one in asked]


def check_key(served: _ModelServer) -> Finding:
    """Return whether the environment variable that an endpoint needs is set."""
    name, missing = served.called("key"), served.place.missing
    is_usual = served.brain.provider in ("", "openai") and not served.brain.is_elsewhere
    what = "OPENAI_API_KEY or OPENAI_BASE_URL" if is_usual else missing
    if missing and served.models_of:
        return Finding(
            name,
            "broken",
            f"No key is set, and {served.models_of[0]!r} needs one."
            if is_usual
            else f"{missing} is not set, and {served.models_of[0]!r} needs it.",
            f"Put {what} into the environment or .env.",
        )
    if missing:
        return Finding(name, "ok", "No key is set, so the demo model is to answer.")
    if is_usual:
        return Finding(name, "ok", f"{what} is set.")
    if served.brain.config.api_key:
        return Finding(name, "ok", "The configuration names one.")
    key = PROVIDERS.get(served.brain.provider, NOBODY).key_name
    return Finding(name, "ok", f"{key} is set." if key else "None is set, and none is needed.")


def check_embedded(is_installed: bool, is_needed: bool) -> Finding:
    if is_installed:
        return Finding("demo model", "ok", "It is installed.")
    if not is_needed:
        return Finding("demo model", "ok", "It is not installed, and not needed.")
    advice = "Connect a model: python main.py init; or install it: python main.py add embedded"
    return Finding("demo model", "broken", "It is not installed.", advice)


async def _check_endpoint(layers: Layers, served: _ModelServer, probes: Probes) -> Finding:
    name = served.called("endpoint")
    try:
        async with asyncio.timeout(PATIENCE):
            listed = await probes.list_models(layers, served.brain)
    except ModelUnlisted as error:
        return Finding(name, "ok", str(error))
    except ModelError as error:
        return Finding(name, "broken", str(error))
    except TimeoutError:
        sentence = f"The endpoint has not answered for {PATIENCE:.0f} seconds."
        return Finding(name, "broken", sentence, "Check its address and the network.")
    return check_listing(listed, served, name)


def check_listing(listed: Sequence[ListedModel], served: _ModelServer, finding: str) -> Finding:
    """Return whether the endpoint lists the configured models. An endpoint that lists none is
    assumed to have them, and so is a configured model that is not for chat."""
    brain = served.brain
    provider = find_provider(brain.provider, served.place.base_url, brain.quirks.given)
    names = [one.name for one in listed]
    there = {AUTO, EMBEDDED, *names, *(name.removesuffix(":latest") for name in names)}
    wanted = [name.removeprefix(provider.prefix) for name in served.names]
    missing = [name for name in wanted if name not in there and provider.may_chat(name)]
    if not listed or not missing:
        return Finding(finding, "ok", f"It answers; models listed: {len(listed)}.")
    some = ", ".join(sorted(names)[:10])
    sentence = f"It answers, but does not list the model {missing[0]!r}."
    return Finding(finding, "broken", sentence, f"Set one that it lists, such as: {some}")
