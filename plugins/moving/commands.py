"""The implementation of `python main.py import FROM PATH` and `export FOLDER`.

The personas of another program become agents of the configuration, which only its file can define.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bot.access import NAME, person_of
from bot.app import App
from bot.assembly import assemble
from bot.command_line import with_places, write_line
from bot.connecting import write_all
from bot.data_folder import (
    FolderError,
    check_moved,
    check_not_emptied,
    find_database,
    has_bot,
    lock_data_folder,
)
from bot.logs import set_up_logs
from bot.paragraphs import count
from bot.progress import ProgressLine, progress
from bot.settings import Layers, SettingError, SettingsStore, load_layers
from bot.settings.files import read_tree
from bot.settings.layers import AgentLayer
from channels.message import clean_text
from memory.record.engines import engine_for
from memory.record.people import find_known
from memory.record.rehearsal import NEWEST, find_schema
from memory.record.store import Store, StoreError
from plugins.moving.export import ExportResult, export
from plugins.moving.importer import Destination, Importer, count_prompts
from plugins.moving.kinds import open_source, suggest
from plugins.moving.plain_importer import PlainExport, PlainImporter
from plugins.moving.report import describe, describe_nothing
from plugins.moving.source import ImportedProfile, MovingError, Persona
from plugins.moving.workspace import ForeignSource

_LONGEST_PROMPT, _LONGEST_ABOUT = 90_000, 500
_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


def add_agents(config: Path, personas: Sequence[Persona], known: Collection[str]) -> list[str]:
    """Add the personas that the configuration does not have, and return their names. The rest of
    the file keeps its values. Raises MovingError and SettingError."""
    new = [one for one in map(as_agent, personas) if one["id"] not in known]
    new = list({one["id"]: one for one in new}.values())
    if not new:
        return []
    if config.suffix.lower() in (".yaml", ".yml"):
        block = json.dumps(new, indent=2, ensure_ascii=False)
        raise MovingError(
            f"{config} is YAML, whose comments would be lost, so the personas were not written; "
            f"put them there yourself:\nagents: {block}"
        )
    tree = read_tree(config) if config.exists() else {}
    before = config.read_text("utf-8") if config.exists() else None
    wanted = {**tree, "agents": [*tree.get("agents", []), *new]}
    write_all({config: json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"})
    try:
        load_layers(config, os.environ)
    except SettingError:
        if before is None:
            config.unlink()
        else:
            write_all({config: before})
        raise
    return [one["id"] for one in new]


def as_agent(persona: Persona) -> Mapping[str, Any]:
    """Return a persona as an agent of the configuration. Its text is escaped, so that it refers to
    no file and no secret."""
    prompt = clean_text(persona.prompt)[:_LONGEST_PROMPT].replace("{{", "{ {")
    if prompt.startswith("file:") or prompt.endswith((".md", ".txt")):
        prompt = f"You are told:\n{prompt}"
    return {
        "id": _NAMES.sub("-", persona.name).strip("-")[:64] or "imported",
        "description": " ".join(clean_text(persona.description).split())[:_LONGEST_ABOUT].replace(
            "{{", "{ {"
        ),
        "system_prompt": prompt,
    }


CHANNELS = ("web", "terminal")
"""The channels that list several conversations of one person."""


def _say(options: argparse.Namespace, text: str) -> None:
    """Print a text for the person, which may contain names chosen by strangers."""
    write_line(clean_text(with_places(text, options)))


Take = Callable[[App | None], Awaitable[None]]
"""An import; with None there is no bot yet, and nothing is written."""


def run_import(options: argparse.Namespace) -> int:
    """Import and return the exit code. Raises MovingError, FolderError, StoreError,
    SettingError."""
    try:
        return _import_all(options)
    except (MovingError, StoreError) as error:
        if hint := suggest(options.source, options.path):
            raise MovingError(f"{error} {hint}") from None
        raise


def _import_all(options: argparse.Namespace) -> int:
    layers = _load_layers(options, "import")
    take = _choose(options)
    place = find_database(layers, options.data)
    if options.dry_run and not has_bot(place):
        asyncio.run(_rehearse(take))
        return 0
    if options.dry_run and find_schema(engine_for(place)) != NEWEST:
        raise FolderError(  # reading it would require a schema upgrade
            f"The data in {options.data} is of an older Parley, and --dry-run changes nothing; "
            "upgrade it first with `python main.py upgrade`."
        )
    try:
        with _lock_folder(options, layers):
            asyncio.run(_run_import(options, layers, take))
    except KeyboardInterrupt:
        _say(options, "Stopped. Imported conversations stay; run the same command to continue.")
        return 130
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Export and return the exit code. Raises MovingError, FolderError, StoreError,
    SettingError."""
    layers = _load_layers(options, "export")
    place = find_database(layers, options.data)
    if not has_bot(place):
        raise FolderError(f"There is no bot in {options.data}; name its folder with --data DIR.")
    with _lock_folder(options, layers):
        asyncio.run(_write_out(options, place))
    return 0


async def _write_out(options: argparse.Namespace, place: Path | str) -> None:
    store = await Store.open(engine_for(place), "alone")
    try:
        with progress("Exporting", "conversations") as shown:
            done = await export(store, options.data, options.folder, shown)
    finally:
        await store.close()
    _say(
        options,
        f"Exported {count(done.conversations, 'conversation')} with "
        f"{count(done.messages, 'message')}, and {count(done.files, 'file')}, to {options.folder}.",
    )
    if done.left_out:
        explanation = "removed (/undo, /context clear)"
        left_out = count(
            done.left_out, f"message that was {explanation}", f"messages that were {explanation}"
        )
        _say(options, f"Not exported: {left_out}.")
    for line in _describe_waiting(done):
        _say(options, line)


def _describe_waiting(done: ExportResult) -> Iterator[str]:
    """Describe the parts that are not exported, since nobody has approved them yet."""
    if done.waiting:
        parts = count(
            done.waiting, "part of daily memory that waits", "parts of daily memory that wait"
        )
        yield (
            f"Not exported: {parts} in the quarantine. /memory pending shows them; what you "
            "approve there is in the next export."
        )
    if done.proposed:
        chats = count(done.proposed, "chat")
        yield (
            f"Not exported: proposals for the MEMORY.md of {chats} that wait for approval; "
            "/memory diff shows it there."
        )


def _load_layers(options: argparse.Namespace, command: str) -> Layers:
    layers = load_layers(options.config, os.environ)
    if SettingsStore(layers).effective().broker:
        raise FolderError(
            f"`{command}` is for a bot of one process; this one is a cluster (broker)."
        )
    return layers


@contextmanager
def _lock_folder(options: argparse.Namespace, layers: Layers) -> Iterator[None]:
    """Lock the data folder, and write logs there."""
    os.umask(os.umask(0) | 0o077)  # all files are for one person only
    place = find_database(layers, options.data)
    with lock_data_folder(options.data):
        if isinstance(place, Path):
            check_not_emptied(options.data)
        else:
            check_moved(place, options.data)
        close_logs = set_up_logs(options.data / "logs", layers, is_quiet=True)
        try:
            yield
        finally:
            close_logs()


def _choose(options: argparse.Namespace) -> Take:
    """Return the function that imports it, after checking that it exists and has that format.
    Raises MovingError."""
    source = open_source(options.source, options.path, options.user, options.data)
    if isinstance(source, PlainExport):
        if options.to:
            raise MovingError(
                "--to is not for parley, whose conversations go back to where they were; leave it "
                "out."
            )
        return partial(_import_export, options, source)
    options.to = options.to or CHANNELS[0]
    destination = _destination(options.to)
    return partial(_import_foreign, options, source, destination)


def _destination(text: str) -> Destination:
    channel, _, user = text.partition("/")
    is_name = not user or (channel == "web" and NAME.fullmatch(user))
    if channel not in CHANNELS or not is_name:
        raise MovingError(
            f"Conversations can't be put into {text}: write --to web, --to web/NAME for somebody "
            "with access to the page, or --to terminal."
        )
    return Destination(channel, user)


async def _rehearse(take: Take) -> None:
    await take(None)


async def _run_import(options: argparse.Namespace, layers: Layers, take: Take) -> None:
    app = await assemble(layers, options.data, [])
    app.clock.is_kept = not options.dry_run
    try:
        await app.begin()
        await app.conversations.services.meter.ready()
        await take(app)
        await app.conversations.flush()
        with progress("Indexing", "messages") as shown:
            await app.conversations.index(shown)
    finally:
        await app.close()


async def _import_foreign(
    options: argparse.Namespace,
    source: ForeignSource,
    destination: Destination,
    app: App | None,
) -> None:
    shown = ProgressLine("Importing", "conversations")
    importer = Importer(
        app,
        source,
        destination,
        is_own=options.mine,
        is_rehearsal=options.dry_run,
        progress=shown,
    )
    try:
        try:
            await importer.import_chats()
        finally:
            shown.close()
        own = source.read_profile()
        is_nothing = not (own or importer.result.was_read)
        if is_nothing and (importer.result.unreadable or not source.skipped):
            raise MovingError(describe_nothing(importer.result, source, options.path))
        await importer.import_memory(own)
        await importer.import_schedules(own)
    except (MovingError, StoreError):
        if importer.result.turns:  # the chats imported before the error are kept
            _say(options, describe(importer.result, source, options, []))
        raise
    if destination.user and not (app and await _has_access(app, destination.user)):
        source.skipped.remarks.append(
            f"Nobody called {destination.user} has access to the page yet; to give them access: "
            f"python main.py invite {destination.user}"
        )
    agents: list[str] = []
    try:
        agents = await _import_settings(options, app, importer, own)
    finally:  # even if the settings fail, the conversations are imported
        _say(options, describe(importer.result, source, options, agents))


async def _has_access(app: App, user: str) -> bool:
    return await app.store.read(lambda db: find_known(db, person_of(user))) is not None


async def _import_export(options: argparse.Namespace, source: PlainExport, app: App | None) -> None:
    with progress("Importing", "conversations") as shown:
        how = {"is_own": options.mine, "is_rehearsal": options.dry_run}
        importer = PlainImporter(app, source, **how, progress=shown)
        was_read = await importer.import_all()
    if not was_read:
        raise MovingError(describe_nothing(importer.result, source, options.path))
    _say(options, describe(importer.result, source, options, []))


async def _import_settings(
    options: argparse.Namespace, app: App | None, importer: Importer, own: ImportedProfile
) -> list[str]:
    """Import the settings if requested, and return the agents that were, or would be, added to the
    configuration."""
    known = app.config.book.agents if app else {}
    for one in map(as_agent, own.personas):
        if one["id"] in known and _is_other(known[one["id"]], one["system_prompt"]):
            importer.note_skipped(f"There is an agent {one['id']} already, which stays as it is.")
    new = [one["id"] for one in map(as_agent, own.personas) if one["id"] not in known]
    if app is None or not options.with_settings:
        importer.result.settings = [f"{one.key} = {one.value}" for one in own.settings]
        if importer.prompts:
            importer.result.settings.append(count_prompts(len(importer.prompts)))
        return new
    await importer.import_settings(own)
    if options.dry_run:
        return new
    return add_agents(options.config, own.personas, app.config.book.agents)


def _is_other(agent: AgentLayer, prompt: str) -> bool:
    return agent.settings.as_written.get("system_prompt") != prompt
