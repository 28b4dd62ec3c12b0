"""The start of a bot, as far as the configuration decides it."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from bot.recent import Monitoring
from bot.settings import load_layers
from bot.start import TOKEN, BotStart


@pytest.mark.parametrize(
    ("channels", "environ", "said"),
    [
        ({}, {}, ""),
        ({"web": True}, {}, ""),
        ({}, {TOKEN: "1:x"}, "Also set up: Telegram. "),
        ({"wecom": {}, "mail": {}}, {TOKEN: "1:x"}, "Also set up: Telegram, WeCom, Mail. "),
    ],
)
def test_the_terminal_names_the_messengers_that_are_set_up(
    tmp_path: Path, channels: dict[str, object], environ: dict[str, str], said: str
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"channels": channels}))
    layers = load_layers(config, environ)
    start = BotStart(Namespace(), layers, is_terminal=True, watch=Monitoring())
    assert start.beside == (said and f"{said}/status shows each connection.")
