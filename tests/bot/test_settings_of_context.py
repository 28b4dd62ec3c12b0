"""`runtime.context` as in its document, secrets, and values that depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.settings import Settings, SettingsStore, load_layers
from bot.settings.schema import SettingError

BLOCK = "model: gpt-4o-mini\nruntime:\n  context:\n    strategy: summarize\n"
KEY = {"DEEPSEEK_API_KEY": "deep-key-123"}
BRAIN = """\
    summary_brain:
      provider: deepseek
      model: deepseek-chat
      config:
        api_key: "{{secret.DEEPSEEK_API_KEY}}"
      context:
        max_tokens: 65536
        output_reserved: 4096
        strategy: truncate
        keep_recent: 15
        compression_trigger: 0.75
        summary_max_tokens: 512
        auto_compact: true
        summary_brain:
          provider: deepseek
          model: deepseek-reasoner
          backend: openai_compat
          config:
            api_key: "{{secret.DEEPSEEK_API_KEY}}"
"""

Taken = Callable[..., Settings]


@pytest.fixture
def taken(tmp_path: Path) -> Taken:
    """Return the settings in force by a YAML file; raises SettingError."""

    def load(written: str, **environ: str) -> Settings:
        config = tmp_path / "config.yaml"
        config.write_text(written)
        return SettingsStore(load_layers(config, environ)).effective()

    return load


def refused(taken: Taken, written: str, **environ: str) -> str:
    with pytest.raises(SettingError) as caught:
        taken(written, **environ)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("compression_trigger", "0.0", 0.0),
        ("summary_max_tokens", "1", 1),
        ("auto_compact", "On", True),
    ],
)
def test_a_value_of_the_document_is_taken(
    taken: Taken, name: str, written: str, value: object
) -> None:
    context = taken(f"{BLOCK}    {name}: {written}\n").context
    assert getattr(context, name) == value


@pytest.mark.parametrize("written", ["null", ""])
def test_no_brain_for_summaries_is_written_as_null_or_nothing(taken: Taken, written: str) -> None:
    context = taken(f"{BLOCK}    summary_brain: {written}\n").context
    assert context.summary_brain == Settings().context.summary_brain


def test_a_ratio_that_is_none_is_refused(taken: Taken) -> None:
    for ratio in ("1.01", "-0.1"):
        said = refused(taken, f"{BLOCK}    compression_trigger: {ratio}\n")
        assert "compression_trigger" in said


def test_a_brain_for_summaries_may_have_a_context_with_a_brain_of_its_own(taken: Taken) -> None:
    brain: Any = taken(BLOCK + BRAIN, **KEY).context.summary_brain
    assert brain.model == "deepseek-chat"


def test_a_wrong_strategy_there_is_told_the_two_that_count(taken: Taken) -> None:
    for wrong in ("sumarize", "7", "slim"):
        said = refused(taken, BLOCK.replace("summarize", wrong))
        assert "runtime.context.strategy" in said
        assert "truncate or summarize" in said
        assert not [other for other in ("trim", "full", "structured") if other in said]


@pytest.mark.parametrize("name", ["{{secret.X_KEY}}", "{{  secret.X_KEY }}"])
def test_a_secret_is_filled_in_with_and_without_spaces(taken: Taken, name: str) -> None:
    """As a key, and within a text."""
    brain = BRAIN.replace("{{secret.DEEPSEEK_API_KEY}}", name)
    written = f'{BLOCK}{brain}system_prompt: "Say {name}."\n'
    assert taken(written, X_KEY="x-key-123").system_prompt == "Say x-key-123."


@pytest.mark.parametrize("field", ["system_prompt", "api_key"])
def test_a_secret_without_a_name_is_refused(taken: Taken, field: str) -> None:
    written = BLOCK + BRAIN
    for name in ("{{secret.}}", "{{ secret. }}"):
        if field == "api_key":
            said = refused(taken, written.replace("{{secret.DEEPSEEK_API_KEY}}", name), **KEY)
        else:
            said = refused(taken, f'{written}system_prompt: "Say {name}."\n', **KEY)
        assert field in said
        assert "name" in said
        assert "plain text" not in said


@pytest.mark.parametrize(
    ("trigger", "reserve", "is_taken"), [(0.3, 0.3, False), (0.2, 0.4, False), (0.3, 0.29, True)]
)
def test_a_reserve_that_is_no_less_than_the_trigger_is_refused(
    taken: Taken, trigger: float, reserve: float, is_taken: bool
) -> None:
    written = (
        "model: gpt-4o-mini\n"
        f"context: {{strategy: structured, trigger_ratio: {trigger}, reserve_ratio: {reserve}}}\n"
    )
    if is_taken:
        assert taken(written).context.reserve_ratio == reserve
        return
    said = refused(taken, written)
    assert "reserve_ratio" in said
    assert "trigger_ratio" in said


@pytest.mark.parametrize("template", ["A summary was made.", "{task_overview} and {nothing}"])
def test_a_template_without_fields_or_with_a_typo_is_refused(taken: Taken, template: str) -> None:
    written = f'context:\n  strategy: structured\n  summary_template: "{template}"\n'
    assert "summary_template" in refused(taken, written)
