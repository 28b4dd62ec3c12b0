"""The operations of the form “Connect a model”: the providers, the models of a provider, and the
test. They are for owners; requests from other websites are rejected before
(`channels/web/guard.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from agent.models.base import ModelError
from agent.models.brain import PROVIDERS
from agent.models.embedded import is_installed
from bot.access import Access
from bot.connecting import clip_reason
from bot.settings import SettingError
from channels.base import KeyHolder
from channels.web.guard import HOLDER
from channels.web.operations import Operation, Problem, as_json, body, in_their_language
from channels.web.sessions import main_of
from channels.web.shapes import StrictBody
from plugins.connection.connector import ModelConnector, SubmittedModel

PATH = "/api/connection"
WORDS = 20_000
"""The maximum size of a body in bytes."""
OWNERS_ONLY = "Only the owner of the bot may connect a model."


class ConnectionForm(StrictBody):
    """The form: a provider that is known by name, or the address of an endpoint of one's own."""

    provider: str = Field(default="", max_length=40)
    address: str = Field(default="", max_length=2_000)
    variables: dict[str, str] = Field(default={}, max_length=10)
    key: str = Field(default="", max_length=4_000, repr=False)
    model: str = Field(default="", max_length=200)
    replace: bool = False
    """Lines that somebody wrote may be replaced."""

    @property
    def wanted(self) -> SubmittedModel:
        return SubmittedModel(
            self.provider, self.address, self.variables, self.key, self.model.strip()
        )


class ProviderOffer(BaseModel):
    """A provider that can be chosen. `wants` are the parts of its address that are a person's own,
    `has_key` says whether its key is kept already."""

    id: str
    name: str
    wants: list[str]
    wants_key: bool
    has_key: bool
    is_local: bool


class ConnectionOffers(BaseModel):
    """All that can be chosen, by somebody who `may_connect`; `is_demo` says whether the demo model
    is the one that answers now, `is_demo_installed` whether it can."""

    may_connect: bool = False
    is_demo: bool = False
    is_demo_installed: bool = False
    providers: list[ProviderOffer] = []


class FoundServer(BaseModel):
    """A server on this machine, with its models."""

    provider: str
    name: str
    models: list[str]


class FoundServers(BaseModel):
    servers: list[FoundServer]


class ListedNames(BaseModel):
    """The names of the models that are listed there, and the reason that there are none, in a
    sentence."""

    models: list[str]
    problem: str = ""


class ConnectionResult(BaseModel):
    """The result of a try: `model` answers from now on; or there was a problem; or these questions
    are to be answered with `replace`."""

    model: str = ""
    problem: str = ""
    questions: list[str] = []


def connection_operations(connector: ModelConnector, access: Access) -> Sequence[Operation]:
    """Return the operations of the form."""

    async def is_owner(request: Request) -> bool:
        holder: KeyHolder = getattr(request.state, HOLDER)
        person = await access.identify_or_reload(main_of(holder.user))
        return person is not None and person.is_owner

    async def require_owner(request: Request) -> None:
        if not await is_owner(request):
            raise Problem(403, OWNERS_ONLY)

    async def show_offers(request: Request) -> Response:
        if not await is_owner(request):  # the page requests it for everybody
            return as_json(ConnectionOffers().model_dump())
        offers = [_offer(name, has_key) for name, has_key in connector.list_providers()]
        found = ConnectionOffers(
            may_connect=True,
            is_demo=connector.is_demo,
            is_demo_installed=is_installed(),
            providers=offers,
        )
        return as_json(found.model_dump())

    async def look_for_servers(request: Request) -> Response:
        await require_owner(request)
        found = [
            FoundServer(provider=one.provider, name=one.name, models=[*one.models])
            for one in await connector.find_servers()
        ]
        return as_json(FoundServers(servers=found).model_dump())

    async def list_offered_models(request: Request) -> Response:
        await require_owner(request)
        form = await body(request, ConnectionForm, WORDS)
        try:
            listed = ListedNames(models=[*await connector.list_models(form.wanted)])
        except (ModelError, SettingError) as error:
            listed = ListedNames(models=[], problem=in_their_language(clip_reason(str(error))))
        return as_json(listed.model_dump())

    async def connect_model(request: Request) -> Response:
        await require_owner(request)
        form = await body(request, ConnectionForm, WORDS)
        done = await connector.connect(form.wanted, form.replace)
        result = ConnectionResult(
            model=done.model,
            problem=in_their_language(done.problem),
            questions=[in_their_language(one) for one in done.questions],
        )
        return as_json(result.model_dump())

    problems = (400, 403, 413)
    return (
        Operation(
            "GET",
            PATH,
            "The providers to which the bot can be connected.",
            show_offers,
            gives=ConnectionOffers,
            problems=problems,
        ),
        Operation(
            "GET",
            f"{PATH}/servers",
            "The servers of models that answer on the bot's machine.",
            look_for_servers,
            gives=FoundServers,
            problems=problems,
        ),
        Operation(
            "POST",
            f"{PATH}/models",
            "The models that a provider lists for this key.",
            list_offered_models,
            takes=ConnectionForm,
            gives=ListedNames,
            problems=problems,
        ),
        Operation(
            "POST",
            PATH,
            "Try a model out, and keep it if it answers.",
            connect_model,
            takes=ConnectionForm,
            gives=ConnectionResult,
            problems=problems,
        ),
    )


def _offer(name: str, has_key: bool) -> ProviderOffer:
    known = PROVIDERS[name]
    return ProviderOffer(
        id=name,
        name=known.title,
        wants=[*known.variables],
        wants_key=bool(known.key_name),
        has_key=has_key,
        is_local=known.is_free,
    )
