"""A test that the page of commands equals the one generated from the commands."""

from __future__ import annotations

from tests.docs.commands import PAGE, builtin, page


def test_the_page_of_commands_is_up_to_date_and_has_all() -> None:
    text = page()
    assert PAGE.read_text(encoding="utf-8") == text, "make docs writes it anew"
    for command in builtin():
        assert f"| `/{command.name}" in text
        for sub in command.subs:
            assert f"| `/{command.name} {sub.name}" in text
