"""Finds plugins and takes what they offer; a broken one is reported by name and left out."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

import plugins.builtin
from plugins import hookspecs
from plugins.api import Command, Tool

log = logging.getLogger(__name__)

ENTRY_POINTS = "parley"
"""The group under which an installed package names its plugin modules."""


@dataclass(slots=True)
class Loaded:
    """What all plugins offer, by name, and one sentence for each plugin that was left out."""

    names: list[str] = field(default_factory=list)
    commands: dict[str, Command] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def load(folder: Path) -> Loaded:
    """Load the built-in plugins, those of a user's folder, and those of installed packages."""
    loaded = Loaded()
    manager = pluggy.PluginManager("parley")
    manager.add_hookspecs(hookspecs)
    for name, find in _sources(folder):
        try:
            _add(manager, name, find(), loaded)
        except (Exception, SystemExit) as error:
            log.exception("plugin %s was left out", name)
            reason = str(error) or type(error).__name__
            loaded.problems.append(f"The plugin {name!r} was left out: {reason}.")
    return loaded


def _sources(folder: Path) -> Iterator[tuple[str, Callable[[], ModuleType]]]:
    """(name, how to import it) for each plugin, the built-in ones first."""
    for module in pkgutil.iter_modules(plugins.builtin.__path__):
        path = f"plugins.builtin.{module.name}"
        yield module.name, lambda path=path: importlib.import_module(path)  # type: ignore[misc]
    for file in sorted(folder.glob("*.py")) if folder.is_dir() else ():
        yield file.stem, lambda file=file: _from_file(file)  # type: ignore[misc]
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        yield point.name, point.load


def _from_file(file: Path) -> ModuleType:
    name = f"parley_user_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} can't be read as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _add(manager: pluggy.PluginManager, name: str, plugin: Any, loaded: Loaded) -> None:
    """Take all that a plugin offers, or nothing of it."""
    manager.register(plugin, name)
    try:
        others = [other for other in manager.get_plugins() if other is not plugin]
        commands = _offered(manager, "parley_commands", others, Command)
        tools = _offered(manager, "parley_tools", others, Tool)
        _refuse_taken("command", commands, loaded.commands)
        _refuse_taken("tool", tools, loaded.tools)
    except BaseException:
        manager.unregister(plugin)
        raise
    loaded.commands |= {command.name: command for command in commands}
    loaded.tools |= {tool.name: tool for tool in tools}
    loaded.names.append(name)


def _offered(
    manager: pluggy.PluginManager, hook: str, others: list[Any], kind: type[Any]
) -> list[Any]:
    lists = manager.subset_hook_caller(hook, others)()
    offered = [item for items in lists for item in items]
    for item in offered:
        if not isinstance(item, kind):
            raise TypeError(f"{hook} must return a list of {kind.__name__}, not {item!r}")
    return offered


def _refuse_taken(what: str, offered: list[Any], taken: dict[str, Any]) -> None:
    names = [item.name for item in offered]
    for name in names:
        if name in taken or names.count(name) > 1:
            raise ValueError(f"its {what} {name!r} is there already")
