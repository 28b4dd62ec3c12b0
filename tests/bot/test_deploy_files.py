"""The files of `deploy/`: everything that they name exists, they fit together, and their formats
are valid for the programs that read them."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from bot.settings import load_layers
from bot.settings.book import SettingsStore
from main import make_parser
from tests.deploy.image import DOCKERFILE, ROOT, Step, read
from tests.tables import each_row

CLUSTER = ROOT / "deploy" / "cluster"
SINGLE = ROOT / "deploy" / "single"
STORES = ROOT / "deploy" / "stores"


def services() -> dict[str, dict[str, Any]]:
    """Return the services of a cluster."""
    return dict(yaml.safe_load((CLUSTER / "compose.yaml").read_text())["services"])


def commands() -> dict[str, list[str]]:
    """Return the command lines of a cluster's gateway and worker."""
    return {name: services()[name]["command"] for name in ("gateway", "worker")}


def service() -> dict[str, Any]:
    """Return the only service of compose.yaml."""
    (one,) = yaml.safe_load((SINGLE / "compose.yaml").read_text())["services"].values()
    return dict(one)


def steps() -> list[Step]:
    return [*read(DOCKERFILE.read_text("utf-8"))]


def the(word: str) -> str:
    """Return the text after this word in the last stage, which has it once."""
    last = max(place for place, step in enumerate(steps()) if step.word == "FROM")
    (found,) = [step.rest for step in steps()[last:] if step.word == word]
    return found


# --- the image ------------------------------------------------------------------------------


def test_the_image_is_made_of_files_that_are_there_and_let_through() -> None:
    copied = [step.rest.split() for step in steps() if step.word == "COPY"]
    names = [name for line in copied if "--from" not in line[0] for name in line[:-1]]
    assert {"main.py", "bot", "memory", "requirements.txt", "pyproject.toml"} <= {*names}
    ignore = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text()
    for name in names:
        assert (ROOT / name).exists(), name
        assert any(f"!{part}\n" in ignore for part in (name, name.split("/")[0])), name
    assert "**/.env\n" in ignore


def test_the_image_runs_as_nobody_special_and_says_how_it_is() -> None:
    assert [step.word for step in steps()].count("FROM") == 2, "what downloads is not in the image"
    assert the("USER") == "10001:10001"
    assert "/parley/health.py" in the("HEALTHCHECK")
    assert "libgomp1" in the("RUN"), "the embedded model needs it"
    assert "platform" not in "".join(step.rest for step in steps()), "one for all machines"
    command = json.loads(the("ENTRYPOINT"))
    place = command.index("parley")
    options = make_parser().parse_args([*command[place + 1 :], *json.loads(the("CMD"))])
    assert (str(options.config), str(options.data)) == ("/parley/config.json", "/data")


# --- formats of others ----------------------------------------------------------------------

COMPOSE = sorted((ROOT / "deploy").rglob("*compose.y*ml"))
LOCALE = re.compile(r"[a-z]{2}_[A-Z]{2}")


@each_row("file", COMPOSE)
def test_compose_files_fit_their_specification(file: Path) -> None:
    """Checked by the schema of the Compose Specification (github.com/compose-spec/compose-spec), of
    which the package check-jsonschema has a copy."""
    vendored = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(vendored.read_text("utf-8"))
    document = yaml.safe_load(file.read_text("utf-8"))
    jsonschema_rs.validate(schema, document)
    for name, one in document["services"].items():
        if "parley" in str(one.get("image", "")):
            assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"]), name
            assert int(one["stop_grace_period"].removesuffix("s")) > 5, name


UMBREL: dict[str, Any] = {
    "type": "object",
    "required": [
        *("manifestVersion", "id", "name", "tagline", "category", "version", "port", "path"),
        *("description", "developer", "website", "submitter", "submission", "support"),
        *("gallery", "dependencies"),
    ],
    "properties": {
        "manifestVersion": {"enum": [1, 1.1, 1.2]},
        "id": {"type": "string", "pattern": "^(?!umbrel-app-store)[a-z]+(-[a-z]+)*$"},
        "name": {"type": "string", "minLength": 1, "maxLength": 50},
        "tagline": {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "[^.]$"},
        "category": {
            "enum": [
                *("files", "bitcoin", "media", "networking", "social", "automation", "finance"),
                *("ai", "developer"),
            ]
        },
        "version": {"type": "string", "minLength": 1},
        "port": {"type": "integer", "minimum": 0, "maximum": 65535},
        "description": {"type": "string", "minLength": 1, "maxLength": 5000},
        "developer": {"type": "string", "minLength": 1, "maxLength": 50},
        "submitter": {"type": "string", "minLength": 1, "maxLength": 50},
        "gallery": {"type": "array", "items": {"type": "string"}},
        "dependencies": {"type": "array", "items": {"type": "string"}},
        "deterministicPassword": {"type": "boolean"},
    },
}
"""The rules of umbrel-app.yml, as the linter of Umbrel's app store states them after
packages/umbreld/source/modules/apps/schema.ts in github.com/getumbrel/umbrel."""


def test_the_app_of_umbrel_keeps_its_rules() -> None:
    jsonschema_rs.validate(UMBREL, yaml.safe_load((STORES / "umbrel/umbrel-app.yml").read_text()))
    document = yaml.safe_load((STORES / "umbrel/docker-compose.yml").read_text())
    proxy = document["services"]["app_proxy"]["environment"]
    # Containers are called APP_SERVICE_1 (README of github.com/getumbrel/umbrel-apps).
    assert proxy == {"APP_HOST": "parley_web_1", "APP_PORT": 8080}
    for volume in volumes(document, "web"):  # an engine creates a missing folder for root
        variable, _, rest = volume.partition("/")
        assert variable == "${APP_DATA_DIR}"
        assert (STORES / "umbrel" / rest.partition(":")[0] / ".gitkeep").is_file()


def test_the_app_of_casaos_keeps_its_rules() -> None:
    """docs/specs/compose-and-x-casaos.md in github.com/IceWhaleTech/CasaOS-AppStore."""
    document = yaml.safe_load((STORES / "casaos/docker-compose.yml").read_text())
    about = document["x-casaos"]
    wanted = {"id", "main", "index", "port_map", "icon", "title", "category", "version"}
    assert wanted <= about.keys()
    assert re.fullmatch(r"[\w-]+(\.[\w-]+)+", about["id"])
    main = document["services"][about["main"]]
    assert isinstance(about["port_map"], str)
    assert [port["published"] for port in main["ports"]] == [about["port_map"]]
    assert about["category"] in {
        *("Media", "Productivity", "Home", "Networking", "AI", "Finance", "Social"),
        *("Developer", "Others"),
    }
    for words in (about["title"], about["tagline"], about["description"]):
        assert "en_US" in words
        assert all(LOCALE.fullmatch(name) for name in words)
    assert not main["image"].endswith(":latest")
    # service/compose_app.go in github.com/IceWhaleTech/CasaOS-AppManagement creates the folders of
    # other volumes for root.
    named = {volume.partition(":")[0] for volume in volumes(document, "parley")}
    assert named == document["volumes"].keys()


def test_the_addon_of_home_assistant_keeps_its_rules() -> None:
    """supervisor/addons/validate.py and options.py in github.com/home-assistant/supervisor."""
    folder = STORES / "home-assistant"
    addon = yaml.safe_load((folder / "config.yaml").read_text())
    assert {"name", "version", "slug", "description", "arch"} <= addon.keys()
    assert re.fullmatch(r"[-_.A-Za-z0-9]+", addon["slug"])
    assert {*addon["arch"]} <= {"amd64", "aarch64"}
    assert re.fullmatch(r"https?://\[HOST\]:\[PORT:8080\].*", addon["watchdog"])
    assert re.fullmatch(r"https?://\[HOST\]:\[PORT:8080\].*", addon["webui"])
    assert addon["ports"].keys() == addon["ports_description"].keys() == {"8080/tcp"}
    assert 10 <= addon["timeout"] <= 300
    assert addon["startup"] in {"initialize", "system", "services", "application", "once"}
    assert addon["backup"] in {"hot", "cold"}
    kinds = re.compile(r"(str|bool|email|url|password|port|int|float)(\(.*\))?\??")
    assert all(kinds.fullmatch(kind) for kind in addon["schema"].values())
    assert addon["options"].keys() <= addon["schema"].keys()
    built = yaml.safe_load((folder / "build.yaml").read_text())["build_from"]
    assert built.keys() == {*addon["arch"]}


def volumes(document: dict[str, Any], service: str) -> list[str]:
    found = document["services"][service]["volumes"]
    assert [volume.rpartition(":")[2] for volume in found] == ["/data", "/backups"]
    return list(found)


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
