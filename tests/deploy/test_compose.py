"""`deploy/cluster/`: what its files name is there, and its services are one bot, when they are
started by hand from Debian's packages with the settings that stand there."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import aiohttp
import pytest

from bot.settings import load_layers
from bot.settings.book import SettingsStore
from main import make_parser
from tests.deploy.by_hand import (
    CLUSTER,
    PATIENCE,
    ROOT,
    TOKEN,
    by_hand,
    commands,
    compose,
    needs_servers,
    until,
)
from tests.fakes.openai_server import OpenAIServer, Say
from tests.servers.postgresql import PostgresqlServer

SERVICES = sorted(compose()["services"])


@pytest.mark.parametrize("name", SERVICES)
def test_the_files_that_a_service_names_are_there(name: str) -> None:
    service = compose()["services"][name]
    volumes = compose()["volumes"]
    for volume in service.get("volumes", ()):
        source = volume.split(":")[0]
        assert (CLUSTER / source).is_file() if source.startswith(".") else source in volumes
    if "build" in service:
        context = (CLUSTER / service["build"]["context"]).resolve()
        assert context == ROOT
        assert (context / service["build"]["dockerfile"]).is_file()
    for other in service.get("depends_on", ()):
        assert other in SERVICES


def test_the_image_is_made_of_files_that_are_there_and_let_through() -> None:
    dockerfile = (CLUSTER / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (\S+) ", dockerfile, re.M)
    assert {"main.py", "bot", "memory"} <= {*copied}
    ignore = (CLUSTER / "Dockerfile.dockerignore").read_text()
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name.split('/')[0]}\n" in ignore, name
    for wanted in re.findall(r"-r (\S+)", dockerfile):
        assert wanted in copied


def test_only_the_proxy_can_be_reached_from_outside_and_only_from_this_machine() -> None:
    ports = {name: one.get("ports") for name, one in compose()["services"].items()}
    assert ports.pop("proxy") == ["127.0.0.1:8080:80"]
    assert not any(ports.values())


def test_every_password_comes_from_the_environment_and_has_a_place_in_the_example() -> None:
    text = (CLUSTER / "compose.yaml").read_text()
    example = (CLUSTER / ".env.example").read_text()
    wanted = {*re.findall(r"\$\{(\w+)", text)}
    assert wanted == {"POSTGRES_PASSWORD", "RABBITMQ_PASSWORD"}
    for name in (*wanted, "PARLEY_WEB_TOKEN", "OPENAI_API_KEY"):
        assert f"{name}=\n" in example, name
    secret = re.compile(r"PASS|PASSWORD|URL|TOKEN|KEY")
    for service in compose()["services"].values():
        for name, value in service.get("environment", {}).items():
            assert not secret.search(name) or "${" in value


def test_the_command_lines_and_the_settings_are_understood() -> None:
    roles = {name: make_parser().parse_args(command).role for name, command in commands().items()}
    assert roles == {"gateway": ["gateway"], "worker": ["worker"]}
    environ = {"DATABASE_URL": "postgresql://h/p", "BROKER_URL": "amqp://h/"}
    settings = SettingsStore(load_layers(CLUSTER / "config.json", environ)).effective()
    assert (settings.database, settings.broker) == ("postgresql://h/p", "amqp://h/")
    grace = int(compose()["services"]["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace > settings.shutdown_timeout


@needs_servers
async def test_the_services_started_by_hand_are_one_bot_that_outlives_a_gateway_and_a_worker(
    tmp_path: Path, postgresql_server: PostgresqlServer
) -> None:
    async with (
        OpenAIServer(lambda request: Say(f"Answer {len(request.body['messages'])}")) as endpoint,
        by_hand(tmp_path, postgresql_server, endpoint) as (hands, gateways),
        aiohttp.ClientSession(hands.proxy, headers={"Authorization": f"Bearer {TOKEN}"}) as http,
    ):

        async def says(text: str) -> str:
            async def ask() -> str:
                body = {"text": text, "id": text}
                async with http.post("/api/sessions/trip/messages", json=body) as response:
                    return str((await response.json())["text"]) if response.ok else ""

            return str(await until(ask))

        assert await says("one") == "Answer 2"
        async with http.get("/api/sessions/trip", headers={"Authorization": ""}) as response:
            assert response.status == 401
        gateways[0].send_signal(signal.SIGKILL)
        assert await says("two") == "Answer 4"
        assert await says("three") == "Answer 6"
        assert await says("three") == "Answer 6", "the same message is taken once"
        gateways[1].send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(gateways[1].wait(), PATIENCE) == 0
