"""The files of `deploy/cluster/` and `deploy/single/`: what they name is there, and they fit
together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from bot.settings import load_layers
from bot.settings.book import SettingsStore
from main import make_parser

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "deploy" / "cluster"
SINGLE = ROOT / "deploy" / "single"
DOCKERFILE = (SINGLE / "Dockerfile").read_text()


def services() -> dict[str, dict[str, Any]]:
    """The services of a cluster."""
    return dict(yaml.safe_load((CLUSTER / "compose.yaml").read_text())["services"])


def commands() -> dict[str, list[str]]:
    """The command lines of a cluster's gateway and worker."""
    return {name: services()[name]["command"] for name in ("gateway", "worker")}


def service() -> dict[str, Any]:
    """The one service of compose.yaml."""
    (one,) = yaml.safe_load((SINGLE / "compose.yaml").read_text())["services"].values()
    return dict(one)


def copied() -> list[tuple[str, str]]:
    """Return what the image takes from the project's folder, and where to."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.M)
    return [(source, target) for *sources, target in map(str.split, lines) for source in sources]


# --- a cluster -------------------------------------------------------------------------------


def test_the_files_that_services_name_are_there() -> None:
    volumes = yaml.safe_load((CLUSTER / "compose.yaml").read_text())["volumes"]
    for service in services().values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (CLUSTER / source).is_file() if source.startswith(".") else source in volumes
        if "build" in service:
            context = (CLUSTER / service["build"]["context"]).resolve()
            assert context == ROOT
            assert (context / service["build"]["dockerfile"]).is_file()
        assert {*service.get("depends_on", ())} <= services().keys()


def test_the_image_of_a_cluster_is_made_of_files_that_are_there_and_let_through() -> None:
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
    ports = {name: one.get("ports") for name, one in services().items()}
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
    for service in services().values():
        for name, value in service.get("environment", {}).items():
            assert not secret.search(name) or "${" in value


def test_the_command_lines_and_the_settings_are_understood() -> None:
    roles = {name: make_parser().parse_args(command).role for name, command in commands().items()}
    assert roles == {"gateway": ["gateway"], "worker": ["worker"]}
    environ = {"DATABASE_URL": "postgresql://h/p", "BROKER_URL": "amqp://h/"}
    settings = SettingsStore(load_layers(CLUSTER / "config.json", environ)).effective()
    assert (settings.database, settings.broker) == ("postgresql://h/p", "amqp://h/")
    grace = int(services()["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace > settings.shutdown_timeout


# --- one process -----------------------------------------------------------------------------


def test_the_image_of_one_process_is_made_of_files_that_are_there_and_let_through() -> None:
    names = [source for source, _ in copied()]
    assert {"main.py", "bot", "memory", "requirements.txt"} <= {*names}
    ignore = (SINGLE / "Dockerfile.dockerignore").read_text()
    for name in names:
        assert (ROOT / name).exists(), name
        assert any(f"!{part}\n" in ignore for part in (name, name.split("/")[0])), name
    assert "**/.env\n" in ignore


def test_the_image_runs_as_nobody_special_and_says_how_it_is() -> None:
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.M)
    assert len(stages) == 3, "what compiles and downloads is not in the image"
    assert "USER 10001:10001" in stages[2]
    assert "HEALTHCHECK" in stages[2]
    assert "libgomp1" in stages[2], "the embedded model needs it"
    assert "platform" not in stages[1] + stages[2].lower(), "one file for all kinds of machine"
    found = re.search(r"^ENTRYPOINT (\[.*\])$", DOCKERFILE, re.M)
    command = json.loads(found[1]) if found else []
    place = command.index("main.py")
    options = make_parser().parse_args([*command[place + 1 :], "--web"])
    assert (str(options.config), str(options.data)) == ("/parley/config.json", "/data")


def test_compose_takes_from_the_container_what_it_does_not_need() -> None:
    one = service()
    assert one["read_only"] is True
    assert one["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in one["security_opt"]
    assert one["ports"] == ["127.0.0.1:8080:8080"]
    assert not any("privileged" in key or key == "cap_add" for key in one)
    volumes = [volume.split(":")[:2] for volume in one["volumes"]]
    assert ["data", "/data"] in volumes
    assert all((SINGLE / source).exists() for source, _ in volumes if source.startswith("."))
    settings = SettingsStore(load_layers(SINGLE / "config.json", {})).effective()
    assert (settings.web.host, settings.web.port) == ("0.0.0.0", 8080)
    assert int(one["stop_grace_period"].removesuffix("s")) > settings.shutdown_timeout
    assert "PARLEY_WEB_TOKEN=\n" in (SINGLE / ".env.example").read_text()
