"""The rules on the page about hook rules: each of them is taken, and does what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from bot.settings import SettingError, SettingsStore, load_layers
from memory.context.limits import Limits
from memory.events import EventName
from plugins.rules import Rule, auto_compact, find_compacting
from plugins.rules.conditions import Condition
from plugins.rules.faults import members
from plugins.rules.rule import Action
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "hooks.md").read_text("utf-8")
FIRST, INJECTED, REPLACING = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def rules_in(folder: Path, text: str) -> tuple[Rule, ...]:
    """The rules in force with this configuration."""
    config = folder / "config.yaml"
    config.write_text(text)
    return SettingsStore(load_layers(config, {})).effective().hooks


def test_the_examples_are_the_rules_that_the_page_says(tmp_path: Path) -> None:
    tidy, careful, many = rules_in(tmp_path, FIRST)
    assert (tidy.on, tidy.action.type) == ("turn_end", "compact_context")
    assert (careful.condition.type, careful.max_fires) == ("all_of", 3)
    assert (many.condition.type, many.action.type) == ("tool_calls", "notify")
    assert rules_in(tmp_path, INJECTED) == (auto_compact(Limits().but(strategy="summarize")),)
    rules = rules_in(tmp_path, REPLACING)
    assert [rule.condition.type for rule in rules] == ["turn_count", "tool_calls"]
    assert find_compacting(rules)
    (typed,) = re.findall(r"`/config hooks (\[\{.*?\}\])`", PAGE, re.DOTALL)
    assert rules_in(tmp_path, yaml.safe_dump({"hooks": json.loads(typed, strict=False)}))


def test_the_message_about_a_faulty_rule_is_as_on_the_page(tmp_path: Path) -> None:
    (message,) = re.findall(r"^```text\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
    with pytest.raises(SettingError) as caught:
        rules_in(tmp_path, FIRST.replace("{type: tool_failed}", "{type: tool_faild}"))
    assert str(caught.value) == message


def test_every_event_condition_and_action_is_on_the_page() -> None:
    kinds = [*members(Condition), *members(Action)]
    types = [get_args(kind.model_fields["type"].annotation)[0] for kind in kinds]
    fields = [*Rule.model_fields, *(name for kind in kinds for name in kind.model_fields)]
    gone = [name for name in (*get_args(EventName), *types, *fields) if f"`{name}`" not in PAGE]
    assert not [name for name in gone if name != "type"]
