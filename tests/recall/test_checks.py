"""The check of the search by meaning."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bot.settings.schema import validate
from plugins.recall import checks


@pytest.mark.parametrize(
    ("values", "is_installed", "said"),
    [
        ({}, False, []),
        ({"search.semantic": True}, False, ["The packages of search.semantic are missing."]),
        ({"search.semantic": True}, True, ["Its model is installed."]),
    ],
)
async def test_the_doctor_says_whether_the_model_is_there(
    monkeypatch: pytest.MonkeyPatch, values: Mapping[str, bool], is_installed: bool, said: list[str]
) -> None:
    monkeypatch.setattr(checks, "is_installed", lambda: is_installed)
    found = await checks.examine(validate(values), may_connect=True)
    assert [one.sentence for one in found] == said
    assert all(one.is_ok is is_installed for one in found)
