"""The service that tests a model, stores its connection, and makes the bot use it without a
restart."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent.models.base import ModelError
from agent.models.brain import PROVIDERS
from bot.app import Kernel
from bot.choices import choice_of
from bot.connecting import (
    SECONDS,
    LocalServer,
    ServedModel,
    at_address,
    check_key,
    check_model,
    clip_reason,
    find_kept_key,
    find_servers,
    find_stronger,
    list_models,
    of_provider,
    order_providers,
    plan_files,
    try_out,
    usual_addresses,
    write_all,
)
from bot.settings import SettingError
from bot.settings.files import read_text
from plugins.api import Person

log = logging.getLogger(__name__)

SEVERAL = (
    "This bot runs in several processes: write the key into .env where each of them runs, and "
    "restart them."
)
BUSY = "Another model is being tried out; wait for it, and try again."
UNWRITABLE = "Nothing was written: {path} can't be written ({reason}). Correct its permissions."
STRONGER = (
    "Nothing was written: {name} is set in the environment of the bot, which overrides .env. "
    "Change it there, and restart the bot."
)


class SubmittedModel(Struct, frozen=True):
    """The submitted form; `address` is used if there is no provider."""

    provider: str = ""
    address: str = ""
    variables: Mapping[str, str] = {}
    key: str = ""
    model: str = ""

    def __repr__(self) -> str:
        """Return a text without the key, which must not appear in a log."""
        return f"SubmittedModel({self.provider!r}, {self.model!r})"


class ConnectOutcome(Struct, frozen=True):
    """The outcome of a test: the model that answers from now on, or the problem as a sentence, or
    the questions to answer first."""

    model: str = ""
    problem: str = ""
    questions: tuple[str, ...] = ()


class ModelConnector:
    """The connection of the bot to a model. `addresses` returns the usual addresses of servers on
    this machine."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self.addresses, self.seconds = kernel, usual_addresses, SECONDS
        self._trying = asyncio.Lock()

    @property
    def is_demo(self) -> bool:
        """Return whether the demo model answers."""
        config = self._kernel.config
        return config.models.uses_embedded(choice_of(config.book.effective()))

    def list_providers(self) -> list[tuple[str, bool]]:
        """Return the providers in the order of the form, each with whether its key is stored."""
        secrets, found = self._kernel.secrets, []
        for name in order_providers():
            kept = {one: secrets.get(one, "") for one in PROVIDERS[name].variables}
            place = ServedModel(name, "", PROVIDERS[name].key_name, variables=kept)
            found.append((name, bool(find_kept_key(place, secrets))))
        return found

    async def find_servers(self) -> list[LocalServer]:
        """Return the model servers on this machine, except for the bot's own page."""
        own = f":{self._kernel.config.book.effective().web.port}/"
        places = {name: url for name, url in self.addresses().items() if own not in url}
        return await find_servers(places)

    async def list_models(self, wanted: SubmittedModel) -> Sequence[str]:
        """Return the models that the provider lists. Raises SettingError and ModelError."""
        return await list_models(self._read(wanted), min(self.seconds, 10.0))

    async def connect(self, wanted: SubmittedModel, may_replace: bool) -> ConnectOutcome:
        """Test the model, and store the connection if it answers; existing lines of a person are
        replaced only if `may_replace`."""
        if self._trying.locked():
            return ConnectOutcome(problem=BUSY)
        async with self._trying:
            try:
                return await self._connect(wanted, may_replace)
            except (SettingError, ModelError) as error:
                return ConnectOutcome(problem=clip_reason(str(error)))
            except OSError as error:
                return ConnectOutcome(problem=describe_unwritable(error))

    async def _connect(self, wanted: SubmittedModel, may_replace: bool) -> ConnectOutcome:
        kernel = self._kernel
        if kernel.config.book.effective().broker:
            raise SettingError(SEVERAL)
        check_model(wanted.model)
        served = replace(self._read(wanted), model=wanted.model)
        if name := find_stronger(served, kernel.layers):
            raise SettingError(STRONGER.format(name=name))
        planned = plan_files(kernel.layers.config, served)
        if planned.overwritten and not may_replace:
            return ConnectOutcome(questions=tuple(one.question for one in planned.overwritten))
        await try_out(served, self.seconds)
        # Changes by a person during the test must not be lost.
        if plan_files(kernel.layers.config, served) != planned:
            raise SettingError(
                "The files were changed meanwhile, so nothing was written; try again."
            )
        await self._keep(planned.contents)
        log.info("connected to %s", served)
        return ConnectOutcome(model=served.model)

    async def _keep(self, contents: Mapping[Path, str]) -> None:
        """Write the files and make the bot read them; if that fails, restore them."""
        kernel = self._kernel
        before = {
            path: read_text(path, "as it was") if path.exists() else None for path in contents
        }
        write_all(contents)
        try:
            kernel.reread()
        except Exception:  # for any error, the files are restored
            write_all({path: text for path, text in before.items() if text is not None})
            for path in [path for path, text in before.items() if text is None]:
                path.unlink(missing_ok=True)
            raise
        await self._unset_model()

    async def _unset_model(self) -> None:
        """Unset the model of /config for all conversations, so that the configuration applies."""
        settings = self._kernel.bot.settings
        if settings.describe("model", "").layer == "/config":
            await settings.unset("model", "", Person("connection", "owner"))

    def _read(self, wanted: SubmittedModel) -> ServedModel:
        """Return the selected model with its key, or with the key stored for this provider's own
        address. Raises SettingError."""
        if not wanted.provider:
            served, key = at_address(wanted.address.strip()), wanted.key.strip()
        else:
            served = of_provider(wanted.provider, wanted.variables)
            key = wanted.key.strip() or find_kept_key(served, self._kernel.secrets)
        check_key(served, key)
        return replace(served, key=key if served.key_name else "")


def describe_unwritable(error: OSError) -> str:
    """Return a sentence about a file that can't be written."""
    name = Path(os.fsdecode(error.filename or "the folder")).parent
    return UNWRITABLE.format(path=name, reason=error.strerror or "no reason given")
