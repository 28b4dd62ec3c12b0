"""OpenAI's SDK in front of an endpoint; imported at the first request.

The SDK is loaded without its hundreds of modules of types, which are not needed here.

The SDK's packages of types import all of their modules; each type is a pydantic model, which takes
time and memory to create. In the context of `left_out`, such a package is imported without its
contents: a name is loaded on first use, from the one module that has it. A package that can't be
analysed is imported normally.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from agent.models.answer import PLAIN
from agent.models.endpoint import Endpoint
from agent.models.sdk_client import Sdk, SdkClient, TimedClient

_lock = RLock()


class _TypesPackage(ModuleType):
    """A package whose contents are imported one by one."""

    def __getattr__(self, name: str) -> Any:
        with _lock:
            if name == "__all__":  # `import *`, or a listing of names
                self._load_all()
            elif name not in self.__dict__ and not name.startswith("__"):
                self._load(name)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def __dir__(self) -> list[str]:
        self._load_all()
        return [*self.__dict__]

    def _load(self, name: str) -> None:
        places = self._loader.find_places(self.__name__)
        if places is None:
            self._load_all()
        elif name in places:
            module, original = places[name]
            setattr(self, name, getattr(import_module(module, self.__name__), original))

    def _load_all(self) -> None:
        loader = self._loader
        self.__class__ = ModuleType  # type: ignore[assignment] # it is one from now on
        loader.run(self)

    @property
    def _loader(self) -> _TypesLoader:
        loader = self.__spec__.loader if self.__spec__ else None
        assert isinstance(loader, _TypesLoader)
        return loader


class _TypesLoader(Loader):
    def __init__(self, usual: InspectLoader) -> None:
        self._usual = usual
        self._places: dict[str, tuple[str, str]] | None = {}
        self._is_read = False

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _TypesPackage(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing before a name is requested."""

    def run(self, module: ModuleType) -> None:
        self._usual.exec_module(module)

    def find_places(self, package: str) -> dict[str, tuple[str, str]] | None:
        """Return the module and the original name of each of the package's names; None if it does
        anything besides importing them."""
        if not self._is_read:
            self._places = read_places(self._usual.get_source(package) or "...")
            self._is_read = True
        return self._places


def read_places(source: str) -> dict[str, tuple[str, str]] | None:
    """Return the origin of the names that this source imports from its own package; None if it does
    anything else."""
    places: dict[str, tuple[str, str]] = {}
    for statement in ast.parse(source).body:
        match statement:
            case ast.ImportFrom(module="__future__") | ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.ImportFrom(module=str(module), level=level) if level:
                for one in statement.names:
                    places[one.asname or one.name] = ("." * level + module, one.name)
            case _:
                return None
    return None if "*" in places else places


class _TypesFinder(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._package and not name.startswith(f"{self._package}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.submodule_search_locations is None:
            return spec
        if isinstance(spec.loader, InspectLoader):
            spec.loader = _TypesLoader(spec.loader)
        return spec


@contextmanager
def left_out(package: str) -> Iterator[None]:
    """Import this package and those below it without their contents, which are loaded on first use,
    also afterwards. Garbage collection is off meanwhile, since it would find nothing."""
    finder = _TypesFinder(package)
    sys.meta_path.insert(0, finder)
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()
        sys.meta_path.remove(finder)


with left_out("openai.types"):
    from openai import (
        NOT_GIVEN,
        APIConnectionError,
        APIError,
        APIStatusError,
        AsyncOpenAI,
        DefaultAioHttpClient,
    )

_SDK = Sdk(
    error=APIError,
    status_error=APIStatusError,
    connection_error=APIConnectionError,
    not_given=NOT_GIVEN,
    path="/chat/completions",
    end=re.compile(rb'[ "\t]*\[done\]', re.IGNORECASE),
    plain=PLAIN,
)
_RESPONSES = replace(
    _SDK,
    path="/responses",
    plain=None,
    last=re.compile(rb'.{0,44}"response\.(?:completed|incomplete)"', re.DOTALL),
    find_error=lambda event: _find_error(event),
)


def _find_error(event: Mapping[str, Any]) -> object:
    """Return the error reported by an event of the Responses API; None for other events."""
    match event:
        case {"type": "error"}:
            return event
        case {"type": "response.failed", "response": {"error": error}} if error:
            return error
    return event.get("error")


class _TimedOpenAI(TimedClient, DefaultAioHttpClient):
    """The SDK's transport, with limits."""


def open_client(endpoint: Endpoint, *, by_responses: bool = False) -> SdkClient:
    """Return a client for this endpoint, by chat completions or `by_responses`. Raises ModelRefused
    for an invalid address."""
    return SdkClient(
        endpoint,
        _RESPONSES if by_responses else _SDK,
        _TimedOpenAI(endpoint),
        lambda known: AsyncOpenAI(base_url=endpoint.base_url, **known),
    )
