"""`python main.py report`: one file with the facts that a developer needs to fix a fault, without
messages, names and secrets.

Each part is built from known harmless data, not by removing private data (`report_masking`); then
all of it is masked for secrets once more.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import re
import sys
import time
import zipfile
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from agent.models.catalogue import window_of
from agent.models.selection import AUTO, EMBEDDED
from bot.app import VERSION
from bot.command_line import write_line
from bot.data_folder import find_database
from bot.logs import mask
from bot.paragraphs import count
from bot.settings import SettingError, load_layers
from memory.record.engines import engine_for
from memory.record.store import StoreError
from plugins.api import CommandError
from plugins.operations import doctor
from plugins.operations.audit import Installation, installation
from plugins.operations.log_reading import read_entries
from plugins.operations.record import SQLITE, count_rows
from plugins.operations.report_masking import LogMasker, read_pins
from plugins.operations.restore import SET_ASIDE

MOST_EVENTS = 5_000
"""The number of log entries in a report, the newest."""
FOLDERS = ("audiences", "logs", "plugins", "skills", SET_ASIDE)
"""The folders in the data folder that are reported by name."""
CONTENTS = {
    "versions.json": "versions of Parley, Python, the system and the packages",
    "settings.json": "settings that are not the default: numbers, yes or no, one of several words; "
    "of texts, names, addresses and lists only how long they are",
    "checks.json": "what `doctor` finds on this machine, as well or not well; no endpoint is asked",
    "data.json": "how many rows each table has, how many files, and how large they are",
    "log.txt": "the newest events of the log: times, the bot's own sentences without what was "
    "filled in, kinds of errors and the places in source files; chats are numbered",
}
ABSENT = (
    "messages, answers, memories, summaries, prompts",
    "names of people, chats, files, plugins, servers and agents",
    "keys, tokens, passwords and addresses",
    "the name of this machine and of its users",
)


class ReportedInstallation(Struct, frozen=True):
    """The installation that is reported on."""

    config: Path
    data: Path
    environ: Mapping[str, str]


def run(options: argparse.Namespace) -> int:
    """Write the requested report."""
    file = options.file or Path(f"parley-report-{datetime.now(UTC):%Y%m%d-%H%M%S}.zip")
    place = ReportedInstallation(options.config, options.data, os.environ)
    members = collect(place)
    try:
        write(file, members)
    except OSError as error:
        raise CommandError(f"{file} can't be written: {error.strerror}.") from None
    write_line(f"Wrote {file} ({file.stat().st_size / 1e3:.0f} KB). In it:")
    for name, meaning in CONTENTS.items():
        write_line(f"  {name:14} {meaning}")
    write_line("Not in it:")
    for what in ABSENT:
        write_line(f"  {what}")
    write_line(f"Look through it before you send it: unzip -p {file} | less")
    return 0


def write(file: Path, members: Mapping[str, str]) -> None:
    """Write the members to a new ZIP file that only the owner can read. Raises OSError."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with (
        os.fdopen(descriptor, "wb") as out,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped,
    ):
        for name, text in members.items():
            zipped.writestr(zipfile.ZipInfo(name, time.gmtime()[:6]), text, zipfile.ZIP_DEFLATED)


def collect(place: ReportedInstallation) -> dict[str, str]:
    """Return the members of a report by name, with secrets masked."""
    found, fault = _read_installation(place)
    members = {
        "README.txt": _introduce(),
        "versions.json": _dump(describe_versions()),
        "settings.json": _dump(describe_settings(found) if found else {"left out": fault}),
        "checks.json": _dump(asyncio.run(_check(place))),
        "data.json": _dump(_describe_data(place)),
        "log.txt": "\n".join(_mask_log(place.data / "logs")) + "\n",
    }
    secrets = _list_secrets(place)
    return {name: mask(text, secrets) for name, text in members.items()}


def _list_secrets(place: ReportedInstallation) -> Collection[str]:
    """List the secrets that must never be in a report, for a last check."""
    try:
        return load_layers(place.config, place.environ).secrets.to_mask()
    except SettingError:
        return ()


def _read_installation(place: ReportedInstallation) -> tuple[Installation | None, str]:
    """Return the installation, or None and the reason why it can't be read."""
    try:
        return installation(place.config, place.data, place.environ), ""
    except SettingError:
        return None, "The configuration can't be read."
    except (StoreError, OSError):
        return None, "The database can't be read."


def _introduce() -> str:
    held = "\n".join(f"- {name}: {meaning}" for name, meaning in CONTENTS.items())
    absent = "\n".join(f"- {what}" for what in ABSENT)
    return (
        f"A report on an installation of Parley {VERSION}, by `python main.py report`.\n\n"
        f"In it:\n{held}\n\nNot in it:\n{absent}\n"
    )


def _dump(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


# --- versions -------------------------------------------------------------------------------------


def describe_versions() -> dict[str, Any]:
    """Describe the versions of the software and system, without data that identifies the
    machine."""
    release = re.match(r"[\d.]+", platform.release())
    return {
        "parley": VERSION,
        "python": platform.python_version(),
        "system": sys.platform,
        "release": release[0] if release else "",
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "sqlite": SQLITE,
        "processors": os.cpu_count(),
        "is_container": Path("/.dockerenv").exists() or Path("/run/.containerenv").exists(),
        "packages": dict(_list_packages()),
    }


def _list_packages() -> Iterator[tuple[str, str]]:
    """Yield the packages that Parley names, with the installed version, and the tested one if it
    differs."""
    for name, version in sorted(read_pins().items()):
        there = doctor.find_installed_version(name) or "missing"
        yield name, there if there == version else f"{there} (tested: {version})"


# --- settings -------------------------------------------------------------------------------------


def describe_settings(found: Installation) -> dict[str, Any]:
    """Describe the settings that are not the default, with their source, and counts of other
    data."""
    infos = found.book.describe_all()
    settings = {
        info.key: {"value": mask_value(info.value, info.choices), "from": info.layer.split(" ")[0]}
        for info in infos
        if info.layer != "default" and info.value != info.default
    }
    model = found.settings.model
    if model in (AUTO, EMBEDDED) or window_of(model):
        settings.setdefault("model", {"from": "default"})["value"] = model
    carried = found.carried
    return {
        "settings": settings,
        "agents": len(found.layers.agents),
        "set in single chats": len([scope for scope, _, _ in carried.settings if scope]),
        "owners and users let in": [len(carried.owners), len(carried.users)],
        "keys": len(carried.keys),
        "linked chats": len(carried.links),
        "jobs": len(carried.jobs),
    }


def mask_value(value: object, choices: Collection[str] = ()) -> object:
    """Return a setting's value as far as it may be reported: only the length of a text or list."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if value in choices or not value else f"<text, {len(value)} characters>"
    if isinstance(value, Collection):
        return f"<{count(len(value), 'entry', 'entries')}>"
    return "<something>"


# --- checks and data ------------------------------------------------------------------------------


async def _check(place: ReportedInstallation) -> dict[str, str]:
    """Return the doctor's findings by kind; the sentences may contain names and addresses."""
    probes = doctor.Probes(place.config, place.data, place.environ, may_connect=False)
    findings = await doctor.examine(probes)
    results: dict[str, str] = {}
    for finding in findings:
        kind = finding.name.partition(" of ")[0]
        if kind in _CHECKS:
            results[kind] = "not well" if not finding.is_ok else results.get(kind, "well")
    return results


_CHECKS = (
    "python",
    "packages",
    "data",
    "database",
    "settings",
    "MCP servers",
    "key",
    "demo model",
)


def _describe_data(place: ReportedInstallation) -> dict[str, Any]:
    data: dict[str, Any] = {"files": dict(_measure_files(place.data))}
    try:
        where = find_database(load_layers(place.config, place.environ), place.data)
        data["database"] = "a file" if isinstance(where, Path) else "a server"
        if not isinstance(where, Path) or where.exists():
            with engine_for(where).visit() as database:
                data["rows"] = count_rows(database)
    except (SettingError, StoreError, OSError) as error:
        data["rows"] = f"can't be read ({type(error).__name__})"
    return data


def _measure_files(data: Path) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the number and size of files, by folders with known names."""
    weights: dict[str, dict[str, int]] = {}
    for folder, _, files in os.walk(data):
        top = Path(folder).relative_to(data).parts[:1]
        name = "." if not top else top[0] if top[0] in FOLDERS else "other folders"
        weight = weights.setdefault(name, {"files": 0, "bytes": 0})
        for file in files:
            weight["files"] += 1
            weight["bytes"] += _size(Path(folder, file))
    yield from sorted(weights.items())


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:
        return 0


# --- the log --------------------------------------------------------------------------------------


def _mask_log(folder: Path) -> Iterator[str]:
    if not folder.is_dir():
        yield "There is no log."
        return
    masker = LogMasker()
    try:
        entries = deque(read_entries(folder), maxlen=MOST_EVENTS)
    except OSError as error:
        yield f"The log can't be read ({type(error).__name__})."
        return
    for entry in entries:
        yield from masker.mask(entry)
