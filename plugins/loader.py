"""Finds and loads plugins; a broken one is reported by name and left out."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import json
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from inspect import isroutine
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import pluggy
from msgspec import Struct, field
from msgspec.structs import replace

from agent.prompt import PromptHook, PromptSection
from channels.base import Logins
from channels.message import Inbound, Reply
from memory.events import Listener
from memory.keys import ConversationKey
from memory.ledger import Ledger
from memory.record import feature_tables
from memory.record.database import Database, Step
from memory.record.forget import FeatureRows
from memory.record.offload import Offloader
from memory.record.search.likeness import Likeness
from memory.record.store import Store
from memory.services import Mirror, RequestLog
from memory.turn_log import OpenTurn
from plugins import hookspecs
from plugins.api import (
    Command,
    CommandError,
    ContextPart,
    HookContext,
    InForce,
    Offer,
    Person,
    Tool,
    UserWords,
    Verb,
)
from plugins.features import FOLDER, is_guard, list_features
from plugins.guarding import (
    Guarded,
    GuardedObject,
    GuardedWork,
    add_verbs,
    find_misplaced,
    is_notes,
)
from plugins.hookspecs import Background, RemoteToolsFor

log = logging.getLogger(__name__)

T = TypeVar("T")

BUILTIN = [str(FOLDER / "builtin")]
SPENDING = (
    *("load", "book", "refusal", "is_enough", "limit", "begin", "choice", "describe_choice"),
    *("find_problem", "warnings"),
)
"""The methods of the rules for spending (`bot.spending.SpendingRules`)."""
ENTRY_POINTS = "parley"
"""The group under which an installed package names its plugin modules."""


_NAMES = {
    "command": re.compile(r"[a-z][a-z0-9_]{0,31}"),  # can be typed, also in Telegram's menu
    "tool": re.compile(r"[A-Za-z0-9_-]{1,64}"),  # accepted by OpenAI's protocol
}


class GuardFailed(CommandError):
    """A built-in feature that enforces a restriction can't be started; the text says which."""


class PluginFault(Exception):
    """A plugin has a fault; the text completes "it was left out: …"."""


class LoadedPlugins(Struct):
    """The contributions of all plugins, by name, and a sentence for each plugin that was left out.
    `services` are the objects that plugins have opened, by class; the others are named like the
    hooks in `plugins/hookspecs.py`."""

    names: list[str] = field(default_factory=list)
    commands: dict[str, Command] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    listeners: list[Listener] = field(default_factory=list)
    prompt_hooks: list[PromptHook] = field(default_factory=list)
    prompt_sections: list[PromptSection] = field(default_factory=list)
    said: list[Callable[[UserWords], Awaitable[None]]] = field(default_factory=list)
    in_force: list[InForce] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    offloader: Offloader | None = None
    ledger: Ledger | None = None
    request_log: type[RequestLog] | None = None
    mirror: type[Mirror] | None = None
    likeness: type[Likeness] | None = None
    verbs: list[Verb] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    services: dict[type, object] = field(default_factory=dict)
    background: list[Background] = field(default_factory=list)
    closing: list[Background] = field(default_factory=list)
    setting_changed: list[Callable[[], None]] = field(default_factory=list)
    remote_tools: list[RemoteToolsFor] = field(default_factory=list)
    context_parts: dict[str, list[ContextPart]] = field(default_factory=dict)
    stops: list[Callable[[ConversationKey], bool]] = field(default_factory=list)
    runs: list[Any] = field(default_factory=list)
    speech_to_text: list[Any] = field(default_factory=list)
    text_to_speech: list[Any] = field(default_factory=list)
    notes: list[Callable[[OpenTurn], Sequence[str | Reply]]] = field(default_factory=list)
    meant: list[Callable[[Inbound, ConversationKey, Person], str]] = field(default_factory=list)
    rows: list[FeatureRows] = field(default_factory=list)
    spending: list[Any] = field(default_factory=list)
    approvals: list[Any] = field(default_factory=list)
    logins: list[Logins] = field(default_factory=list)
    routes: list[Callable[[Any], Sequence[object]]] = field(default_factory=list)
    calls: dict[str, Callable[[bytes], Awaitable[bytes]]] = field(default_factory=dict)
    _manager: pluggy.PluginManager | None = None
    _context: HookContext = HookContext()

    def service(self, kind: type[T]) -> T:
        """Return the object of this class that a feature has opened. Raises KeyError."""
        return cast(T, self.services[kind])

    def notify_settings_changed(self) -> None:
        """Notify the features that settings were changed."""
        for handle in self.setting_changed:
            handle()

    async def close(self) -> None:
        """Let the features release the resources of turns and commands."""
        for work in self.closing:
            await work.stop()

    def take(self, part: LoadedPlugins) -> None:
        """Add the contributions of one plugin."""
        for name in self.__struct_fields__:
            own, more = getattr(self, name), getattr(part, name)
            if isinstance(own, list):
                own.extend(more)
            elif name == "context_parts":
                for place, parts in more.items():
                    own.setdefault(place, []).extend(parts)
            elif isinstance(own, dict):
                own.update(more)
        self.offloader = part.offloader or self.offloader
        self.ledger = part.ledger or self.ledger
        self.request_log = part.request_log or self.request_log
        self.mirror = part.mirror or self.mirror
        self.likeness = part.likeness or self.likeness

    async def open(self, kernel: object, store: Store) -> None:
        """Migrate the tables of each plugin and call its `parley_open`, in the order of loading;
        add the contributions of the returned objects. Commands, tools and the rest are added to the
        same collections."""
        manager = self._manager
        assert manager is not None, "loaded by `load`"
        for name in [*self.names]:
            module = manager.get_plugin(name)
            try:
                for steps in _ask(manager, module, "parley_tables"):
                    await store.write(partial(_migrate, name, steps), is_long=True)
                for made in _ask(manager, module, "parley_open", kernel=kernel):
                    if inspect.isawaitable(made):
                        made = await made
                    if made is not None:
                        _add(manager, f"{name} (opened)", made, self, self._context, name)
                        self.services.setdefault(type(made), made)
            except (Exception, SystemExit) as error:
                log.info("the plugin %s can't be opened:", name, exc_info=True)
                if name in _own():
                    _refuse_start(name, error)
                self.problems.append(f"The plugin {name!r} was not opened: {_reason(error)}.")


def load(folder: Path, context: HookContext = HookContext()) -> LoadedPlugins:  # noqa: B008 - a frozen value
    """Load the built-in plugins, those of a user's folder, and those of installed packages."""
    manager = pluggy.PluginManager("parley")
    loaded = LoadedPlugins(_manager=manager, _context=context)
    manager.add_hookspecs(hookspecs)
    for name, find, is_own in _sources(folder):
        try:
            _add(manager, name, find(), loaded, context)
        except (Exception, SystemExit) as error:
            log.info("the plugin %s fails:", name, exc_info=True)  # the problem itself is reported
            if is_own:
                _refuse_start(name, error)
            loaded.problems.append(f"The plugin {name!r} was left out: {_reason(error)}.")
    for name, command in loaded.commands.items():
        if verbs := [verb for verb in loaded.verbs if verb.command == name]:
            loaded.commands[name] = add_verbs(command, verbs)
    return loaded


def _refuse_start(name: str, error: BaseException) -> None:
    """Raise GuardFailed for a feature that enforces a restriction."""
    if name in list_features() and is_guard(name):
        raise GuardFailed(
            f"The feature {name} can't be started ({_reason(error)}), and without it nothing would "
            "hold what it limits. The log says more; fetch Parley's files anew."
        ) from error


def _migrate(name: str, steps: Sequence[Step], database: Database) -> None:
    feature_tables.migrate(database, name, steps)


def _reason(error: BaseException) -> str:
    """Return an error in one line; the log has the rest."""
    line = " ".join(str(error).split()).rstrip(".")
    is_known = isinstance(error, PluginFault | feature_tables.NewerTablesError)
    return line if is_known else f"{type(error).__name__}: {line or 'no reason'}"


def _sources(folder: Path) -> Iterator[tuple[str, Callable[[], ModuleType], bool]]:
    """Yield (name, how to import it, whether it is built in) for each plugin, built-in ones
    first."""
    for name, path in _own().items():
        yield name, partial(importlib.import_module, path), True
    for file in sorted(folder.glob("*.py")) if folder.is_dir() else ():
        yield file.stem, partial(load_file, file), False
    for point in _installed(tuple(sys.path)):
        yield point.name, point.load, False


@cache
def _own() -> dict[str, str]:
    """Return the modules of the built-in plugins and of the features, by name."""
    own = {one.name: f"plugins.builtin.{one.name}" for one in iter_modules(BUILTIN)}
    own |= {name: f"plugins.{name}.feature" for name in list_features()}
    return dict(sorted(own.items()))


@cache
def _installed(path: tuple[str, ...]) -> list[EntryPoint]:
    """List the plugins of the packages on `path`. It reads the metadata of every package."""
    return sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name)


def name_module(file: Path) -> str:
    """Return the name of the module of a user's plugin."""
    return f"parley_user_{file.stem}"


def load_file(file: Path) -> ModuleType:
    """Load a user's plugin. Raises ImportError, and what the plugin raises."""
    name = name_module(file)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} can't be read as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _add(
    manager: pluggy.PluginManager,
    name: str,
    found: Any,
    loaded: LoadedPlugins,
    context: HookContext,
    opened_by: str = "",
) -> None:
    """Add all contributions of a plugin, or of the object that it was `opened_by`, or none of
    them."""
    if manager.has_plugin(name):
        raise PluginFault("there is a plugin of this name already; rename the file")
    plugin = _hooks_of(found)
    manager.register(plugin, name)
    try:
        _refuse_unknown_hooks(manager, plugin)
        if opened_by:
            _refuse_hooks_of_modules(plugin)
        commands = _collect(manager, plugin, "parley_commands", Command)
        tools = _collect(manager, plugin, "parley_tools", Tool)
        listeners = _collect(manager, plugin, "parley_listeners", Listener, context=context)
        offloader = _offloader(manager, plugin, loaded)
        ledger = _ledger(manager, plugin, loaded)
        request_log = _get_class(
            manager, plugin, "parley_request_log", RequestLog, loaded.request_log
        )
        mirror = _get_class(manager, plugin, "parley_mirror", Mirror, loaded.mirror)
        feature_tables.STEPS.update((name, s) for s in _ask(manager, plugin, "parley_tables"))
        likeness = _get_class(manager, plugin, "parley_likeness", Likeness, loaded.likeness)
        verbs = _collect(manager, plugin, "parley_verbs", Verb)
        _refuse_names("command", commands, loaded.commands)
        _refuse_names("tool", tools, loaded.tools)
        there = {**loaded.commands, **{command.name: command for command in commands}}
        if name not in _own() and (why := find_misplaced(verbs, there, loaded.verbs)):
            raise PluginFault(why)
        json.dumps([tool.to_wire() for tool in tools])
        part = _collect_runtime(manager, opened_by or name, plugin)
        if part.spending and loaded.spending:
            raise PluginFault("another plugin limits what is spent already")
        for call in part.calls.keys() & loaded.calls.keys():
            raise PluginFault(f"another plugin answers the call {call} already")
        for kind in part.services.keys() & loaded.services.keys():
            raise PluginFault(f"another plugin has a service of the class {kind.__name__} already")
    except BaseException:
        manager.unregister(plugin)
        raise
    part.commands = {command.name: command for command in commands}
    part.tools = {tool.name: replace(tool, group=name) for tool in tools}
    part.listeners, part.offloader, part.ledger = listeners, offloader, ledger
    part.request_log, part.mirror, part.likeness = request_log, mirror, likeness
    part.verbs = verbs
    part.prompt_hooks = _prompt_hooks(manager, name, plugin)
    loaded.take(part)
    if not opened_by:
        loaded.names.append(name)


_OF_MODULES = (
    *("parley_commands", "parley_tools", "parley_offloader"),
    *("parley_ledger", "parley_request_log", "parley_mirror", "parley_likeness", "parley_verbs"),
    *("parley_system_prompt", "parley_tables", "parley_open"),
)
"""The hooks that are called before the kernel exists."""


def _refuse_hooks_of_modules(made: _Hooks) -> None:
    for hook in _OF_MODULES:
        if hook in vars(made):
            raise PluginFault(
                f"{hook} must be a function of the module, not of what parley_open returns"
            )


def _collect_runtime(manager: pluggy.PluginManager, name: str, plugin: Any) -> LoadedPlugins:
    """Collect a plugin's run-time contributions; those that may fail are guarded."""

    def ask(hook: str, *methods: str) -> list[Any]:
        found = _ask(manager, plugin, hook)
        for made in found:
            if not all(callable(getattr(made, one, None)) for one in methods):
                wanted = ", ".join(methods)
                raise PluginFault(f"{hook} must return an object with {wanted}, not {made!r:.100}")
            if not methods and not callable(made):
                raise PluginFault(f"{hook} must return a function, not {made!r:.100}")
        return found

    def guard(hook: str, instead: Any, fits: Callable[[Any], bool]) -> list[Any]:
        return [Guarded(made, name, hook, instead, fits) for made in ask(hook)]

    def guard_object(hook: str, instead: Mapping[str, Any], *methods: str) -> list[Any]:
        return [GuardedObject(made, name, hook, instead) for made in ask(hook, *instead, *methods)]

    def ask_for(hook: str, kind: type[Any]) -> list[Any]:
        found = _ask(manager, plugin, hook)
        for made in found:
            if not isinstance(made, kind):
                raise PluginFault(
                    f"{hook} must return a {kind.__name__.lower()}, not {made!r:.100}"
                )
        return found

    background, closing, section = "parley_background", "parley_closing", "parley_prompt_section"
    return LoadedPlugins(
        background=[
            GuardedWork(name, background, one.idle, one.stop)
            for one in ask(background, "idle", "stop")
        ],
        closing=[GuardedWork(name, closing, one, one) for one in ask(closing)],
        setting_changed=guard("parley_setting_changed", None, _any),
        remote_tools=guard("parley_remote_tools", None, _is_remote_tools),
        stops=guard("parley_stop", False, _any),
        notes=guard("parley_notes", [], is_notes),
        meant=guard("parley_meant", "", lambda found: isinstance(found, str)),
        said=ask("parley_said"),
        in_force=guard("parley_in_force", ("", {}), _is_in_force),
        offers=ask("parley_offers"),
        prompt_sections=[
            replace(one, text=Guarded(one.text, name, section, "", lambda text: type(text) is str))
            for one in ask_for(section, PromptSection)
        ],
        routes=guard("parley_routes", (), _is_sequence),
        runs=ask("parley_runs", "refusal", "prepare", "answer"),
        speech_to_text=guard_object("parley_speech_to_text", {"is_needed": False}, "transcribe"),
        text_to_speech=guard_object("parley_text_to_speech", {"is_needed": False}, "speak"),
        rows=ask("parley_rows", "count", "forget", "prune"),
        logins=ask_for("parley_logins", Logins),
        approvals=ask("parley_approvals", "ask"),
        spending=ask("parley_spending", *SPENDING),
        services={type(one): one for many in ask_for("parley_services", Sequence) for one in many},
        calls={
            call: work for many in ask_for("parley_calls", Mapping) for call, work in many.items()
        },
        context_parts={
            place: [part]
            for many in ask_for("parley_context_parts", Mapping)
            for place, part in many.items()
        },
    )


def _any(found: object) -> bool:
    return True


def _is_in_force(found: object) -> bool:
    match found:
        case (str(), dict()):
            return True
    return False


def _is_remote_tools(found: object) -> bool:
    is_whole = all(callable(getattr(found, one, None)) for one in ("owns", "all", "find"))
    return found is None or (is_whole and isinstance(getattr(found, "listed", None), str))


def _is_sequence(found: object) -> bool:
    return isinstance(found, list | tuple)


class _Hooks(ModuleType):
    """The hooks of a module or object, by name: pluggy inspects all members of what it is given,
    which takes longer than all other work on a plugin."""

    def __dir__(self) -> list[str]:
        return [name for name in vars(self) if not name.startswith("__")]


def _hooks_of(plugin: Any) -> _Hooks:
    hooks = _Hooks(type(plugin).__name__)
    if isinstance(plugin, ModuleType):
        names = _list_hooks(plugin)
    else:
        own = getattr(plugin, "__dict__", {}).items()
        names = _list_hooks(type(plugin)) | {name for name, value in own if _is_hook(value)}
    for name in names:
        made = getattr(plugin, name)
        setattr(hooks, made.parley_impl["specname"] or name, made)
    return hooks


def _list_hooks(holder: ModuleType | type) -> frozenset[str]:
    """Return the names of the hooks of a module or class, which is inspected once."""
    if holder not in _HOOKS:
        members = ((name, inspect.getattr_static(holder, name, None)) for name in dir(holder))
        _HOOKS[holder] = frozenset(name for name, one in members if _is_hook(one))
    return _HOOKS[holder]


def _is_hook(member: object) -> bool:
    is_method = isinstance(member, staticmethod | classmethod)
    return (is_method or isroutine(member)) and hasattr(member, "parley_impl")


_HOOKS: WeakKeyDictionary[ModuleType | type, frozenset[str]] = WeakKeyDictionary()


def _refuse_unknown_hooks(manager: pluggy.PluginManager, plugin: Any) -> None:
    for name in (name for name in dir(plugin) if not getattr(manager.hook, name).has_spec()):
        known = [one for one in vars(hookspecs) if one.startswith("parley_")]
        near = difflib.get_close_matches(name, known, n=1)
        raise PluginFault(f"there is no hook {name}, only {near[0] if near else ', '.join(known)}")


def _ask(manager: pluggy.PluginManager, plugin: Any, hook: str, **handed: Any) -> list[Any]:
    """Return the answers of one plugin to a hook; none if it does not implement it."""
    if hook not in vars(plugin):
        return []
    implementations = getattr(manager.hook, hook).get_hookimpls()
    own = [one for one in implementations if one.plugin is plugin]
    return [one.function(*(handed[name] for name in one.argnames)) for one in own]


def _offloader(
    manager: pluggy.PluginManager, plugin: Any, loaded: LoadedPlugins
) -> Offloader | None:
    hook, methods = "parley_offloader", ("offload_context", "offload_tool_result")
    made = _get_single(manager, plugin, hook, methods, "what leaves the context", loaded.offloader)
    if not isinstance(getattr(made, "offers", ""), str):
        raise PluginFault(f"{hook} must return an object whose offers is text")
    if not callable(getattr(made, "forget", len)):
        raise PluginFault(f"{hook} must return an object whose forget is a method")
    return cast("Offloader | None", made)


def _ledger(manager: pluggy.PluginManager, plugin: Any, loaded: LoadedPlugins) -> Ledger | None:
    hook, methods = "parley_ledger", ("insert", "bill", "bills_by_turn")
    made = _get_single(manager, plugin, hook, methods, "the ledger", loaded.ledger)
    return cast("Ledger | None", made)


def _get_class(
    manager: pluggy.PluginManager, plugin: Any, hook: str, kind: type[T], taken: object
) -> type[T] | None:
    """Return the class that a plugin provides, of which there may be one; None without it."""
    for made in _ask(manager, plugin, hook):
        if not (isinstance(made, type) and issubclass(made, kind)):
            wanted = f"a class derived from {kind.__name__}"
            raise PluginFault(f"{hook} must return {wanted}, not {made!r:.100}")
        if taken is not None:
            raise PluginFault(f"another plugin has {hook} already")
        return made
    return None


def _get_single(
    manager: pluggy.PluginManager,
    plugin: Any,
    hook: str,
    methods: Sequence[str],
    kept: str,
    taken: object,
) -> object:
    """Return the object that a plugin provides, of which there may be one; None without it."""
    for made in _ask(manager, plugin, hook):
        for name in methods:
            if not callable(getattr(made, name, None)):
                raise PluginFault(
                    f"{hook} must return an object with a method {name}, not {made!r:.100}"
                )
        if taken is not None:
            raise PluginFault(f"another plugin keeps {kept} already")
        return cast(object, made)
    return None


def _collect(
    manager: pluggy.PluginManager, plugin: Any, hook: str, kind: type[Any], **handed: Any
) -> list[Any]:
    lists = _ask(manager, plugin, hook, **handed)
    if not lists:
        return []
    if not isinstance(lists[0], list | tuple):
        raise PluginFault(f"{hook} must return a list of {kind.__name__}")
    for item in lists[0]:
        if not isinstance(item, kind):
            raise PluginFault(f"{hook} must return a list of {kind.__name__}, not {item!r}")
    return list(lists[0])


def _prompt_hooks(manager: pluggy.PluginManager, name: str, plugin: Any) -> list[PromptHook]:
    hooks = manager.hook.parley_system_prompt.get_hookimpls()
    return [PromptHook(name, partial(_rewrite, hook)) for hook in hooks if hook.plugin is plugin]


def _rewrite(hook: pluggy.HookImpl, prompt: str, key: ConversationKey) -> object:
    """Call one plugin's hook with the arguments that it accepts."""
    known = {"prompt": prompt, "key": key}
    return hook.function(**{name: known[name] for name in hook.argnames})


def _refuse_names(what: str, offered: list[Any], taken: dict[str, Any]) -> None:
    names = [item.name for item in offered]
    for name in names:
        if name in taken or names.count(name) > 1:
            raise PluginFault(f"there is already a {what} {name!r}")
        if not _NAMES[what].fullmatch(name):
            raise PluginFault(f"{name!r} can't name a {what}; it must match {_NAMES[what].pattern}")
