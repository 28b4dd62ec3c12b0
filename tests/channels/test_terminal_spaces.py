"""The terminal breaks no line at a space that keeps words together."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as some

from channels.terminal.display import command_reply, markdown, note, question, without_controls

SPACES = "\u00a0\u202f\u2007"
WIDTH = 24
UNITS = some.lists(
    some.tuples(some.sampled_from(("12", "7,5", "t3")), some.sampled_from(SPACES)), min_size=1
).map(lambda parts: [f"{number}{space}kg" for number, space in parts])
SHAPES = ("{}", "> {}", "- {}", "**{}**", "| a | b |\n|---|---|\n| {} | x |", "# {}")


@given(UNITS, some.sampled_from(SHAPES))
def test_what_such_a_space_holds_together_stands_on_one_line(units: list[str], shape: str) -> None:
    words = " and ".join(units)
    for draw in (markdown, command_reply, note, question):
        shown = without_controls(draw(shape.format(words), WIDTH))
        assert sorted(re.findall(rf"[\w,]+[{SPACES}]kg", shown)) == sorted(units), shown
        assert all(len(line) <= WIDTH for line in shown.split("\n")), shown


def test_such_a_space_that_is_written_as_a_name_is_one_too() -> None:
    shown = without_controls(markdown("&nbsp;".join(("It weighs 12", "kg.")), 14))
    assert shown == "It weighs\n12\u00a0kg.\n"
