"""Tests of the tree without the folder of a feature: it starts, talks, and answers commands."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import main
from bot.messengers import BUILT_IN
from plugins.features import FOLDER
from tests.fakes.openai_server import OpenAIServer, Say
from tests.test_imports import FEATURES, find_required
from tests.whole.process import talking

ROOT = FOLDER.parent
PLATFORMS = (*BUILT_IN, "telegram", "terminal", "web")
ANSWERS = {
    "/help": "/context | Show the context",
    "/context": "system prompt |",
    "/config": "| model | gpt-4o-mini | configuration file |",
    "/status": "Channels: pipe.",
}
VERBS = {
    "plugins/context_advice": "advise",
    "plugins/context_files": "export",
    "plugins/context_map": "map",
    "plugins/request_log": "requests",
}
"""A verb that a feature adds to `/context`."""


def with_dependants(features: Collection[str]) -> set[str]:
    """Return these features, and all that require one of them."""
    gone = {*features}
    while more := {one for one in FEATURES if gone & {*find_required(one)}} - gone:
        gone |= more
    return gone


def copy_without(target: Path, folders: Collection[str]) -> Path:
    """Copy the tree, with its bytecode, without these folders; return its main.py."""
    left_out = {ROOT / name for name in folders}

    def ignore(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if Path(folder, name) in left_out}

    for name in ("memory", "agent", "channels", "plugins", "bot"):
        shutil.copytree(ROOT / name, target / name, ignore=ignore)
    return Path(shutil.copy2(ROOT / "main.py", target))


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "folders",
    [
        *([f"plugins/{one}" for one in sorted(with_dependants([name]))] for name in FEATURES),
        [f"plugins/{name}" for name in FEATURES],
        [f"channels/{name}" for name in PLATFORMS],
    ],
    ids=[*FEATURES, "all features", "all channels but the pipe"],
)
async def test_a_bot_starts_and_talks_without(folders: list[str], tmp_path: Path) -> None:
    copied = copy_without(tmp_path / "tree", folders)
    assert not any((tmp_path / "tree" / name).exists() for name in folders)
    async with (
        OpenAIServer([Say("Hello yourself!")]) as server,
        talking(tmp_path, server, shell=f'python=$1; shift 2; exec "$python" {copied} "$@"') as bot,
    ):
        assert (await bot.says("Hello"))["text"] == "Hello yourself!"
        for command, answer in ANSWERS.items():
            assert answer in (await bot.says(command))["text"]
        listed = (await bot.says("/help context"))["text"]
        for folder, verb in VERBS.items():
            assert (f"`/context {verb}`" in listed) == (folder not in folders)
        assert await bot.ended() == 0
    assert bot.errors == ""
    log = (tmp_path / "data" / "logs" / "parley.log").read_text("utf-8")
    assert "started: Parley" in log
    assert "ERROR" not in log
    assert "WARNING" not in log


def test_a_broker_without_the_folder_of_the_cluster_is_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find_none(name: str) -> Iterator[ModuleType]:
        return iter(())

    monkeypatch.setattr(main, "find_modules", find_none)
    (tmp_path / ".env").write_text("BROKER_URL=amqp://guest:guest@127.0.0.1:9/\n")
    (tmp_path / "config.json").write_text(json.dumps({"broker": "{{secret.BROKER_URL}}"}))
    places = ("--config", str(tmp_path / "config.json"), "--data", str(tmp_path / "data"))
    assert main.main([*places, "--jsonl"]) == 1
    assert "plugins/cluster, and that folder is not there" in capsys.readouterr().err
