"""A stand-alone `IncomingHandler`: it stores the events of a platform, and answers none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from channels.base import Bot, CommandEntry
from channels.kit.platform import Event, IncomingMessage, Location
from channels.message import Address

T = TypeVar("T")


class Kept(dict[str, str]):
    """The state of a channel."""

    async def get(self, channel: str, name: str) -> str:  # type: ignore[override]
        return super().get(name, "")

    async def set(self, channel: str, name: str, text: str) -> None:
        self[name] = text


@dataclass
class FakeReception:
    """A receiver of events. `known` are the people with access to the bot."""

    known: set[str] = field(default_factory=set)
    state: Kept = field(default_factory=Kept)
    heard: list[Event] = field(default_factory=list)
    bot: Any = field(init=False)

    def __post_init__(self) -> None:
        self.bot = cast(Bot, self)

    def list_commands(self) -> Sequence[CommandEntry]:
        return [CommandEntry("help", "this list")]

    def admits(self, address: Address) -> bool:
        return address.user in self.known

    def language_of(self, address: Address) -> str:
        return "en"

    async def take(self, events: Sequence[Event]) -> None:
        self.heard += events

    def connected(self) -> None: ...

    def troubled(self, error: BaseException) -> None: ...

    async def patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        return await request()

    def texts(self) -> list[str]:
        return [one.text for one in self.heard if isinstance(one, IncomingMessage)]

    def place(self) -> Location:
        return self.heard[-1].place
