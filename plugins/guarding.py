"""The boundary around functions of plugins: one that fails is logged, and the bot goes on."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from channels.message import Reply

log = logging.getLogger(__name__)


class Guarded(Struct, frozen=True):
    """A function that a plugin has handed over by a hook. Where it fails, or returns what does not
    fit, the log says so, and the result is `instead`."""

    function: Callable[..., Any]
    plugin: str
    hook: str
    instead: Any = None
    fits: Callable[[Any], bool] | None = None

    def __call__(self, *handed: Any, **named: Any) -> Any:
        try:
            found = self.function(*handed, **named)
            if self.fits is None or self.fits(found):
                return found
            log.error("%s of the plugin %s returned %.200r", self.hook, self.plugin, found)
        except Exception:
            log.exception("%s of the plugin %s failed", self.hook, self.plugin)
        return self.instead


class GuardedObject:
    """An object that a plugin has handed over by a hook. Some of its methods are guarded: those for
    which `instead` has a result."""

    def __init__(self, made: Any, plugin: str, hook: str, instead: Mapping[str, Any]) -> None:
        self._made = made
        for name, result in instead.items():
            guarded = Guarded(getattr(made, name), plugin, f"{hook} ({name})", result)
            setattr(self, name, guarded)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


class GuardedWork(Struct, frozen=True):
    """Work beside the turns (`plugins.hookspecs.Background`), or the function that closes a plugin;
    a step of it that fails is logged."""

    plugin: str
    hook: str
    idle_step: Callable[[], Awaitable[None]]
    stop_step: Callable[[], Awaitable[None]]

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        await self._run(self.idle_step)

    async def stop(self) -> None:
        """End what is under way."""
        await self._run(self.stop_step)

    async def _run(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except Exception:
            log.exception("%s of the plugin %s failed", self.hook, self.plugin)


def is_notes(found: object) -> bool:
    """Return whether this is a list of texts, or of texts with buttons."""
    return isinstance(found, list | tuple) and all(isinstance(one, str | Reply) for one in found)
