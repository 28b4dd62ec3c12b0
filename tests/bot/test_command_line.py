"""Tests of the command line's arguments."""

from __future__ import annotations

from pathlib import Path

from main import make_parser


def test_the_places_of_a_bot_stand_before_or_behind_a_command() -> None:
    for line, data, config in (
        ("", "data", "config.json"),
        ("restore FILE", "data", "config.json"),
        ("--data there restore FILE", "there", "config.json"),
        ("restore FILE --data there --config c.json", "there", "c.json"),
        ("--data here restore --data there FILE", "there", "config.json"),
        ("key list --data there", "there", "config.json"),
        ("key --data there list", "there", "config.json"),
    ):
        options = make_parser().parse_args(line.split())
        assert (options.data, options.config) == (Path(data), Path(config)), line
