"""Finds plugins and takes what they offer; a broken one is reported by name and left out."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import logging
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from inspect import isroutine
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary

import pluggy
from msgspec import Struct, field
from msgspec.structs import replace

import plugins.builtin
from agent.prompt import PromptHook
from memory.events import Listener
from memory.keys import ConversationKey
from memory.record.offload import Offloader
from plugins import hookspecs
from plugins.api import Command, HookContext, Tool

log = logging.getLogger(__name__)

ENTRY_POINTS = "parley"
"""The group under which an installed package names its plugin modules."""


_NAMES = {
    "command": re.compile(r"[a-z][a-z0-9_]{0,31}"),  # what can be typed, in Telegram's menu too
    "tool": re.compile(r"[A-Za-z0-9_-]{1,64}"),  # what OpenAI's protocol takes
}


class Unfit(Exception):
    """A plugin's fault, in words that complete "it was left out: …"."""


class Loaded(Struct):
    """What all plugins offer, by name, and one sentence for each plugin that was left out."""

    names: list[str] = field(default_factory=list)
    commands: dict[str, Command] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    listeners: list[Listener] = field(default_factory=list)
    prompt_hooks: list[PromptHook] = field(default_factory=list)
    offloader: Offloader | None = None
    problems: list[str] = field(default_factory=list)


def load(folder: Path, context: HookContext = HookContext()) -> Loaded:  # noqa: B008 - a frozen value
    """Load the built-in plugins, those of a user's folder, and those of installed packages."""
    loaded = Loaded()
    manager = pluggy.PluginManager("parley")
    manager.add_hookspecs(hookspecs)
    for name, find in _sources(folder):
        try:
            _add(manager, name, find(), loaded, context)
        except (Exception, SystemExit) as error:
            log.info("the plugin %s fails:", name, exc_info=True)  # the problem itself is told
            loaded.problems.append(f"The plugin {name!r} was left out: {_reason(error)}.")
    return loaded


def _reason(error: BaseException) -> str:
    """An error in one line; the log has the rest."""
    line = " ".join(str(error).split()).rstrip(".")
    return line if isinstance(error, Unfit) else f"{type(error).__name__}: {line or 'no reason'}"


def _sources(folder: Path) -> Iterator[tuple[str, Callable[[], ModuleType]]]:
    """(name, how to import it) for each plugin, the built-in ones first."""
    for name in _built_in():
        path = f"plugins.builtin.{name}"
        yield name, lambda path=path: importlib.import_module(path)  # type: ignore[misc]
    for file in sorted(folder.glob("*.py")) if folder.is_dir() else ():
        yield file.stem, lambda file=file: _from_file(file)  # type: ignore[misc]
    for point in _installed(tuple(sys.path)):
        yield point.name, point.load


@cache
def _built_in() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(plugins.builtin.__path__)]


@cache
def _installed(path: tuple[str, ...]) -> list[EntryPoint]:
    """List the plugins of the packages on `path`. It reads the metadata of every package."""
    return sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name)


def _from_file(file: Path) -> ModuleType:
    name = f"parley_user_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} can't be read as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _add(
    manager: pluggy.PluginManager, name: str, found: Any, loaded: Loaded, context: HookContext
) -> None:
    """Take all that a plugin offers, or nothing of it."""
    if manager.has_plugin(name):
        raise Unfit("there is a plugin of this name already; rename the file")
    plugin = _hooks_of(found) if isinstance(found, ModuleType) else found
    manager.register(plugin, name)
    try:
        _refuse_unknown_hooks(manager, plugin)
        commands = _collect(manager, plugin, "parley_commands", Command)
        tools = _collect(manager, plugin, "parley_tools", Tool)
        listeners = _collect(manager, plugin, "parley_listeners", Listener, context=context)
        offloader = _offloader(manager, plugin, loaded)
        _refuse_names("command", commands, loaded.commands)
        _refuse_names("tool", tools, loaded.tools)
        json.dumps([tool.to_wire() for tool in tools])  # what can't be sent would fail every turn
    except BaseException:
        manager.unregister(plugin)
        raise
    loaded.commands |= {command.name: command for command in commands}
    loaded.tools |= {tool.name: replace(tool, group=name) for tool in tools}
    loaded.listeners += listeners
    loaded.offloader = offloader or loaded.offloader
    loaded.prompt_hooks += _prompt_hooks(manager, name, plugin)
    loaded.names.append(name)


class _Hooks(ModuleType):
    """A module with nothing but another one's hooks: pluggy looks at all that stands in what it is
    given, which takes longer than all else that is done with a plugin."""

    def __dir__(self) -> list[str]:
        return [name for name in vars(self) if not name.startswith("__")]


def _hooks_of(module: ModuleType) -> ModuleType:
    if module not in _HOOKS:
        hooks = _Hooks(module.__name__)
        for name, value in vars(module).items():
            if isroutine(value) and hasattr(value, "parley_impl"):
                setattr(hooks, name, value)
        _HOOKS[module] = hooks
    return _HOOKS[module]


_HOOKS: WeakKeyDictionary[ModuleType, ModuleType] = WeakKeyDictionary()


def _refuse_unknown_hooks(manager: pluggy.PluginManager, plugin: Any) -> None:
    callers = manager.get_hookcallers(plugin) or []
    known = [name for name in vars(hookspecs) if name.startswith("parley_")]
    for name in (caller.name for caller in callers if not caller.has_spec()):
        near = difflib.get_close_matches(name, known, n=1)
        raise Unfit(f"there is no hook {name}, only {near[0] if near else ', '.join(known)}")


def _ask(manager: pluggy.PluginManager, plugin: Any, hook: str, **handed: Any) -> list[Any]:
    """What one plugin alone answers to a hook; nothing where it has none."""
    implementations = getattr(manager.hook, hook).get_hookimpls()
    own = [one for one in implementations if one.plugin is plugin]
    return [one.function(*(handed[name] for name in one.argnames)) for one in own]


def _offloader(manager: pluggy.PluginManager, plugin: Any, loaded: Loaded) -> Offloader | None:
    hook = "parley_offloader"
    for made in _ask(manager, plugin, hook):
        for name in ("offload_context", "offload_tool_result"):
            if not callable(getattr(made, name, None)):
                raise Unfit(f"{hook} must return an object with a method {name}, not {made!r:.100}")
        if not isinstance(getattr(made, "offers", ""), str):
            raise Unfit(f"{hook} must return an object whose offers is text")
        if not callable(getattr(made, "forget", len)):
            raise Unfit(f"{hook} must return an object whose forget is a method")
        if loaded.offloader is not None:
            raise Unfit("another plugin keeps what leaves the context already")
        return cast(Offloader, made)
    return None


def _collect(
    manager: pluggy.PluginManager, plugin: Any, hook: str, kind: type[Any], **handed: Any
) -> list[Any]:
    lists = _ask(manager, plugin, hook, **handed)
    if not lists:
        return []
    if not isinstance(lists[0], list | tuple):
        raise Unfit(f"{hook} must return a list of {kind.__name__}")
    for item in lists[0]:
        if not isinstance(item, kind):
            raise Unfit(f"{hook} must return a list of {kind.__name__}, not {item!r}")
    return list(lists[0])


def _prompt_hooks(manager: pluggy.PluginManager, name: str, plugin: Any) -> list[PromptHook]:
    hooks = manager.hook.parley_system_prompt.get_hookimpls()
    return [PromptHook(name, partial(_rewrite, hook)) for hook in hooks if hook.plugin is plugin]


def _rewrite(hook: pluggy.HookImpl, prompt: str, key: ConversationKey) -> object:
    """Call one plugin's hook, with those of the arguments that it takes."""
    known = {"prompt": prompt, "key": key}
    return hook.function(**{name: known[name] for name in hook.argnames})


def _refuse_names(what: str, offered: list[Any], taken: dict[str, Any]) -> None:
    names = [item.name for item in offered]
    for name in names:
        if name in taken or names.count(name) > 1:
            raise Unfit(f"there is already a {what} {name!r}")
        if not _NAMES[what].fullmatch(name):
            raise Unfit(f"{name!r} can't name a {what}; it must match {_NAMES[what].pattern}")
