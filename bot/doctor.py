"""`python main.py doctor`: is all there that the bot needs, and what to do where it is not."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from agent.models.base import ModelError
from agent.models.selection import AUTO, EMBEDDED
from bot.settings import Layers, SettingError, Settings, SettingsStore, load_layers
from memory.record.store import StoreError

PINS = Path(__file__).parents[1] / "requirements.txt"
OLDEST_PYTHON = (3, 11)
LEAST_FREE = 200_000_000  # bytes
PATIENCE = 15.0  # seconds that an endpoint has to list its models


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at and what was seen; `advice` says what to do where that is not well."""

    name: str
    is_ok: bool
    sentence: str
    advice: str = ""


ClusterProbe = Callable[[Settings], Awaitable[Sequence[Finding]]]
"""Looks at a bot of several processes, whose broker is set."""


async def _no_cluster(settings: Settings) -> Sequence[Finding]:
    """Nothing is looked at."""
    return ()


@dataclass(frozen=True, slots=True)
class Probes:
    """What the doctor has other rooms look at.

    `database` tells what is wrong with the database, "" for nothing or where there is none yet, or
    raises StoreError where it can't be reached;
    `models` lists the endpoint's models or raises ModelError; `has_embedded` says whether the
    embedded model is installed; `cluster` looks at a bot of several processes.
    """

    database: Callable[[], Awaitable[str]]
    models: Callable[[Layers], Awaitable[Sequence[str]]]
    has_embedded: Callable[[], bool]
    cluster: ClusterProbe = _no_cluster


async def examine(
    config: Path, data: Path, environ: Mapping[str, str], probes: Probes
) -> list[Finding]:
    """Look at everything, in the order in which it has to be mended. Nothing is changed."""
    findings = [
        check_python(sys.version_info[:3]),
        check_packages(PINS.read_text(encoding="utf-8"), find_installed_version),
        check_data_folder(data),
        await _look_at_database(probes),
    ]
    try:
        layers = load_layers(config, environ)
        settings = SettingsStore(layers).effective()
    except SettingError as error:
        return [*findings, Finding("settings", False, str(error), f"Correct {config}.")]
    findings.append(Finding("settings", True, f"{config} is valid."))
    if settings.broker:
        findings += await probes.cluster(settings)
    return findings + await _check_models(settings, layers, probes)


def report(findings: Sequence[Finding]) -> str:
    """The findings as text, and how many of them need somebody's hand."""
    broken = sum(not finding.is_ok for finding in findings)
    verdict = f"To fix: {broken}." if broken else "All is well."
    return "\n".join([*map(_line, findings), "", verdict])


def exit_code(findings: Sequence[Finding]) -> int:
    return 0 if all(finding.is_ok for finding in findings) else 1


def _line(finding: Finding) -> str:
    mark = "ok  " if finding.is_ok else "BAD "
    lines = [*finding.sentence.splitlines(), *finding.advice.splitlines()]
    return f"{mark} {finding.name}: " + "\n     ".join(lines)


def check_python(version: Sequence[int]) -> Finding:
    name = ".".join(map(str, version))
    if tuple(version) >= OLDEST_PYTHON:
        return Finding("python", True, f"Python {name}.")
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return Finding("python", False, f"Python {name} is too old.", f"Install {oldest} or newer.")


def check_packages(pins: str, version_of: Callable[[str], str | None]) -> Finding:
    """Compare what is installed with the lines NAME==VERSION of a requirements file."""
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", pins, re.MULTILINE))
    wrong = [
        f"{name} is {version_of(name) or 'missing'}, not {version}"
        for name, version in pinned.items()
        if version_of(name) != version
    ]
    if not wrong:
        return Finding("packages", True, f"All {len(pinned)} have the version that was tested.")
    advice = "Run make run, or: pip install -r requirements.txt"
    return Finding("packages", False, "; ".join(wrong) + ".", advice)


def find_installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_data_folder(data: Path) -> Finding:
    """Whether the folder can be written, or made where it is not there yet."""
    place = next(folder for folder in (data, *data.absolute().parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            free = shutil.disk_usage(place).free
    except OSError as error:
        advice = "Correct its rights, or choose another folder with --data DIR."
        return Finding("data", False, f"{place} cannot be written: {error.strerror}.", advice)
    if free < LEAST_FREE:
        return Finding(
            "data", False, f"The disk of {place} is nearly full.", "Free some space on it."
        )
    return Finding("data", True, f"{data} can be written; {free / 1e9:.1f} GB are free.")


async def _look_at_database(probes: Probes) -> Finding:
    try:
        return check_database(await probes.database())
    except StoreError as error:  # it says what to do
        return Finding("database", False, str(error))


def check_database(fault: str) -> Finding:
    advice = "Restore a backup: python main.py restore FILE" if fault else ""
    return Finding("database", not fault, fault or "The database is sound.", advice)


async def _check_models(settings: Settings, layers: Layers, probes: Probes) -> list[Finding]:
    names = (settings.model, *settings.fallback_models)
    has_endpoint = any(layers.secrets.get(f"OPENAI_{part}") for part in ("API_KEY", "BASE_URL"))
    is_needed = EMBEDDED in names or (AUTO in names and not has_endpoint)
    findings = [check_key(has_endpoint, names), check_embedded(probes.has_embedded(), is_needed)]
    if has_endpoint:
        findings.append(await _check_endpoint(layers, names, probes))
    return findings


def check_key(has_endpoint: bool, names: Sequence[str]) -> Finding:
    if has_endpoint:
        return Finding("key", True, "OPENAI_API_KEY or OPENAI_BASE_URL is set.")
    unserved = [name for name in names if name not in (AUTO, EMBEDDED)]
    if not unserved:
        return Finding("key", True, "No key is set, and none is needed: the small model answers.")
    return Finding(
        "key",
        False,
        f"No key is set, and {unserved[0]!r} needs one.",
        "Put OPENAI_API_KEY or OPENAI_BASE_URL into the environment or .env.",
    )


def check_embedded(is_installed: bool, is_needed: bool) -> Finding:
    if is_installed:
        return Finding("embedded model", True, "It is installed.")
    if not is_needed:
        return Finding("embedded model", True, "It is not installed, and not needed.")
    advice = "Set OPENAI_API_KEY or OPENAI_BASE_URL, or try to install it again: make clean run"
    return Finding("embedded model", False, "It is not installed.", advice)


async def _check_endpoint(layers: Layers, names: Sequence[str], probes: Probes) -> Finding:
    try:
        async with asyncio.timeout(PATIENCE):
            return check_listing(await probes.models(layers), names)
    except ModelError as error:
        return Finding("endpoint", False, str(error))
    except TimeoutError:
        sentence = f"The endpoint has not answered for {PATIENCE:.0f} seconds."
        return Finding("endpoint", False, sentence, "Check OPENAI_BASE_URL and the network.")


def check_listing(listed: Sequence[str], names: Sequence[str]) -> Finding:
    """Whether the endpoint has the models that are set; one that lists none has to be believed."""
    missing = [name for name in names if name not in (AUTO, EMBEDDED, *listed)]
    if not listed or not missing:
        return Finding("endpoint", True, f"It answers; models listed: {len(listed)}.")
    some = ", ".join(sorted(listed)[:10])
    sentence = f"It answers, but does not list the model {missing[0]!r}."
    return Finding("endpoint", False, sentence, f"Set one that it lists, such as: {some}")
