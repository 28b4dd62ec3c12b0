"""Tests of the doctor: its findings, its advice, and the exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.models.base import ModelRefused, ModelUnlisted
from agent.models.brain import Brain
from agent.models.listed import ListedModel
from bot.checks import Finding, exit_code
from bot.settings import Layers, Settings
from plugins.operations import doctor
from plugins.operations.doctor import Probes, examine, report


class Seen(Probes, frozen=True):
    """An installation with observations that a test defines."""

    fault: str = ""
    listed: Sequence[str] = ("big", "small")
    error: Exception | None = None
    is_embedded: bool = True

    def probe_database(self) -> str:
        return self.fault

    async def list_models(self, layers: Layers, brain: Brain) -> Sequence[ListedModel]:
        if self.error:
            raise self.error
        return [ListedModel(name) for name in self.listed]

    def has_embedded(self) -> bool:
        return self.is_embedded

    async def examine_features(self, settings: Settings) -> Sequence[Finding]:
        return ()


Found = dict[str, Finding]
REFUSED = ModelRefused("The endpoint refuses the key; check OPENAI_API_KEY.")


class Checkup:
    """A configuration and a data folder for the doctor."""

    def __init__(self, folder: Path) -> None:
        self.config, self.data = folder / "config.json", folder / "data"
        self.config.write_text("{}")

    async def examined(self, seen: dict[str, Any] | None = None, **environ: str) -> Found:
        findings = await examine(Seen(self.config, self.data, environ, **(seen or {})))
        return {finding.name: finding for finding in findings}


@pytest.fixture
def bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkup:
    pins = tmp_path / "requirements.txt"
    pins.write_text(f"pytest=={pytest.__version__}  # via nothing\n")
    monkeypatch.setattr(doctor, "PINS", pins)
    return Checkup(tmp_path)


async def test_a_new_machine_without_a_key_is_well(bot: Checkup) -> None:
    found = await bot.examined()

    assert all(finding.is_ok for finding in found.values())
    assert list(found) == [
        *("python", "packages", "data", "database", "settings", "key", "demo model")
    ]
    assert not bot.data.exists()


async def test_a_database_that_is_damaged_is_named(bot: Checkup) -> None:
    damaged = "The database is damaged: row 3 is missing from an index."
    finding = (await bot.examined({"fault": damaged}))["database"]

    assert finding == Finding(
        "database",
        "broken",
        "The database is damaged: row 3 is missing from an index.",
        "Restore a backup: python main.py restore FILE",
    )


async def test_each_plugin_that_a_start_would_leave_out_is_named(bot: Checkup) -> None:
    folder = bot.data / "plugins"
    folder.mkdir(parents=True)
    (folder / "good.py").write_text("")
    assert "plugins" not in await bot.examined()

    (folder / "broken.py").write_text("import nowhere_to_be_found")
    finding = (await bot.examined())["plugins"]
    assert not finding.is_ok
    assert finding.sentence.startswith("The plugin 'broken' was left out: ModuleNotFoundError")
    assert str(folder) in finding.advice


async def test_settings_that_do_not_fit_are_named_and_end_the_round(bot: Checkup) -> None:
    bot.config.write_text('{"agent_max_steps": 0, "modell": "a"}')

    found = await bot.examined(OPENAI_API_KEY="sk-hush")

    assert list(found)[-1] == "settings"
    assert len(found["settings"].sentence.splitlines()) == 2


async def test_without_key_and_embedded_model_nobody_answers(bot: Checkup) -> None:
    found = await bot.examined({"is_embedded": False})

    assert not found["demo model"].is_ok
    assert "python main.py init" in found["demo model"].advice


async def test_a_named_model_without_a_key_is_named(bot: Checkup) -> None:
    found = await bot.examined(PARLEY_MODEL="big")

    assert found["key"].sentence == "No key is set, and 'big' needs one."


async def test_an_endpoint_that_has_the_model_is_well(bot: Checkup) -> None:
    probes = {"is_embedded": False}
    for model in ("auto", "big"):
        found = await bot.examined(probes, OPENAI_API_KEY="sk-hush", PARLEY_MODEL=model)
        assert all(finding.is_ok for finding in found.values())
        assert found["endpoint"].sentence == "It answers; models listed: 2."


async def test_an_endpoint_without_the_model_says_which_there_are(bot: Checkup) -> None:
    found = await bot.examined(OPENAI_API_KEY="sk-hush", PARLEY_FALLBACK_MODELS="gone")

    assert found["endpoint"] == Finding(
        "endpoint",
        "broken",
        "It answers, but does not list the model 'gone'.",
        "Set one that it lists, such as: big, small",
    )


async def test_an_endpoint_that_refuses_or_hangs_is_told_of(bot: Checkup) -> None:
    found = await bot.examined({"error": REFUSED}, OPENAI_API_KEY="sk-hush")
    assert found["endpoint"].sentence == "The endpoint refuses the key; check OPENAI_API_KEY."
    assert "sk-hush" not in report(list(found.values()))

    found = await bot.examined({"error": TimeoutError()}, OPENAI_BASE_URL="http://127.0.0.1:1")
    assert found["endpoint"].sentence == "The endpoint has not answered for 15 seconds."


GROQ = '{"model": "llama", "brain": {"provider": "groq"}}'


async def test_the_key_of_the_provider_that_is_set_is_looked_for(bot: Checkup) -> None:
    bot.config.write_text(GROQ)

    without = await bot.examined(OPENAI_API_KEY="sk-another")
    assert without["key"] == Finding(
        "key",
        "broken",
        "GROQ_API_KEY is not set, and 'llama' needs it.",
        "Put GROQ_API_KEY into the environment or .env.",
    )
    assert "endpoint" not in without
    assert (await bot.examined(GROQ_API_KEY="k"))["key"].sentence == "GROQ_API_KEY is set."


async def test_the_places_of_agents_and_summaries_are_looked_at_too(bot: Checkup) -> None:
    bot.config.write_text(
        """{"model": "big", "context": {"summary_brain": {"provider": "mistral", "model": "small"}},
        "agents": [{"id": "writer", "brain": {"provider": "deepseek", "model": "gone"}},
                   {"id": "twin", "system_prompt": "You are two."},
                   {"id": "home", "brain": {"provider": "ollama", "model": "big"}}]}"""
    )

    found = await bot.examined(OPENAI_API_KEY="k", DEEPSEEK_API_KEY="k")

    assert [name for name in found if name.startswith(("key", "endpoint"))] == [
        *("key", "key of summaries", "key of writer", "key of home"),
        *("endpoint", "endpoint of writer", "endpoint of home"),
    ]
    assert found["key of summaries"].sentence == "MISTRAL_API_KEY is not set, and 'small' needs it."
    assert "does not list the model 'gone'" in found["endpoint of writer"].sentence
    assert found["key of home"] == Finding("key of home", "ok", "None is set, and none is needed.")


async def test_a_provider_that_lists_nothing_is_believed(bot: Checkup) -> None:
    bot.config.write_text('{"model": "mine", "brain": {"provider": "azure"}}')
    probes = {"error": ModelUnlisted("It does not say which models there are.")}
    found = await bot.examined(probes, AZURE_OPENAI_API_KEY="k")
    assert found["key"].sentence == "AZURE_OPENAI_ENDPOINT is not set, and 'mine' needs it."
    found = await bot.examined(
        probes, AZURE_OPENAI_API_KEY="k", AZURE_OPENAI_ENDPOINT="https://me.openai.azure.com/"
    )
    assert found["endpoint"].is_ok


async def test_a_model_is_known_by_the_name_that_its_provider_takes(bot: Checkup) -> None:
    listed = ("llama3.1:latest", "gemini-2.5-flash")
    for provider, model in (("ollama", "llama3.1"), ("gemini", "models/gemini-2.5-flash")):
        bot.config.write_text(f'{{"model": "{model}", "brain": {{"provider": "{provider}"}}}}')
        found = await bot.examined({"listed": listed}, GEMINI_API_KEY="k")
        assert found["endpoint"].is_ok


def test_packages_are_compared_with_what_was_tested() -> None:
    pins = "aa==1.0  # via x\n    # a comment\nb-b==2\nc.c==3\n"
    versions = {"aa": "1.0", "b-b": "2.1"}

    assert doctor.check_packages(pins, versions.get).sentence == (
        "b-b is 2.1, not 2; c.c is missing, not 3."
    )
    assert doctor.check_packages("aa==1.0\n", versions.get).is_ok
    assert doctor.find_installed_version("no-such-package-anywhere") is None


def test_python_is_new_enough_or_not() -> None:
    assert not doctor.check_python((3, 10, 9)).is_ok
    assert doctor.check_python((3, 11, 0)).is_ok


def test_a_data_folder_that_cannot_be_written_or_is_full_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = doctor.check_data_folder(Path("/proc/parley/data"))  # even root may not write there
    assert not finding.is_ok
    assert finding.sentence.startswith("/proc cannot be written: ")
    monkeypatch.setattr(doctor, "LEAST_FREE", 10**18)
    assert not doctor.check_data_folder(tmp_path).is_ok
    assert os.listdir(tmp_path) == []


def test_the_report_says_what_to_do_and_the_exit_code_agrees() -> None:
    good, bad = (
        Finding("python", "ok", "Python 3.11."),
        Finding("key", "broken", "None.", "Set one."),
    )

    assert report([good, bad]) == (
        "ok   python: Python 3.11.\nBAD  key: None.\n     Set one.\n\nTo fix: 1."
    )
    assert report([good]) == "ok   python: Python 3.11.\n\nAll is well."
    assert (exit_code([good, bad]), exit_code([good])) == (1, 0)
