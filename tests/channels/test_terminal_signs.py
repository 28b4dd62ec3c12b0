"""Signs that act on the terminal or reorder what is read don't get there, however they are written:
as they are, or as Markdown's numbers of characters."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.terminal import display

ACTING = [*range(0x20), 0x7F, *range(0x80, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
STYLED = re.compile(r"\x1b\[[0-9;]*m")
PLACES = (
    "a {} b",
    "# a {} b",
    "- a {} b",
    "> *a {} b*",
    "| a {} | b |\n|---|---|\n| c {} | d |",
    "[a {} b](http://a.b/{} 'c {}')",
    "![a {} b](c.png)",
    "`a {} b`",
    "```a{}\nb {} c\n```",
)


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=40)
@given(st.sampled_from(ACTING), st.sampled_from(["{}", "&#{};", "&#x{:x};"]), st.integers(10, 90))
def test_no_sign_acts_on_the_terminal(place: str, number: int, form: str, width: int) -> None:
    sign = chr(number) if form == "{}" else form.format(number)
    source = place.replace("{}", sign)
    for shown in (
        display.markdown(source, width),
        display.command_reply(source, width),
        display.render_tail(source, width, 10),
    ):
        left = STYLED.sub("", shown)
        assert not [s for s in left if ord(s) in ACTING and s not in "\n\t"], repr(shown)
